// What is sent to the coordination service: any bytes are messages or are refused, and whatever members ask for in
// whatever order, each request is answered once.
#include <fuzzer/FuzzedDataProvider.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "distributed/key_value_store.h"
#include "distributed/protocol.h"

namespace shoal::distributed {
namespace {

void expect(bool condition) {
  if (!condition) std::abort();  // The fuzzer shows where, and keeps the input.
}

// What can be read is written as it was.
template <class Message>
void read(std::string_view body) {
  try {
    expect(encode(decode<Message>(body)) == body);
  } catch (const Malformed&) {
  }
}

void read_body(MessageType type, std::string_view body) {
  switch (type) {
    case MessageType::kHello:
      return read<Hello>(body);
    case MessageType::kChallenge:
      return read<Challenge>(body);
    case MessageType::kJoin:
      return read<Join>(body);
    case MessageType::kAccepted:
      return read<Accepted>(body);
    case MessageType::kRefused:
      return read<Refused>(body);
    case MessageType::kStarted:
      return read<Started>(body);
    case MessageType::kHeartbeat:
      return read<Heartbeat>(body);
    case MessageType::kRequest:
      return read<Request>(body);
    case MessageType::kReply:
      return read<Reply>(body);
    case MessageType::kReport:
      return read<Fault>(body);
    case MessageType::kFaults:
      return read<Faults>(body);
    case MessageType::kLeaving:
      return read<Leaving>(body);
    case MessageType::kAsk:
      return read<Ask>(body);
    case MessageType::kAnswer:
      return read<Answer>(body);
    case MessageType::kGoodbye:
      return;
  }
}

// The bytes of a connection, as they are.
void read_stream(std::string_view bytes) {
  Seal without_secret;
  Seal with_secret(Key{1, 2, 3});
  try {
    while (!bytes.empty()) {
      const FrameView frame = parse_frame(bytes, kMaxUntrustedBody);
      if (frame.size == 0) return;
      expect(frame.size <= bytes.size() && frame.body.size() <= kMaxUntrustedBody);
      without_secret.accepts(frame);
      expect(!with_secret.accepts(frame));
      read_body(frame.type, frame.body);
      bytes.remove_prefix(frame.size);
    }
  } catch (const Malformed&) {
  }
}

// Requests of the members of a job, some of which go.
void use_board(FuzzedDataProvider& data) {
  constexpr int kMembers = 3;
  std::vector<Member> members(kMembers);
  for (int i = 0; i < kMembers; ++i) members[static_cast<std::size_t>(i)].process = i;
  std::vector<bool> is_gone(kMembers);
  struct Asked {
    int process;
    int answers = 0;
  };
  std::vector<std::shared_ptr<Asked>> asked;
  Board board(members, [&](const Fault&) { board.expect_failure(); });
  Board::Time now{};
  while (data.remaining_bytes() > 0) {
    const int process = data.ConsumeIntegralInRange(0, kMembers - 1);
    switch (data.ConsumeIntegralInRange(0, 15)) {
      case 0:
        now += std::chrono::milliseconds(data.ConsumeIntegral<std::uint16_t>());
        board.expire(now);
        break;
      case 1:
        if (!is_gone[static_cast<std::size_t>(process)]) board.remove(process);
        is_gone[static_cast<std::size_t>(process)] = true;
        break;
      case 2:
        board.expect_failure();
        board.fail_all("a failure");
        break;
      default: {
        if (is_gone[static_cast<std::size_t>(process)]) break;
        Request request;
        request.kind = static_cast<RequestKind>(data.ConsumeIntegralInRange(0, static_cast<int>(RequestKind::kLast)));
        request.key = data.PickValueInArray({"a", "a/b", "a/c", "d", ""});
        request.value = data.ConsumeRandomLengthString(20);
        request.overwrite = data.ConsumeBool();
        request.increment = data.ConsumeIntegral<std::int64_t>();
        request.timeout = std::chrono::milliseconds(data.ConsumeIntegral<std::int64_t>());
        for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) {
          request.processes.push_back(data.ConsumeIntegralInRange(-1, kMembers));
        }
        const auto& one = asked.emplace_back(std::make_shared<Asked>(Asked{process}));
        board.handle(process, request, now, [one = one](const Reply&) { expect(++one->answers == 1); });
      }
    }
  }
  board.expire(Board::Time::max());
  expect(!board.next_deadline());
  for (const auto& one : asked) expect(one->answers == 1 || is_gone[static_cast<std::size_t>(one->process)]);
}

}  // namespace
}  // namespace shoal::distributed

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace shoal::distributed;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 3 == 0) {
    read_stream(rest);
  } else if (bytes[0] % 3 == 1) {
    // A frame of any type with any body.
    if (rest.empty()) return 0;
    const auto type =
        static_cast<MessageType>(static_cast<unsigned char>(rest[0]) % (static_cast<unsigned>(MessageType::kLast) + 1));
    read_stream(Seal().frame(type, 0, rest.substr(1)));
  } else {
    FuzzedDataProvider data(bytes + 1, size - 1);
    use_board(data);
  }
  return 0;
}
