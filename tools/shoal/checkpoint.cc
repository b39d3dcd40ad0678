#include "checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "shoal/checkpoints.h"

namespace shoal::tool {
namespace {

using Json = nlohmann::ordered_json;

// Errors name no line: who reads them has called the tool.
constexpr SourceLocation kNowhere{};

// "12.0 MiB"
std::string size_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

// Rows of texts in columns.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : fmt::format("{:{}}  ", row[i], widths[i]);
    }
    fmt::print("{}\n", line);
  }
}

// "['data'] over data=2, model=4", of how an array lay.
std::string lay_text(const std::string& sharding) {
  const Json json = Json::parse(sharding, nullptr, false);
  if (!json.is_object() || !json.contains("mesh")) return "one device";
  std::string text = json["spec"].dump() + " over ";
  for (const Json& axis : json["mesh"]) {
    if (text.back() != ' ') text += ",";
    text += fmt::format("{}={}", axis["name"].get<std::string>(), axis["size"].get<std::int64_t>());
  }
  return text;
}

std::vector<std::int64_t> steps_of(const CheckpointOptions& options) {
  std::vector<std::int64_t> steps = checkpoints::steps(options.folder, kNowhere);
  if (steps.empty()) throw std::runtime_error(fmt::format("there is no checkpoint in \"{}\"", options.folder));
  if (options.step) return {*options.step};
  return steps;
}

}  // namespace

int list_checkpoints(const CheckpointOptions& options) {
  std::vector<std::vector<std::string>> rows;
  Json list = Json::array();
  bool all_fine = true;
  for (const std::int64_t step : steps_of(options)) {
    try {
      const checkpoints::CheckpointInfo info = checkpoints::describe(options.folder, step, kNowhere);
      Json arrays = Json::array();
      if (options.step) {
        for (const checkpoints::StoredArrayInfo& array : info.arrays) {
          rows.push_back({array.path, std::string(name_of(array.dtype)), to_string(array.shape), size_text(array.bytes),
                          fmt::format("{} box{}", array.boxes, array.boxes == 1 ? "" : "es"),
                          lay_text(array.sharding)});
          arrays.push_back({{"path", array.path},
                            {"dtype", name_of(array.dtype)},
                            {"shape", std::vector<std::int64_t>(array.shape.begin(), array.shape.end())},
                            {"bytes", array.bytes},
                            {"boxes", array.boxes},
                            {"sharding", Json::parse(array.sharding)}});
        }
        rows.push_back({fmt::format("metadata {}", info.metadata)});
      } else {
        rows.push_back({fmt::format("{}", info.step), fmt::format("{} arrays", info.arrays.size()),
                        size_text(info.bytes), fmt::format("{} file{}", info.processes, info.processes == 1 ? "" : "s"),
                        info.folder.string()});
      }
      Json entry{{"step", info.step},
                 {"folder", info.folder.string()},
                 {"bytes", info.bytes},
                 {"files", info.processes},
                 {"metadata", Json::parse(info.metadata)}};
      entry[options.step ? "arrays" : "num_arrays"] = options.step ? std::move(arrays) : Json(info.arrays.size());
      list.push_back(std::move(entry));
    } catch (const Error& error) {
      if (options.step) throw;
      all_fine = false;
      rows.push_back({fmt::format("{}", step), "damaged", error.what()});
      list.push_back({{"step", step}, {"error", error.what()}});
    }
  }
  if (options.json) {
    fmt::print("{}\n", (options.step ? list[0] : list).dump());
  } else {
    print_table(rows);
  }
  return all_fine ? 0 : 1;
}

int verify_checkpoints(const CheckpointOptions& options) {
  int code = 0;
  for (const std::int64_t step : steps_of(options)) {
    try {
      checkpoints::verify(options.folder, step, kNowhere);
      fmt::print("{}  good\n", step);
    } catch (const Error& error) {
      code = 1;
      fmt::print("{}  damaged: {}\n", step, error.what());
    }
  }
  return code;
}

int export_checkpoint(const CheckpointOptions& options) {
  checkpoints::ExportOptions how{.step = options.step, .name = {}};
  if (options.keep_paths) how.name = [](const std::string& path) { return path; };
  checkpoints::export_safetensors(options.folder, options.file, how, kNowhere);
  return 0;
}

}  // namespace shoal::tool
