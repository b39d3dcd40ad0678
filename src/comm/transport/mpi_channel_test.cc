// Channels over MPI, between processes that mpirun starts.
#include "comm/transport/mpi_channel.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/test_command.h"
#include "comm/transport/channel_test_support.h"

namespace shoal {
namespace {

// What the processes of this test program that mpirun started do: both sides of a scenario. The process number of one
// is not its rank.
TEST(MpiProcess, DISABLED_PlaysASide) {
  const char* const name = std::getenv("SHOAL_TEST_SCENARIO");
  if (name == nullptr) GTEST_SKIP();
  MpiWorld world(in(seconds(30)));
  const int me = 1 - world.rank();
  world.connect({1, 0}, in(seconds(30)));
  {
    MpiChannel channel(1 - me, world);
    EXPECT_EQ(channel.peer(), 1 - me);
    (me == 0 ? scenario(name).here : scenario(name).there)(channel);
  }
  world.finish(in(seconds(10)));
  EXPECT_TRUE(world.is_over());
}

// Runs this program's test MpiProcess.DISABLED_<test> in two processes of mpirun.
CommandOutcome run_processes(const std::string& test, const std::vector<std::string>& variables = {}) {
  std::vector<std::string> words = mpirun_words();
  // Open MPI keeps memory until its processes end, which the address sanitizer would call a leak.
  words.insert(words.end(), {"-n", "2", "env", "LSAN_OPTIONS=detect_leaks=0"});
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), {own_program(), "--gtest_filter=MpiProcess.DISABLED_" + test,
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"});
  return run_command(words, seconds(60));
}

class MpiChannelTest : public testing::TestWithParam<std::string> {};

TEST_P(MpiChannelTest, GoesWell) {
  const CommandOutcome outcome = run_processes("PlaysASide", {"SHOAL_TEST_SCENARIO=" + GetParam()});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::Not(testing::HasSubstr("SKIPPED")));
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MpiChannelTest, testing::ValuesIn(scenario_names()),
                         [](const auto& name) { return name.param; });

TEST(MpiProcess, DISABLED_ReturnsAtTheDeadline) {
  MpiWorld world(in(seconds(30)));
  world.connect({0, 1}, in(seconds(30)));
  MpiChannel channel(1 - world.rank(), world);
  for (const int time : {0, 1, 30, 250}) {
    const auto begin = Clock::now();
    EXPECT_EQ(channel.next(), nullptr);
    channel.sleep(begin + milliseconds(time));
    EXPECT_LT(Clock::now() - begin, milliseconds(time + 500));
  }
  // The other process does not come.
  if (world.rank() == 0) {
    const auto begin = Clock::now();
    EXPECT_THROW(world.connect({0, 1}, begin + milliseconds(300)), DeadlineExceeded);
    EXPECT_LT(Clock::now() - begin, seconds(2));
    EXPECT_THROW(channel.next(), ProcessFailed);
  } else {
    std::this_thread::sleep_for(seconds(3));
  }
  if (!testing::Test::HasFailure()) write(STDOUT_FILENO, "as expected\n", 12);
  std::_Exit(0);  // MPI is left as it is; mpirun ends the other process.
}

TEST(MpiWorld, ReturnsAtTheDeadline) {
  const CommandOutcome outcome = run_processes("ReturnsAtTheDeadline");
  EXPECT_THAT(outcome.output, testing::HasSubstr("as expected"));
  EXPECT_LT(outcome.seconds, 20);
}

// The program of a user who has begun with MPI itself.
TEST(MpiProcess, DISABLED_UsesMpiItself) {
  void* const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto function = [&](const char* name) { return dlsym(library, name); };
  const int wanted = std::atoi(std::getenv("SHOAL_TEST_LEVEL"));
  int level = -1;
  reinterpret_cast<int (*)(int*, char***, int, int*)>(function("MPI_Init_thread"))(nullptr, nullptr, wanted, &level);
  if (level < 3) {
    try {
      MpiWorld world(in(seconds(30)));
      ADD_FAILURE() << "without MPI_THREAD_MULTIPLE";
    } catch (const InvalidState& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("without MPI_THREAD_MULTIPLE"));
    }
  } else {
    MpiWorld world(in(seconds(30)));
    world.connect({0, 1}, in(seconds(30)));
    {
      MpiChannel channel(1 - world.rank(), world);
      std::byte data{};
      const std::uint64_t number = send_bytes(channel, &data, 1);
      await_payload(channel, 1);
      channel.release(1);
      await_done(channel, number);
    }
    world.finish(in(seconds(10)));
    EXPECT_FALSE(world.is_over());
  }
  int is_over = 1;
  reinterpret_cast<int (*)(int*)>(function("MPI_Finalized"))(&is_over);
  EXPECT_EQ(is_over, 0);
  reinterpret_cast<int (*)()>(function("MPI_Finalize"))();
}

TEST(MpiWorld, TakesTheMpiOfTheProgramAndLeavesIt) {
  for (const std::string level : {"3", "2"}) {
    const CommandOutcome outcome = run_processes("UsesMpiItself", {"SHOAL_TEST_LEVEL=" + level});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
}

TEST(MpiWorld, SaysWhatIsMissing) {
  EXPECT_EQ(MpiWorld::obstacle(), "no launcher of Open MPI started this process; start the program with mpirun");
  EXPECT_THROW(MpiWorld(in(seconds(10))), InvalidState);
  const std::string filter = "--gtest_filter=MpiProcess.DISABLED_HasNoPlugin";
  const CommandOutcome outcome =
      run_command({"env", "SHOAL_PLUGIN_PATH=/nowhere", own_program(), filter, "--gtest_also_run_disabled_tests"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST(MpiProcess, DISABLED_HasNoPlugin) {
  EXPECT_THAT(MpiWorld::obstacle(),
              testing::AllOf(testing::HasSubstr("the plugin 'mpi' cannot be loaded: /nowhere/libshoal_mpi.so"),
                             testing::HasSubstr("apt-get install libopenmpi-dev")));
}

}  // namespace
}  // namespace shoal
