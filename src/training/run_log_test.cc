// The table, the curves and the page of a run.
#include "shoal/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "sharding/test_support.h"

namespace shoal::test {
namespace {

using test_support::message_of;
using testing::HasSubstr;
using testing::Not;

RunLog some_log() {
  RunLog log("a <run>");
  log.add(0, {{"loss", 2.5}, {"rate", 0.1}});
  log.add(10, {{"loss", std::nan("")}});
  log.add(20, {{"loss", 0.5}, {"rate", 0.05}});
  return log;
}

TEST(RunLog, Table) {
  EXPECT_EQ(some_log().csv(), "step,loss,rate\n0,2.5,0.10000000000000001\n10,nan,\n20,0.5,0.050000000000000003\n");
  EXPECT_EQ(RunLog().csv(), "step\n");
  RunLog quoted;
  quoted.add(1, {{"a, \"b\"", 2}});
  EXPECT_EQ(quoted.csv(), "step,\"a, \"\"b\"\"\"\n1,2\n");
}

TEST(RunLog, CurvesLeaveGapsAndEscapeNames) {
  const std::string picture = some_log().svg({"loss", "rate"});
  EXPECT_THAT(picture, HasSubstr("a &lt;run&gt;"));
  EXPECT_THAT(picture, Not(HasSubstr("nan")));
  // Two moves of the pen for the loss, whose middle is missing; a move and a line for the rate.
  EXPECT_THAT(picture, testing::ContainsRegex("path d=\"M70.0 34.0M700.0 [0-9.]+\""));
  EXPECT_THAT(picture, testing::ContainsRegex("path d=\"M70.0 [0-9.]+L700.0 280.0\""));
  RunLog flat;
  flat.add(3, {{"x", 7}});
  EXPECT_THAT(flat.svg({"x"}), Not(HasSubstr("nan")));
}

TEST(RunLog, Page) {
  RunLog log = some_log();
  log.describe("Weights", "+--+\n|<>|\n+--+");
  const std::string page = log.html();
  EXPECT_THAT(page, HasSubstr("<td>loss</td><td>3</td><td>2.5</td><td>0.5</td><td>0.5</td><td>2.5</td>"));
  EXPECT_THAT(page, HasSubstr("<h2>Weights</h2>\n<pre>+--+\n|&lt;&gt;|\n+--+</pre>"));
  EXPECT_THAT(page, HasSubstr("</body></html>"));
}

TEST(RunLog, Files) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "run_log_test";
  std::filesystem::create_directories(folder);
  const auto written = [&](const char* name) {
    some_log().save(folder / name);
    std::ifstream file(folder / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(written("a.csv"), some_log().csv());
  EXPECT_EQ(written("a.svg"), some_log().svg({"loss", "rate"}));
  EXPECT_EQ(written("a.html"), some_log().html());
  EXPECT_THAT(message_of<InvalidArgument>([&] { some_log().save(folder / "a.png"); }),
              HasSubstr("ends neither in .csv"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { some_log().svg({"speed"}); }),
              HasSubstr("RunLog::svg: nothing was told of \"speed\""));
  std::filesystem::remove_all(folder);
}

TEST(RunLog, Bar) {
  EXPECT_EQ(progress_bar(0, 4), "[    ]");
  EXPECT_EQ(progress_bar(0.5, 4), "[##  ]");
  EXPECT_EQ(progress_bar(1.5, 4), "[####]");
}

}  // namespace
}  // namespace shoal::test
