#include "agent_frames.h"

#include <arpa/inet.h>

#include <array>
#include <cstring>
#include <stdexcept>

namespace shoal::tool {

namespace {

constexpr std::size_t kHeaderSize = 16;
constexpr std::uint32_t kMostBytes = 64 << 20;

}  // namespace

std::string encode_frame(FrameType type, std::int32_t process, std::int32_t value, std::string_view bytes) {
  const std::array<std::uint32_t, 4> header = {
      htonl(static_cast<std::uint32_t>(type)), htonl(static_cast<std::uint32_t>(process)),
      htonl(static_cast<std::uint32_t>(value)), htonl(static_cast<std::uint32_t>(bytes.size()))};
  std::string frame(kHeaderSize, '\0');
  std::memcpy(frame.data(), header.data(), kHeaderSize);
  return frame += bytes;
}

std::optional<Frame> FrameReader::next() {
  if (buffer_.size() - taken_ < kHeaderSize) return std::nullopt;
  std::array<std::uint32_t, 4> header;
  std::memcpy(header.data(), buffer_.data() + taken_, kHeaderSize);
  for (std::uint32_t& word : header) word = ntohl(word);
  const std::uint32_t size = header[3];
  if (header[0] > static_cast<std::uint32_t>(FrameType::kFailure) || size > kMostBytes) {
    throw std::runtime_error("what came is not of this protocol");
  }
  if (buffer_.size() - taken_ < kHeaderSize + size) {
    buffer_.erase(0, taken_);
    taken_ = 0;
    return std::nullopt;
  }
  Frame frame = {static_cast<FrameType>(header[0]), static_cast<std::int32_t>(header[1]),
                 static_cast<std::int32_t>(header[2]), buffer_.substr(taken_ + kHeaderSize, size)};
  taken_ += kHeaderSize + size;
  return frame;
}

// A list of texts without null characters, as arguments and variables of programs are, each ended by one.

std::string encode_job(const HostJob& job) {
  std::string text;
  const auto add = [&](const std::string& item) { text.append(item).push_back('\0'); };
  for (const int number : {job.num_processes, job.first_process, job.local_count}) add(std::to_string(number));
  for (const std::string* item : {&job.id, &job.secret, &job.folder}) add(*item);
  add(std::to_string(job.arguments.size()));
  for (const std::string& argument : job.arguments) add(argument);
  for (const std::string& variable : job.environment) add(variable);
  return text;
}

HostJob decode_job(std::string_view text) {
  const auto take = [&]() -> std::string {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) throw std::runtime_error("a job is cut off");
    std::string item(text.substr(0, end));
    text.remove_prefix(end + 1);
    return item;
  };
  HostJob job;
  for (int* number : {&job.num_processes, &job.first_process, &job.local_count}) *number = std::stoi(take());
  for (std::string* item : {&job.id, &job.secret, &job.folder}) *item = take();
  for (std::size_t left = std::stoul(take()); left > 0; --left) job.arguments.push_back(take());
  while (!text.empty()) job.environment.push_back(take());
  return job;
}

}  // namespace shoal::tool
