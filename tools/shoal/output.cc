#include "output.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <nlohmann/json.hpp>

#include "base/safe_file.h"

namespace shoal::tool {

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 20;

}  // namespace

bool write_all(int descriptor, std::string_view text, int signals) {
  struct stat status = {};
  // A pipe that poll() calls writable takes this much without blocking.
  const bool never_blocks = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const std::size_t piece = never_blocks ? SIZE_MAX : PIPE_BUF;
  while (!text.empty()) {
    if (!never_blocks) {
      pollfd places[2] = {{descriptor, POLLOUT, 0}, {signals, POLLIN, 0}};
      if (poll(places, 2, -1) < 0 && errno != EINTR) return false;
      if (places[0].revents == 0) {
        errno = 0;
        if (places[1].revents != 0) return false;
        continue;
      }
    }
    const ssize_t count = ::write(descriptor, text.data(), std::min(text.size(), piece));
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return true;
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Output::Output(OutputOptions options) : options_(std::move(options)) {
  if (!options_.log_dir.empty()) std::filesystem::create_directories(options_.log_dir);
}

void Output::write(int process, Stream stream, std::string_view bytes) {
  std::string& pending = pending_[{process, stream}];
  const std::size_t end = bytes.rfind('\n');
  if (end != std::string_view::npos) {
    pending += bytes.substr(0, end + 1);
    emit(process, stream, pending);
    pending.clear();
    bytes.remove_prefix(end + 1);
  }
  pending += bytes;
  if (pending.size() > kLongestLine) {
    emit(process, stream, pending);
    pending.clear();
  }
}

void Output::finish(int process) {
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    std::string& pending = pending_[{process, stream}];
    if (!pending.empty()) emit(process, stream, pending);
    pending.clear();
  }
}

void Output::event(std::string_view name, const std::string& members) {
  if (options_.json) put(STDOUT_FILENO, fmt::format("{{\"event\":\"{}\",{}}}\n", name, members));
}

void Output::emit(int process, Stream stream, std::string_view lines) {
  log(process, lines);
  const int descriptor = stream == Stream::kOutput || options_.json ? STDOUT_FILENO : STDERR_FILENO;
  if (!options_.prefix && !options_.json) return put(descriptor, lines);
  const std::string prefix = fmt::format("[{}] ", process);
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    if (options_.json) {
      text += fmt::format("{{\"event\":\"output\",\"process\":{},\"stream\":\"{}\",\"text\":{}}}\n", process,
                          stream == Stream::kOutput ? "stdout" : "stderr", json_text(line));
    } else {
      text += prefix;
      text += line;
      text += '\n';
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  put(descriptor, text);
}

void Output::log(int process, std::string_view lines) {
  if (options_.log_dir.empty()) return;
  Descriptor& file = logs_[process];
  if (!file.is_open()) {
    const auto path = options_.log_dir / fmt::format("process_{}.log", process);
    file = Descriptor(create_file(path).release());
  }
  if (!write_all(file.get(), lines)) throw system_error(fmt::format("the log of process {}", process));
}

void Output::put(int descriptor, std::string_view text) {
  bool& is_lost = is_lost_[descriptor];
  if (is_lost || write_all(descriptor, text, options_.signals)) return;
  is_lost = true;
  if (errno != 0 && descriptor == STDOUT_FILENO && options_.on_broken) options_.on_broken();
}

}  // namespace shoal::tool
