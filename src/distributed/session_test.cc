#include "distributed/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>

#include "comm/record/communicator.h"
#include "comm/record/flight_recorder.h"
#include "distributed/service.h"

namespace shoal::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Clock = std::chrono::steady_clock;

/// The sessions of a job, all in this process. Each process has a host of its own, unless `one_host`.
class Job {
 public:
  explicit Job(int num_processes, bool one_host = true) : sessions_(static_cast<std::size_t>(num_processes)) {
    Socket listener = listen_at({"127.0.0.1", 0});
    address_ = local_address(listener.get());
    std::vector<std::thread> threads;
    for (int i = 0; i < num_processes; ++i) {
      threads.emplace_back([&, i] {
        SessionOptions options = this->options(i);
        if (!one_host) options.host_identity = "identity " + std::to_string(i);
        Socket own = i == 0 ? std::move(listener) : Socket();
        sessions_[static_cast<std::size_t>(i)] = std::make_unique<Session>(std::move(options), std::move(own));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  SessionOptions options(int process) const {
    return {.coordinator = address_,
            .num_processes = static_cast<int>(sessions_.size()),
            .process = process,
            .job = "test",
            .card = "card " + std::to_string(process),
            .initialization_timeout = 10s,
            .heartbeat_timeout = 2s,
            .shutdown_timeout = 5s,
            .host = "host" + std::to_string(process)};
  }

  Session& operator[](int process) { return *sessions_[static_cast<std::size_t>(process)]; }
  void destroy(int process) { sessions_[static_cast<std::size_t>(process)] = nullptr; }
  const Address& address() const { return address_; }

  /// Calls f(process) for all, each in a thread.
  template <class F>
  void each(F f) {
    std::vector<std::thread> threads;
    for (int i = 0; i < static_cast<int>(sessions_.size()); ++i) threads.emplace_back([=] { f(i); });
    for (std::thread& thread : threads) thread.join();
  }
  void shutdown() {
    each([this](int process) { EXPECT_NO_THROW((*this)[process].shutdown()) << process; });
  }

 private:
  Address address_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

template <class Exception = Error, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no exception";
}

/// The first fault of a session, waited for.
Fault first_fault(Session& session, std::chrono::milliseconds timeout = 2s) {
  const auto deadline = Clock::now() + timeout;
  while (session.fault() == nullptr && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  return session.fault() == nullptr ? Fault{.text = "no fault"} : *session.fault();
}

TEST(Session, MembersKnowEachOther) {
  Job job(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(job[i].process_index(), i);
    EXPECT_EQ(job[i].num_processes(), 4);
    ASSERT_EQ(job[i].members().size(), 4U);
    for (int j = 0; j < 4; ++j) {
      const Member& member = job[i].members()[static_cast<std::size_t>(j)];
      EXPECT_EQ(member.process, j);
      EXPECT_EQ(member.host, "host" + std::to_string(j));
      EXPECT_EQ(member.card, "card " + std::to_string(j));
      EXPECT_EQ(member.address, "127.0.0.1");
      EXPECT_EQ(member.pid, ::getpid());
      EXPECT_EQ(member.host_identity, host_identity());
    }
    EXPECT_EQ(job[i].key("a"), job[0].key("a"));
    EXPECT_NE(job[i].key("a"), job[i].key("b"));
  }
  job.shutdown();
  EXPECT_EQ(job[1].fault(), nullptr);
}

TEST(Session, KeysAndValues) {
  Job job(2);
  Client& a = job[0].client();
  Client& b = job[1].client();
  a.key_value_set("dir/x", "1");
  EXPECT_EQ(b.key_value_try_get("dir/x"), "1");
  EXPECT_EQ(b.key_value_try_get("dir"), std::nullopt);
  EXPECT_THAT(message_of<InvalidState>([&] { b.key_value_set("dir/x", "2"); }), HasSubstr("\"dir/x\""));
  b.key_value_set("dir/x", "2", true);
  EXPECT_EQ(a.blocking_key_value_get("dir/x", 1s), "2");
  a.key_value_set("dir/sub/y", std::string("\0z", 2));
  a.key_value_set("dirt", "not in dir");
  EXPECT_THAT(b.key_value_dir_get("dir"), ElementsAre(Pair("dir/sub/y", std::string("\0z", 2)), Pair("dir/x", "2")));
  b.key_value_delete("dir");
  EXPECT_THAT(a.key_value_dir_get("dir"), ElementsAre());
  EXPECT_EQ(a.key_value_try_get("dirt"), "not in dir");

  auto late = std::async(std::launch::async, [&] { return a.blocking_key_value_get("late", 5s); });
  std::this_thread::sleep_for(20ms);
  b.key_value_set("late", "here");
  EXPECT_EQ(late.get(), "here");

  const auto start = Clock::now();
  EXPECT_THAT(message_of<DeadlineExceeded>([&] { b.blocking_key_value_get("never", 50ms); }),
              AllOf(HasSubstr("\"never\""), HasSubstr("0.05 s")));
  EXPECT_GE(Clock::now() - start, 50ms);
  EXPECT_LT(Clock::now() - start, 1s);

  EXPECT_EQ(a.key_value_increment("n"), 1);
  EXPECT_EQ(b.key_value_increment("n", -5), -4);
  EXPECT_EQ(a.key_value_try_get("n"), "-4");
  EXPECT_THAT(message_of<InvalidState>([&] { a.key_value_increment("late"); }), HasSubstr("no integer"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { a.key_value_set("", "x"); }), HasSubstr("0 bytes"));
  const std::string big(std::size_t{16} << 20, 'v');
  a.key_value_set("big", big);
  EXPECT_EQ(b.blocking_key_value_get("big", 5s), big);
  EXPECT_THROW(a.key_value_set("bigger", big + "v"), InvalidArgument);
  job.shutdown();
}

TEST(Session, IncrementsOfManyThreadsAreCounted) {
  Job job(3);
  job.each([&](int process) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) job[process].client().key_value_increment("n");
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(job[0].client().key_value_try_get("n"), "600");
  job.shutdown();
}

TEST(Session, BarriersMeet) {
  Job job(3);
  std::atomic<int> before = 0;
  for (int round = 0; round < 20; ++round) {
    job.each([&](int process) {
      ++before;
      job[process].client().wait_at_barrier("again", 5s);
      EXPECT_GE(before.load(), 3 * (round + 1));
    });
  }
  // Of a part, while the third does nothing.
  auto other = std::async(std::launch::async, [&] { job[2].client().wait_at_barrier("part", 5s, {2, 0}); });
  job[0].client().wait_at_barrier("part", 5s, {0, 2});
  other.get();
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                job[1].client().wait_at_barrier("part", 5s, {0, 2});
              }),
              HasSubstr("process 1"));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                job[1].client().wait_at_barrier("part", 5s, {1, 3});
              }),
              HasSubstr("0 to 2"));
  job.shutdown();
}

TEST(Session, BarrierNamesWhoIsMissing) {
  Job job(4);
  auto other = std::async(std::launch::async, [&] {
    return message_of<DeadlineExceeded>([&] { job[3].client().wait_at_barrier("b", 5s); });
  });
  std::this_thread::sleep_for(20ms);
  const std::string text = message_of<DeadlineExceeded>([&] { job[0].client().wait_at_barrier("b", 100ms); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("process 1 on host1, process 2 on host2 did not come to \"b\""), HasSubstr("0.1 s")));
  EXPECT_EQ(other.get(), text);
  // Who comes late is told, too, and the barrier can then be used again.
  EXPECT_EQ(message_of<DeadlineExceeded>([&] { job[1].client().wait_at_barrier("b", 5s); }), text);
  EXPECT_EQ(message_of<DeadlineExceeded>([&] { job[2].client().wait_at_barrier("b", 5s); }), text);
  job.each([&](int process) { EXPECT_NO_THROW(job[process].client().wait_at_barrier("b", 5s)); });
  // Those that disagree on who is to come.
  auto all = std::async(std::launch::async,
                        [&] { return message_of<InvalidArgument>([&] { job[1].client().wait_at_barrier("c", 5s); }); });
  std::this_thread::sleep_for(20ms);
  const std::string disagree = message_of<InvalidArgument>([&] { job[0].client().wait_at_barrier("c", 5s, {0, 1}); });
  EXPECT_THAT(disagree, AllOf(HasSubstr("[0, 1]"), HasSubstr("[0, 1, 2, 3]")));
  EXPECT_EQ(all.get(), disagree);
  job.shutdown();
}

TEST(Session, LiveNodes) {
  Job job(3);
  job.each([&](int process) {
    const auto live = job[process].client().get_live_nodes({});
    ASSERT_EQ(live.size(), 3U);
    for (const Member& member : job[process].members()) EXPECT_EQ(live.at(member.process), member.incarnation);
  });
  // One leaves, and the others agree on who is left.
  auto waiting = std::async(std::launch::async, [&] { return job[0].client().get_live_nodes({0, 1, 2}, 5s); });
  std::this_thread::sleep_for(20ms);
  job.destroy(1);
  EXPECT_EQ(job[2].client().get_live_nodes({0, 1, 2}, 5s).size(), 2U);
  EXPECT_EQ(waiting.get().size(), 2U);
}

TEST(Session, ReportsReachAll) {
  Job job(3);
  std::promise<Fault> told;
  job[2].on_fault([&](const Fault& fault) {
    if (fault.kind == FaultKind::kUserError) told.set_value(fault);
  });
  auto waiting = std::async(
      std::launch::async, [&] { return message_of<ProcessFailed>([&] { job[0].client().wait_at_barrier("b", 5s); }); });
  std::this_thread::sleep_for(20ms);
  const auto start = Clock::now();
  // The consequence comes first, and is told after its cause.
  job[0].report({.kind = FaultKind::kSecondary, .process = 0, .text = "the channel to 1 ended"});
  job[1].report({.kind = FaultKind::kUserError, .process = 1, .text = "out of luck", .last_done = "psum at a.cc:3"});
  const Fault fault = told.get_future().get();
  EXPECT_LT(Clock::now() - start, 1s);
  EXPECT_EQ(fault.host, "host1");
  EXPECT_EQ(fault.process, 1);
  EXPECT_EQ(describe(fault), "out of luck; what it did last: psum at a.cc:3");
  EXPECT_THAT(waiting.get(), HasSubstr("out of luck"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first_fault(job[i]).text, "out of luck") << i;
    // They come one after the other.
    for (const auto end = Clock::now() + 2s; job[i].faults().size() < 2 && Clock::now() < end;) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(job[i].faults().size(), 2U);
    ASSERT_NE(job[i].failure_of({0, 1}), nullptr);
    EXPECT_THAT(message_of<ProcessFailed>([&] {
                  std::rethrow_exception(error_of(*job[i].failure_of({0, 1})));
                }),
                HasSubstr("out of luck"));
    EXPECT_EQ(job[i].failure_of({2}), nullptr);  // Without process 0 and 1.
  }
  // The board still serves those that tell each other what they know.
  job[0].client().key_value_set("after", "1");
  EXPECT_EQ(job[2].client().blocking_key_value_get("after", 1s), "1");
  job.shutdown();  // Quiet, as everybody knows.
}

/// What a process has launched, as it answers when it is asked.
std::string log_of(int process, const std::vector<int>& processes, const char* name) {
  FlightLog log;
  log.process = process;
  log.host = "host" + std::to_string(process);
  log.pid = 7;
  FlightRecord record{.number = 1,
                      .communicator = Communicator::id_of(processes),
                      .sequence = 1,
                      .program = digest_of(name),
                      .state = FlightRecord::State::kRunning};
  std::strcpy(record.name.data(), name);
  log.records.push_back(record);
  return to_bytes(log);
}

TEST(Session, FaultsOfSomeProcessesSayWhereTheyAre) {
  Job job(4);
  for (int i = 0; i < 3; ++i) {
    job[i].set_records([i] { return "doing " + std::to_string(i); },
                       [i](const std::vector<int>& processes) { return log_of(i, processes, i == 1 ? "g" : "f"); });
  }
  const std::vector<int> some{0, 1, 3};
  const auto start = Clock::now();
  job[0].report({.kind = FaultKind::kTimeout, .process = 0, .text = "waited", .processes = some});
  job[1].report({.kind = FaultKind::kTimeout, .process = 1, .text = "waited, too", .processes = some});
  std::string text;
  for (int i = 0; i < 4; ++i) {
    const Fault* const fault = job[i].await_failure_of(some, 2s);
    ASSERT_NE(fault, nullptr);
    if (i == 0) text = fault->text;
    EXPECT_EQ(fault->text, text);
    EXPECT_EQ(job[i].faults().size(), 1U);
    EXPECT_EQ(job[i].failure_of({0, 1}), nullptr);
    EXPECT_THAT(message_of<DeadlineExceeded>([&] { std::rethrow_exception(error_of(*fault)); }), HasSubstr("waited"));
  }
  EXPECT_LT(Clock::now() - start, 1s);
  EXPECT_THAT(text, AllOf(HasSubstr("process 0 on host0 (pid 7) is in launch 1 of 'f'"),
                          HasSubstr("process 1 on host1 (pid 7) is in launch 1 of 'g'"),
                          HasSubstr("process 3 on host3"), HasSubstr("does not answer"),
                          HasSubstr("first difference: launch 1 is 'f' in process 0, and 'g' in process 1")));
  EXPECT_THAT(job[3].whereabouts_of(1, {0, 1, 2}), HasSubstr("is in launch 1 of 'g' for"));
  // The job itself goes on, and what comes later of the same processes is not told.
  job[3].report({.kind = FaultKind::kDisagreement, .process = 3, .text = "late", .processes = some});
  job.each([&](int process) { EXPECT_NO_THROW(job[process].client().wait_at_barrier("b", 5s)); });
  EXPECT_EQ(job[0].faults().size(), 1U);
  job.shutdown();
}

TEST(Session, LaunchesAreComparedAtShutdown) {
  const auto run = [](std::vector<Launches> mine, std::vector<Launches> other) {
    Job job(3);
    std::vector<std::string> texts(3);
    job.each([&](int process) {
      job[process].shutdown(process == 1 ? other : mine);
      const Fault* const fault = job[process].failure_of({0, 1});
      texts[static_cast<std::size_t>(process)] = fault == nullptr ? "" : fault->text;
      EXPECT_EQ(job[process].failure_of({0, 1, 2}), nullptr);
    });
    EXPECT_EQ(texts[0], texts[1]);
    return texts[0];
  };
  const std::vector<int> all{0, 1, 2};
  EXPECT_EQ(run({{all, 5, 77}}, {{all, 5, 77}}), "");
  EXPECT_THAT(run({{{0, 1}, 3, 1}, {all, 5, 77}}, {{{0, 1}, 3, 2}, {all, 5, 77}}),
              HasSubstr("did not do the same on the processes [0, 1]: both launched 3 programs, but not the same"));
  EXPECT_THAT(run({{{0, 1}, 3, 1}}, {}), HasSubstr("the former launched 3 programs, the latter 0"));
}

TEST(Session, ManyJobsEndInAnyOrder) {
  for (int turn = 0; turn < 200; ++turn) {
    Job job(3);
    job.each([&](int process) {
      std::this_thread::sleep_for(std::chrono::microseconds((turn * 131 + process * 577) % 1900));
      EXPECT_NO_THROW(job[process].shutdown());
    });
    for (int i = 0; i < 3; ++i) ASSERT_EQ(job[i].fault(), nullptr) << describe(*job[i].fault());
  }
}

TEST(Session, EarlyLeaverAndThoseThatWaitForItAreTold) {
  Job job(3);
  auto leaver = std::async(std::launch::async, [&] { return message_of<ProcessFailed>([&] { job[1].shutdown(); }); });
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(job[0].is_leaving(1));
  EXPECT_FALSE(job[0].is_leaving(2));
  EXPECT_EQ(job[0].fault(), nullptr);  // Others may come later.
  const std::string text = message_of<ProcessFailed>([&] { job[0].client().wait_at_barrier("b", 5s); });
  EXPECT_THAT(text, HasSubstr("process 1 on host1 entered shutdown, while process 0 on host0 waits at barrier \"b\""));
  EXPECT_EQ(leaver.get(), text);
  EXPECT_EQ(first_fault(job[2]).kind, FaultKind::kShutdown);
  EXPECT_EQ(first_fault(job[2]).text, text);
  EXPECT_NO_THROW(job[2].shutdown());
  EXPECT_NO_THROW(job[0].shutdown());
}

TEST(Session, WaitingForAValueThatNobodyIsLeftToSet) {
  Job job(2);
  auto leaver = std::async(std::launch::async, [&] { return message_of<ProcessFailed>([&] { job[0].shutdown(); }); });
  const std::string text = message_of<ProcessFailed>([&] { job[1].client().blocking_key_value_get("k", 5s); });
  EXPECT_THAT(text, AllOf(HasSubstr("process 0"), HasSubstr("\"k\"")));
  EXPECT_EQ(leaver.get(), text);
  EXPECT_NO_THROW(job[1].shutdown());
}

TEST(Session, ShutdownInTurn) {
  Job job(3);
  std::vector<std::future<void>> leaving;
  for (const int process : {0, 2, 1}) {
    leaving.push_back(std::async(std::launch::async, [&job, process] { job[process].shutdown(); }));
    std::this_thread::sleep_for(50ms);
  }
  for (auto& one : leaving) EXPECT_NO_THROW(one.get());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(job[i].fault(), nullptr);
}

TEST(Session, Alone) {
  Session session({});
  EXPECT_EQ(session.num_processes(), 1);
  EXPECT_EQ(session.members().size(), 1U);
  Client& client = session.client();
  client.key_value_set("k", "v");
  EXPECT_EQ(client.blocking_key_value_get("k", 1s), "v");
  EXPECT_THAT(message_of<DeadlineExceeded>([&] { client.blocking_key_value_get("none", 20ms); }),
              HasSubstr("\"none\""));
  client.wait_at_barrier("b", 1s);
  client.wait_at_barrier("b", 1s);
  EXPECT_EQ(client.get_live_nodes({}).size(), 1U);
  auto late = std::async(std::launch::async, [&] { return client.blocking_key_value_get("late", 5s); });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(client.key_value_increment("late", 3), 3);
  EXPECT_EQ(late.get(), "3");
  EXPECT_NO_THROW(session.shutdown());
}

}  // namespace
}  // namespace shoal::distributed
