// What goes wrong between processes is told in all of them, and nobody waits for ever.
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "job.h"

namespace shoal {
namespace {

using multiprocess::Job;
using multiprocess::Outcome;
using multiprocess::Registered;
using multiprocess::Running;

Mesh everywhere() { return make_mesh({device_count()}, {"x"}); }

Array spread(const Array& array) { return device_put(array, NamedSharding(everywhere(), P("x"))); }

Array rows_of(int rows) {
  return make_array_from_process_local_data(NamedSharding(everywhere(), P("x")),
                                            full({rows}, static_cast<float>(process_index() + 1)));
}

// Says what is thrown, so that a test can look for it.
template <class F>
void tell(const std::string& what, F&& body) {
  try {
    body();
    std::cout << what << ": nothing" << std::endl;
  } catch (const Disagreement& error) {
    std::cout << what << ": Disagreement " << error.what() << std::endl;
  } catch (const ProcessFailed& error) {
    std::cout << what << ": ProcessFailed " << error.what() << std::endl;
  } catch (const DeadlineExceeded& error) {
    std::cout << what << ": DeadlineExceeded " << error.what() << std::endl;
  } catch (const InvalidArgument& error) {
    std::cout << what << ": InvalidArgument " << error.what() << std::endl;
  } catch (const Error& error) {
    std::cout << what << ": Error " << error.what() << std::endl;
  }
}

// Nobody ends before all have begun.
void meet() { multihost::sync_global_devices("begin"); }

// Ends the process at once, so that others may learn of its end before they learn of its error.
[[noreturn]] void leave(int code) {
  std::cout.flush();
  _exit(code);
}

// ---- Errors on which all agree.

void agreed() {
  const Mesh mesh = everywhere();
  tell("put", [&] {
    device_put(full({8}, process_index() == 1 ? 2.0F : 1.0F), NamedSharding(mesh, P("x"))).block_until_ready();
  });
  tell("name", [] { multihost::sync_global_devices(process_index() == 0 ? "a" : "b"); });
  tell("equal", [] { multihost::assert_equal(full({2}, static_cast<float>(process_index())), "the seed"); });
  tell("types", [] { multihost::process_allgather(full({process_index() == 0 ? 2 : 3}, 1.0F)); });
  tell("sources", [] { multihost::broadcast_one_to_all(ones({2}), true); });
  // The job goes on.
  std::cout << "sum " << multihost::process_allgather(spread(ones({8})) + 1, true).sum() << std::endl;
  std::cout << "broadcast " << multihost::broadcast_one_to_all(full({2}, static_cast<float>(process_index() + 5)))
            << std::endl;
}
const Registered kAgreed("agreed", agreed);

void expect_all(const std::vector<Outcome>& outcomes, const std::string& text) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_NE(outcomes[i].output.find(text), std::string::npos) << "process " << i << " says\n" << outcomes[i].output;
  }
}

TEST(Faults, AgreedErrorsLeaveTheJobUsable) {
  for (const std::vector<int>& devices : {std::vector<int>{4, 4}, std::vector<int>{2, 2, 2, 2}}) {
    const std::vector<Outcome> outcomes = multiprocess::run({"agreed", devices});
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.output;
    for (const std::string what : {"put", "name", "equal", "types", "sources"}) {
      expect_all(outcomes, what + ": InvalidArgument");
    }
    expect_all(outcomes, "the seed");
    expect_all(outcomes, "sum 16");
    expect_all(outcomes, "broadcast [5. 5.]");
  }
}

// ---- Processes that do not do the same.

Array total(const Array& x, bool maximum = false) {
  const auto f = [maximum](Array v) { return maximum ? lax::pmax(v, "x") : lax::psum(v, "x"); };
  return jit(shard_map(f, {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P()}))(x);
}

void other_kind() {
  tell("launch", [] {
    meet();
    total(spread(ones({8})), process_index() == 1).block_until_ready();
  });
  leave(0);
}
const Registered kOtherKind("other_kind", other_kind);

void other_shape() {
  tell("launch", [] {
    meet();
    total(rows_of(process_index() == 1 ? 16 : 8)).block_until_ready();
  });
  leave(0);
}
const Registered kOtherShape("other_shape", other_shape);

void other_data() {
  tell("launch", [] {
    meet();
    const Array a = rows_of(8);
    const Array b = rows_of(8);
    const bool first = process_index() != 1;
    const Array one = total(first ? a : b);
    const Array two = total(first ? b : a);
    one.block_until_ready();
    two.block_until_ready();
  });
  leave(0);
}
const Registered kOtherData("other_data", other_data);

class Disagreeing : public testing::TestWithParam<const char*> {};

TEST_P(Disagreeing, IsToldInAllProcesses) {
  for (const auto& [devices, transport] : std::vector<std::pair<std::vector<int>, std::string>>{
           {{1, 1}, "shm"}, {{1, 1}, "socket"}, {{1, 1, 1, 1}, "shm"}, {{1, 1, 1, 1}, "socket"}}) {
    const std::vector<Outcome> outcomes =
        multiprocess::run({.program = GetParam(), .devices = devices, .env = {{"SHOAL_TRANSPORT", transport}}});
    bool told = false;
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.output.find("launch: nothing"), std::string::npos) << outcome.output;
      EXPECT_NE(outcome.output.find("launch: "), std::string::npos) << outcome.output;
      told = told || outcome.output.find("launch: Disagreement") != std::string::npos;
      EXPECT_LT(outcome.seconds, 30);
    }
    EXPECT_TRUE(told) << outcomes[0].output;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Disagreeing, testing::Values("other_kind", "other_shape", "other_data"));

// ---- Processes that end.

void loop() {
  Array x = rows_of(8);
  std::cout << "begins" << std::endl;
  tell("loop", [&] {
    while (true) {
      x = total(x) / static_cast<float>(device_count());
      x = spread(full({8 * device_count()}, 1.0F));
      x.block_until_ready();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  leave(3);
}
const Registered kLoop("loop", loop);

TEST(Faults, AKilledWorkerIsNamed) {
  for (const auto& [devices, transport] : std::vector<std::pair<std::vector<int>, std::string>>{
           {{1, 1}, "shm"}, {{1, 1}, "socket"}, {{1, 1, 1, 1}, "shm"}, {{1, 1, 1, 1}, "socket"}}) {
    for (const std::size_t victim : {std::size_t{1}, std::size_t{0}}) {
      Running job({.program = "loop", .devices = devices, .env = {{"SHOAL_TRANSPORT", transport}}});
      for (std::size_t i = 0; i < devices.size(); ++i) ASSERT_TRUE(job.wait_for_output(i, "begins"));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const auto begin = std::chrono::steady_clock::now();
      job.signal(victim, SIGKILL);
      const std::vector<Outcome> outcomes = job.finish();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (i == victim) continue;
        EXPECT_EQ(outcomes[i].code, 3) << outcomes[i].output;
        EXPECT_NE(outcomes[i].output.find("loop: "), std::string::npos) << outcomes[i].output;
        EXPECT_EQ(outcomes[i].output.find("loop: nothing"), std::string::npos) << outcomes[i].output;
      }
    }
  }
}

// One process shuts down while the others go on.
void early() {
  Array x = rows_of(8);
  for (int i = 0; process_index() != 1 || i < 3; ++i) {
    try {
      total(x).block_until_ready();
    } catch (const Error& error) {
      std::cout << "raised " << error.what() << std::endl;
      leave(4);
    }
  }
}
const Registered kEarly("early", early);

TEST(Faults, AnEarlyLeaverIsNamed) {
  const std::vector<Outcome> outcomes = multiprocess::run({.program = "early", .devices = {1, 1}});
  EXPECT_EQ(outcomes[0].code, 4) << outcomes[0].output;
  EXPECT_NE(outcomes[0].output.find("process 1"), std::string::npos) << outcomes[0].output;
  EXPECT_LT(outcomes[0].seconds, 20);
}

// ---- Processes that are late.

void late() {
  if (process_index() == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  std::cout << total(rows_of(8)) << std::endl;
}
const Registered kLate("late", late);

TEST(Faults, ASlowProcessIsWaitedFor) {
  const std::vector<Outcome> outcomes =
      multiprocess::run({.program = "late", .devices = {1, 1}, .env = {{"SHOAL_WARNING_AFTER", "1"}}});
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcomes[0].output.find("waiting for process 1"), std::string::npos) << outcomes[0].output;
}

TEST(Faults, AStoppedProcessIsAnErrorAtTheDeadline) {
  Running job({.program = "loop", .devices = {1, 1}, .env = {{"SHOAL_ARRIVAL_TIMEOUT", "2"}}});
  ASSERT_TRUE(job.wait_for_output(0, "begins"));
  ASSERT_TRUE(job.wait_for_output(1, "begins"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  job.signal(1, SIGSTOP);
  EXPECT_TRUE(job.wait_for_output(0, "loop: DeadlineExceeded"));
  job.signal(1, SIGCONT);
  for (const Outcome& outcome : job.finish()) EXPECT_EQ(outcome.code, 3) << outcome.output;
}

}  // namespace
}  // namespace shoal
