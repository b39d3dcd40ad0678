// Pieces of text: in Python's notation, which the text forms of meshes and shardings follow, and names as they stand in
// the text of graphs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
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

/// "\"x\"", with quotes, backslashes and newlines escaped.
inline std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\' || c == '\n') result += '\\';
    result += c == '\n' ? 'n' : c;
  }
  return result + "\"";
}

/// Whether a graph's text may hold the name without quotes: a word, and not "_", which stands for a whole dimension.
inline bool is_word(std::string_view name) {
  const auto in_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && name != "_" && std::all_of(name.begin(), name.end(), in_word);
}

/// The name of an axis in the text of graphs: "x", and "\"data axis\"" if it is no word.
inline std::string axis_name(const std::string& name) { return is_word(name) ? name : double_quoted(name); }

}  // namespace shoal::text
