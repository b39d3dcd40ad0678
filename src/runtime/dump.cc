#include "runtime/dump.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <system_error>

#include "base/env.h"
#include "base/log.h"
#include "base/safe_file.h"
#include "shoal/error.h"

namespace shoal {

Dump::Dump(std::string_view program) {
  const std::optional<std::string> folder = env_text("SHOAL_DUMP");
  if (!folder) return;
  static std::atomic<int> counter{0};
  std::error_code problem;
  std::filesystem::create_directories(*folder, problem);
  if (problem) {
    throw InvalidArgument(fmt::format("SHOAL_DUMP: cannot make the folder '{}': {}; name one that can be written",
                                      *folder, problem.message()));
  }
  prefix_ = fmt::format("{}/{:04}_{}", *folder, counter++, program);
}

void Dump::write(std::string_view stage, const Graph& graph) {
  if (!prefix_) return;
  try {
    write_file(fmt::format("{}_{}_{}.txt", *prefix_, next_++, stage), to_text(graph) + '\n');
  } catch (const std::system_error& error) {
    log_warning(fmt::format("SHOAL_DUMP: stage {} could not be written to {}", stage, error.what()));
  }
}

}  // namespace shoal
