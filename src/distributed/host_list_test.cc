#include "distributed/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(HostList, NamesEveryHostInOrder) {
  EXPECT_THAT(expand_host_list("n1"), Optional(ElementsAre("n1")));
  EXPECT_THAT(expand_host_list("n1,h2"), Optional(ElementsAre("n1", "h2")));
  EXPECT_THAT(expand_host_list("n[7]"), Optional(ElementsAre("n7")));
  EXPECT_THAT(expand_host_list("n[2,1]"), Optional(ElementsAre("n2", "n1")));
  EXPECT_THAT(expand_host_list("n[08-10],h2"), Optional(ElementsAre("n08", "n09", "n10", "h2")));
  EXPECT_THAT(expand_host_list("n[001,007-008]-ib"), Optional(ElementsAre("n001-ib", "n007-ib", "n008-ib")));
  EXPECT_THAT(
      expand_host_list("rack[1-2]node[1,3-4]"),
      Optional(ElementsAre("rack1node1", "rack1node3", "rack1node4", "rack2node1", "rack2node3", "rack2node4")));
  EXPECT_EQ(expand_host_list("n[001-015],h2")->size(), 16u);
  EXPECT_EQ(expand_host_list("n[99998-100001]")->back(), "n100001");
}

TEST(HostList, RefusesWhatIsNone) {
  for (const char* text : {"", ",", "n1,", ",n1", "n1,,n2", "n[", "n[]", "n]", "n[1", "n[1-]", "n[-1]", "n[2-1]",
                           "n[a]", "n[1,]", "n[1[2]]", "n1]", "n[1]]", "n[1-2-3]", "n[99999999999999999999]"}) {
    EXPECT_EQ(expand_host_list(text), std::nullopt) << text;
  }
}

TEST(HostList, RefusesListsThatWouldFillTheMemory) {
  EXPECT_EQ(expand_host_list("n[1-18446744073709551615]"), std::nullopt);
  EXPECT_EQ(expand_host_list("n[0-18446744073709551615]"), std::nullopt);
  EXPECT_EQ(expand_host_list("n[0-9999][0-9999]"), std::nullopt);
  EXPECT_EQ(expand_host_list("n[0-999999],m"), std::nullopt);
}

TEST(Counts, RepeatAsWritten) {
  EXPECT_THAT(expand_counts("4"), Optional(ElementsAre(4)));
  EXPECT_THAT(expand_counts("2(x2),1"), Optional(ElementsAre(2, 2, 1)));
  EXPECT_THAT(expand_counts("2,1(x2)"), Optional(ElementsAre(2, 1, 1)));
}

TEST(Counts, RefusesWhatIsNone) {
  for (const char* text : {"", "a", "2,", ",2", "-1", "2(x", "2(x)", "2(x0)", "2(xa)", "2(x2", "2x2", "2(x2)3", "(x2)",
                           "2(x1000001)", "2(x600000),2(x600000)"}) {
    EXPECT_EQ(expand_counts(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace shoal::distributed
