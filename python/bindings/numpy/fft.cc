// jax.numpy.fft, and lax.fft.
#include "shoal/fft.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

std::string norm_of(nb::handle norm, const char* name) {
  if (norm.is_none()) return "backward";
  if (!PyUnicode_Check(norm.ptr())) value_error(fmt::format("{}: norm must be a string or None", name));
  return nb::cast<std::string>(norm);
}

void bind_line(nb::module_& m, const char* name, Array (*f)(const Operand&, const fft::FftOptions&), const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle n, nb::handle axis, nb::handle norm) {
        const Operand x = operand(a, name, "a");
        if (PyList_Check(axis.ptr()) || PyTuple_Check(axis.ptr())) {
          value_error(fmt::format("{}: axis is one dimension, and there are several; {}n takes them", name, name));
        }
        const fft::FftOptions options{.n = maybe_integer(n, fmt::format("{}: n", name)),
                                      .axis = maybe_integer(axis, fmt::format("{}: axis", name)),
                                      .norm = norm_of(norm, name)};
        return unlocked([&] { return f(x, options); });
      },
      "a"_x, "n"_x = nb::none(), "axis"_x = -1, "norm"_x = nb::none(), doc);
}

void bind_lines(nb::module_& m, const char* name, Array (*f)(const Operand&, const fft::FftnOptions&), bool is_flat,
                const char* doc) {
  const nb::object axes = is_flat ? nb::object(nb::make_tuple(-2, -1)) : nb::none();
  m.def(
      name,
      [f, name](nb::handle a, nb::handle s, nb::handle given, nb::handle norm) {
        const Operand x = operand(a, name, "a");
        const fft::FftnOptions options{.s = maybe_dims(s, fmt::format("{}: s", name)),
                                       .axes = maybe_dims(given, fmt::format("{}: axes", name)),
                                       .norm = norm_of(norm, name)};
        return unlocked([&] { return f(x, options); });
      },
      "a"_x, "s"_x = nb::none(), "axes"_x = axes, "norm"_x = nb::none(), doc);
}

void bind_frequencies(nb::module_& m, const char* name,
                      Array (*f)(std::int64_t, const Operand&, const fft::FreqOptions&), const char* doc) {
  m.def(
      name,
      [f, name](nb::handle n, nb::handle d, nb::handle dtype, nb::handle device) {
        for (const nb::handle one : {n, d}) {
          if (PyList_Check(one.ptr()) || PyTuple_Check(one.ptr())) {
            value_error(fmt::format("{}: n and d are single numbers, not {}", name, type_text(one)));
          }
        }
        const std::int64_t count = integer(n, fmt::format("{}: n", name));
        const Operand spacing = operand(d, name, "d");
        const CreationOptions made = creation(maybe_dtype(dtype).value_or(default_float()), device);
        return unlocked([&] { return f(count, spacing, {.dtype = made.dtype, .sharding = made.sharding}); });
      },
      "n"_x, "d"_x = 1.0, nb::kw_only(), "dtype"_x = nb::none(), "device"_x = nb::none(), doc);
}

void bind_shift(nb::module_& m, const char* name, Array (*f)(const Operand&, const std::optional<Dims>&),
                const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, nb::handle axes) {
        const Operand given = operand(x, name);
        std::optional<Dims> along;
        if (!axes.is_none()) {
          const std::string what = fmt::format("{}: axes", name);
          along = PyIndex_Check(axes.ptr()) != 0 ? Dims{integer(axes, what)} : dims(axes, what);
        }
        return unlocked([&] { return f(given, along); });
      },
      "x"_x, "axes"_x = nb::none(), doc);
}

}  // namespace

void bind_numpy_fft(nb::module_& m) {
  bind_line(m, "fft", &fft::fft, "The Fourier transform of lines: sums of a[j] exp(-2 pi i j k / n).");
  bind_line(m, "ifft", &fft::ifft, "The inverse of fft.");
  bind_line(m, "rfft", &fft::rfft, "The first n // 2 + 1 results of fft of real numbers.");
  bind_line(m, "irfft", &fft::irfft, "The inverse of rfft: n real numbers.");
  bind_line(m, "hfft", &fft::hfft, "The real results of fft of lines whose second half is the conjugate of the first.");
  bind_line(m, "ihfft", &fft::ihfft, "The inverse of hfft.");
  bind_lines(m, "fft2", &fft::fft2, true, "The Fourier transform over two dimensions.");
  bind_lines(m, "ifft2", &fft::ifft2, true, "The inverse of fft2.");
  bind_lines(m, "rfft2", &fft::rfft2, true, "The half of fft2 of real numbers along the last of the axes.");
  bind_lines(m, "irfft2", &fft::irfft2, true, "The inverse of rfft2.");
  bind_lines(m, "fftn", &fft::fftn, false, "The Fourier transform over several dimensions, or all.");
  bind_lines(m, "ifftn", &fft::ifftn, false, "The inverse of fftn.");
  bind_lines(m, "rfftn", &fft::rfftn, false, "The half of fftn of real numbers along the last of the axes.");
  bind_lines(m, "irfftn", &fft::irfftn, false, "The inverse of rfftn.");
  bind_frequencies(m, "fftfreq", &fft::fftfreq, "The frequencies of the results of fft, for samples that are d apart.");
  bind_frequencies(m, "rfftfreq", &fft::rfftfreq, "The frequencies of the results of rfft.");
  bind_shift(m, "fftshift", &fft::fftshift, "Rolled so that frequency 0 is in the middle.");
  bind_shift(m, "ifftshift", &fft::ifftshift, "The inverse of fftshift.");
}

void bind_lax_fft(nb::module_& m) {
  m.def(
      "_fft",
      [](nb::handle x, int type, nb::handle lengths) {
        const Operand given = operand(x, "fft");
        const Shape extents = dims(lengths, "fft: fft_lengths");
        return unlocked([&] { return lax::fft(given, static_cast<lax::FftType>(type), extents); });
      },
      "x"_x, "fft_type"_a, "fft_lengths"_x);
}

}  // namespace shoal::python
