#include "shoal/dtype.h"

#include <fmt/format.h>

#include <array>
#include <ostream>
#include <string>

#include "base/check.h"
#include "base/misuse.h"
#include "shoal/error.h"

namespace shoal {

namespace {

struct DtypeInfo {
  std::string_view name;
  std::string_view short_name;
  std::size_t size;
};

// In the order of Dtype.
constexpr std::array<DtypeInfo, kNumDtypes + kNumKeyDtypes> kInfo = {{
    {"bool", "bool", 1},
    {"int8", "i8", 1},
    {"int16", "i16", 2},
    {"int32", "i32", 4},
    {"int64", "i64", 8},
    {"uint8", "u8", 1},
    {"uint16", "u16", 2},
    {"uint32", "u32", 4},
    {"uint64", "u64", 8},
    {"float16", "f16", 2},
    {"bfloat16", "bf16", 2},
    {"float32", "f32", 4},
    {"float64", "f64", 8},
    {"complex64", "c64", 8},
    {"complex128", "c128", 16},
    {"key<fry>", "key_fry", 8},
    {"key<rbg>", "key_rbg", 16},
    {"key<urbg>", "key_urbg", 16},
}};

const DtypeInfo& info(Dtype dtype) { return kInfo.at(static_cast<std::size_t>(dtype)); }

// ---- The type lattice: the 15 dtypes and, below the sized types of their kind, the three weak kinds. Types promote to
// ---- their least upper bound.

constexpr int kWeakInt = kNumDtypes;
constexpr int kWeakFloat = kNumDtypes + 1;
constexpr int kWeakComplex = kNumDtypes + 2;
constexpr int kNumNodes = kNumDtypes + 3;

using NodeSet = std::uint32_t;
static_assert(kNumNodes <= 32);

constexpr int node_of(Dtype dtype) { return static_cast<int>(dtype); }
constexpr NodeSet set_of(int node) { return NodeSet{1} << node; }
constexpr NodeSet set_of(Dtype dtype) { return set_of(node_of(dtype)); }

// What lies immediately above a node.
constexpr NodeSet parents(int node) {
  switch (node) {
    case node_of(bool_):
      return set_of(kWeakInt);
    case kWeakInt:
      return set_of(uint8) | set_of(int8);
    case node_of(uint8):
      return set_of(int16) | set_of(uint16);
    case node_of(uint16):
      return set_of(int32) | set_of(uint32);
    case node_of(uint32):
      return set_of(int64) | set_of(uint64);
    case node_of(int8):
      return set_of(int16);
    case node_of(int16):
      return set_of(int32);
    case node_of(int32):
      return set_of(int64);
    case node_of(uint64):
    case node_of(int64):
      return set_of(kWeakFloat);
    case kWeakFloat:
      return set_of(float16) | set_of(bfloat16) | set_of(kWeakComplex);
    case node_of(float16):
    case node_of(bfloat16):
      return set_of(float32);
    case node_of(float32):
      return set_of(float64) | set_of(complex64);
    case node_of(float64):
      return set_of(complex128);
    case kWeakComplex:
      return set_of(complex64);
    case node_of(complex64):
      return set_of(complex128);
    default:  // complex128, the top
      return 0;
  }
}

// The node itself and all that lies above it.
constexpr NodeSet upper_bounds_of(int node) {
  NodeSet bounds = set_of(node);
  for (int above = 0; above < kNumNodes; ++above) {
    if (parents(node) & set_of(above)) bounds |= upper_bounds_of(above);
  }
  return bounds;
}

constexpr auto kUpperBounds = [] {
  std::array<NodeSet, kNumNodes> bounds{};
  for (int node = 0; node < kNumNodes; ++node) bounds[static_cast<std::size_t>(node)] = upper_bounds_of(node);
  return bounds;
}();

int least_upper_bound(int a, int b) {
  const auto bounds = [](int node) { return kUpperBounds[static_cast<std::size_t>(node)]; };
  const NodeSet common = bounds(a) & bounds(b);
  for (int node = 0; node < kNumNodes; ++node) {
    if (bounds(node) == common) return node;
  }
  throw InternalError("the type lattice has no least upper bound for nodes " + fmt::format("{} and {}", a, b));
}

int weak_node_of(Dtype dtype) {
  if (is_complex(dtype)) return kWeakComplex;
  return is_floating(dtype) ? kWeakFloat : kWeakInt;
}

int node_of(DtypeAndWeakness type) { return type.weak ? weak_node_of(type.dtype) : node_of(type.dtype); }

}  // namespace

std::size_t size_of(Dtype dtype) { return info(dtype).size; }

std::string_view name_of(Dtype dtype) { return info(dtype).name; }

std::string_view short_name_of(Dtype dtype) { return info(dtype).short_name; }

Dtype parse_dtype(std::string_view name) {
  std::string allowed;
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    if (name == kInfo[i].name || name == kInfo[i].short_name) return static_cast<Dtype>(i);
    allowed.append(i == 0 ? "" : ", ").append(kInfo[i].name);
  }
  throw InvalidArgument(fmt::format("dtype \"{}\" does not exist; allowed: {}", name, allowed));
}

bool is_integer(Dtype dtype) { return dtype >= Dtype::kI8 && dtype <= Dtype::kU64; }

bool is_signed(Dtype dtype) {
  return dtype != Dtype::kBool && !(dtype >= Dtype::kU8 && dtype <= Dtype::kU64) && !is_key(dtype);
}

bool is_floating(Dtype dtype) { return dtype >= Dtype::kF16 && dtype <= Dtype::kF64; }

bool is_complex(Dtype dtype) { return dtype == Dtype::kC64 || dtype == Dtype::kC128; }

bool is_key(Dtype dtype) { return dtype >= Dtype::kKeyFry; }

Dtype real_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kC64:
      return Dtype::kF32;
    case Dtype::kC128:
      return Dtype::kF64;
    default:
      return dtype;
  }
}

std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name_of(dtype); }

DtypeAndWeakness promote_types(DtypeAndWeakness a, DtypeAndWeakness b) {
  if (is_key(a.dtype) || is_key(b.dtype)) {
    if (a.dtype == b.dtype) return {a.dtype, false};
    throw misuse<TypeMismatch>("{} and {} have no dtype in common: nothing is computed with keys", name_of(a.dtype),
                               name_of(b.dtype));
  }
  // Two weak types meet as if they were typed, so that a weak f64 keeps its width against a weak int.
  const bool both_weak = a.weak && b.weak;
  const int node =
      both_weak ? least_upper_bound(node_of(a.dtype), node_of(b.dtype)) : least_upper_bound(node_of(a), node_of(b));
  if (node < kNumDtypes) {
    const Dtype dtype = static_cast<Dtype>(node);
    return {dtype, both_weak && dtype != bool_};
  }
  // A weak kind has no width of its own: it keeps that of the weak operand.
  for (const DtypeAndWeakness& operand : {a, b}) {
    if (operand.weak && weak_node_of(operand.dtype) == node) return {operand.dtype, true};
  }
  SHOAL_CHECK(node == kWeakFloat, "only u64 and signed integers meet in a weak kind that neither has");
  return {float64, true};
}

float16_t::float16_t(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kRoundsToInfinity = 0x477ff000;  // 65520, half a unit above the largest finite value
  constexpr std::uint32_t kSmallestNormal = 0x38800000;    // 2^-14
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = word & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > kInfinity) {
    const std::uint32_t payload = (magnitude >> 13U) & 0x3ffU;
    half = 0x7c00U | (payload != 0 ? payload : 1U);  // a payload cut to zero would read as infinity
  } else if (magnitude >= kRoundsToInfinity) {
    half = 0x7c00;
  } else if (magnitude >= kSmallestNormal) {
    // Moves the exponent bias from 127 to 15 and rounds the 13 bits that fall off; a carry reaches the exponent.
    const std::uint32_t odd = (magnitude >> 13U) & 1U;
    half = (magnitude - (112U << 23U) + 0xfffU + odd) >> 13U;
  } else {
    // Adding 0.5, whose unit in the last place is 2^-24, the smallest subnormal, lets the float adder round.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  }
  bits = static_cast<std::uint16_t>((word >> 16U & 0x8000U) | half);
}

float16_t::operator float() const {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7fffU;
  std::uint32_t word = 0;
  if (magnitude >= 0x7c00U) {
    word = 0x7f800000U | (magnitude & 0x3ffU) << 13U;
  } else if (magnitude >= 0x400U) {
    word = (magnitude << 13U) + (112U << 23U);
  } else {
    word = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | word);
}

bfloat16_t::bfloat16_t(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  std::uint32_t upper = word >> 16U;
  if (value != value) {
    if ((upper & 0x7fU) == 0) upper |= 1U;  // a payload cut to zero would read as infinity
  } else {
    upper = (word + 0x7fffU + (upper & 1U)) >> 16U;
  }
  bits = static_cast<std::uint16_t>(upper);
}

}  // namespace shoal
