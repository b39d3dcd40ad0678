// jax.scipy.signal, jax.scipy.fft, and what jax.scipy.stats has of functions of samples.
#include "shoal/signal.h"

#include <fmt/format.h>

#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "bindings/scipy/scipy.h"
#include "shoal/fft.h"
#include "shoal/statistics.h"

namespace shoal::python {
namespace {

// ---- Convolutions.

void bind_convolution(nb::module_& m, const char* name,
                      Array (*f)(const Operand&, const Operand&, const signal::ConvolveOptions&), const char* doc) {
  m.def(
      name,
      [f, name](nb::handle in1, nb::handle in2, const std::string& mode, const std::string& method,
                nb::handle precision) {
        static_cast<void>(precision);
        const Operand x = operand(in1, name, "in1");
        const Operand y = operand(in2, name, "in2");
        return unlocked([&] { return f(x, y, {.mode = mode, .method = method}); });
      },
      "in1"_x, "in2"_x, "mode"_a = "full", "method"_a = "auto", "precision"_x = nb::none(), doc);
}

void bind_of_matrices(nb::module_& m, const char* name, Array (*f)(const Operand&, const Operand&, const std::string&),
                      const char* doc) {
  m.def(
      name,
      [f, name](nb::handle in1, nb::handle in2, const std::string& mode, const std::string& boundary, double fillvalue,
                nb::handle precision) {
        static_cast<void>(precision);
        if (boundary != "fill" || fillvalue != 0) {
          not_implemented(
              fmt::format("{}: boundary is 'fill' and fillvalue 0, not '{}' and {}", name, boundary, fillvalue));
        }
        const Operand x = operand(in1, name, "in1");
        const Operand y = operand(in2, name, "in2");
        return unlocked([&] { return f(x, y, mode); });
      },
      "in1"_x, "in2"_x, "mode"_a = "full", "boundary"_a = "fill", "fillvalue"_a = 0.0, "precision"_x = nb::none(), doc);
}

// ---- Spectra.

signal::Window window_of(nb::handle window, const char* name) {
  if (PyUnicode_Check(window.ptr())) return nb::cast<std::string>(window);
  return to_array(window, name, "window");
}

// None and False: nothing; a name; or a function of Python.
signal::Trend trend_of(nb::handle trend, const char* name) {
  if (PyUnicode_Check(trend.ptr())) return nb::cast<std::string>(trend);
  if (trend.is_none() || trend.is(Py_False)) return {};
  if (PyCallable_Check(trend.ptr()) == 0) {
    value_error(
        fmt::format("{}: detrend must be 'constant', 'linear', a function or False, not {}", name, type_text(trend)));
  }
  return std::function<Array(const Array&)>([f = Held(trend), name](const Array& segments) {
    nb::gil_scoped_acquire gil;
    const nb::object result = f.get()(segments);
    return to_array(result, name, "the result of detrend");
  });
}

signal::SpectrumOptions spectrum_options(const char* name, nb::handle fs, nb::handle window, nb::handle nperseg,
                                         nb::handle noverlap, nb::handle nfft, nb::handle detrend, bool one_sided,
                                         const std::string& scaling, nb::handle axis, const std::string& average) {
  const auto what = [name](const char* argument) { return fmt::format("{}: {}", name, argument); };
  return {.fs = operand(fs, name, "fs"),
          .window = window_of(window, name),
          .nperseg = maybe_integer(nperseg, what("nperseg")),
          .noverlap = maybe_integer(noverlap, what("noverlap")),
          .nfft = maybe_integer(nfft, what("nfft")),
          .detrend = trend_of(detrend, name),
          .return_onesided = one_sided,
          .scaling = scaling,
          .axis = integer(axis, what("axis")),
          .average = average};
}

nb::object pair_of(const signal::Spectrum& spectrum) { return nb::make_tuple(spectrum.frequencies, spectrum.density); }

// ---- Cosine transforms.

std::string norm_of_cosines(nb::handle norm, const char* name) {
  if (norm.is_none()) return "backward";
  if (!PyUnicode_Check(norm.ptr())) value_error(fmt::format("{}: norm must be a string or None", name));
  return nb::cast<std::string>(norm);
}

void check_type(int type, const char* name) {
  if (type != 2) not_implemented(fmt::format("{}: type must be 2, not {}", name, type));
}

void bind_cosine(nb::module_& m, const char* name, Array (*f)(const Operand&, const fft::DctOptions&),
                 const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, int type, nb::handle n, nb::handle axis, nb::handle norm) {
        check_type(type, name);
        const Operand given = operand(x, name);
        const fft::DctOptions options{.n = maybe_integer(n, fmt::format("{}: n", name)),
                                      .axis = integer(axis, fmt::format("{}: axis", name)),
                                      .norm = norm_of_cosines(norm, name)};
        return unlocked([&] { return f(given, options); });
      },
      "x"_x, "type"_a = 2, "n"_x = nb::none(), "axis"_x = -1, "norm"_x = nb::none(), doc);
}

void bind_cosines_of_several(nb::module_& m, const char* name, Array (*f)(const Operand&, const fft::DctnOptions&),
                             const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, int type, nb::handle s, nb::handle axes, nb::handle norm) {
        check_type(type, name);
        const Operand given = operand(x, name);
        const fft::DctnOptions options{.s = maybe_dims(s, fmt::format("{}: s", name)),
                                       .axes = maybe_dims(axes, fmt::format("{}: axes", name)),
                                       .norm = norm_of_cosines(norm, name)};
        return unlocked([&] { return f(given, options); });
      },
      "x"_x, "type"_a = 2, "s"_x = nb::none(), "axes"_x = nb::none(), "norm"_x = nb::none(), doc);
}

void check_nan_policy(const std::string& policy, const char* name) {
  if (policy == "propagate") return;
  if (policy == "omit" || policy == "raise") not_implemented(fmt::format("{}: nan_policy '{}'", name, policy));
  value_error(fmt::format("{}: nan_policy must be 'propagate', not '{}'", name, policy));
}

}  // namespace

void bind_signal(nb::module_& m) {
  bind_convolution(m, "convolve", &signal::convolve, "The convolution of arrays of any number of dimensions.");
  bind_convolution(m, "correlate", &signal::correlate,
                   "The sums of products of in1 with in2, conjugated, moved along it.");
  bind_of_matrices(m, "convolve2d", &signal::convolve2d, "The convolution of two matrices.");
  bind_of_matrices(m, "correlate2d", &signal::correlate2d,
                   "The sums of products of a matrix with another, conjugated, moved along it.");
  m.def(
      "fftconvolve",
      [](nb::handle in1, nb::handle in2, const std::string& mode, nb::handle axes) {
        const Operand x = operand(in1, "fftconvolve", "in1");
        const Operand y = operand(in2, "fftconvolve", "in2");
        const signal::FftConvolveOptions options{.mode = mode, .axes = maybe_dims(axes, "fftconvolve: axes")};
        return unlocked([&] { return signal::fftconvolve(x, y, options); });
      },
      "in1"_x, "in2"_x, "mode"_a = "full", "axes"_x = nb::none(), "The convolution by Fourier transforms.");
  m.def(
      "detrend",
      [](nb::handle data, nb::handle axis, const std::string& type, nb::handle bp, nb::handle overwrite_data) {
        refuse("detrend", "overwrite_data", overwrite_data);
        const Operand x = operand(data, "detrend", "data");
        const signal::DetrendOptions options{
            .axis = integer(axis, "detrend: axis"), .type = type, .breakpoints = dims(bp, "detrend: bp")};
        return unlocked([&] { return signal::detrend(x, options); });
      },
      "data"_x, "axis"_x = -1, "type"_a = "linear", "bp"_x = 0, "overwrite_data"_x = nb::none(),
      "The data without its mean, or without the lines of least squares between breakpoints.");
  m.def(
      "welch",
      [](nb::handle x, nb::handle fs, nb::handle window, nb::handle nperseg, nb::handle noverlap, nb::handle nfft,
         nb::handle detrend, Flag one_sided, const std::string& scaling, nb::handle axis, const std::string& average) {
        const Operand given = operand(x, "welch");
        const signal::SpectrumOptions options =
            spectrum_options("welch", fs, window, nperseg, noverlap, nfft, detrend, one_sided, scaling, axis, average);
        return pair_of(unlocked([&] { return signal::welch(given, options); }));
      },
      "x"_x, "fs"_x = 1.0, "window"_x = "hann", "nperseg"_x = nb::none(), "noverlap"_x = nb::none(),
      "nfft"_x = nb::none(), "detrend"_x = "constant", "return_onesided"_a = true, "scaling"_a = "density",
      "axis"_x = -1, "average"_a = "mean", "Frequencies, and the density of power over them, by the method of Welch.");
  m.def(
      "csd",
      [](nb::handle x, nb::handle y, nb::handle fs, nb::handle window, nb::handle nperseg, nb::handle noverlap,
         nb::handle nfft, nb::handle detrend, Flag one_sided, const std::string& scaling, nb::handle axis,
         const std::string& average) {
        const Operand first = operand(x, "csd");
        const std::optional<Operand> second = maybe_operand(y, "csd", "y");
        const signal::SpectrumOptions options =
            spectrum_options("csd", fs, window, nperseg, noverlap, nfft, detrend, one_sided, scaling, axis, average);
        return pair_of(
            unlocked([&] { return second ? signal::csd(first, *second, options) : signal::welch(first, options); }));
      },
      "x"_x, "y"_x, "fs"_x = 1.0, "window"_x = "hann", "nperseg"_x = nb::none(), "noverlap"_x = nb::none(),
      "nfft"_x = nb::none(), "detrend"_x = "constant", "return_onesided"_a = true, "scaling"_a = "density",
      "axis"_x = -1, "average"_a = "mean", "Frequencies, and the density of the power that two signals share.");
  m.def(
      "stft",
      [](nb::handle x, nb::handle fs, nb::handle window, nb::handle nperseg, nb::handle noverlap, nb::handle nfft,
         nb::handle detrend, Flag one_sided, nb::handle boundary, Flag padded, nb::handle axis) {
        const Operand given = operand(x, "stft");
        signal::StftOptions options{.fs = operand(fs, "stft", "fs"),
                                    .window = window_of(window, "stft"),
                                    .nperseg = integer(nperseg, "stft: nperseg"),
                                    .noverlap = maybe_integer(noverlap, "stft: noverlap"),
                                    .nfft = maybe_integer(nfft, "stft: nfft"),
                                    .detrend = trend_of(detrend, "stft"),
                                    .return_onesided = one_sided,
                                    .boundary = {},
                                    .padded = padded,
                                    .axis = integer(axis, "stft: axis")};
        if (!boundary.is_none()) options.boundary = nb::cast<std::string>(nb::str(boundary));
        const signal::TimeSpectrum result = unlocked([&] { return signal::stft(given, options); });
        return nb::make_tuple(result.frequencies, result.times, result.spectrum);
      },
      "x"_x, "fs"_x = 1.0, "window"_x = "hann", "nperseg"_x = 256, "noverlap"_x = nb::none(), "nfft"_x = nb::none(),
      "detrend"_x = false, "return_onesided"_a = true, "boundary"_x = "zeros", "padded"_a = true, "axis"_x = -1,
      "Frequencies, times, and the Fourier transforms of the parts of a signal.");
  m.def(
      "istft",
      [](nb::handle Zxx, nb::handle fs, nb::handle window, nb::handle nperseg, nb::handle noverlap, nb::handle nfft,
         Flag one_sided, Flag boundary, nb::handle time_axis, nb::handle freq_axis) {
        const Operand given = operand(Zxx, "istft", "Zxx");
        const signal::IstftOptions options{.fs = operand(fs, "istft", "fs"),
                                           .window = window_of(window, "istft"),
                                           .nperseg = maybe_integer(nperseg, "istft: nperseg"),
                                           .noverlap = maybe_integer(noverlap, "istft: noverlap"),
                                           .nfft = maybe_integer(nfft, "istft: nfft"),
                                           .input_onesided = one_sided,
                                           .boundary = boundary,
                                           .time_axis = integer(time_axis, "istft: time_axis"),
                                           .freq_axis = integer(freq_axis, "istft: freq_axis")};
        const signal::TimeSignal result = unlocked([&] { return signal::istft(given, options); });
        return nb::make_tuple(result.times, result.signal);
      },
      "Zxx"_x, "fs"_x = 1.0, "window"_x = "hann", "nperseg"_x = nb::none(), "noverlap"_x = nb::none(),
      "nfft"_x = nb::none(), "input_onesided"_a = true, "boundary"_a = true, "time_axis"_x = -1, "freq_axis"_x = -2,
      "Times, and the signal that stft makes this of.");
}

void bind_cosines(nb::module_& m) {
  bind_cosine(m, "dct", &fft::dct, "The cosine transform of type II of lines.");
  bind_cosine(m, "idct", &fft::idct, "The inverse of dct.");
  bind_cosines_of_several(m, "dctn", &fft::dctn, "The cosine transform of type II over several dimensions, or all.");
  bind_cosines_of_several(m, "idctn", &fft::idctn, "The inverse of dctn.");
}

void bind_ranks(nb::module_& m) {
  m.def(
      "rankdata",
      [](nb::handle a, const std::string& method, nb::handle axis, const std::string& nan_policy) {
        check_nan_policy(nan_policy, "rankdata");
        const Operand x = operand(a, "rankdata", "a");
        const RankOptions options{.method = method, .axis = maybe_integer(axis, "rankdata: axis")};
        const Array ranks = unlocked([&] { return rankdata(x, options); });
        return ranks.dtype() == default_float() ? ranks : astype({ranks, x.where()}, default_float());
      },
      "a"_x, "method"_a = "average", nb::kw_only(), "axis"_x = nb::none(), "nan_policy"_a = "propagate",
      "The place of each element in its line, from 1 on.");
  const nb::object named_tuple = nb::module_::import_("collections").attr("namedtuple");
  m.attr("ModeResult") = named_tuple("ModeResult", "mode count", "module"_x = "shoal.scipy.stats");
  const nb::handle result_type(m.attr("ModeResult").ptr());
  m.def(
      "mode",
      [result_type](nb::handle a, nb::handle axis, const std::string& nan_policy, Flag keepdims) -> nb::object {
        check_nan_policy(nan_policy, "mode");
        const Operand x = operand(a, "mode", "a");
        const ModeOptions options{.axis = maybe_integer(axis, "mode: axis"), .keepdims = keepdims};
        const ModeResult found = unlocked([&] { return mode(x, options); });
        return result_type(found.mode, is_integer(found.count.dtype()) ? counted(found.count) : found.count);
      },
      "a"_x, "axis"_x = 0, "nan_policy"_a = "propagate", "keepdims"_a = false,
      "The element that occurs most often, and how often it does.");
}

}  // namespace shoal::python
