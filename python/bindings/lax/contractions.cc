// shoal.lax: contractions and convolutions.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "base/caller.h"
#include "base/misuse.h"
#include "bindings/lax/lax.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

// Both in the dtype that they promote to, which is what jax.lax multiplies in, or in the preferred one if that is of
// another kind, as i32 for u8.
std::pair<Operand, Operand> promoted(const Operand& x, const Operand& y, std::optional<Dtype> preferred) {
  const Caller caller("dot_general", x.where());
  Dtype wanted = promote_types(element_of(x), element_of(y)).dtype;
  if (preferred && is_integer(wanted) && (!is_integer(*preferred) || is_signed(*preferred) != is_signed(wanted))) {
    wanted = *preferred;
  }
  const auto in = [&](const Operand& operand) {
    if (dtype_of(operand) == wanted) return operand;
    return Operand(astype(operand, wanted), operand.where());
  };
  return {in(x), in(y)};
}

Array contract(const Operand& x, const Operand& y, const lax::DotDimensionNumbers& numbers,
               std::optional<Dtype> preferred, const OutSharding& out) {
  const auto [lhs, rhs] = promoted(x, y, preferred);
  const Dtype dtype = dtype_of(lhs);
  // Floats are not added in less than their own dtype; the sum alone is rounded.
  const bool is_less =
      preferred && is_floating(dtype) && (!is_floating(*preferred) || size_of(*preferred) < size_of(dtype));
  try {
    const Array result = lax::dot_general(lhs, rhs, numbers, is_less ? std::nullopt : preferred, out);
    return is_less ? astype({result, x.where()}, *preferred) : result;
  } catch (const OutOfRange& e) {
    throw TypeMismatch(e.what());
  }
}

// A pair of sequences of dimensions.
std::pair<Dims, Dims> pair_of(nb::handle x, std::string_view function, const char* what) {
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0 || nb::len(x) != 2) {
    value_error(
        fmt::format("{}: {} must be a pair of sequences of dimensions, those of lhs and those of rhs", function, what));
  }
  const nb::object first = x[0];
  const nb::object second = x[1];
  const std::string text = fmt::format("{}: {}", function, what);
  return {dim_list(first, text), dim_list(second, text)};
}

lax::DotDimensionNumbers dot_numbers(nb::handle x, std::string_view function) {
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0 || nb::len(x) != 2) {
    value_error(fmt::format(
        "{}: dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))", function));
  }
  const nb::object contracting = x[0];
  const nb::object batch = x[1];
  auto [lhs_contracting, rhs_contracting] = pair_of(contracting, function, "the contracting dimensions");
  auto [lhs_batch, rhs_batch] = pair_of(batch, function, "the batch dimensions");
  return {.lhs_contracting = lhs_contracting,
          .rhs_contracting = rhs_contracting,
          .lhs_batch = lhs_batch,
          .rhs_batch = rhs_batch};
}

void bind_dots(nb::module_& m) {
  m.def(
      "dot_general",
      [](nb::handle lhs, nb::handle rhs, nb::handle dimension_numbers, nb::handle precision,
         nb::handle preferred_element_type, nb::handle place) {
        const Operand x = operand(lhs, "dot_general", "lhs");
        const Operand y = operand(rhs, "dot_general", "rhs");
        const lax::DotDimensionNumbers numbers = dot_numbers(dimension_numbers, "dot_general");
        check_precision(precision, "dot_general");
        const std::optional<Dtype> preferred = maybe_dtype(preferred_element_type);
        const OutSharding out = out_sharding(place);
        return typed([&] { return contract(x, y, numbers, preferred, out); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "dimension_numbers"_a, "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), nb::kw_only(), "out_sharding"_a = nb::none(),
      "Sums of products over pairs of dimensions: batch dimensions come first, then those of lhs, then those of rhs.");
  m.def(
      "dot",
      [](nb::handle lhs, nb::handle rhs, nb::handle dimension_numbers, nb::handle precision,
         nb::handle preferred_element_type, nb::handle place) {
        const Operand x = operand(lhs, "dot", "lhs");
        const Operand y = operand(rhs, "dot", "rhs");
        lax::DotDimensionNumbers numbers;
        if (!dimension_numbers.is_none()) {
          numbers = dot_numbers(dimension_numbers, "dot");
        } else {
          const Shape& a = shape_of(x);
          const Shape& b = shape_of(y);
          const auto is_simple = [](const Shape& shape) { return shape.size() == 1 || shape.size() == 2; };
          if (!is_simple(a) || !is_simple(b) || a.back() != b.front()) {
            value_error(
                fmt::format("jax.lax.dot: dimension_numbers must be specified when not performing simple "
                            "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                            "lhs_shape={} rhs_shape={}",
                            to_string(a), to_string(b)));
          }
          numbers = {.lhs_contracting = {static_cast<std::int64_t>(a.size()) - 1}, .rhs_contracting = {0}};
        }
        check_precision(precision, "dot");
        const std::optional<Dtype> preferred = maybe_dtype(preferred_element_type);
        const OutSharding out = out_sharding(place);
        return typed([&] { return contract(x, y, numbers, preferred, out); });
      },
      "lhs"_a.none(), "rhs"_a.none(), nb::kw_only(), "dimension_numbers"_a = nb::none(), "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), "out_sharding"_a = nb::none(),
      "The product of matrices and vectors, or sums of products over given dimensions.");
  m.def(
      "batch_matmul",
      [](nb::handle lhs, nb::handle rhs, nb::handle precision) {
        const Operand x = operand(lhs, "batch_matmul", "lhs");
        const Operand y = operand(rhs, "batch_matmul", "rhs");
        check_precision(precision, "batch_matmul");
        const std::size_t rank = shape_of(x).size();
        if (rank < 2 || shape_of(y).size() < 2) value_error("Arguments to batch_matmul must be at least 2D");
        if (rank != shape_of(y).size()) value_error("Arguments to batch_matmul must have same ndim");
        const auto last = static_cast<std::int64_t>(rank) - 1;
        lax::DotDimensionNumbers numbers{.lhs_contracting = {last}, .rhs_contracting = {last - 1}};
        for (std::int64_t dim = 0; dim < last - 1; ++dim) {
          numbers.lhs_batch.push_back(dim);
          numbers.rhs_batch.push_back(dim);
        }
        return typed([&] { return contract(x, y, numbers, {}, {}); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "precision"_a = nb::none(), "The products of matrices, the last two dimensions.");
}

// Rows of x, in groups one after the other, each times the matrix of its group; zeros for rows behind the last group.
Array ragged_dot(const Operand& x, const Operand& matrices, const Operand& sizes, std::optional<Dtype> preferred) {
  const Caller caller("ragged_dot", x.where());
  const Shape& shape = shape_of(matrices);
  if (shape_of(x).size() != 2 || shape.size() != 3 || shape_of(sizes) != Shape{shape[0]} ||
      shape_of(x)[1] != shape[1]) {
    throw misuse<TypeMismatch>(
        "lhs, rhs and group_sizes must have shapes (m, k), (g, k, n) and (g,); got {}, {} and {}",
        to_string(shape_of(x)), to_string(shape), to_string(shape_of(sizes)));
  }
  const Array ends = cumsum(sizes, {.axis = 0});
  const Array row = lax::broadcasted_iota(ends.dtype(), {shape_of(x)[0], 1}, 0);
  const auto end_of = [&](std::int64_t group) { return lax::slice_in_dim(ends, group, group + 1); };
  std::optional<Array> result;
  for (std::int64_t group = 0; group < shape[0]; ++group) {
    const Array matrix = squeeze(lax::slice_in_dim(matrices, group, group + 1), Axes(0));
    const Array product = contract(x, matrix, {.lhs_contracting = {1}, .rhs_contracting = {0}}, preferred, {});
    Array mine = row < end_of(group);
    if (group > 0) mine = logical_and(mine, row >= end_of(group - 1));
    result = shoal::where(mine, product, result ? *result : zeros_like(product));
  }
  return result ? *result : zeros({shape_of(x)[0], shape[2]}, {.dtype = preferred.value_or(dtype_of(x))});
}

void bind_ragged_dot(nb::module_& m) {
  m.def(
      "ragged_dot",
      [](nb::handle lhs, nb::handle rhs, nb::handle group_sizes, nb::handle precision,
         nb::handle preferred_element_type, nb::handle group_offset, nb::handle place) {
        const Operand x = operand(lhs, "ragged_dot", "lhs");
        const Operand matrices = operand(rhs, "ragged_dot", "rhs");
        const Operand sizes = operand(group_sizes, "ragged_dot", "group_sizes");
        check_kind("ragged_dot", sizes, Kinds{kIntegerKind});
        check_precision(precision, "ragged_dot");
        if (!group_offset.is_none() || !place.is_none())
          not_implemented("ragged_dot: group_offset and out_sharding are not offered");
        const std::optional<Dtype> preferred = maybe_dtype(preferred_element_type);
        return unlocked([&] { return ragged_dot(x, matrices, sizes, preferred); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "group_sizes"_a.none(), "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), "group_offset"_a = nb::none(), "out_sharding"_a = nb::none(),
      "The rows of lhs, in groups one after the other, each times the matrix of its group.");
}

// ---- Convolutions.

// The letters of dimensions, from a tuple of three strings or from positions: (batch, feature, the others…) of the
// operand and of the result, (output feature, input feature, the others…) of the window.
std::string letters(nb::handle x, const char* first_two, std::string_view function) {
  if (PyUnicode_Check(x.ptr())) return nb::cast<std::string>(x);
  const Dims positions = dim_list(x, fmt::format("{}: dimension_numbers", function));
  std::string text(positions.size(), ' ');
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= static_cast<std::int64_t>(positions.size())) {
      value_error(fmt::format("{}: dimension_numbers {} are no permutation", function, to_string(positions)));
    }
    text[static_cast<std::size_t>(positions[i])] =
        i < 2 ? first_two[i] : static_cast<char>('0' + static_cast<int>(i) - 2);
  }
  return text;
}

std::optional<lax::ConvDimensionNumbers> conv_numbers(nb::handle x, std::string_view function) {
  if (x.is_none()) return std::nullopt;
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0 || nb::len(x) != 3) {
    type_error(
        fmt::format("{}: dimension_numbers must be a ConvDimensionNumbers, a tuple of three strings as ('NHWC', "
                    "'HWIO', 'NHWC'), or None; got {}",
                    function, type_text(x)));
  }
  const nb::object lhs = x[0];
  const nb::object rhs = x[1];
  const nb::object out = x[2];
  return lax::ConvDimensionNumbers{.lhs_spec = letters(lhs, "NC", function),
                                   .rhs_spec = letters(rhs, "OI", function),
                                   .out_spec = letters(out, "NC", function)};
}

// The inverse of letters(): the positions of the first two, and of the others as they come in `order`.
Dims positions(const std::string& spec, const char* first_two, const std::string& order) {
  Dims list;
  const auto find = [&](char letter) {
    const auto place = spec.find(letter);
    if (place == std::string::npos || spec.find(letter, place + 1) != std::string::npos) {
      value_error(
          fmt::format("conv_dimension_numbers: '{}' must have each of its letters once, '{}' and '{}' among them", spec,
                      first_two[0], first_two[1]));
    }
    list.push_back(static_cast<std::int64_t>(place));
  };
  find(first_two[0]);
  find(first_two[1]);
  for (const char letter : order) find(letter);
  return list;
}

// The elements of each place of the window, as features: those of the first feature of x first.
Array patches(const Operand& x, const Dims& window, const Dims& strides, const lax::WindowPadding& padding,
              lax::ConvOptions options) {
  const SourceLocation where = x.where();
  const Shape& shape = shape_of(x);
  if (shape.size() != window.size() + 2) {
    throw TypeMismatch(
        fmt::format("conv_general_dilated_patches: filter_shape {} must have two entries less than lhs has dimensions, "
                    "{}",
                    to_string(window), shape.size()),
        where);
  }
  const std::size_t features = options.dimension_numbers ? options.dimension_numbers->lhs_spec.find('C') : 1;
  if (features >= shape.size()) throw InvalidArgument("conv_general_dilated_patches: lhs has no dimension C", where);
  const std::int64_t places = num_elements(window);
  options.feature_group_count = shape[features];
  // A window for each of its places, which is 1 there.
  Shape kernel{shape[features] * places, 1};
  kernel.insert(kernel.end(), window.begin(), window.end());
  const Array one_hot = eye(places, {.dtype = dtype_of(x)}, where);
  Array windows = reshape({tile({one_hot, where}, Dims{shape[features], 1}), where}, kernel);
  if (options.dimension_numbers) {
    const std::string& spec = options.dimension_numbers->rhs_spec;
    const auto place = [&](char letter) { return static_cast<std::int64_t>(spec.find(letter)); };
    windows = moveaxis({windows, where}, {0, 1}, {place('O'), place('I')});
  }
  return lax::conv_general_dilated(x, {windows, where}, strides, padding, options);
}

void bind_patches(nb::module_& m) {
  m.def(
      "conv_general_dilated_patches",
      [](nb::handle lhs, nb::handle filter_shape, nb::handle window_strides, nb::handle padding,
         nb::handle lhs_dilation, nb::handle rhs_dilation, nb::handle dimension_numbers, nb::handle precision,
         nb::handle preferred_element_type) {
        const char* name = "conv_general_dilated_patches";
        const Operand x = operand(lhs, name, "lhs");
        check_precision(precision, name);
        const Dims window = dim_list(filter_shape, "conv_general_dilated_patches: filter_shape");
        const Dims strides = dim_list(window_strides, "conv_general_dilated_patches: window_strides");
        const lax::WindowPadding around = window_padding(padding, name);
        const lax::ConvOptions options{
            .lhs_dilation = maybe_dims(lhs_dilation, "conv_general_dilated_patches: lhs_dilation").value_or(Dims{}),
            .rhs_dilation = maybe_dims(rhs_dilation, "conv_general_dilated_patches: rhs_dilation").value_or(Dims{}),
            .dimension_numbers = conv_numbers(dimension_numbers, name),
            .preferred_element_type = maybe_dtype(preferred_element_type)};
        return unlocked([&] { return patches(x, window, strides, around, options); });
      },
      "lhs"_a.none(), "filter_shape"_a, "window_strides"_a, "padding"_a, "lhs_dilation"_a = nb::none(),
      "rhs_dilation"_a = nb::none(), "dimension_numbers"_a = nb::none(), "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), "The elements in each place of a window, as features.");
}

nb::object conv_positions(std::size_t lhs_rank, std::size_t rhs_rank, nb::handle dimension_numbers) {
  if (lhs_rank != rhs_rank) {
    type_error(fmt::format("convolution requires lhs and rhs ndim to be equal, got {} and {}.", lhs_rank, rhs_rank));
  }
  if (dimension_numbers.is_none()) {
    Dims all;
    for (std::size_t i = 0; i < lhs_rank; ++i) all.push_back(static_cast<std::int64_t>(i));
    return nb::make_tuple(to_tuple(all), to_tuple(all), to_tuple(all));
  }
  const lax::ConvDimensionNumbers numbers = *conv_numbers(dimension_numbers, "conv_dimension_numbers");
  for (const std::string* spec : {&numbers.lhs_spec, &numbers.rhs_spec, &numbers.out_spec}) {
    if (spec->size() == lhs_rank) continue;
    type_error(
        fmt::format("convolution dimension_numbers must have as many letters as arrays have dimensions, {}; got "
                    "'{}'",
                    lhs_rank, *spec));
  }
  std::string order = numbers.rhs_spec;
  std::erase_if(order, [](char letter) { return letter == 'O' || letter == 'I'; });
  return nb::make_tuple(to_tuple(positions(numbers.lhs_spec, "NC", order)),
                        to_tuple(positions(numbers.rhs_spec, "OI", order)),
                        to_tuple(positions(numbers.out_spec, "NC", order)));
}

void bind_convolutions(nb::module_& m) {
  m.def(
      "conv_general_dilated",
      [](nb::handle lhs, nb::handle rhs, nb::handle window_strides, nb::handle padding, nb::handle lhs_dilation,
         nb::handle rhs_dilation, nb::handle dimension_numbers, nb::handle feature_group_count,
         nb::handle batch_group_count, nb::handle precision, nb::handle preferred_element_type, nb::handle place) {
        const char* name = "conv_general_dilated";
        const Operand x = operand(lhs, name, "lhs");
        const Operand y = operand(rhs, name, "rhs");
        const Operand* const both[] = {&x, &y};
        check_dtypes(name, both);
        check_precision(precision, name);
        if (!place.is_none()) not_implemented("conv_general_dilated: out_sharding is not offered");
        const Dims strides = dim_list(window_strides, "conv_general_dilated: window_strides");
        const lax::WindowPadding around = window_padding(padding, name);
        const lax::ConvOptions options{
            .lhs_dilation = maybe_dims(lhs_dilation, "conv_general_dilated: lhs_dilation").value_or(Dims{}),
            .rhs_dilation = maybe_dims(rhs_dilation, "conv_general_dilated: rhs_dilation").value_or(Dims{}),
            .dimension_numbers = conv_numbers(dimension_numbers, name),
            .feature_group_count = integer(feature_group_count, "conv_general_dilated: feature_group_count"),
            .batch_group_count = integer(batch_group_count, "conv_general_dilated: batch_group_count"),
            .preferred_element_type = maybe_dtype(preferred_element_type)};
        return unlocked([&] { return lax::conv_general_dilated(x, y, strides, around, options); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "window_strides"_a, "padding"_a, "lhs_dilation"_a = nb::none(),
      "rhs_dilation"_a = nb::none(), "dimension_numbers"_a = nb::none(), "feature_group_count"_a = 1,
      "batch_group_count"_a = 1, "precision"_a = nb::none(), "preferred_element_type"_a = nb::none(),
      "out_sharding"_a = nb::none(),
      "For each place of the window rhs the sum of its products with the elements of lhs.");
  m.def(
      "conv",
      [](nb::handle lhs, nb::handle rhs, nb::handle window_strides, nb::handle padding, nb::handle precision,
         nb::handle preferred_element_type) {
        const Operand x = operand(lhs, "conv", "lhs");
        const Operand y = operand(rhs, "conv", "rhs");
        check_precision(precision, "conv");
        const Dims strides = dim_list(window_strides, "conv: window_strides");
        const lax::WindowPadding around = window_padding(padding, "conv");
        const lax::ConvOptions options{.preferred_element_type = maybe_dtype(preferred_element_type)};
        return unlocked([&] { return lax::conv_general_dilated(x, y, strides, around, options); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "window_strides"_a, "padding"_a, "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), "A convolution of batches with features in the second dimension.");
  m.def(
      "conv_with_general_padding",
      [](nb::handle lhs, nb::handle rhs, nb::handle window_strides, nb::handle padding, nb::handle lhs_dilation,
         nb::handle rhs_dilation, nb::handle precision, nb::handle preferred_element_type) {
        const char* name = "conv_with_general_padding";
        const Operand x = operand(lhs, name, "lhs");
        const Operand y = operand(rhs, name, "rhs");
        check_precision(precision, name);
        const Dims strides = dim_list(window_strides, "conv_with_general_padding: window_strides");
        const lax::WindowPadding around = window_padding(padding, name);
        const lax::ConvOptions options{
            .lhs_dilation = maybe_dims(lhs_dilation, "conv_with_general_padding: lhs_dilation").value_or(Dims{}),
            .rhs_dilation = maybe_dims(rhs_dilation, "conv_with_general_padding: rhs_dilation").value_or(Dims{}),
            .preferred_element_type = maybe_dtype(preferred_element_type)};
        return unlocked([&] { return lax::conv_general_dilated(x, y, strides, around, options); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "window_strides"_a, "padding"_a, "lhs_dilation"_a.none(), "rhs_dilation"_a.none(),
      "precision"_a = nb::none(), "preferred_element_type"_a = nb::none(),
      "A convolution with zeros between the elements of both.");
  m.def(
      "conv_transpose",
      [](nb::handle lhs, nb::handle rhs, nb::handle strides, nb::handle padding, nb::handle rhs_dilation,
         nb::handle dimension_numbers, Flag transpose_kernel, nb::handle precision, nb::handle preferred_element_type,
         Flag use_consistent_padding) {
        const Operand x = operand(lhs, "conv_transpose", "lhs");
        const Operand y = operand(rhs, "conv_transpose", "rhs");
        check_precision(precision, "conv_transpose");
        const bool has_pairs = !PyUnicode_Check(padding.ptr());
        const Dims steps = dim_list(strides, "conv_transpose: strides");
        const lax::WindowPadding around = window_padding(padding, "conv_transpose");
        if (has_pairs && use_consistent_padding)
          not_implemented("conv_transpose: use_consistent_padding is not offered");
        const lax::ConvTransposeOptions options{
            .rhs_dilation = maybe_dims(rhs_dilation, "conv_transpose: rhs_dilation").value_or(Dims{}),
            .dimension_numbers = conv_numbers(dimension_numbers, "conv_transpose"),
            .transpose_kernel = transpose_kernel,
            .preferred_element_type = maybe_dtype(preferred_element_type)};
        return unlocked([&] { return lax::conv_transpose(x, y, steps, around, options); });
      },
      "lhs"_a.none(), "rhs"_a.none(), "strides"_a, "padding"_a, "rhs_dilation"_a = nb::none(),
      "dimension_numbers"_a = nb::none(), "transpose_kernel"_a = false, "precision"_a = nb::none(),
      "preferred_element_type"_a = nb::none(), "use_consistent_padding"_a = false,
      "A convolution that undoes the shape of one with these strides.");
  m.def(
      "_conv_dimension_numbers",
      [](nb::handle lhs_shape, nb::handle rhs_shape, nb::handle dimension_numbers) {
        return conv_positions(dim_list(lhs_shape, "conv_dimension_numbers: lhs_shape").size(),
                              dim_list(rhs_shape, "conv_dimension_numbers: rhs_shape").size(), dimension_numbers);
      },
      "lhs_shape"_a, "rhs_shape"_a, "dimension_numbers"_a.none());
  m.def(
      "padtype_to_pads",
      [](nb::handle in_shape, nb::handle window_shape, nb::handle window_strides, nb::handle padding) {
        const Dims extents = dim_list(in_shape, "padtype_to_pads: in_shape");
        const Dims window = dim_list(window_shape, "padtype_to_pads: window_shape");
        const Dims strides = dim_list(window_strides, "padtype_to_pads: window_strides");
        if (window.size() != extents.size() || strides.size() != extents.size()) {
          value_error("padtype_to_pads: in_shape, window_shape and window_strides must have one length");
        }
        const lax::WindowPadding kind = window_padding(padding, "padtype_to_pads");
        nb::list pads;
        for (std::size_t i = 0; i < extents.size(); ++i) {
          if (strides[i] < 1) value_error("padtype_to_pads: window_strides must be positive");
          const auto [low, high] = pads_of(kind, extents[i], window[i], strides[i], i, extents.size(), user_line());
          pads.append(nb::make_tuple(low, high));
        }
        return pads;
      },
      "in_shape"_a, "window_shape"_a, "window_strides"_a, "padding"_a,
      "How much 'SAME' and the like put before and after each dimension.");
}

}  // namespace

void bind_lax_contractions(nb::module_& m) {
  bind_dots(m);
  bind_ragged_dot(m);
  bind_convolutions(m);
  bind_patches(m);
}

}  // namespace shoal::python
