#include "ops/table.h"

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"

namespace shoal {

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*>& ops = *[] {
    auto* list = new std::vector<const OpDef*>;
    for (const std::span<const OpDef> family :
         std::array{elementwise_ops(), reduce_ops(), contract_ops(),   linalg_ops(),   general_linalg_ops(),
                    convolution_ops(), fft_ops(),    attention_ops(),  movement_ops(), window_ops(),
                    gather_ops(),      sort_ops(),   cumulative_ops(), creation_ops(), placement_ops(),
                    collective_ops(),  solver_ops(), call_ops(),       control_ops(),  effect_ops(),
                    custom_ops()}) {
      for (const OpDef& op : family) list->push_back(&op);
    }
    return list;
  }();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpDef*>& by_name = *[] {
    auto* map = new std::unordered_map<std::string_view, const OpDef*>;
    for (const OpDef* op : all_ops()) map->emplace(op->name, op);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const OpDef& op_named(std::string_view name) {
  const OpDef* op = find_op(name);
  SHOAL_CHECK(op != nullptr, "no op is named '" + std::string(name) + "'");
  return *op;
}

}  // namespace shoal
