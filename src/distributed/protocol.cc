#include "distributed/protocol.h"

#include <fmt/format.h>

#include <cstring>

namespace shoal::distributed {
namespace {

constexpr std::size_t kSealedHeaderBytes = kHeaderBytes - std::tuple_size_v<Tag>;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  MessageType type = MessageType::kHello;
  std::uint32_t length = 0;
  std::uint64_t seen = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.magic, self.version, self.type, self.length, self.seen);
  }
};

}  // namespace

FrameView parse_frame(std::string_view bytes, std::size_t max_body) {
  // What is no frame is refused as soon as its first bytes are there; the version before all that it may change.
  std::uint32_t magic = kMagic;
  std::memcpy(&magic, bytes.data(), std::min(bytes.size(), sizeof(magic)));
  if (magic != kMagic) throw Malformed("these are not the frames of Shoal");
  if (bytes.size() >= sizeof(magic) + sizeof(std::uint16_t)) {
    std::uint16_t version = 0;
    std::memcpy(&version, bytes.data() + sizeof(magic), sizeof(version));
    if (version != kProtocolVersion) {
      throw Malformed(
          fmt::format("version {} of the protocol is spoken, and here version {}: all processes must use "
                      "one version of Shoal",
                      version, kProtocolVersion));
    }
  }
  FrameView frame;
  if (bytes.size() < kHeaderBytes) return frame;
  frame.sealed_header = bytes.substr(0, kSealedHeaderBytes);
  const auto header = decode<Header>(frame.sealed_header);
  if (header.length > max_body) {
    throw Malformed(fmt::format("a message of {} bytes, where {} are allowed", header.length, max_body));
  }
  if (bytes.size() - kHeaderBytes < header.length) return frame;
  frame.size = kHeaderBytes + header.length;
  frame.type = header.type;
  frame.seen = header.seen;
  std::memcpy(frame.tag.data(), bytes.data() + kSealedHeaderBytes, frame.tag.size());
  frame.body = bytes.substr(kHeaderBytes, header.length);
  return frame;
}

bool is_counted(MessageType type) {
  switch (type) {
    case MessageType::kHello:
    case MessageType::kChallenge:
    case MessageType::kJoin:
    case MessageType::kAccepted:
    case MessageType::kRefused:
    case MessageType::kHeartbeat:
      return false;
    default:
      return true;
  }
}

Tag Seal::next_tag(std::string_view header, std::string_view body) {
  if (!key_) return {};
  const std::uint64_t number = count_++;
  return keyed_tag(*key_, {{reinterpret_cast<const char*>(&number), sizeof(number)}, header, body});
}

std::string Seal::frame(MessageType type, std::uint64_t seen, std::string_view body) {
  std::string frame = encode(Header{.type = type, .length = static_cast<std::uint32_t>(body.size()), .seen = seen});
  const Tag tag = next_tag(frame, body);
  frame.append(reinterpret_cast<const char*>(tag.data()), tag.size());
  frame += body;
  return frame;
}

bool Seal::accepts(const FrameView& frame) { return equal_tags(next_tag(frame.sealed_header, frame.body), frame.tag); }

Seals make_seals(const std::optional<Key>& secret, const Nonce& client, const Nonce& service) {
  if (!secret) return {};
  const auto key = [&](std::string_view direction) {
    return derive_key(*secret, {"shoal control", direction, as_text(client), as_text(service)});
  };
  return {Seal(key("to service")), Seal(key("to client"))};
}

}  // namespace shoal::distributed
