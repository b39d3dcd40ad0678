#include "generators.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "cases.h"
#include "core/dispatch.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

using Types = std::span<const Type>;

const std::vector<Dtype>& all_dtypes() {
  static const std::vector<Dtype> dtypes = [] {
    std::vector<Dtype> list;
    for (int i = 0; i < kNumDtypes; ++i) list.push_back(static_cast<Dtype>(i));
    return list;
  }();
  return dtypes;
}

// A random subset of 0..rank-1, ascending.
Dims some_dims(Rng& rng, std::size_t rank) {
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    if (rng.chance(50)) dims.push_back(static_cast<std::int64_t>(d));
  }
  return dims;
}

Dims random_permutation(Rng& rng, std::size_t rank) {
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  rng.shuffle(perm);
  return {perm.begin(), perm.end()};
}

// ---- Operands.

std::vector<Type> no_operands(Rng&, const OpDef&, const Type&) { return {}; }
std::vector<Type> one_operand(Rng&, const OpDef&, const Type& first) { return {first}; }

// As many of one type as the op takes; now and then one of them is a scalar.
std::vector<Type> alike(Rng& rng, const OpDef& op, const Type& first) {
  std::vector<Type> types(static_cast<std::size_t>(op.arity), first);
  if (op.name == "select") types[0].dtype = bool_;
  if (types.size() > 1 && rng.chance(15)) types[rng.below(types.size())].shape = {};
  return types;
}

std::vector<Type> dot_operands(Rng& rng, const OpDef&, const Type& first) {
  Type second = first;
  for (std::size_t i = 0; i < first.rank(); ++i) {
    second.shape[i] = first.shape[static_cast<std::size_t>(rng.below(first.rank()))];
  }
  if (rng.chance(30)) second.shape = first.shape;
  if (second.rank() > 1 && rng.chance(30)) second.shape.pop_back();
  return {first, second};
}

// ---- Attributes.

std::optional<Attrs> no_attrs(Rng&, const Mesh&, Types, const Type&) { return Attrs{}; }

std::optional<Attrs> convert_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const Dtype to = rng.pick(all_dtypes());
  if (is_complex(in[0].dtype) && !is_complex(to)) return {};
  return Attrs{{"dtype", to}};
}

std::optional<Attrs> reduce_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  return Attrs{{"axes", some_dims(rng, in[0].rank())}};
}

std::optional<Attrs> dot_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims lhs_contract;
  Dims rhs_contract;
  Dims lhs_batch;
  Dims rhs_batch;
  std::vector<bool> used(in[1].rank(), false);
  for (const std::int64_t left : random_permutation(rng, in[0].rank())) {
    for (const std::int64_t right : random_permutation(rng, in[1].rank())) {
      const auto r = static_cast<std::size_t>(right);
      if (used[r] || in[0].shape[static_cast<std::size_t>(left)] != in[1].shape[r]) continue;
      const bool contract = rng.chance(60);
      if (!contract && rng.chance(50)) break;
      (contract ? lhs_contract : lhs_batch).push_back(left);
      (contract ? rhs_contract : rhs_batch).push_back(right);
      used[r] = true;
      break;
    }
  }
  Attrs attrs{{"lhs_contract", std::move(lhs_contract)},
              {"rhs_contract", std::move(rhs_contract)},
              {"lhs_batch", std::move(lhs_batch)},
              {"rhs_batch", std::move(rhs_batch)}};
  // Now and then products are added in a wider dtype.
  static const std::map<Dtype, Dtype> wider = {{int8, int32},       {uint16, uint64},   {float16, float32},
                                               {bfloat16, float64}, {float32, float64}, {complex64, complex128}};
  const auto found = wider.find(in[0].dtype);
  if (found != wider.end() && rng.chance(25)) attrs.set("dtype", found->second);
  return attrs;
}

std::optional<Attrs> broadcast_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Shape shape;
  Dims dims;
  for (std::int64_t extent : in[0].shape) {
    if (rng.chance(30)) shape.push_back(static_cast<std::int64_t>(rng.below(4)) + 1);
    dims.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(extent == 1 && rng.chance(70) ? 4 : extent);
  }
  if (shape.empty() || rng.chance(30)) shape.push_back(4);
  return Attrs{{"shape", std::move(shape)}, {"dims", std::move(dims)}};
}

std::optional<Attrs> reshape_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Shape shape = in[0].shape;
  // Divides dimensions, merges neighbours, and inserts dimensions of extent 1.
  for (std::size_t changes = 1 + rng.below(3); changes > 0; --changes) {
    const std::size_t d = rng.below(shape.size() + 1);
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(d);
    if (d < shape.size() && shape[d] > 3 && rng.chance(50)) {
      const std::int64_t divisor = shape[d] % 2 == 0 ? 2 : shape[d] % 3 == 0 ? 3 : shape[d];
      const bool minor = rng.chance(50);
      const std::int64_t rest = shape[d] / divisor;
      *at = minor ? rest : divisor;
      shape.insert(at + 1, minor ? divisor : rest);
    } else if (d + 1 < shape.size() && rng.chance(80)) {
      shape[d + 1] *= shape[d];
      shape.erase(at);
    } else if (shape.size() < 4) {
      shape.insert(at, 1);
    }
  }
  return Attrs{{"shape", std::move(shape)}};
}

std::optional<Attrs> transpose_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  return Attrs{{"perm", random_permutation(rng, in[0].rank())}};
}

std::optional<Attrs> slice_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims starts;
  Dims limits;
  Dims strides;
  for (std::int64_t extent : in[0].shape) {
    const bool whole = rng.chance(50);
    const auto n = static_cast<std::size_t>(extent);
    starts.push_back(whole ? 0 : static_cast<std::int64_t>(rng.below(n / 2 + 1)));
    limits.push_back(whole ? extent : extent - static_cast<std::int64_t>(rng.below((n + 1) / 2 + 1)));
    limits.back() = std::max(limits.back(), starts.back());
    strides.push_back(rng.chance(70) ? 1 : 2);
  }
  return Attrs{{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", std::move(strides)}};
}

std::optional<Attrs> full_attrs(Rng& rng, const Mesh&, Types, const Type& like) {
  const auto value = static_cast<std::int32_t>(rng.below(7)) - 3;
  return Attrs{{"shape", like.shape}, {"value", Scalar::of(value).converted_to(like.dtype)}};
}

std::optional<Attrs> iota_attrs(Rng& rng, const Mesh&, Types, const Type& like) {
  if (like.rank() == 0 || like.dtype == bool_) return {};
  return Attrs{
      {"shape", like.shape}, {"dtype", like.dtype}, {"dim", static_cast<std::int64_t>(rng.below(like.rank()))}};
}

std::optional<Attrs> constraint_attrs(Rng& rng, const Mesh& mesh, Types in, const Type&) {
  const PartitionSpec spec = random_spec(rng, mesh, in[0].rank());
  std::vector<PartitionEntry> entries = spec.entries();
  for (PartitionEntry& entry : entries) {
    if (entry.is_none() && rng.chance(30)) entry = unconstrained;
  }
  return Attrs{{"sharding", NamedSharding(mesh, PartitionSpec(std::move(entries)))}};
}

std::optional<Attrs> memory_attrs(Rng& rng, const Mesh&, Types, const Type&) {
  return Attrs{{"memory", rng.chance(50) ? kPinnedHostMemory : kDeviceMemory}};
}

const std::map<std::string_view, Generator>& generators() {
  static const std::map<std::string_view, Generator> table = [] {
    std::map<std::string_view, Generator> map = {
        {"convert", {one_operand, convert_attrs}},
        {"dot_general", {dot_operands, dot_attrs}},
        {"broadcast_in_dim", {one_operand, broadcast_attrs}},
        {"reshape", {one_operand, reshape_attrs}},
        {"transpose", {one_operand, transpose_attrs}},
        {"slice", {one_operand, slice_attrs}},
        {"full", {no_operands, full_attrs}},
        {"iota", {no_operands, iota_attrs}},
        {"sharding_constraint", {one_operand, constraint_attrs}},
        {"to_memory", {one_operand, memory_attrs}},
    };
    for (const char* name : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"}) {
      map[name] = {one_operand, reduce_attrs};
    }
    return map;
  }();
  return table;
}

}  // namespace

const Generator* generator_of(const OpDef& op) {
  static const Generator pointwise{alike, no_attrs};
  const auto found = generators().find(op.name);
  if (found != generators().end()) return &found->second;
  return op.elementwise != nullptr ? &pointwise : nullptr;
}

std::optional<Sample> sample(Rng& rng, const Mesh& mesh, const OpDef& op, const Type& first) {
  const Generator& generator = *generator_of(op);
  Sample made{.operands = generator.operands(rng, op, first), .attrs = {}};
  std::optional<Attrs> attrs = generator.attrs(rng, mesh, made.operands, first);
  if (!attrs) return {};
  made.attrs = std::move(*attrs);
  try {
    op.infer({.op = op, .inputs = made.operands, .attrs = made.attrs, .axes = {}, .where = SourceLocation::current()});
  } catch (const Error&) {
    return {};  // The op does not take these types.
  }
  return made;
}

Shape random_shape(Rng& rng, std::size_t rank) {
  static const std::vector<std::int64_t> extents = {1, 2, 3, 4, 4, 5, 6, 8, 8, 12};
  Shape shape;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t extent = rng.pick(extents);
    if (rng.chance(2)) extent = 0;
    if (elements * extent > 2000) extent = 2;
    elements *= extent;
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace shoal::parity
