// The functions of jax.lax: constraints, and the collectives that run inside shard_map.
//
// An axis is named as the enclosing shard_map's mesh names it; several axes are taken together, the first being the
// most major. A name that is not bound throws UnboundAxisError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/array.h"

namespace shoal {

/// One or several mesh axes.
class AxisName {
 public:
  AxisName(const char* name) : names_{name} {}
  AxisName(std::string name) : names_{std::move(name)} {}
  AxisName(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
  AxisName(std::vector<std::string> names) : names_(std::move(names)) {}
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// x, which shall lie as `sharding` says; entries that are `unconstrained` are left to the compiler. Outside jit it
/// moves x there. Throws InvalidArgument for a spec that does not fit x.
Array with_sharding_constraint(const Operand& x, const NamedSharding& sharding);

namespace lax {

using shoal::with_sharding_constraint;

/// The sum over the devices along the axes; every device gets it. In a fixed balanced tree: the same bits on any layout
/// of the mesh over processes.
Array psum(const Operand& x, const AxisName& axis);
Array pmean(const Operand& x, const AxisName& axis);
Array pmax(const Operand& x, const AxisName& axis);
Array pmin(const Operand& x, const AxisName& axis);

struct AllGatherOptions {
  std::int64_t axis = 0;  ///< Where the pieces go.
  bool tiled = false;     ///< Concatenate along `axis` instead of stacking in a new dimension there.
};
Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});

struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;
  bool tiled = false;  ///< The dimension is split among the devices; otherwise its extent is their number, and it goes.
};
/// The device's piece of psum. Throws InvalidArgument if the dimension does not divide.
Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options = {});

struct AllToAllOptions {
  std::int64_t split_axis = 0;
  std::int64_t concat_axis = 0;
  bool tiled = false;  ///< Split and concatenate; otherwise split_axis, of extent the number of devices, moves.
};
Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options);

/// Sends x from the device at `first` along the axis to that at `second`, for each pair; who receives nothing gets
/// zeros. Positions are those of axis_index(axis_name).
Array ppermute(const Operand& x, const AxisName& axis_name, const std::vector<std::pair<int, int>>& perm);

/// The device's position along the axes, i32.
Array axis_index(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// The number of devices along the axes.
std::int64_t axis_size(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// x, taken to vary over the axes.
Array pvary(const Operand& x, const AxisName& axis_name);

struct DotDimensionNumbers {
  Dims lhs_contracting = {};
  Dims rhs_contracting = {};
  Dims lhs_batch = {};
  Dims rhs_batch = {};
};
/// The result has the batch dimensions, then those of x alone, then those of y alone. `preferred_element_type`, which
/// must be of the same kind as the operands' dtype and not smaller, is what products are added in, and the result's
/// dtype. Throws TypeMismatch for another one.
Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims,
                  std::optional<Dtype> preferred_element_type = {});

/// The complex numbers with these parts: c64 of f32, c128 of f64. Throws TypeMismatch for f16 and bf16.
Array complex(const Operand& re, const Operand& im);

/// x, but at least `low` and at most `high`, which are scalars or have the shape of x.
Array clamp(const Operand& low, const Operand& x, const Operand& high);

}  // namespace lax
}  // namespace shoal
