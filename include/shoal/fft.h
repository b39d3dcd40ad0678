// Fourier transforms, as in jax.numpy.fft. Dimensions that are not transformed stay split as they are; those that are
// transformed are made whole.
//
// Everything is computed in the dtype of the operand: complex64 or complex128, and for real ones float32 or float64.
// Integers and bool count as float32 or, of 64 bits, as float64; float16 and bfloat16 become complex64 in transforms of
// complex numbers, and are refused by those of real ones.
//
// @param a An array, with at least one dimension.
// @param x An array.
// @param axis The dimension, from the end if negative.
// @param norm What is divided by n: "backward": inverses; "forward": the others; "ortho": all, by the root of n.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shoal/array.h"

namespace shoal {

namespace lax {

enum class FftType : std::uint8_t {
  kFft,    ///< Complex to complex: sums of x[j] exp(-2 pi i j k / n).
  kIfft,   ///< Its inverse, which divides by n.
  kRfft,   ///< Of real numbers: the first n / 2 + 1 results; the others are their conjugates.
  kIrfft,  ///< Its inverse.
};

/// A transform over the last `lengths.size()` dimensions; lengths are the extents of the operand or, for kIrfft, of the
/// result: its operand has lengths[i] / 2 + 1 elements along the last dimension. Without lengths the result is the
/// operand in the transform's dtype. Throws InvalidArgument for other extents, and for operands of kRfft that are
/// complex, float16 or bfloat16.
/// @param type Which transform.
/// @param lengths The extents that are transformed.
/// @return An array with as many dimensions as x.
Array fft(const Operand& x, FftType type, const Shape& lengths);

}  // namespace lax

namespace fft {

struct FftOptions {
  /// The number of elements that are transformed: longer lines are cut off, and shorter ones are followed by zeros.
  /// Default: all elements. For irfft and hfft: the number of elements of the result; default: 2 (m - 1) for m given
  /// ones.
  std::optional<std::int64_t> n = {};
  std::optional<std::int64_t> axis = -1;  ///< nullopt: all, or the last if there is an n.
  /// What is divided by n: "backward": inverses; "forward": the others; "ortho": all, by the root of n.
  std::string norm = "backward";
};

// Transforms of one dimension. Throw OutOfRange for an axis that the operand lacks, InvalidArgument for n below 1, for
// an unknown norm, and for complex operands of rfft and ihfft.

/// The sums of a[j] exp(-2 pi i j k / n) over j, for each k. Throws OutOfRange for an axis that the operand lacks, and
/// InvalidArgument for n below 1 and for an unknown norm.
/// @return Complex numbers, n along the axis.
/// @example fft::fft(array({1.0f, 0.0f, 0.0f, 0.0f}))
///   [1.+0.j 1.+0.j 1.+0.j 1.+0.j]
Array fft(const Operand& a, const FftOptions& options = {});
/// The inverse of fft. Throws OutOfRange for an axis that the operand lacks, and InvalidArgument for n below 1 and for
/// an unknown norm.
/// @return Complex numbers, n along the axis.
Array ifft(const Operand& a, const FftOptions& options = {});
/// The first n / 2 + 1 results of fft of real numbers; the others are their conjugates. Throws OutOfRange for an axis
/// that the operand lacks, and InvalidArgument for n below 1, for an unknown norm and for a complex operand.
/// @return Complex numbers, n / 2 + 1 along the axis.
/// @example fft::rfft(array({1.0f, 1.0f, 1.0f, 1.0f}))
///   [4.+0.j 0.+0.j 0.+0.j]
Array rfft(const Operand& a, const FftOptions& options = {});
/// The inverse of rfft. Throws OutOfRange for an axis that the operand lacks, and InvalidArgument for n below 1 and for
/// an unknown norm.
/// @return Real numbers, n along the axis.
Array irfft(const Operand& a, const FftOptions& options = {});
/// The transform of a line of which the first half is given and the second is its reversed conjugate; the result is
/// real.
/// @return Real numbers, n along the axis.
Array hfft(const Operand& a, const FftOptions& options = {});
/// The inverse of hfft.
/// @return Complex numbers, n / 2 + 1 along the axis.
Array ihfft(const Operand& a, const FftOptions& options = {});

struct FftnOptions {
  /// As n in FftOptions, for each axis.
  std::optional<Shape> s = {};
  /// Default: the last two, for functions of two dimensions; else as many of the last as `s` has, or all.
  std::optional<Dims> axes = {};
  std::string norm = "backward";
};

// Transforms of several dimensions; along the last axis, real transforms have half of the elements. Throw
// InvalidArgument also for an axis that is named twice, and for `s` and `axes` of different lengths, or of other
// lengths than two in functions of two dimensions.

/// fftn over the last two dimensions. Throws InvalidArgument if not two axes are given.
/// @return Complex numbers.
Array fft2(const Operand& a, const FftnOptions& options = {});
/// The inverse of fft2.
/// @return Complex numbers.
Array ifft2(const Operand& a, const FftnOptions& options = {});
/// rfftn over the last two dimensions. Throws InvalidArgument if not two axes are given, and for a complex operand.
/// @return Complex numbers, half along the last of the axes.
Array rfft2(const Operand& a, const FftnOptions& options = {});
/// The inverse of rfft2.
/// @return Real numbers.
Array irfft2(const Operand& a, const FftnOptions& options = {});
/// fft along several dimensions, one after the other. Throws InvalidArgument for an axis that is named twice, and for
/// `s` and `axes` of different lengths.
/// @return Complex numbers.
Array fftn(const Operand& a, const FftnOptions& options = {});
/// The inverse of fftn.
/// @return Complex numbers.
Array ifftn(const Operand& a, const FftnOptions& options = {});
/// rfft along the last of several dimensions, then fft along the others. Throws InvalidArgument for an axis that is
/// named twice, for `s` and `axes` of different lengths, and for a complex operand.
/// @return Complex numbers, half along the last of the axes.
Array rfftn(const Operand& a, const FftnOptions& options = {});
/// The inverse of rfftn.
/// @return Real numbers.
Array irfftn(const Operand& a, const FftnOptions& options = {});

struct FreqOptions {
  std::optional<Dtype> dtype = {};        ///< Default: float32.
  std::optional<Sharding> sharding = {};  ///< Where the result lies.
};
/// The frequencies of fft's n results, for samples that are `d` apart: k / (d n), those of the second half negative.
/// @param n How many.
/// @param d The distance of samples.
/// @return A vector.
/// @example fft::fftfreq(4)
///   [ 0.    0.25 -0.5  -0.25]
Array fftfreq(std::int64_t n, const Operand& d = 1.0, const FreqOptions& options = {});
/// The frequencies of the results of rfft.
/// @param n How many samples.
/// @param d The distance of samples.
/// @return A vector of n / 2 + 1.
/// @example fft::rfftfreq(4)
///   [0.   0.25 0.5 ]
Array rfftfreq(std::int64_t n, const Operand& d = 1.0, const FreqOptions& options = {});
/// x rolled along the axes, all by default, so that frequency 0 is in the middle; ifftshift rolls it back.
/// @param axes The dimensions.
/// @return An array of the shape of x.
/// @example fft::fftshift(arange(5))
///   [3 4 0 1 2]
Array fftshift(const Operand& x, const std::optional<Dims>& axes = {});
/// fftshift rolled back.
/// @param axes The dimensions.
/// @return An array of the shape of x.
Array ifftshift(const Operand& x, const std::optional<Dims>& axes = {});

// ---- The cosine transform of type II and its inverse, as in jax.scipy.fft, of real numbers and integers as floats; of
// complex ones both parts are transformed. By a real Fourier transform of as many elements (Makhoul 1980, "A fast
// cosine transform in one and two dimensions").

struct DctOptions {
  std::optional<std::int64_t> n = {};  ///< The number of elements that are transformed, as in fft.
  std::int64_t axis = -1;
  /// "backward": sums of 2 x[j] cos(pi k (2 j + 1) / (2 n)); "ortho": scaled so that the transform is orthogonal.
  std::string norm = "backward";
};
/// The cosine transform of type II. Throws OutOfRange for an axis that the operand lacks, and InvalidArgument for n
/// below 1, for lines without elements and for other norms.
/// @return An array with n along the axis.
Array dct(const Operand& x, const DctOptions& options = {});
/// The inverse of dct. Throws as it.
/// @return An array with n along the axis.
Array idct(const Operand& x, const DctOptions& options = {});

struct DctnOptions {
  std::optional<Shape> s = {};    ///< As n, for each axis.
  std::optional<Dims> axes = {};  ///< Default: as many of the last as `s` has, or all.
  std::string norm = "backward";
};
/// dct along several dimensions. Throws as dct, and InvalidArgument for `s` and `axes` of different lengths.
/// @return An array.
Array dctn(const Operand& x, const DctnOptions& options = {});
/// The inverse of dctn. Throws as it.
/// @return An array.
Array idctn(const Operand& x, const DctnOptions& options = {});

}  // namespace fft
}  // namespace shoal
