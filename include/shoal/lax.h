// The functions of jax.lax: constraints, the collectives that run inside shard_map and pmap, and movement of elements.
//
// An axis is named as the enclosing shard_map's mesh or pmap names it; several axes are taken together, the first being
// the most major. Where x is one array, it may also be a tree of
// arrays: the collective is then applied to each of them.
//
// @param x An array or a number.
// @param axis_name The name of an axis, or several names.
// @param out_sharding How Explicit axes split the result, where the operand leaves that open; see matmul.
// @param axis_index_groups Lists of positions along the axes: devices communicate with those of their own list alone.
//   Without lists all devices are one group.
//
// @param name The name of an axis.
// @param names The names of several.
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

/// x with the sharding `sharding`; the compiler chooses for `unconstrained` entries. Outside jit, x is moved to it.
/// Throws InvalidArgument for a spec that does not fit x.
/// @param x The array.
/// @param sharding How it shall lie.
/// @return An array with the elements of x.
Array with_sharding_constraint(const Operand& x, const NamedSharding& sharding);

namespace lax {

using shoal::with_sharding_constraint;

// ---- Collectives. Throws UnboundAxisError for a name that no enclosing shard_map or pmap has.

/// Lists of positions along the axes. Each list is a group of devices that communicate only with each other, in the
/// order of the list. Every position must occur once, and all groups must have one size unless a reduction says
/// otherwise; throws InvalidArgument if not. Without lists all devices are one group.
using AxisIndexGroups = std::vector<std::vector<int>>;

struct GroupOptions {
  AxisIndexGroups axis_index_groups = {};
};
/// The sum over the devices along the axes, on every device. It is computed in a fixed balanced tree: bits do not
/// depend on the layout of the mesh over processes. bool is summed as i32. Groups of reductions may differ in size;
/// results of groups vary over the axes.
/// @param x An array or a number, of the same shape on all devices.
/// @param axis The axes over whose devices the sum goes.
/// @return An array of the shape and dtype of x, the same on all devices of the axes.
Array psum(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// psum divided by the number of devices.
/// @param axis The axes over whose devices the mean goes.
/// @return As psum; of integers a float.
Array pmean(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// The maximum over the devices along the axes, as psum. Throws TypeMismatch for complex numbers.
/// @param axis The axes over whose devices the maximum goes.
/// @return As psum.
Array pmax(const Operand& x, const AxisName& axis, const GroupOptions& options = {});
/// The minimum, likewise. Throws TypeMismatch for complex numbers.
/// @param axis The axes over whose devices the minimum goes.
/// @return As psum.
Array pmin(const Operand& x, const AxisName& axis, const GroupOptions& options = {});

struct AllGatherOptions {
  std::int64_t axis = 0;  ///< The dimension along which the pieces are put.
  bool tiled = false;     ///< Concatenate along `axis` instead of stacking in a new dimension there.
  AxisIndexGroups axis_index_groups = {};
};
/// The values of all devices, stacked or concatenated along `axis`. The type of the result varies over the axes,
/// although all devices of a group hold the same data.
/// @return x has shape [..., n, ...]: with d devices [..., d, n, ...] or, if `tiled`, [..., d n, ...].
Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});
/// As all_gather, but the type of the result does not vary over the axes, so that out_specs need not name them. Throws
/// InvalidArgument for groups.
Array all_gather_invariant(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});
/// As all_gather_invariant, but the result is reduced over the axes: its cotangent consists of summands, and that of x
/// is a psum_scatter of them.
Array all_gather_reduced(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});

struct PsumScatterOptions {
  std::int64_t scatter_dimension = 0;  ///< The dimension of x that is divided among the devices.
  bool tiled = false;  ///< Split the dimension; otherwise its extent is the number of devices, and it is removed.
  AxisIndexGroups axis_index_groups = {};
};
/// The part of psum's result that belongs to this device. Throws InvalidArgument if the devices do not divide the
/// dimension.
/// @return x without that dimension or, if `tiled`, with its extent divided by the number of devices.
Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options = {});

struct AllToAllOptions {
  std::int64_t split_axis = 0;   ///< The dimension of x whose pieces are sent.
  std::int64_t concat_axis = 0;  ///< The dimension of the result along which the pieces that come are put.
  bool tiled = false;            ///< Split and concatenate; otherwise split_axis has one element per device, and moves.
  AxisIndexGroups axis_index_groups = {};
};
/// Sends the pieces of x along split_axis to the devices in order, and concatenates the pieces that each device
/// receives along concat_axis, or stacks them there if not `tiled`. Throws InvalidArgument if the devices do not divide
/// split_axis.
Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options);

/// Exchanges dimension `axis` of x, whose extent is the number of devices, with the dimension that the devices form.
/// @param axis The dimension of x.
Array pswapaxes(const Operand& x, const AxisName& axis_name, std::int64_t axis, const GroupOptions& options = {});

/// (from, to) for each device that sends.
using Permutation = std::vector<std::pair<int, int>>;
/// For each pair, sends x from the device at position `first` along the axes to the one at `second`; devices that
/// receive nothing get zeros. Positions are those of axis_index(axis_name). Throws OutOfRange for other positions, and
/// InvalidArgument for a position that sends or receives twice.
/// @param perm Pairs (from, to) of positions along the axes.
/// @return An array of the shape and dtype of x.
Array ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm);

/// The device at position i gets the x of the device at perm[i]. Throws InvalidArgument unless perm is a permutation of
/// all positions.
/// @param perm For each position the one that its x comes from.
Array pshuffle(const Operand& x, const AxisName& axis_name, const std::vector<int>& perm);

/// All devices get the x of the device at position `source`. Throws OutOfRange if there is no such position.
/// @param source The position of the device whose x all get.
Array pbroadcast(const Operand& x, const AxisName& axis_name, std::int64_t source);

/// The slices that ragged_all_to_all sends: vectors of integers of one length K = (number of devices) × (slices for
/// each).
struct RaggedSlices {
  Operand input_offsets;   ///< The first row of each slice in the sender's operand.
  Operand send_sizes;      ///< The number of rows of each slice.
  Operand output_offsets;  ///< The first row of each slice in the *receiver's* output.
  Operand recv_sizes;      ///< The sizes of the slices that this device receives, in the order of their senders.
};
/// `output` with slices of rows of the devices' operands written into it: slice i of a device goes to the device at
/// position i / (slices for each). Operand and output have one dtype, and equal dimensions but for the first. Throws
/// TypeMismatch and InvalidArgument for arrays that do not fit. A slice outside an array (OutOfRange), and a received
/// size other than the one sent (InvalidArgument), are only found when the result is read.
/// @param operand The rows to send, along the first dimension.
/// @param output What the rows that come are written into.
/// @param slices Which rows go where.
/// @return An array of the type of `output`.
Array ragged_all_to_all(const Operand& operand, const Operand& output, const RaggedSlices& slices,
                        const AxisName& axis_name, const GroupOptions& options = {});

/// The device's position along the axes, i32.
/// @return An i32 scalar; of several axes the position in row-major order of them.
Array axis_index(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// The number of devices along the axes.
/// @return A number that is known while the function is traced.
std::int64_t axis_size(const AxisName& axis_name, SourceLocation where = SourceLocation::current());
/// x with a type that varies over the axes.
Array pvary(const Operand& x, const AxisName& axis_name);
/// x with another type; moves no data. "varying" takes a value that is the same along the axes, or reduced, as one that
/// varies over them. "unreduced" takes a varying value as summands, which psum and psum_scatter add up, or which
/// out_specs leave unreduced. "reduced" takes a value that is the same, and makes its cotangent such summands. Throws
/// InvalidArgument for other words, and for an x in another state along one of the axes.
/// @param to "varying", "unreduced" or "reduced".
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
// @param x The array.
// @param axis The dimension, from the end if negative.
// @param starts The first position along each dimension.
// @param update What is put there, of the dtype of x.

/// The elements from starts[d] up to, but not including, limits[d] along each dimension d; every strides[d]-th if
/// given.
/// @param limits The position after the last one, for each dimension.
/// @param strides The distance of positions, for each dimension; 1 when not given.
/// @return An array of the dtype of x.
/// @example lax::slice(arange(6), {1}, {5}, Dims{2})
/// @python lax.slice(jnp.arange(6), [1], [5], [2])
///   [1 3]
Array slice(const Operand& x, const Dims& starts, const Dims& limits, const std::optional<Dims>& strides = {});
/// The same along one dimension; negative bounds count from the end.
/// @param start The first position; none: the beginning.
/// @param limit The position after the last one; none: the end.
/// @param stride The distance of positions.
/// @example lax::slice_in_dim(arange(6), 1, 4)
///   [1 2 3]
Array slice_in_dim(const Operand& x, Bound start, Bound limit, std::int64_t stride = 1, std::int64_t axis = 0);

/// The window with extents `sizes` at the given starting positions: integer scalars, one for each dimension, counted
/// from the end if negative. A window that would not fit is moved to the nearest place where it does.
/// @param sizes The extents of the result.
/// @return An array of these extents, of the dtype of x.
/// @example lax::dynamic_slice(arange(6), {4}, {3})
///   [3 4 5]
Array dynamic_slice(const Operand& x, const Operands& starts, const Dims& sizes);
/// dynamic_slice along one dimension, the others whole.
/// @param start The first position: an integer scalar, from the end if negative.
/// @param size The extent of the result along the dimension.
/// @example lax::dynamic_slice_in_dim(arange(6), 2, 3)
///   [2 3 4]
Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, std::int64_t axis = 0);
/// The part of an array at one position of a dimension; the nearest one for a position outside.
/// @param index The position: an integer scalar, from the end if negative.
/// @param keepdims Whether the dimension stays, with extent 1.
/// @example lax::dynamic_index_in_dim(arange(6), 2, 0, false)
///   2
Array dynamic_index_in_dim(const Operand& x, const Operand& index, std::int64_t axis = 0, bool keepdims = true);
/// x with `update`, of its dtype and rank, in place of the window that begins at `starts`, as in dynamic_slice.
/// @return A copy of x.
/// @example lax::dynamic_update_slice(zeros({4}), ones({2}), {1})
///   [0. 1. 1. 0.]
Array dynamic_update_slice(const Operand& x, const Operand& update, const Operands& starts);
/// dynamic_update_slice along one dimension, from the beginning of the others.
/// @param start The first position: an integer scalar, from the end if negative.
/// @return A copy of x.
Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start, std::int64_t axis);
/// As dynamic_update_slice_in_dim, for an update that lacks the dimension, or has extent 1 there.
/// @param index The position: an integer scalar, from the end if negative.
/// @return A copy of x.
Array dynamic_update_index_in_dim(const Operand& x, const Operand& update, const Operand& index, std::int64_t axis);

/// The number of elements that are added to one dimension: at its ends (negative: removed), and between its elements.
struct PaddingConfig {
  std::int64_t low = 0;       ///< How many come before the first element.
  std::int64_t high = 0;      ///< How many come after the last one.
  std::int64_t interior = 0;  ///< How many come between two neighbours.
};
/// The array with more elements at the ends of dimensions, and between its elements; negative numbers at the ends
/// remove some. Throws InvalidArgument for another number of entries than dimensions, and for a negative number between
/// elements.
/// @param padding_value What the new elements are: a scalar of the dtype of x.
/// @param padding_config For each dimension how many elements are added.
/// @return An array of the dtype of x.
Array pad(const Operand& x, const Operand& padding_value, const std::vector<PaddingConfig>& padding_config);
/// The order of elements reversed along dimensions.
/// @param dimensions The dimensions, each once.
/// @example lax::rev(arange(3), {0})
///   [2 1 0]
Array rev(const Operand& x, const Dims& dimensions);
/// The arrays, of one dtype, joined along a dimension. Throws InvalidArgument unless all other extents are equal.
/// @param arrays The arrays to join.
/// @param dimension The dimension.
/// @return An array whose extent along the dimension is the sum of theirs.
Array concatenate(const Operands& arrays, std::int64_t dimension);
/// The value at x of the polynomial with these coefficients, the one without x first, by the rule of Horner. The
/// coefficients are broadcast with x. Throws InvalidArgument where there are none.
/// @param x An array or a number.
/// @param coefficients Arrays or numbers, the one without x first.
/// @return An array of the shape to which all broadcast.
/// @example lax::polynomial(2.0f, {1.0f, 0.0f, 3.0f})
///   13.0
Array polynomial(const Operand& x, const Operands& coefficients);
/// x broadcast to `shape`: dimension i of x becomes dimension broadcast_dimensions[i]. out_sharding: see matmul.
/// @param shape The extents of the result.
/// @param broadcast_dimensions For each dimension of x the one of the result that it becomes.
/// @example lax::broadcast_in_dim(array({1, 2}), {2, 2}, {0})
///   [[1 1]
///    [2 2]]
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& broadcast_dimensions,
                       const OutSharding& out_sharding = {});
/// The elements, row-major, in another shape. Throws InvalidArgument if the number of elements is another one.
/// @param new_sizes The extents of the result.
Array reshape(const Operand& x, const Shape& new_sizes, const OutSharding& out_sharding = {});
/// The dimensions in another order.
/// @param permutation For each dimension of the result, the one of x that it is.
Array transpose(const Operand& x, const Dims& permutation);
/// 0, 1, 2, …, size - 1. Throws InvalidArgument if the last does not fit the dtype.
/// @param dtype The dtype of the result.
/// @param size How many numbers.
/// @example lax::iota(float32, 4)
///   [0. 1. 2. 3.]
Array iota(Dtype dtype, std::int64_t size, SourceLocation where = SourceLocation::current());
/// The same along one dimension of an array of this shape.
/// @param dtype The dtype of the result.
/// @param shape The extents of the result.
/// @param dimension The dimension along which the numbers rise.
/// @example lax::broadcasted_iota(int32, {2, 3}, 1)
///   [[0 1 2]
///    [0 1 2]]
Array broadcasted_iota(Dtype dtype, const Shape& shape, std::int64_t dimension,
                       SourceLocation where = SourceLocation::current());
/// The same bytes as elements of another dtype. If that is smaller, the parts of an element become a new last
/// dimension; if it is larger, the elements along the last dimension become one. bool and complex numbers have no other
/// reading.
/// @param new_dtype The dtype of the result.
/// @example lax::bitcast_convert_type(array({1.0f}), uint32)
///   [1065353216]
Array bitcast_convert_type(const Operand& x, Dtype new_dtype);

// ---- Contractions.
// @param x The operand on the left.
// @param y The one on the right, of the same dtype.

struct DotDimensionNumbers {
  Dims lhs_contracting = {};
  Dims rhs_contracting = {};
  Dims lhs_batch = {};
  Dims rhs_batch = {};
};
/// The result has the batch dimensions, then the dimensions that only x has, then those that only y has. Products are
/// added in `preferred_element_type`, which is also the dtype of the result; it must be of the same kind as the
/// operands' dtype and not smaller. Throws TypeMismatch for another one. `out_sharding` is that of matmul.
/// @param dims Which dimensions are summed over (contracting), and which go through together (batch).
/// @param preferred_element_type The dtype in which products are added; default: that of the operands.
Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims,
                  std::optional<Dtype> preferred_element_type = {}, const OutSharding& out_sharding = {});

/// The complex numbers with these parts: c64 of f32, c128 of f64. Throws TypeMismatch for f16 and bf16.
/// @param re The real parts.
/// @param im The imaginary parts, of the same shape and dtype.
/// @example lax::complex(array({1.0f}), array({2.0f}))
///   [1.+2.j]
Array complex(const Operand& re, const Operand& im);

/// x, limited to the range from `low` to `high`, which are scalars or have the shape of x.
/// @param low The least value of the result.
/// @param x The array.
/// @param high The greatest value of the result.
/// @example lax::clamp(0, array({-1, 2, 9}), 5)
///   [0 2 5]
Array clamp(const Operand& low, const Operand& x, const Operand& high);

// ---- Windows of an array at starting positions, as XLA describes them.
// @param x The array.
// @param start_indices Integers; along the last dimension the components of an index.
// @param scatter_indices Integers; along the last dimension the components of an index.
// @param dims Which dimensions belong to windows, and which to indices.
// @param updates What each window is updated with.

struct GatherDimensionNumbers {
  Dims offset_dims = {};           ///< Dimensions of the result that belong to a window.
  Dims collapsed_slice_dims = {};  ///< Dimensions of x, of window size 1, that the result lacks.
  Dims start_index_map = {};       ///< The dimension of x that each component of an index is for.
  Dims operand_batching_dims = {};
  Dims start_indices_batching_dims = {};
};
/// Windows of slice_sizes, one for each of the vectors along the last dimension of start_indices. A window that does
/// not lie in x is moved (kClip) or gives the fill value (kFill). Throws InvalidArgument for dimension numbers that do
/// not fit.
/// @param slice_sizes The extents of a window, for each dimension of x.
Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& dims,
             const Dims& slice_sizes, const GetOptions& options = {.mode = IndexMode::kFill});

struct ScatterDimensionNumbers {
  Dims update_window_dims = {};            ///< Dimensions of the updates that belong to a window.
  Dims inserted_window_dims = {};          ///< Dimensions of x, of window size 1, that the updates lack.
  Dims scatter_dims_to_operand_dims = {};  ///< The dimension of x that each component of an index is for.
  Dims operand_batching_dims = {};
  Dims scatter_indices_batching_dims = {};
};
/// x with windows replaced by the updates. A window that does not lie in x is moved (kClip) or dropped (kDrop). Throws
/// InvalidArgument for dimension numbers that do not fit, TypeMismatch for updates that x's dtype cannot hold, and
/// Unsupported for windows that take a part of a dimension without starting positions.
/// @return A copy of x.
Array scatter(const Operand& x, const Operand& scatter_indices, const Operand& updates,
              const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
/// As scatter, but updates are added to the elements.
/// @return A copy of x.
Array scatter_add(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
/// As scatter, but elements are multiplied with updates.
/// @return A copy of x.
Array scatter_mul(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
/// As scatter, but the lesser of element and update is kept.
/// @return A copy of x.
Array scatter_min(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});
/// As scatter, but the greater of element and update is kept.
/// @return A copy of x.
Array scatter_max(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options = {});

// ---- Order.
// @param operands Arrays of one shape.

struct SortKeyOptions {
  std::int64_t dimension = -1;  ///< The dimension that is sorted, from the end if negative.
  std::int64_t num_keys = 1;    ///< How many operands count for the order.
};
/// All operands, which have one shape, sorted in ascending order of the first num_keys of them. The sort is stable.
std::vector<Array> sort(const std::vector<Array>& operands, const SortKeyOptions& options = {},
                        SourceLocation where = SourceLocation::current());
/// The k greatest elements along an axis in descending order, NaN first, and their positions, i32.
/// @param x The array.
/// @param k How many.
/// @param axis The dimension, from the end if negative.
/// @return Elements and positions, with extent k along the axis.
/// @example lax::top_k(array({3, 9, 5}), 2).first
/// @python lax.top_k(jnp.array([3, 9, 5]), 2)[0]
///   [9 5]
std::pair<Array, Array> top_k(const Operand& x, std::int64_t k, std::int64_t axis = -1);

// ---- Cumulative reductions along `axis`: of the elements up to each one or, if reversed, from it on. They keep
// dtypes.
// @param x The array.
// @param axis The dimension, from the end if negative.
// @param reverse Whether to begin at the end.
// @return An array of the shape and dtype of x.

/// The sums of the elements up to each one.
/// @example lax::cumsum(array({1, 2, 3}), 0, true)
///   [6 5 3]
Array cumsum(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// The products of the elements up to each one.
Array cumprod(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// The greatest of the elements up to each one.
/// @example lax::cummax(array({1, 3, 2}))
///   [1 3 3]
Array cummax(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// The least of the elements up to each one.
Array cummin(const Operand& x, std::int64_t axis = 0, bool reverse = false);
/// log(cumsum(exp(x))) without overflow, of floats.
Array cumlogsumexp(const Operand& x, std::int64_t axis = 0, bool reverse = false);

}  // namespace lax
}  // namespace shoal
