// What derivatives keep of a function, and what they compute again: checkpoint, its policies, names for values, and the
// list of what is kept.
//
// A derivative in reverse needs values of the function, its residuals. Outside of checkpoints it keeps all that it
// needs. Of a checkpoint it keeps the arguments, and what a policy says of the values inside; others are computed
// again, in one region with the backward pass. Policies go for the insides of jitted functions, loops, branches and
// manual regions, too: of loops, stacks are kept. What is in several checkpoints is kept where all of them say so.
//
// @param f The function.
// @param args Its arguments.
// @param names The names, as of checkpoint_name.
// @param offload_dst The memory in which it waits.
// @param is_saved Whether the value is kept.
// @param memory The memory in which it waits.
// @param function The function that says of each operation what is kept.
// @param rules The rules.
// @param op The operation.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/device.h"
#include "shoal/tree.h"

namespace shoal {

/// An operation inside a checkpoint, of which a function that is a policy is asked.
struct CheckpointedOp {
  std::string op;                          ///< "dot_general", "tanh", "checkpoint_name".
  std::string name;                        ///< That checkpoint_name gives; empty for others.
  std::vector<ShapeDtypeStruct> operands;  ///< Their types.
  /// The attributes of it that are lists of numbers, as "lhs_batch" of a dot_general.
  std::vector<std::pair<std::string, Dims>> dims;
  bool is_batched = false;  ///< Whether it is a product with batch dimensions.
};

/// What such a function says: false, true, or a memory that the value is kept in.
struct SaveDecision {
  SaveDecision(bool is_saved) : saved(is_saved) {}
  SaveDecision(MemoryKind memory) : saved(true), memory_kind(memory) {}

  bool saved;
  std::optional<MemoryKind> memory_kind = {};
};

/// What a derivative keeps of the values inside a checkpoint.
class CheckpointPolicy {
 public:
  using Function = std::function<SaveDecision(const CheckpointedOp&)>;

  /// Nothing.
  CheckpointPolicy() = default;
  /// What a function says. It is asked when the checkpoint is traced, once for each operation that stands in it then.
  CheckpointPolicy(Function function) : function_(std::move(function)) {}
  /// What rules say, of the form that graphs show as `saves`.
  static CheckpointPolicy of_rules(std::vector<std::string> rules);

  const std::vector<std::string>& rules() const { return rules_; }
  const Function& function() const { return function_; }
  /// What it says of an operation: for functions that ask other policies. Throws InvalidArgument for one with a budget.
  SaveDecision decide(const CheckpointedOp& op, SourceLocation where = SourceLocation::current()) const;
  /// Whether it is one that keeps everything, as if there were no checkpoint.
  bool saves_everything() const;

 private:
  std::vector<std::string> rules_;
  Function function_;
};

/// The policies that JAX has. Names are those of checkpoint_name. Several names of a value are as good as each of them.
namespace checkpoint_policies {

/// As without a checkpoint.
CheckpointPolicy everything_saveable();
/// What a checkpoint without a policy has.
CheckpointPolicy nothing_saveable();
/// The results of dot_general and of convolutions.
CheckpointPolicy dots_saveable();
/// Those of dot_general without batch dimensions.
CheckpointPolicy dots_with_no_batch_dims_saveable();
/// What these operations give, as "tanh".
/// @param ops Names of operations.
CheckpointPolicy save_results_of(const std::vector<std::string>& ops);

/// What saves most work, as far as it takes no more than `bytes` together: those values for which least has to be
/// computed again, in bytes that could be moved in that time. Bytes are those of whole arrays, inside shard_map of a
/// shard, and of a loop those of the stacks; arguments do not count. Throws InvalidArgument for a negative number.
/// @param bytes The number of bytes.
CheckpointPolicy budget(std::int64_t bytes, SourceLocation where = SourceLocation::current());

/// What has one of these names.
CheckpointPolicy save_only_these_names(const std::vector<std::string>& names);
/// What has a name that is none of these.
CheckpointPolicy save_any_names_but_these(const std::vector<std::string>& names);
/// All but what has one of these names.
CheckpointPolicy save_anything_except_these_names(const std::vector<std::string>& names);
/// What either policy keeps. Throws InvalidArgument if one of them keeps something in another memory, or is a function.
/// @param one A policy.
/// @param other Another one.
CheckpointPolicy save_from_both_policies(const CheckpointPolicy& one, const CheckpointPolicy& other,
                                         SourceLocation where = SourceLocation::current());

struct SaveAndOffload {
  std::vector<std::string> names_which_can_be_saved = {};      ///< What is kept where it is.
  std::vector<std::string> names_which_can_be_offloaded = {};  ///< What is kept in the other memory.
  MemoryKind offload_dst = kPinnedHostMemory;
};
/// What has one of these names, where it is or in another memory, from which it comes when it is used. Throws
/// InvalidArgument for a name in both lists.
CheckpointPolicy save_and_offload_only_these_names(const SaveAndOffload& options,
                                                   SourceLocation where = SourceLocation::current());
/// The results of dot_general without batch dimensions, in another memory.
CheckpointPolicy offload_dot_with_no_batch_dims(MemoryKind offload_dst = kPinnedHostMemory);

}  // namespace checkpoint_policies

/// x, with a name for the policies of checkpoints. It names the value itself: who else uses that uses what is kept.
/// @param x An array or a number.
/// @param name The name.
/// @return An array with the elements of x.
Array checkpoint_name(const Operand& x, const std::string& name);

struct CheckpointOptions {
  CheckpointPolicy policy = {};  ///< What is kept; default: the arguments alone.
};

/// Something that a derivative keeps.
struct SavedResidual {
  ShapeDtypeStruct type = {};
  MemoryKind memory_kind = {};
  std::int64_t bytes = 0;
  std::string argument = {};  ///< The path of the argument that it is; empty if it is none.
  std::string op = {};        ///< What made it; empty for arguments, and for constants, such as captured arrays.
  std::string name = {};      ///< What checkpoint_name called it.
  SourceLocation where = {};  ///< The line that made it, or gave it the name.
};

/// "f32[4,3] named 'h' from model.cc:17"
/// @param residual What is kept.
std::string to_string(const SavedResidual& residual);
std::ostream& operator<<(std::ostream& out, const SavedResidual& residual);
/// A line for each.
std::ostream& operator<<(std::ostream& out, const std::vector<SavedResidual>& residuals);

namespace detail {

std::vector<Array> call_checkpoint(const CheckpointPolicy& policy, const CallArguments& arguments,
                                   const TracedFunction& function, std::any& exemplar, SourceLocation where);
/// `argument_names` are those of the leaves; paths, if there are none.
std::vector<SavedResidual> call_saved_residuals(const CallArguments& arguments, const TracedFunction& function,
                                                std::vector<std::string> argument_names, SourceLocation where);

}  // namespace detail

/// f, of which a derivative keeps the arguments and what the policy says, and computes what else it needs again.
/// Otherwise it is f in jit.
/// @return A function like f.
template <class F>
auto checkpoint(F f, CheckpointOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return [f = std::move(f), options = std::move(options), where](const auto&... args) {
    const std::tuple<detail::ArgumentOf<std::decay_t<decltype(args)>>...> kept(detail::keep(args)...);
    using R = detail::ResultOf<F, std::decay_t<decltype(kept)>>;
    std::any exemplar;
    std::vector<Array> leaves = detail::call_checkpoint(options.policy, detail::flatten_arguments(kept),
                                                        detail::on_leaves<R>(f, kept), exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  };
}

/// What the derivative of f at arguments like these keeps, arguments first. Types can stand for arrays: see
/// ShapeDtypeStruct. f is traced, and nothing is computed.
template <class F, class... Args>
std::vector<SavedResidual> saved_residuals(F f, const Args&... args) {
  const std::tuple<detail::ArgumentOf<Args>...> kept(detail::keep(args)...);
  using R = detail::ResultOf<F, std::decay_t<decltype(kept)>>;
  return detail::call_saved_residuals(detail::flatten_arguments(kept), detail::on_leaves<R>(f, kept), {}, {});
}

}  // namespace shoal
