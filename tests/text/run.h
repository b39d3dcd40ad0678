// Runs the programs of this build.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace shoal::text_test {

/// A program beside this one.
inline std::filesystem::path binary(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// What a command prints. Fails if the command does.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 4096> part;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), size);
  EXPECT_EQ(pclose(pipe), 0) << command << " failed";
  return output;
}

}  // namespace shoal::text_test
