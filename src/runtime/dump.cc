#include "runtime/dump.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/env.h"

namespace shoal {

Dump::Dump(std::string_view program) {
  const std::optional<std::string> folder = env_text("SHOAL_DUMP");
  if (!folder) return;
  static std::atomic<int> counter{0};
  std::filesystem::create_directories(*folder);
  prefix_ = fmt::format("{}/{:04}_{}", *folder, counter++, program);
}

void Dump::write(std::string_view stage, const Graph& graph) {
  if (!prefix_) return;
  std::ofstream file(fmt::format("{}_{}_{}.txt", *prefix_, next_++, stage));
  file << to_text(graph) << '\n';
}

}  // namespace shoal
