#include "ir/rearrangement.h"

#include <algorithm>

#include "base/check.h"

namespace shoal {
namespace {

// The least i with start + i * step >= bound, for a positive step.
std::int64_t first_from(std::int64_t start, std::int64_t step, std::int64_t bound) {
  const std::int64_t distance = bound - start;
  return distance <= 0 ? 0 : (distance + step - 1) / step;
}

// The greatest number that is no more than n / by, and the least that is no less.
std::int64_t divided_down(std::int64_t n, std::int64_t by) { return n >= 0 ? n / by : -((by - 1 - n) / by); }
std::int64_t divided_up(std::int64_t n, std::int64_t by) { return -divided_down(-n, by); }

}  // namespace

std::pair<std::int64_t, std::int64_t> Run::within(std::int64_t start, std::int64_t step, std::int64_t count,
                                                  std::int64_t begin, std::int64_t end) {
  if (end <= begin) return {0, 0};
  // A falling sequence is a rising one of the negated positions.
  const bool falls = step < 0;
  const std::int64_t low = falls ? 1 - end : begin;
  const std::int64_t high = falls ? 1 - begin : end;
  const std::int64_t from = falls ? -start : start;
  const std::int64_t first = std::min(count, first_from(from, std::abs(step), low));
  const std::int64_t last = std::min(count, first_from(from, std::abs(step), high));
  return {first, last};
}

Extent Windows::elements_of(const Extent& range) const {
  const std::int64_t begin = range.start * stride - low;
  const std::int64_t first = divided_up(begin, base);
  if (range.size == 0) return {first, 0};
  return {first, divided_down(begin + (range.size - 1) * stride + covers - 1, base) - first + 1};
}

Run halo_run(const Grid& grid, const Atoms& atoms, const Windows& windows, std::int64_t extent, std::int64_t position) {
  const Extent needed = windows.elements_of(grid.extent(windows.numbers, atoms, position));
  const std::int64_t begin = std::clamp<std::int64_t>(needed.start, 0, extent);
  const std::int64_t end = std::clamp<std::int64_t>(needed.start + needed.size, begin, extent);
  return {.count = end - begin, .in_start = begin, .out_start = begin - needed.start};
}

double received_elements(const Grid& grid, const Atoms& atoms, const Windows& windows, std::int64_t extent) {
  std::int64_t received = 0;
  for (std::int64_t index = 0; index < grid.size_of(atoms); ++index) {
    const std::int64_t position = grid.with_index_along(0, atoms, index);
    const Run run = halo_run(grid, atoms, windows, extent, position);
    const Extent held = grid.extent(extent, atoms, position);
    const std::int64_t here =
        std::min(run.in_start + run.count, held.start + held.size) - std::max(run.in_start, held.start);
    received += run.count - std::max<std::int64_t>(0, here);
  }
  return static_cast<double>(received) / static_cast<double>(grid.size_of(atoms));
}

Dims to_dims(const Windows& windows) {
  return {windows.numbers, windows.stride, windows.low, windows.covers, windows.base};
}

Windows windows_of(const Dims& dims) {
  SHOAL_CHECK(dims.size() == 5, "how windows move is told by five numbers");
  return {.numbers = dims[0], .stride = dims[1], .low = dims[2], .covers = dims[3], .base = dims[4]};
}

Dims to_dims(const std::vector<Run>& runs) {
  Dims dims;
  for (const Run& run : runs) {
    for (std::int64_t number : {run.operand, run.count, run.in_start, run.in_step, run.out_start, run.out_step}) {
      dims.push_back(number);
    }
  }
  return dims;
}

std::vector<Run> runs_of(const Dims& dims) {
  SHOAL_CHECK(dims.size() % 6 == 0, "a run is six numbers");
  std::vector<Run> runs;
  for (std::size_t i = 0; i < dims.size(); i += 6) {
    runs.push_back({.operand = dims[i],
                    .count = dims[i + 1],
                    .in_start = dims[i + 2],
                    .in_step = dims[i + 3],
                    .out_start = dims[i + 4],
                    .out_step = dims[i + 5]});
  }
  return runs;
}

double received_share(const Grid& grid, const Atoms& atoms, std::span<const Run> runs,
                      std::span<const std::int64_t> operand_extents, std::int64_t extent) {
  if (extent == 0) return 0;
  std::int64_t received = 0;
  for (std::int64_t index = 0; index < grid.size_of(atoms); ++index) {
    const std::int64_t position = grid.with_index_along(0, atoms, index);
    const Extent target = grid.extent(extent, atoms, position);
    for (const Run& run : runs) {
      const Extent held = grid.extent(operand_extents[static_cast<std::size_t>(run.operand)], atoms, position);
      const auto [wanted_first, wanted_last] =
          Run::within(run.out_start, run.out_step, run.count, target.start, target.start + target.size);
      const auto [held_first, held_last] =
          Run::within(run.in_start, run.in_step, run.count, held.start, held.start + held.size);
      const std::int64_t here = std::min(wanted_last, held_last) - std::max(wanted_first, held_first);
      received += wanted_last - wanted_first - std::max<std::int64_t>(0, here);
    }
  }
  return static_cast<double>(received) / static_cast<double>(extent);
}

}  // namespace shoal
