#include "distributed/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace shoal::distributed {
namespace {

Key key_of(unsigned char byte) {
  Key key;
  key.fill(byte);
  return key;
}

TEST(Protocol, FramesComeBackWhole) {
  Seal out(key_of(1)), in(key_of(1));
  const std::string first = out.frame(MessageType::kReply, 7, "body");
  const std::string both = first + out.frame(MessageType::kGoodbye, 8, "");
  for (std::size_t size = 0; size < first.size(); ++size) {
    EXPECT_EQ(parse_frame(std::string_view(both).substr(0, size), 4).size, 0U);
  }
  const FrameView frame = parse_frame(both, 4);
  EXPECT_EQ(frame.size, first.size());
  EXPECT_EQ(frame.type, MessageType::kReply);
  EXPECT_EQ(frame.seen, 7U);
  EXPECT_EQ(frame.body, "body");
  EXPECT_TRUE(in.accepts(frame));
  const FrameView next = parse_frame(std::string_view(both).substr(frame.size), 4);
  EXPECT_EQ(next.type, MessageType::kGoodbye);
  EXPECT_TRUE(in.accepts(next));
  EXPECT_FALSE(in.accepts(next));  // Once more is another number.
  EXPECT_THROW(parse_frame(both, 3), Malformed);
}

TEST(Protocol, TagsCoverEveryByteAndTheKey) {
  const std::string frame = Seal(key_of(1)).frame(MessageType::kRequest, 1, "body");
  EXPECT_FALSE(Seal(key_of(2)).accepts(parse_frame(frame, 100)));
  EXPECT_FALSE(Seal().accepts(parse_frame(frame, 100)));
  for (std::size_t i = 0; i < frame.size(); ++i) {
    std::string changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    bool accepted = false;
    try {
      const FrameView view = parse_frame(changed, 100);
      accepted = view.size != 0 && Seal(key_of(1)).accepts(view);
    } catch (const Malformed&) {
    }
    EXPECT_FALSE(accepted) << i;
  }
}

TEST(Protocol, MessagesComeBackWhole) {
  const Request request{.id = 9,
                        .kind = RequestKind::kBarrier,
                        .key = "k",
                        .value = std::string("\0v", 2),
                        .overwrite = true,
                        .increment = -3,
                        .timeout = std::chrono::milliseconds(5),
                        .processes = {2, 1}};
  const auto back = decode<Request>(encode(request));
  EXPECT_EQ(back.id, request.id);
  EXPECT_EQ(back.kind, request.kind);
  EXPECT_EQ(back.key, request.key);
  EXPECT_EQ(back.value, request.value);
  EXPECT_EQ(back.overwrite, request.overwrite);
  EXPECT_EQ(back.increment, request.increment);
  EXPECT_EQ(back.timeout, request.timeout);
  EXPECT_EQ(back.processes, request.processes);
  const auto reply = decode<Reply>(encode(Reply{.entries = {{"a", "b"}}, .live = {{1, 2}}}));
  EXPECT_EQ(reply.entries.at(0).second, "b");
  EXPECT_EQ(reply.live.at(0), std::pair(1, std::uint64_t{2}));
}

// Whatever comes is a message or Malformed, and takes memory in proportion to its size.
template <class Message>
void expect_message_or_malformed(const std::string& bytes) {
  try {
    decode<Message>(bytes);
  } catch (const Malformed&) {
  }
}

TEST(Protocol, AnyBytesAreHandled) {
  std::mt19937 random(3);
  const std::vector<std::string> valid = {
      encode(Join{.version = "1", .job = "j", .me = Member()}),
      encode(Request{.key = "k", .processes = {1, 2, 3}}),
      encode(Started{.members = {Member(), Member()}}),
      encode(Faults{.faults = {{.text = "t"}}}),
  };
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = valid[random() % valid.size()];
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    for (unsigned flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    expect_message_or_malformed<Join>(bytes);
    expect_message_or_malformed<Request>(bytes);
    expect_message_or_malformed<Started>(bytes);
    expect_message_or_malformed<Faults>(bytes);
    expect_message_or_malformed<Reply>(bytes);
    try {
      parse_frame(bytes, 100);
    } catch (const Malformed&) {
    }
  }
  EXPECT_THROW(decode<Faults>(std::string("\xff\xff\xff\xff", 4)), Malformed);
  EXPECT_THROW(decode<Leaving>(encode(Leaving{1}) + "x"), Malformed);
}

TEST(Outbox, KeepsWhatWasNotSeen) {
  Outbox outbox;
  for (int i = 0; i < 3; ++i) outbox.keep(MessageType::kReply, std::to_string(i));
  outbox.seen(2);
  ASSERT_EQ(outbox.items().size(), 1U);
  EXPECT_EQ(outbox.items()[0].body, "2");
  outbox.seen(1);  // Old news.
  outbox.seen(900);
  EXPECT_TRUE(outbox.items().empty());
}

}  // namespace
}  // namespace shoal::distributed
