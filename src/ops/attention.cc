// Attention: means of values, weighted by the softmax of products of queries and keys (Vaswani et al. 2017, "Attention
// Is All You Need"), without an array of all weights. Derivatives compute the weights again from queries and keys, as
// Dao et al. 2022 do ("FlashAttention").
#include "ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

// Operands of `attention`: those of attention_gradient come after a cotangent.
enum Place : std::size_t { kQuery, kKey, kValue, kOthers };

bool is_biased(const Attrs& attrs) { return attrs.get<bool>("biased"); }
bool is_masked(const Attrs& attrs) { return attrs.get<bool>("masked"); }
bool is_causal(const Attrs& attrs) { return attrs.get<bool>("causal"); }
std::size_t mask_place(const Attrs& attrs) { return kOthers + (is_biased(attrs) ? 1 : 0); }
double scale_of(const Attrs& attrs) { return attrs.get<Scalar>("scale").as<double>(); }
std::size_t operand_count(const Attrs& attrs) { return mask_place(attrs) + (is_masked(attrs) ? 1 : 0); }

// ---- Types

// Checks the operands from `first` on.
void check_attention(const InferContext& context, std::size_t first) {
  const auto types = context.inputs.subspan(std::min(first, context.inputs.size()));
  if (types.size() != operand_count(context.attrs)) {
    infer_error(context,
                fmt::format("takes {} operands, not {}", first + operand_count(context.attrs), context.inputs.size()));
  }
  const Type& query = types[kQuery];
  const Type& key = types[kKey];
  const Type& value = types[kValue];
  const std::size_t rank = query.rank();
  // batch t k g h, batch s k h and batch s k v.
  bool fits = rank >= 4 && key.rank() + 1 == rank && value.rank() + 1 == rank;
  fits = fits && std::equal(query.shape.begin(), query.shape.end() - 4, key.shape.begin()) &&
         std::equal(key.shape.begin(), key.shape.end() - 1, value.shape.begin()) &&
         key.shape[rank - 3] == query.shape[rank - 3] && key.shape.back() == query.shape.back();
  if (!fits) {
    infer_error(context,
                fmt::format("queries {} must be (batch, T, key heads, group, H), keys {} (batch, S, key heads, "
                            "H) and values {} (batch, S, key heads, V)",
                            to_string(query), to_string(key), to_string(value)));
  }
  const Dtype dtype = context.inputs[0].dtype;
  const auto check_dtype = [&](const Type& type, bool is_allowed) {
    if (!is_allowed || !is_floating(dtype)) {
      throw TypeMismatch(
          fmt::format(
              "{}: takes floats of one dtype, a bias of this or of f32 for smaller ones, and masks of bool; not "
              "{} and {}",
              Caller::function_or(context.op.name), to_string(context.inputs[0]), to_string(type)),
          context.where);
    }
  };
  for (std::size_t i = 0; i < kOthers; ++i) check_dtype(types[i], types[i].dtype == dtype);
  const Shape logits = shape_of_logits(query.shape, key.shape);
  for (std::size_t i = kOthers; i < types.size(); ++i) {
    const bool is_mask = is_masked(context.attrs) && i == mask_place(context.attrs);
    check_dtype(types[i],
                is_mask ? types[i].dtype == bool_ : types[i].dtype == dtype || types[i].dtype == dtype_of_sums(dtype));
    bool broadcasts = types[i].rank() == logits.size();
    for (std::size_t d = 0; broadcasts && d < logits.size(); ++d) {
      broadcasts = types[i].shape[d] == 1 || types[i].shape[d] == logits[d];
    }
    if (!broadcasts) {
      infer_error(context, fmt::format("a mask or bias {} must have 1 or the extent of the logits {} in each dimension",
                                       to_string(types[i]), to_string(logits)));
    }
  }
}

Shape shape_of_result(const Shape& query, const Shape& value) {
  Shape shape = query;
  shape.back() = value.back();
  return shape;
}

std::vector<Type> infer_attention(const InferContext& context) {
  check_attention(context, 0);
  return {like_operands(context, shape_of_result(context.inputs[kQuery].shape, context.inputs[kValue].shape))};
}

std::vector<Type> infer_attention_gradient(const InferContext& context) {
  check_attention(context, 1);
  const auto types = context.inputs.subspan(1);
  if (context.inputs[0].shape != shape_of_result(types[kQuery].shape, types[kValue].shape)) {
    infer_error(context, fmt::format("a cotangent {} must have the shape of the result for queries {} and values {}",
                                     to_string(context.inputs[0]), to_string(types[kQuery]), to_string(types[kValue])));
  }
  std::vector<Type> results;
  for (std::size_t i = 0; i < kOthers; ++i) {
    results.push_back(like_operands(context, types[i].shape));
    results.back().weak = types[i].weak;
    if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) results.back().dtype = *dtype;
  }
  return results;
}

// ---- Sharding

// The factors of queries, keys, values, and what else there is.
struct AttentionFactors {
  ShardingRule rule;
  TensorFactors query;
  TensorFactors key;
  TensorFactors value;
  TensorFactors result;
  std::vector<TensorFactors> others;

  // `rows` is how queries are passed through or summed over, `width` how the last dimension of values is.
  AttentionFactors(std::span<const Type> types, FactorKind rows, FactorKind width) {
    const Shape& q = types[kQuery].shape;
    const std::size_t batch = q.size() - 4;
    TensorFactors logits;
    for (std::size_t d = 0; d < batch; ++d) logits.push_back({rule.add_factor(q[d])});
    query = key = value = logits;
    const DimFactors t = {rule.add_factor(q[batch], rows)};
    const DimFactors k = {rule.add_factor(q[batch + 1])};
    const DimFactors g = {rule.add_factor(q[batch + 2], rows)};
    const DimFactors h = {rule.add_factor(q[batch + 3], FactorKind::kNeedReplication)};
    const DimFactors s = {rule.add_factor(types[kKey].shape[batch], FactorKind::kNeedReplication)};
    const DimFactors v = {rule.add_factor(types[kValue].shape.back(), width)};
    result = query;
    query.insert(query.end(), {t, k, g, h});
    key.insert(key.end(), {s, k, h});
    value.insert(value.end(), {s, k, v});
    result.insert(result.end(), {t, k, g, v});
    logits.insert(logits.end(), {k, g, t, s});
    const Shape extents = shape_of_logits(q, types[kKey].shape);
    for (const Type& type : types.subspan(kOthers)) {
      others.push_back(logits);
      for (std::size_t d = 0; d < logits.size(); ++d) {
        if (type.shape[d] != extents[d]) others.back()[d] = {rule.add_factor(1, FactorKind::kNeedReplication)};
      }
    }
  }
};

ShardingRule attention_rule(const RuleContext& context) {
  AttentionFactors factors(context.inputs, FactorKind::kPassThrough, FactorKind::kPassThrough);
  ShardingRule rule = std::move(factors.rule);
  rule.operands = {factors.query, factors.key, factors.value};
  rule.operands.insert(rule.operands.end(), factors.others.begin(), factors.others.end());
  rule.results = {factors.result};
  return rule;
}

ShardingRule attention_gradient_rule(const RuleContext& context) {
  AttentionFactors factors(context.inputs.subspan(1), FactorKind::kReduction, FactorKind::kNeedReplication);
  ShardingRule rule = std::move(factors.rule);
  rule.operands = {factors.result, factors.query, factors.key, factors.value};
  rule.operands.insert(rule.operands.end(), factors.others.begin(), factors.others.end());
  rule.results = {factors.query, factors.key, factors.value};
  return rule;
}

// ---- Values

bool sees(const AttentionViews& a, std::int64_t b, std::int64_t k, std::int64_t g, std::int64_t t, std::int64_t s) {
  return (a.mask == nullptr || a.mask->as<bool>()[a.logits(*a.mask, b).at(k, g, t, s)]) &&
         (!a.causal || s <= a.first_query + t);
}

// Calls f(T{}) for the dtypes that there are.
template <class F>
void with_float(Dtype dtype, F&& f) {
  if (dtype == float16) return f(float16_t{});
  if (dtype == bfloat16) return f(bfloat16_t{});
  return dtype == float32 ? f(float{}) : f(double{});
}

// The weights of a query, in f64.
template <class T>
std::vector<double> weights_of(const AttentionViews& a, std::int64_t b, std::int64_t k, std::int64_t g,
                               std::int64_t t) {
  std::vector<double> weights(static_cast<std::size_t>(a.s));
  const T* q = a.query.as<T>() + a.query_at(b, t, k, g) * a.h;
  for (std::int64_t s = 0; s < a.s; ++s) {
    const T* y = a.key.as<T>() + a.key_at(b, s, k) * a.h;
    double sum = 0;
    for (std::int64_t h = 0; h < a.h; ++h) sum += static_cast<double>(q[h]) * static_cast<double>(y[h]);
    sum *= a.scale;
    if (a.bias != nullptr) {
      const std::int64_t at = a.logits(*a.bias, b).at(k, g, t, s);
      with_float(a.bias->dtype, [&]<class E>(E) { sum += static_cast<double>(a.bias->as<E>()[at]); });
    }
    weights[static_cast<std::size_t>(s)] = sees(a, b, k, g, t, s) ? sum : kHiddenLogit;
  }
  const double most = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= total;
  return weights;
}

template <class F>
void for_each_query(const AttentionViews& dims, F&& f) {
  for (std::int64_t b = 0; b < dims.b; ++b) {
    for (std::int64_t t = 0; t < dims.t; ++t) {
      for (std::int64_t k = 0; k < dims.k; ++k) {
        for (std::int64_t g = 0; g < dims.g; ++g) f(b, k, g, t);
      }
    }
  }
}

// Writes elements from `first` on, rounded to the dtype.
void store_elements(const std::vector<double>& from, const TensorView& to, std::int64_t first) {
  with_float(to.dtype, [&]<class T>(T) {
    T* out = to.as<T>() + first;
    for (const double one : from) *out++ = from_accumulator<T>(one);
  });
}

void attention(const KernelContext& context) {
  const AttentionViews dims(context.attrs, context.inputs);
  with_float(context.inputs[0].dtype, [&]<class T>(T) {
    for_each_query(dims, [&](std::int64_t b, std::int64_t k, std::int64_t g, std::int64_t t) {
      const std::vector<double> row = weights_of<T>(dims, b, k, g, t);
      std::vector<double> sums(static_cast<std::size_t>(dims.v));
      for (std::int64_t s = 0; s < dims.s; ++s) {
        const T* value = context.inputs[kValue].as<T>() + dims.key_at(b, s, k) * dims.v;
        for (double& sum : sums) sum += row[static_cast<std::size_t>(s)] * static_cast<double>(*value++);
      }
      store_elements(sums, context.outputs[0], dims.query_at(b, t, k, g) * dims.v);
    });
  });
}

void attention_gradient(const KernelContext& context) {
  const auto inputs = context.inputs.subspan(1);
  const AttentionViews dims(context.attrs, inputs);
  with_float(context.inputs[0].dtype, [&]<class T>(T) {
    std::vector<double> of_keys(static_cast<std::size_t>(dims.b * dims.s * dims.k * dims.h));
    std::vector<double> of_values(static_cast<std::size_t>(dims.b * dims.s * dims.k * dims.v));
    for_each_query(dims, [&](std::int64_t b, std::int64_t k, std::int64_t g, std::int64_t t) {
      const std::vector<double> row = weights_of<T>(dims, b, k, g, t);
      const std::int64_t at = dims.query_at(b, t, k, g);
      const T* cotangent = context.inputs[0].as<T>() + at * dims.v;
      const T* query = inputs[kQuery].as<T>() + at * dims.h;
      std::vector<double> slopes(row.size());
      double mean = 0;
      for (std::int64_t s = 0; s < dims.s; ++s) {
        const T* value = inputs[kValue].as<T>() + dims.key_at(b, s, k) * dims.v;
        double sum = 0;
        for (std::int64_t v = 0; v < dims.v; ++v)
          sum += static_cast<double>(cotangent[v]) * static_cast<double>(value[v]);
        slopes[static_cast<std::size_t>(s)] = sum;
        mean += row[static_cast<std::size_t>(s)] * sum;
      }
      std::vector<double> of_query(static_cast<std::size_t>(dims.h));
      for (std::int64_t s = 0; s < dims.s; ++s) {
        const double weight = row[static_cast<std::size_t>(s)];
        const std::int64_t place = dims.key_at(b, s, k);
        for (std::int64_t v = 0; v < dims.v; ++v) {
          of_values[static_cast<std::size_t>(place * dims.v + v)] += weight * static_cast<double>(cotangent[v]);
        }
        if (!sees(dims, b, k, g, t, s)) continue;
        const double slope = dims.scale * weight * (slopes[static_cast<std::size_t>(s)] - mean);
        const T* key = inputs[kKey].as<T>() + place * dims.h;
        for (std::int64_t h = 0; h < dims.h; ++h) {
          of_query[static_cast<std::size_t>(h)] += slope * static_cast<double>(key[h]);
          of_keys[static_cast<std::size_t>(place * dims.h + h)] += slope * static_cast<double>(query[h]);
        }
      }
      store_elements(of_query, context.outputs[0], at * dims.h);
    });
    store_elements(of_keys, context.outputs[1], 0);
    store_elements(of_values, context.outputs[2], 0);
  });
}

// ---- Costs

// Additions and multiplications of so many products of queries and keys, and what the weights take.
double flops_of_products(std::span<const Type> types, double by_width, double by_values, double by_weight) {
  const Shape& q = types[kQuery].shape;
  const double weights = static_cast<double>(num_elements(shape_of_logits(q, types[kKey].shape)));
  return weights * (2 * by_width * static_cast<double>(q.back()) +
                    2 * by_values * static_cast<double>(types[kValue].shape.back()) + by_weight);
}

double flops_of_attention(const RuleContext& context) { return flops_of_products(context.inputs, 1, 1, 5); }
double flops_of_gradient(const RuleContext& context) { return flops_of_products(context.inputs.subspan(1), 3, 2, 10); }

// ---- Derivatives

// Attention written out, with logits and weights as arrays (batch, k, g, t, s): what derivatives by other means than
// attention_gradient are made of. It computes in the dtype of sums.
class Formula {
 public:
  Formula(Builder& build, const Attrs& attrs, std::vector<ValueId> operands)
      : build_(build),
        attrs_(attrs),
        operands_(std::move(operands)),
        batch_(build.type(operands_[kQuery]).rank() - 4),
        shape_(shape_of_logits(build.type(operands_[kQuery]).shape, build.type(operands_[kKey]).shape)) {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!is_masked(attrs) || i != mask_place(attrs)) operands_[i] = wide(operands_[i]);
    }
  }

  ValueId wide(ValueId x) const { return as(x, dtype_of_sums(build_.type(x).dtype)); }
  MaybeValue wide(MaybeValue x) const { return x ? MaybeValue(wide(*x)) : std::nullopt; }
  ValueId as(ValueId x, Dtype dtype) const { return build_.type(x).dtype == dtype ? x : build_.convert(x, dtype); }

  ValueId query() const { return operands_[kQuery]; }
  ValueId key() const { return operands_[kKey]; }
  ValueId value() const { return operands_[kValue]; }

  // x of (batch, t, k, g, n), y of (batch, s, k, n): the logits without a scale.
  ValueId products(ValueId x, ValueId y) const {
    const ValueId made = build_.dot_general(x, y, {{dim(3)}, {dim(2)}, batches({1}), batches({1})});  // batch k t g s
    return build_.transpose(made, order({0, 2, 1, 3}));
  }
  // Of weights and y of (batch, s, k, n), as (batch, t, k, g, n).
  ValueId means(ValueId weights, ValueId y) const {
    const ValueId made =
        build_.dot_general(weights, y, {{dim(3)}, {dim(0)}, batches({0}), batches({1})});  // batch k g t n
    return build_.transpose(made, order({2, 0, 1, 3}));
  }
  // Of weights and x of (batch, t, k, g, n), as (batch, s, k, n), split as `type`. Both may be split over queries,
  // which are summed.
  ValueId gathered(ValueId weights, ValueId x, const Type& type) const {
    const ValueId made =
        build_.dot_general(build_.relaxed(weights), build_.relaxed(x),
                           {{dim(1), dim(2)}, {dim(2), dim(0)}, batches({0}), batches({1})});  // batch k s n
    return build_.split_as(build_.transpose(made, order({1, 0, 2})), type);
  }
  ValueId scaled(ValueId x) const {
    const double scale = scale_of(attrs_);
    if (scale == 1) return x;
    return build_.multiply(x, build_.full(Scalar::of(scale).converted_to(build_.type(x).dtype)));
  }
  // x where queries see keys, else `otherwise`.
  ValueId seen(ValueId x, double otherwise) const {
    const auto hide = [&](ValueId where) {
      x = build_.select(where, x, build_.full(Scalar::of(otherwise).converted_to(build_.type(x).dtype)));
    };
    if (is_masked(attrs_)) hide(build_.broadcast_to(operands_[mask_place(attrs_)], shape_));
    if (is_causal(attrs_)) {
      const ValueId keys = build_.iota(int32, shape_, batch_ + 3);
      hide(build_.elementwise("less_equal", {keys, build_.iota(int32, shape_, batch_ + 2)}));
    }
    return x;
  }
  ValueId weights() const {
    ValueId logits = scaled(products(query(), key()));
    if (is_biased(attrs_)) logits = build_.add(logits, build_.broadcast_to(operands_[kOthers], shape_));
    logits = seen(logits, kHiddenLogit);
    const ValueId most = over_keys(build_.reduce(ReduceKind::kMax, logits, {dim(3)}));
    const ValueId powers = build_.elementwise("exp", {build_.subtract(logits, most)});
    return build_.divide(powers, sums(powers));
  }
  // Over keys, and as often as there are keys.
  ValueId sums(ValueId x) const { return over_keys(build_.reduce(ReduceKind::kSum, x, {dim(3)})); }
  // The change of the weights for that of what is added to products.
  ValueId changed(ValueId weights, ValueId logits) const {
    return build_.multiply(weights, build_.subtract(logits, sums(build_.multiply(weights, logits))));
  }
  // The change of the logits for that of queries or keys; nothing if neither changes.
  MaybeValue logits_of(MaybeValue query_change, MaybeValue key_change) const {
    MaybeValue sum = products_of(query_change, key(), query(), key_change);
    if (sum) sum = scaled(*sum);
    return sum;
  }
  // The change of products(x, y).
  MaybeValue products_of(MaybeValue x_change, ValueId y, ValueId x, MaybeValue y_change) const {
    MaybeValue sum;
    if (x_change) sum = products(*x_change, y);
    if (y_change) sum = added(sum, products(x, *y_change));
    return sum;
  }
  MaybeValue added(MaybeValue sum, ValueId more) const { return sum ? build_.add(*sum, more) : more; }
  ValueId broadcast(ValueId bias) const { return build_.broadcast_to(bias, shape_); }

 private:
  // A dimension behind those of the batch.
  std::int64_t dim(std::size_t d) const { return static_cast<std::int64_t>(batch_ + d); }
  Dims batches(std::initializer_list<std::size_t> more) const {
    Dims dims(batch_);
    std::iota(dims.begin(), dims.end(), 0);
    for (const std::size_t d : more) dims.push_back(dim(d));
    return dims;
  }
  Dims order(std::initializer_list<std::size_t> more) const { return batches(more); }
  ValueId over_keys(ValueId x) const {
    Dims dims(shape_.size() - 1);
    std::iota(dims.begin(), dims.end(), 0);
    return build_.broadcast_in_dim(x, shape_, std::move(dims));
  }

  Builder& build_;
  const Attrs& attrs_;
  std::vector<ValueId> operands_;
  std::size_t batch_;
  Shape shape_;
};

bool is_empty(std::span<const Type> types) {
  return std::ranges::any_of(types, [](const Type& type) { return num_elements(type.shape) == 0; });
}

GraphAttr graph_attr(Graph graph) { return {std::make_shared<const Graph>(std::move(graph))}; }

// The change of the result for changes of queries, keys and values: linear in these. Its transpose is
// attention_gradient.
ValueId change_of_result(Builder& build, const Attrs& attrs, std::vector<ValueId> changes,
                         std::vector<ValueId> operands) {
  std::vector<ValueId> all = std::move(changes);
  all.insert(all.end(), operands.begin(), operands.end());
  Graph body;
  body.name = "attention_change";
  body.axes = build.axes();
  std::vector<ValueId> given;
  for (const ValueId id : all) given.push_back(body.add_input(build.type(id)));
  Builder inside(body, build.where());
  const Formula formula(inside, attrs, {given.begin() + kOthers, given.end()});
  const ValueId weights = formula.weights();
  const ValueId logits = formula.seen(*formula.logits_of(formula.wide(given[kQuery]), formula.wide(given[kKey])), 0);
  const ValueId change = inside.add(formula.means(formula.changed(weights, logits), formula.value()),
                                    formula.means(weights, formula.wide(given[kValue])));
  body.outputs = {formula.as(change, build.type(all[kQuery]).dtype)};
  Graph transposed;
  transposed.name = "attention_gradient";
  transposed.axes = build.axes();
  given = {transposed.add_input(cotangent_type(body.type(body.outputs[0])))};
  for (const ValueId id : operands) given.push_back(transposed.add_input(build.type(id)));
  transposed.outputs = Builder(transposed, build.where()).equation(op_named("attention_gradient"), attrs, given);
  return build.equation(op_named("linear_call"),
                        {{"body", graph_attr(std::move(body))}, {"transposed", graph_attr(std::move(transposed))}},
                        std::move(all))[0];
}

std::vector<MaybeValue> jvp_of_attention(const JvpContext& context) {
  if (is_empty(context.operands)) return {std::nullopt};
  Builder& build = context.build;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.operands.size(); ++i) operands.push_back(context.primals.operand(i));
  MaybeValue sum;
  if (std::ranges::any_of(context.tangents.first(kOthers), [](const MaybeValue& one) { return one.has_value(); })) {
    std::vector<ValueId> changes;
    for (std::size_t i = 0; i < kOthers; ++i) {
      changes.push_back(context.tangents[i] ? *context.tangents[i] : build.zeros(context.operands[i]));
    }
    sum = change_of_result(build, context.attrs, std::move(changes), operands);
  }
  if (is_biased(context.attrs) && context.tangents[kOthers]) {
    const Formula formula(build, context.attrs, operands);
    const ValueId logits = formula.seen(formula.broadcast(formula.wide(*context.tangents[kOthers])), 0);
    const ValueId change = formula.means(formula.changed(formula.weights(), logits), formula.value());
    sum = formula.added(sum, formula.as(change, build.type(operands[kQuery]).dtype));
  }
  return {sum};
}

// By queries, keys, values and bias the gradient is written out and differentiated: with weights p, cotangents c,
// slopes a = c v^T and their mean r = sum p a, the logits' cotangents are p (a - r).
std::vector<MaybeValue> jvp_of_gradient(const JvpContext& context) {
  std::vector<MaybeValue> results(kOthers);
  if (is_empty(context.operands)) return results;
  Builder& build = context.build;
  std::vector<ValueId> operands;
  for (std::size_t i = 1; i < context.operands.size(); ++i) operands.push_back(context.primals.operand(i));
  if (context.tangents[0]) {
    std::vector<ValueId> given = operands;
    given.insert(given.begin(), *context.tangents[0]);
    const std::vector<ValueId> made = build.equation(context.op, context.attrs, std::move(given));
    std::copy(made.begin(), made.end(), results.begin());
  }
  if (std::ranges::none_of(context.tangents.subspan(1), [](const MaybeValue& one) { return one.has_value(); }))
    return results;
  const Formula formula(build, context.attrs, operands);
  std::vector<MaybeValue> changes(operands.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (context.tangents[i + 1]) changes[i] = formula.wide(*context.tangents[i + 1]);
  }
  const ValueId c = formula.wide(context.primals.operand(0));
  const ValueId p = formula.weights();
  const ValueId a = formula.products(c, formula.value());
  const ValueId slopes =
      formula.scaled(formula.seen(build.multiply(p, build.subtract(a, formula.sums(build.multiply(p, a)))), 0));
  MaybeValue logits = formula.logits_of(changes[kQuery], changes[kKey]);
  if (is_biased(context.attrs) && changes[kOthers])
    logits = formula.added(logits, formula.broadcast(*changes[kOthers]));
  MaybeValue p_change;
  if (logits) p_change = formula.changed(p, formula.seen(*logits, 0));
  // The change of p (a - r), where that of r is the mean of both changes.
  MaybeValue change;
  MaybeValue mean;
  if (p_change) {
    mean = formula.sums(build.multiply(*p_change, a));
    change = build.multiply(*p_change, build.subtract(a, formula.sums(build.multiply(p, a))));
  }
  if (changes[kValue]) {
    const ValueId a_change = formula.products(c, *changes[kValue]);
    mean = formula.added(mean, formula.sums(build.multiply(p, a_change)));
    change = formula.added(change, build.multiply(p, a_change));
  }
  std::vector<MaybeValue> sums(kOthers);
  const auto add = [&](std::size_t i, ValueId more) { sums[i] = formula.added(sums[i], more); };
  if (change) {
    const ValueId slopes_change = formula.scaled(formula.seen(build.subtract(*change, build.multiply(p, *mean)), 0));
    add(kQuery, formula.means(slopes_change, formula.key()));
    add(kKey, formula.gathered(slopes_change, formula.query(), context.results[kKey]));
  }
  if (changes[kKey]) add(kQuery, formula.means(slopes, *changes[kKey]));
  if (changes[kQuery]) add(kKey, formula.gathered(slopes, *changes[kQuery], context.results[kKey]));
  if (p_change) add(kValue, formula.gathered(*p_change, c, context.results[kValue]));
  for (std::size_t i = 0; i < kOthers; ++i) {
    if (sums[i]) results[i] = formula.added(results[i], formula.as(*sums[i], build.type(operands[i]).dtype));
  }
  return results;
}

std::vector<MaybeValue> transpose_gradient(const TransposeContext& context) {
  std::vector<MaybeValue> cotangents(context.operands.size());
  for (std::size_t i = 1; i < context.operands.size(); ++i) {
    if (context.wants(i))
      throw misuse<Unsupported>("operand {} of {} is one that it is not linear in", i, context.op.name);
  }
  if (is_empty(context.operands)) return cotangents;
  std::vector<ValueId> operands;
  for (std::size_t i = 1; i < context.operands.size(); ++i) operands.push_back(*context.values[i]);
  cotangents[0] = change_of_result(context.build, context.attrs,
                                   {context.cotangent(0), context.cotangent(1), context.cotangent(2)}, operands);
  return cotangents;
}

// ---- Batches

// The mapped dimension becomes one of the batch. A mask or bias that is the same in all places stays as it is, with an
// extent of 1.
std::vector<Batched> batch_of_attention(const BatchContext& context) {
  const std::size_t all = context.operands.size() - (operand_count(context.attrs) - kOthers);
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    if (i < all || context.operands[i].dim) {
      operands.push_back(context.mapped_at(i));
      continue;
    }
    Shape shape = context.build.type(context.operands[i].value).shape;
    Dims dims(shape.size());
    std::iota(dims.begin(), dims.end(), 1);
    shape.insert(shape.begin(), 1);
    operands.push_back(context.build.broadcast_in_dim(context.operands[i].value, std::move(shape), std::move(dims)));
  }
  std::vector<Batched> results;
  for (const ValueId id : context.build.equation(context.op, context.attrs, std::move(operands))) {
    results.push_back({id, 0});
  }
  return results;
}

constexpr AttrFacts kAttentionAttributes = {
    {.name = "scale"}, {.name = "causal"}, {.name = "biased"}, {.name = "masked"}};
constexpr AttrFacts kGradientAttributes = {
    {.name = "scale"}, {.name = "causal"}, {.name = "biased"}, {.name = "masked"}, {.name = "dtype"}};

const std::array kAttentionOps = {
    OpDef{.name = "attention",
          .doc =
              "The mean of values (..., s, k, v) for each query (..., t, k, g, h), weighted by the softmax of its "
              "products with the keys (..., s, k, h), times `scale`; if `biased`, an operand (..., k, g, t, s) or 1s "
              "is added to these, and if `masked`, another says which keys a query sees. If `causal`, it sees none "
              "after its own position.",
          .arity = -1,
          .infer = infer_attention,
          .rule = attention_rule,
          .reference = attention,
          .flops = flops_of_attention,
          .jvp = jvp_of_attention,
          .batch = batch_of_attention,
          .attributes = kAttentionAttributes,
          .sees_start = true},
    OpDef{.name = "attention_gradient",
          .doc = "The cotangents of queries, keys and values for that of the result of attention, the first operand.",
          .arity = -1,
          .infer = infer_attention_gradient,
          .rule = attention_gradient_rule,
          .reference = attention_gradient,
          .flops = flops_of_gradient,
          .linear = {Linear::kAlone, Linear::kNo},
          .jvp = jvp_of_gradient,
          .transpose = transpose_gradient,
          .batch = batch_of_attention,
          .takes_whole_sums = true,  // Of which it makes several.
          .attributes = kGradientAttributes,
          .sees_start = true},
};

}  // namespace

Dtype dtype_of_sums(Dtype dtype) { return size_of(dtype) < size_of(float32) ? float32 : dtype; }

Shape shape_of_logits(const Shape& query, const Shape& key) {
  const std::size_t batch = query.size() - 4;
  Shape shape(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(batch));
  for (const std::int64_t extent : {query[batch + 1], query[batch + 2], query[batch], key[batch]}) {
    shape.push_back(extent);
  }
  return shape;
}

AttentionViews::AttentionViews(const Attrs& attrs, std::span<const TensorView> views)
    : query(views[kQuery]),
      key(views[kKey]),
      value(views[kValue]),
      bias(is_biased(attrs) ? &views[kOthers] : nullptr),
      mask(is_masked(attrs) ? &views[mask_place(attrs)] : nullptr),
      scale(scale_of(attrs)),
      causal(is_causal(attrs)) {
  const Shape& q = query.shape;
  const std::size_t batch = q.size() - 4;
  b = 1;
  for (std::size_t d = 0; d < batch; ++d) b *= q[d];
  t = q[batch];
  k = q[batch + 1];
  g = q[batch + 2];
  h = q[batch + 3];
  s = key.shape[batch];
  v = value.shape.back();
  first_query = query.start_of(batch);
}

AttentionViews::Logits AttentionViews::logits(const TensorView& view, std::int64_t at_b) const {
  const std::size_t batch = query.shape.size() - 4;
  const Shape whole = shape_of_logits(query.shape, key.shape);
  Logits made{.first = 0, .strides = {}};
  std::int64_t stride = 1;
  for (std::size_t d = whole.size(); d-- > 0;) {
    const std::int64_t step = view.shape[d] == whole[d] ? stride : 0;
    stride *= view.shape[d];
    if (d >= batch) {
      made.strides[d - batch] = step;
    } else {
      made.first += at_b % whole[d] * step;
      at_b /= whole[d];
    }
  }
  return made;
}

std::span<const OpDef> attention_ops() { return kAttentionOps; }

}  // namespace shoal
