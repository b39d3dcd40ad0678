#include "shoal/numpy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/promote.h"
#include "frontend/trace.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/nn.h"

namespace shoal {
namespace {

Array apply(const char* name, Kinds kinds, std::initializer_list<const Operand*> operands) {
  const SourceLocation where = (*operands.begin())->where();
  return bind(op_named(name), {}, promote(name, kinds, {operands.begin(), operands.size()}), where)[0];
}

}  // namespace

#define SHOAL_UNARY(name, kinds, result, doc, body) \
  Array name(const Operand& x) { return apply(#name, kinds, {&x}); }
#define SHOAL_BINARY(name, kinds, result, doc, body) \
  Array name(const Operand& x, const Operand& y) { return apply(#name, kinds, {&x, &y}); }
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY

Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }
Array operator-(const Operand& x) { return negative(x); }
Array operator&(const Operand& x, const Operand& y) { return bitwise_and(x, y); }
Array operator|(const Operand& x, const Operand& y) { return bitwise_or(x, y); }
Array operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
Array operator~(const Operand& x) { return bitwise_not(x); }
Array operator<(const Operand& x, const Operand& y) { return less(x, y); }
Array operator<=(const Operand& x, const Operand& y) { return less_equal(x, y); }
Array operator>(const Operand& x, const Operand& y) { return greater(x, y); }
Array operator>=(const Operand& x, const Operand& y) { return greater_equal(x, y); }
Array operator==(const Operand& x, const Operand& y) { return equal(x, y); }
Array operator!=(const Operand& x, const Operand& y) { return not_equal(x, y); }

Array astype(const Operand& x, Dtype dtype) { return convert(to_array(x), dtype, false, x.where()); }

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  const SourceLocation line = condition.where();
  Array predicate = to_array(condition);
  if (predicate.dtype() != bool_) predicate = not_equal({predicate, line}, {0, line});
  const Operand* const branches[] = {&x, &y};
  std::vector<Array> values = promote("where", kAny, branches);
  Shape shape = broadcast_shapes("where", values[0].shape(), values[1].shape(), line);
  shape = broadcast_shapes("where", shape, predicate.shape(), line);
  const auto full_shape = [&](const Array& array) { return array.ndim() == 0 ? array : broadcast(array, shape, line); };
  return bind_one("select", {}, {full_shape(predicate), full_shape(values[0]), full_shape(values[1])}, line);
}

// ---- Reductions.

namespace {

Array reduce(const char* function, const char* op, const Array& x, const ReduceOptions& options, SourceLocation where) {
  const Dims axes = canonical_axes(function, options.axis, x.ndim(), where);
  const Array reduced = bind_one(op, {{"axes", axes}}, {x}, where);
  if (!options.keepdims) return reduced;
  Shape shape = x.shape();
  for (std::int64_t d : axes) shape[static_cast<std::size_t>(d)] = 1;
  return reshape({reduced, where}, shape);
}

// What sums and products of a dtype are computed in: integers of at least 32 bits.
Array widened(const Operand& x) {
  const Array array = to_array(x);
  switch (array.dtype()) {
    case Dtype::kBool:
    case Dtype::kI8:
    case Dtype::kI16:
      return convert(array, int32, false, x.where());
    case Dtype::kU8:
    case Dtype::kU16:
      return convert(array, uint32, false, x.where());
    default:
      return array;
  }
}

Array ordered(std::string_view function, const Operand& x) {
  const Array array = to_array(x);
  if (is_complex(array.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(array)), x.where());
  }
  return array;
}

Array truth(const Operand& x) {
  const Array array = to_array(x);
  return array.dtype() == bool_ ? array : not_equal({array, x.where()}, {0, x.where()});
}

}  // namespace

Array sum(const Operand& x, const ReduceOptions& options) {
  return reduce("sum", "reduce_sum", widened(x), options, x.where());
}
Array prod(const Operand& x, const ReduceOptions& options) {
  return reduce("prod", "reduce_prod", widened(x), options, x.where());
}
Array max(const Operand& x, const ReduceOptions& options) {
  return reduce("max", "reduce_max", ordered("max", x), options, x.where());
}
Array min(const Operand& x, const ReduceOptions& options) {
  return reduce("min", "reduce_min", ordered("min", x), options, x.where());
}
Array any(const Operand& x, const ReduceOptions& options) {
  return reduce("any", "reduce_or", truth(x), options, x.where());
}
Array all(const Operand& x, const ReduceOptions& options) {
  return reduce("all", "reduce_and", truth(x), options, x.where());
}

Array mean(const Operand& x, const ReduceOptions& options) {
  const SourceLocation where = x.where();
  const Array given = to_array(x);
  const bool half = is_floating(given.dtype()) && size_of(given.dtype()) < size_of(float32);  // Whose sums overflow.
  const bool as_it_is = (kind_of(given.dtype()) & kFractions) != 0 && !half;
  const Array array = as_it_is ? given : convert(given, float32, false, where);
  std::int64_t count = 1;
  for (std::int64_t d : canonical_axes("mean", options.axis, array.ndim(), where)) {
    count *= array.shape()[static_cast<std::size_t>(d)];
  }
  const Array sums = reduce("mean", "reduce_sum", array, options, where);
  const Array means = divide({sums, where}, {static_cast<double>(count), where});
  return half ? convert(means, given.dtype(), false, where) : means;
}

// ---- Contractions.

namespace {

Array dot_general(std::string_view function, const Array& x, const Array& y, const lax::DotDimensionNumbers& dims,
                  SourceLocation where) {
  for (std::size_t i = 0; i < dims.lhs_contracting.size() && i < dims.rhs_contracting.size(); ++i) {
    const std::int64_t left = x.shape().at(static_cast<std::size_t>(dims.lhs_contracting[i]));
    const std::int64_t right = y.shape().at(static_cast<std::size_t>(dims.rhs_contracting[i]));
    if (left != right) {
      throw InvalidArgument(
          fmt::format("{}: dimension {} of shape {} and dimension {} of shape {} are contracted, but have "
                      "extents {} and {}; they must be equal",
                      function, dims.lhs_contracting[i], to_string(x.shape()), dims.rhs_contracting[i],
                      to_string(y.shape()), left, right),
          where);
    }
  }
  return bind_one("dot_general",
                  {{"lhs_contract", dims.lhs_contracting},
                   {"rhs_contract", dims.rhs_contracting},
                   {"lhs_batch", dims.lhs_batch},
                   {"rhs_batch", dims.rhs_batch}},
                  {x, y}, where);
}

// The operands in their common dtype, with their own shapes.
std::pair<Array, Array> promote_dtypes(std::string_view function, const Operand& x, const Operand& y) {
  const DtypeAndWeakness element = promote_types(element_of(function, x), element_of(function, y));
  return {convert(to_array(x), element.dtype, element.weak, x.where()),
          convert(to_array(y), element.dtype, element.weak, x.where())};
}

}  // namespace

namespace lax {

Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims) {
  const auto [a, b] = promote_dtypes("dot_general", x, y);
  // Contracted and batch dimensions of one operand, each named once.
  const auto check = [&](const Dims& contracting, const Dims& batch, const Array& operand) {
    Dims both = contracting;
    both.insert(both.end(), batch.begin(), batch.end());
    for (std::int64_t& d : both) d = canonical_axis("dot_general", d, operand.ndim(), x.where());
    for (std::size_t i = 0; i < both.size(); ++i) {
      if (std::find(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(i), both[i]) ==
          both.begin() + static_cast<std::ptrdiff_t>(i)) {
        continue;
      }
      throw InvalidArgument(fmt::format("dot_general: dimension {} of {} is named twice in contracting {} and batch {}",
                                        both[i], type_of(operand), to_string(contracting), to_string(batch)),
                            x.where());
    }
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(contracting.size());
    return std::pair(Dims(both.begin(), middle), Dims(middle, both.end()));
  };
  auto [lhs_contracting, lhs_batch] = check(dims.lhs_contracting, dims.lhs_batch, a);
  auto [rhs_contracting, rhs_batch] = check(dims.rhs_contracting, dims.rhs_batch, b);
  return shoal::dot_general("dot_general", a, b,
                            {.lhs_contracting = std::move(lhs_contracting),
                             .rhs_contracting = std::move(rhs_contracting),
                             .lhs_batch = std::move(lhs_batch),
                             .rhs_batch = std::move(rhs_batch)},
                            x.where());
}

}  // namespace lax

Array matmul(const Operand& x, const Operand& y) {
  const SourceLocation line = x.where();
  auto [a, b] = promote_dtypes("matmul", x, y);
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw InvalidArgument(fmt::format("matmul: operands have shapes {} and {}; scalars are multiplied with *",
                                      to_string(a.shape()), to_string(b.shape())),
                          line);
  }
  const auto a_rank = static_cast<std::int64_t>(a.ndim());
  const auto b_rank = static_cast<std::int64_t>(b.ndim());
  const std::int64_t b_inner = b_rank == 1 ? 0 : b_rank - 2;
  const std::int64_t inner[] = {a.shape()[a.ndim() - 1], b.shape()[static_cast<std::size_t>(b_inner)]};
  if (inner[0] != inner[1]) {
    throw InvalidArgument(
        fmt::format("matmul: shapes {} and {} do not fit: the last dimension of the first has extent {}, "
                    "but dimension {} of the second has extent {}",
                    to_string(a.shape()), to_string(b.shape()), inner[0], b_inner, inner[1]),
        line);
  }
  if (a_rank <= 2 && b_rank <= 2) {
    return dot_general(
        "matmul", a, b,
        {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}}, line);
  }
  // Leading dimensions broadcast and become batch dimensions; an operand without them is shared by all.
  const Shape a_lead(a.shape().begin(), a.shape().end() - std::min<std::int64_t>(2, a_rank));
  const Shape b_lead(b.shape().begin(), b.shape().end() - std::min<std::int64_t>(2, b_rank));
  if (b_lead.empty()) {
    return dot_general(
        "matmul", a, b,
        {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}}, line);
  }
  const Shape lead = broadcast_shapes("matmul", a_lead, b_lead, line);
  const auto with_lead = [&](const Array& array, std::size_t keep) {
    Shape shape = lead;
    shape.insert(shape.end(), array.shape().end() - static_cast<std::ptrdiff_t>(keep), array.shape().end());
    return broadcast(array, shape, line);
  };
  const std::size_t a_keep = a_rank == 1 ? 1 : 2;
  const std::size_t b_keep = b_rank == 1 ? 1 : 2;
  const auto count = static_cast<std::int64_t>(lead.size());
  Dims batch;
  for (std::int64_t d = 0; d < count; ++d) batch.push_back(d);
  return dot_general("matmul", with_lead(a, a_keep), with_lead(b, b_keep),
                     {.lhs_contracting = {count + static_cast<std::int64_t>(a_keep) - 1},
                      .rhs_contracting = {count},
                      .lhs_batch = batch,
                      .rhs_batch = batch},
                     line);
}

Array dot(const Operand& x, const Operand& y) {
  const auto [a, b] = promote_dtypes("dot", x, y);
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(x, y);
  const auto a_rank = static_cast<std::int64_t>(a.ndim());
  const std::int64_t b_inner = b.ndim() == 1 ? 0 : static_cast<std::int64_t>(b.ndim()) - 2;
  return dot_general("dot", a, b,
                     {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}},
                     x.where());
}

// ---- Shapes.

Array reshape(const Operand& x, const Dims& shape) {
  const Array array = to_array(x);
  Dims full_shape = shape;
  const auto unknown = std::find(full_shape.begin(), full_shape.end(), -1);
  const std::int64_t size = array.size();
  if (unknown != full_shape.end()) {
    std::int64_t known = 1;
    for (std::int64_t extent : full_shape) known *= extent == -1 ? 1 : extent;
    const bool unique = std::count(full_shape.begin(), full_shape.end(), -1) == 1;
    if (!unique || known <= 0 || size % known != 0) {
      throw InvalidArgument(
          fmt::format("reshape: shape {} cannot hold the {} elements of {}: one extent may be -1, and the "
                      "others must divide the number of elements",
                      to_string(shape), size, type_of(array)),
          x.where());
    }
    *unknown = size / known;
  }
  if (full_shape == array.shape()) return array;
  return bind_one("reshape", {{"shape", full_shape}}, {array}, x.where());
}

Array transpose(const Operand& x, const std::optional<Dims>& axes) {
  const Array array = to_array(x);
  Dims perm;
  if (axes) {
    for (std::int64_t axis : *axes) perm.push_back(canonical_axis("transpose", axis, array.ndim(), x.where()));
  } else {
    for (std::size_t d = array.ndim(); d-- > 0;) perm.push_back(static_cast<std::int64_t>(d));
  }
  return bind_one("transpose", {{"perm", perm}}, {array}, x.where());
}

Array broadcast_to(const Operand& x, const Shape& shape) {
  const Array array = to_array(x);
  check_extents("broadcast_to", shape, x.where());
  if (broadcast_shapes("broadcast_to", array.shape(), shape, x.where()) != shape) {
    throw InvalidArgument(
        fmt::format("broadcast_to: {} does not broadcast to shape {}", type_of(array), to_string(shape)), x.where());
  }
  return broadcast(array, shape, x.where());
}

Array squeeze(const Operand& x, const Axes& axis) {
  const Array array = to_array(x);
  const Dims candidates = canonical_axes("squeeze", axis, array.ndim(), x.where());
  Shape shape;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const bool named =
        std::find(candidates.begin(), candidates.end(), static_cast<std::int64_t>(d)) != candidates.end();
    if (named && array.shape()[d] == 1) continue;
    if (named && axis.get()) {
      throw InvalidArgument(fmt::format("squeeze: axis {} of {} has extent {}; only extents of 1 can be dropped", d,
                                        type_of(array), array.shape()[d]),
                            x.where());
    }
    shape.push_back(array.shape()[d]);
  }
  return reshape({array, x.where()}, shape);
}

Array ravel(const Operand& x) { return reshape(x, {-1}); }

namespace nn {

Array sigmoid(const Operand& x) { return logistic(x); }
Array relu(const Operand& x) { return maximum(x, Operand(0, x.where())); }

}  // namespace nn
}  // namespace shoal
