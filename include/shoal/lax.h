// The functions of jax.lax: constraints, the collectives that run inside shard_map and pmap, and movement of elements.
//
// An axis is named as the enclosing shard_map's mesh or pmap names it; several axes are taken together, the first being
// the most major. A name that is not bound throws UnboundAxisError. Where x is one array, it may also be a tree of
// arrays: the collective is then that of each.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

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

/// Lists of positions along the axes. Each is a group of devices that communicate among themselves alone, in the order
/// of the list. Together they must have every position once, and all be of one size, unless a reduction says otherwise;
/// InvalidArgument if not. None means one group of all.
using AxisIndexGroups = std::vector<std::vector<int>>;

struct GroupOptions {
  AxisIndexGroups axis_index_groups = {};
};
/// The sum over the devices along the axes; every device gets it. In a fixed balanced tree: the same bits on any layout
/// of the mesh over processes. bool counts in i32. Groups of reductions may be of different sizes; what they give
/// varies over the axes.
Array psum(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// psum divided by the number of devices.
Array pmean(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// The greatest. Throws TypeMismatch for complex numbers.
Array pmax(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// The least. Throws TypeMismatch for complex numbers.
Array pmin(const Operand& x, const AxisName& axis, const GroupOptions& options = {});

struct AllGatherOptions {
  std::int64_t axis = 0;  ///< Where the pieces go.
  bool tiled = false;     ///< Concatenate along `axis` instead of stacking in a new dimension there.
  AxisIndexGroups axis_index_groups = {};
};
/// What the devices hold, together. Its type varies over the axes, though all devices get the same.
Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});
/// The same with a type that does not vary over the axes, so that out_specs need not name them. Without groups.
Array all_gather_invariant(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});
/// The same, reduced over the axes: the cotangent of the result are summands, and that of x a psum_scatter of these.
Array all_gather_reduced(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});

struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;
  bool tiled = false;  ///< The dimension is split among the devices; otherwise its extent is their number, and it goes.
  AxisIndexGroups axis_index_groups = {};
};
/// The device's piece of psum. Throws InvalidArgument if the dimension does not divide.
Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options = {});

struct AllToAllOptions {
  std::int64_t split_axis = 0;
  std::int64_t concat_axis = 0;
  bool tiled = false;  ///< Split and concatenate; otherwise split_axis, of extent the number of devices, moves.
  AxisIndexGroups axis_index_groups = {};
};
/// Pieces of x along split_axis go to the devices in order; what a device gets is put together along concat_axis.
/// Throws InvalidArgument if split_axis does not divide.
Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options);

/// Dimension `axis` of x, whose extent is the number of devices, and the devices change places.
Array pswapaxes(const Operand& x, const AxisName& axis_name, std::int64_t axis, const GroupOptions& options = {});

/// (from, to) for each device that sends.
using Permutation = std::vector<std::pair<int, int>>;
/// Sends x from the device at `first` along the axis to that at `second`, for each pair; who receives nothing gets
/// zeros. Positions are those of axis_index(axis_name). Throws OutOfRange for other positions, and InvalidArgument for
/// one that sends or receives twice.
Array ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm);

/// The x of the device at perm[i] for the device at i. Throws InvalidArgument unless perm is a permutation of all
/// positions.
Array pshuffle(const Operand& x, const AxisName& axis_name, const std::vector<int>& perm);

/// The x of the device at `source`, for all. Throws OutOfRange if there is none.
Array pbroadcast(const Operand& x, const AxisName& axis_name, std::int64_t source);

/// What ragged_all_to_all sends. Vectors of integers of one length K = (number of devices) × (slices for each).
struct RaggedSlices {
  Operand input_offsets;   ///< The first row of each slice in the sender's operand.
  Operand send_sizes;      ///< Its number of rows.
  Operand output_offsets;  ///< Its first row in the *receiver's* output.
  Operand recv_sizes;      ///< The sizes of the slices that this device receives, in the order of their senders.
};
/// `output` with slices of rows of the devices' operands written into it: slice i of a device goes to the device at
/// i / (slices for each). Operand and output have one dtype, and equal dimensions but for the first.
/// Throws TypeMismatch and InvalidArgument for arrays that do not fit; a slice outside an array (OutOfRange) and a
/// received size other than that sent (InvalidArgument) are found when the result is read.
Array ragged_all_to_all(const Operand& operand, const Operand& output, const RaggedSlices& slices,
                        const AxisName& axis_name, const GroupOptions& options = {});

/// The device's position along the axes, i32.
Array axis_index(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// The number of devices along the axes.
std::int64_t axis_size(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// x, taken to vary over the axes.
Array pvary(const Operand& x, const AxisName& axis_name);
/// x with another type, which moves nothing. pcast(x, axes, "varying") takes an x that is the same along the axes, or
/// reduced, to vary over them; "unreduced" one that varies for summands, which psum and psum_scatter add up, or which
/// out_specs leave so; and "reduced" one that is the same for one whose cotangent is such summands. Throws
/// InvalidArgument for other words, and for an x that is something else along one of the axes.
Array pcast(const Operand& x, const AxisName& axis_name, std::string_view to);

// ---- Collectives of trees.

template <class T>
concept ArrayTree = !std::is_convertible_v<const T&, Operand> && !std::is_arithmetic_v<T>;

#define SHOAL_OF_TREE(collective, Options)                                                                  \
  template <ArrayTree T>                                                                                    \
  T collective(const T& x, const AxisName& axis_name, const Options& options,                               \
               SourceLocation where = SourceLocation::current()) {                                          \
    return tree::map([&](const Array& a) { return collective(Operand(a, where), axis_name, options); }, x); \
  }
#define SHOAL_OF_TREE_PLAIN(collective)                                                                   \
  template <ArrayTree T>                                                                                  \
  T collective(const T& x, const AxisName& axis_name, SourceLocation where = SourceLocation::current()) { \
    return tree::map([&](const Array& a) { return collective(Operand(a, where), axis_name); }, x);        \
  }
SHOAL_OF_TREE(psum, GroupOptions)
SHOAL_OF_TREE_PLAIN(psum)
SHOAL_OF_TREE(pmean, GroupOptions)
SHOAL_OF_TREE_PLAIN(pmean)
SHOAL_OF_TREE(pmax, GroupOptions)
SHOAL_OF_TREE_PLAIN(pmax)
SHOAL_OF_TREE(pmin, GroupOptions)
SHOAL_OF_TREE_PLAIN(pmin)
SHOAL_OF_TREE(all_gather, AllGatherOptions)
SHOAL_OF_TREE_PLAIN(all_gather)
SHOAL_OF_TREE(all_gather_reduced, AllGatherOptions)
SHOAL_OF_TREE_PLAIN(all_gather_reduced)
SHOAL_OF_TREE(all_gather_invariant, AllGatherOptions)
SHOAL_OF_TREE_PLAIN(all_gather_invariant)
SHOAL_OF_TREE(psum_scatter, PsumScatterOptions)
SHOAL_OF_TREE_PLAIN(psum_scatter)
SHOAL_OF_TREE(all_to_all, AllToAllOptions)
SHOAL_OF_TREE(ppermute, Permutation)
SHOAL_OF_TREE(pshuffle, std::vector<int>)
SHOAL_OF_TREE(pbroadcast, std::int64_t)
SHOAL_OF_TREE_PLAIN(pvary)
#undef SHOAL_OF_TREE
#undef SHOAL_OF_TREE_PLAIN

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
/// out_sharding: see matmul.
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& broadcast_dimensions,
                       const OutSharding& out_sharding = {});
Array reshape(const Operand& x, const Shape& new_sizes, const OutSharding& out_sharding = {});
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
/// The result has the batch dimensions, then those of x alone, then those of y alone. `preferred_element_type`, which
/// must be of the same kind as the operands' dtype and not smaller, is what products are added in, and the result's
/// dtype. Throws TypeMismatch for another one. `out_sharding` is that of matmul.
Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims,
                  std::optional<Dtype> preferred_element_type = {}, const OutSharding& out_sharding = {});

/// The complex numbers with these parts: c64 of f32, c128 of f64. Throws TypeMismatch for f16 and bf16.
Array complex(const Operand& re, const Operand& im);

/// x, but at least `low` and at most `high`, which are scalars or have the shape of x.
Array clamp(const Operand& low, const Operand& x, const Operand& high);

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
