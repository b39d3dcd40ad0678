#include "backend/cpu/products/product.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shoal::cpu {
namespace {

// Adds an inner dimension to `axes`, as part of the last one if they lie in memory as one.
void append(ProductAxes& axes, const ProductAxis& axis) {
  if (axis.extent == 1) return;
  if (!axes.empty()) {
    ProductAxis& last = axes.back();
    if (last.lhs == axis.extent * axis.lhs && last.rhs == axis.extent * axis.rhs &&
        last.out == axis.extent * axis.out) {
      last = {last.extent * axis.extent, axis.lhs, axis.rhs, axis.out};
      return;
    }
  }
  axes.push_back(axis);
}

// The order in which products are summed is free: the one in which the dimensions merge best, in the order of the left
// operand's memory or of the right one's.
ProductAxes merged_inner(ProductAxes axes) {
  std::array<ProductAxes, 2> merged;
  for (std::size_t side = 0; side < 2; ++side) {
    std::stable_sort(axes.begin(), axes.end(), [side](const ProductAxis& a, const ProductAxis& b) {
      return side == 0 ? a.lhs > b.lhs : a.rhs > b.rhs;
    });
    for (const ProductAxis& axis : axes) append(merged[side], axis);
  }
  return merged[1].size() < merged[0].size() ? merged[1] : merged[0];
}

bool contains(const Dims& dims, std::size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
}

}  // namespace

std::int64_t extent_of(const ProductAxes& axes) {
  std::int64_t n = 1;
  for (const ProductAxis& axis : axes) n *= axis.extent;
  return n;
}

Product product_of(const Attrs& attrs, const Shape& lhs, const Shape& rhs) {
  const auto& lhs_contract = attrs.get<Dims>("lhs_contract");
  const auto& rhs_contract = attrs.get<Dims>("rhs_contract");
  const auto& lhs_batch = attrs.get<Dims>("lhs_batch");
  const auto& rhs_batch = attrs.get<Dims>("rhs_batch");
  const Dims lhs_strides = row_major_strides(lhs);
  const Dims rhs_strides = row_major_strides(rhs);
  const auto at = [](const auto& list, std::int64_t d) { return list[static_cast<std::size_t>(d)]; };

  // From the last dimension of the result to the first, for its strides.
  std::int64_t out_stride = 1;
  const auto free_axes = [&](bool left) {
    const Shape& shape = left ? lhs : rhs;
    ProductAxes axes;
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (contains(left ? lhs_contract : rhs_contract, d) || contains(left ? lhs_batch : rhs_batch, d)) continue;
      axes.push_back({shape[d], left ? lhs_strides[d] : 0, left ? 0 : rhs_strides[d], out_stride});
      out_stride *= shape[d];
    }
    return axes;
  };
  const ProductAxes columns = free_axes(false);
  const ProductAxes rows = free_axes(true);
  ProductAxes batch;
  for (std::size_t i = lhs_batch.size(); i-- > 0;) {
    batch.push_back({at(lhs, lhs_batch[i]), at(lhs_strides, lhs_batch[i]), at(rhs_strides, rhs_batch[i]), out_stride});
    out_stride *= batch.back().extent;
  }
  ProductAxes inner;
  for (std::size_t i = 0; i < lhs_contract.size(); ++i) {
    inner.push_back({at(lhs, lhs_contract[i]), at(lhs_strides, lhs_contract[i]), at(rhs_strides, rhs_contract[i]), 0});
  }

  const auto merged = [](const ProductAxes& last_first) {
    ProductAxes axes;
    for (auto axis = last_first.rbegin(); axis != last_first.rend(); ++axis) append(axes, *axis);
    return axes;
  };
  return {merged(batch), merged(rows), merged(columns), merged_inner(std::move(inner))};
}

ProductOffsets offsets_of(const ProductAxes& batch, std::int64_t product) {
  ProductOffsets offsets;
  for (auto axis = batch.rbegin(); axis != batch.rend(); ++axis) {
    const std::int64_t at = product % axis->extent;
    product /= axis->extent;
    offsets.lhs += at * axis->lhs;
    offsets.rhs += at * axis->rhs;
    offsets.out += at * axis->out;
  }
  return offsets;
}

}  // namespace shoal::cpu
