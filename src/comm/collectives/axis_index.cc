// The device's position along the axes, an i32 scalar.
#include <cstring>
#include <utility>
#include <vector>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {
namespace {

class AxisIndex final : public Collective {
 public:
  AxisIndex(ShardShapes result, const Atoms& atoms) : Collective(std::move(result)) {
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      index_of_.push_back(static_cast<std::int32_t>(result_.grid->index_along(result_.position_of(shard), atoms)));
    }
    tiles_ = result_.count();
    bytes_ = total_bytes(result_);
  }

  void run(std::span<std::byte* const* const>, std::byte* const* result, std::int64_t tile) const override {
    const std::int32_t index = index_of_[static_cast<std::size_t>(tile)];
    std::memcpy(result[tile], &index, sizeof index);
  }

 private:
  std::vector<std::int32_t> index_of_;
};

}  // namespace

CollectivePtr axis_index(const Context& context) {
  const AtomSet varying = AtomSet(context.atoms()) & context.wanted;
  return std::make_unique<AxisIndex>(
      ShardShapes{.grid = context.grid(), .varying = varying, .dtype = int32, .shapes = {Shape{}}}, context.atoms());
}

}  // namespace shoal::collectives
