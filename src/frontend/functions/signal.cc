#include "shoal/signal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/caller.h"
#include "base/log.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/contractions.h"
#include "shoal/convolution.h"
#include "shoal/fft.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/statistics.h"

namespace shoal::signal {
namespace {

constexpr double kTurn = 6.28318530717958647692;

// ---- Convolutions.

void check_mode(const std::string& mode) {
  if (mode == "full" || mode == "same" || mode == "valid") return;
  throw misuse<InvalidArgument>(R"(mode "{}"; it is "full", "same" or "valid")", mode);
}

// The two operands as floats of one dtype, with their own shapes.
std::pair<Array, Array> floats_of(const Operand& a, const Operand& b) {
  const auto [x, y] = promote_dtypes(a, b);
  const Dtype dtype = inexact_dtype(x.dtype());
  return {convert(x, dtype), convert(y, dtype)};
}

void check_ranks(const Array& x, const Array& y) {
  if (x.ndim() != y.ndim()) {
    throw misuse<InvalidArgument>("operands {} and {} must have the same number of dimensions", type_of(x), type_of(y));
  }
  if (x.size() == 0 || y.size() == 0) {
    throw misuse<InvalidArgument>("takes operands with elements, not {} and {}", type_of(x), type_of(y));
  }
}

// Whether one of them is at least as large as the other along all of the dimensions: which the second is.
bool second_is_larger(const Array& x, const Array& y, const Dims& dims) {
  bool first = true;
  bool second = true;
  for (std::int64_t d : dims) {
    first = first && extent_of(x, d) >= extent_of(y, d);
    second = second && extent_of(x, d) <= extent_of(y, d);
  }
  if (!first && !second) {
    throw misuse<InvalidArgument>(
        "one operand must be at least as large as the other in every dimension; they are {} and {}", type_of(x),
        type_of(y));
  }
  return !first;
}

Dims all_dims(const Array& x) {
  Dims dims(x.ndim());
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  return dims;
}

// Where "same" begins in "full", for an in2 of n elements.
using MiddleOf = std::int64_t (*)(std::int64_t n);
std::int64_t middle(std::int64_t n) { return (n - 1) / 2; }
std::int64_t upper_middle(std::int64_t n) { return n / 2; }

Array direct(const Array& in1, const Array& in2, const std::string& mode, MiddleOf begin_of_same = &middle) {
  check_mode(mode);
  check_ranks(in1, in2);
  const bool swapped = second_is_larger(in1, in2, all_dims(in1));
  const Array x = swapped ? in2 : in1;
  const Array window = swapped ? in1 : in2;
  std::vector<lax::WindowPadding::Pair> padding;
  for (std::size_t d = 0; d < x.ndim(); ++d) {
    const std::int64_t n = window.shape()[d];
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (mode == "full") low = high = n - 1;
    if (mode == "same") {
      low = n - 1 - begin_of_same(in2.shape()[d]);
      high = in1.shape()[d] - x.shape()[d] + n - 1 - low;
    }
    padding.emplace_back(low, high);
  }
  if (x.ndim() == 0) return x * window;
  const auto with_features = [](const Array& a) { return expand_dims(a, Dims{0, 1}); };
  const Array result = lax::conv_general_dilated(with_features(x), with_features(flip(window)), Dims(x.ndim(), 1),
                                                 lax::WindowPadding(padding));
  return squeeze(result, Axes{0, 1});
}

// The next length whose transforms are fast.
std::int64_t next_length(std::int64_t n) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t fives = 1; fives < best; fives *= 5) {
    for (std::int64_t odd = fives; odd < best; odd *= 3) {
      std::int64_t length = odd;
      while (length < n) length *= 2;
      best = std::min(best, length);
      if (odd >= n) break;
    }
    if (fives >= n) break;
  }
  return best;
}

Array by_transforms(const Array& in1, const Array& in2, const FftConvolveOptions& options) {
  check_mode(options.mode);
  check_ranks(in1, in2);
  Dims dims;
  if (options.axes) {
    for (std::int64_t axis : *options.axes) dims.push_back(canonical_axis(axis, in1.ndim()));
    std::sort(dims.begin(), dims.end());
    const auto twice = std::adjacent_find(dims.begin(), dims.end());
    if (twice != dims.end()) throw misuse<InvalidArgument>("axis {} is named twice", *twice);
  } else {
    dims = all_dims(in1);
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(in1.ndim()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end() || extent_of(in1, d) == extent_of(in2, d)) continue;
    throw misuse<InvalidArgument>(
        "{} and {} must have equal extents in dimension {}, which is no axis of the convolution", type_of(in1),
        type_of(in2), d);
  }
  const bool swapped = options.mode == "valid" && second_is_larger(in1, in2, dims);
  const Array x = swapped ? in2 : in1;
  const Array y = swapped ? in1 : in2;
  Dims starts(x.ndim(), 0);
  Dims limits = x.shape();
  Shape lengths;
  bool is_product = true;
  for (std::int64_t d : dims) {
    const std::int64_t full = extent_of(x, d) + extent_of(y, d) - 1;
    std::int64_t n = full;
    if (options.mode == "same") n = extent_of(x, d);
    if (options.mode == "valid") n = extent_of(x, d) - extent_of(y, d) + 1;
    starts[static_cast<std::size_t>(d)] = (full - n) / 2;
    limits[static_cast<std::size_t>(d)] = (full - n) / 2 + n;
    lengths.push_back(next_length(full));
    is_product = is_product && (extent_of(x, d) == 1 || extent_of(y, d) == 1);
  }
  if (is_product) return lax::slice(x * y, starts, limits);
  const fft::FftnOptions transform{.s = lengths, .axes = dims};
  const auto spectrum = [&](const Array& a) {
    return is_complex(a.dtype()) ? fft::fftn(a, transform) : fft::rfftn(a, transform);
  };
  const Array product = spectrum(x) * spectrum(y);
  const Array line = is_complex(x.dtype()) ? fft::ifftn(product, transform) : fft::irfftn(product, transform);
  return lax::slice(convert(line, x.dtype()), starts, limits);
}

Array convolved(const Array& x, const Array& y, const ConvolveOptions& options) {
  if (options.method == "fft") {
    // Transforms have no f16 and bf16.
    const bool is_half = is_floating(x.dtype()) && size_of(x.dtype()) < size_of(float32);
    if (!is_half) return by_transforms(x, y, {.mode = options.mode});
    return convert(by_transforms(convert(x, float32), convert(y, float32), {.mode = options.mode}), x.dtype());
  }
  if (options.method == "direct" || options.method == "auto") return direct(x, y, options.mode);
  throw misuse<InvalidArgument>(R"(method "{}"; it is "auto", "direct" or "fft")", options.method);
}

void check_matrices(const Array& x, const Array& y) {
  if (x.ndim() == 2 && y.ndim() == 2) return;
  throw misuse<InvalidArgument>("takes two matrices, not {} and {}", type_of(x), type_of(y));
}

// ---- Trends.

Array without_line(const Array& x, std::int64_t axis) {
  const std::int64_t n = extent_of(x, axis);
  Shape along(x.ndim(), 1);
  along[static_cast<std::size_t>(axis)] = n;
  // Positions from the middle: the mean and the slope have nothing to do with each other then.
  const Array place = reshape(lax::iota(real_dtype(x.dtype()), n) - static_cast<double>(n - 1) / 2, along);
  const double count = static_cast<double>(n);
  const double squares = count * (count * count - 1) / 12;
  const ReduceOptions lines{.axis = Axes(Dims{axis}), .keepdims = true};
  const Array centred = x - mean(x, lines);
  if (squares == 0) return centred;
  return centred - place * (sum(centred * place, lines) * (1 / squares));
}

Array detrended(const Array& data, const DetrendOptions& options) {
  const Array x = convert(data, inexact_dtype(data.dtype()));
  const std::int64_t axis = canonical_axis(options.axis, x.ndim());
  if (options.type == "constant") return x - mean(x, {.axis = Axes(Dims{axis}), .keepdims = true});
  if (options.type != "linear") {
    throw misuse<InvalidArgument>(R"(type "{}"; it is "constant" or "linear")", options.type);
  }
  const std::int64_t n = extent_of(x, axis);
  Dims ends = options.breakpoints;
  ends.push_back(0);
  ends.push_back(n);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.front() < 0 || ends.back() > n) {
    throw misuse<InvalidArgument>("breakpoints {} must lie between 0 and {}, the extent along axis {}",
                                  to_string(options.breakpoints), n, axis);
  }
  if (ends.size() <= 2) return without_line(x, axis);
  std::vector<Array> parts;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    parts.push_back(without_line(lax::slice_in_dim(x, ends[i], ends[i + 1], 1, axis), axis));
  }
  return lax::concatenate(Operands(parts), axis);
}

// ---- Windows and segments.

Array window_of_name(const std::string& name, std::int64_t n, Dtype dtype) {
  if (n == 1) return ones({1}, {.dtype = dtype});
  // Angles in turns, of which the last sample is one step before the whole.
  const Array turn = lax::iota(dtype, n) / static_cast<double>(n);
  const auto wave = [&](double times) { return cos(turn * (kTurn * times)); };
  if (name == "hann") return square(sin(turn * (kTurn / 2)));
  if (name == "hamming") return 0.54 - 0.46 * wave(1);
  if (name == "blackman") return 0.42 - 0.5 * wave(1) + 0.08 * wave(2);
  if (name == "bartlett") return 1.0 - abs(2.0 * turn - 1.0);
  if (name == "boxcar") return ones({n}, {.dtype = dtype});
  throw misuse<InvalidArgument>(
      R"(window "{}"; it is "hann", "hamming", "blackman", "bartlett", "boxcar", or the elements of one)", name);
}

// How a signal is cut.
struct Segments {
  std::int64_t length;
  std::int64_t overlap;
  std::int64_t transform;

  std::int64_t step() const { return length - overlap; }

  void check() const {
    if (length < 1) throw misuse<InvalidArgument>("nperseg is {}; it must be at least 1", length);
    if (transform < length) {
      throw misuse<InvalidArgument>("nfft is {}; it must be at least nperseg, which is {}", transform, length);
    }
    if (overlap < 0 || overlap >= length) {
      throw misuse<InvalidArgument>("noverlap is {}; it must be less than nperseg, which is {}", overlap, length);
    }
  }
};

Array elements_of(const Window& window, std::int64_t length, Dtype dtype) {
  if (window.name() != nullptr) return window_of_name(*window.name(), length, dtype);
  const Array& elements = *window.elements();
  if (elements.ndim() != 1 || elements.size() != length) {
    throw misuse<InvalidArgument>("the window {} must be a vector of {}, which is nperseg", type_of(elements), length);
  }
  return is_complex(elements.dtype()) ? elements : convert(elements, dtype);
}

// What spectra of one and of two signals have in common.
struct Request {
  Operand fs;
  Window window;
  std::optional<std::int64_t> nperseg;
  std::optional<std::int64_t> noverlap;
  std::optional<std::int64_t> nfft;
  Trend detrend;
  bool return_onesided;
  std::string scaling;
  std::int64_t axis;
  std::optional<std::string> boundary;
  bool padded;
  bool is_power;
};

// The last dimension longer by n at both ends.
Array extended(const Array& x, const std::string& how, std::int64_t n) {
  std::vector<PadWidth::Pair> width(x.ndim(), {0, 0});
  width.back() = {n, n};
  PadOptions options;
  if (how == "even" || how == "odd") {
    options.mode = "reflect";
    options.odd = how == "odd";
    const std::int64_t most = x.shape().back() - 1;
    if (n > most) {
      throw misuse<InvalidArgument>("boundary \"{}\" takes {} elements beyond each end, of a signal that has {}", how,
                                    n, most + 1);
    }
  } else if (how == "constant") {
    options.mode = "edge";
  } else if (how != "zeros") {
    throw misuse<InvalidArgument>(R"(boundary "{}"; it is "even", "odd", "constant", "zeros", or nothing)", how);
  }
  return n == 0 ? x : pad(x, PadWidth(width), options);
}

Array followed_by_zeros(const Array& x, std::int64_t count) {
  if (count == 0) return x;
  std::vector<lax::PaddingConfig> padding(x.ndim());
  padding.back().high = count;
  return lax::pad(x, convert(to_array(0), x.dtype()), padding);
}

// The segments of the last dimension, which becomes two.
Array cut(const Array& x, const Segments& segments) {
  const std::int64_t count = (x.shape().back() - segments.length) / segments.step() + 1;
  if (segments.overlap == 0) {
    Shape shape = x.shape();
    shape.back() = count;
    shape.push_back(segments.length);
    const Array whole = lax::slice_in_dim(x, 0, count * segments.length, 1, -1);
    return reshape(whole, shape);
  }
  const Array starts = expand_dims(lax::iota(int32, count) * segments.step(), std::int64_t{1});
  return take(x, starts + lax::iota(int32, segments.length), {.axis = -1, .mode = IndexMode::kClip});
}

Array without_trend(const Trend& trend, const Array& segments) {
  if (const auto* type = std::get_if<std::string>(&trend)) return detrended(segments, {.axis = -1, .type = *type});
  if (const auto* f = std::get_if<std::function<Array(const Array&)>>(&trend)) {
    const Caller::Pause users;
    return (*f)(segments);
  }
  return segments;
}

// Segments in the last dimension but one, frequencies in the last.
Array transformed(const Array& x, const Array& window, const Segments& segments, const Trend& trend, bool one_sided) {
  Array parts = cut(x, segments);
  parts = without_trend(trend, parts) * window;
  const fft::FftOptions options{.n = segments.transform};
  return one_sided ? fft::rfft(parts, options) : fft::fft(parts, options);
}

TimeSpectrum spectrum_of(const Operand& first, const Operand* second, const Request& request) {
  Array x = to_array(first);
  Array y = x;
  if (second != nullptr) {
    const auto [a, b] = promote_dtypes(first, *second);
    x = a;
    y = b;
    if (x.ndim() != y.ndim()) {
      throw misuse<InvalidArgument>("signals {} and {} must have the same number of dimensions", type_of(x),
                                    type_of(y));
    }
  }
  if (x.ndim() == 0) throw misuse<InvalidArgument>("a signal must have a dimension, and {} has none", type_of(x));
  const Dtype dtype = inexact_dtype(x.dtype());
  const Dtype real_part = real_dtype(dtype);
  const std::int64_t axis = canonical_axis(request.axis, x.ndim());
  x = moveaxis(convert(x, dtype), axis, -1);
  y = second == nullptr ? x : moveaxis(convert(y, dtype), axis, -1);
  const std::int64_t given = x.shape().back();
  if (x.size() == 0 || y.size() == 0) {
    const Array none = zeros(to_array(first).shape(), {.dtype = real_part});
    return {none, none, convert(none, real_part == float64 ? complex128 : complex64)};
  }

  Segments segments{.length = 0, .overlap = 0, .transform = 0};
  const bool is_named = request.window.name() != nullptr;
  segments.length = request.nperseg.value_or(is_named ? given : request.window.elements()->size());
  if (is_named && segments.length > given) {
    log_warning(fmt::format("{}: nperseg is {}, and the signal has {} elements along its axis: it is one segment",
                            Caller::function_or("spectrum"), segments.length, given));
    segments.length = given;
  } else if (segments.length > given) {
    throw misuse<InvalidArgument>("the window has {} elements, and the signal {} along axis {}", segments.length, given,
                                  axis);
  }
  segments.overlap = request.noverlap.value_or(segments.length / 2);
  segments.transform = request.nfft.value_or(segments.length);
  segments.check();
  const Array window = elements_of(request.window, segments.length, real_part);

  // The shorter signal is followed by zeros.
  const std::int64_t longer = std::max(given, y.shape().back());
  const auto prepared = [&](const Array& line) {
    Array result = followed_by_zeros(line, longer - line.shape().back());
    if (request.boundary) result = extended(result, *request.boundary, segments.length / 2);
    if (!request.padded) return result;
    const std::int64_t rest = (result.shape().back() - segments.length) % segments.step();
    return followed_by_zeros(result, rest == 0 ? 0 : (segments.step() - rest) % segments.length);
  };
  x = prepared(x);
  if (second != nullptr) y = prepared(y);
  const bool one_sided = request.return_onesided && !is_complex(dtype) && !is_complex(window.dtype());
  if (request.return_onesided && !one_sided) {
    log_warning(fmt::format("{}: of a complex signal there are all frequencies, as with return_onesided = false",
                            Caller::function_or("spectrum")));
  }

  const Array fs = convert(to_array(request.fs), real_part);
  Array scale;
  if (request.scaling == "density") {
    scale = 1.0 / (fs * sum(real(window * conj(window))));
  } else if (request.scaling == "spectrum") {
    scale = 1.0 / square(abs(sum(window)));
  } else {
    throw misuse<InvalidArgument>(R"(scaling "{}"; it is "density" or "spectrum")", request.scaling);
  }
  Array result = transformed(x, window, segments, request.detrend, one_sided);
  if (!request.is_power) {
    result = result * sqrt(scale);
  } else {
    result = second == nullptr ? square(real(result)) + square(imag(result))
                               : conj(result) * transformed(y, window, segments, request.detrend, one_sided);
    result = result * scale;
    if (one_sided) {
      // The other half of frequencies counts here; 0 and, of an even length, the last one have no partner.
      const std::int64_t last = segments.transform / 2 + segments.transform % 2;
      const Array k = lax::iota(int32, result.shape().back());
      result = result * where(logical_and(greater(k, 0), less(k, last)), convert(to_array(2), real_part), 1);
    }
  }
  const Array step = 1.0 / fs;
  const fft::FreqOptions of_floats{.dtype = real_part};
  const Array frequencies = one_sided ? fft::rfftfreq(segments.transform, step, of_floats)
                                      : fft::fftfreq(segments.transform, step, of_floats);
  const std::int64_t count = result.shape()[result.ndim() - 2];
  const double begin = request.boundary ? 0 : static_cast<double>(segments.length) / 2;
  const Array times = (lax::iota(real_part, count) * static_cast<double>(segments.step()) + begin) / fs;
  return {frequencies, times, moveaxis(result, -1, axis)};
}

// The bias of the median of n spectra, beside their mean (Allen et al. 2012, "FINDCHIRP", appendix B).
double bias_of_median(std::int64_t n) {
  double bias = 1;
  for (std::int64_t i = 2; i < n; i += 2) bias += 1 / static_cast<double>(i + 1) - 1 / static_cast<double>(i);
  return bias;
}

Spectrum averaged(const TimeSpectrum& all, const std::string& how) {
  Array power = all.spectrum;
  const std::int64_t count = power.ndim() < 2 ? 1 : power.shape().back();
  if (how != "mean" && how != "median") throw misuse<InvalidArgument>(R"(average "{}"; it is "mean" or "median")", how);
  if (power.ndim() >= 2 && power.size() > 0) {
    if (count == 1) {
      power = squeeze(power, -1);
    } else if (how == "mean") {
      power = mean(power, {.axis = -1});
    } else {
      const auto median_of = [](const Array& part) { return median(part, {.axis = -1}); };
      power =
          is_complex(power.dtype()) ? lax::complex(median_of(real(power)), median_of(imag(power))) : median_of(power);
      power = power / bias_of_median(count);
    }
  }
  return {all.frequencies, power};
}

Request power_by(const SpectrumOptions& options) {
  return {.fs = options.fs,
          .window = options.window,
          .nperseg = options.nperseg,
          .noverlap = options.noverlap,
          .nfft = options.nfft,
          .detrend = options.detrend,
          .return_onesided = options.return_onesided,
          .scaling = options.scaling,
          .axis = options.axis,
          .boundary = {},
          .padded = false,
          .is_power = true};
}

// Frames in the last dimension but one, added up where each begins `step` elements after the one before it.
Array overlapped(const Array& frames, std::int64_t step) {
  const std::int64_t count = frames.shape()[frames.ndim() - 2];
  const std::int64_t length = frames.shape().back();
  const std::int64_t parts = (length + step - 1) / step;
  const Array whole = followed_by_zeros(frames, parts * step - length);
  const Array zero = convert(to_array(0), frames.dtype());
  std::optional<Array> sum;
  for (std::int64_t p = 0; p < parts; ++p) {
    std::vector<lax::PaddingConfig> padding(frames.ndim());
    padding[frames.ndim() - 2] = {.low = p, .high = parts - 1 - p};
    const Array moved = lax::pad(lax::slice_in_dim(whole, p * step, (p + 1) * step, 1, -1), zero, padding);
    sum = sum ? *sum + moved : moved;
  }
  Shape shape(frames.shape().begin(), frames.shape().end() - 2);
  shape.push_back((count + parts - 1) * step);
  return lax::slice_in_dim(reshape(*sum, shape), 0, step * (count - 1) + length, 1, -1);
}

}  // namespace

Array convolve(const Operand& in1, const Operand& in2, const ConvolveOptions& options) {
  const Caller caller("convolve", in1.where());
  const auto [x, y] = floats_of(in1, in2);
  return convolved(x, y, options);
}

Array correlate(const Operand& in1, const Operand& in2, const ConvolveOptions& options) {
  const Caller caller("correlate", in1.where());
  const auto [x, y] = floats_of(in1, in2);
  return convolved(x, flip(conj(y)), options);
}

Array convolve2d(const Operand& in1, const Operand& in2, const std::string& mode) {
  const Caller caller("convolve2d", in1.where());
  const auto [x, y] = floats_of(in1, in2);
  check_matrices(x, y);
  return direct(x, y, mode);
}

Array correlate2d(const Operand& in1, const Operand& in2, const std::string& mode) {
  const Caller caller("correlate2d", in1.where());
  const auto [x, y] = floats_of(in1, in2);
  check_matrices(x, y);
  const Array result = direct(x, flip(conj(y)), mode, &upper_middle);
  // As in SciPy, where the smaller one is moved along the other, whichever it is.
  const bool is_moved = x.shape() != y.shape() && x.shape()[0] <= y.shape()[0] && x.shape()[1] <= y.shape()[1];
  return mode == "valid" && is_moved ? conj(result) : result;
}

Array fftconvolve(const Operand& in1, const Operand& in2, const FftConvolveOptions& options) {
  const Caller caller("fftconvolve", in1.where());
  const auto [x, y] = floats_of(in1, in2);
  return by_transforms(x, y, options);
}

Array detrend(const Operand& data, const DetrendOptions& options) {
  const Caller caller("detrend", data.where());
  return detrended(to_array(data), options);
}

Spectrum welch(const Operand& x, const SpectrumOptions& options) {
  const Caller caller("welch", x.where());
  TimeSpectrum all = spectrum_of(x, nullptr, power_by(options));
  all.spectrum = real(all.spectrum);
  return averaged(all, options.average);
}

Spectrum csd(const Operand& x, const Operand& y, const SpectrumOptions& options) {
  const Caller caller("csd", x.where());
  return averaged(spectrum_of(x, &y, power_by(options)), options.average);
}

TimeSpectrum stft(const Operand& x, const StftOptions& options) {
  const Caller caller("stft", x.where());
  return spectrum_of(x, nullptr,
                     {.fs = options.fs,
                      .window = options.window,
                      .nperseg = options.nperseg,
                      .noverlap = options.noverlap,
                      .nfft = options.nfft,
                      .detrend = options.detrend,
                      .return_onesided = options.return_onesided,
                      .scaling = "spectrum",
                      .axis = options.axis,
                      .boundary = options.boundary,
                      .padded = options.padded,
                      .is_power = false});
}

TimeSignal istft(const Operand& spectrum, const IstftOptions& options) {
  const Caller caller("istft", spectrum.where());
  const Array given = to_array(spectrum);
  if (given.ndim() < 2) {
    throw misuse<InvalidArgument>("takes a spectrum of at least 2 dimensions, not {}", type_of(given));
  }
  const std::int64_t frequencies = canonical_axis(options.freq_axis, given.ndim());
  const std::int64_t segments_axis = canonical_axis(options.time_axis, given.ndim());
  if (frequencies == segments_axis) {
    throw misuse<InvalidArgument>("freq_axis and time_axis are both {}; they must differ", frequencies);
  }
  const Dtype real_part = real_dtype(inexact_dtype(given.dtype()));
  const std::int64_t bins = extent_of(given, frequencies);
  const std::int64_t usual = options.input_onesided ? 2 * (bins - 1) : bins;
  Segments segments{.length = options.nperseg.value_or(usual), .overlap = 0, .transform = usual};
  if (options.input_onesided && segments.length == usual + 1) ++segments.transform;
  segments.transform = options.nfft.value_or(segments.transform);
  segments.overlap = options.noverlap.value_or(segments.length / 2);
  segments.check();
  const Array frames = moveaxis(given, Dims{segments_axis, frequencies}, Dims{-2, -1});
  const fft::FftOptions transform{.n = segments.transform};
  Array parts = options.input_onesided ? fft::irfft(frames, transform) : fft::ifft(frames, transform);
  parts = lax::slice_in_dim(parts, 0, segments.length, 1, -1);
  const Array window = elements_of(options.window, segments.length, real_part);
  Array signal = overlapped(parts * (window * sum(window)), segments.step());
  const Shape alike{frames.shape()[frames.ndim() - 2], segments.length};
  Array weight = overlapped(broadcast_to(square(window), alike), segments.step());
  if (options.boundary) {
    const std::int64_t half = segments.length / 2;
    const std::int64_t end = std::max(half, signal.shape().back() - half);
    signal = lax::slice_in_dim(signal, half, end, 1, -1);
    weight = lax::slice_in_dim(weight, half, end, 1, -1);
  }
  signal = signal / where(greater(real(weight), 1e-10), weight, 1);
  const Array fs = convert(to_array(options.fs), real_part);
  const Array times = lax::iota(real_part, signal.shape().back()) / fs;
  // The signal stands where the segments stood, among the dimensions that are left.
  const std::int64_t place = segments_axis - (frequencies < segments_axis ? 1 : 0);
  return {times, moveaxis(signal, -1, place)};
}

}  // namespace shoal::signal
