// The functions of jax.lax: constraints, and the collectives that run inside shard_map.
//
// An axis is named as the enclosing shard_map's mesh names it; several axes are taken together, the first being the
// most major. A name that is not bound throws UnboundAxisError.
#pragma once

#include <cstdint>
#include <initializer_list>
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
/// The result has the batch dimensions, then those of x alone, then those of y alone.
Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims);

// ---- Windows of an array at starting positions, as XLA describes them.

struct GatherDimensionNumbers {
  Dims offset_dims = {};           ///< Dimensions of the result that are a window's.
  Dims collapsed_slice_dims = {};  ///< Dimensions of x, of window size 1, that the result lacks.
  Dims start_index_map = {};       ///< Dimensions of x that the components of an index are about.
  Dims operand_batching_dims = {};
  Dims start_indices_batching_dims = {};
};
/// Windows of slice_sizes, one for each of the vectors along the last dimension of start_indices. A window that does
/// not lie in x is moved (kClip) or gives the fill value (kFill). Throws InvalidArgument for numbers that do not fit.
Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& dims,
             const Dims& slice_sizes, const GetOptions& options = {.mode = IndexMode::kFill});

struct ScatterDimensionNumbers {
  Dims update_window_dims = {};            ///< Dimensions of the updates that are a window's.
  Dims inserted_window_dims = {};          ///< Dimensions of x, of window size 1, that the updates lack.
  Dims scatter_dims_to_operand_dims = {};  ///< Dimensions of x that the components of an index are about.
  Dims operand_batching_dims = {};
  Dims scatter_indices_batching_dims = {};
};
/// x with windows replaced by the updates. A window that does not lie in x is moved (kClip) or dropped (kDrop). Throws
/// InvalidArgument for numbers that do not fit, TypeMismatch for updates that x's dtype does not hold, and Unsupported
/// for windows that take a part of a dimension without starting positions.
Array scatter(const Operand& x, const Operand& scatter_indices, const Operand& updates,
              const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
/// The same, with the updates added, multiplied, or the lesser or greater kept.
Array scatter_add(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
Array scatter_mul(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
Array scatter_min(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
Array scatter_max(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});

// ---- Order.

struct SortKeyOptions {
  std::int64_t dimension = -1;
  std::int64_t num_keys = 1;
};
/// All operands, which have one shape, in the ascending order of the first num_keys of them; equal ones stay put.
std::vector<Array> sort(const std::vector<Array>& operands, const SortKeyOptions& options = {},
                        SourceLocation where = SourceLocation::current());
/// The k greatest elements along an axis in descending order, NaN first, and their positions, i32.
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

// ---- Cumulative reductions: of the elements up to each along `axis`, or from it on. Dtypes stay.

Array cumsum(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cumprod(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cummax(const Operand& x, std::int64_t axis = 0, bool reverse = false);
Array cummin(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// log(cumsum(exp(x))) without overflow, of floats.
Array cumlogsumexp(const Operand& x, std::int64_t axis = 0, bool reverse = false);

}  // namespace lax
}  // namespace shoal
