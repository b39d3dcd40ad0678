// `shoal explain-hang` on files of flight recorders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/record/communicator.h"
#include "comm/record/flight_recorder.h"
#include "tool.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ExplainHang : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Process 1 is at another program than process 0.
  void leave_files() {
    const std::vector<int> both{0, 1};
    const std::uint64_t id = Communicator::id_of(both);
    for (int process : both) {
      FlightRecorder recorder(process, "a", folder_.string());
      recorder.note_communicator(id, both);
      recorder.begin(recorder.queue(id, process == 0 ? "f" : "g", SourceLocation::current()), 1,
                     {static_cast<std::uint64_t>(process), 0}, {});
      recorder.step(1, "all_reduce", SourceLocation::current(), 17);
      recorder.await(1 - process);
      if (process == 1) recorder.note_end("it was killed");
    }
  }
  Ended explain(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"explain-hang", folder_.string()});
    return Tool(options).wait();
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("shoal_explain_" + std::to_string(getpid()));
};

TEST_F(ExplainHang, TellsWhereProcessesStood) {
  leave_files();
  const Ended ended = explain();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("process 0 on a (pid "), HasSubstr("it ended by: it was killed"),
                    HasSubstr("on the processes [0, 1]:"), HasSubstr("is in launch 1 of 'f' at explain_hang_test.cc:"),
                    HasSubstr(", in trip 17 of a loop"), HasSubstr("and waits for process 1"),
                    HasSubstr("first difference: launch 1 is 'f' at ")));
}

TEST_F(ExplainHang, AsJson) {
  leave_files();
  const auto report = nlohmann::json::parse(explain({"--json"}).out);
  ASSERT_EQ(report["processes"].size(), 2U);
  EXPECT_EQ(report["processes"][1]["end"], "it was killed");
  ASSERT_EQ(report["sets"].size(), 1U);
  EXPECT_EQ(report["sets"][0]["processes"], nlohmann::json({0, 1}));
  EXPECT_THAT(report["sets"][0]["places"][1]["where"].get<std::string>(), HasSubstr("'g'"));
  EXPECT_THAT(report["sets"][0]["first_difference"].get<std::string>(), HasSubstr("launch 1 is"));
}

TEST_F(ExplainHang, SaysWhatIsMissing) {
  const Ended ended = explain();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("run the job with SHOAL_FLIGHT_RECORDER="));
}

}  // namespace
}  // namespace shoal
