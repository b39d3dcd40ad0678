#include "backend/cpu/loops/code_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "backend/cpu/loops/compiler.h"
#include "base/bytes.h"

namespace shoal::cpu {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public testing::Test {
 protected:
  CodeCacheTest() {
    std::string pattern = testing::TempDir() + "shoal_cache_XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ / "made" / "when needed";
  }
  ~CodeCacheTest() override { fs::remove_all(root_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  fs::path only_file() const {
    EXPECT_EQ(files().size(), 1);
    return files().at(0);
  }

  std::uint64_t total_size() const {
    std::uint64_t total = 0;
    for (const fs::path& file : files()) total += fs::file_size(file);
    return total;
  }

  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  }

  fs::path root_;
  fs::path folder_;
};

TEST_F(CodeCacheTest, FindsWhatWasKept) {
  CodeCache cache(folder_);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  const std::string value("code\0with zeros", 15);
  cache.keep("key", value);
  cache.keep("empty", "");
  EXPECT_EQ(cache.find("key"), value);
  EXPECT_EQ(cache.find("empty"), "");
  EXPECT_EQ(cache.find("another key"), std::nullopt);
  EXPECT_EQ(CodeCache(folder_).find("key"), value) << "in another process";
  cache.keep("key", "newer");
  EXPECT_EQ(cache.find("key"), "newer");
  EXPECT_EQ(files().size(), 2);
}

TEST_F(CodeCacheTest, RemovesDamagedFiles) {
  CodeCache cache(folder_);
  cache.keep("key", "the code");
  const fs::path file = only_file();
  const std::string good = read(file);
  std::vector<std::string> bad = {good + "x", good + good, std::string(good.size(), '\0'), "text"};
  for (std::size_t i = 0; i < good.size(); ++i) {
    bad.push_back(good.substr(0, i));
    bad.push_back(good);
    bad.back()[i] = static_cast<char>(bad.back()[i] ^ 0x10);
  }
  for (const std::string& content : bad) {
    write(file, content);
    ASSERT_EQ(cache.find("key"), std::nullopt);
    ASSERT_FALSE(fs::exists(file));
  }
  write(file, good);
  EXPECT_EQ(cache.find("key"), "the code") << "the test damages files, not the cache";
}

TEST_F(CodeCacheTest, RemovesFilesOfAnotherKey) {
  CodeCache cache(folder_);
  cache.keep("key", "the code");
  const fs::path file = only_file();
  const std::string content = read(file);
  fs::remove(file);
  cache.keep("yek", "other code");
  write(only_file(), content);
  EXPECT_EQ(cache.find("yek"), std::nullopt);
  EXPECT_TRUE(files().empty());
}

TEST_F(CodeCacheTest, DoesNotReadWhatOthersMayWrite) {
  CodeCache cache(folder_);
  cache.keep("key", "the code");
  const fs::path file = only_file();
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  EXPECT_EQ(cache.find("key"), "the code");
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

// What others can put into a folder that they may write to.
TEST_F(CodeCacheTest, ReadsOnlyFilesOfItsOwn) {
  CodeCache cache(folder_);
  cache.keep("key", "the code");
  const fs::path file = only_file();
  fs::create_hard_link(file, folder_ / "another name");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  fs::remove(folder_ / "another name");
  EXPECT_EQ(cache.find("key"), "the code");
  const fs::path elsewhere = root_ / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_EQ(cache.find("key"), std::nullopt);
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);  // Nobody will ever write to it.
  EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(CodeCacheTest, ReadsNoMoreThanItKeeps) {
  CodeCache cache(folder_, 1 << 20);
  cache.keep("key", "the code");
  const fs::path file = only_file();
  fs::resize_file(file, std::uintmax_t{1} << 40);  // As long as no memory.
  EXPECT_EQ(cache.find("key"), std::nullopt);
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(CodeCacheTest, StaysBelowItsLimit) {
  constexpr std::uint64_t kLimit = 64 << 10;
  CodeCache cache(folder_, kLimit);
  const std::string value(1000, 'x');
  cache.keep("often used", value);
  for (int i = 0; i < 500; ++i) {
    cache.keep("key " + std::to_string(i), value);
    if (i % 8 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // For times of files that differ.
      ASSERT_EQ(cache.find("often used"), value) << i;
    }
    ASSERT_LE(total_size(), kLimit + kLimit / 8 + 2000) << i;
  }
  EXPECT_GE(total_size(), kLimit / 2);
  EXPECT_EQ(cache.find("key 499"), value);
  EXPECT_EQ(cache.find("key 0"), std::nullopt);
}

TEST_F(CodeCacheTest, IsNotThereWhereNothingCanBeWritten) {
  write(root_ / "file", "");
  for (const auto& folder : {std::optional<fs::path>(root_ / "file" / "folder"), std::optional<fs::path>()}) {
    CodeCache cache(folder);
    cache.keep("key", "value");
    EXPECT_EQ(cache.find("key"), std::nullopt);
  }
}

TEST_F(CodeCacheTest, LiesWhereTheEnvironmentSays) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    const auto set = [](const char* name, const char* value) {
      value == nullptr ? unsetenv(name) : setenv(name, value, 1);
    };
    const auto saved = [](const char* name) {
      const char* value = getenv(name);
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
    const std::optional<std::string> before[] = {saved("SHOAL_CACHE_DIR"), saved("XDG_CACHE_HOME"), saved("HOME")};
    set("SHOAL_CACHE_DIR", own);
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    const auto folder = CodeCache::default_folder();
    set("SHOAL_CACHE_DIR", before[0] ? before[0]->c_str() : nullptr);
    set("XDG_CACHE_HOME", before[1] ? before[1]->c_str() : nullptr);
    set("HOME", before[2] ? before[2]->c_str() : nullptr);
    return folder;
  };
  EXPECT_EQ(with("/own", "/xdg", "/home"), "/own");
  EXPECT_EQ(with("", "/xdg", "/home"), std::nullopt);
  EXPECT_EQ(with(nullptr, "/xdg", "/home"), "/xdg/shoal");
  EXPECT_EQ(with(nullptr, "", "/home"), "/home/.cache/shoal");
  EXPECT_EQ(with(nullptr, nullptr, nullptr), std::nullopt);
}

// Keeps and finds a few keys many times; whether everything found was whole.
bool use_heavily(const fs::path& folder, char letter) {
  CodeCache cache(folder, 40 << 10);  // Low, so that files are removed all the time.
  bool is_whole = true;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key " + std::to_string(i % 7);
    cache.keep(key, std::string(5000 + static_cast<std::size_t>(i % 3) * 1000, letter));
    if (const auto value = cache.find(key)) {
      is_whole &= value->size() % 1000 == 0 && *value == std::string(value->size(), value->front());
    }
  }
  return is_whole;
}

TEST_F(CodeCacheTest, IsSharedByProcesses) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(use_heavily(folder_, static_cast<char>('a' + i)) ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  bool is_whole[2] = {};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] { is_whole[i] = use_heavily(folder_, static_cast<char>('A' + i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(is_whole[0] && is_whole[1]);
  for (const fs::path& file : files()) EXPECT_EQ(file.extension(), ".code") << "nothing unfinished is left";
}

// ---- With the compiler.

Loop negation() {
  Loop loop;
  loop.arrays = {{float64}, {float64, Access::kDense, true}};
  Phase phase;
  phase.inputs = {{LoopInput::Kind::kArray, 0}};
  phase.nodes = {{scalar::Core::kInput, float64}, {scalar::Core::kNeg, float64, {0, -1, -1}}};
  phase.results = {{LoopResult::Kind::kArray, 1, 1}};
  loop.phases = {phase};
  return loop;
}

LoopCompiler::Counters compile_with(const fs::path& folder) {
  LoopCompiler compiler(folder);
  const auto compiled = compiler.compile(negation(), When::kNow);
  const double x = 3;
  double y = 0;
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(const_cast<double*>(&x)), reinterpret_cast<std::byte*>(&y)};
  const std::int64_t strides[] = {0, 0};
  if (compiled->runner() == nullptr) {
    ADD_FAILURE() << "the loop was not compiled";
  } else {
    compiled->runner()->run({bases, strides, strides, 1, 1, nullptr});
    EXPECT_EQ(y, -3);
  }
  return compiler.counters();
}

// Whole files, whose content was never code: they are compiled again and replaced.
TEST_F(CodeCacheTest, RunsNothingThatIsNoImage) {
  EXPECT_EQ(compile_with(folder_).compiled, 1);
  const std::string good = read(only_file());
  ByteReader reader(good);
  reader.text();    // The mark of such files,
  reader.number();  // and their sum.
  const std::string key(reader.text());
  const std::string code(reader.text().substr(sizeof(std::int64_t)));
  const auto image = [](std::int64_t entry, const std::string& bytes) {
    ByteWriter writer;
    writer.number(entry);
    return writer.bytes() + bytes;
  };
  const auto size = static_cast<std::int64_t>(code.size());
  for (const std::string& bad : {std::string(), std::string("short"), image(0, ""), image(size, code), image(-1, code),
                                 image(std::numeric_limits<std::int64_t>::max(), code)}) {
    CodeCache(folder_).keep(key, bad);
    const LoopCompiler::Counters counters = compile_with(folder_);
    EXPECT_EQ(counters.compiled, 1);
    EXPECT_EQ(counters.from_file, 0);
    EXPECT_EQ(read(only_file()), good);
  }
}

TEST_F(CodeCacheTest, SavesCompilingAgain) {
  EXPECT_EQ(compile_with(folder_).compiled, 1);
  const LoopCompiler::Counters counters = compile_with(folder_);
  EXPECT_EQ(counters.compiled, 0);
  EXPECT_EQ(counters.from_file, 1);
}

TEST_F(CodeCacheTest, DoesNotRunDamagedCode) {
  EXPECT_EQ(compile_with(folder_).compiled, 1);
  std::string content = read(only_file());
  content.back() = static_cast<char>(~content.back());
  write(only_file(), content);
  EXPECT_EQ(compile_with(folder_).compiled, 1);
  EXPECT_EQ(compile_with(folder_).from_file, 1) << "it was kept anew";
}

}  // namespace
}  // namespace shoal::cpu
