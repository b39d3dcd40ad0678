#include "backend/cpu/products/product_plan.h"

#include <utility>

namespace shoal::cpu {
namespace {

std::vector<StridedDim> dims_of(const ProductAxes& axes, std::int64_t ProductAxis::*stride) {
  std::vector<StridedDim> dims;
  for (const ProductAxis& axis : axes) dims.push_back({axis.extent, axis.*stride});
  return dims;
}

}  // namespace

ProductPlan plan_product(const Attrs& attrs, const ProductTypes& types, const Shape& lhs, const Shape& rhs) {
  Product product = product_of(attrs, lhs, rhs);
  ProductPlan plan;
  plan.lhs_shape = lhs;
  plan.rhs_shape = rhs;
  plan.width = extent_of(product.columns);
  plan.library = LibraryProduct::of(product, types);
  plan.extents = {extent_of(product.batch), extent_of(product.rows), extent_of(product.columns),
                  extent_of(product.inner)};
  plan.lhs_outer = dims_of(product.rows, &ProductAxis::lhs);
  plan.lhs_inner = dims_of(product.inner, &ProductAxis::lhs);
  plan.rhs_outer = dims_of(product.columns, &ProductAxis::rhs);
  plan.rhs_inner = dims_of(product.inner, &ProductAxis::rhs);
  plan.batch = std::move(product.batch);
  if (plan.extents.elements() == 0) return plan;
  plan.tiling = tiling_of(plan.extents);
  plan.has_plain_sums = !plan.library && types.sums_are_results() && plan.tiling.parts == 1 && plan.extents.inner > 0;
  return plan;
}

}  // namespace shoal::cpu
