// What goes wrong between processes is told in all of them, and nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/record/diagnosis.h"
#include "support.h"

namespace shoal {
namespace {

using multiprocess::everywhere;
using multiprocess::Job;
using multiprocess::Outcome;
using multiprocess::Registered;
using multiprocess::Running;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// What must be told within two seconds.
constexpr double kSoon = 2;

Mesh on_processes(const std::vector<int>& processes) {
  std::vector<Device> some;
  for (const Device& device : devices()) {
    if (std::find(processes.begin(), processes.end(), device.process_index) != processes.end()) some.push_back(device);
  }
  return make_mesh({static_cast<std::int64_t>(some.size())}, {"x"}, {.devices = some});
}

Array spread(const Array& array, const Mesh& mesh = everywhere()) {
  return device_put(array, NamedSharding(mesh, P("x")));
}

Array rows_of(int rows, const Mesh& mesh = everywhere(), Dtype dtype = float32) {
  return make_array_from_process_local_data(NamedSharding(mesh, P("x")),
                                            full({rows}, static_cast<float>(process_index() + 1)).astype(dtype));
}

template <class F>
auto mapped(F f, const Mesh& mesh, const PartitionSpec& out = P("x")) {
  return jit(shard_map(f, {.mesh = mesh, .in_specs = P("x"), .out_specs = out, .check_vma = false}));
}

Array total(const Array& x, const Mesh& mesh = everywhere()) {
  return mapped([](Array v) { return lax::psum(v, "x"); }, mesh, P())(x);
}
Array largest(const Array& x) {
  return mapped([](Array v) { return lax::pmax(v, "x"); }, everywhere(), P())(x);
}
Array gathered(const Array& x) {
  return mapped([](Array v) { return lax::all_gather(v, "x", {.axis = 0, .tiled = true}); }, everywhere(), P())(x);
}

using Time = std::chrono::steady_clock::time_point;
Time now() { return std::chrono::steady_clock::now(); }
double seconds_since(Time begin) { return std::chrono::duration<double>(now() - begin).count(); }

// Says what is thrown and how long it took, so that a test can look for it.
template <class F>
void tell_when(const std::string& what, F&& body) {
  const Time begin = now();
  const auto say = [&](const char* kind, const char* text) {
    std::cout << what << ": " << kind << " after " << seconds_since(begin) << " s: " << text << std::endl;
  };
  try {
    body();
    say("nothing", "");
  } catch (const Disagreement& error) {
    say("Disagreement", error.what());
  } catch (const ProcessFailed& error) {
    say("ProcessFailed", error.what());
  } catch (const DeadlineExceeded& error) {
    say("DeadlineExceeded", error.what());
  } catch (const InvalidArgument& error) {
    say("InvalidArgument", error.what());
  } catch (const InvalidState& error) {
    say("InvalidState", error.what());
  } catch (const Error& error) {
    say("Error", error.what());
  }
}

// The time that tell_when() told.
double seconds_of(const std::string& output, const std::string& what) {
  std::size_t at = output.find("\n" + what + ": ");
  if (output.starts_with(what + ": ")) at = 0;
  if (at == std::string::npos) return 1e9;
  at = output.find(" after ", at);
  return at == std::string::npos ? 1e9 : std::atof(output.c_str() + at + 7);
}

// Nobody ends before all have begun.
void meet() { multihost::sync_global_devices("begin"); }

// Ends the process without shutdown, a moment after it was told of an error, so that its coordinator tells the others.
[[noreturn]] void leave(int code) {
  std::cout.flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  _exit(code);
}

// A process of these does something else.
bool is_odd_one() { return process_index() == 1; }

struct JobLayout {
  std::vector<int> devices;
  std::string transport;
};
const std::vector<JobLayout>& layouts() {
  static const std::vector<JobLayout> all{
      {{1, 1}, "shm"}, {{1, 1}, "socket"}, {{1, 1, 1, 1}, "shm"}, {{1, 1, 1, 1}, "socket"}};
  return all;
}

Job job_of(const std::string& program, const JobLayout& layout, std::map<std::string, std::string> env = {}) {
  env["SHOAL_TRANSPORT"] = layout.transport;
  return {.program = program, .devices = layout.devices, .env = std::move(env)};
}

std::string described(const JobLayout& layout) {
  return std::to_string(layout.devices.size()) + " processes, " + layout.transport;
}

// ---- Errors on which all agree.

void agreed() {
  const Mesh mesh = everywhere();
  tell_when("put", [&] {
    device_put(full({8}, process_index() == 1 ? 2.0F : 1.0F), NamedSharding(mesh, P("x"))).block_until_ready();
  });
  tell_when("name", [] { multihost::sync_global_devices(process_index() == 0 ? "a" : "b"); });
  tell_when("equal", [] { multihost::assert_equal(full({2}, static_cast<float>(process_index())), "the seed"); });
  tell_when("types", [] { multihost::process_allgather(full({process_index() == 0 ? 2 : 3}, 1.0F)); });
  tell_when("sources", [] { multihost::broadcast_one_to_all(ones({2}), true); });
  // The job goes on.
  std::cout << "sum " << multihost::process_allgather(spread(ones({8})) + 1, true).sum() << std::endl;
  std::cout << "broadcast " << multihost::broadcast_one_to_all(full({2}, static_cast<float>(process_index() + 5)))
            << std::endl;
}
const Registered kAgreed("agreed", agreed);

void expect_all(const std::vector<Outcome>& outcomes, const std::string& text) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_THAT(outcomes[i].output, HasSubstr(text)) << "process " << i;
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

// An array that could not be made in one process, and is given up in all, leaves the next ones alike.
void one_sided() {
  bool failed = false;
  const NamedSharding sharding(everywhere(), P("x"));
  try {
    make_array_from_callback({device_count() * 2}, sharding, [](const ShardIndex&) {
      if (is_odd_one()) throw std::runtime_error("no file");
      return ones({2});
    });
  } catch (const std::runtime_error&) {
    failed = true;
  }
  const Array failures = multihost::process_allgather(full({}, failed ? 1.0F : 0.0F));
  std::cout << "failures " << failures.sum() << ", total " << total(rows_of(1)) << std::endl;
}
const Registered kOneSided("one_sided", one_sided);

TEST(Faults, AnArrayThatOneProcessCouldNotMakeIsGivenUp) {
  const std::vector<Outcome> outcomes = multiprocess::run({"one_sided", {1, 1}});
  expect_all(outcomes, "failures 1");
  expect_all(outcomes, "total [3.]");
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.output;
}

// ---- Processes that do not do the same.

// Both are launched before anybody looks at a result.
template <class F, class G>
void in_opposite_order(F&& f, G&& g) {
  meet();
  tell_when("launch", [&] {
    if (is_odd_one()) {
      const Array b = g();
      const Array a = f();
      a.block_until_ready();
      b.block_until_ready();
    } else {
      const Array a = f();
      const Array b = g();
      a.block_until_ready();
      b.block_until_ready();
    }
  });
  // What the devices of this process do alone goes on, and what it does with others does not.
  tell_when("later", [] { total(rows_of(8)).block_until_ready(); });
  tell_when("local", [] { jit([](Array v) { return v + 1; })(ones({4})).block_until_ready(); });
  leave(0);
}

const Registered kOppositeOrder("opposite_order", [] {
  const Array x = rows_of(8);
  in_opposite_order([&] { return total(x); }, [&] { return largest(x); });
});
const Registered kOtherCollectives("other_collectives", [] {
  const Array x = rows_of(8);
  in_opposite_order([&] { return total(x); }, [&] { return gathered(x); });
});
const Registered kOtherData("other_data", [] {
  const Array a = rows_of(8);
  const Array b = rows_of(8);
  in_opposite_order([&] { return total(a); }, [&] { return total(b); });
});
// Process 0 and 2 give each other nothing, but each gives to process 1 or takes of it.
const Registered kNeighbours("neighbours", [] {
  const auto shift = [](const lax::Permutation& pairs) {
    return mapped([pairs](Array v) { return lax::ppermute(v, "x", pairs); }, everywhere());
  };
  const Array x = rows_of(8);
  in_opposite_order([&] { return shift({{0, 1}, {1, 2}})(x); }, [&] { return shift({{1, 0}, {2, 1}})(x); });
});

template <class F>
void all_launch(F&& f) {
  meet();
  tell_when("launch", [&] { f().block_until_ready(); });
  tell_when("later", [] { total(rows_of(8)).block_until_ready(); });
  tell_when("local", [] { jit([](Array v) { return v + 1; })(ones({4})).block_until_ready(); });
  leave(0);
}
const Registered kOtherKind("other_kind", [] {
  const Array x = rows_of(8);
  all_launch([&] { return is_odd_one() ? largest(x) : total(x); });
});
const Registered kOtherShape("other_shape", [] {
  const Array x = rows_of(is_odd_one() ? 8 : 4);
  all_launch([&] { return total(x); });
});
const Registered kOtherDtype("other_dtype", [] {
  const Array x = rows_of(8, everywhere(), is_odd_one() ? int32 : float32);
  all_launch([&] { return total(x); });
});
const Registered kSkipped("skipped", [] {
  const Array x = rows_of(8);
  all_launch([&] {
    if (!is_odd_one()) total(x);
    return largest(x);
  });
});

// The number of trips is that of an array of which every process is to have the same, and one has not.
const Registered kOtherTrips("other_trips", [] {
  const Array x = rows_of(8);
  const Array most = make_array_from_process_local_data(NamedSharding(everywhere(), P()),
                                                        full({}, is_odd_one() ? 7 : 4).astype(int32));
  const auto loops = [](const Array& v, const Array& n) {
    using Two = std::pair<Array, Array>;
    return lax::while_loop([&](const Two& s) { return s.second < n; },
                           [](const Two& s) { return Two(lax::pvary(lax::psum(s.first, "x"), {"x"}), s.second + 1); },
                           Two(v, zeros_like(n)))
        .first;
  };
  const auto f = jit(shard_map(loops, {.mesh = everywhere(), .in_specs = {P("x"), P()}, .out_specs = P("x")}));
  all_launch([&] { return f(x, most); });
});

struct Different {
  const char* program;
  const char* difference;  // In the text.
};
class Disagreeing : public testing::TestWithParam<Different> {};

TEST_P(Disagreeing, IsToldInAllProcesses) {
  std::vector<JobLayout> all = layouts();
  if (std::string(GetParam().program) == "neighbours") all = {{{1, 1, 1}, "shm"}, {{1, 1, 1}, "socket"}};
  for (const JobLayout& layout : all) {
    const std::vector<Outcome> outcomes = multiprocess::run(job_of(GetParam().program, layout));
    for (const Outcome& outcome : outcomes) {
      const std::string& text = outcome.output;
      EXPECT_THAT(text, AnyOf(HasSubstr("launch: Disagreement"), HasSubstr("later: Disagreement")))
          << described(layout);
      EXPECT_THAT(text, HasSubstr("later: Disagreement"));
      EXPECT_THAT(text, HasSubstr("local: nothing"));
      // Both sides, with their lines.
      EXPECT_THAT(text, HasSubstr("process 0 on ")) << described(layout);
      EXPECT_THAT(text, HasSubstr("process 1 on "));
      EXPECT_THAT(text, ContainsRegex(GetParam().difference));
      EXPECT_THAT(text, HasSubstr("faults_test.cc:"));
      EXPECT_LT(seconds_of(text, "launch"), kSoon) << text;
      EXPECT_LT(seconds_of(text, "later"), kSoon) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Disagreeing,
    testing::Values(Different{"opposite_order",
                              "first difference: launch [0-9]+ is '.* in process.*, and '.* in process"},
                    Different{"other_collectives", "first difference: launch [0-9]+ is "},
                    Different{"other_data", "the same program on other arrays"},
                    Different{"neighbours", "first difference: launch [0-9]+ is "},
                    Different{"other_kind", "first difference: launch [0-9]+ is "},
                    Different{"other_shape", "first difference: launch [0-9]+ is "},
                    Different{"other_dtype", "first difference: launch [0-9]+ is "},
                    Different{"skipped", "first difference: launch [0-9]+ is "}, Different{"other_trips", "trip"}),
    [](const auto& of) { return std::string(of.param.program); });

// Programs that exchange nothing are told apart where the processes meet again.
void silent_order(bool meets_again) {
  const Array x = rows_of(8);
  meet();
  const auto plus = [&] { (x + 1).block_until_ready(); };
  const auto twice = [&] { (x * 2).block_until_ready(); };
  if (is_odd_one()) {
    plus();
    twice();
  } else {
    twice();
    plus();
  }
  if (meets_again) tell_when("meet", [&] { total(x).block_until_ready(); });
  tell_when("shutdown", [] { distributed::shutdown(); });
  leave(0);
}
const Registered kSilentOrder("silent_order", [] { silent_order(false); });
const Registered kSilentThenMeet("silent_then_meet", [] { silent_order(true); });

TEST(Faults, ProgramsThatExchangeNothingAreComparedAtTheEnd) {
  for (const JobLayout& layout : layouts()) {
    for (const Outcome& outcome : multiprocess::run(job_of("silent_order", layout))) {
      EXPECT_THAT(outcome.output, HasSubstr("shutdown: Disagreement")) << described(layout);
      EXPECT_THAT(outcome.output, HasSubstr("both launched"));
      EXPECT_THAT(outcome.output, ContainsRegex("first difference: launch [0-9]+ is '.*faults_test.cc:"));
      EXPECT_LT(seconds_of(outcome.output, "shutdown"), kSoon);
    }
    for (const Outcome& outcome : multiprocess::run(job_of("silent_then_meet", layout))) {
      EXPECT_THAT(outcome.output, HasSubstr("meet: Disagreement")) << described(layout);
      EXPECT_THAT(outcome.output, HasSubstr("before this launch they ran other programs, or in another order"));
    }
  }
}

// Only those processes fail that were to do something together.
void apart() {
  const bool is_low = process_index() < 2;
  const Mesh mesh = on_processes(is_low ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
  const Array x = rows_of(8, mesh);
  meet();
  if (is_low) {
    tell_when("launch", [&] { total(is_odd_one() ? x + 1 : x, mesh).block_until_ready(); });
    tell_when("again", [&] { total(x, mesh).block_until_ready(); });
  } else {
    tell_when("launch", [&] {
      for (int i = 0; i < 300; ++i) total(x, mesh).block_until_ready();
    });
  }
  tell_when("shutdown", [] { distributed::shutdown(); });
}
const Registered kApart("apart", [] {
  apart();
  leave(0);
});

TEST(Faults, OtherSetsOfProcessesGoOn) {
  for (const std::string transport : {"shm", "socket"}) {
    const std::vector<Outcome> outcomes = multiprocess::run(job_of("apart", {{1, 1, 1, 1}, transport}));
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_THAT(outcomes[i].output, HasSubstr(i < 2 ? "launch: Disagreement" : "launch: nothing"));
      EXPECT_THAT(outcomes[i].output, HasSubstr("shutdown: nothing"));
      if (i < 2) {
        EXPECT_THAT(outcomes[i].output, HasSubstr("again: Disagreement"));
      }
    }
  }
}

// What a set of processes has left unread is not in the way of a larger one that both belong to.
template <class F>
void then_all(F&& fails) {
  const Mesh pair = on_processes({0, 1});
  const Array all = rows_of(8);
  meet();
  if (process_index() < 2) {
    tell_when("pair", [&] {
      for (const int rows : {8, 1 << 20, 16}) fails(rows_of(rows, pair), pair).block_until_ready();
    });
  }
  tell_when("all", [&] { std::cout << total(all) << std::endl; });
  tell_when("pair again", [&] {
    if (process_index() < 2) total(rows_of(8, pair), pair).block_until_ready();
  });
  tell_when("all again", [&] { std::cout << total(all + 1) << std::endl; });
  tell_when("shutdown", [] { distributed::shutdown(); });
  leave(0);
}
const Registered kDisagreeThenAll("disagree_then_all", [] {
  then_all([](const Array& x, const Mesh& pair) { return total(is_odd_one() ? x + 1 : x, pair); });
});
// The others see what it has sent, and then wait.
const Registered kRaiseThenAll("raise_then_all", [] {
  then_all([](const Array& x, const Mesh& pair) {
    const bool odd = is_odd_one();
    const auto f = [odd](Array v) {
      const Array shifted = lax::ppermute(v, "x", {{1, 0}});
      debug::callback(
          [odd](const std::vector<Array>&) {
            if (odd) throw InvalidState("out of luck");
          },
          {shifted});
      return lax::psum(shifted, "x");
    };
    return mapped(f, pair, P())(x);
  });
});

TEST(Faults, LargerSetsGoOn) {
  for (const auto& [program, error] : std::vector<std::pair<std::string, std::string>>{
           {"disagree_then_all", "Disagreement"}, {"raise_then_all", "ProcessFailed"}}) {
    for (const std::string transport : {"shm", "socket"}) {
      const std::vector<Outcome> outcomes = multiprocess::run(job_of(program, {{1, 1, 1}, transport}));
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string& text = outcomes[i].output;
        EXPECT_THAT(text, AllOf(HasSubstr("all: nothing"), HasSubstr("all again: nothing"))) << transport;
        EXPECT_THAT(text, AllOf(HasSubstr("[6. 6. 6. 6. 6. 6. 6. 6.]"), HasSubstr("[9. 9. 9. 9. 9. 9. 9. 9.]")));
        EXPECT_THAT(text, HasSubstr("shutdown: nothing"));
        EXPECT_LT(seconds_of(text, "all"), kSoon);
        if (i == 2) continue;
        EXPECT_THAT(text, HasSubstr("pair again: ")) << transport;
        EXPECT_THAT(text, AnyOf(HasSubstr("pair: " + error), HasSubstr("pair: InvalidState"))) << transport;
      }
    }
  }
}

// The same program, called for at different lines.
void other_lines() {
  const Array x = rows_of(8);
  meet();
  tell_when("launch", [&] {
    if (is_odd_one()) {
      sum(x).block_until_ready();
    } else {
      sum(x).block_until_ready();
    }
  });
  leave(0);
}
const Registered kOtherLines("other_lines", other_lines);

TEST(Faults, LinesAreComparedWhereThatIsAskedFor) {
  expect_all(multiprocess::run({"other_lines", {1, 1}}), "launch: nothing");
  const std::vector<Outcome> strict =
      multiprocess::run({.program = "other_lines", .devices = {1, 1}, .env = {{"SHOAL_CHECK", "strict"}}});
  expect_all(strict, "launch: Disagreement");
}

// A loop that exchanges nothing makes as many trips as a number says that each process has given by itself.
const Registered kSilentTrips("silent_trips", [] {
  const Array x = rows_of(8);
  const Array trips = make_array_from_process_local_data(NamedSharding(everywhere(), P()),
                                                         full({}, is_odd_one() ? 7 : 3).astype(int32));
  const auto by_count = [](const Array& v, const Array& n) {
    return lax::fori_loop(
        0, n, [](const Array&, const Array& c) { return c * 0.5; }, v);
  };
  const auto by_steps = [](const Array& v, const Array& n) {  // No kernel runs it whole.
    return lax::fori_loop(
        0, n, [](const Array&, const Array& c) { return sort(c) * 0.5; }, v);
  };
  const auto by_branch = [](const Array& v, const Array& n) {
    return lax::cond(
        n > 3, [](const Array& c) { return c * 2; }, [](const Array& c) { return c + 1; }, v);
  };
  const std::string which = std::getenv("SHOAL_TEST_TURN");
  meet();
  tell_when("launch", [&] {
    const auto f = [&](const Array& v, const Array& n) {
      const Array some = which == "branch" ? by_branch(v, n) : which == "steps" ? by_steps(v, n) : by_count(v, n);
      return lax::psum(some, "x");
    };
    jit(shard_map(f, {.mesh = everywhere(), .in_specs = {P("x"), P()}, .out_specs = P()}))(x, trips)
        .block_until_ready();
  });
  leave(0);
});

TEST(Faults, TripsAndBranchesAreComparedWhereThatIsAskedFor) {
  for (const std::string which : {"count", "steps", "branch"}) {
    expect_all(multiprocess::run(job_of("silent_trips", layouts()[0], {{"SHOAL_TEST_TURN", which}})),
               "launch: nothing");
    const std::vector<Outcome> strict = multiprocess::run(
        job_of("silent_trips", layouts()[0], {{"SHOAL_TEST_TURN", which}, {"SHOAL_CHECK", "strict"}}));
    expect_all(strict, "launch: Disagreement");
    expect_all(strict, "made other numbers of trips in a loop, or took other branches");
  }
}

void two_threads() {
  const Array x = rows_of(8);
  meet();
  std::thread([&] { tell_when("thread", [&] { total(x).block_until_ready(); }); }).join();
  tell_when("main", [&] { total(x).block_until_ready(); });
}
const Registered kTwoThreads("two_threads", two_threads);

TEST(Faults, TwoThreadsHaveNoOrder) {
  const std::vector<Outcome> outcomes = multiprocess::run({"two_threads", {1, 1}});
  expect_all(outcomes, "thread: InvalidState");
  expect_all(outcomes, "another thread launches programs on the processes [0, 1], too");
  expect_all(outcomes, "main: nothing");
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 0) << outcome.output;
}

// ---- Processes that end.

void loop_body() {
  const Array x = rows_of(8);
  std::cout << "begins" << std::endl;
  tell_when("loop", [&] {
    while (true) {
      total(x).block_until_ready();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  leave(3);
}
const Registered kLoop("loop", loop_body);

// With a child that lives on.
const Registered kLoopWithChild("loop_with_child", [] {
  const pid_t child = fork();
  if (child == 0) {
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    sleep(20);
    _exit(0);
  }
  loop_body();
});

TEST(Faults, AKilledProcessIsNamed) {
  for (const JobLayout& layout : layouts()) {
    for (const auto& [program, victim] :
         std::vector<std::pair<std::string, std::size_t>>{{"loop", 1}, {"loop", 0}, {"loop_with_child", 1}}) {
      Running job(job_of(program, layout));
      for (std::size_t i = 0; i < layout.devices.size(); ++i) ASSERT_TRUE(job.wait_for_output(i, "begins"));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::string pid = "pid " + std::to_string(job.pid(victim));
      const Time begin = now();
      job.signal(victim, SIGKILL);
      for (std::size_t i = 0; i < layout.devices.size(); ++i) {
        if (i != victim) {
          EXPECT_TRUE(job.wait_for_output(i, "loop: ProcessFailed"));
        }
      }
      EXPECT_LT(seconds_since(begin), kSoon) << described(layout) << " " << program;
      const std::vector<Outcome> outcomes = job.finish();
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (i == victim) continue;
        EXPECT_EQ(outcomes[i].code, 3) << outcomes[i].output;
        EXPECT_THAT(outcomes[i].output, AllOf(HasSubstr("process " + std::to_string(victim)), HasSubstr(pid)));
      }
    }
  }
}

// A process ends in some trip of a loop, between exchanges.
const Registered kLoopOfTrips("loop_of_trips", [] {
  const int last = std::atoi(std::getenv("SHOAL_TEST_TURN"));
  const auto trip = [&](const Array& c, const Array& i) {
    debug::callback(
        [last](const std::vector<Array>& at) {
          if (process_index() == 1 && at[0].item<std::int32_t>() == last) raise(SIGKILL);
        },
        {i});
    return std::pair(lax::pvary(lax::psum(c, "x"), {"x"}), i);
  };
  const Array x = rows_of(8);
  meet();
  const Array indices = arange(9);
  tell_when("loop", [&] {
    mapped([&](const Array& v) { return lax::scan(trip, v, indices).first; }, everywhere())(x).block_until_ready();
  });
  leave(3);
});

TEST(Faults, ADeathInAnyTripOfALoopIsTold) {
  for (const JobLayout& layout : layouts()) {
    for (const char* const trip : {"0", "4", "8"}) {
      const std::vector<Outcome> outcomes =
          multiprocess::run(job_of("loop_of_trips", layout, {{"SHOAL_TEST_TURN", trip}}));
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        if (i == 1) continue;
        EXPECT_THAT(outcomes[i].output, HasSubstr("loop: ProcessFailed")) << described(layout) << " " << trip;
        EXPECT_LT(seconds_of(outcomes[i].output, "loop"), kSoon) << outcomes[i].output;
        EXPECT_EQ(outcomes[i].code, 3);
      }
    }
  }
}

TEST(Faults, OthersThanTheNeighboursOfTheDeadGoOn) {
  Running job(job_of("pairs", {{1, 1, 1, 1}, "shm"}));
  for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(job.wait_for_output(i, "begins"));
  job.signal(3, SIGKILL);
  const std::vector<Outcome> outcomes = job.finish();
  EXPECT_THAT(outcomes[0].output, HasSubstr("pair: nothing"));
  EXPECT_THAT(outcomes[1].output, HasSubstr("pair: nothing"));
  EXPECT_THAT(outcomes[2].output, AllOf(HasSubstr("pair: ProcessFailed"), HasSubstr("process 3")));
}
const Registered kPairs("pairs", [] {
  const Mesh mesh = on_processes(process_index() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
  const Array x = rows_of(8, mesh);
  meet();
  std::cout << "begins" << std::endl;
  tell_when("pair", [&] {
    // As often in each of the two processes.
    for (int i = 0; i < 300; ++i) {
      total(x, mesh).block_until_ready();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  leave(0);
});

// One process shuts down while the others go on.
const Registered kEarly("early", [] {
  const Array x = rows_of(8);
  for (int i = 0; i < 3; ++i) total(x).block_until_ready();
  std::cout << "begins" << std::endl;
  if (is_odd_one()) {
    tell_when("shutdown", [] { distributed::shutdown(); });
    leave(5);
  }
  tell_when("loop", [&] { total(x).block_until_ready(); });
  leave(4);
});

TEST(Faults, AnEarlyLeaverAndThoseItLeavesAreTold) {
  for (const JobLayout& layout : layouts()) {
    const std::vector<Outcome> outcomes = multiprocess::run(job_of("early", layout));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const std::string& text = outcomes[i].output;
      EXPECT_EQ(outcomes[i].code, i == 1 ? 5 : 4) << text;
      const std::string what = i == 1 ? "shutdown" : "loop";
      EXPECT_THAT(text, HasSubstr(what + ": ProcessFailed")) << described(layout);
      EXPECT_THAT(text, ContainsRegex("process [0-9] on .* waits for process 1 on .*, which has entered "
                                      "distributed::shutdown: all_reduce: "));
      EXPECT_THAT(text, HasSubstr("what it did last: launch "));
      EXPECT_LT(seconds_of(text, what), kSoon) << text;
    }
  }
}

// One process fails, each in its way; the others wait for it.
template <class F>
void fails(F&& f) {
  const Array x = rows_of(8);
  total(x).block_until_ready();
  meet();
  if (is_odd_one()) f();
  tell_when("loop", [&] { total(x).block_until_ready(); });
  leave(4);
}
const Registered kRaises("raises", [] { fails([] { throw std::runtime_error("out of luck"); }); });
const Registered kExits("exits", [] { fails([] { std::exit(7); }); });
const Registered kTerminates("terminates", [] {
  fails([] { std::thread([] { throw std::runtime_error("out of luck"); }).join(); });
});
const Registered kRaisesWithin("raises_within", [] {
  const Array x = rows_of(8);
  const bool odd = is_odd_one();
  const auto f = [odd](Array v) {
    debug::callback(
        [odd](const std::vector<Array>&) {
          if (odd) throw std::runtime_error("out of luck");
        },
        {v});
    return lax::psum(v, "x");
  };
  meet();
  tell_when("loop", [&] { mapped(f, everywhere(), P())(x).block_until_ready(); });
  leave(4);
});

struct Failure {
  const char* program;
  int code;  // Of the process that fails.
  const char* text;
};
class Failing : public testing::TestWithParam<Failure> {};

TEST_P(Failing, IsToldWithItsErrorAndItsExitCode) {
  for (const JobLayout& layout : layouts()) {
    const std::vector<Outcome> outcomes = multiprocess::run(job_of(GetParam().program, layout));
    EXPECT_EQ(outcomes[1].code, GetParam().code) << outcomes[1].output;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (i == 1) continue;
      EXPECT_EQ(outcomes[i].code, 4) << outcomes[i].output;
      EXPECT_THAT(outcomes[i].output, HasSubstr("loop: ProcessFailed")) << described(layout);
      EXPECT_THAT(outcomes[i].output, HasSubstr(GetParam().text));
      EXPECT_THAT(outcomes[i].output, HasSubstr("what it did last: launch "));
      EXPECT_LT(seconds_of(outcomes[i].output, "loop"), kSoon);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Failing,
    testing::Values(Failure{"raises", 1, "exited with code 1"}, Failure{"exits", 7, "exited with code 7"},
                    Failure{"terminates", 128 + SIGABRT, "ends by an exception that it does not catch: out of luck"},
                    Failure{"raises_within", 1, "out of luck"}),
    [](const auto& of) { return std::string(of.param.program); });

// ---- Processes that are late, or never come.

void late() {
  if (is_odd_one()) std::this_thread::sleep_for(std::chrono::seconds(3));
  std::cout << total(rows_of(1)) << std::endl;
}
const Registered kLate("late", late);

TEST(Faults, ASlowProcessIsWaitedFor) {
  for (const JobLayout& layout : layouts()) {
    const std::vector<Outcome> outcomes = multiprocess::run(job_of("late", layout, {{"SHOAL_WARNING_AFTER", "1"}}));
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, 0) << outcome.output;
      EXPECT_THAT(outcome.output, HasSubstr(layout.devices.size() == 2 ? "[3.]" : "[10.]"));
    }
    EXPECT_THAT(outcomes[0].output, HasSubstr("all_reduce: waiting for process 1 on "));
    EXPECT_THAT(outcomes[0].output, HasSubstr("; it has launched nothing on these processes"));
  }
}

TEST(Faults, ProcessesStartInAnyOrder) {
  for (const JobLayout& layout : layouts()) {
    Job job = job_of("late", layout);
    job.last_first = true;
    job.between = std::chrono::milliseconds(300);
    for (const Outcome& outcome : multiprocess::run(job)) EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
}

// It lives, and does something else.
const Registered kStuck("stuck", [] {
  const Array x = rows_of(8);
  total(x).block_until_ready();
  meet();
  if (is_odd_one()) std::this_thread::sleep_for(std::chrono::seconds(5));
  tell_when("loop", [&] { total(x).block_until_ready(); });
  leave(3);
});

TEST(Faults, AStuckProcessIsAnErrorAtTheDeadline) {
  for (const JobLayout& layout : layouts()) {
    const std::vector<Outcome> outcomes =
        multiprocess::run(job_of("stuck", layout, {{"SHOAL_ARRIVAL_TIMEOUT", "1.5"}}));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const std::string& text = outcomes[i].output;
      EXPECT_EQ(outcomes[i].code, 3) << text;
      EXPECT_THAT(text, HasSubstr("loop: DeadlineExceeded")) << described(layout);
      EXPECT_THAT(text, ContainsRegex("waited 1.[5-9] s for process "));
      EXPECT_THAT(text, ContainsRegex("process 1 on .* has done launch [0-9]+ of 'sync_global_devices' at "
                                      "faults_test.cc:[0-9]+, .* s ago, and called nothing since"));
      EXPECT_THAT(text, ContainsRegex("process 0 on .* is in launch [0-9]+ of '.*, step 1, all_reduce at "
                                      "faults_test.cc:[0-9]+, and waits for process [0-9] for [0-9]"));
      EXPECT_THAT(text, ContainsRegex("first difference: launch [0-9]+ is '.*, and process 1 has not come to it"));
      EXPECT_LT(seconds_of(text, "loop"), 1.5 + kSoon);
    }
  }
}

TEST(Faults, AStoppedProcessIsAnErrorAtTheDeadline) {
  for (const JobLayout& layout : layouts()) {
    Running job(job_of("loop", layout, {{"SHOAL_ARRIVAL_TIMEOUT", "2"}}));
    for (std::size_t i = 0; i < layout.devices.size(); ++i) ASSERT_TRUE(job.wait_for_output(i, "begins"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // It tells once a second what it does.
    job.signal(1, SIGSTOP);
    const Time begin = now();
    for (std::size_t i = 0; i < layout.devices.size(); ++i) {
      if (i != 1) {
        EXPECT_TRUE(job.wait_for_output(i, "loop: DeadlineExceeded"));
      }
    }
    EXPECT_LT(seconds_since(begin), 2 + kSoon);
    job.signal(1, SIGCONT);
    const std::vector<Outcome> outcomes = job.finish();
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 3) << outcome.output;
    EXPECT_THAT(outcomes[0].output,
                ContainsRegex("process 1 on .* does not answer; what it told last is launch [0-9]+ of '"));
  }
}

// ---- What is left behind.

TEST(Faults, FlightRecordersTellWhereAKilledJobStood) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shoal_flight_" + std::to_string(getpid()));
  Running job(job_of("stuck", {{1, 1}, "shm"}, {{"SHOAL_FLIGHT_RECORDER", folder.string()}}));
  const auto logs = [&] {
    std::vector<FlightLog> all;
    for (int process : {0, 1}) all.push_back(log_from_file((folder / flight_file_name(process)).string()));
    return all;
  };
  // Until process 0 waits for process 1.
  std::string text;
  for (const Time begin = now(); seconds_since(begin) < 30 && text.find("waits for process 1") == std::string::npos;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    try {
      text = to_string(diagnose({0, 1}, logs()));
    } catch (const InvalidArgument&) {  // They are not there yet.
    }
  }
  for (const std::size_t process : {0U, 1U}) job.signal(process, SIGKILL);
  job.finish();
  text = to_string(diagnose({0, 1}, logs()));
  EXPECT_THAT(text, ContainsRegex("process 0 on .* is in launch [0-9]+ of '.* at faults_test.cc:"));
  EXPECT_THAT(text, HasSubstr("and waits for process 1"));
  EXPECT_THAT(text, HasSubstr("and process 1 has not come to it"));
  std::filesystem::remove_all(folder);
}

// ---- Ends.

// Processes end in another order each time; some by shutdown(), some without.
const Registered kQuick("quick", [] {
  const Array x = rows_of(1);
  std::cout << total(x) << std::endl;
  const int turn = std::atoi(std::getenv("SHOAL_TEST_TURN"));
  std::this_thread::sleep_for(std::chrono::milliseconds((turn * 7 + process_index() * 13) % 23));
  if ((turn + process_index()) % 3 == 0) std::exit(0);
});

// Shared memory that has a name, of all processes of this host whose name says that it is Shoal's.
std::vector<std::string> named_segments() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::string name = entry.path().filename();
    if (name.find("shoal") != std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

TEST(Faults, ProcessesEndInAnyOrderAndLeaveNothing) {
  const char* const wanted = std::getenv("SHOAL_TEST_REPETITIONS");
  const int repetitions = wanted == nullptr ? 12 : std::atoi(wanted);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shoal_ends_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (int turn = 0; turn < repetitions; ++turn) {
    const JobLayout& layout = layouts()[static_cast<std::size_t>(turn) % layouts().size()];
    const std::vector<Outcome> outcomes =
        multiprocess::run(job_of("quick", layout, {{"SHOAL_TEST_TURN", std::to_string(turn)}, {"TMPDIR", folder}}));
    for (const Outcome& outcome : outcomes) {
      ASSERT_EQ(outcome.code, 0) << "turn " << turn << "\n" << outcome.output;
      ASSERT_EQ(outcome.output, layout.devices.size() == 2 ? "[3.]\n" : "[10.]\n") << "turn " << turn;
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_THAT(named_segments(), testing::IsEmpty());
  std::filesystem::remove_all(folder);
}

// Some wait in shutdown while another one dies.
const Registered kDiesInShutdown("dies_in_shutdown", [] {
  total(rows_of(8)).block_until_ready();
  std::cout << "begins" << std::endl;
  if (is_odd_one()) std::this_thread::sleep_for(std::chrono::seconds(20));
  tell_when("shutdown", [] { distributed::shutdown(); });
  leave(4);
});

TEST(Faults, ADeathDuringShutdownIsTold) {
  for (const JobLayout& layout : layouts()) {
    Running job(job_of("dies_in_shutdown", layout));
    for (std::size_t i = 0; i < layout.devices.size(); ++i) ASSERT_TRUE(job.wait_for_output(i, "begins"));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Time begin = now();
    job.signal(1, SIGKILL);
    const std::vector<Outcome> outcomes = job.finish();
    EXPECT_LT(seconds_since(begin), kSoon);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (i == 1) continue;
      EXPECT_EQ(outcomes[i].code, 4);
      EXPECT_THAT(outcomes[i].output, AllOf(HasSubstr("shutdown: ProcessFailed"), HasSubstr("process 1 on ")));
    }
  }
}

}  // namespace
}  // namespace shoal
