#include "ops/scalar/expr.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"
#include "core/dispatch.h"
#include "ops/scalar/core_ops.h"

namespace shoal::scalar {
namespace {

struct CoreInfo {
  std::string_view name;
  int arity;
};

// In the order of Core.
constexpr std::array<CoreInfo, kNumCores> kCoreInfo = {{
    {"input", 0},
    {"constant", 0},
    {"add", 2},
    {"sub", 2},
    {"mul", 2},
    {"div", 2},
    {"rem", 2},
    {"neg", 1},
    {"abs", 1},
    {"min", 2},
    {"max", 2},
    {"fma", 3},
    {"sqrt", 1},
    {"floor", 1},
    {"rint", 1},
    {"trunc", 1},
    {"lt", 2},
    {"le", 2},
    {"eq", 2},
    {"and", 2},
    {"or", 2},
    {"xor", 2},
    {"not", 1},
    {"shl", 2},
    {"shr", 2},
    {"rotate", 2},
    {"select", 3},
    {"convert", 1},
    {"bitcast", 1},
    {"real", 1},
    {"imag", 1},
    {"make_complex", 2},
    {"pio2_quadrant", 1},
    {"pio2_remainder", 1},
    {"pio2_remainder_low", 1},
    {"carried", 1},
    {"next", 3},
    {"repeat", 2},
    {"last", 2},
}};

const CoreInfo& info_of(Core core) { return kCoreInfo[static_cast<std::size_t>(core)]; }

// The representation of `value`, widened; nothing if an integer dtype cannot hold it.
std::optional<std::uint64_t> bits_of(Dtype dtype, double value) {
  return with_element_type(dtype, [value]<class T>(T) -> std::optional<std::uint64_t> {
    if constexpr (core_ops::Real<T>) {
      const T converted = core_ops::convert<T>(value);
      if (std::integral<T> && static_cast<double>(converted) != value) return std::nullopt;
      return std::bit_cast<core_ops::Bits<T>>(converted);
    } else {
      return std::nullopt;
    }
  });
}

std::string constant_text(Dtype dtype, std::uint64_t bits) {
  return with_element_type(dtype, [bits]<class T>(T) -> std::string {
    if constexpr (core_ops::Floating<T>) {
      return fmt::format("{:a}", static_cast<double>(std::bit_cast<T>(static_cast<core_ops::Bits<T>>(bits))));
    } else if constexpr (core_ops::Integer<T>) {
      return fmt::format("{}", static_cast<T>(bits));
    } else {
      return bits != 0 ? "true" : "false";
    }
  });
}

bool is_number(Dtype dtype) { return is_integer(dtype) || is_floating(dtype); }
bool is_bits(Dtype dtype) { return is_integer(dtype) || dtype == Dtype::kBool; }
bool is_real(Dtype dtype) { return !is_complex(dtype); }

std::string describe(Core core, Dtype dtype) {
  return fmt::format("{} is not defined on {}", name_of(core), short_name_of(dtype));
}

Expr make(Core core, Dtype dtype, Expr a) { return a.builder().node({core, dtype, {a.id(), -1, -1}}); }

Expr make(Core core, Dtype dtype, Expr a, Expr b) {
  SHOAL_CHECK(&a.builder() == &b.builder(), "operands belong to different builders");
  return a.builder().node({core, dtype, {a.id(), b.id(), -1}});
}

Expr make(Core core, Dtype dtype, Expr a, Expr b, Expr c) {
  SHOAL_CHECK(&a.builder() == &b.builder() && &a.builder() == &c.builder(), "operands belong to different builders");
  return a.builder().node({core, dtype, {a.id(), b.id(), c.id()}});
}

using Accepts = bool (*)(Dtype);

Expr unary(Core core, Accepts accepts, Expr a) {
  SHOAL_CHECK(accepts(a.dtype()), describe(core, a.dtype()));
  return make(core, a.dtype(), a);
}

void check_same_dtype(Core core, Expr a, Expr b) {
  SHOAL_CHECK(a.dtype() == b.dtype(),
              fmt::format("{} of {} and {}", name_of(core), short_name_of(a.dtype()), short_name_of(b.dtype())));
}

Expr binary(Core core, Accepts accepts, Expr a, Expr b) {
  check_same_dtype(core, a, b);
  SHOAL_CHECK(accepts(a.dtype()), describe(core, a.dtype()));
  return make(core, a.dtype(), a, b);
}

Expr compare(Core core, Expr a, Expr b) {
  check_same_dtype(core, a, b);
  SHOAL_CHECK(is_real(a.dtype()), describe(core, a.dtype()));
  return make(core, Dtype::kBool, a, b);
}

Expr reduce_pio2_to(Core core, Dtype dtype, Expr a) {
  SHOAL_CHECK(!a.builder().iterates,
              "no reduction modulo pi/2 in an iteration: where arguments are large it is a call");
  SHOAL_CHECK(a.dtype() == Dtype::kF32 || a.dtype() == Dtype::kF64, describe(core, a.dtype()));
  return make(core, dtype, a);
}

}  // namespace

std::string_view name_of(Core core) { return info_of(core).name; }

int arity_of(Core core) { return info_of(core).arity; }

std::string to_string(const Body& body) {
  std::string text;
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    text += fmt::format("%{} = {}", i, name_of(node.core));
    if (node.core == Core::kInput) text += fmt::format(" {}", node.bits);
    if (node.core == Core::kConstant) text += " " + constant_text(node.dtype, node.bits);
    for (const int operand : node.operands) {
      if (operand >= 0) text += fmt::format(" %{}", operand);
    }
    text += fmt::format(" : {}\n", short_name_of(node.dtype));
  }
  return text + fmt::format("return %{}\n", body.result);
}

Dtype Expr::dtype() const { return builder_->at(*this).dtype; }

Expr Expr::like(double value) const { return builder_->constant(dtype(), value); }

std::size_t Builder::HashNode::operator()(const Node& node) const {
  std::uint64_t hash = static_cast<std::uint64_t>(node.core) << 8 | static_cast<std::uint64_t>(node.dtype);
  const auto mix = [&hash](std::uint64_t value) { hash = (std::rotl(hash, 23) ^ value) * 0x9e3779b97f4a7c15; };
  for (const int operand : node.operands) mix(static_cast<std::uint64_t>(operand));
  mix(node.bits);
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}

Expr Builder::node(const Node& node) {
  if (node.core == Core::kCarried) {
    nodes_.push_back(node);
    return Expr(*this, static_cast<int>(nodes_.size()) - 1);
  }
  const auto [found, is_new] = ids_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return Expr(*this, found->second);
}

Expr Builder::input(int index, Dtype dtype) {
  SHOAL_CHECK(index >= 0, "inputs are numbered from 0");
  return node({.core = Core::kInput, .dtype = dtype, .bits = static_cast<std::uint64_t>(index)});
}

Expr Builder::constant(Dtype dtype, double value) {
  const std::optional<std::uint64_t> bits = bits_of(dtype, value);
  SHOAL_CHECK(bits.has_value(), fmt::format("{} is not a value of {}", value, short_name_of(dtype)));
  return constant_bits(dtype, *bits);
}

Expr Builder::constant_bits(Dtype dtype, std::uint64_t bits) {
  SHOAL_CHECK(is_real(dtype), "a complex constant is made of its parts");
  const int width = 8 * static_cast<int>(size_of(dtype));
  SHOAL_CHECK(width == 64 || bits >> width == 0, "the constant has more bits than its dtype");
  return node({.core = Core::kConstant, .dtype = dtype, .bits = bits});
}

Body Builder::finish(Expr result, int num_inputs) const {
  std::vector<bool> is_needed(nodes_.size(), false);
  is_needed[static_cast<std::size_t>(result.id())] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (!is_needed[i]) continue;
    for (const int operand : nodes_[i].operands) {
      if (operand >= 0) is_needed[static_cast<std::size_t>(operand)] = true;
    }
  }

  Body body;
  body.num_inputs = num_inputs;
  std::vector<int> new_ids(nodes_.size(), -1);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!is_needed[i]) continue;
    Node node = nodes_[i];
    for (int& operand : node.operands) {
      if (operand >= 0) operand = new_ids[static_cast<std::size_t>(operand)];
    }
    SHOAL_CHECK(node.core != Core::kInput || node.bits < static_cast<std::uint64_t>(num_inputs),
                fmt::format("input {} of a body of {}", node.bits, num_inputs));
    new_ids[i] = static_cast<int>(body.nodes.size());
    body.nodes.push_back(node);
  }
  body.result = new_ids[static_cast<std::size_t>(result.id())];
  return body;
}

Body make_body(const std::vector<Dtype>& inputs, const std::function<Expr(std::span<const Expr>)>& define) {
  Builder builder;
  std::vector<Expr> arguments;
  for (const Dtype dtype : inputs) arguments.push_back(builder.input(static_cast<int>(arguments.size()), dtype));
  return builder.finish(define(arguments), static_cast<int>(inputs.size()));
}

std::vector<Expr> iterate(const std::vector<Expr>& values, const std::function<Expr(Iterated)>& goes_on,
                          const std::function<std::vector<Expr>(Iterated)>& next) {
  SHOAL_CHECK(!values.empty() && !values[0].builder().iterates, "an iteration carries something, and holds no other");
  Builder& builder = values[0].builder();
  std::vector<Expr> carried;
  for (const Expr& value : values) {
    SHOAL_CHECK(size_of(value.dtype()) != 2 && is_real(value.dtype()), describe(Core::kCarried, value.dtype()));
    carried.push_back(make(Core::kCarried, value.dtype(), value));
  }
  builder.iterates = true;
  const Expr condition = goes_on(carried);
  std::vector<Expr> kept = next(carried);
  SHOAL_CHECK(kept.size() == carried.size(), "an iteration gives what it carries");
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = select(condition, kept[i], carried[i]);
  builder.iterates = false;
  int last = -1;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    last = builder.node({Core::kNext, kept[i].dtype(), {carried[i].id(), kept[i].id(), last}}).id();
  }
  const Expr repeat = builder.node({Core::kRepeat, Dtype::kBool, {condition.id(), last, -1}});
  std::vector<Expr> results;
  for (const Expr& value : carried) results.push_back(make(Core::kLast, value.dtype(), value, repeat));
  return results;
}

Expr operator+(Expr a, Expr b) { return binary(Core::kAdd, is_number, a, b); }
Expr operator-(Expr a, Expr b) { return binary(Core::kSub, is_number, a, b); }
Expr operator*(Expr a, Expr b) { return binary(Core::kMul, is_number, a, b); }
Expr operator/(Expr a, Expr b) { return binary(Core::kDiv, is_number, a, b); }
Expr operator%(Expr a, Expr b) { return binary(Core::kRem, is_number, a, b); }
Expr operator-(Expr a) { return unary(Core::kNeg, is_number, a); }
Expr abs(Expr a) { return unary(Core::kAbs, is_number, a); }
Expr min(Expr a, Expr b) { return binary(Core::kMin, is_real, a, b); }
Expr max(Expr a, Expr b) { return binary(Core::kMax, is_real, a, b); }

Expr fma(Expr a, Expr b, Expr c) {
  check_same_dtype(Core::kFma, a, b);
  check_same_dtype(Core::kFma, a, c);
  SHOAL_CHECK(is_floating(a.dtype()), describe(Core::kFma, a.dtype()));
  return make(Core::kFma, a.dtype(), a, b, c);
}

Expr sqrt(Expr a) { return unary(Core::kSqrt, is_floating, a); }
Expr floor(Expr a) { return unary(Core::kFloor, is_floating, a); }
Expr rint(Expr a) { return unary(Core::kRint, is_floating, a); }
Expr trunc(Expr a) { return unary(Core::kTrunc, is_floating, a); }

Expr operator<(Expr a, Expr b) { return compare(Core::kLt, a, b); }
Expr operator<=(Expr a, Expr b) { return compare(Core::kLe, a, b); }
Expr operator>(Expr a, Expr b) { return compare(Core::kLt, b, a); }
Expr operator>=(Expr a, Expr b) { return compare(Core::kLe, b, a); }
Expr operator==(Expr a, Expr b) { return compare(Core::kEq, a, b); }
Expr operator!=(Expr a, Expr b) { return ~(a == b); }

Expr operator&(Expr a, Expr b) { return binary(Core::kAnd, is_bits, a, b); }
Expr operator|(Expr a, Expr b) { return binary(Core::kOr, is_bits, a, b); }
Expr operator^(Expr a, Expr b) { return binary(Core::kXor, is_bits, a, b); }
Expr operator~(Expr a) { return unary(Core::kNot, is_bits, a); }
Expr operator<<(Expr a, Expr count) { return binary(Core::kShl, is_integer, a, count); }
Expr operator>>(Expr a, Expr count) { return binary(Core::kShr, is_integer, a, count); }
Expr rotate(Expr a, Expr count) { return binary(Core::kRotate, is_integer, a, count); }

Expr select(Expr predicate, Expr if_true, Expr if_false) {
  SHOAL_CHECK(predicate.dtype() == Dtype::kBool, describe(Core::kSelect, predicate.dtype()));
  check_same_dtype(Core::kSelect, if_true, if_false);
  if (is_complex(if_true.dtype())) {
    return make_complex(select(predicate, real(if_true), real(if_false)),
                        select(predicate, imag(if_true), imag(if_false)));
  }
  return make(Core::kSelect, if_true.dtype(), predicate, if_true, if_false);
}

Expr convert(Expr a, Dtype dtype) {
  if (a.dtype() == dtype) return a;
  if (is_complex(dtype)) {
    const Dtype part = real_dtype(dtype);
    if (is_complex(a.dtype())) return make_complex(convert(real(a), part), convert(imag(a), part));
    const Expr re = convert(a, part);
    return make_complex(re, re.like(0));
  }
  if (is_complex(a.dtype())) {
    if (dtype == Dtype::kBool) return (real(a) != 0) | (imag(a) != 0);
    return convert(real(a), dtype);
  }
  return make(Core::kConvert, dtype, a);
}

Expr bitcast(Expr a, Dtype dtype) {
  if (a.dtype() == dtype) return a;
  SHOAL_CHECK(is_number(a.dtype()) && is_number(dtype) && size_of(a.dtype()) == size_of(dtype),
              fmt::format("bitcast from {} to {}", short_name_of(a.dtype()), short_name_of(dtype)));
  return make(Core::kBitcast, dtype, a);
}

Expr real(Expr a) {
  if (!is_complex(a.dtype())) return a;
  const Node& node = a.builder().at(a);
  if (node.core == Core::kMakeComplex) return Expr(a.builder(), node.operands[0]);
  return make(Core::kReal, real_dtype(a.dtype()), a);
}

Expr imag(Expr a) {
  if (!is_complex(a.dtype())) return a.like(0);
  const Node& node = a.builder().at(a);
  if (node.core == Core::kMakeComplex) return Expr(a.builder(), node.operands[1]);
  return make(Core::kImag, real_dtype(a.dtype()), a);
}

Expr make_complex(Expr re, Expr im) {
  check_same_dtype(Core::kMakeComplex, re, im);
  SHOAL_CHECK(re.dtype() == Dtype::kF32 || re.dtype() == Dtype::kF64, describe(Core::kMakeComplex, re.dtype()));
  return make(Core::kMakeComplex, re.dtype() == Dtype::kF32 ? Dtype::kC64 : Dtype::kC128, re, im);
}

Expr pio2_quadrant(Expr a) { return reduce_pio2_to(Core::kPio2Quadrant, Dtype::kI32, a); }
Expr pio2_remainder(Expr a) { return reduce_pio2_to(Core::kPio2Remainder, Dtype::kF64, a); }
Expr pio2_remainder_low(Expr a) { return reduce_pio2_to(Core::kPio2RemainderLow, Dtype::kF64, a); }

}  // namespace shoal::scalar
