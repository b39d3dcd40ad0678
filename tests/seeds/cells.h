// Compares the output of a notebook's cells with what the same cells printed in JAX.
//
// Outputs must be equal, but for this:
//   1. Numbers with a decimal point may differ by 2e-7 of their value, as float32 functions of two libraries do in the
//      last digit, or by one in the eighth decimal, the last that NumPy prints: small numbers have fewer digits there.
//      Where one differs, white space beside numbers is not compared, since columns are as wide as digits.
//   2. White space at the end of an output is not compared.
//   3. Exceptions have texts of their own: an ErrorCell says which kind stands for which, and which facts both must
//   name.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace seeds {

// Before any test of this binary uses a device: their number cannot change later.
inline const int kEightDevices = setenv("SHOAL_NUM_CPU_DEVICES", "8", 1);

inline constexpr double kRelativeTolerance = 2e-7;
inline constexpr double kLastDecimal = 1.001e-8;  // 1e-8, and room for the rounding of decimals to doubles.

/// What both messages must say: as JAX says it, and as Shoal does.
struct Fact {
  std::string recorded;
  std::string shown;
};

struct ErrorCell {
  std::string recorded_kind;
  std::string kind;
  std::vector<Fact> facts;
};

// ---- Cells.

struct Cell {
  std::string source;
  std::string output;
};

/// The cells of a notebook's text by their number. A cell is "--- In [k]:…", its source, "--- Out:" and its output; it
/// ends where the next cell or section begins.
inline std::map<int, Cell> parse_cells(std::istream& text) {
  std::map<int, Cell> cells;
  std::string ignored;
  std::string* part = &ignored;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("--- In [")) {
      number = std::stoi(line.substr(8));
      part = &cells[number].source;
    } else if (line == "--- Out:") {
      part = &cells[number].output;
    } else if (line.starts_with("=== ")) {
      part = &ignored;
    } else {
      *part += line + '\n';
    }
  }
  for (auto& [key, cell] : cells) cell.output.erase(cell.output.find_last_not_of(" \n") + 1);
  return cells;
}

// ---- Comparison.

/// A text cut at its numbers that have a decimal point: numbers[i] stands between texts[i] and texts[i + 1].
struct Pieces {
  std::vector<std::string> texts;
  std::vector<std::string> numbers;
};

inline Pieces cut_at_numbers(const std::string& text) {
  static const std::regex number_pattern(R"(-?\d+\.\d*(e[+-]?\d+)?)");
  Pieces pieces;
  std::size_t end = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), number_pattern), last; match != last; ++match) {
    const auto begin = static_cast<std::size_t>(match->position());
    pieces.texts.push_back(text.substr(end, begin - end));
    pieces.numbers.push_back(match->str());
    end = begin + pieces.numbers.back().size();
  }
  pieces.texts.push_back(text.substr(end));
  return pieces;
}

inline bool close(const std::string& a, const std::string& b) {
  const double x = std::stod(a);
  const double y = std::stod(b);
  return std::abs(x - y) <= std::max(kRelativeTolerance * std::max(std::abs(x), std::abs(y)), kLastDecimal);
}

inline std::string without_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

/// Whether two outputs are equal by rules 1 and 2 above.
inline bool same_output(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const Pieces x = cut_at_numbers(a);
  const Pieces y = cut_at_numbers(b);
  if (x.numbers == y.numbers || x.numbers.size() != y.numbers.size()) return false;
  if (!std::equal(x.numbers.begin(), x.numbers.end(), y.numbers.begin(), close)) return false;
  return std::equal(x.texts.begin(), x.texts.end(), y.texts.begin(),
                    [](const std::string& s, const std::string& t) { return without_space(s) == without_space(t); });
}

inline bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_part(word.front()) || !is_part(text[at - 1]);
    const bool ends = end == text.size() || !is_part(word.back()) || !is_part(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

inline std::map<int, Cell> recorded_cells(const std::string& name) {
  std::ifstream file("tests/seeds/data/" + name);
  return parse_cells(file);
}

/// The cells that `run`, which writes to a stream, prints.
template <class Run>
std::map<int, Cell> shown_cells(Run&& run) {
  std::stringstream text;
  run(text);
  return parse_cells(text);
}

/// `file` is the source of the cells.
inline void expect_same_error(const ErrorCell& error, const std::string& file, const std::string& recorded,
                              const std::string& shown) {
  EXPECT_TRUE(has_word(recorded, error.recorded_kind)) << recorded;
  EXPECT_THAT(shown, testing::StartsWith(error.kind + ": "));
  EXPECT_THAT(shown, testing::HasSubstr("\n  at " + file + ":"));
  for (const Fact& fact : error.facts) {
    EXPECT_TRUE(has_word(recorded, fact.recorded)) << "the recorded message does not say: " << fact.recorded;
    EXPECT_TRUE(has_word(shown, fact.shown)) << "the message does not say: " << fact.shown << "\n" << shown;
  }
}

}  // namespace seeds
