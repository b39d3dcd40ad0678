#include "shoal/fft.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

using lax::FftType;

std::string name_of(FftType type) {
  switch (type) {
    case FftType::kFft:
      return "fft";
    case FftType::kIfft:
      return "ifft";
    case FftType::kRfft:
      return "rfft";
    default:
      return "irfft";
  }
}

bool is_inverse(FftType type) { return type == FftType::kIfft || type == FftType::kIrfft; }

// The operand in the dtype that the transform takes.
Array taken_by(FftType type, const Array& x) {
  const Dtype floats = inexact_dtype(x.dtype());
  if (type != FftType::kRfft) return convert(x, real_dtype(floats) == float64 ? complex128 : complex64);
  if (is_complex(floats)) throw misuse<InvalidArgument>("takes real numbers, not {}", type_of(x));
  return convert(x, floats);
}

Array transformed(const Array& x, FftType type, const Dims& dims, const Shape& lengths) {
  return bind_one("fft", {{"transform", name_of(type)}, {"dims", dims}, {"lengths", lengths}}, {x});
}

// What the result is multiplied by, of n numbers.
std::optional<double> factor_of(FftType type, const std::string& norm, double n) {
  if (norm == "backward") return {};
  if (norm != "ortho" && norm != "forward") {
    throw misuse<InvalidArgument>(R"(norm "{}" must be "backward", "ortho" or "forward")", norm);
  }
  const double size = norm == "ortho" ? std::sqrt(n) : n;
  return is_inverse(type) ? size : 1 / size;
}

// Cut off, or followed by zeros, to these extents along the dimensions.
Array with_extents(const Array& x, const Dims& dims, const Shape& extents) {
  std::vector<lax::PaddingConfig> padding(static_cast<std::size_t>(x.ndim()));
  bool changes = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t high = extents[i] - extent_of(x, dims[i]);
    padding[static_cast<std::size_t>(dims[i])].high = high;
    changes = changes || high != 0;
  }
  return changes ? lax::pad(x, convert(to_array(0), x.dtype()), padding) : x;
}

// Counted from the first one; each once.
Dims different_axes(const Dims& axes, std::size_t rank) {
  Dims dims;
  for (std::int64_t axis : axes) dims.push_back(canonical_axis(axis, rank));
  Dims sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw misuse<InvalidArgument>("axis {} is named twice", *twice);
  return dims;
}

// By the norm it is multiplied as transforms of the type `scaled_as` are.
Array transform(const Array& given, FftType type, const fft::FftnOptions& options, FftType scaled_as) {
  const auto rank = static_cast<std::int64_t>(given.ndim());
  if (options.s) {
    for (std::int64_t extent : *options.s) {
      if (extent < 1) throw misuse<InvalidArgument>("lengths must be positive, and one is {}", extent);
    }
    if (options.axes && options.axes->size() != options.s->size()) {
      throw misuse<InvalidArgument>("there are {} lengths and {} axes; there must be as many", options.s->size(),
                                    options.axes->size());
    }
    if (static_cast<std::int64_t>(options.s->size()) > rank) {
      throw misuse<InvalidArgument>("there are {} lengths, and {} has only {} dimensions", options.s->size(),
                                    type_of(given), rank);
    }
  }
  Dims dims;
  if (options.axes) {
    dims = different_axes(*options.axes, given.ndim());
  } else {
    for (std::int64_t d = options.s ? rank - static_cast<std::int64_t>(options.s->size()) : 0; d < rank; ++d) {
      dims.push_back(d);
    }
  }
  Array x = taken_by(type, given);
  if (dims.empty()) {
    static_cast<void>(factor_of(scaled_as, options.norm, 1));
    return x;
  }
  Shape lengths;
  if (options.s) {
    lengths = *options.s;
    Shape extents = lengths;
    if (type == FftType::kIrfft) extents.back() = extents.back() / 2 + 1;
    x = with_extents(x, dims, extents);
  } else {
    for (std::int64_t d : dims) lengths.push_back(extent_of(x, d));
    if (type == FftType::kIrfft) lengths.back() = std::max<std::int64_t>(0, 2 * (lengths.back() - 1));
  }
  double count = 1;
  for (std::int64_t length : lengths) count *= static_cast<double>(length);
  const std::optional<double> factor = factor_of(scaled_as, options.norm, count);
  const Array result = transformed(x, type, dims, lengths);
  return factor ? result * *factor : result;
}

Array transform(const Array& given, FftType type, const fft::FftnOptions& options) {
  return transform(given, type, options, type);
}

Array one_dimension(const Array& a, FftType type, const fft::FftOptions& options, FftType scaled_as) {
  fft::FftnOptions all{.s = {}, .axes = {}, .norm = options.norm};
  if (options.n) all.s = Shape{*options.n};
  if (options.axis) all.axes = Dims{*options.axis};
  return transform(a, type, all, scaled_as);
}

Array one_dimension(const Array& a, FftType type, const fft::FftOptions& options) {
  return one_dimension(a, type, options, type);
}

Array two_dimensions(const Array& a, FftType type, const fft::FftnOptions& options) {
  fft::FftnOptions last = options;
  if (!last.axes) last.axes = Dims{-2, -1};
  if (last.axes->size() != 2) {
    throw misuse<InvalidArgument>("takes 2 axes, and there are {}", last.axes->size());
  }
  return transform(a, type, last);
}

// The extent of a line along the axis of options.
std::int64_t line_of(const Array& a, const fft::FftOptions& options) {
  return extent_of(a, canonical_axis(options.axis.value_or(-1), a.ndim()));
}

// What samples that are `d` apart are divided by.
Array divided_by_span(const Array& k, const Operand& d, std::int64_t n) {
  if (d.number() != nullptr) {
    // The product of two numbers is rounded once.
    return k / (to_scalar(*d.number(), float64).as<double>() * static_cast<double>(n));
  }
  return k / convert(to_array(d) * n, k.dtype());
}

CreationOptions of_frequencies(const fft::FreqOptions& options) {
  return {.dtype = options.dtype.value_or(float32), .sharding = options.sharding};
}

Array shifted(const Array& x, const std::optional<Dims>& axes, std::int64_t direction) {
  Dims all;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(x.ndim()); ++d) all.push_back(d);
  const Dims& along = axes ? *axes : all;
  Dims shifts;
  for (std::int64_t axis : along) shifts.push_back(direction * (extent_of(x, canonical_axis(axis, x.ndim())) / 2));
  return along.empty() ? x : roll(x, shifts, Axes(along));
}

}  // namespace

namespace lax {

Array fft(const Operand& x, FftType type, const Shape& lengths) {
  const Caller caller("fft", x.where());
  const Array given = taken_by(type, to_array(x));
  if (lengths.empty()) return given;
  const auto count = static_cast<std::int64_t>(lengths.size());
  const auto rank = static_cast<std::int64_t>(given.ndim());
  if (count > rank) {
    throw misuse<InvalidArgument>("there are {} lengths, and {} has only {} dimensions", count, type_of(given), rank);
  }
  Dims dims;
  for (std::int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  return transformed(given, type, dims, lengths);
}

}  // namespace lax

namespace fft {

Array fft(const Operand& a, const FftOptions& options) {
  const Caller caller("fft", a.where());
  return one_dimension(to_array(a), FftType::kFft, options);
}
Array ifft(const Operand& a, const FftOptions& options) {
  const Caller caller("ifft", a.where());
  return one_dimension(to_array(a), FftType::kIfft, options);
}
Array rfft(const Operand& a, const FftOptions& options) {
  const Caller caller("rfft", a.where());
  return one_dimension(to_array(a), FftType::kRfft, options);
}
Array irfft(const Operand& a, const FftOptions& options) {
  const Caller caller("irfft", a.where());
  return one_dimension(to_array(a), FftType::kIrfft, options);
}
Array hfft(const Operand& a, const FftOptions& options) {
  const Caller caller("hfft", a.where());
  const Array x = to_array(a);
  const std::int64_t n = options.n ? *options.n : 2 * (line_of(x, options) - 1);
  return one_dimension(conj(x), FftType::kIrfft, options, FftType::kRfft) * n;
}
Array ihfft(const Operand& a, const FftOptions& options) {
  const Caller caller("ihfft", a.where());
  const Array x = to_array(a);
  const std::int64_t n = options.n ? *options.n : line_of(x, options);
  return conj(one_dimension(x, FftType::kRfft, options, FftType::kIrfft)) * (1 / static_cast<double>(n));
}

Array fft2(const Operand& a, const FftnOptions& options) {
  const Caller caller("fft2", a.where());
  return two_dimensions(to_array(a), FftType::kFft, options);
}
Array ifft2(const Operand& a, const FftnOptions& options) {
  const Caller caller("ifft2", a.where());
  return two_dimensions(to_array(a), FftType::kIfft, options);
}
Array rfft2(const Operand& a, const FftnOptions& options) {
  const Caller caller("rfft2", a.where());
  return two_dimensions(to_array(a), FftType::kRfft, options);
}
Array irfft2(const Operand& a, const FftnOptions& options) {
  const Caller caller("irfft2", a.where());
  return two_dimensions(to_array(a), FftType::kIrfft, options);
}
Array fftn(const Operand& a, const FftnOptions& options) {
  const Caller caller("fftn", a.where());
  return transform(to_array(a), FftType::kFft, options);
}
Array ifftn(const Operand& a, const FftnOptions& options) {
  const Caller caller("ifftn", a.where());
  return transform(to_array(a), FftType::kIfft, options);
}
Array rfftn(const Operand& a, const FftnOptions& options) {
  const Caller caller("rfftn", a.where());
  return transform(to_array(a), FftType::kRfft, options);
}
Array irfftn(const Operand& a, const FftnOptions& options) {
  const Caller caller("irfftn", a.where());
  return transform(to_array(a), FftType::kIrfft, options);
}

Array fftfreq(std::int64_t n, const Operand& d, const FreqOptions& options) {
  const Caller caller("fftfreq", d.where());
  const CreationOptions creation = of_frequencies(options);
  // Counted in floats: whole numbers up to 2^24 in f32, as in JAX.
  const std::int64_t half = n / 2;
  const Array k = remainder(arange({n, d.where()}, creation) + half, n) - half;
  return convert(divided_by_span(k, d, n), *creation.dtype);
}

Array rfftfreq(std::int64_t n, const Operand& d, const FreqOptions& options) {
  const Caller caller("rfftfreq", d.where());
  const CreationOptions creation = of_frequencies(options);
  return convert(divided_by_span(arange({n / 2 + 1, d.where()}, creation), d, n), *creation.dtype);
}

Array fftshift(const Operand& x, const std::optional<Dims>& axes) {
  const Caller caller("fftshift", x.where());
  return shifted(to_array(x), axes, 1);
}
Array ifftshift(const Operand& x, const std::optional<Dims>& axes) {
  const Caller caller("ifftshift", x.where());
  return shifted(to_array(x), axes, -1);
}

}  // namespace fft

// ---- Cosine transforms.

namespace {

// One dimension, the last: every second element, then the others from the end.
Array in_turn_from_both_ends(const Array& x) {
  const std::int64_t n = x.shape().back();
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  if (n < 3) return x;
  const Array even = lax::slice_in_dim(x, 0, n, 2, last);
  const Array odd = lax::slice_in_dim(x, 1, n, 2, last);
  return lax::concatenate({even, lax::rev(odd, {last})}, last);
}

// The same backwards.
Array from_both_ends_in_turn(const Array& x) {
  const std::int64_t n = x.shape().back();
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  if (n < 3) return x;
  const std::int64_t half = n - n / 2;
  const Array even = lax::slice_in_dim(x, 0, half, 1, last);
  Array odd = lax::rev(lax::slice_in_dim(x, half, n, 1, last), {last});
  std::vector<lax::PaddingConfig> padding(x.ndim());
  padding.back().high = half - n / 2;
  if (padding.back().high != 0) odd = lax::pad(odd, convert(to_array(0), x.dtype()), padding);
  Shape shape = x.shape();
  shape.back() = 2 * half;
  return lax::slice_in_dim(reshape(stack({even, odd}, -1), shape), 0, n, 1, last);
}

// exp(i pi k / (2 n)) for the first n / 2 + 1 k.
std::pair<Array, Array> quarter_turns(std::int64_t n, Dtype dtype) {
  constexpr double kPi = 3.14159265358979323846;
  const Array angle = lax::iota(dtype, n / 2 + 1) * (kPi / (2 * static_cast<double>(n)));
  return {cos(angle), sin(angle)};
}

// What makes the transform orthogonal.
Array orthogonal_scale(std::int64_t n, Dtype dtype) {
  const double root = std::sqrt(static_cast<double>(2 * n));
  return where(equal(lax::iota(int32, n), 0), full({}, 1 / (std::sqrt(2.0) * root), {.dtype = dtype}), 1 / root);
}

// With W the half of the transform of the rearranged line, turned by a quarter of the angle, element k is twice the
// real part of W[k], and element n - k twice the imaginary part, negative.
Array cosines(const Array& x, const std::string& norm) {
  const std::int64_t n = x.shape().back();
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  const Array half = transformed(in_turn_from_both_ends(x), FftType::kRfft, {last}, {n});
  const auto [c, s] = quarter_turns(n, x.dtype());
  const Array re = real(half);
  const Array im = imag(half);
  const Array below = 2.0 * (re * c + im * s);
  const Array above = lax::rev(lax::slice_in_dim(2.0 * (re * s - im * c), 1, n - n / 2, 1, last), {last});
  const Array result = lax::concatenate({below, above}, last);
  return norm == "ortho" ? result * orthogonal_scale(n, x.dtype()) : result;
}

Array of_cosines(const Array& x, const std::string& norm) {
  const std::int64_t n = x.shape().back();
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  const Array y = norm == "ortho" ? x / orthogonal_scale(n, x.dtype()) : x;
  const Array re = lax::slice_in_dim(y, 0, n / 2 + 1, 1, last) * 0.5;
  // Elements n, n - 1, … of which the first is 0.
  const Array above = lax::rev(lax::slice_in_dim(y, n - n / 2, n, 1, last), {last}) * -0.5;
  std::vector<lax::PaddingConfig> padding(x.ndim());
  padding.back().low = 1;
  const Array im = lax::pad(above, convert(to_array(0), y.dtype()), padding);
  const auto [c, s] = quarter_turns(n, x.dtype());
  const Array half = lax::complex(re * c - im * s, re * s + im * c);
  return from_both_ends_in_turn(transformed(half, FftType::kIrfft, {last}, {n}));
}

Array cosine_transform(const Array& given, const fft::DctnOptions& options, bool is_inverse) {
  if (options.norm != "backward" && options.norm != "ortho") {
    throw misuse<InvalidArgument>(R"(norm "{}" must be "backward" or "ortho")", options.norm);
  }
  if (is_complex(given.dtype())) {
    return lax::complex(cosine_transform(real(given), options, is_inverse),
                        cosine_transform(imag(given), options, is_inverse));
  }
  const auto rank = static_cast<std::int64_t>(given.ndim());
  Dims dims;
  if (options.axes) {
    dims = different_axes(*options.axes, given.ndim());
  }
  if (options.s) {
    const auto count = static_cast<std::int64_t>(options.s->size());
    if (count > rank || (options.axes && count != static_cast<std::int64_t>(dims.size()))) {
      throw misuse<InvalidArgument>("there are {} lengths, and {} axes of {}", count,
                                    options.axes ? static_cast<std::int64_t>(dims.size()) : rank, type_of(given));
    }
  }
  if (!options.axes) {
    for (std::int64_t d = options.s ? rank - static_cast<std::int64_t>(options.s->size()) : 0; d < rank; ++d) {
      dims.push_back(d);
    }
  }
  const Dtype result_dtype = inexact_dtype(given.dtype());
  const bool is_half = size_of(result_dtype) < size_of(float32);
  Array x = convert(given, is_half ? float32 : result_dtype);
  if (options.s) {
    for (std::int64_t extent : *options.s) {
      if (extent < 1) throw misuse<InvalidArgument>("lengths must be positive, and one is {}", extent);
    }
    x = with_extents(x, dims, *options.s);
  }
  for (std::int64_t d : dims) {
    if (extent_of(x, d) == 0) throw misuse<InvalidArgument>("{} has no elements along axis {}", type_of(x), d);
    const Array line = moveaxis(x, d, -1);
    x = moveaxis(is_inverse ? of_cosines(line, options.norm) : cosines(line, options.norm), -1, d);
  }
  return convert(x, result_dtype);
}

Array cosine_transform(const Array& x, const fft::DctOptions& options, bool is_inverse) {
  fft::DctnOptions all{.s = {}, .axes = Dims{options.axis}, .norm = options.norm};
  if (options.n) all.s = Shape{*options.n};
  return cosine_transform(x, all, is_inverse);
}

}  // namespace

namespace fft {

Array dct(const Operand& x, const DctOptions& options) {
  const Caller caller("dct", x.where());
  return cosine_transform(to_array(x), options, false);
}
Array idct(const Operand& x, const DctOptions& options) {
  const Caller caller("idct", x.where());
  return cosine_transform(to_array(x), options, true);
}
Array dctn(const Operand& x, const DctnOptions& options) {
  const Caller caller("dctn", x.where());
  return cosine_transform(to_array(x), options, false);
}
Array idctn(const Operand& x, const DctnOptions& options) {
  const Caller caller("idctn", x.where());
  return cosine_transform(to_array(x), options, true);
}

}  // namespace fft
}  // namespace shoal
