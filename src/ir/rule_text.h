// Sharding rules as text, for ops of users: "i k, k j -> i j reduction={k}".
//
//   rule      = tensors "->" tensors [sizes] {kind "=" factors}
//   tensors   = tensor {"," tensor}              one for each operand, or for each result
//   tensor    = ["..." [number]] {factor | "(" factor factor {factor} ")"}
//   sizes     = "{" factor "=" number {"," factor "=" number} "}"
//   kind      = "reduction" | "need_replication" | "permutation"
//   factors   = "{" factor {"," factor} "}"
//
// Every dimension of a tensor is a factor, or several in brackets, major to minor, whose product it is; a size is given
// for factors that are no whole dimension anywhere. "..." stands for any number of leading dimensions, the same
// wherever it has the same number; they are whole wherever the op runs if some result has them not. Dimensions of the
// same factor belong together.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/sharding_rule.h"
#include "shoal/error.h"
#include "shoal/shape.h"

namespace shoal {

/// A rule that was read, for operands and results of any extents.
class RuleText {
 public:
  /// Throws InvalidArgument, beginning with `what`, for a text that is no rule: with the column for one that breaks the
  /// grammar, and otherwise with the factor that is used wrongly. Each factor stands in every result; but those of
  /// `reduction` stand in none, as shards then give partial sums, and those of `need_replication`, which are whole
  /// wherever the op runs, stand anywhere.
  RuleText(std::string_view text, std::string_view what, SourceLocation where);

  std::size_t num_operands() const { return operands_.size(); }
  std::size_t num_results() const { return results_.size(); }
  bool has_reduction() const;

  /// The rule for these shapes. Throws InvalidArgument, beginning with `what`, if they do not fit it.
  ShardingRule for_shapes(std::span<const Shape> operands, std::span<const Shape> results, std::string_view what,
                          SourceLocation where) const;

 private:
  friend class RuleParser;
  struct Tensor {
    int group = -1;                              // Of its "...", or -1.
    std::vector<std::vector<std::string>> dims;  // Names of factors.
  };
  std::vector<Tensor> operands_;
  std::vector<Tensor> results_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, FactorKind> kinds_;  // Of factors that are no pass-through.
};

}  // namespace shoal
