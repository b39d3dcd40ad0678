#include "generators.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "bodies.h"
#include "cases.h"
#include "core/dispatch.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/rules.h"
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

// One to three that differ in the extent of one dimension at most.
std::vector<Type> joinable(Rng& rng, const OpDef&, const Type& first) {
  std::vector<Type> types(1 + rng.below(3), first);
  if (first.rank() == 0) return types;
  const std::size_t dim = rng.below(first.rank());
  for (Type& type : std::span(types).subspan(1)) {
    if (rng.chance(50)) type.shape[dim] = static_cast<std::int64_t>(rng.below(7));
  }
  return types;
}

std::vector<Type> with_scalar(Rng&, const OpDef&, const Type& first) {
  Type scalar = first;
  scalar.shape = {};
  return {first, scalar};
}

// An array, for updates a part of it, and an index for each dimension.
std::vector<Type> with_starts(Rng& rng, const OpDef& op, const Type& first) {
  std::vector<Type> types{first};
  if (op.name == "dynamic_update_slice") {
    types.push_back(first);
    for (std::int64_t& extent : types[1].shape) {
      if (rng.chance(50)) extent = static_cast<std::int64_t>(rng.below(static_cast<std::size_t>(extent) + 1));
    }
  }
  Type index = first;
  index.dtype = rng.pick(std::vector<Dtype>{int32, int32, int8, uint64});
  index.shape = {};
  types.insert(types.end(), first.rank(), index);
  return types;
}

// Operands of several dtypes and one shape.
std::vector<Type> of_one_shape(Rng& rng, const OpDef&, const Type& first) {
  std::vector<Type> types(1 + rng.below(3), first);
  for (std::size_t i = 1; i < types.size(); ++i) types[i].dtype = rng.pick(all_dtypes());
  return types;
}

// Which dimensions of an array indices address, and which go along with dimensions of the indices.
struct ItemDims {
  Dims dims;
  Dims array_batch;
  Dims index_batch;

  Dims whole(std::size_t rank) const {
    Dims result;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
      const bool taken =
          std::count(dims.begin(), dims.end(), d) + std::count(array_batch.begin(), array_batch.end(), d);
      if (!taken) result.push_back(d);
    }
    return result;
  }
  Attrs attrs() const { return {{"dims", dims}, {"array_batch", array_batch}, {"index_batch", index_batch}}; }
};

ItemDims random_item_dims(Rng& rng, const Shape& array, const Shape& indices, std::size_t count) {
  ItemDims form;
  const Dims order = random_permutation(rng, array.size());
  std::vector<bool> used(indices.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < count) {
      form.dims.push_back(order[i]);
      continue;
    }
    for (std::size_t b = 0; b < indices.size(); ++b) {
      if (used[b] || indices[b] != array[static_cast<std::size_t>(order[i])] || rng.chance(30)) continue;
      form.array_batch.push_back(order[i]);
      form.index_batch.push_back(static_cast<std::int64_t>(b));
      used[b] = true;
      break;
    }
  }
  return form;
}

Shape items_of(const ItemDims& form, const Shape& array, const Shape& indices) {
  Shape items = indices;
  for (std::int64_t d : form.whole(array.size())) items.push_back(array[static_cast<std::size_t>(d)]);
  return items;
}

void add_indices(Rng& rng, std::vector<Type>& types, const Shape& shape, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    types.push_back(types[0]);
    types.back().dtype = rng.pick(std::vector<Dtype>{int32, int32, int8, int64, uint32});
    types.back().shape = shape;
  }
}

// A shape for indices, whose extents are often those of the array.
Shape index_shape(Rng& rng, const Shape& array) {
  Shape shape;
  for (std::size_t rank = rng.below(3); rank > 0; --rank) {
    const bool known = !array.empty() && rng.chance(60);
    shape.push_back(known ? array[rng.below(array.size())] : 1 + static_cast<std::int64_t>(rng.below(6)));
  }
  if (num_elements(shape) * num_elements(array) > 10'000) shape.clear();
  return shape;
}

std::vector<Type> gather_operands(Rng& rng, const OpDef&, const Type& first) {
  std::vector<Type> types = {first};
  const std::size_t count = std::min<std::size_t>(first.rank(), 1 + rng.below(2));
  add_indices(rng, types, index_shape(rng, first.shape), count);
  return types;
}

std::vector<Type> scatter_operands(Rng& rng, const OpDef& op, const Type& first) {
  std::vector<Type> types = gather_operands(rng, op, first);
  const Shape indices = types.size() > 1 ? types[1].shape : Shape{};
  const ItemDims form = random_item_dims(rng, first.shape, indices, types.size() - 1);
  Type updates = first;
  updates.shape = items_of(form, first.shape, indices);
  types.insert(types.begin() + 1, updates);
  return types;
}

// The first dimensions of the updates are those of the indices.
std::vector<Type> scatter_reduce_operands(Rng& rng, const OpDef&, const Type& first) {
  std::vector<Type> types = {first};
  const auto outer = static_cast<std::ptrdiff_t>(rng.below(first.rank() + 1));
  add_indices(rng, types, Shape(first.shape.begin(), first.shape.begin() + outer), 1 + rng.below(2));
  return types;
}

// Batches of matrices instead of lines.
std::vector<Type> matrix_operands(Rng& rng, const OpDef& op, const Type& first) {
  static const std::vector<std::int64_t> extents = {0, 1, 1, 2, 2, 3, 3, 4, 6};
  if (first.rank() == 0) return {first};
  Type matrices = first;
  matrices.shape.back() = rng.pick(extents);
  const bool square = op.name == "cholesky" || op.name == "cholesky_inverse" || op.name == "eigh" ||
                      op.name == "triangular_inverse" || op.name == "triangular_solve" || op.name == "hessenberg" ||
                      op.name == "schur" || op.name == "eig";
  matrices.shape.push_back(square ? matrices.shape.back() : rng.pick(extents));
  if (op.name == "householder_product") {
    Type factors = first;
    if (matrices.shape[first.rank() - 1] < matrices.shape.back())
      std::swap(matrices.shape[first.rank() - 1], matrices.shape.back());
    factors.shape.back() = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(matrices.shape.back() + 1)));
    return {matrices, factors};
  }
  if (op.name != "triangular_solve") return {matrices};
  Type sides = matrices;
  sides.shape.back() = rng.pick(extents);
  return {matrices, sides};
}

// Now and then windows reach beyond the next shard.
std::int64_t window_extent(Rng& rng) { return 1 + static_cast<std::int64_t>(rng.below(rng.chance(20) ? 9 : 3)); }

std::vector<Type> convolution_operands(Rng& rng, const OpDef&, const Type& first) {
  Type lhs = first;
  if (lhs.rank() == 2 && rng.chance(80)) lhs.shape.push_back(1 + static_cast<std::int64_t>(rng.below(6)));
  if (lhs.rank() < 2) return {lhs, lhs};
  std::vector<std::int64_t> groups;
  for (std::int64_t g = 1; g <= std::max<std::int64_t>(lhs.shape[1], 1); ++g) {
    if (lhs.shape[1] % g == 0) groups.push_back(g);
  }
  const std::int64_t group = rng.chance(50) ? 1 : rng.pick(groups);
  Type rhs = lhs;
  rhs.shape = {group * (1 + static_cast<std::int64_t>(rng.below(group > 4 ? 2 : 4))), lhs.shape[1] / group};
  for (std::size_t d = 2; d < lhs.rank(); ++d) rhs.shape.push_back(window_extent(rng));
  return {lhs, rhs};
}

// Queries, keys and values, for a gradient after a cotangent; now and then a bias and a mask.
std::vector<Type> attention_operands(Rng& rng, const OpDef& op, const Type& first) {
  const auto few = [&] { return 1 + static_cast<std::int64_t>(rng.below(4)); };
  Type query = first;
  while (query.rank() < 4) query.shape.push_back(few());
  const std::size_t batch = query.rank() - 4;
  const Shape& q = query.shape;
  Type key = query;
  key.shape.resize(batch);
  key.shape.insert(key.shape.end(), {rng.chance(50) ? few() : 8 * few() + 3, q[batch + 1], q[batch + 3]});
  Type value = key;
  if (rng.chance(50)) value.shape.back() = few();
  std::vector<Type> types = {query, key, value};
  const auto add = [&](Dtype dtype) {
    Type type = query;
    type.dtype = dtype;
    type.shape = shape_of_logits(q, key.shape);
    for (std::int64_t& extent : type.shape) {
      if (rng.chance(40)) extent = 1;
    }
    types.push_back(type);
  };
  if (rng.chance(40)) add(first.dtype);
  if (rng.chance(40)) add(bool_);
  if (op.name == "attention") return types;
  query.shape.back() = value.shape.back();
  types.insert(types.begin(), query);
  return types;
}

// ---- Attributes.

std::optional<Attrs> attention_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const bool is_masked = in.back().dtype == bool_;
  const std::size_t others = in.size() - (in[0].rank() == in[1].rank() ? 4 : 3);
  return Attrs{{"scale", Scalar::of(rng.chance(50) ? 1.0 : 0.3)},
               {"causal", rng.chance(50)},
               {"biased", others > (is_masked ? 1 : 0)},
               {"masked", is_masked}};
}

std::optional<Attrs> eig_attrs(Rng& rng, const Mesh&, Types, const Type&) {
  return Attrs{{"left", rng.chance(50)}, {"right", rng.chance(50)}, {"differentiable", false}};
}

// Without tiles, for which devices would compute together, and round otherwise than one does.
std::optional<Attrs> triangular_attrs(Rng& rng, const Mesh&, Types, const Type&) {
  Attrs attrs{{"lower", rng.chance(50)}, {"unit_diagonal", rng.chance(40)}};
  if (rng.chance(30)) attrs.set("adjoint", true);
  return attrs;
}

// Of real numbers the half, and of complex ones any other; a few dimensions in any order.
std::optional<Attrs> fft_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims dims = some_dims(rng, in[0].rank());
  if (dims.empty()) return {};
  std::rotate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(rng.below(dims.size())), dims.end());
  const std::string kind =
      is_complex(in[0].dtype) ? rng.pick(std::vector<std::string>{"fft", "ifft", "irfft"}) : "rfft";
  Shape lengths;
  for (std::int64_t d : dims) lengths.push_back(in[0].shape[static_cast<std::size_t>(d)]);
  if (kind == "irfft") lengths.back() = 2 * (lengths.back() - 1) + (rng.chance(50) ? 1 : 0);
  return Attrs{{"transform", kind}, {"dims", dims}, {"lengths", lengths}};
}

std::optional<Attrs> full_or_not(Rng& rng, const Mesh&, Types, const Type&) { return Attrs{{"full", rng.chance(50)}}; }

std::optional<Attrs> values_or_all(Rng& rng, const Mesh&, Types, const Type&) {
  return rng.chance(50) ? Attrs{{"values_only", true}} : Attrs{};
}

// How a window moves along some dimensions; it stays where `moves` has 0.
Attrs random_moves(Rng& rng, const Dims& moves) {
  Attrs attrs;
  const auto set = [&](const char* name, std::int64_t still, auto&& value) {
    Dims values;
    for (std::int64_t moving : moves) values.push_back(moving != 0 ? value() : still);
    attrs.set(name, values);
  };
  const auto up_to_three = [&] { return 1 + static_cast<std::int64_t>(rng.below(3)); };
  const auto padding = [&] { return static_cast<std::int64_t>(rng.below(4)) - 1; };
  set("strides", 1, up_to_three);
  set("low", 0, padding);
  set("high", 0, padding);
  set("base_dilation", 1, [&] { return rng.chance(70) ? 1 : up_to_three(); });
  set("window_dilation", 1, [&] { return rng.chance(70) ? 1 : up_to_three(); });
  return attrs;
}

// Now and then products are added in a wider dtype.
void widen_now_and_then(Rng& rng, Dtype dtype, Attrs& attrs) {
  static const std::map<Dtype, Dtype> wider = {{int8, int32},       {uint16, uint64},   {float16, float32},
                                               {bfloat16, float64}, {float32, float64}, {complex64, complex128}};
  const auto found = wider.find(dtype);
  if (found != wider.end() && rng.chance(25)) attrs.set("dtype", found->second);
}

std::optional<Attrs> convolution_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims moves;
  for (std::size_t d = 2; d < in[1].rank(); ++d) moves.push_back(in[1].shape[d] > 1 || rng.chance(30) ? 1 : 0);
  Attrs attrs = random_moves(rng, moves);
  widen_now_and_then(rng, in[0].dtype, attrs);
  return attrs;
}

std::optional<Attrs> reduce_window_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims moves;
  Dims window;
  for (std::size_t d = 0; d < in[0].rank(); ++d) {
    moves.push_back(rng.chance(50) ? 1 : 0);
    window.push_back(moves[d] == 0 ? 1 : window_extent(rng));
  }
  Attrs attrs = random_moves(rng, moves);
  attrs.set("window", window);
  attrs.set("kind", rng.pick(std::vector<std::string>{"sum", "prod", "max", "min"}));
  return attrs;
}

std::optional<Attrs> gather_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  return random_item_dims(rng, in[0].shape, in.size() > 1 ? in[1].shape : Shape{}, in.size() - 1).attrs();
}

// Dimensions that suit the updates, if some are found.
std::optional<Attrs> scatter_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const Shape indices = in.size() > 2 ? in[2].shape : Shape{};
  for (int tries = 0; tries < 50; ++tries) {
    const ItemDims form = random_item_dims(rng, in[0].shape, indices, in.size() - 2);
    if (items_of(form, in[0].shape, indices) == in[1].shape) return form.attrs();
  }
  return {};
}

const std::vector<std::string> kScatterKinds = {"sum", "sum", "prod", "max", "min"};

std::optional<Attrs> scatter_combine_attrs(Rng& rng, const Mesh& mesh, Types in, const Type& first) {
  std::optional<Attrs> attrs = scatter_attrs(rng, mesh, in, first);
  if (attrs) attrs->set("kind", rng.pick(kScatterKinds));
  return attrs;
}

std::optional<Attrs> scatter_reduce_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const Shape& indices = in[1].shape;
  Shape shape(in[0].shape.begin() + static_cast<std::ptrdiff_t>(indices.size()), in[0].shape.end());
  ItemDims form;
  const auto insert = [&](std::int64_t extent) {
    const auto at = static_cast<std::int64_t>(rng.below(shape.size() + 1));
    shape.insert(shape.begin() + at, extent);
    for (Dims* dims : {&form.dims, &form.array_batch}) {
      for (std::int64_t& d : *dims) d += d >= at ? 1 : 0;
    }
    return at;
  };
  for (std::size_t b = 0; b < indices.size(); ++b) {
    if (rng.chance(60)) continue;
    form.array_batch.push_back(insert(indices[b]));
    form.index_batch.push_back(static_cast<std::int64_t>(b));
  }
  for (std::size_t i = 1; i < in.size(); ++i) {
    form.dims.push_back(insert(1 + static_cast<std::int64_t>(rng.below(6))));
  }
  Attrs attrs = form.attrs();
  attrs.set("shape", shape);
  attrs.set("kind", rng.pick(kScatterKinds));
  return attrs;
}

std::optional<std::int64_t> some_dim(Rng& rng, const Type& type) {
  if (type.rank() == 0) return {};
  return static_cast<std::int64_t>(rng.below(type.rank()));
}

std::optional<Attrs> sort_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const auto dim = some_dim(rng, in[0]);
  if (!dim) return {};
  return Attrs{
      {"dim", *dim}, {"num_keys", static_cast<std::int64_t>(1 + rng.below(in.size()))}, {"descending", rng.chance(40)}};
}

std::optional<Attrs> top_k_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const auto dim = some_dim(rng, in[0]);
  if (!dim) return {};
  const auto extent = static_cast<std::size_t>(in[0].shape[static_cast<std::size_t>(*dim)]);
  return Attrs{{"dim", *dim}, {"k", static_cast<std::int64_t>(rng.below(extent + 1))}};
}

std::optional<Attrs> cumulative_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const auto dim = some_dim(rng, in[0]);
  if (!dim) return {};
  return Attrs{{"dim", *dim}, {"reverse", rng.chance(40)}};
}

std::optional<Attrs> no_attrs(Rng&, const Mesh&, Types, const Type&) { return Attrs{}; }

std::optional<Attrs> name_attrs(Rng&, const Mesh&, Types, const Type&) { return Attrs{{"name", std::string("h")}}; }

std::optional<Attrs> convert_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const Dtype to = rng.pick(all_dtypes());
  if (is_complex(in[0].dtype) && !is_complex(to)) return {};
  return Attrs{{"dtype", to}};
}

std::optional<Attrs> bitcast_attrs(Rng& rng, const Mesh&, Types, const Type&) {
  return Attrs{{"dtype", rng.pick(all_dtypes())}};
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
  widen_now_and_then(rng, in[0].dtype, attrs);
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

std::optional<Attrs> concatenate_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  const std::size_t rank = in[0].rank();
  if (rank == 0) return {};
  std::size_t dim = rng.below(rank);
  for (const Type& type : in) {
    for (std::size_t d = 0; d < rank; ++d) {
      if (type.shape[d] != in[0].shape[d]) dim = d;
    }
  }
  return Attrs{{"dim", static_cast<std::int64_t>(dim)}};
}

std::optional<Attrs> pad_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims low(in[0].rank(), 0);
  Dims high = low;
  Dims interior = low;
  for (std::size_t d = 0; d < in[0].rank(); ++d) {
    if (rng.chance(40)) continue;
    low[d] = static_cast<std::int64_t>(rng.below(6)) - 2;
    high[d] = static_cast<std::int64_t>(rng.below(6)) - 2;
    if (rng.chance(40)) interior[d] = static_cast<std::int64_t>(rng.below(3));
  }
  return Attrs{{"low", std::move(low)}, {"high", std::move(high)}, {"interior", std::move(interior)}};
}

std::optional<Attrs> reverse_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  return Attrs{{"dims", some_dims(rng, in[0].rank())}};
}

std::optional<Attrs> dynamic_slice_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims sizes = in[0].shape;
  for (std::int64_t& size : sizes) {
    if (rng.chance(50)) size = static_cast<std::int64_t>(rng.below(static_cast<std::size_t>(size) + 1));
  }
  return Attrs{{"sizes", std::move(sizes)}};
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

std::optional<Attrs> roll_attrs(Rng& rng, const Mesh&, Types in, const Type&) {
  Dims shifts;
  for (std::int64_t extent : in[0].shape) {
    const bool still = extent == 0 || rng.chance(40);
    shifts.push_back(still ? 0 : static_cast<std::int64_t>(rng.below(static_cast<std::size_t>(extent))));
  }
  return Attrs{{"shifts", std::move(shifts)}};
}

std::optional<Attrs> relax_attrs(Rng&, const Mesh& mesh, Types, const Type&) {
  return Attrs{{"axes", mesh.axis_names()}};
}

// Its axes are those of manual regions, of which there are none here.
std::optional<Attrs> pcast_attrs(Rng&, const Mesh&, Types, const Type&) {
  return Attrs{{"axes", std::vector<std::string>()}, {"to", std::string("reduced")}};
}

// ---- Ops of users: functions and rules like those that users write.

Attrs custom_attrs(Callback callback, std::string rule, std::span<const Type> results) {
  std::vector<std::string> texts;
  for (const Type& type : results) texts.push_back(to_string(Type{.dtype = type.dtype, .shape = type.shape}));
  return {{"function", CallbackAttr::of(std::move(callback))},
          {"name", std::string("test")},
          {"results", std::move(texts)},
          {"rule", std::move(rule)}};
}

// The last dimension reversed, and the operand itself.
GraphPtr reverse_graph(std::span<const Type> operands, std::span<const Type>, SourceLocation where) {
  auto graph = std::make_shared<Graph>();
  graph->add_input(operands[0]);
  const auto last = static_cast<std::int64_t>(operands[0].rank()) - 1;
  graph->outputs = graph->add_eqn(op_named("reverse"), {{"dims", Dims{last}}}, graph->inputs, where);
  graph->outputs.push_back(graph->inputs[0]);
  return graph;
}

std::optional<Attrs> custom_op_attrs(Rng& rng, const Mesh&, Types operands, const Type& first) {
  if (first.rank() == 0) return {};
  const std::string kind = rng.pick(std::vector<std::string>{"need_replication", "permutation"});
  return custom_attrs({.on_shards = reverse_graph}, "... d -> ... d, ... d " + kind + "={d}",
                      std::vector<Type>(2, operands[0]));
}

// Element by element where shards may end anywhere, and along whole lines.
void copy_view(std::span<const TensorView> operands, std::span<const TensorView> results) {
  gather_elements(operands[0], results[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset = offset * results[0].shape[d] + at[d];
    return offset;
  });
}
void reverse_first(std::span<const TensorView> operands, std::span<const TensorView> results) {
  const Shape& shape = results[0].shape;
  gather_elements(operands[0], results[0], [&](const Dims& at) {
    std::int64_t offset = shape[0] - 1 - at[0];
    for (std::size_t d = 1; d < at.size(); ++d) offset = offset * shape[d] + at[d];
    return offset;
  });
}

std::optional<Attrs> custom_kernel_attrs(Rng& rng, const Mesh&, Types operands, const Type& first) {
  if (first.rank() == 2 && rng.chance(60)) {
    return custom_attrs({.on_views = reverse_first}, "i j -> i j need_replication={i}", operands);
  }
  return custom_attrs({.on_views = copy_view}, "... -> ...", operands);
}

template <const char* kName>
std::optional<Attrs> attrs_with_bodies(Rng& rng, const Mesh& mesh, Types operands, const Type&) {
  return control_attrs(rng, mesh, op_named(kName), operands);
}

constexpr char kScan[] = "scan";
constexpr char kWhile[] = "while";
constexpr char kSwitch[] = "switch";
constexpr char kRegion[] = "region";

const std::map<std::string_view, Generator>& generators() {
  static const std::map<std::string_view, Generator> table = [] {
    std::map<std::string_view, Generator> map = {
        {"convert", {one_operand, convert_attrs}},
        {"dot_general", {dot_operands, dot_attrs}},
        {"broadcast_in_dim", {one_operand, broadcast_attrs}},
        {"reshape", {one_operand, reshape_attrs}},
        {"transpose", {one_operand, transpose_attrs}},
        {"slice", {one_operand, slice_attrs}},
        {"concatenate", {joinable, concatenate_attrs}},
        {"pad", {with_scalar, pad_attrs}},
        {"reverse", {one_operand, reverse_attrs}},
        {"dynamic_slice", {with_starts, dynamic_slice_attrs}},
        {"dynamic_update_slice", {with_starts, no_attrs}},
        {"bitcast", {one_operand, bitcast_attrs}},
        {"stop_gradient", {one_operand, no_attrs}},
        {"checkpoint_name", {one_operand, name_attrs}},
        {"use_key", {one_operand, no_attrs}},
        {"clone_key", {one_operand, no_attrs}},
        {"full", {no_operands, full_attrs}},
        {"iota", {no_operands, iota_attrs}},
        {"sharding_constraint", {one_operand, constraint_attrs}},
        {"to_memory", {one_operand, memory_attrs}},
        {"roll", {one_operand, roll_attrs}},
        {"relax_axes", {one_operand, relax_attrs}},
        {"pcast", {one_operand, pcast_attrs}},
        {"shard_alike", {of_one_shape, no_attrs}},
        {"custom_op", {one_operand, custom_op_attrs}},
        {"custom_kernel", {one_operand, custom_kernel_attrs}},
        {"gather", {gather_operands, gather_attrs}},
        {"scatter", {scatter_operands, scatter_attrs}},
        {"scatter_reduce", {scatter_reduce_operands, scatter_reduce_attrs}},
        {"scatter_combine", {scatter_operands, scatter_combine_attrs}},
        {"sort", {of_one_shape, sort_attrs}},
        {"top_k", {one_operand, top_k_attrs}},
        {"cholesky", {matrix_operands, no_attrs}},
        {"cholesky_inverse", {matrix_operands, no_attrs}},
        {"triangular_inverse", {matrix_operands, no_attrs}},
        {"triangular_solve", {matrix_operands, triangular_attrs}},
        {"lu", {matrix_operands, no_attrs}},
        {"qr", {matrix_operands, full_or_not}},
        {"eigh", {matrix_operands, values_or_all}},
        {"svd", {matrix_operands, full_or_not}},
        {"hessenberg", {matrix_operands, no_attrs}},
        {"householder_product", {matrix_operands, no_attrs}},
        {"schur", {matrix_operands, no_attrs}},
        {"eig", {matrix_operands, eig_attrs}},
        {"convolution", {convolution_operands, convolution_attrs}},
        {"fft", {one_operand, fft_attrs}},
        {"attention", {attention_operands, attention_attrs}},
        {"attention_gradient", {attention_operands, attention_attrs}},
        {"reduce_window", {one_operand, reduce_window_attrs}},
        {"scan", {control_operands, attrs_with_bodies<kScan>}},
        {"while", {control_operands, attrs_with_bodies<kWhile>}},
        {"switch", {control_operands, attrs_with_bodies<kSwitch>}},
        {"region", {control_operands, attrs_with_bodies<kRegion>}},
    };
    for (const char* name : {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}) {
      map[name] = {one_operand, cumulative_attrs};
    }
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
