#include "comm/collectives/collective_parts.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace shoal::collectives {
namespace {

Region whole_region(const Shape& shape, Dtype dtype) {
  return {.shape = shape, .start = Dims(shape.size(), 0), .extents = shape, .element = size_of(dtype)};
}

}  // namespace

ShardShapes shapes_of(const GridPtr& grid, AtomSet varying, Dtype dtype, bool even,
                      FunctionRef<Shape(std::int64_t)> shape_at) {
  ShardShapes result{.grid = grid, .varying = varying, .dtype = dtype, .shapes = {}};
  const std::int64_t count = even ? 1 : result.count();
  for (std::int64_t shard = 0; shard < count; ++shard) {
    result.shapes.push_back(shape_at(result.position_of(shard)));
  }
  const auto same = [&](const Shape& shape) { return shape == result.shapes[0]; };
  if (std::ranges::all_of(result.shapes, same)) result.shapes.resize(1);
  return result;
}

ShardShapes shapes_of_pieces(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim) {
  return shapes_of(in.grid, groups.split(in.varying) & wanted, in.dtype, false, [&](std::int64_t position) {
    Shape shape = in.shape_at(position);
    shape[dim] = groups.extent(shape[dim], position).size;
    return shape;
  });
}

std::size_t total_bytes(const ShardShapes& shapes) {
  if (shapes.even()) return shapes.bytes(0) * static_cast<std::size_t>(shapes.count());
  std::size_t bytes = 0;
  for (std::int64_t shard = 0; shard < shapes.count(); ++shard) bytes += shapes.bytes(shard);
  return bytes;
}

std::size_t most_bytes(const ShardShapes& shapes) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < shapes.shapes.size(); ++i) {
    bytes = std::max(bytes, shapes.bytes(static_cast<std::int64_t>(i)));
  }
  return bytes;
}

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                         shape.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

std::size_t unit_of(const Shape& shape, std::size_t dim, Dtype dtype) {
  return static_cast<std::size_t>(product(shape, dim + 1, shape.size())) * size_of(dtype);
}

Region range_region(const Shape& shape, Dtype dtype, std::size_t dim, const Extent& range) {
  Region region = whole_region(shape, dtype);
  region.start[dim] = range.start;
  region.extents[dim] = range.size;
  return region;
}

Need whole_need(const ShardShapes& in, std::int64_t shard, std::size_t operand) {
  return {static_cast<std::int32_t>(operand), static_cast<std::int32_t>(shard),
          whole_region(in.shape(shard), in.dtype)};
}

std::int64_t parts_of(std::size_t bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>((bytes + kTileBytes - 1) / kTileBytes));
}

Teams::Teams(const ShardShapes& in, const ShardShapes& result, const Groups& groups, bool in_device_order) {
  std::vector<std::int32_t> team_at(static_cast<std::size_t>(result.grid->num_devices()), -1);
  for (std::int64_t shard = 0; shard < result.count(); ++shard) {
    const std::int64_t position = result.position_of(shard);
    std::int32_t& team = team_at[static_cast<std::size_t>(groups.first(position))];
    if (team < 0) {
      team = static_cast<std::int32_t>(begins_.size());
      begins_.push_back(shards_.size());
      std::vector<std::int64_t> members = groups.members(position);
      if (in_device_order) std::ranges::sort(members);
      for (std::int64_t member : members) shards_.push_back(static_cast<std::int32_t>(in.shard_at(member)));
    }
    team_of_.push_back(team);
  }
  begins_.push_back(shards_.size());
}

}  // namespace shoal::collectives
