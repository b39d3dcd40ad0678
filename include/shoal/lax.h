// The functions of jax.lax: constraints, the collectives that run inside shard_map, and movement of elements.
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

// ---- Movement of elements. These take no shapes that broadcast and promote no dtypes.

/// The elements from starts[d] up to limits[d] of each dimension, every strides[d]-th if given.
Array slice(const Operand& x, const Dims& starts, const Dims& limits, const std::optional<Dims>& strides = {});
/// The same along one dimension; bounds count from the end if negative.
Array slice_in_dim(const Operand& x, Bound start, Bound limit, std::int64_t stride = 1, std::int64_t axis = 0);

/// The window of extents `sizes` that begins at integer scalars, one for each dimension, counted from the end if
/// negative. A window that would not fit begins where it just does.
Array dynamic_slice(const Operand& x, const Operands& starts, const Dims& sizes);
Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis = 0);
Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis = 0, bool keepdims = true);
/// x with `update`, of its dtype and rank, in place of the window that begins at `starts`, as in dynamic_slice.
Array dynamic_update_slice(const Operand& x, const Operand& update, const Operands& starts);
Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis);
/// The update lacks the dimension, or has extent 1 there.
Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis);

/// What is added to one dimension: at its ends, where negative numbers cut off, and between its elements.
struct PaddingConfig {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t interior = 0;
};
Array pad(const Operand& x, const Operand& padding_value, const std::vector<PaddingConfig>& padding_config);
Array rev(const Operand& x, const Dims& dimensions);
Array concatenate(const Operands& arrays, std::int64_t dimension);
/// Every element of x in each place of new dimensions: dimension i of x becomes broadcast_dimensions[i] of `shape`.
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& broadcast_dimensions);
Array reshape(const Operand& x, const Shape& new_sizes);
Array transpose(const Operand& x, const Dims& permutation);
/// 0, 1, 2, …. Throws InvalidArgument if the last does not fit the dtype.
Array iota(Dtype dtype, std::int64_t size, SourceLocation where = SourceLocation::current());
/// The same along one dimension of a shape.
Array broadcasted_iota(Dtype dtype, const Shape& shape, std::int64_t dimension,
                       SourceLocation where = SourceLocation::current());
/// The same bytes as elements of another dtype. If that is smaller, the parts of an element become a new last
/// dimension; if it is larger, the last dimension becomes one element. bool and complex numbers stay what they are.
Array bitcast_convert_type(const Operand& x, Dtype new_dtype);

// ---- Contractions.

struct DotDimensionNumbers {
  Dims lhs_contracting = {};
  Dims rhs_contracting = {};
  Dims lhs_batch = {};
  Dims rhs_batch = {};
};
/// The result has the batch dimensions, then those of x alone, then those of y alone.
Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims);

}  // namespace lax
}  // namespace shoal
