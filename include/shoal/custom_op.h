// Ops of users: how an op is split over devices is a rule that its author writes, and what it computes a function of
// shards.
//
//   auto normalise = custom_op({.name = "normalise", .rule = "... d -> ... d need_replication={d}"},
//                              [](Array x) { return x / x.sum({.axis = -1, .keepdims = true}); });
//   Array y = normalise(x);  // Moves nothing where x is split along its leading dimensions.
//
// The rule names the dimensions of each operand and, after "->", of each result. Dimensions of one name belong
// together: if devices split it in one place, they do so everywhere. The grammar is that of jax's custom_partitioning,
// with what is said of factors behind the results:
//   "i j, j k -> i k reduction={j}"          Shards that hold part of j give partial sums; Shoal adds them up.
//   "... d -> ... d need_replication={d}"    Every device needs d whole; "..." are any leading dimensions.
//   "i j -> i j permutation={j}"             Whole while the op runs, but split before and after.
//   "(i j) -> i j {i=4}"                     A dimension that is a product, major to minor, with the sizes of factors
//                                            that are no dimension by themselves.
// A factor stands in every result, but for those that are reduced or needed whole.
//
// @param impl What the library holds.
//
// @param f The function of the shards.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/jit.h"
#include "shoal/tree.h"

namespace shoal {

/// The types of an op's results, from those of its operands.
using ResultTypes = std::function<std::vector<ShapeDtypeStruct>(const std::vector<ShapeDtypeStruct>& operands)>;

struct CustomOpOptions {
  std::string name;  ///< In messages and in the text of graphs.
  std::string rule;  ///< How dimensions of operands and results belong together, which says how both may be split.
  /// Of a custom_op it may be left out: its results are then those of its function.
  ResultTypes results = {};
};

namespace detail {

class CustomOpImpl;

std::shared_ptr<CustomOpImpl> make_custom_op(CustomOpOptions options, SourceLocation where);
/// Applies the op to the arguments. `make_function` gives the function on leaves, to be kept for calls with the same
/// trees and static arguments.
std::vector<Array> call_custom_op(CustomOpImpl& op, const CallArguments& arguments,
                                  const std::function<TracedFunction()>& make_function, std::any& exemplar,
                                  MaybeLocation where);

}  // namespace detail

/// An op of the user; made by custom_op(). It is called as its function is, anywhere: outside jit, under it and inside
/// shard_map. Copies are one op.
template <class F>
class CustomOp : public detail::Callable<CustomOp<F>, detail::ParametersOf<F>> {
 public:
  using CallParameters = detail::ParametersOf<F>;

  CustomOp(F f, CustomOpOptions options, SourceLocation where)
      : f_(std::make_shared<F>(std::move(f))), impl_(detail::make_custom_op(std::move(options), where)) {}

 private:
  friend class detail::Callable<CustomOp<F>, CallParameters>;

  template <class Kept>
  auto call(detail::MaybeLocation where, const Kept& arguments) const {
    using R = detail::ResultOf<F, Kept>;
    // The function outlives the call in the graphs that have the op; the arrays of this call need not.
    const auto make_function = [&] {
      const Kept empty = tree::map([](const Array&) { return Array(); }, arguments);
      return detail::TracedFunction([f = f_, on_leaves = detail::on_leaves<R>(*f_, empty)](
                                        const std::vector<Array>& leaves) { return on_leaves(leaves); });
    };
    std::any exemplar;
    const std::vector<Array> leaves =
        detail::call_custom_op(*impl_, detail::flatten_arguments(arguments), make_function, exemplar, where);
    return detail::unflatten<R>(exemplar, leaves);
  }

  std::shared_ptr<F> f_;
  std::shared_ptr<detail::CustomOpImpl> impl_;
};

/// An op that applies `f` to the shards of its operands, split as the rule says and evenly. `f` is traced for shards of
/// each shape, and must depend on its arguments alone; it sees one device, without axes; debug::print in it prints each
/// shard, if the op's results are used. Applied to whole arrays it must give the whole results: that is what the op
/// means.
///
/// Throws InvalidArgument for a rule that is none. Calls throw InvalidArgument for operands and results that do not fit
/// the rule, for `f` that uses other arrays or says how values lie, and TypeMismatch if `f` gives other types than
/// `results` says, or, on shards, than follow from the rule. Results that are reduced cannot be f16 or bf16, as partial
/// sums would be rounded.
/// @param f The function of the shards.
template <class F>
CustomOp<F> custom_op(CustomOpOptions options, F f, SourceLocation where = SourceLocation::current()) {
  return CustomOp<F>(std::move(f), std::move(options), where);
}

/// The elements of one shard, row-major.
template <class Byte>
struct ShardView {
  Dtype dtype;
  Shape shape;
  Byte* data;

  /// As C++ numbers. Throws TypeMismatch if E is not the type of the dtype.
  template <Element E>
  auto elements() const {
    using T = std::conditional_t<std::is_const_v<Byte>, const E, E>;
    if (dtype_of<E>() != dtype) {
      throw TypeMismatch("custom_kernel: a shard of " + std::string(name_of(dtype)) + " is read as " +
                         std::string(name_of(dtype_of<E>())));
    }
    return std::span<T>(reinterpret_cast<T*>(data), static_cast<std::size_t>(num_elements(shape)));
  }
};
using OperandView = ShardView<const std::byte>;
using ResultView = ShardView<std::byte>;

/// Writes every element of the results. It is called on any thread, for several shards at once. A shard may be smaller
/// than others, or empty, where a dimension is split unevenly.
using KernelFunction =
    std::function<void(const std::vector<OperandView>& operands, const std::vector<ResultView>& results)>;

/// An op of the user with a kernel; made by custom_kernel().
class CustomKernel {
 public:
  CustomKernel(std::shared_ptr<detail::CustomOpImpl> impl) : impl_(std::move(impl)) {}
  std::vector<Array> operator()(const std::vector<Operand>& operands,
                                SourceLocation where = SourceLocation::current()) const;

 private:
  std::shared_ptr<detail::CustomOpImpl> impl_;
};

/// An op that calls `kernel` on the shards of its operands, split as the rule says. `results` gives the types of whole
/// results. What the kernel throws is thrown where a result is read. Throws as custom_op, and InvalidArgument if
/// `results` is left out.
/// @param kernel What computes a shard.
CustomKernel custom_kernel(CustomOpOptions options, KernelFunction kernel,
                           SourceLocation where = SourceLocation::current());

}  // namespace shoal
