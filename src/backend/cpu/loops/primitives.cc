// Plain loops over the functions that define the core operations, in a form that compilers turn into vector code:
// chunks of a fixed number of elements. This file is compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/loops/primitives.cc"
#ifndef HWY_DISABLED_TARGETS  // The baseline (SSE2 on x86), AVX2 and AVX-512 are enough.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (SHOAL_AVX512 ? 0 : HWY_AVX3))
#endif
#include "backend/cpu/loops/primitives.h"

#include <hwy/foreach_target.h>  // Comes before highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/dispatch.h"
#include "ops/scalar/core_ops.h"

// The iterations of the loop that follows do not depend on each other: what they read is where they write, or apart.
#if defined(__clang__)
#define SHOAL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SHOAL_INDEPENDENT _Pragma("GCC ivdep")
#endif

// A function of core_ops.h as a type of function objects.
#define SHOAL_CORE_OP(name) \
  decltype([](auto... operands) -> decltype(core_ops::name(operands...)) { return core_ops::name(operands...); })

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu::HWY_NAMESPACE {
namespace {

namespace core_ops = scalar::core_ops;
namespace hn = hwy::HWY_NAMESPACE;
using scalar::Core;

template <class T>
T* memory_at(const Place& place, std::byte* const* bases) {
  return reinterpret_cast<T*>(bases[place.base] + place.offset);
}

// The chunks of an operand.
template <class T>
struct Operand {
  const T* chunk;
  std::ptrdiff_t step;

  Operand(const Place& place, std::byte* const* bases)
      : chunk(memory_at<const T>(place, bases)), step(place.step * kChunk) {}
};

// bool is stored as a byte.
template <class T>
using Stored = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;

template <class Op, class R, class... T>
HWY_INLINE void map_chunks(R* result, std::int64_t count, Operand<T>... operands) {
  for (std::int64_t first = 0; first < count; first += kChunk) {
    SHOAL_INDEPENDENT
    for (std::int64_t i = 0; i < kChunk; ++i) result[i] = static_cast<R>(Op{}(operands.chunk[i]...));
    ((operands.chunk += operands.step), ...);
    result += kChunk;
  }
}

template <class Op, class A>
void map_1(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  using R = Stored<std::invoke_result_t<Op, A>>;
  map_chunks<Op>(memory_at<R>(instruction.result, bases), count, Operand<A>(instruction.operands[0], bases));
}

template <class Op, class A, class B>
void map_2(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  using R = Stored<std::invoke_result_t<Op, A, B>>;
  map_chunks<Op>(memory_at<R>(instruction.result, bases), count, Operand<A>(instruction.operands[0], bases),
                 Operand<B>(instruction.operands[1], bases));
}

template <class Op, class A, class B, class C>
void map_3(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  using R = Stored<std::invoke_result_t<Op, A, B, C>>;
  map_chunks<Op>(memory_at<R>(instruction.result, bases), count, Operand<A>(instruction.operands[0], bases),
                 Operand<B>(instruction.operands[1], bases), Operand<C>(instruction.operands[2], bases));
}

// An operation whose operands are all of type T; nullptr if it is not defined on it.
template <class Op, class T>
constexpr Primitive map_of() {
  if constexpr (std::is_invocable_v<Op, T>) {
    return map_1<Op, T>;
  } else if constexpr (std::is_invocable_v<Op, T, T>) {
    return map_2<Op, T, T>;
  } else if constexpr (std::is_invocable_v<Op, T, T, T>) {
    return map_3<Op, T, T, T>;
  } else {
    return nullptr;
  }
}

// Floats that have arithmetic.
template <class T>
concept WholeFloat = std::floating_point<T>;

// An operation for which only the bits of the operands matter.
template <class Op>
Primitive of_bits(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Primitive {
    if constexpr (core_ops::Real<T>) {
      return map_of<Op, core_ops::Bits<T>>();
    } else {
      return nullptr;
    }
  });
}

// An operation on floats and on integers, whose sign does not matter.
template <class Op>
Primitive of_numbers(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Primitive {
    if constexpr (WholeFloat<T>) {
      return map_of<Op, T>();
    } else if constexpr (std::integral<T>) {
      return map_of<Op, core_ops::Bits<T>>();
    } else {
      return nullptr;
    }
  });
}

// An operation on floats and on integers with their signs.
template <class Op>
Primitive of_ordered(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Primitive {
    if constexpr (WholeFloat<T> || std::integral<T>) {
      return map_of<Op, Stored<T>>();
    } else {
      return nullptr;
    }
  });
}

template <class Op>
Primitive of_floats(Dtype dtype) {
  return dtype == Dtype::kF32 ? map_of<Op, float>() : dtype == Dtype::kF64 ? map_of<Op, double>() : nullptr;
}

// An operation on the signs of floats, small ones included.
template <class Op>
Primitive of_signed_floats(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Primitive {
    if constexpr (core_ops::Floating<T>) {
      return map_of<Op, T>();
    } else {
      return nullptr;
    }
  });
}

template <class Op>
Primitive of_complex_parts(Dtype dtype) {
  return dtype == Dtype::kF32 ? map_2<Op, float, float> : map_2<Op, double, double>;
}

template <class Op>
Primitive of_complex(Dtype dtype) {
  return dtype == Dtype::kC64 ? map_1<Op, std::complex<float>> : map_1<Op, std::complex<double>>;
}

// ---- Operations that are no function of core_ops.h, or for which another form is faster.

struct LogicalNot {
  std::uint8_t operator()(std::uint8_t value) const { return value ^ 1U; }
};

// In few vector operations. A comparison picks the smaller one, the second one if either is NaN; zeros that differ in
// sign are equal.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (WholeFloat<T>) {
      using Bits = core_ops::Bits<T>;
      const T smaller = a < b ? a : b;
      const T either = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b)));
      return a != a ? a : a == b ? either : smaller;
    } else {
      return core_ops::min(a, b);
    }
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (WholeFloat<T>) {
      using Bits = core_ops::Bits<T>;
      const T larger = a > b ? a : b;
      const T both = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b)));
      return a != a ? a : a == b ? both : larger;
    } else {
      return core_ops::max(a, b);
    }
  }
};

struct Copy {
  template <class T>
  T operator()(T value) const {
    return value;
  }
};

struct Select {
  template <class T>
  T operator()(std::uint8_t predicate, T if_true, T if_false) const {
    return predicate != 0 ? if_true : if_false;
  }
};

Primitive find_copy(Dtype dtype) {
  if (dtype == Dtype::kC64) return map_1<Copy, std::uint64_t>;
  if (dtype == Dtype::kC128) return map_1<Copy, std::complex<double>>;
  return of_bits<Copy>(dtype);
}

Primitive find_select(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> Primitive {
    if constexpr (core_ops::Real<T>) {
      return map_3<Select, std::uint8_t, core_ops::Bits<T>, core_ops::Bits<T>>;
    } else {
      return nullptr;
    }
  });
}

template <class To>
struct Convert {
  template <class From>
  To operator()(From value) const {
    return core_ops::convert<To>(value);
  }
};

// Chunks of small floats to and from f32. What is written here for bf16 is what its constructor does, but that a
// signalling NaN becomes quiet.
void widen(const bfloat16_t* from, float* to) {
  SHOAL_INDEPENDENT
  for (std::int64_t i = 0; i < kChunk; ++i) to[i] = static_cast<float>(from[i]);
}
void narrow(const float* from, bfloat16_t* to) {
  SHOAL_INDEPENDENT
  for (std::int64_t i = 0; i < kChunk; ++i) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (word + 0x7fffU + (word >> 16U & 1U)) >> 16U;
    to[i].bits = static_cast<std::uint16_t>(from[i] == from[i] ? rounded : word >> 16U | 0x40U);
  }
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // They have instructions for f16.
void widen(const float16_t* from, float* to) {
  const hn::ScalableTag<float> whole;
  const hn::Rebind<hwy::float16_t, decltype(whole)> half;
  for (std::size_t i = 0; i < kChunk; i += hn::Lanes(whole)) {
    hn::StoreU(hn::PromoteTo(whole, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from) + i)), whole, to + i);
  }
}
void narrow(const float* from, float16_t* to) {
  const hn::ScalableTag<float> whole;
  const hn::Rebind<hwy::float16_t, decltype(whole)> half;
  for (std::size_t i = 0; i < kChunk; i += hn::Lanes(whole)) {
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(whole, from + i)), half, reinterpret_cast<hwy::float16_t*>(to) + i);
  }
}
#else
void widen(const float16_t* from, float* to) {
  for (std::int64_t i = 0; i < kChunk; ++i) to[i] = static_cast<float>(from[i]);
}
void narrow(const float* from, float16_t* to) {
  for (std::int64_t i = 0; i < kChunk; ++i) to[i] = from[i];
}
#endif

template <class Half>
void widen_all(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  Operand<Half> operand(instruction.operands[0], bases);
  float* result = memory_at<float>(instruction.result, bases);
  for (std::int64_t first = 0; first < count; first += kChunk, operand.chunk += operand.step) {
    widen(operand.chunk, result + first);
  }
}

// To f16 and bf16, by f32.
template <class Half, class From>
void narrow_all(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  Operand<From> operand(instruction.operands[0], bases);
  Half* result = memory_at<Half>(instruction.result, bases);
  for (std::int64_t first = 0; first < count; first += kChunk, operand.chunk += operand.step) {
    if constexpr (std::same_as<From, float>) {
      narrow(operand.chunk, result + first);
    } else {
      std::array<float, kChunk> rounded_to_odd;
      for (std::size_t i = 0; i < kChunk; ++i) {
        if constexpr (sizeof(From) < sizeof(float)) {
          rounded_to_odd[i] = static_cast<float>(operand.chunk[i]);  // Without rounding.
        } else {
          rounded_to_odd[i] = core_ops::round_to_odd(operand.chunk[i]);
        }
      }
      narrow(rounded_to_odd.data(), result + first);
    }
  }
}

Primitive find_convert(Dtype to, Dtype from) {
  return with_element_type(to, [from]<class To>(To) {
    return with_element_type(from, []<class From>(From) -> Primitive {
      if constexpr (!core_ops::Real<To> || !core_ops::Real<From>) {
        return nullptr;
      } else if constexpr (core_ops::Half<From>) {
        return std::same_as<To, float> ? widen_all<From> : nullptr;
      } else if constexpr (core_ops::Half<To>) {
        return narrow_all<To, Stored<From>>;
      } else if constexpr (std::same_as<To, bool>) {
        if constexpr (std::integral<From>) return map_1<Convert<bool>, core_ops::Bits<From>>;
        if constexpr (WholeFloat<From>) return map_1<Convert<bool>, From>;
      } else if constexpr (std::integral<To> && std::integral<From> && sizeof(To) <= sizeof(From)) {
        return map_1<Convert<core_ops::Bits<To>>, core_ops::Bits<From>>;
      } else if constexpr (std::integral<To> && std::integral<From>) {
        return map_1<Convert<core_ops::Bits<To>>, Stored<From>>;
      } else {
        return map_1<Convert<To>, Stored<From>>;
      }
    });
  });
}

// What calls a function for each element stops at the last one.
template <class T>
void remainder(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  Operand<T> dividend(instruction.operands[0], bases);
  Operand<T> divisor(instruction.operands[1], bases);
  T* result = memory_at<T>(instruction.result, bases);
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const std::int64_t end = std::min(count - first, kChunk);
    for (std::int64_t i = 0; i < end; ++i) result[first + i] = core_ops::rem(dividend.chunk[i], divisor.chunk[i]);
    dividend.chunk += dividend.step;
    divisor.chunk += divisor.step;
  }
}

template <Core part>
auto part_of(const scalar::Pio2Reduction& reduction) {
  if constexpr (part == Core::kPio2Quadrant) {
    return static_cast<std::int32_t>(reduction.quadrant);
  } else {
    return part == Core::kPio2Remainder ? reduction.remainder : reduction.remainder_low;
  }
}

// A part of the reduction of arguments modulo pi/2: of a chunk of small ones, of one without large ones, or one by one.
template <Core part, class T>
void reduce_pio2(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  using R = decltype(part_of<part>({}));
  Operand<T> operand(instruction.operands[0], bases);
  R* result = memory_at<R>(instruction.result, bases);
  for (std::int64_t first = 0; first < count; first += kChunk, operand.chunk += operand.step, result += kChunk) {
    int are_small = 1;
    int are_moderate = 1;
    for (std::int64_t i = 0; i < kChunk; ++i) {
      const double magnitude = core_ops::abs(operand.chunk[i]);
      are_small &= magnitude <= scalar::pio2::kSmall ? 1 : 0;
      are_moderate &= magnitude < scalar::pio2::kLarge ? 1 : 0;
    }
    if (are_small != 0) {
      SHOAL_INDEPENDENT
      for (std::int64_t i = 0; i < kChunk; ++i) result[i] = part_of<part>({0, operand.chunk[i], 0.0});
    } else if (are_moderate != 0) {
      SHOAL_INDEPENDENT
      for (std::int64_t i = 0; i < kChunk; ++i) {
        const double x = operand.chunk[i];
        const R reduced = part_of<part>(scalar::pio2::reduce_moderate(x));
        result[i] = core_ops::abs(x) <= scalar::pio2::kSmall ? part_of<part>({0, x, 0.0}) : reduced;
      }
    } else {
      const std::int64_t end = std::min(count - first, kChunk);
      for (std::int64_t i = 0; i < end; ++i) result[i] = part_of<part>(scalar::reduce_pio2(operand.chunk[i]));
    }
  }
}

template <Core part>
Primitive find_pio2(Dtype from) {
  return from == Dtype::kF32 ? reduce_pio2<part, float> : reduce_pio2<part, double>;
}

Primitive find(Core core, Dtype result, Dtype from) {
  switch (core) {
    case Core::kInput:
    case Core::kConstant:
      return nullptr;
    case Core::kAdd:
      return of_numbers<SHOAL_CORE_OP(add)>(from);
    case Core::kSub:
      return of_numbers<SHOAL_CORE_OP(sub)>(from);
    case Core::kMul:
      return of_numbers<SHOAL_CORE_OP(mul)>(from);
    case Core::kDiv:
      return of_ordered<SHOAL_CORE_OP(div)>(from);
    case Core::kRem:
      return from == Dtype::kF32   ? remainder<float>
             : from == Dtype::kF64 ? remainder<double>
                                   : of_ordered<SHOAL_CORE_OP(rem)>(from);
    case Core::kNeg:
      return is_floating(from) ? of_signed_floats<SHOAL_CORE_OP(neg)>(from) : of_numbers<SHOAL_CORE_OP(neg)>(from);
    case Core::kAbs:
      return is_floating(from) ? of_signed_floats<SHOAL_CORE_OP(abs)>(from) : of_ordered<SHOAL_CORE_OP(abs)>(from);
    case Core::kMin:
      return of_ordered<Min>(from);
    case Core::kMax:
      return of_ordered<Max>(from);
    case Core::kFma:
      return of_floats<SHOAL_CORE_OP(fma)>(from);
    case Core::kSqrt:
      return of_floats<SHOAL_CORE_OP(sqrt)>(from);
    case Core::kFloor:
      return of_floats<SHOAL_CORE_OP(floor)>(from);
    case Core::kRint:
      return of_floats<SHOAL_CORE_OP(rint)>(from);
    case Core::kTrunc:
      return of_floats<SHOAL_CORE_OP(trunc)>(from);
    case Core::kLt:
      return of_ordered<SHOAL_CORE_OP(lt)>(from);
    case Core::kLe:
      return of_ordered<SHOAL_CORE_OP(le)>(from);
    case Core::kEq:
      return of_numbers<SHOAL_CORE_OP(eq)>(from);
    case Core::kAnd:
      return of_bits<SHOAL_CORE_OP(bit_and)>(from);
    case Core::kOr:
      return of_bits<SHOAL_CORE_OP(bit_or)>(from);
    case Core::kXor:
      return of_bits<SHOAL_CORE_OP(bit_xor)>(from);
    case Core::kNot:
      return from == Dtype::kBool ? map_1<LogicalNot, std::uint8_t> : of_bits<SHOAL_CORE_OP(bit_not)>(from);
    case Core::kShl:
      return of_bits<SHOAL_CORE_OP(shl)>(from);
    case Core::kShr:
      return of_ordered<SHOAL_CORE_OP(shr)>(from);
    case Core::kRotate:
      return of_bits<SHOAL_CORE_OP(rotate)>(from);
    case Core::kSelect:
      return find_select(from);
    case Core::kConvert:
      return find_convert(result, from);
    case Core::kBitcast:
      return find_copy(from);
    case Core::kReal:
      return of_complex<SHOAL_CORE_OP(real)>(from);
    case Core::kImag:
      return of_complex<SHOAL_CORE_OP(imag)>(from);
    case Core::kMakeComplex:
      return of_complex_parts<SHOAL_CORE_OP(make_complex)>(from);
    case Core::kPio2Quadrant:
      return find_pio2<Core::kPio2Quadrant>(from);
    case Core::kPio2Remainder:
      return find_pio2<Core::kPio2Remainder>(from);
    case Core::kPio2RemainderLow:
      return find_pio2<Core::kPio2RemainderLow>(from);
    case Core::kCarried:
    case Core::kNext:
    case Core::kRepeat:
    case Core::kLast:
      return nullptr;  // The interpreter's affair.
  }
  return nullptr;
}

// ---- Several operations at once.

template <class First, class Second, bool is_reversed>
struct Pair {
  template <class T>
  T operator()(T a, T b, T c) const {
    const T value = First{}(a, b);
    return is_reversed ? Second{}(c, value) : Second{}(value, c);
  }
};

template <class First>
Primitive find_pair_with(Core second, bool is_reversed, Dtype dtype) {
  using Add = SHOAL_CORE_OP(add);
  using Sub = SHOAL_CORE_OP(sub);
  using Mul = SHOAL_CORE_OP(mul);
  switch (second) {
    case Core::kAdd:
      return of_floats<Pair<First, Add, false>>(dtype);
    case Core::kSub:
      return is_reversed ? of_floats<Pair<First, Sub, true>>(dtype) : of_floats<Pair<First, Sub, false>>(dtype);
    case Core::kMul:
      return of_floats<Pair<First, Mul, false>>(dtype);
    default:
      return nullptr;
  }
}

Primitive find_pair_of(Core first, Core second, bool is_reversed, Dtype dtype) {
  switch (first) {
    case Core::kAdd:
      return find_pair_with<SHOAL_CORE_OP(add)>(second, is_reversed, dtype);
    case Core::kSub:
      return find_pair_with<SHOAL_CORE_OP(sub)>(second, is_reversed, dtype);
    case Core::kMul:
      return find_pair_with<SHOAL_CORE_OP(mul)>(second, is_reversed, dtype);
    default:
      return nullptr;
  }
}

#if HWY_NATIVE_FMA
template <class T>
void evaluate_polynomial(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  const hn::ScalableTag<T> tag;
  constexpr std::size_t kVectors = std::min<std::size_t>(4, kChunk / hn::MaxLanes(tag));  // In registers.
  const Instruction* const first = &instruction;
  const Instruction* const end = first + instruction.length;
  Operand<T> initial(first->operands[0], bases);
  Operand<T> x(first->operands[1], bases);
  T* result = memory_at<T>(end[-1].result, bases);
  for (; count > 0; count -= kChunk) {
    for (std::size_t i = 0; i < kChunk; i += kVectors * hn::Lanes(tag)) {
      hn::Vec<decltype(tag)> value[kVectors];
      hn::Vec<decltype(tag)> factor[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) {
        value[v] = hn::LoadU(tag, initial.chunk + i + v * hn::Lanes(tag));
        factor[v] = hn::LoadU(tag, x.chunk + i + v * hn::Lanes(tag));
      }
      for (const Instruction* fma = first; fma != end; ++fma) {
        const auto addend = hn::LoadU(tag, memory_at<const T>(fma->operands[2], bases));
        for (std::size_t v = 0; v < kVectors; ++v) value[v] = hn::MulAdd(value[v], factor[v], addend);
      }
      for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(value[v], tag, result + i + v * hn::Lanes(tag));
    }
    initial.chunk += initial.step;
    x.chunk += x.step;
    result += kChunk;
  }
}

Primitive find_polynomial_of(Dtype dtype) {
  return dtype == Dtype::kF32   ? evaluate_polynomial<float>
         : dtype == Dtype::kF64 ? evaluate_polynomial<double>
                                : nullptr;
}
#else
Primitive find_polynomial_of(Dtype) { return nullptr; }
#endif

// ---- Copies.

template <class T>
void spread(const Instruction& instruction, std::byte* const* bases, std::int64_t) {
  const T value = *memory_at<const T>(instruction.operands[0], bases);
  T* result = memory_at<T>(instruction.result, bases);
  for (std::int64_t i = 0; i < kChunk; ++i) result[i] = value;
}

Primitive find_spread_of(std::size_t size) {
  switch (size) {
    case 1:
      return spread<std::uint8_t>;
    case 2:
      return spread<std::uint16_t>;
    case 4:
      return spread<std::uint32_t>;
    case 8:
      return spread<std::uint64_t>;
    default:
      return spread<std::complex<double>>;
  }
}

// Whole vectors are written, as the processor is slow to read a vector from what several stores have just written.
void partial_copy(const std::byte* from, std::size_t bytes, std::byte* to, std::size_t all_bytes) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // Where a masked load touches no more than it loads.
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  const hn::CappedTag<std::uint32_t, 8> words;
  const std::size_t whole = bytes / kWord;
  const auto* source = reinterpret_cast<const std::uint32_t*>(from);
  auto* target = reinterpret_cast<std::uint32_t*>(to);
  std::size_t i = 0;
  for (; i + hn::Lanes(words) <= whole; i += hn::Lanes(words)) {
    hn::StoreU(hn::LoadU(words, source + i), words, target + i);
  }
  if (i < whole) {
    hn::StoreU(hn::MaskedLoad(hn::FirstN(words, whole - i), words, source + i), words, target + i);
    i += hn::Lanes(words);
  }
  for (; i < all_bytes / kWord; i += hn::Lanes(words)) hn::StoreU(hn::Zero(words), words, target + i);
  for (i = whole * kWord; i < bytes; ++i) to[i] = from[i];
#else
  std::memcpy(to, from, bytes);
  std::memset(to + bytes, 0, all_bytes - bytes);
#endif
}

PartialCopy find_partial_copy_of() { return partial_copy; }

// ---- Reductions.

template <class Op, class T>
void reduce(const Instruction& instruction, std::byte* const* bases, std::int64_t count) {
  Operand<T> operand(instruction.operands[0], bases);
  T* result = memory_at<T>(instruction.result, bases);
  std::array<T, kLanes> lanes;
  std::copy_n(result, kLanes, lanes.begin());
  for (; count >= kChunk; count -= kChunk, operand.chunk += operand.step) {
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = Op{}(lanes[i], operand.chunk[i]);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) lanes[i] = Op{}(lanes[i], operand.chunk[i]);
  std::copy_n(lanes.begin(), kLanes, result);
}

template <class Op, class T>
void reduce_lanes(const Instruction& instruction, std::byte* const* bases, std::int64_t) {
  std::array<T, kLanes> lanes;
  std::copy_n(memory_at<const T>(instruction.operands[0], bases), kLanes, lanes.begin());
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] = Op{}(lanes[i], lanes[i + half]);
  }
  std::fill_n(memory_at<T>(instruction.result, bases), kChunk, lanes[0]);
}

// The step of a reduction of elements of type T. Bool is reduced as a byte, by "and" and "or".
template <bool is_last, class Op, class T>
constexpr Primitive reduction_of() {
  if constexpr (is_last) {
    return reduce_lanes<Op, T>;
  } else {
    return reduce<Op, T>;
  }
}

template <bool is_last>
Primitive find_reduction_of(ReduceKind kind, Dtype dtype) {
  if (dtype == Dtype::kBool && kind == ReduceKind::kSum) kind = ReduceKind::kOr;
  if (dtype == Dtype::kBool && kind == ReduceKind::kProd) kind = ReduceKind::kAnd;
  return with_element_type(dtype, [kind]<class T>(T) -> Primitive {
    if constexpr (core_ops::Real<T>) {
      using Number = std::conditional_t<std::integral<T>, core_ops::Bits<T>, T>;
      switch (kind) {
        case ReduceKind::kSum:
          return reduction_of<is_last, SHOAL_CORE_OP(add), Number>();
        case ReduceKind::kProd:
          return reduction_of<is_last, SHOAL_CORE_OP(mul), Number>();
        case ReduceKind::kMax:
          return reduction_of<is_last, Max, Stored<T>>();
        case ReduceKind::kMin:
          return reduction_of<is_last, Min, Stored<T>>();
        case ReduceKind::kAnd:
          if constexpr (std::integral<T>) return reduction_of<is_last, SHOAL_CORE_OP(bit_and), Number>();
          break;
        case ReduceKind::kOr:
          if constexpr (std::integral<T>) return reduction_of<is_last, SHOAL_CORE_OP(bit_or), Number>();
          break;
      }
    }
    return nullptr;
  });
}

Primitive find_step(ReduceKind kind, Dtype dtype) { return find_reduction_of<false>(kind, dtype); }
Primitive find_last(ReduceKind kind, Dtype dtype) { return find_reduction_of<true>(kind, dtype); }

}  // namespace
}  // namespace shoal::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

Primitive find_primitive(scalar::Core core, Dtype result, Dtype from) { return SHOAL_SIMD(find)(core, result, from); }
Primitive find_pair(scalar::Core first, scalar::Core second, bool is_reversed, Dtype dtype) {
  return SHOAL_SIMD(find_pair_of)(first, second, is_reversed, dtype);
}
Primitive find_polynomial(Dtype dtype) { return SHOAL_SIMD(find_polynomial_of)(dtype); }
Primitive find_spread(std::size_t size) { return SHOAL_SIMD(find_spread_of)(size); }
PartialCopy find_partial_copy() { return SHOAL_SIMD(find_partial_copy_of)(); }
Primitive find_reduction(ReduceKind kind, Dtype dtype) { return SHOAL_SIMD(find_step)(kind, dtype); }
Primitive find_last_reduction(ReduceKind kind, Dtype dtype) { return SHOAL_SIMD(find_last)(kind, dtype); }

}  // namespace shoal::cpu
#endif
