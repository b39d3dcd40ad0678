// Starting programs.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "descriptor.h"

namespace shoal::tool {

struct SpawnOptions {
  std::vector<std::string> arguments;         ///< The program, looked for in PATH, and its arguments.
  std::vector<std::string> environment = {};  ///< "NAME=VALUE", besides this process's own; the last of a name wins.
  std::string folder = {};                    ///< Where it runs; empty: where this process does.
  enum class Input { kNone, kInherited, kPipe } input = Input::kNone;
};

struct Spawned {
  pid_t pid = 0;     ///< And its process group's.
  Descriptor input;  ///< To write to, of Input::kPipe.
  Descriptor output;
  Descriptor errors;
};

/// Starts a program in a process group of its own. It is killed when this process ends. Throws std::system_error if it
/// cannot be run. The standard streams of this process must be open, if only on /dev/null.
Spawned spawn(const SpawnOptions& options);

/// The text as one word of a POSIX shell.
std::string shell_quoted(std::string_view text);

}  // namespace shoal::tool
