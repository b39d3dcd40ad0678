// Products of vectors, matrices and arrays.
#include "frontend/functions/contractions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/trace.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {

namespace {

// The batch dimensions, then those that one operand has alone.
Shape shape_of_product(const Shape& x, const Shape& y, const lax::DotDimensionNumbers& dims) {
  Shape shape;
  const auto has = [](const Dims& list, std::size_t d) {
    return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
  };
  for (std::int64_t d : dims.lhs_batch) shape.push_back(x[static_cast<std::size_t>(d)]);
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!has(dims.lhs_contracting, d) && !has(dims.lhs_batch, d)) shape.push_back(x[d]);
  }
  for (std::size_t d = 0; d < y.size(); ++d) {
    if (!has(dims.rhs_contracting, d) && !has(dims.rhs_batch, d)) shape.push_back(y[d]);
  }
  return shape;
}

}  // namespace

// The sharding is an attribute of the op, so that partial sums are added up right where they have to lie.
Array contract(const Array& x, const Array& y, const lax::DotDimensionNumbers& dims, std::optional<Dtype> preferred,
               const OutSharding& out_sharding) {
  for (std::size_t i = 0; i < dims.lhs_contracting.size() && i < dims.rhs_contracting.size(); ++i) {
    const std::int64_t left = x.shape().at(static_cast<std::size_t>(dims.lhs_contracting[i]));
    const std::int64_t right = y.shape().at(static_cast<std::size_t>(dims.rhs_contracting[i]));
    if (left != right) {
      throw misuse<ShapeMismatch>(
          "dimension {} of shape {} and dimension {} of shape {} are contracted, but have extents {} and {}; they must "
          "be equal",
          dims.lhs_contracting[i], to_string(x.shape()), dims.rhs_contracting[i], to_string(y.shape()), left, right);
    }
  }
  Attrs attrs{{"lhs_contract", dims.lhs_contracting},
              {"rhs_contract", dims.rhs_contracting},
              {"lhs_batch", dims.lhs_batch},
              {"rhs_batch", dims.rhs_batch}};
  if (preferred && *preferred != x.dtype()) attrs.set("dtype", *preferred);
  if (out_sharding) {
    check_out_sharding(*out_sharding, shape_of_product(x.shape(), y.shape(), dims));
    attrs.set("out_sharding", *out_sharding);
  }
  return bind_one("dot_general", std::move(attrs), {x, y});
}

void check_preferred(Dtype dtype, std::optional<Dtype> preferred) {
  if (!preferred || *preferred == dtype) return;
  const bool same_sign = !is_integer(dtype) || is_signed(dtype) == is_signed(*preferred);
  if (kind_of(*preferred) == kind_of(dtype) && same_sign && size_of(*preferred) > size_of(dtype)) return;
  throw misuse<TypeMismatch>(
      "products of {} cannot be added in preferred_element_type {}: it must be of the same kind and not smaller",
      name_of(dtype), name_of(*preferred));
}

std::pair<Array, Array> promote_dtypes(const Operand& x, const Operand& y) {
  const DtypeAndWeakness element = promoted_types(element_of(x), element_of(y));
  // Numbers are rounded once, to the common dtype.
  const auto promoted = [&](const Operand& operand) {
    if (operand.number() != nullptr) return scalar_of(*operand.number(), element, {});
    return convert(*operand.array(), element.dtype, element.weak);
  };
  return {promoted(x), promoted(y)};
}

namespace lax {

Array dot_general(const Operand& x, const Operand& y, const DotDimensionNumbers& dims,
                  std::optional<Dtype> preferred_element_type, const OutSharding& out_sharding) {
  const Caller caller("dot_general", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  check_preferred(a.dtype(), preferred_element_type);
  // Contracted and batch dimensions of one operand, each named once.
  const auto check = [&](const Dims& contracting, const Dims& batch, const Array& operand) {
    Dims both = contracting;
    both.insert(both.end(), batch.begin(), batch.end());
    for (std::int64_t& d : both) d = canonical_axis(d, operand.ndim());
    for (std::size_t i = 0; i < both.size(); ++i) {
      if (std::find(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(i), both[i]) ==
          both.begin() + static_cast<std::ptrdiff_t>(i)) {
        continue;
      }
      throw misuse<ShapeMismatch>("dimension {} of {} is named twice in contracting {} and batch {}", both[i],
                                  type_of(operand), to_string(contracting), to_string(batch));
    }
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(contracting.size());
    return std::pair(Dims(both.begin(), middle), Dims(middle, both.end()));
  };
  auto [lhs_contracting, lhs_batch] = check(dims.lhs_contracting, dims.lhs_batch, a);
  auto [rhs_contracting, rhs_batch] = check(dims.rhs_contracting, dims.rhs_batch, b);
  return contract(a, b,
                  {.lhs_contracting = std::move(lhs_contracting),
                   .rhs_contracting = std::move(rhs_contracting),
                   .lhs_batch = std::move(lhs_batch),
                   .rhs_batch = std::move(rhs_batch)},
                  preferred_element_type, out_sharding);
}

}  // namespace lax

Array matmul(const Operand& x, const Operand& y, const OutSharding& out_sharding) {
  const Caller caller("matmul", x.where());
  auto [a, b] = promote_dtypes(x, y);
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw misuse<ShapeMismatch>("operands have shapes {} and {}; scalars are multiplied with *", to_string(a.shape()),
                                to_string(b.shape()));
  }
  const auto a_rank = static_cast<std::int64_t>(a.ndim());
  const auto b_rank = static_cast<std::int64_t>(b.ndim());
  const std::int64_t b_inner = b_rank == 1 ? 0 : b_rank - 2;
  const std::int64_t inner[] = {a.shape()[a.ndim() - 1], b.shape()[static_cast<std::size_t>(b_inner)]};
  if (inner[0] != inner[1]) {
    throw misuse<ShapeMismatch>(
        "shapes {} and {} do not fit: the last dimension of the first has extent {}, but dimension {} of the second "
        "has extent {}",
        to_string(a.shape()), to_string(b.shape()), inner[0], b_inner, inner[1]);
  }
  if (a_rank <= 2 && b_rank <= 2) {
    return contract(a, b,
                    {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}},
                    {}, out_sharding);
  }
  // Leading dimensions broadcast and become batch dimensions; an operand without them is shared by all.
  const Shape a_lead(a.shape().begin(), a.shape().end() - std::min<std::int64_t>(2, a_rank));
  const Shape b_lead(b.shape().begin(), b.shape().end() - std::min<std::int64_t>(2, b_rank));
  if (b_lead.empty()) {
    return contract(a, b,
                    {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}},
                    {}, out_sharding);
  }
  const Shape lead = broadcast_shapes(a_lead, b_lead);
  const auto with_lead = [&](const Array& array, std::size_t keep) {
    Shape shape = lead;
    shape.insert(shape.end(), array.shape().end() - static_cast<std::ptrdiff_t>(keep), array.shape().end());
    return broadcast(array, shape);
  };
  const std::size_t a_keep = a_rank == 1 ? 1 : 2;
  const std::size_t b_keep = b_rank == 1 ? 1 : 2;
  const auto count = static_cast<std::int64_t>(lead.size());
  Dims batch;
  for (std::int64_t d = 0; d < count; ++d) batch.push_back(d);
  return contract(with_lead(a, a_keep), with_lead(b, b_keep),
                  {.lhs_contracting = {count + static_cast<std::int64_t>(a_keep) - 1},
                   .rhs_contracting = {count},
                   .lhs_batch = batch,
                   .rhs_batch = batch},
                  {}, out_sharding);
}

namespace {

Array scaled(const Array& x, const Array& y, const OutSharding& out_sharding) {
  return split_as(out_sharding, {x, y},
                  [&](const std::vector<Array>& arrays) { return multiply(arrays[0], arrays[1]); });
}

}  // namespace

Array dot(const Operand& x, const Operand& y, const OutSharding& out_sharding) {
  const Caller caller("dot", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  if (a.ndim() == 0 || b.ndim() == 0) return scaled(a, b, out_sharding);
  const auto a_rank = static_cast<std::int64_t>(a.ndim());
  const std::int64_t b_inner = b.ndim() == 1 ? 0 : static_cast<std::int64_t>(b.ndim()) - 2;
  return contract(a, b,
                  {.lhs_contracting = {a_rank - 1}, .rhs_contracting = {b_inner}, .lhs_batch = {}, .rhs_batch = {}}, {},
                  out_sharding);
}

Array inner(const Operand& x, const Operand& y, const OutSharding& out_sharding) {
  const Caller caller("inner", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  if (a.ndim() == 0 || b.ndim() == 0) return scaled(a, b, out_sharding);
  const auto last = [](const Array& array) { return static_cast<std::int64_t>(array.ndim()) - 1; };
  return contract(a, b, {.lhs_contracting = {last(a)}, .rhs_contracting = {last(b)}}, {}, out_sharding);
}

Array outer(const Operand& x, const Operand& y) {
  const Caller caller("outer", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  return multiply(reshape(a, {a.size(), 1}), reshape(b, {1, b.size()}));
}

namespace {

Operand conjugated(const Operand& x) {
  const Array array = to_array(x);
  return is_complex(array.dtype()) ? conj(array) : array;
}

}  // namespace

Array vdot(const Operand& x, const Operand& y) {
  const Caller caller("vdot", x.where());
  const auto [a, b] = promote_dtypes(conjugated(x), y);
  if (a.size() != b.size()) {
    throw misuse<ShapeMismatch>("{} and {} have {} and {} elements; they must have equally many", type_of(a),
                                type_of(b), a.size(), b.size());
  }
  if (a.shape() == b.shape()) {  // Without flattening, no shard moves.
    Dims all;
    for (std::size_t d = 0; d < a.ndim(); ++d) all.push_back(static_cast<std::int64_t>(d));
    return contract(a, b, {.lhs_contracting = all, .rhs_contracting = all});
  }
  return contract(ravel(a), ravel(b), {.lhs_contracting = {0}, .rhs_contracting = {0}});
}

Array vecdot(const Operand& x, const Operand& y, std::int64_t axis, const OutSharding& out_sharding) {
  const Caller caller("vecdot", x.where());
  const auto [a, b] = promote_dtypes(conjugated(x), y);
  const std::int64_t a_axis = canonical_axis(axis, a.ndim());
  const std::int64_t b_axis = canonical_axis(axis, b.ndim());
  const std::int64_t extents[] = {a.shape()[static_cast<std::size_t>(a_axis)],
                                  b.shape()[static_cast<std::size_t>(b_axis)]};
  if (extents[0] != extents[1]) {
    throw misuse<InvalidArgument>("axis {} has extents {} and {} in {} and {}; they must be equal", axis, extents[0],
                                  extents[1], type_of(a), type_of(b));
  }
  // The other dimensions, in their order, with the contracted one last.
  const auto moved = [&](const Array& array, std::int64_t d) {
    Dims perm;
    for (std::size_t i = 0; i < array.ndim(); ++i) {
      if (static_cast<std::int64_t>(i) != d) perm.push_back(static_cast<std::int64_t>(i));
    }
    perm.push_back(d);
    return transpose(array, perm);
  };
  return einsum("...i,...i->...", moved(a, a_axis), moved(b, b_axis),
                {.preferred_element_type = {}, .out_sharding = out_sharding});
}

Array tensordot(const Operand& x, const Operand& y, std::int64_t axes, const OutSharding& out_sharding) {
  const Caller caller("tensordot", x.where());
  const auto rank = static_cast<std::int64_t>(to_array(x).ndim());
  if (axes < 0 || axes > rank || axes > static_cast<std::int64_t>(to_array(y).ndim())) {
    throw misuse<ShapeMismatch>("cannot sum over {} axes of {} and {}", axes, type_of(to_array(x)),
                                type_of(to_array(y)));
  }
  Dims x_axes;
  Dims y_axes;
  for (std::int64_t i = 0; i < axes; ++i) {
    x_axes.push_back(rank - axes + i);
    y_axes.push_back(i);
  }
  return tensordot(x, y, x_axes, y_axes, out_sharding);
}

Array tensordot(const Operand& x, const Operand& y, const Dims& x_axes, const Dims& y_axes,
                const OutSharding& out_sharding) {
  const Caller caller("tensordot", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  if (x_axes.size() != y_axes.size()) {
    throw misuse<ShapeMismatch>("axes {} and {} differ in number; they are summed over in pairs", to_string(x_axes),
                                to_string(y_axes));
  }
  // Each named once; in the order given, as pairs.
  const auto canonical = [&](const Dims& axes, const Array& array) {
    canonical_axes(axes, array.ndim());
    Dims result;
    for (std::int64_t axis : axes) result.push_back(canonical_axis(axis, array.ndim()));
    return result;
  };
  return contract(a, b, {.lhs_contracting = canonical(x_axes, a), .rhs_contracting = canonical(y_axes, b)}, {},
                  out_sharding);
}

Array kron(const Operand& x, const Operand& y) {
  const Caller caller("kron", x.where());
  const auto [a, b] = promote_dtypes(x, y);
  // As arrays of equal rank, whose dimensions interleave and then merge in pairs.
  const std::size_t rank = std::max(a.ndim(), b.ndim());
  Shape a_shape;
  Shape b_shape;
  Shape merged;
  const auto extent = [&](const Array& array, std::size_t d) {
    return d + array.ndim() < rank ? 1 : array.shape()[d + array.ndim() - rank];
  };
  for (std::size_t d = 0; d < rank; ++d) {
    a_shape.insert(a_shape.end(), {extent(a, d), 1});
    b_shape.insert(b_shape.end(), {1, extent(b, d)});
    merged.push_back(extent(a, d) * extent(b, d));
  }
  const Array product = multiply(reshape(a, a_shape), reshape(b, b_shape));
  return reshape(product, merged);
}

}  // namespace shoal
