// Functions that change shapes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/table.h"
#include "shoal/numpy.h"

namespace shoal {

Array reshape(const Operand& x, const Dims& shape, const OutSharding& out_sharding) {
  const Caller caller("reshape", x.where());
  const Array array = to_array(x);
  Dims full_shape = shape;
  const auto unknown = std::find(full_shape.begin(), full_shape.end(), -1);
  const std::int64_t size = array.size();
  if (unknown != full_shape.end()) {
    std::int64_t known = 1;
    for (std::int64_t extent : full_shape) known *= extent == -1 ? 1 : extent;
    const bool unique = std::count(full_shape.begin(), full_shape.end(), -1) == 1;
    if (!unique || known <= 0 || size % known != 0) {
      throw misuse<ShapeMismatch>(
          "shape {} cannot hold the {} elements of {}: one extent may be -1, and the others must divide the number of "
          "elements",
          to_string(shape), size, type_of(array));
    }
    *unknown = size / known;
  }
  if (out_sharding) check_summed_alike(array, *out_sharding);
  return moved_as(out_sharding, array, [&](const Array& relaxed) {
    return full_shape == array.shape() ? relaxed : bind_one("reshape", {{"shape", full_shape}}, {relaxed});
  });
}

Array transpose(const Operand& x, const std::optional<Dims>& axes) {
  const Caller caller("transpose", x.where());
  const Array array = to_array(x);
  Dims perm;
  if (axes) {
    for (std::int64_t axis : *axes) perm.push_back(canonical_axis(axis, array.ndim()));
  } else {
    for (std::size_t d = array.ndim(); d-- > 0;) perm.push_back(static_cast<std::int64_t>(d));
  }
  return bind_one("transpose", {{"perm", perm}}, {array});
}

Array broadcast_to(const Operand& x, const Shape& shape, const OutSharding& out_sharding) {
  const Caller caller("broadcast_to", x.where());
  const Array array = to_array(x);
  check_extents(shape);
  if (broadcast_shapes(array.shape(), shape) != shape) {
    throw misuse<InvalidArgument>("{} does not broadcast to shape {}", type_of(array), to_string(shape));
  }
  return moved_as(out_sharding, array, [&](const Array& relaxed) { return broadcast(relaxed, shape); });
}

Array squeeze(const Operand& x, const Axes& axis) {
  const Caller caller("squeeze", x.where());
  const Array array = to_array(x);
  const Dims candidates = canonical_axes(axis, array.ndim());
  Shape shape;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const bool named =
        std::find(candidates.begin(), candidates.end(), static_cast<std::int64_t>(d)) != candidates.end();
    if (named && array.shape()[d] == 1) continue;
    if (named && axis.get()) {
      throw misuse<InvalidArgument>("axis {} of {} has extent {}; only extents of 1 can be dropped", d, type_of(array),
                                    array.shape()[d]);
    }
    shape.push_back(array.shape()[d]);
  }
  return reshape(array, shape);
}

Array ravel(const Operand& x, const OutSharding& out_sharding) {
  const Caller caller("ravel", x.where());
  const Array array = to_array(x);
  if (out_sharding) check_summed_alike(array, *out_sharding);
  return moved_as(out_sharding, array, [&](const Array& relaxed) { return reshape(relaxed, {-1}); });
}

}  // namespace shoal
