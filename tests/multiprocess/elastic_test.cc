// Jobs that go on when processes are lost, stopped or started again, and come to the same result.
#include <gmock/gmock.h>
#include <shoal/elastic.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/test_command.h"
#include "base/test_folder.h"
#include "support.h"

namespace shoal::elastic_jobs {
namespace {

using multiprocess::Job;
using multiprocess::Outcome;
using multiprocess::Registered;
using multiprocess::Running;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSteps = 40;
// From the death of a process to the next step of the others. It takes less than 1 s where nothing else runs.
constexpr double kSoon = 20;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}
std::int64_t number(const char* name) {
  const std::string value = variable(name);
  return value.empty() ? 0 : std::stoll(value);
}
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The program: a linear model whose weights are split over both axes, trained with momentum on batches of a shuffled
// data set, with noise from a key.
struct State {
  Array weights;   // [8, 4], P("data", "model")
  Array momentum;  // the same
  Array bias;      // [4], P("model")
  Array key;
};

State initial(const Mesh& mesh) {
  const NamedSharding split(mesh, P("data", "model"));
  return {device_put(multiprocess::numbers({8, 4}), split), device_put(zeros({8, 4}), split),
          device_put(zeros({4}), NamedSharding(mesh, P("model"))),
          device_put(random::key(5), NamedSharding(mesh, P()))};
}

std::pair<Array, Array> read(const std::vector<std::int64_t>& examples) {
  std::vector<float> x;
  std::vector<float> y;
  for (const std::int64_t example : examples) {
    for (int i = 0; i < 8; ++i) x.push_back(std::sin(static_cast<float>(example * 8 + i)));
    for (int i = 0; i < 4; ++i) y.push_back(std::cos(static_cast<float>(example * 4 + i)));
  }
  const auto rows = static_cast<std::int64_t>(examples.size());
  return {array(x).reshape(rows, 8), array(y).reshape(rows, 4)};
}

void die(const std::string& where) {
  std::cout << "dies " << where << " at " << std::to_string(now()) << std::endl;
  kill(getpid(), SIGKILL);
}

// DIES: "process@step", with commas between them. A process that was started again does not.
bool dies_at(std::int64_t step) {
  std::istringstream all(variable("DIES"));
  const std::string mine = std::to_string(process_index()) + "@" + std::to_string(step);
  for (std::string one; std::getline(all, one, ',');) {
    if (one == mine && !std::filesystem::exists(variable("DIED") + "/" + mine)) {
      std::filesystem::create_directory(variable("DIED") + "/" + mine);
      return true;
    }
  }
  return false;
}

elastic::Options options() {
  elastic::Options options{.steps = kSteps,
                           .mesh_shape = {number("DATA_AXIS"), number("MODEL_AXIS")},
                           .axis_names = {"data", "model"},
                           .data_axes = {"data"},
                           .copy_every = number("COPY_EVERY"),
                           .checkpoints = variable("CHECKPOINTS"),
                           .checkpoint_every = number("CHECKPOINT_EVERY")};
  if (!variable("ADMIT_EVERY").empty()) options.admit_every = number("ADMIT_EVERY");
  return options;
}

void trained() {
  const auto make = [](const elastic::World& world) {
    std::cout << "generation " << world.generation << " of " << world.processes.size() << " processes on "
              << to_string(world.mesh) << std::endl;
    using Loader = data::DataLoader<decltype(&read)>;
    const auto loader = std::make_shared<Loader>(100, 16, &read, NamedSharding(world.mesh, P("data")),
                                                 data::DataLoaderOptions{.seed = 3});
    const auto update = jit([](const State& s, const Array& x, const Array& y, const Array& mask, const Array& i) {
      const auto loss = [&](const std::pair<Array, Array>& p) {
        const Array noise = 0.01F * random::normal(random::fold_in(s.key, i), y.shape());
        return nn::masked_mean(nn::l2_loss(matmul(x, p.first) + p.second, y + noise).sum(1), mask);
      };
      const auto [dw, db] = grad(loss)(std::pair(s.weights, s.bias));
      const Array momentum = 0.9F * s.momentum + dw;
      return State{s.weights - 0.05F * momentum, momentum, s.bias - 0.05F * db, s.key};
    });
    const bool is_new = world.generation > 0;
    return elastic::Program<State>{
        initial(world.mesh), [=, first = true](const State& state, std::int64_t i) mutable {
          if (dies_at(i)) {
            state.weights.block_until_ready();
            die("in step " + std::to_string(i));
          }
          if (const std::int64_t pause = number("PAUSE_MS"); pause > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(pause));
          }
          const std::int64_t batches = loader->batches_per_epoch();
          loader->seek({i / batches, i % batches});
          const auto batch = loader->next();
          State next = update(state, batch.data.first, batch.data.second, batch.mask, array(static_cast<int>(i)));
          if (std::exchange(first, false)) {
            next.weights.block_until_ready();
            std::cout << (is_new ? "goes on with step " : "begins with step ") << i << " at " << std::to_string(now())
                      << std::endl;
          }
          // In the copy that follows, at some moment of it.
          if (const std::string kill = variable("DIES_IN_COPY"); !kill.empty() && dies_at(-i - 1)) {
            std::thread([micros = std::stoll(kill)] {
              std::this_thread::sleep_for(std::chrono::microseconds(micros));
              die("in a copy");
            }).detach();
          }
          if (i == number("STOPS_AT") && std::to_string(process_index()) == variable("STOPS")) {
            std::cout << "stops" << std::endl;
            kill(getpid(), SIGSTOP);
          }
          return next;
        }};
  };
  try {
    const State state = elastic::run(options(), make);
    const State whole = multihost::to_host(state);
    std::cout << "result:";
    for (const Array& part : {whole.weights, whole.momentum, whole.bias}) {
      for (const float element : part.to_vector<float>()) std::cout << " " << element;
    }
    std::cout << std::endl;
  } catch (const elastic::Fenced& error) {
    std::cout << "Fenced: " << error.what() << std::endl;
    std::_Exit(3);
  }
}
const Registered kTrained("elastic_trained", trained);

std::vector<double> result_of(const Outcome& outcome) {
  std::vector<double> numbers;
  const std::size_t begin = outcome.output.rfind("result:");
  if (begin == std::string::npos) return numbers;
  std::istringstream text(outcome.output.substr(begin + 7));
  for (double one = 0; text >> one;) numbers.push_back(one);
  return numbers;
}

double time_after(const Outcome& outcome, const std::string& what) {
  const std::size_t begin = outcome.output.rfind(what);
  if (begin == std::string::npos) return NAN;
  return std::stod(outcome.output.substr(outcome.output.find(" at ", begin) + 4));
}

class Elastic : public testing::Test {
 protected:
  // 2 processes of 4 devices each.
  Job job(std::map<std::string, std::string> env, std::vector<int> devices = {4, 4}) const {
    env.merge(std::map<std::string, std::string>{{"DATA_AXIS", "2"},
                                                 {"MODEL_AXIS", "4"},
                                                 {"COPY_EVERY", "5"},
                                                 {"DIED", folder_.path().string()},
                                                 {"SHOAL_ELASTIC_FILE", (folder_.path() / "members").string()}});
    return {.program = "elastic_trained", .devices = std::move(devices), .env = std::move(env), .joins_itself = true};
  }

  // What one process comes to on the smallest mesh that is not interrupted.
  static const std::vector<double>& expected() {
    static const std::vector<double> result = [] {
      const auto outcomes = multiprocess::run({.program = "elastic_trained",
                                               .devices = {4},
                                               .env = {{"DATA_AXIS", "1"}, {"MODEL_AXIS", "4"}},
                                               .joins_itself = true});
      EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].output;
      return result_of(outcomes[0]);
    }();
    return result;
  }

  static void expect_result(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const std::vector<double> result = result_of(outcome);
    ASSERT_EQ(result.size(), expected().size()) << outcome.output;
    for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], expected()[i], 2e-5) << i;
  }

  // The survivor of two goes on on half of the mesh.
  static void expect_goes_on(const Outcome& dead, const Outcome& survivor, const std::string& from) {
    EXPECT_EQ(dead.code, 128 + SIGKILL) << dead.output;
    EXPECT_THAT(survivor.output, AllOf(HasSubstr("generation 1 of 1 processes on Mesh('data': 1, 'model': 4"),
                                       HasSubstr("goes on with step " + from + " at ")));
    EXPECT_LT(time_after(survivor, "goes on with step") - time_after(dead, "dies"), kSoon);
    expect_result(survivor);
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(Elastic, TheLastProcessDies) {
  const auto outcomes = multiprocess::run(job({{"DIES", "1@13"}}));
  expect_goes_on(outcomes[1], outcomes[0], "10");
}

TEST_F(Elastic, TheFirstProcessDies) {
  const auto outcomes = multiprocess::run(job({{"DIES", "0@13"}}));
  expect_goes_on(outcomes[0], outcomes[1], "10");
}

// A copy that not all have is none.
TEST_F(Elastic, AProcessDiesInACopy) {
  int others = 0;
  for (const std::string micros : {"0", "300", "1000"}) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    const std::string process = std::to_string(others++ % 2);
    const auto outcomes = multiprocess::run(job({{"DIES", process + "@-10"}, {"DIES_IN_COPY", micros}}));
    const Outcome& survivor = outcomes[process == "0" ? 1 : 0];
    EXPECT_EQ(outcomes[process == "0" ? 0 : 1].code, 128 + SIGKILL);
    EXPECT_THAT(survivor.output, HasSubstr("generation 1 of 1"));
    expect_result(survivor);
  }
}

TEST_F(Elastic, TwoDieInTurn) {
  // Of a data axis of 4 a half is left, then a quarter. Two of three processes are enough for the half.
  const auto outcomes =
      multiprocess::run(job({{"DIES", "3@13,0@22"}, {"DATA_AXIS", "4"}, {"MODEL_AXIS", "2"}}, {2, 2, 2, 2}));
  EXPECT_EQ(outcomes[3].code, 128 + SIGKILL);
  EXPECT_EQ(outcomes[2].code, 3) << outcomes[2].output;
  EXPECT_THAT(outcomes[2].output, HasSubstr("Fenced: elastic::run: the mesh of (2, 2) has no place for process 2"));
  EXPECT_EQ(outcomes[0].code, 128 + SIGKILL) << outcomes[0].output;
  EXPECT_THAT(outcomes[1].output, AllOf(HasSubstr("generation 2 of 2 processes on Mesh('data': 2, 'model': 2"),
                                        HasSubstr("goes on with step 10 at "), HasSubstr("generation 3 of 1"),
                                        HasSubstr("goes on with step 20 at ")));
  expect_result(outcomes[1]);
}

TEST_F(Elastic, WithoutCopiesFromTheLastCheckpoint) {
  const auto outcomes = multiprocess::run(job({{"DIES", "0@13"},
                                               {"COPY_EVERY", "0"},
                                               {"CHECKPOINTS", (folder_.path() / "checkpoints").string()},
                                               {"CHECKPOINT_EVERY", "4"},
                                               {"PAUSE_MS", "100"}}));
  EXPECT_EQ(outcomes[0].code, 128 + SIGKILL) << outcomes[0].output;
  EXPECT_THAT(outcomes[1].output, testing::ContainsRegex("goes on with step (4|8|12) at "));
  expect_result(outcomes[1]);
}

TEST_F(Elastic, WithoutBothFromTheBeginning) {
  const auto outcomes = multiprocess::run(job({{"DIES", "1@7"}, {"COPY_EVERY", "0"}}));
  expect_goes_on(outcomes[1], outcomes[0], "0");
}

// A process that was stopped for longer than the heartbeat's timeout, and wakes.
TEST_F(Elastic, AStoppedProcessIsFenced) {
  for (const std::string stopped : {"1", "0"}) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    const std::size_t other = stopped == "0" ? 1 : 0;
    const std::size_t asleep = 1 - other;
    Running running(
        job({{"STOPS", stopped}, {"STOPS_AT", "12"}, {"SHOAL_HEARTBEAT_TIMEOUT", "3"}, {"PAUSE_MS", "60"}}));
    ASSERT_TRUE(running.wait_for_output(asleep, "stops"));
    ASSERT_TRUE(running.wait_for_output(other, "goes on with step"));
    running.signal(asleep, SIGCONT);
    const auto outcomes = running.finish();
    EXPECT_EQ(outcomes[asleep].code, 3) << outcomes[asleep].output;
    EXPECT_THAT(outcomes[asleep].output, AllOf(HasSubstr("Fenced: "), Not(HasSubstr("generation 1"))));
    expect_result(outcomes[other]);
  }
}

TEST_F(Elastic, AProcessIsStartedAgainAndTakenIn) {
  Running running(job({{"DIES", "0@8"}, {"PAUSE_MS", "300"}}));
  ASSERT_TRUE(running.wait_for_output(0, "dies"));
  running.start_again(0);
  const auto outcomes = running.finish();
  EXPECT_THAT(outcomes[0].output, HasSubstr("generation 2 of 2 processes on Mesh('data': 2, 'model': 4"));
  EXPECT_THAT(outcomes[1].output, AllOf(HasSubstr("generation 1 of 1"), HasSubstr("generation 2 of 2")));
  expect_result(outcomes[0]);
  expect_result(outcomes[1]);
}

#ifdef SHOAL_TOOL

std::vector<std::string> under_the_launcher(const std::vector<std::string>& options) {
  std::vector<std::string> words{SHOAL_TOOL, "run", "-n", "2", "--devices-per-process", "4"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", own_program(), "--bare-program", "elastic_trained"});
  return words;
}

class ElasticUnderTheLauncher : public Elastic {
 protected:
  void SetUp() override {
    for (const auto& [name, value] : job({}).env) {
      if (name != "SHOAL_ELASTIC_FILE") setenv(name.c_str(), value.c_str(), 1);
    }
    setenv("DIES", "0@13", 1);
    setenv("PAUSE_MS", "20", 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : job({}).env) unsetenv(name.c_str());
    unsetenv("DIES");
    unsetenv("PAUSE_MS");
  }
};

TEST_F(ElasticUnderTheLauncher, TheOthersGoOn) {
  const CommandOutcome outcome = run_command(under_the_launcher({"--elastic"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("process 0 was ended by signal 9 (Killed); the others go on"),
                    HasSubstr("[1] generation 1 of 1"), HasSubstr("[1] result:"), Not(HasSubstr("[0] result:"))));
}

TEST_F(ElasticUnderTheLauncher, AProcessThatDiesIsStartedAgain) {
  setenv("PAUSE_MS", "300", 1);  // The other one must not be ready before this one is there.
  const CommandOutcome outcome = run_command(under_the_launcher({"--elastic", "--restarts", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("process 0 is started again, 1 of 1 times"), HasSubstr("[0] generation 2 of 2"),
                    HasSubstr("[1] generation 2 of 2"), HasSubstr("[0] result:"), HasSubstr("[1] result:")));
}

TEST_F(ElasticUnderTheLauncher, TooFewDoNotGoOn) {
  const CommandOutcome outcome = run_command(under_the_launcher({"--elastic", "--min-processes", "2"}));
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("result:")));
}

#endif

}  // namespace
}  // namespace shoal::elastic_jobs
