#include "ops/batching.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "ir/dim_attrs.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"

namespace shoal {
namespace {

using MaybeDim = std::optional<std::size_t>;

// Whether an attribute speaks of the result's dimensions, so that the mapped one has to be told its place.
bool speaks_of_result(const OpDef& op) {
  return std::ranges::any_of(op.attributes, [](const AttrFact& fact) {
    return fact.role != AttrRole::kOther && fact.role != AttrRole::kLabel &&
           (fact.of == AttrFact::kResult || (fact.role == AttrRole::kDimOfEach && fact.from == AttrFact::kResult));
  });
}

// Elements meet place by place, and scalars meet all: the dimension is where the first operand has it.
std::vector<Batched> batched_elementwise(const BatchContext& context) {
  std::size_t rank = 0;
  for (std::size_t i = 0; i < context.operands.size(); ++i) rank = std::max(rank, context.rank(i));
  std::size_t dim = 0;
  for (std::size_t i = context.operands.size(); i-- > 0;) {
    if (context.operands[i].dim && context.rank(i) == rank) dim = *context.operands[i].dim;
  }
  Shape shape;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    if (context.rank(i) != rank) continue;
    shape = context.build.type(context.operands[i].value).shape;
    if (context.operands[i].dim) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*context.operands[i].dim));
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), context.size);
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const Batched& operand = context.operands[i];
    if (context.rank(i) == rank && rank > 0) {
      operands.push_back(context.mapped_at(i, dim));
    } else if (operand.dim && rank > 0) {
      operands.push_back(context.build.broadcast_in_dim(operand.value, shape, {static_cast<std::int64_t>(dim)}));
    } else {
      operands.push_back(operand.value);
    }
  }
  const ExtraDim extra{.extent = context.size,
                       .operands = std::vector<MaybeDim>(operands.size(), dim),
                       .result = dim,
                       .axes = context.split.axes};
  const Attrs attrs = with_dim(context.op, context.attrs, extra);
  return {{context.build.equation(context.op, attrs, std::move(operands))[0], dim}};
}

}  // namespace

bool BatchContext::is_mapped(std::size_t first) const {
  return std::ranges::any_of(operands.subspan(first), [](const Batched& one) { return one.dim.has_value(); });
}

std::size_t BatchContext::rank(std::size_t operand) const {
  return build.type(operands[operand].value).rank() - (operands[operand].dim ? 1 : 0);
}

ValueId BatchContext::mapped_at(std::size_t operand, std::size_t dim) const {
  return shoal::mapped_at(build, operands[operand], size, dim, split);
}

Type split_at(Type type, std::size_t dim, const MappedSplit& split, const AxisEnv& manual) {
  if (split.mesh.empty()) return type;
  ExplicitAxes wanted{.mesh = split.mesh, .dims = std::vector<std::vector<std::string>>(type.rank())};
  if (type.explicit_axes) wanted = *type.explicit_axes;
  const auto splits_another = [&](const std::string& axis) {
    for (std::size_t d = 0; d < wanted.dims.size(); ++d) {
      if (d != dim && std::ranges::find(wanted.dims[d], axis) != wanted.dims[d].end()) return true;
    }
    return std::ranges::find(wanted.unreduced, axis) != wanted.unreduced.end() ||
           std::ranges::find(wanted.reduced, axis) != wanted.reduced.end();
  };
  if (std::ranges::any_of(split.axes, splits_another)) return type;
  wanted.dims[dim] = split.axes;
  type.explicit_axes =
      without_manual(std::move(wanted), [&](const std::string& axis) { return manual.size_of(axis).has_value(); });
  return type;
}

ValueId mapped_at(Builder& build, const Batched& value, std::int64_t size, std::size_t dim, const MappedSplit& split) {
  const std::size_t rank = build.type(value.value).rank();
  if (!value.dim) {
    Shape shape = build.type(value.value).shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), size);
    Dims dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    for (std::int64_t& d : dims) d += d >= static_cast<std::int64_t>(dim) ? 1 : 0;
    const ValueId repeated = build.broadcast_in_dim(value.value, std::move(shape), std::move(dims));
    const Type& type = build.type(repeated);
    const bool is_typed = type.explicit_axes && type.explicit_axes->unreduced.empty();
    return is_typed ? build.split_as(repeated, split_at(type, dim, split, build.axes())) : repeated;
  }
  if (*value.dim == dim) return value.value;
  Dims perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(*value.dim));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(dim), static_cast<std::int64_t>(*value.dim));
  return build.transpose(value.value, std::move(perm));
}

ValueId dim_in_two(Builder& build, ValueId x, std::size_t dim, std::int64_t first) {
  Shape shape = build.type(x).shape;
  shape[dim] = first == 0 ? 0 : shape[dim] / first;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), first);
  return build.reshape(x, std::move(shape));
}

ValueId joined_with_next(Builder& build, ValueId x, std::size_t dim) {
  Shape shape = build.type(x).shape;
  shape[dim] *= shape[dim + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
  return build.reshape(x, std::move(shape));
}

std::vector<Batched> batched_alike(const BatchContext& context, std::vector<ValueId> operands,
                                   std::vector<MaybeDim> dims) {
  const OpDef& op = context.op;
  Builder& build = context.build;
  const Attrs attrs =
      with_dim(op, context.attrs, {.extent = context.size, .operands = dims, .result = 0, .axes = context.split.axes});
  const std::vector<ValueId> results = build.equation(op, attrs, operands);
  std::vector<Batched> made;
  const bool is_told = context.size > 1 && num_elements(build.type(results[0]).shape) > 0;
  if (!is_told && speaks_of_result(op)) {
    // A reshape cannot tell apart dimensions of extent 1, or those of empty arrays.
    for (const ValueId id : results) made.push_back({id, 0});
    return made;
  }
  std::vector<Type> operand_types;
  std::vector<Type> result_types;
  for (const ValueId id : operands) operand_types.push_back(build.type(id));
  for (const ValueId id : results) result_types.push_back(build.type(id));
  const ShardingRule rule = op.rule({.op = op, .inputs = operand_types, .outputs = result_types, .attrs = attrs});
  const auto check = [&](bool holds) {
    SHOAL_CHECK(holds, fmt::format("the mapped dimension does not pass through {}: {}", op.name, to_string(rule)));
  };
  int factor = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i]) continue;
    const DimFactors& factors = rule.operands[i][*dims[i]];
    check(factors.size() == 1 && (factor < 0 || factors[0] == factor));
    factor = factors[0];
  }
  check(factor >= 0 && rule.factors[static_cast<std::size_t>(factor)].kind == FactorKind::kPassThrough);
  for (std::size_t r = 0; r < results.size(); ++r) {
    const TensorFactors& own = rule.results[r];
    const auto found =
        std::ranges::find_if(own, [&](const DimFactors& one) { return one.size() == 1 && one[0] == factor; });
    check(found != own.end() && (!speaks_of_result(op) || found == own.begin()));
    made.push_back({results[r], static_cast<std::size_t>(found - own.begin())});
  }
  return made;
}

std::vector<Batched> batched_one_by_one(const BatchContext& context) {
  Builder& build = context.build;
  Graph body;
  body.name = std::string(context.op.name);
  body.axes = build.axes();
  std::vector<ValueId> arguments(context.operands.size());
  std::vector<ValueId> operands;
  std::int64_t slices = 0;
  for (const bool as_slices : {true, false}) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (context.operands[i].dim.has_value() != as_slices) continue;
      operands.push_back(as_slices ? context.mapped_at(i) : context.operands[i].value);
      slices += as_slices ? 1 : 0;
      const Type& type = build.type(operands.back());
      arguments[i] = body.add_input(as_slices ? without_dim(type, 0) : type);
    }
  }
  body.outputs = Builder(body, build.where()).equation(context.op, context.attrs, std::move(arguments));
  Attrs attrs{{"carries", std::int64_t{0}}, {"slices", slices}, {"length", context.size}, {"reverse", false}};
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body));
  const std::vector<ValueId> results =
      build.equation(op_named("scan"), with_bodies(std::move(attrs), std::move(bodies)), std::move(operands));
  std::vector<Batched> made;
  for (const ValueId id : results) made.push_back({id, 0});
  return made;
}

std::vector<Batched> batched_by_record(const BatchContext& context) {
  if (context.op.batch != nullptr) return context.op.batch(context);
  if (context.op.elementwise != nullptr) return batched_elementwise(context);
  std::vector<ValueId> operands;
  std::vector<MaybeDim> dims;
  // A single operand of a reduction may have it anywhere.
  const bool stays = context.op.reduces && !speaks_of_result(context.op);
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const std::size_t dim = stays ? context.operands[i].dim.value_or(0) : 0;
    operands.push_back(context.mapped_at(i, dim));
    dims.emplace_back(dim);
  }
  return batched_alike(context, std::move(operands), std::move(dims));
}

}  // namespace shoal
