// The elementwise family: one row of shoal/elementwise.def is one op.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ir/op.h"
#include "ops/scalar/expr.h"
#include "ops/terms.h"

namespace shoal {

/// Which dtypes an op takes. Bits.
enum Kinds : std::uint8_t {
  kBoolKind = 1,
  kIntegerKind = 2,
  kFloatKind = 4,
  kComplexKind = 8,
  kFromBool = 16,  ///< bool operands become i32.
  kWordKind = 32,  ///< u64 alone of the integers.
  kKeyKind = 64,
  kAny = kBoolKind | kIntegerKind | kFloatKind | kComplexKind,
  kAnyOrKey = kAny | kKeyKind,
  kNumbers = kIntegerKind | kFloatKind | kComplexKind,
  kFractions = kFloatKind | kComplexKind,
  kReals = kIntegerKind | kFloatKind,
  kCounts = kReals | kFromBool,
  kArithmetic = kNumbers | kFromBool,
  kIntegers = kIntegerKind | kFromBool,
  kOrdered = kBoolKind | kIntegerKind | kFloatKind,
  kBits = kBoolKind | kIntegerKind,
  kFloats = kFloatKind,
};

Kinds kind_of(Dtype dtype);

enum class ResultDtype : std::uint8_t {
  kSame,  ///< That of the (last) operand.
  kBool,
  kReal,     ///< The real dtype of a complex operand.
  kComplex,  ///< The complex dtype of a real operand.
  kAttr,     ///< The attribute `dtype`.
};

/// What an elementwise op does to a tangent t of an operand, or to a cotangent t of its result: a term of t, of the
/// operands, and of the result. Nothing is a zero.
struct DerivativeContext {
  Builder& build;
  Primals& primals;
  Dtype operand_dtype;  ///< Of the operand that a cotangent is for.

  terms::Lazy operand(std::size_t i) const { return {build, primals, i}; }
  terms::Lazy result() const { return {build, primals, 0, true}; }
};
using DerivativeRule = std::optional<terms::Term> (*)(const DerivativeContext& at, terms::Term t);

/// What rows of the table say only where it differs from the defaults. A new column is a member here, a value in the
/// rows that have one, and whoever reads it.
struct ElementwiseColumns {
  Linearity linear = {};
  /// As OpDef::simplify.
  std::optional<ValueId> (*simplify)(Eqn& eqn, const Makers& makers) = nullptr;
  bool stays_weak = true;  ///< Whether the result is weak if all operands are.
  /// As OpDef::is_flat.
  bool is_flat = false;
  /// For each operand, the tangent of the result; none where the op is linear in the operand.
  std::array<DerivativeRule, 4> tangents = {};
  /// For each operand that the op is linear in, its cotangent.
  std::array<DerivativeRule, 4> cotangents = {};
};

struct ElementwiseRow {
  Kinds takes;
  ResultDtype result;
  /// The meaning: an expression of the operands. `result` is the result's dtype.
  scalar::Expr (*body)(std::span<const scalar::Expr> operands, Dtype result);
  ElementwiseColumns columns = {};
};

/// The scalar body of an elementwise op for operands of these dtypes. Made once and kept.
const scalar::Body& body_of(const OpDef& op, std::span<const Dtype> operands, Dtype result);

}  // namespace shoal
