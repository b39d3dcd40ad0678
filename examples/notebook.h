// A program told as a notebook: sections with prose, and numbered cells that show their own source and what it prints.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

/// Prints a function as a notebook. The function calls `notebook.section(…)` and `notebook.cell(…)`, each on a line of
/// its own; the lines from there to the next such call, or to the function's end, are the section's prose or the cell's
/// source. They are read from the source file; where it is not at hand, only titles and outputs are printed.
class Notebook {
 public:
  enum class Style { kText, kMarkdown };

  /// `here` is in the file of the cells.
  explicit Notebook(std::ostream& out, Style style = Style::kText,
                    const std::source_location& here = std::source_location::current())
      : out_(out), markdown_(style == Style::kMarkdown) {
    std::ifstream file(here.file_name());
    for (std::string line; std::getline(file, line);) lines_.push_back(line);
  }
  ~Notebook() { end_cell(); }
  Notebook(const Notebook&) = delete;
  Notebook& operator=(const Notebook&) = delete;

  /// Begins a section. The comment that follows is its prose.
  void section(std::string_view title, const std::source_location& here = std::source_location::current()) {
    end_cell();
    out_ << (markdown_ ? "\n## " : "\n=== ") << title << "\n\n";
    for (const std::string& line : text_after(here.line())) {
      out_ << line.substr(std::min(line.find_first_not_of("/ "), line.size())) << '\n';
    }
  }

  /// Begins a cell.
  void cell(std::string_view title, const std::source_location& here = std::source_location::current()) {
    end_cell();
    ++count_;
    if (markdown_) {
      out_ << "\n**" << count_ << ". " << title << "**\n\n```cpp\n";
    } else {
      out_ << "\n--- In [" << count_ << "]: " << title << '\n';
    }
    for (const std::string& line : text_after(here.line())) out_ << line << '\n';
    out_ << (markdown_ ? "```\n\n```\n" : "--- Out:\n");
    in_cell_ = true;
  }

 private:
  static constexpr std::size_t kIndent = 2;  // Of the body of a function.

  void end_cell() {
    if (in_cell_ && markdown_) out_ << "```\n";
    in_cell_ = false;
  }

  std::vector<std::string> text_after(std::size_t line) const {
    std::vector<std::string> text;
    for (; line < lines_.size() && !lines_[line].starts_with("  notebook.") && lines_[line] != "}"; ++line) {
      text.push_back(lines_[line].substr(std::min(kIndent, lines_[line].size())));
    }
    while (!text.empty() && text.back().empty()) text.pop_back();
    return text;
  }

  std::ostream& out_;
  bool markdown_;
  bool in_cell_ = false;  // Its output is being written.
  std::vector<std::string> lines_;
  int count_ = 0;
};

/// The texts of a list's elements, as in Python's lists: "a, b, c".
template <class List, class TextOf>
std::string join(const List& list, TextOf text_of) {
  std::string text;
  for (const auto& element : list) text += (text.empty() ? "" : ", ") + std::string(text_of(element));
  return text;
}

/// A number as NumPy shows it in an array: at most eight decimals, and blanks instead of zeros at the end.
inline std::string eight_decimals(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.8f", value);
  std::string digits = text;
  for (std::size_t i = digits.size(); digits[i - 1] == '0'; --i) digits[i - 1] = ' ';
  return digits;
}

}  // namespace examples
