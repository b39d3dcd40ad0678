// Signals: convolutions of any number of dimensions, trends, and spectra of parts of a signal, as in jax.scipy.signal.
//
// Operands are taken as floats of their common dtype. Dimensions that are not transformed, and along which nothing
// moves, stay split as they are.
//
// @param in1 An array.
// @param in2 An array of as many dimensions.
// @param mode "full", "same" or "valid".
// @param x The signal.
// @param y Another signal of the same shape.
// @param fs The number of samples per unit of time.
// @param window The name of a window, or its elements.
// @param nperseg Elements of a segment.
// @param noverlap How many of them it shares with the next one; default: half of them.
// @param nfft The length of transforms; default: that of a segment.
// @param detrend What is subtracted from each segment: "constant", "linear", a function of segments, or nothing.
// @param return_onesided For real signals, only the first half of the frequencies.
// @param axis The dimension, from the end if negative.
// @param input_onesided Whether the spectrum has the first half of the frequencies alone.
// @param time_axis The dimension of the segments.
// @param freq_axis The dimension of the frequencies.
// @param name The name of the window.
// @param elements The elements of the window.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "shoal/array.h"

namespace shoal::signal {

// ---- Convolutions. Modes are "full": all positions where the operands overlap; "same": those in the middle, as many
// as in1 has elements; "valid": those where the smaller operand lies inside the other. Throw InvalidArgument for other
// modes, for operands of different ranks or without elements, and if neither operand is the smaller one in all
// dimensions.

struct ConvolveOptions {
  std::string mode = "full";
  /// "direct" and "auto" add up products; "fft" uses fftconvolve.
  std::string method = "auto";
};
/// The sums of products of in1 with in2 turned round, which moves along it.
Array convolve(const Operand& in1, const Operand& in2, const ConvolveOptions& options = {});
/// The sums of products of in1 with the conjugate of in2, which moves along it.
Array correlate(const Operand& in1, const Operand& in2, const ConvolveOptions& options = {});
/// convolve for matrices, with zero padding.
Array convolve2d(const Operand& in1, const Operand& in2, const std::string& mode = "full");
/// correlate for matrices, but as in SciPy: for "same" the centre differs if in2 has an even extent, and for "valid"
/// the result is conjugated if in1 is the smaller one.
Array correlate2d(const Operand& in1, const Operand& in2, const std::string& mode = "full");

struct FftConvolveOptions {
  std::string mode = "full";
  std::optional<Dims> axes = {};  ///< The convolved dimensions; default: all. The others have equal extents.
};
/// As convolve, by the product of Fourier transforms, whose length is the next one without factors other than 2, 3 and
/// 5. Errors are those of transforms, relative to the greatest element.
Array fftconvolve(const Operand& in1, const Operand& in2, const FftConvolveOptions& options = {});

// ---- Trends.

struct DetrendOptions {
  std::int64_t axis = -1;
  std::string type = "linear";  ///< "constant": subtract the mean; "linear": the line of least squares.
  Dims breakpoints = {};        ///< Each part between two of them has a line of its own.
};
/// Throws InvalidArgument for another type, and for breakpoints outside the axis.
/// The signal less its mean, or less the line of least squares.
/// @param data The signal.
/// @return An array of its shape.
Array detrend(const Operand& data, const DetrendOptions& options = {});

// ---- Spectra. A signal is cut into segments, each is multiplied by a window and transformed.

/// "hann", "hamming", "blackman", "bartlett" or "boxcar", in their periodic forms; or the elements of a window.
class Window {
 public:
  Window(const char* name) : value_(std::string(name)) {}
  Window(std::string name) : value_(std::move(name)) {}
  Window(Array elements) : value_(std::move(elements)) {}
  const std::string* name() const { return std::get_if<std::string>(&value_); }
  const Array* elements() const { return std::get_if<Array>(&value_); }

 private:
  std::variant<std::string, Array> value_;
};

/// "constant" or "linear", as in detrend; a function of segments along the last dimension; or nothing.
using Trend = std::variant<std::monostate, std::string, std::function<Array(const Array&)>>;

struct SpectrumOptions {
  Operand fs = 1.0;  ///< The number of samples per unit of time.
  Window window = "hann";
  std::optional<std::int64_t> nperseg =
      {};  ///< Elements of a segment; default: as many as the window or the signal has.
  std::optional<std::int64_t> noverlap = {};  ///< How many of them it shares with the next one; default: half of them.
  std::optional<std::int64_t> nfft = {};      ///< The length of transforms; default: nperseg.
  Trend detrend = std::string("constant");
  bool return_onesided = true;      ///< For real signals, only the first half of the frequencies.
  std::string scaling = "density";  ///< "density": power per hertz; "spectrum": power.
  std::int64_t axis = -1;
  std::string average = "mean";  ///< "mean" or "median" of the segments.
};
struct Spectrum {
  Array frequencies;
  Array density;
};
/// The power spectral density of x, by the method of Welch 1967, "The use of fast Fourier transform for the estimation
/// of power spectra". Throws InvalidArgument for lengths that do not fit, for a window that is not a vector of nperseg,
/// and for other words than those above.
Spectrum welch(const Operand& x, const SpectrumOptions& options = {});
/// The cross spectral density of two signals, complex.
Spectrum csd(const Operand& x, const Operand& y, const SpectrumOptions& options = {});

struct StftOptions {
  Operand fs = 1.0;
  Window window = "hann";
  std::int64_t nperseg = 256;
  std::optional<std::int64_t> noverlap = {};
  std::optional<std::int64_t> nfft = {};
  Trend detrend = {};
  bool return_onesided = true;
  /// How the signal is extended by half a segment at both ends: "even" or "odd": mirrored; "constant": by the outermost
  /// element; "zeros"; nullopt: not at all.
  std::optional<std::string> boundary = "zeros";
  bool padded = true;  ///< Append zeros, so that the last segment is whole.
  std::int64_t axis = -1;
};
struct TimeSpectrum {
  Array frequencies;
  Array times;     ///< The middles of segments.
  Array spectrum;  ///< Complex; frequencies are in the place of `axis`, and segments along the last dimension.
};
TimeSpectrum stft(const Operand& x, const StftOptions& options = {});

struct IstftOptions {
  Operand fs = 1.0;
  Window window = "hann";
  std::optional<std::int64_t> nperseg = {};  ///< Default: as many as the spectrum is of.
  std::optional<std::int64_t> noverlap = {};
  std::optional<std::int64_t> nfft = {};
  bool input_onesided = true;
  bool boundary = true;  ///< Cut off half a segment at both ends.
  std::int64_t time_axis = -1;
  std::int64_t freq_axis = -2;
};
struct TimeSignal {
  Array times;
  Array signal;
};
/// The signal of which stft makes this spectrum: the sum of the segments, weighted by the window (Griffin & Lim 1984,
/// "Signal estimation from modified short-time Fourier transform").
/// @param spectrum What stft gives.
TimeSignal istft(const Operand& spectrum, const IstftOptions& options = {});

}  // namespace shoal::signal
