#include "shoal/partition_spec.h"

#include <gtest/gtest.h>

#include <sstream>

namespace shoal {
namespace {

TEST(PartitionSpec, TextForms) {
  EXPECT_EQ(to_string(P()), "P()");
  EXPECT_EQ(to_string(P("x")), "P('x',)");
  EXPECT_EQ(to_string(P("x", none)), "P('x', None)");
  EXPECT_EQ(to_string(P(none)), "P(None,)");
  EXPECT_EQ(to_string(P({"x", "y"})), "P(('x', 'y'),)");
  EXPECT_EQ(to_string(P({"x", "y"}, unconstrained)), "P(('x', 'y'), UNCONSTRAINED)");
  EXPECT_EQ(to_string(P("a", "b", "c", "d", none, "f")), "P('a', 'b', 'c', 'd', None, 'f')");
  std::ostringstream out;
  out << P("x", "y");
  EXPECT_EQ(out.str(), "P('x', 'y')");
}

TEST(PartitionSpec, EqualEntriesHaveOneTextForm) {
  EXPECT_EQ(to_string(P(std::vector<std::string>{"x"}, std::vector<std::string>{})), "P('x', None)");
  EXPECT_EQ(to_string(PartitionEntry("x")), "'x'");
  EXPECT_EQ(to_string(PartitionEntry(unconstrained)), "UNCONSTRAINED");
}

TEST(PartitionSpec, ComparesEntryByEntry) {
  EXPECT_EQ(P("x", none), P(std::vector<std::string>{"x"}, std::vector<std::string>{}));
  EXPECT_NE(P("x"), P("x", none));
  EXPECT_NE(P({"x", "y"}), P({"y", "x"}));
  EXPECT_NE(P({"x", "y"}), P("x", "y"));
  EXPECT_NE(P(none), P(unconstrained));
}

TEST(PartitionSpec, HashFollowsEquality) {
  EXPECT_EQ(P("x", none).hash(), P(std::vector<std::string>{"x"}, std::vector<std::string>{}).hash());
  const std::vector<PartitionSpec> distinct = {P(),          P(none),     P(unconstrained), P("x"),       P("x", none),
                                               P(none, "x"), P("x", "y"), P({"x", "y"}),    P({"y", "x"})};
  for (const PartitionSpec& a : distinct) {
    for (const PartitionSpec& b : distinct) EXPECT_EQ(a == b, a.hash() == b.hash()) << a << ' ' << b;
  }
}

TEST(PartitionSpec, IsASequenceOfEntries) {
  const PartitionSpec spec = P("x") + P(none, {"y", "z"});
  EXPECT_EQ(spec, P("x", none, {"y", "z"}));
  EXPECT_EQ(spec.size(), 3U);
  EXPECT_FALSE(spec.empty());
  EXPECT_TRUE(spec[1].is_none());
  EXPECT_EQ(spec[2].axes(), (std::vector<std::string>{"y", "z"}));
  EXPECT_FALSE(spec[2].is_unconstrained());
  EXPECT_TRUE(P(unconstrained)[0].is_unconstrained());
  EXPECT_FALSE(P(unconstrained)[0].is_none());
}

TEST(PartitionSpec, Reduced) {
  EXPECT_EQ(to_string(P("x", reduced("y"))), "P('x', reduced={'y'})");
  EXPECT_EQ(to_string(P(unreduced("y") + reduced("z", "x"))), "P(unreduced={'y'}, reduced={'x', 'z'})");
  EXPECT_EQ(P("x", reduced("y")).reduced(), (std::vector<std::string>{"y"}));
  EXPECT_TRUE(P("x", reduced("y")).unreduced().empty());
  EXPECT_NE(P("x"), P("x", reduced("y")));
  EXPECT_NE(P(unreduced("y")), P(reduced("y")));
  EXPECT_NE(P("x").hash(), P("x", reduced("y")).hash());
  EXPECT_EQ(P("x", reduced("y")) + P("z", unreduced("w")), P("x", "z", unreduced("w") + reduced("y")));
}

TEST(PartitionSpec, Unreduced) {
  EXPECT_EQ(to_string(P("x", unreduced("y"))), "P('x', unreduced={'y'})");
  EXPECT_EQ(to_string(P(unreduced("y", "x"))), "P(unreduced={'x', 'y'})");
  EXPECT_EQ(to_string(P(none, {"x", "z"}, unreduced("y"))), "P(None, ('x', 'z'), unreduced={'y'})");
  EXPECT_EQ(P("x", unreduced("y")).unreduced(), (std::vector<std::string>{"y"}));
  EXPECT_EQ(P(unreduced("y", "x")), P(unreduced("x", "y", "x")));
  EXPECT_NE(P("x"), P("x", unreduced("y")));
  EXPECT_NE(P("x").hash(), P("x", unreduced("y")).hash());
  EXPECT_EQ(P("x", unreduced("y")) + P("z", unreduced("w")), P("x", "z", unreduced("w", "y")));
  EXPECT_EQ(P("x", none, "z", unreduced("y")).size(), 3U);
}

}  // namespace
}  // namespace shoal
