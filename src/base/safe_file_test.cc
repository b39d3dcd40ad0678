#include "base/safe_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace shoal {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SafeFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string text_of(const fs::path& name) {
    std::ifstream file(name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// What is thrown for this name; empty if nothing is.
  static std::string refusal(const fs::path& name) {
    try {
      create_file(name);
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path folder_ = fs::temp_directory_path() / ("shoal_safe_file_test_" + std::to_string(getpid()));
};

TEST_F(SafeFile, IsMadeAndEmptied) {
  const fs::path name = folder_ / "new";
  write_file(name, "a longer text");
  EXPECT_EQ(text_of(name), "a longer text");
  write_file(name, "short");
  EXPECT_EQ(text_of(name), "short");
  FileStream stream = create_file_stream(name);
  std::fputs("by pieces", stream.get());
  stream.reset();
  EXPECT_EQ(text_of(name), "by pieces");
}

TEST_F(SafeFile, HasItsModeAndIsNotInherited) {
  const mode_t before = umask(022);
  const FileDescriptor secret = create_file(folder_ / "secret", 0600);
  const FileDescriptor open_to_all = create_file(folder_ / "public");
  umask(before);
  struct stat status {};
  ASSERT_EQ(fstat(secret.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  ASSERT_EQ(fstat(open_to_all.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0644U);
  EXPECT_NE(fcntl(secret.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(SafeFile, NoLinkIsFollowed) {
  const fs::path victim = folder_ / "victim";
  write_file(victim, "dear");
  fs::create_symlink(victim, folder_ / "link");
  EXPECT_THAT(refusal(folder_ / "link"), HasSubstr("it is a link, which is not followed"));
  EXPECT_EQ(text_of(victim), "dear");
  fs::create_symlink(folder_ / "nothing", folder_ / "dangling");
  EXPECT_THAT(refusal(folder_ / "dangling"), HasSubstr("it is a link"));
  EXPECT_FALSE(fs::exists(folder_ / "nothing"));
}

TEST_F(SafeFile, NorAFileWithTwoNames) {
  const fs::path victim = folder_ / "victim";
  write_file(victim, "dear");
  fs::create_hard_link(victim, folder_ / "other");
  EXPECT_THAT(refusal(folder_ / "other"), HasSubstr("it has another name"));
  EXPECT_EQ(text_of(victim), "dear");
}

TEST_F(SafeFile, NorOneOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const fs::path name = folder_ / "foreign";
  write_file(name, "theirs");
  ASSERT_EQ(chown(name.c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(name), HasSubstr("it belongs to another user, with number 12345"));
  EXPECT_EQ(text_of(name), "theirs");
}

TEST_F(SafeFile, NorPipesAndFolders) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder_ / "pipe"), HasSubstr("it is no regular file"));
  EXPECT_THAT(refusal(folder_), HasSubstr("directory"));
  EXPECT_THAT(refusal(folder_ / "missing" / "file"), HasSubstr("No such file"));
  EXPECT_EQ(refusal("/dev/null"), "");
}

}  // namespace
}  // namespace shoal
