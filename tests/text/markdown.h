// Reads the project's own pages, so that what they show can be compared with what is.
#pragma once

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace shoal::text_test {

/// A whole file, by its path in the repository.
inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The text between a pair of ``` lines.
struct Block {
  std::string heading;  ///< The last heading above it, without the #s.
  std::string text;     ///< Each line with its newline.
};

/// The blocks of a page, in order.
inline std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(page);
  std::string heading;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({heading, ""});
    } else if (inside) {
      blocks.back().text += line + '\n';
    } else if (line.starts_with('#')) {
      heading = line.substr(line.find_first_not_of("# "));
    }
  }
  return blocks;
}

}  // namespace shoal::text_test
