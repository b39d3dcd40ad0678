// Real processes: this program starts itself again, in a role.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "distributed/net.h"
#include "distributed/session.h"
#include "shoal/device.h"
#include "shoal/distributed.h"

namespace shoal::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

// ---- Roles.

void say(const std::string& text) { std::cout << text << std::endl; }

// Waits at a barrier that most tests keep it from passing.
int wait_at_barrier() {
  say("joined");
  try {
    client().wait_at_barrier("all", 20s);
    say("passed");
  } catch (const ProcessFailed& error) {
    say(std::string("caught: ") + error.what());
  }
  shutdown();
  return 0;
}

int wait_for_others() {
  initialize();
  return wait_at_barrier();
}

int only_join() {
  initialize();
  say("joined");
  return 0;
}

int exit_with_3() {
  initialize();
  say("joined");
  std::exit(3);
}

// Leaves in one of three ways, after some milliseconds.
int leave(int milliseconds, const std::string& way) {
  initialize();
  say("joined");
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  if (way == "shutdown") shutdown();
  if (way == "exit") std::exit(0);
  return 0;
}

// Has a child that outlives it.
int fork_and_wait() {
  initialize();
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      client();
    } catch (const InvalidState& error) {
      say(std::string("in the child: ") + error.what());
    }
    const Fault* fault = Session::current()->fault();
    if (fault != nullptr && !is_initialized()) say("the child has no part in the job");
    ::sleep(6);
    ::_exit(0);
  }
  return wait_at_barrier();
}

// What a user can do wrong, in a job of one process.
int misuse() {
  const auto refused = [](const InitializeOptions& options) {
    try {
      initialize(options);
      say("no exception");
    } catch (const Error& error) {
      say(error.what());
    }
  };
  refused({.num_processes = 2});
  refused({.coordinator_address = "127.0.0.1:1", .num_processes = 2, .process_id = 2});
  refused({.coordinator_address = "localhost", .num_processes = 2, .process_id = 1});
  refused({.coordinator_address = "127.0.0.1:0", .num_processes = 2, .process_id = 1});
  refused({.num_processes = 0});
  refused({.num_processes = 1, .local_device_ids = std::vector<int>{1, 1}});
  refused({.num_processes = 1, .heartbeat_timeout = 0ms});
  refused({.cluster_detection_method = "tea leaves"});
  refused({.coordinator_address = "far.example:123", .num_processes = 2, .process_id = 1});
  try {
    client();
  } catch (const InvalidState& error) {
    say(error.what());
  }
  initialize({.num_processes = 1});
  if (is_initialized()) say("initialized");
  refused({});
  shutdown();
  if (!is_initialized()) say("not initialized");
  refused({});
  try {
    shutdown();
  } catch (const InvalidState& error) {
    say(error.what());
  }
  return 0;
}

int too_late() {
  local_devices();
  return only_join();
}

int run_role(const std::vector<std::string>& arguments) {
  const std::string& role = arguments.at(0);
  try {
    if (role == "wait") return wait_for_others();
    if (role == "join") return only_join();
    if (role == "exit 3") return exit_with_3();
    if (role == "leave") return leave(std::stoi(arguments.at(1)), arguments.at(2));
    if (role == "fork") return fork_and_wait();
    if (role == "misuse") return misuse();
    if (role == "too late") return too_late();
  } catch (const std::exception& error) {
    say(std::string("error: ") + error.what());
    return 1;
  }
  return 2;
}

// ---- Children.

class Child {
 public:
  Child(const std::vector<std::string>& arguments, const Variables& variables) {
    // Everything is made before the fork: this process has threads.
    std::vector<std::string> texts = {"/proc/self/exe", "--role"};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    std::vector<std::string> settings;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string setting = *variable;
      if (!setting.starts_with("SHOAL_") && !setting.starts_with("HOME=")) settings.push_back(setting);
    }
    if (!variables.contains("HOME")) settings.emplace_back("HOME=/nonexistent");
    for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (std::string& setting : settings) environment.push_back(setting.data());
    environment.push_back(nullptr);
    std::array<int, 2> ends = {};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      ::execve(argv[0], argv.data(), environment.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    if (code_ < 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(pipe_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }

  /// Waits until it has printed this.
  bool says(const std::string& text, std::chrono::milliseconds timeout = 10s) {
    const auto deadline = Clock::now() + timeout;
    while (output_.find(text) == std::string::npos) {
      if (!read(deadline)) return false;
    }
    return true;
  }
  /// Its exit code, or 128 + signal; -1 if it does not end in time.
  int wait(std::chrono::milliseconds timeout = 10s) {
    const auto deadline = Clock::now() + timeout;
    while (code_ < 0 && Clock::now() < deadline) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      } else {
        std::this_thread::sleep_for(1ms);
      }
    }
    while (read(Clock::now())) {
    }
    return code_;
  }
  const std::string& output() const { return output_; }

 private:
  bool read(Clock::time_point deadline) {
    pollfd waiting{pipe_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (::poll(&waiting, 1, std::max(0, static_cast<int>(left.count()))) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(pipe_, buffer.data(), buffer.size());
    if (size > 0) output_.append(buffer.data(), static_cast<std::size_t>(size));
    return size > 0;
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
  int code_ = -1;
  std::string output_;
};

/// A port at loopback for process 0 of a job. It is bound here and nobody listens, so no other program is given it.
class Port {
 public:
  Port() : socket_([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }) {
    const int yes = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const Endpoint any = resolve({"127.0.0.1", 0}).front();
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any.storage), any.size) != 0) {
      throw std::runtime_error("bind");
    }
  }
  Address address() const { return local_address(socket_.get()); }

 private:
  Socket socket_;
};

class Processes : public ::testing::Test {
 protected:
  Variables variables(int process, int num_processes) const {
    return {{"SHOAL_COORDINATOR_ADDRESS", to_string(port_.address())},
            {"SHOAL_NUM_PROCESSES", std::to_string(num_processes)},
            {"SHOAL_PROCESS_ID", std::to_string(process)},
            {"SHOAL_INITIALIZATION_TIMEOUT", "10"},
            {"SHOAL_SHUTDOWN_TIMEOUT", "10"}};
  }
  /// Starts a process of the job. Variables of `more` win.
  Child& start(const std::vector<std::string>& role, int process, int num_processes, Variables more = {}) {
    more.merge(variables(process, num_processes));
    return *children_.emplace_back(std::make_unique<Child>(role, more));
  }
  Child& child(int index) { return *children_[static_cast<std::size_t>(index)]; }
  void await_joined() {
    for (const auto& child : children_) ASSERT_TRUE(child->says("joined")) << child->output();
  }

  Port port_;
  std::vector<std::unique_ptr<Child>> children_;
};

TEST_F(Processes, Meet) {
  for (int i = 0; i < 4; ++i) start({"wait"}, i, 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(child(i).wait(), 0);
    EXPECT_EQ(child(i).output(), "joined\npassed\n");
  }
}

TEST_F(Processes, ComeInAnyOrderAndLate) {
  start({"wait"}, 2, 3);
  start({"wait"}, 1, 3);
  std::this_thread::sleep_for(300ms);
  start({"wait"}, 0, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(child(i).wait(), 0) << child(i).output();
}

class Deaths : public Processes, public ::testing::WithParamInterface<int> {};

TEST_P(Deaths, AreToldWithinTwoSeconds) {
  const int victim = GetParam();
  for (int i = 0; i < 4; ++i) {
    // A fourth process does not wait for the others, so that these do not meet.
    start({i == 3 ? "leave" : "wait", "30000", "return"}, i, 4);
  }
  await_joined();
  child(victim).signal(SIGKILL);
  const auto killed = Clock::now();
  for (int i = 0; i < 3; ++i) {
    if (i == victim) continue;
    EXPECT_TRUE(child(i).says("caught: process " + std::to_string(victim) + " on ", 2s)) << child(i).output();
    EXPECT_THAT(child(i).output(),
                AllOf(HasSubstr("(pid " + std::to_string(child(victim).pid()) + ")"), HasSubstr("died")));
  }
  EXPECT_LT(Clock::now() - killed, 2s);
  for (int i = 0; i < 3; ++i) {
    if (i == victim) continue;
    EXPECT_EQ(child(i).wait(), 0) << child(i).output();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Deaths, ::testing::Values(0, 1));

TEST_F(Processes, DeathWithALivingForkedChildIsTold) {
  start({"wait"}, 0, 3);
  start({"fork"}, 1, 3);
  start({"leave", "30000", "return"}, 2, 3);
  ASSERT_TRUE(child(1).says("the child has no part in the job"));
  EXPECT_THAT(child(1).output(), HasSubstr("in the child: distributed::client: this process was made by fork()"));
  ASSERT_TRUE(child(1).says("joined"));
  child(1).signal(SIGKILL);
  EXPECT_TRUE(child(0).says("caught: process 1 on ", 2s)) << child(0).output();
}

TEST_F(Processes, AStoppedProcessIsSilent) {
  for (int i = 0; i < 3; ++i) {
    start({i == 2 ? "leave" : "wait", "30000", "return"}, i, 3, {{"SHOAL_HEARTBEAT_TIMEOUT", "1"}});
  }
  await_joined();
  child(1).signal(SIGSTOP);
  EXPECT_TRUE(child(0).says("caught: process 1 on ", 4s)) << child(0).output();
  EXPECT_THAT(child(0).output(), HasSubstr("silent for 1 s"));
  EXPECT_EQ(child(0).wait(), 0);
  // When it goes on it hears what the others think.
  child(1).signal(SIGCONT);
  EXPECT_TRUE(child(1).says("caught: ", 2s)) << child(1).output();
  EXPECT_EQ(child(1).wait(), 0);
}

TEST_F(Processes, AStoppedCoordinatorIsSilent) {
  for (int i = 0; i < 3; ++i) {
    start({i == 2 ? "leave" : "wait", "30000", "return"}, i, 3, {{"SHOAL_HEARTBEAT_TIMEOUT", "1"}});
  }
  await_joined();
  child(0).signal(SIGSTOP);
  EXPECT_TRUE(child(1).says("caught: process 0 on ", 4s)) << child(1).output();
  EXPECT_THAT(child(1).output(),
              AllOf(HasSubstr("coordinates the job"), HasSubstr("nothing was heard from it for 1 s")));
  EXPECT_EQ(child(1).wait(), 0);
}

TEST_F(Processes, ReturningEarlyIsAFaultForThoseThatWait) {
  start({"wait"}, 0, 3);
  start({"join"}, 1, 3);
  start({"wait"}, 2, 3);
  for (const int i : {0, 2}) {
    EXPECT_EQ(child(i).wait(), 0);
    EXPECT_THAT(child(i).output(), AllOf(HasSubstr("caught: process 1 on "), HasSubstr("entered shutdown, while ")));
  }
  EXPECT_EQ(child(1).wait(), 0);
  EXPECT_THAT(child(1).output(),
              AllOf(HasSubstr("ends without distributed::shutdown()"), HasSubstr("waits at barrier")));
}

TEST_F(Processes, AFailingExitIsToldAndKeepsItsCode) {
  start({"wait"}, 0, 3);
  start({"wait"}, 1, 3);
  start({"exit 3"}, 2, 3);
  for (const int i : {0, 1}) {
    EXPECT_EQ(child(i).wait(), 0);
    EXPECT_THAT(child(i).output(), HasSubstr("exited with code 3"));
  }
  EXPECT_EQ(child(2).wait(), 3);
  EXPECT_EQ(child(2).output(), "joined\n");
}

TEST_F(Processes, ExitInAnyOrder) {
  std::mt19937 random(1);
  const std::vector<std::string> ways = {"shutdown", "exit", "return"};
  for (int repetition = 0; repetition < 12; ++repetition) {
    children_.clear();
    port_ = Port();
    const int num = 2 + static_cast<int>(random() % 3);
    for (int i = 0; i < num; ++i) {
      start({"leave", std::to_string(random() % 10), ways[random() % 3]}, i, num);
    }
    for (int i = 0; i < num; ++i) {
      EXPECT_EQ(child(i).wait(), 0);
      EXPECT_EQ(child(i).output(), "joined\n");
    }
  }
}

TEST_F(Processes, TwoWithOneIdAreToldAtOnce) {
  start({"wait"}, 0, 3);
  start({"wait"}, 1, 3);
  start({"wait"}, 1, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(child(i).wait(5s), 1);
    // Who comes after the coordinator gave up finds none; the pids of the other two are in all messages.
    EXPECT_THAT(child(i).output(), AllOf(HasSubstr("process_id 1 was given to two processes"),
                                         HasSubstr("(pid " + std::to_string(child(1).pid()) + ")"),
                                         HasSubstr("(pid " + std::to_string(child(2).pid()) + ")")));
  }
}

TEST_F(Processes, NumbersOfProcessesThatDifferAreToldAtOnce) {
  start({"wait"}, 0, 3);
  start({"wait"}, 3, 4);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(child(i).wait(5s), 1);
    EXPECT_THAT(child(i).output(), HasSubstr("num_processes is 4 in process 3 on "));
    EXPECT_THAT(child(i).output(), HasSubstr("and 3 in the coordinator"));
  }
}

TEST_F(Processes, OneTooManyIsRefusedAndTheJobGoesOn) {
  start({"wait"}, 0, 2);
  start({"leave", "30000", "return"}, 1, 2);
  await_joined();
  Child& late = start({"wait"}, 1, 2);
  EXPECT_EQ(late.wait(5s), 1);
  EXPECT_THAT(late.output(), AllOf(HasSubstr("refused process 1: process 1 on "), HasSubstr("comes too late"),
                                   HasSubstr("pid " + std::to_string(child(1).pid()))));
  EXPECT_FALSE(child(0).says("caught", 300ms)) << child(0).output();
}

TEST_F(Processes, AnotherSecretIsTold) {
  const std::string right(32, 'r');
  start({"wait"}, 0, 2, {{"SHOAL_SECRET", right}, {"SHOAL_INITIALIZATION_TIMEOUT", "2"}});
  Child& wrong = start({"wait"}, 1, 2, {{"SHOAL_SECRET", std::string(32, 'w')}});
  EXPECT_EQ(wrong.wait(5s), 1);
  EXPECT_THAT(wrong.output(), HasSubstr("the coordinator has another secret"));
  Child& none = start({"wait"}, 1, 2, {{"SHOAL_INSECURE", "1"}});
  EXPECT_EQ(none.wait(5s), 1);
  EXPECT_THAT(none.output(), HasSubstr("the coordinator has a secret, and this process has none"));
  EXPECT_EQ(child(0).wait(5s), 1);
  EXPECT_THAT(child(0).output(), AllOf(HasSubstr("refused a connection from 127.0.0.1:"),
                                       HasSubstr("of 2 processes 1 did not join"), HasSubstr("; refused: 127.0.0.1")));
  EXPECT_THAT(wrong.output() + none.output() + child(0).output(), AllOf(Not(HasSubstr(right)), Not(HasSubstr("wwww"))));
}

TEST_F(Processes, OneSecretServes) {
  const std::string file = ::testing::TempDir() + "/shoal_secret_" + std::to_string(::getpid());
  const std::string secret = "0123456789abcdef";
  {
    FILE* out = std::fopen(file.c_str(), "w");
    std::fputs((secret + "\n").c_str(), out);
    std::fclose(out);
    ::chmod(file.c_str(), 0600);
  }
  start({"wait"}, 0, 2, {{"SHOAL_SECRET", secret}});
  start({"wait"}, 1, 2, {{"SHOAL_SECRET_FILE", file}, {"SHOAL_SECRET", "which does not count"}});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(child(i).wait(), 0) << child(i).output();
  Child& short_one = start({"wait"}, 1, 2, {{"SHOAL_SECRET", "short"}});
  EXPECT_EQ(short_one.wait(), 1);
  EXPECT_THAT(short_one.output(), AllOf(HasSubstr("SHOAL_SECRET has 5 bytes, and needs 16"), Not(HasSubstr("short"))));
  std::remove(file.c_str());
}

// By hand on one host nothing has to be set up: the first process makes a secret, which those of other users do not
// know.
TEST_F(Processes, OfOneUserOnOneHostNeedNoSecret) {
  const std::filesystem::path home = ::testing::TempDir() + "/shoal_home_" + std::to_string(::getpid());
  std::filesystem::create_directories(home / "mine");
  std::filesystem::create_directories(home / "other");
  start({"wait"}, 0, 2, {{"HOME", home / "mine"}});
  Child& other = start({"wait"}, 1, 2, {{"HOME", home / "other"}});
  EXPECT_EQ(other.wait(5s), 1);
  EXPECT_THAT(other.output(), HasSubstr("the coordinator has another secret"));
  Child& mine = start({"wait"}, 1, 2, {{"HOME", home / "mine"}});
  EXPECT_EQ(mine.wait(), 0) << mine.output();
  EXPECT_EQ(child(0).wait(), 0) << child(0).output();
  EXPECT_TRUE(std::filesystem::exists(home / "mine" / ".shoal" / "local_secret"));
  std::filesystem::remove_all(home);
}

TEST_F(Processes, DoWithoutASecretWhereAllSaySo) {
  for (int i = 0; i < 2; ++i) start({"wait"}, i, 2, {{"SHOAL_INSECURE", "1"}});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(child(i).wait(), 0) << child(i).output();
}

TEST_F(Processes, OneThatHasASecretIsNotLetInWithoutItsBeingUsed) {
  start({"wait"}, 0, 2, {{"SHOAL_INSECURE", "1"}, {"SHOAL_INITIALIZATION_TIMEOUT", "2"}});
  Child& careful = start({"wait"}, 1, 2);
  EXPECT_EQ(careful.wait(5s), 1);
  EXPECT_THAT(careful.output(), HasSubstr("the coordinator has no secret, and this process has one"));
}

TEST_F(Processes, AnotherJobsCoordinatorIsTold) {
  const auto launched = [&](int process, const std::string& job) {
    return Variables{{"SHOAL_RUN_PROCESS_ID", std::to_string(process)},
                     {"SHOAL_RUN_NUM_PROCESSES", "2"},
                     {"SHOAL_RUN_LOCAL_INDEX", std::to_string(process)},
                     {"SHOAL_RUN_LOCAL_COUNT", "2"},
                     {"SHOAL_RUN_COORDINATOR_ADDRESS", to_string(port_.address())},
                     {"SHOAL_RUN_JOB_ID", job},
                     {"SHOAL_INITIALIZATION_TIMEOUT", "10"}};
  };
  Child left_over({"wait"}, launched(0, "yesterday"));
  Child process({"wait"}, launched(1, "today"));
  EXPECT_EQ(process.wait(5s), 1);
  EXPECT_THAT(process.output(), AllOf(HasSubstr("yesterday"), HasSubstr("today"), HasSubstr("may be left over")));
  EXPECT_TRUE(left_over.says("refused a connection", 2s));
  Child coordinator({"wait"}, launched(0, "today"));
  EXPECT_EQ(coordinator.wait(5s), 1);
  EXPECT_THAT(coordinator.output(), HasSubstr("cannot listen at " + to_string(port_.address())));
  // Its own processes are served.
  Child other({"wait"}, launched(1, "yesterday"));
  EXPECT_EQ(other.wait(5s), 0) << other.output();
  EXPECT_EQ(left_over.wait(5s), 0);
}

TEST_F(Processes, WhoNeverJoinsIsNamed) {
  for (const int i : {0, 2}) start({"wait"}, i, 4, {{"SHOAL_INITIALIZATION_TIMEOUT", "1"}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(child(i).wait(4s), 1);
    EXPECT_THAT(child(i).output(), HasSubstr("of 4 processes 1, 3 did not join within initialization_timeout"));
  }
}

TEST_F(Processes, NoCoordinatorIsTold) {
  Child& lonely = start({"wait"}, 1, 2, {{"SHOAL_INITIALIZATION_TIMEOUT", "0.5"}});
  EXPECT_EQ(lonely.wait(4s), 1);
  EXPECT_THAT(lonely.output(),
              AllOf(HasSubstr("found no coordinator at " + to_string(port_.address()) + " within 0.5 s"),
                    HasSubstr("Connection refused")));
  Child& lost = start({"wait"}, 1, 2,
                      {{"SHOAL_INITIALIZATION_TIMEOUT", "0.5"},
                       {"SHOAL_SECRET", std::string(16, 's')},
                       {"SHOAL_COORDINATOR_ADDRESS", "no-such-host.invalid:77"}});
  EXPECT_EQ(lost.wait(8s), 1);
  EXPECT_THAT(lost.output(), HasSubstr("\"no-such-host.invalid\" cannot be resolved"));
}

TEST(Initialize, Misuse) {
  Child child({"misuse"}, {});
  EXPECT_EQ(child.wait(), 0);
  for (const char* text :
       {"not known is coordinator_address (SHOAL_COORDINATOR_ADDRESS), process_id (SHOAL_PROCESS_ID)",
        "process_id is 2, and num_processes 2; allowed: 0 to 1",
        "coordinator_address is \"localhost\"; allowed: host:port", "its port must be one that all processes know",
        "num_processes is 0; allowed: 1 to ", "local_device_ids must name one device or more, each once",
        "heartbeat_timeout is 0 ms; allowed: more than 0", "tea leaves",
        "the job needs a secret, and there is none; make one by: mkdir",
        "distributed::client: call distributed::initialize first", "initialized\n",
        "distributed::initialize: it was called before", "not initialized\n",
        "distributed::shutdown: it was called before", "initialize_test.cc:"}) {
    EXPECT_THAT(child.output(), HasSubstr(text));
  }
  EXPECT_THAT(child.output(), Not(HasSubstr("no exception")));
  Child late({"too late"}, {});
  EXPECT_EQ(late.wait(), 1);
  EXPECT_THAT(late.output(), HasSubstr("devices are in use already"));
}

}  // namespace
}  // namespace shoal::distributed

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--role") {
    return shoal::distributed::run_role({argv + 2, argv + argc});
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
