// Checkpoints of programs and machines that stop at any point, and of disks that fail.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <shoal/checkpoints.h>
#include <shoal/shoal.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/test_command.h"
#include "base/test_folder.h"
#include "recorded_files.h"

namespace shoal::crashes {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// In memory, if may be: that these tests sync is for the record, and not for a disk.
class Folder : public test_support::TemporaryFolder {
 public:
  Folder() : TemporaryFolder(place()) {}

 private:
  static std::filesystem::path place() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = std::filesystem::is_directory(memory) && access(memory.c_str(), W_OK) == 0;
    return has_memory ? memory : std::filesystem::temp_directory_path();
  }
};

using Tree = std::map<std::string, Array>;

Tree tree_of(std::int64_t step, std::int64_t rows) {
  const NamedSharding sharding(make_mesh({4}, {"x"}), P("x"));
  return {{"w", device_put(full({rows, 64}, static_cast<float>(step)), sharding)},
          {"step", full({}, static_cast<std::int32_t>(step))}};
}

// The step of the last checkpoint, which must be whole and hold what was saved; -1 if there is none.
std::int64_t good_step(const std::filesystem::path& folder, std::int64_t rows) {
  checkpoints::Manager manager(folder);
  const auto step = manager.latest_step();
  if (!step) return -1;
  const Tree got = manager.restore(tree_of(0, rows));
  EXPECT_EQ(got.at("step").item<std::int32_t>(), *step);
  EXPECT_TRUE(static_cast<bool>((got.at("w") == static_cast<float>(*step)).all()));
  return *step;
}

// ---- The machine stops.

TEST(Crashes, TheMachineStopsAnywhere) {
  const Folder folder;
  record_below(folder / "run");
  std::filesystem::create_directory(folder / "run");
  {
    checkpoints::Manager manager(folder / "run", {.keep_last = 2, .overwrite = true});
    for (const std::int64_t step : {1, 2, 3, 4}) {
      manager.save(step, tree_of(step, 8));
      manager.wait();
      mark(std::to_string(step));
    }
    manager.save(4, tree_of(4, 8));  // In the place of the other.
    manager.wait();
    mark("4");
  }
  std::vector<FileEvent> events = recorded();
  ASSERT_EQ(events.at(0).kind, FileEvent::Kind::kMakeFolder);  // Of the folder itself, which is there.
  events.erase(events.begin());
  ASSERT_GT(events.size(), 60U);
  std::int64_t least = -1;  // What was complete must not be lost.
  int states = 0;
  for (std::size_t count = 0; count <= events.size(); ++count) {
    if (count > 0 && events[count - 1].kind == FileEvent::Kind::kMark) least = std::stoll(events[count - 1].other);
    for (const Unsynced unsynced : {Unsynced::kLost, Unsynced::kKept, Unsynced::kSomeKept}) {
      const std::filesystem::path disk = folder / "disk";
      std::filesystem::remove_all(disk);
      replay(events, count, unsynced, folder / "run", disk);
      const std::int64_t found = good_step(disk, 8);
      EXPECT_GE(found, least) << "after " << count << " of " << events.size() << " events";
      for (const std::int64_t step : checkpoints::steps(disk)) checkpoints::verify(disk, step);
      ++states;
      // A job goes on from there.
      if (count % 9 != 0 || unsynced != Unsynced::kKept) continue;
      checkpoints::save(disk, found + 10, tree_of(found + 10, 8));
      EXPECT_EQ(good_step(disk, 8), found + 10);
    }
  }
  std::cout << states << " states of the disk" << std::endl;
}

// That the test above sees what it is there for: without the sync of the file, data is missing behind a name; without
// that of the folder, the checkpoint is gone.
TEST(Crashes, ALostSyncWouldBeSeen) {
  const Folder folder;
  record_below(folder / "run");
  std::filesystem::create_directory(folder / "run");
  checkpoints::save(folder / "run", 1, tree_of(1, 8));
  std::vector<FileEvent> events = recorded();
  events.erase(events.begin());
  const auto without_syncs = [&](const std::string& end) {
    std::vector<FileEvent> fewer = events;
    const auto is_left_out = [&](const FileEvent& event) {
      return event.kind == FileEvent::Kind::kSync && event.path.ends_with(end);
    };
    EXPECT_GE(std::erase_if(fewer, is_left_out), 1U);
    return fewer;
  };
  const std::vector<FileEvent> no_data = without_syncs(".safetensors");
  replay(no_data, no_data.size(), Unsynced::kKept, folder / "run", folder / "one");
  EXPECT_THROW(checkpoints::verify(folder / "one"), checkpoints::CheckpointError);
  const std::vector<FileEvent> no_name = without_syncs("/run");
  replay(no_name, no_name.size(), Unsynced::kLost, folder / "run", folder / "two");
  EXPECT_TRUE(checkpoints::steps(folder / "two").empty());
}

// ---- The disk fails.

TEST(Crashes, EachCallFailsOnce) {
  // How many calls a save makes; each of them then fails in turn.
  int calls = 0;
  for (int failing = -1; failing < calls; ++failing) {
    const Folder folder;
    record_below(folder);
    checkpoints::Manager manager(folder, {.keep_last = 1});
    manager.save(1, tree_of(1, 8));
    manager.wait();
    int number = 0;
    fail_calls([&](const FileEvent&) { return number++ == failing ? ENOSPC : 0; });
    manager.save(2, tree_of(2, 8));
    std::string said;
    try {
      manager.wait();
    } catch (const checkpoints::CheckpointError& error) {
      said = error.what();
    }
    recorded();
    if (failing < 0) calls = number;
    const std::int64_t step = good_step(folder, 8);
    EXPECT_TRUE(step == 2 || said.find("No space left") != std::string::npos) << failing << ": " << said;
    if (failing < 0) continue;
    manager.save(3, tree_of(3, 8));
    manager.wait();
    EXPECT_EQ(good_step(folder, 8), 3);
    EXPECT_EQ(checkpoints::steps(folder).size(), 1U) << failing;
  }
  EXPECT_GT(calls, 10);
}

// ---- The process is killed.

// What the killed process does: see main().
void save_until_killed(const std::filesystem::path& folder) {
  checkpoints::Manager manager(folder, {.keep_last = 2});
  std::int64_t step = manager.latest_step().value_or(0);
  while (true) {
    ++step;
    manager.save(step, tree_of(step, 4096));
    manager.wait();
    std::cout << step << std::endl;
  }
}

TEST(Crashes, KilledAnywhere) {
  const Folder folder;
  std::mt19937 random(17);
  std::int64_t last = 0;
  const char* const given = std::getenv("SHOAL_TEST_KILLS");
  const int kills = given == nullptr ? 40 : std::atoi(given);
  for (int i = 0; i < kills; ++i) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      dup2(pipe[1], STDOUT_FILENO);
      const std::string program = own_program();
      execl(program.c_str(), program.c_str(), "--save", std::filesystem::path(folder).c_str(), nullptr);
      _exit(127);
    }
    close(pipe[1]);
    // Some die before the first save is complete, others in the midst of a later one.
    std::string said(1, ' ');
    if (i % 4 != 0) {
      ASSERT_EQ(read(pipe[0], said.data(), 1), 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    kill(child, SIGKILL);
    std::array<char, 4096> rest{};
    for (ssize_t got = 0; (got = read(pipe[0], rest.data(), rest.size())) > 0;) {
      said.append(rest.data(), static_cast<std::size_t>(got));
    }
    close(pipe[0]);
    waitpid(child, nullptr, 0);
    // The last number that it said completely.
    const std::size_t end = said.rfind('\n');
    if (end != std::string::npos && end > 0) {
      const std::size_t begin = said.rfind('\n', end - 1);
      last = std::max<std::int64_t>(last, std::stoll(said.substr(begin == std::string::npos ? 0 : begin + 1)));
    }
    const std::int64_t step = good_step(folder, 4096);
    EXPECT_GE(step, last == 0 ? -1 : last) << "after kill " << i;
    for (const std::int64_t one : checkpoints::steps(folder)) checkpoints::verify(folder, one);
  }
  EXPECT_GT(last, 10);
}

}  // namespace

int run(int argc, char** argv) {
  set_num_cpu_devices(4);
  if (argc == 3 && std::string(argv[1]) == "--save") {
    save_until_killed(argv[2]);
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace shoal::crashes

int main(int argc, char** argv) { return shoal::crashes::run(argc, argv); }
