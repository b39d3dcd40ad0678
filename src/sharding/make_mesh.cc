#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "shoal/device.h"
#include "shoal/error.h"
#include "shoal/mesh.h"

namespace shoal {

Mesh make_mesh(const Shape& axis_sizes, const std::vector<std::string>& axis_names, const MakeMeshOptions& options,
               std::source_location where) {
  std::vector<Device> pool = options.devices.empty() ? devices() : options.devices;
  std::int64_t size = 1;
  bool countable = true;
  for (std::int64_t extent : axis_sizes) {
    if (extent < 1) {
      throw InvalidArgument(fmt::format("make_mesh: axis_sizes {} must all be at least 1", to_string(axis_sizes)),
                            where);
    }
    countable = countable && !__builtin_mul_overflow(size, extent, &size);
  }
  if (!countable || size > static_cast<std::int64_t>(pool.size())) {
    throw InvalidArgument(
        fmt::format("make_mesh: axis_sizes {} need {} devices, but there are {}{}", to_string(axis_sizes),
                    countable ? std::to_string(size) : "more than 2^63", pool.size(),
                    options.devices.empty() ? "; set SHOAL_NUM_CPU_DEVICES for more" : ""),
        where);
  }
  pool.resize(static_cast<std::size_t>(size));
  return Mesh(std::move(pool), axis_sizes, axis_names, options.axis_types, where).with_speeds(options.speeds, where);
}

}  // namespace shoal
