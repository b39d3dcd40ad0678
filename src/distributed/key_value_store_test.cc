#include "distributed/key_value_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shoal::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A store of at most 1000 bytes, of two processes. Each entry costs 128 bytes beside key and value.
class BoundedStore : public ::testing::Test {
 protected:
  /// The answer; one that has not come has the text "waits".
  Reply ask(Request request, int process = 0) {
    // An answer may come when nobody looks any more.
    const auto reply = std::make_shared<Reply>(Reply{.text = "waits"});
    store_.handle(process, request, {}, [reply](Reply answer) { *reply = std::move(answer); });
    return *reply;
  }
  Reply set(const std::string& key, std::size_t bytes, bool overwrite = false) {
    return ask({.kind = RequestKind::kSet, .key = key, .value = std::string(bytes, 'v'), .overwrite = overwrite});
  }

  static std::vector<Member> two_members() {
    std::vector<Member> members(2);
    members[1].process = 1;
    return members;
  }

  Board store_{two_members(), [](const Fault&) {}, 1000};
};

TEST_F(BoundedStore, RefusesWhatItHasNoRoomFor) {
  EXPECT_EQ(set("a", 700).status, Status::kOk);
  const Reply refused = set("b", 100);
  EXPECT_EQ(refused.status, Status::kState);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("key_value_set: the keys and values of the job"), HasSubstr("take 829 bytes already"),
                    HasSubstr("the 229 of \"b\""), HasSubstr("more than 1000"), HasSubstr("key_value_delete")));
  // The others go on, and what is there stays.
  EXPECT_EQ(ask({.kind = RequestKind::kTryGet, .key = "a"}, 1).entries.at(0).second.size(), 700U);
  EXPECT_TRUE(ask({.kind = RequestKind::kTryGet, .key = "b"}, 1).entries.empty());
  EXPECT_EQ(set("b", 40).status, Status::kOk);
}

TEST_F(BoundedStore, WhatIsRemovedOrReplacedMakesRoom) {
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(set("folder/a", 700).status, Status::kOk);
    EXPECT_EQ(set("folder/a", 800, true).status, Status::kOk);
    EXPECT_EQ(set("folder/a", 900, true).status, Status::kState);
    EXPECT_EQ(ask({.kind = RequestKind::kDelete, .key = "folder"}).status, Status::kOk);
  }
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(ask({.kind = RequestKind::kIncrement, .key = "n", .increment = 1'000'000}).status, Status::kOk);
  }
  EXPECT_EQ(ask({.kind = RequestKind::kDelete, .key = "n"}).status, Status::kOk);
  EXPECT_EQ(set("a", 1000 - 128 - 1).status, Status::kOk);  // Nothing else is counted.
}

TEST_F(BoundedStore, WaitsCountAsLongAsTheyLast) {
  const Request get{.kind = RequestKind::kGet, .key = std::string(300, 'k')};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ask(get).text, "waits");
    EXPECT_EQ(ask(get, 1).text, "waits");
    EXPECT_THAT(ask(get).text, HasSubstr("blocking_key_value_get: the keys and values of the job"));
    store_.expire(Board::Time::max());
  }
  const Request barrier{.kind = RequestKind::kBarrier, .key = std::string(300, 'b')};
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(ask(barrier).text, "waits");
    EXPECT_EQ(ask(barrier, 1).status, Status::kOk);
  }
  EXPECT_EQ(ask(get, 1).text, "waits");
  store_.remove(1);
  EXPECT_EQ(set("a", 1000 - 128 - 1).status, Status::kOk);
}

// A process can always leave.
TEST_F(BoundedStore, ShutdownNeedsNoRoom) {
  EXPECT_EQ(set("a", 1000 - 128 - 1).status, Status::kOk);
  const Request leave{.kind = RequestKind::kShutdown, .timeout = std::chrono::seconds(1)};
  EXPECT_EQ(ask(leave).text, "waits");
  EXPECT_EQ(ask(leave, 1).status, Status::kOk);
}

}  // namespace
}  // namespace shoal::distributed
