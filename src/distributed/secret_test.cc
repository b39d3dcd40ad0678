#include "distributed/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/safe_file.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kText = "sixteen bytes or more";

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A home of its own.
class SecretTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / ".shoal");
    if (const char* home = std::getenv("HOME")) home_ = home;
    setenv("HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    setenv("HOME", home_.c_str(), 1);
    unsetenv("SHOAL_SECRET_FILE");
    fs::remove_all(folder_);
  }
  static std::string text_of(const fs::path& name) {
    std::ifstream file(name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const fs::path folder_ = fs::temp_directory_path() / ("shoal_secret_test_" + std::to_string(getpid()));
  const fs::path users_ = folder_ / ".shoal" / "secret";
  std::string home_;
};

TEST_F(SecretTest, OfTheUser) {
  EXPECT_EQ(secret_of_user(), std::nullopt);
  write_file(users_, kText, 0600);
  EXPECT_EQ(secret_of_user()->key, make_secret(kText, "").key);
  fs::permissions(users_, fs::perms(0640));
  EXPECT_THAT(message_of(secret_of_user), HasSubstr("has mode 0640, so that others may read it; run chmod 600 "));
}

TEST_F(SecretTest, OfTheUserIsNoLink) {
  write_file(folder_ / "elsewhere", kText, 0600);
  fs::create_symlink(folder_ / "elsewhere", users_);
  EXPECT_THAT(message_of(secret_of_user), HasSubstr("cannot be read"));
  fs::remove(users_);
  fs::create_directory(users_);
  EXPECT_THAT(message_of(secret_of_user), HasSubstr("is no regular file"));
}

TEST_F(SecretTest, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write_file(users_, kText, 0600);
  ASSERT_EQ(chown(users_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(message_of(secret_of_user), HasSubstr("belongs to user 12345, and this process runs as user 0"));
  setenv("SHOAL_SECRET_FILE", users_.c_str(), 1);
  EXPECT_THAT(message_of(given_secret), HasSubstr("belongs to user 12345"));
}

// As in Kubernetes, which shows a secret by a link, and as root's, that a group may read.
TEST_F(SecretTest, OfANamedFile) {
  write_file(folder_ / "data", kText, 0600);
  fs::create_symlink(folder_ / "data", folder_ / "link");
  setenv("SHOAL_SECRET_FILE", (folder_ / "link").c_str(), 1);
  EXPECT_EQ(given_secret()->key, make_secret(kText, "").key);
  fs::permissions(folder_ / "data", fs::perms(0644));
  EXPECT_THAT(message_of(given_secret), HasSubstr("has mode 0644, so that others may read it"));
  fs::permissions(folder_ / "data", fs::perms(0440));
  if (geteuid() == 0) {
    EXPECT_TRUE(given_secret());
  } else {
    EXPECT_THAT(message_of(given_secret), HasSubstr("has mode 0440"));
  }
  setenv("SHOAL_SECRET_FILE", (folder_ / "none").c_str(), 1);
  EXPECT_THAT(message_of(given_secret), HasSubstr("No such file"));
}

// The first process of the user makes it, and all others find it.
TEST_F(SecretTest, OfOneHostIsMadeOnce) {
  fs::remove_all(folder_ / ".shoal");
  std::vector<Secret> found(8);
  {
    std::vector<std::thread> threads;
    for (Secret& secret : found) threads.emplace_back([&secret] { secret = local_secret(); });
    for (std::thread& thread : threads) thread.join();
  }
  const fs::path kept = folder_ / ".shoal" / "local_secret";
  for (const Secret& secret : found) {
    EXPECT_EQ(secret.key, found[0].key);
    EXPECT_EQ(secret.source, kept);
  }
  EXPECT_EQ(text_of(kept).size(), 65U);
  EXPECT_EQ(fs::status(kept).permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(kept.parent_path()).permissions(), fs::perms(0700));
  EXPECT_EQ(std::distance(fs::directory_iterator(kept.parent_path()), {}), 1);  // Nothing half-made is left.
  EXPECT_EQ(secret_of_user(), std::nullopt);  // It is not that of jobs of several hosts.
  fs::permissions(kept, fs::perms(0604));
  EXPECT_THAT(message_of(local_secret), HasSubstr("has mode 0604"));
  fs::remove(kept);
  fs::create_symlink(folder_ / "elsewhere", kept);
  EXPECT_THAT(message_of(local_secret), HasSubstr("cannot be read"));
}

TEST_F(SecretTest, OfOneHostNeedsNoHome) {
  setenv("HOME", "/nonexistent", 1);
  const Secret secret = local_secret();
  EXPECT_EQ(secret.source, "/tmp/shoal-" + std::to_string(geteuid()) + "/local_secret");
  EXPECT_EQ(secret.key, local_secret().key);
}

}  // namespace
}  // namespace shoal::distributed
