// SHOAL_DUMP: the graphs of a program as files, for looking inside.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace shoal {

/// The files of one program. Writes nothing unless the environment variable SHOAL_DUMP names a folder.
class Dump {
 public:
  /// `program` is part of the files' names.
  explicit Dump(std::string_view program);

  /// Writes the next file, "NNNN_program_i_stage.txt": NNNN counts the programs of the process, i the files of each.
  void write(std::string_view stage, const Graph& graph);

 private:
  std::optional<std::string> prefix_;
  int next_ = 0;
};

}  // namespace shoal
