// Scalar bodies: the meaning of an elementwise op, as a small graph of core scalar operations.
//
// Every tier (the reference interpreter, the SIMD interpreter, the LLVM emitter) evaluates the same nodes in the same
// order, rounding each to its dtype, and so computes the same bits; NaNs count as equal, whatever their payload.
// What each core operation means is said here and implemented in core_ops.h.
//
// A body is built by formulas over `Expr`, a handle to a node of a Builder. Equal nodes are shared. An Expr must not
// outlive its Builder; a Builder belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shoal/dtype.h"

namespace shoal::scalar {

/// The core operations. Operands have the dtype of the result unless said otherwise.
///
/// Integers wrap around (two's complement); f16 and bf16 compute in f32 and round after each operation. Complex values
/// occur only as inputs, as operands of real and imag, and as make_complex: everything else is spelled out on parts.
enum class Core : std::uint8_t {
  kInput,     ///< The input with number `bits`.
  kConstant,  ///< The value whose representation is the low bytes of `bits`; any dtype but complex.

  kAdd,
  kSub,
  kMul,
  kDiv,   ///< Integers truncate; signed x/0 is -1, unsigned x/0 is all ones, INT_MIN/-1 is INT_MIN.
  kRem,   ///< What truncating division leaves, with the sign of the dividend; integer x%0 is x, INT_MIN%-1 is 0.
  kNeg,   ///< Of floats, flips the sign bit.
  kAbs,   ///< Of floats, clears the sign bit; |INT_MIN| is INT_MIN.
  kMin,   ///< Also of bool. A NaN operand gives NaN; -0 is less than +0 (IEEE 754-2019 minimum).
  kMax,   ///< Also of bool. A NaN operand gives NaN; -0 is less than +0 (IEEE 754-2019 maximum).
  kFma,   ///< a*b + c with one rounding; floats.
  kSqrt,  ///< Floats, correctly rounded.

  kFloor,  ///< Floats.
  kRint,   ///< Floats; to the nearest integer, ties to even.
  kTrunc,  ///< Floats; towards zero.

  kLt,  ///< Bool of two operands of one dtype; false when an operand is NaN.
  kLe,  ///< Likewise.
  kEq,  ///< Likewise; -0 equals +0.

  kAnd,  ///< Bitwise on integers, logical on bool; so are the next three.
  kOr,
  kXor,
  kNot,
  kShl,     ///< Integers. A count that is negative or at least the width gives 0.
  kShr,     ///< Arithmetic for signed, logical for unsigned. Such a count gives all sign bits, or 0.
  kRotate,  ///< Integers. The bits moved to the left, those pushed out coming in again; the count modulo the width.

  kSelect,   ///< The second operand where the first, a bool, is true; otherwise the third.
  kConvert,  ///< Between real dtypes: to integers truncates, saturates at their range, and NaN gives 0; between
             ///< integers wraps; to bool is x != 0; to floats rounds once, to nearest even.
  kBitcast,  ///< The same bits as another real dtype of the same size.

  kReal,         ///< Of a complex operand.
  kImag,         ///< Of a complex operand.
  kMakeComplex,  ///< From real and imaginary part.

  // With n the integer nearest to x / (pi/2), for all finite x, f32 or f64; else 0, NaN and NaN.
  kPio2Quadrant,      ///< n modulo 4, in 0..3, as i32.
  kPio2Remainder,     ///< x - n pi/2, as f64.
  kPio2RemainderLow,  ///< What kPio2Remainder lacks of the exact remainder, as f64.

  // An iteration (`iterate`): its kCarried, which follow each other, the nodes of a trip, then a kNext for each, and a
  // kRepeat. Nodes after the kCarried up to the kRepeat are evaluated once, and again while the condition holds for
  // some element of those that are evaluated together: how many these are does not change results, as the nodes
  // themselves keep what is carried where the condition does not hold. Iterations do not hold others.
  kCarried,  ///< The operand in the first trip, then what kNext gives; real dtypes but f16 and bf16. Never shared.
  kNext,     ///< Gives the first operand, a kCarried, the value of the second. The third one is the kNext before it, if
             ///< any.
  kRepeat,   ///< Goes back where the first operand, a bool, holds. The second one is the last kNext.
  kLast,     ///< What the first operand, a kCarried, is after the second one, a kRepeat.
};

inline constexpr int kNumCores = static_cast<int>(Core::kLast) + 1;

/// "add", "make_complex", …
std::string_view name_of(Core core);

/// How many operands a node of this operation has: 0 to 3.
int arity_of(Core core);

/// One operation. Unused operands are -1; `bits` is 0 but for inputs and constants.
struct Node {
  Core core;
  Dtype dtype;
  std::array<int, 3> operands = {-1, -1, -1};
  std::uint64_t bits = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

/// A finished body: operands come before their users, every node is needed for the result.
struct Body {
  std::vector<Node> nodes;
  int num_inputs = 0;
  int result = -1;
  Dtype dtype() const { return nodes[static_cast<std::size_t>(result)].dtype; }
  friend bool operator==(const Body&, const Body&) = default;
};

/// One line per node, "%2 = add %0 %1 : f32", then "return %2". Floating constants are hexadecimal.
std::string to_string(const Body& body);

class Builder;

/// The value of a node of a Builder. Operators build new nodes; they check dtypes and throw InternalError on a
/// mismatch. A double operand becomes a constant of the other operand's dtype.
class Expr {
 public:
  Expr(Builder& builder, int id) : builder_(&builder), id_(id) {}

  Builder& builder() const { return *builder_; }
  int id() const { return id_; }
  Dtype dtype() const;

  /// A constant of this dtype. Floats round `value`; integers and bool must hold it exactly.
  Expr like(double value) const;

 private:
  Builder* builder_;
  int id_;
};

/// Collects nodes.
class Builder {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// The input with the given number. One number always has one dtype.
  Expr input(int index, Dtype dtype);
  /// A constant of a real dtype; see Expr::like.
  Expr constant(Dtype dtype, double value);
  /// A constant by its representation: the low bytes of `bits`, the others being 0.
  Expr constant_bits(Dtype dtype, std::uint64_t bits);
  /// A node without checks, shared with an equal earlier one. The functions below are the checked way.
  Expr node(const Node& node);

  /// Whether nodes belong to a trip of an iteration; `iterate` says so.
  bool iterates = false;

  const Node& at(Expr expr) const { return nodes_[static_cast<std::size_t>(expr.id())]; }

  /// The nodes that `result` needs, renumbered; the body takes `num_inputs` inputs, used or not.
  Body finish(Expr result, int num_inputs) const;

 private:
  struct HashNode {
    std::size_t operator()(const Node& node) const;
  };
  std::vector<Node> nodes_;
  std::unordered_map<Node, int, HashNode> ids_;
};

/// The values for which `goes_on` does not hold any more: `values` are replaced by what `next` makes of them while it
/// does, for each element by itself. It must come to an end for all elements, NaN included: say by a count. The dtypes
/// are real, and not f16 or bf16; what no trip changes is best computed before.
using Iterated = std::span<const Expr>;
std::vector<Expr> iterate(const std::vector<Expr>& values, const std::function<Expr(Iterated)>& goes_on,
                          const std::function<std::vector<Expr>(Iterated)>& next);

/// The body of a function of inputs with these dtypes.
Body make_body(const std::vector<Dtype>& inputs, const std::function<Expr(std::span<const Expr>)>& define);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator%(Expr a, Expr b);
Expr operator-(Expr a);
Expr abs(Expr a);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr fma(Expr a, Expr b, Expr c);
Expr sqrt(Expr a);
Expr floor(Expr a);
Expr rint(Expr a);
Expr trunc(Expr a);

Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
Expr operator!=(Expr a, Expr b);  ///< Not ==; true when an operand is NaN.

Expr operator&(Expr a, Expr b);
Expr operator|(Expr a, Expr b);
Expr operator^(Expr a, Expr b);
Expr operator~(Expr a);  ///< Also logical not.
Expr operator<<(Expr a, Expr count);
Expr operator>>(Expr a, Expr count);
Expr rotate(Expr a, Expr count);

/// Of complex values, selects both parts.
Expr select(Expr predicate, Expr if_true, Expr if_false);
/// Also of complex values: to a real dtype takes the real part, to bool is != 0, from a real dtype has imaginary part
/// 0.
Expr convert(Expr a, Dtype dtype);
Expr bitcast(Expr a, Dtype dtype);

Expr real(Expr a);
Expr imag(Expr a);
Expr make_complex(Expr re, Expr im);

Expr pio2_quadrant(Expr a);
Expr pio2_remainder(Expr a);
Expr pio2_remainder_low(Expr a);

inline Expr operator+(Expr a, double b) { return a + a.like(b); }
inline Expr operator+(double a, Expr b) { return b.like(a) + b; }
inline Expr operator-(Expr a, double b) { return a - a.like(b); }
inline Expr operator-(double a, Expr b) { return b.like(a) - b; }
inline Expr operator*(Expr a, double b) { return a * a.like(b); }
inline Expr operator*(double a, Expr b) { return b.like(a) * b; }
inline Expr operator/(Expr a, double b) { return a / a.like(b); }
inline Expr operator/(double a, Expr b) { return b.like(a) / b; }
inline Expr operator<(Expr a, double b) { return a < a.like(b); }
inline Expr operator<=(Expr a, double b) { return a <= a.like(b); }
inline Expr operator>(Expr a, double b) { return a > a.like(b); }
inline Expr operator>=(Expr a, double b) { return a >= a.like(b); }
inline Expr operator==(Expr a, double b) { return a == a.like(b); }
inline Expr operator!=(Expr a, double b) { return a != a.like(b); }
inline Expr operator&(Expr a, double b) { return a & a.like(b); }
inline Expr operator<<(Expr a, double count) { return a << a.like(count); }
inline Expr operator>>(Expr a, double count) { return a >> a.like(count); }
inline Expr rotate(Expr a, double count) { return rotate(a, a.like(count)); }
inline Expr min(Expr a, double b) { return min(a, a.like(b)); }
inline Expr max(Expr a, double b) { return max(a, a.like(b)); }
inline Expr fma(Expr a, Expr b, double c) { return fma(a, b, a.like(c)); }
inline Expr fma(Expr a, double b, Expr c) { return fma(a, a.like(b), c); }

}  // namespace shoal::scalar
