// Pieces of text in Python's notation, which the text forms of meshes and shardings follow.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace shoal::text {

/// "'x'"
inline std::string quoted(const std::string& name) { return fmt::format("'{}'", name); }

inline std::vector<std::string> quoted(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  out.reserve(names.size());
  for (const std::string& name : names) out.push_back(quoted(name));
  return out;
}

/// The inside of a tuple: "a, b", and "a," for a lone part.
inline std::string tuple_body(const std::vector<std::string>& parts) {
  return fmt::format("{}{}", fmt::join(parts, ", "), parts.size() == 1 ? "," : "");
}

/// "()", "(a,)", "(a, b)"
inline std::string tuple(const std::vector<std::string>& parts) { return fmt::format("({})", tuple_body(parts)); }

}  // namespace shoal::text
