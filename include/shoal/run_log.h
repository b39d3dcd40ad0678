// What a program measures while it runs, as a table, as curves, and as one page to look at.
//
// @param title The heading of the page.
// @param step The number of the step.
// @param values What was measured, by name.
// @param heading The heading.
// @param text The text.
// @param names Which curves.
// @param path The file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/error.h"

namespace shoal {

/// Rows of named numbers, one for each step that is told. Not for several threads at once.
class RunLog {
 public:
  explicit RunLog(std::string title = "run") : title_(std::move(title)) {}

  /// What was measured at a step; a name may be missing at some. Steps come in any order and are kept in it.
  void add(std::int64_t step, const std::map<std::string, double>& values);
  /// A part of the page beside the curves: how arrays are split, or the summary of a trace. Text, shown as it is.
  void describe(const std::string& heading, const std::string& text);

  /// "step,loss,seconds" and a line for each row; what is missing is empty. 17 digits.
  std::string csv() const;
  /// A picture with a curve for each name, in one coordinate system. NaN and infinity leave gaps. Throws
  /// InvalidArgument for names that nothing was told of.
  std::string svg(const std::vector<std::string>& names, SourceLocation where = SourceLocation::current()) const;
  /// A page with each curve, a table of what they come to, and the descriptions. It needs no other file and no server.
  std::string html() const;
  /// Writes that to a file: by its ending .csv, .html or .svg, the latter with a curve of `names`, or of all that there
  /// are. Throws InvalidArgument for other endings, and std::system_error where it cannot be written.
  void save(const std::string& path, const std::vector<std::string>& names = {},
            SourceLocation where = SourceLocation::current()) const;

 private:
  struct Row {
    std::int64_t step;
    std::map<std::string, double> values;
  };
  std::vector<std::string> names() const;

  std::string title_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> descriptions_;
};

/// A bar of `width` characters for a terminal: "[#####     ]". The caller prints it.
/// @param fraction How much is done, 0 to 1.
/// @param width The number of characters between the brackets.
std::string progress_bar(double fraction, int width = 30);

}  // namespace shoal
