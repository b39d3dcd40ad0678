// Checkpoints of jobs of several processes: written by one number of them, read by another, and what goes wrong.
#include <gmock/gmock.h>
#include <shoal/checkpoints.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/test_folder.h"
#include "support.h"

namespace shoal {
namespace {

using multiprocess::everywhere;
using multiprocess::Job;
using multiprocess::kLayouts;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_all_of;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::rows;
using multiprocess::Running;
using multiprocess::tell;
using multiprocess::told;
using testing::AllOf;
using testing::HasSubstr;

class Folder : public test_support::TemporaryFolder {
 public:
  std::map<std::string, std::string> env() const { return {{"CHECKPOINTS", path().string()}}; }
};

std::string folder() { return std::getenv("CHECKPOINTS"); }

using Tree = std::map<std::string, Array>;

Tree tree_over(const Mesh& mesh) {
  const std::vector<std::string>& axes = mesh.axis_names();
  const std::string first = axes.front();
  const std::string last = axes.back();
  return {{"both", device_put(numbers({24, 48}), NamedSharding(mesh, axes.size() == 1 ? P(first) : P(first, last)))},
          {"columns", device_put(numbers({5, 24}).astype(bfloat16), NamedSharding(mesh, P(none, last)))},
          {"replicas", device_put(numbers({40}), NamedSharding(mesh, P()))},
          {"here", arange(7)},
          {"key", random::key(3)}};
}

void print_tree(Tree tree) {
  tree["key"] = random::key_data(tree["key"]);
  for (const auto& [name, array] : tree) {
    if (array.is_fully_addressable()) {
      print_bits(name, array);
    } else {
      print_all_of(name, array);
    }
  }
}

void save_checkpoint() {
  const Tree tree = tree_over(make_mesh({2, 4}, {"x", "y"}));
  checkpoints::Manager manager(folder(), {.keep_last = 2});
  for (int step = 1; step <= 3; ++step) manager.save(step, tree, {.metadata = std::to_string(step)});
  manager.wait();
  std::cout << manager.latest_step().value_or(-1) << " " << manager.metadata() << std::endl;
  print_tree(tree);
}
const Registered kSave("save_checkpoint", save_checkpoint);

void restore_checkpoint() {
  const bool is_wide = device_count() == 8;
  const Tree like = tree_over(is_wide ? make_mesh({4, 2}, {"a", "b"}) : everywhere());
  checkpoints::Manager manager(folder());
  std::cout << manager.latest_step().value_or(-1) << " " << manager.metadata() << std::endl;
  Tree zeros;
  for (const auto& [name, array] : like) {
    zeros[name] = ShapeDtypeStruct{.shape = array.shape(), .dtype = array.dtype(), .sharding = array.sharding()};
  }
  const Tree got = manager.restore(zeros);
  for (const auto& [name, array] : got) {
    if (array.sharding() != like.at(name).sharding()) std::cout << name << " lies elsewhere" << std::endl;
  }
  print_tree(got);
}
const Registered kRestore("restore_checkpoint", restore_checkpoint);

TEST(JobCheckpoints, SavedAndRestoredByAnyNumberOfProcesses) {
  for (const multiprocess::Layout& from :
       {multiprocess::Layout{8}, multiprocess::Layout{4, 4}, multiprocess::Layout{3, 3, 2}}) {
    const Folder folder;
    const std::vector<Outcome> saved =
        multiprocess::run({.program = "save_checkpoint", .devices = from, .env = folder.env()});
    for (const Outcome& outcome : saved) {
      ASSERT_EQ(outcome.code, 0) << outcome.output;
      EXPECT_EQ(outcome.output, saved[0].output);
    }
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "step_00000003")) {
      if (entry.path().extension() == ".safetensors") ++files;
    }
    EXPECT_EQ(files, from.size());
    EXPECT_FALSE(std::filesystem::exists(folder / "step_00000001"));
    for (const multiprocess::Layout& to : {multiprocess::Layout{1}, multiprocess::Layout{4}, multiprocess::Layout{2, 1},
                                           multiprocess::Layout{4, 4}, multiprocess::Layout{2, 2, 2, 2}}) {
      for (const Outcome& outcome :
           multiprocess::run({.program = "restore_checkpoint", .devices = to, .env = folder.env()})) {
        EXPECT_EQ(outcome.code, 0);
        EXPECT_EQ(outcome.output, saved[0].output) << from.size() << " to " << to.size();
      }
    }
  }
}

// ---- What one process does wrong, or is told, all are.

void disagree() {
  checkpoints::Manager manager(folder());
  const Array x = device_put(numbers({8}), rows());
  const bool is_other = process_index() == 1;
  tell("tree", [&] {
    manager.save(1, is_other ? Tree{{"a", x}} : Tree{{"b", x}});
    manager.wait();
  });
  tell("step", [&] {
    manager.save(is_other ? 2 : 3, x);
    manager.wait();
  });
  // Each step is agreed on, even where only process 0 is still writing.
  checkpoints::Manager skipping(folder(), {.when_busy = checkpoints::WhenBusy::kSkip});
  int saved = 0;
  for (int step = 10; step < 40; ++step) saved += skipping.save(step, x) ? 1 : 0;
  skipping.wait();
  saved += skipping.save(100, x) ? 1 : 0;
  std::cout << "agreed: " << (saved == static_cast<int>(skipping.all_steps().size()) && saved > 1) << std::endl;
  const Array y = skipping.restore(x);
  std::cout << "sum: " << (y - x).sum() << std::endl;
  if (is_other) {
    std::fstream file(std::filesystem::path(folder()) / "step_00000010/process_00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('!');
  }
  multihost::sync_global_devices("damaged");
  tell("damage", [&] { skipping.restore(x, {.step = 10}); });
  tell("missing", [&] { skipping.restore(x, {.step = 11111}); });
  std::cout << "again: " << (skipping.restore(x) - x).sum() << std::endl;
}
const Registered kDisagree("checkpoints_disagree", disagree);

TEST(JobCheckpoints, AllAreTold) {
  const Folder folder;
  const std::vector<Outcome> outcomes =
      multiprocess::run({.program = "checkpoints_disagree", .devices = {1, 1}, .env = folder.env()});
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(told(outcome, "tree"), HasSubstr("process 1 saves a tree of other paths"));
    EXPECT_THAT(told(outcome, "step"), HasSubstr("it saves step 2 where process 0 saves step 3"));
    EXPECT_EQ(told(outcome, "agreed"), "1");
    EXPECT_EQ(told(outcome, "sum"), "0.0");
    EXPECT_EQ(told(outcome, "again"), "0.0");
    EXPECT_THAT(told(outcome, "damage"), AllOf(HasSubstr("\"array\" is damaged"), HasSubstr("process_00001")));
    EXPECT_THAT(told(outcome, "missing"), HasSubstr("there is no checkpoint of step 11111"));
  }
}

// ---- Killed while they save.

void save_forever() {
  const Mesh mesh = everywhere();
  checkpoints::Manager manager(folder(), {.keep_last = 2});
  const auto latest = manager.latest_step();
  const Array zero = device_put(zeros({64, 4096}), NamedSharding(mesh, P("x")));
  if (latest) {
    const Array got = manager.restore(zero);
    const auto step = static_cast<float>(*latest);
    std::cout << "whole: " << (multihost::process_allgather((got != step).sum().reshape({1}), true).sum()) << std::endl;
  }
  for (std::int64_t step = latest.value_or(0) + 1;; ++step) {
    manager.save(step, zero + static_cast<float>(step));
    if (step == latest.value_or(0) + 2) std::cout << "saving" << std::endl;
  }
}
const Registered kSaveForever("checkpoints_save_forever", save_forever);

TEST(JobCheckpoints, KilledWhileTheySave) {
  const Folder folder;
  for (int i = 0; i < 8; ++i) {
    Running job({.program = "checkpoints_save_forever",
                 .devices = {2, 2},
                 .env = folder.env(),
                 .deadline = std::chrono::seconds(20)});
    const auto victim = static_cast<std::size_t>(i % 2);
    ASSERT_TRUE(job.wait_for_output(victim, "saving")) << job.finish()[0].output << job.finish()[1].output;
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 7 % 30));
    job.signal(victim, SIGKILL);
    const std::vector<Outcome> outcomes = job.finish();
    EXPECT_EQ(outcomes[victim].code, 128 + SIGKILL);
    EXPECT_EQ(outcomes[1 - victim].code, 1) << outcomes[1 - victim].output;  // It is told, and does not wait.
    EXPECT_THAT(outcomes[1 - victim].output, HasSubstr("error: "));
    if (i > 0) {
      EXPECT_EQ(told(outcomes[0], "whole"), "0");
    }
  }
}

}  // namespace
}  // namespace shoal
