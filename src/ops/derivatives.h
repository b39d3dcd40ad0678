// What the rules for derivatives in the records see: OpDef::jvp and OpDef::transpose.
//
// A tangent has the type of its value, a cotangent cotangent_type of that. Values that are not floats or complex
// numbers have neither. Complex numbers pair without conjugation: the cotangent c of z says that Re(c dz) is the change
// of what is differentiated, as in JAX.
#pragma once

#include <span>
#include <vector>

#include "base/misuse.h"
#include "ops/builder.h"

namespace shoal {

/// The values of the equation that is differentiated, in the graph that a rule writes to. What a rule does not ask for
/// need not be kept.
class Primals {
 public:
  virtual ValueId operand(std::size_t i) = 0;
  virtual ValueId result(std::size_t i) = 0;

 protected:
  ~Primals() = default;
};

struct JvpContext {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Type> operands;
  std::span<const Type> results;
  Primals& primals;
  std::span<const MaybeValue> tangents;  ///< Of the operands.
  Builder& build;
};

struct TransposeContext {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Type> operands;
  std::span<const Type> results;
  std::span<const MaybeValue> values;      ///< Of the operands; nothing for those whose cotangents are wanted.
  std::span<const MaybeValue> cotangents;  ///< Of the results, one of them at least.
  const AxisNames& unchecked;              ///< Axes, sorted, over which types do not say for sure what differs.
  bool strong_zeros;                       ///< As of TransposeOptions.
  Builder& build;

  bool wants(std::size_t operand) const { return !values[operand]; }
  /// The cotangent of a result, also if it is zero.
  ValueId cotangent(std::size_t result = 0) const {
    return cotangents[result] ? *cotangents[result] : build.zeros(cotangent_type(results[result]));
  }
};

/// As misuse, for the equation that a rule is asked for: with its line and not that of the call, if it is known.
template <class E, class... Args>
[[nodiscard]] E no_derivative(const Builder& build, fmt::format_string<Args...> text, Args&&... args) {
  const SourceLocation& where = build.where();
  return E(detail::said_of_call(text, fmt::make_format_args(args...)), where.line() == 0 ? Caller::line() : where);
}

/// Whether values of a dtype have tangents.
inline bool has_tangents(Dtype dtype) { return is_floating(dtype) || is_complex(dtype); }

/// The tangents of an equation's results, by its op's record. Throws Unsupported, at the line of `build`, if that has
/// no rule for an operand with a tangent.
std::vector<MaybeValue> tangents_of(const JvpContext& context);

/// The same of an op by its Linearity alone: the op itself with tangents in the place of operands, summed over those
/// that it is linear in one by one. Throws Unsupported for a tangent of an operand that it is not linear in.
std::vector<MaybeValue> linear_tangents(const JvpContext& context);

/// The cotangents of the operands that are wanted. Throws Unsupported if the record has no rule.
std::vector<MaybeValue> cotangents_of(const TransposeContext& context);

}  // namespace shoal
