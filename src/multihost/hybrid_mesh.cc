#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>
#include <vector>

#include "base/misuse.h"
#include "shoal/multihost.h"

namespace shoal::multihost {
namespace {

// The coordinates of a position in a grid of these sizes.
Dims coordinates_of(std::int64_t position, const Shape& sizes) {
  Dims at(sizes.size(), 0);
  for (std::size_t d = sizes.size(); d-- > 0; position /= sizes[d]) at[d] = position % sizes[d];
  return at;
}

}  // namespace

Mesh make_hybrid_mesh(const Shape& inner, const Shape& outer, const std::vector<std::string>& axis_names,
                      const MakeMeshOptions& options, SourceLocation where) {
  const Caller caller("make_hybrid_mesh", where);
  if (inner.size() != outer.size()) {
    throw misuse<InvalidArgument>("inner has {} sizes and outer {}; each axis needs one of both", inner.size(),
                                  outer.size());
  }
  for (const Shape* sizes : {&inner, &outer}) {
    for (const std::int64_t size : *sizes) {
      if (size < 1) {
        throw misuse<InvalidArgument>("sizes are {} within {}; allowed: 1 or more", to_string(inner), to_string(outer));
      }
    }
  }
  std::map<int, std::vector<Device>> by_process;
  for (const Device& device : options.devices.empty() ? devices() : options.devices) {
    by_process[device.process_index].push_back(device);
  }
  if (static_cast<std::int64_t>(by_process.size()) != num_elements(outer)) {
    throw misuse<InvalidArgument>("outer {} takes {} processes, but {} have devices", to_string(outer),
                                  num_elements(outer), by_process.size());
  }
  Shape sizes;
  for (std::size_t d = 0; d < inner.size(); ++d) sizes.push_back(outer[d] * inner[d]);
  std::vector<Device> grid(static_cast<std::size_t>(num_elements(sizes)));
  std::int64_t block = 0;
  for (const auto& [process, own] : by_process) {
    if (static_cast<std::int64_t>(own.size()) != num_elements(inner)) {
      throw misuse<InvalidArgument>("inner {} takes {} devices of each process, but process {} has {}",
                                    to_string(inner), num_elements(inner), process, own.size());
    }
    const Dims of_block = coordinates_of(block++, outer);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Dims within = coordinates_of(static_cast<std::int64_t>(i), inner);
      std::int64_t position = 0;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        position = position * sizes[d] + of_block[d] * inner[d] + within[d];
      }
      grid[static_cast<std::size_t>(position)] = own[i];
    }
  }
  return Mesh(std::move(grid), sizes, axis_names, options.axis_types, Caller::line())
      .with_speeds(options.speeds, Caller::line());
}

}  // namespace shoal::multihost
