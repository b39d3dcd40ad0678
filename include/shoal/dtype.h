// Element types: bool, signed and unsigned integers, floats (f16, bf16, f32, f64), complex numbers, and keys of random
// numbers, with which nothing is computed.
//
// @param dtype The dtype.
// @param a The one dtype.
// @param b The other one.
// @param value The number.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace shoal {

enum class Dtype : std::uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kKeyFry,
  kKeyRbg,
  kKeyUnsafeRbg,
};

/// Of numbers; keys come after them.
inline constexpr int kNumDtypes = 15;
inline constexpr int kNumKeyDtypes = 3;

// The names of NumPy and JAX.
inline constexpr Dtype bool_ = Dtype::kBool;
inline constexpr Dtype int8 = Dtype::kI8;
inline constexpr Dtype int16 = Dtype::kI16;
inline constexpr Dtype int32 = Dtype::kI32;
inline constexpr Dtype int64 = Dtype::kI64;
inline constexpr Dtype uint8 = Dtype::kU8;
inline constexpr Dtype uint16 = Dtype::kU16;
inline constexpr Dtype uint32 = Dtype::kU32;
inline constexpr Dtype uint64 = Dtype::kU64;
inline constexpr Dtype float16 = Dtype::kF16;
inline constexpr Dtype bfloat16 = Dtype::kBF16;
inline constexpr Dtype float32 = Dtype::kF32;
inline constexpr Dtype float64 = Dtype::kF64;
inline constexpr Dtype complex64 = Dtype::kC64;
inline constexpr Dtype complex128 = Dtype::kC128;
/// Keys of random numbers, one dtype for each implementation: "key<fry>" of threefry2x32, "key<rbg>" of rbg, and
/// "key<urbg>" of unsafe_rbg. JAX has no other names for them.
inline constexpr Dtype key_fry = Dtype::kKeyFry;
inline constexpr Dtype key_rbg = Dtype::kKeyRbg;
inline constexpr Dtype key_urbg = Dtype::kKeyUnsafeRbg;

/// Bytes of one element.
std::size_t size_of(Dtype dtype);

/// "float32", "bfloat16", "bool", …
std::string_view name_of(Dtype dtype);

/// The short form of types in text: "f32", "bf16", "bool", "i32", "c64", …
std::string_view short_name_of(Dtype dtype);

/// Inverse of `name_of` and `short_name_of`. Throws InvalidArgument for any other text.
/// @param name The name.
Dtype parse_dtype(std::string_view name);

bool is_integer(Dtype dtype);   ///< i8–i64 and u8–u64; not bool.
bool is_signed(Dtype dtype);    ///< i8–i64, floats and complex.
bool is_floating(Dtype dtype);  ///< f16, bf16, f32, f64.
bool is_complex(Dtype dtype);
bool is_key(Dtype dtype);
/// f32 for c64 and f64 for c128; every other dtype is returned as it is.
Dtype real_dtype(Dtype dtype);

std::ostream& operator<<(std::ostream& out, Dtype dtype);  ///< Writes `name_of`.

/// A dtype together with whether it is weak: a weak type comes from a C++ scalar and gives way to typed data.
struct DtypeAndWeakness {
  Dtype dtype;
  bool weak = false;
  friend bool operator==(const DtypeAndWeakness&, const DtypeAndWeakness&) = default;
};

/// The dtype of an operation on both, by the type lattice of JAX (standard promotion, without 64-bit truncation):
/// weak ints and floats give way to typed operands; two weak operands give the wider kind, weak.
DtypeAndWeakness promote_types(DtypeAndWeakness a, DtypeAndWeakness b);

/// IEEE binary16 as a storage type: arithmetic converts to float and back, rounding to nearest even.
struct float16_t {
  std::uint16_t bits = 0;
  float16_t() = default;
  float16_t(float value);
  operator float() const;
  friend bool operator==(float16_t a, float16_t b) { return static_cast<float>(a) == static_cast<float>(b); }
};

/// bfloat16 as a storage type: the upper half of an f32, rounded to nearest even.
struct bfloat16_t {
  std::uint16_t bits = 0;
  bfloat16_t() = default;
  bfloat16_t(float value);
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
  friend bool operator==(bfloat16_t a, bfloat16_t b) { return static_cast<float>(a) == static_cast<float>(b); }
};

/// The C++ types that hold one element of each dtype.
template <class T>
concept Element = std::same_as<T, bool> || std::integral<T> || std::same_as<T, float16_t> ||
    std::same_as<T, bfloat16_t> || std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

/// The dtype whose elements a C++ type holds; any integer type by its size and sign.
template <Element T>
constexpr Dtype dtype_of() {
  if constexpr (std::same_as<T, bool>) {
    return Dtype::kBool;
  } else if constexpr (std::integral<T>) {
    constexpr int kLog2 = std::countr_zero(sizeof(T));
    return static_cast<Dtype>(static_cast<int>(std::signed_integral<T> ? Dtype::kI8 : Dtype::kU8) + kLog2);
  } else if constexpr (std::same_as<T, float16_t>) {
    return Dtype::kF16;
  } else if constexpr (std::same_as<T, bfloat16_t>) {
    return Dtype::kBF16;
  } else if constexpr (std::same_as<T, float>) {
    return Dtype::kF32;
  } else if constexpr (std::same_as<T, double>) {
    return Dtype::kF64;
  } else if constexpr (std::same_as<T, std::complex<float>>) {
    return Dtype::kC64;
  } else {
    return Dtype::kC128;
  }
}

}  // namespace shoal
