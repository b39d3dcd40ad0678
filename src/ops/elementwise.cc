#include "ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <numbers>
#include <numeric>
#include <tuple>
#include <vector>

#include "ir/graph.h"
#include "ir/makers.h"
#include "ops/rules.h"
#include "ops/scalar/interpret.h"
#include "ops/scalar/math.h"
#include "ops/table.h"

namespace shoal {
namespace {

using scalar::Expr;

std::string kinds_text(Kinds kinds) {
  std::vector<std::string_view> names;
  if ((kinds & kBoolKind) != 0) names.push_back("bool");
  if ((kinds & kIntegerKind) != 0) names.push_back("integers");
  if ((kinds & kFloatKind) != 0) names.push_back("floats");
  if ((kinds & kComplexKind) != 0) names.push_back("complex numbers");
  if ((kinds & kWordKind) != 0) names.push_back("u64");
  return fmt::format("{}", fmt::join(names, ", "));
}

bool takes(Kinds kinds, Dtype dtype) {
  return (kinds & kind_of(dtype)) != 0 || ((kinds & kWordKind) != 0 && dtype == uint64);
}

void check_operand(const InferContext& context, const Type& type) {
  if (!takes(context.op.elementwise->takes, type.dtype)) {
    infer_error(context, fmt::format("takes {}, not {}", kinds_text(context.op.elementwise->takes), to_string(type)));
  }
}

// The shape of all operands that are not scalars.
Shape common_shape(const InferContext& context, std::span<const Type> operands) {
  Shape shape;
  for (const Type& type : operands) {
    if (type.rank() == 0) continue;
    if (!shape.empty() && type.shape != shape) {
      infer_error(context,
                  fmt::format("operands have shapes {} and {}, which differ", to_string(shape), to_string(type.shape)));
    }
    shape = type.shape;
  }
  return shape;
}

std::vector<Type> infer_pointwise(const InferContext& context) {
  // The operands that compute with each other: of select, not the condition.
  const std::span<const Type> operands = context.op.name == "select" ? context.inputs.subspan(1) : context.inputs;
  Type type = like_operands(context, common_shape(context, context.inputs));
  type.dtype = operands[0].dtype;
  type.weak = context.op.elementwise->columns.stays_weak;
  for (const Type& operand : operands) {
    check_operand(context, operand);
    if (operand.dtype != type.dtype) {
      infer_error(context, fmt::format("operands must be of one dtype, not {} and {}", to_string(operands[0]),
                                       to_string(operand)));
    }
    type.weak = type.weak && operand.weak;
  }
  switch (context.op.elementwise->result) {
    case ResultDtype::kSame:
      break;
    case ResultDtype::kBool:
      type.dtype = bool_;
      break;
    case ResultDtype::kReal:
      type.dtype = real_dtype(type.dtype);
      break;
    case ResultDtype::kComplex:
      type.dtype = type.dtype == float32 ? complex64 : complex128;
      break;
    case ResultDtype::kAttr:
      type.dtype = context.attrs.get<Dtype>("dtype");
      type.weak = context.attrs.contains("weak") && context.attrs.get<bool>("weak");
      break;
  }
  return {std::move(type)};
}

std::vector<Type> infer_select(const InferContext& context) {
  if (context.inputs[0].dtype != bool_) {
    infer_error(context, fmt::format("the condition must be bool, not {}", to_string(context.inputs[0])));
  }
  return infer_pointwise(context);
}

std::vector<Type> infer_complex(const InferContext& context) {
  for (const Type& type : context.inputs) {
    if (type.dtype == float32 || type.dtype == float64) continue;
    infer_error(context, fmt::format("the parts must be f32 or f64, not {}", to_string(type)));
  }
  return infer_pointwise(context);
}

void pointwise(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  std::vector<Dtype> dtypes;
  std::vector<const void*> data;
  std::vector<std::int64_t> strides;
  for (const TensorView& in : context.inputs) {
    dtypes.push_back(in.dtype);
    data.push_back(in.data);
    strides.push_back(in.shape.empty() ? 0 : 1);
  }
  scalar::interpret(body_of(context.op, dtypes, out.dtype), data, strides, out.data, num_elements(out.shape));
}

// ---- Simplifications: the columns `simplify` of the rows.

using Same = std::optional<ValueId>;

// f(f(x)) is x.
Same involution(Eqn& eqn, const Makers& makers) {
  const Eqn* inner = makers.of(eqn.inputs[0]);
  return inner != nullptr && inner->op == eqn.op ? Same(inner->inputs[0]) : std::nullopt;
}

bool is_full_of(ValueId id, const Makers& makers, std::int64_t element) {
  const Eqn* maker = makers.of(id);
  return maker != nullptr && is_full_of(*maker, element);
}

// Of integers only: -0. + 0. is 0., and 1. * x makes a quiet NaN of a signalling one.
Same without_neutral(const Eqn& eqn, const Makers& makers, std::int64_t element, bool commutes) {
  if (!is_integer(makers.type(eqn.outputs[0]).dtype)) return std::nullopt;
  if (is_full_of(eqn.inputs[1], makers, element)) return eqn.inputs[0];
  if (commutes && is_full_of(eqn.inputs[0], makers, element)) return eqn.inputs[1];
  return std::nullopt;
}

Same plus_zero(Eqn& eqn, const Makers& makers) { return without_neutral(eqn, makers, 0, true); }
Same minus_zero(Eqn& eqn, const Makers& makers) { return without_neutral(eqn, makers, 0, false); }
Same times_one(Eqn& eqn, const Makers& makers) { return without_neutral(eqn, makers, 1, true); }

// Elementwise ops take scalars as they are. One operand keeps the shape.
void drop_broadcasts(Eqn& eqn, const Makers& makers) {
  const Shape& shape = makers.type(eqn.outputs[0]).shape;
  if (shape.empty()) return;
  const auto keeps_shape = [&](ValueId id) { return makers.type(id).shape == shape; };
  for (ValueId& id : eqn.inputs) {
    const Eqn* inner = makers.of(id);
    if (inner == nullptr || inner->op->name != "broadcast_in_dim" || !makers.type(inner->inputs[0]).shape.empty()) {
      continue;
    }
    if (std::ranges::count_if(eqn.inputs, keeps_shape) > 1) id = inner->inputs[0];
  }
}

Same simplify_pointwise(Eqn& eqn, const Makers& makers) {
  drop_broadcasts(eqn, makers);
  const auto simplify = eqn.op->elementwise->columns.simplify;
  return simplify == nullptr ? std::nullopt : simplify(eqn, makers);
}

// ---- Derivatives.

using terms::Term;

constexpr double kTwoOverRootPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kRootOfHalf = std::numbers::sqrt2 / 2;
constexpr double kNormalDensity = kRootOfHalf * std::numbers::inv_sqrtpi;  // At 0.

// The columns of a row name their operands x, y, z and w.
#define D(term)                                                                     \
  [](const DerivativeContext& at, [[maybe_unused]] Term t) -> std::optional<Term> { \
    [[maybe_unused]] const terms::Lazy x = at.operand(0);                           \
    [[maybe_unused]] const terms::Lazy y = at.operand(1);                           \
    [[maybe_unused]] const terms::Lazy z = at.operand(2);                           \
    [[maybe_unused]] const terms::Lazy w = at.operand(3);                           \
    [[maybe_unused]] const terms::Lazy result = at.result();                        \
    return term;                                                                    \
  }

constexpr DerivativeRule kNoChange = [](const DerivativeContext&, Term) { return std::optional<Term>(); };
// Of an operand by which the op has no derivative, as in JAX.
constexpr DerivativeRule kNoRule = [](const DerivativeContext& at, Term) -> std::optional<Term> {
  throw no_derivative<Unsupported>(at.build, "has no derivative by this operand");
};

Dims all_dims(std::size_t rank) {
  Dims dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::vector<MaybeValue> pointwise_jvp(const JvpContext& context) {
  const auto has_tangent = [](const MaybeValue& tangent) { return tangent.has_value(); };
  if (context.op.linear.in_all() && std::ranges::all_of(context.tangents, has_tangent)) return linear_tangents(context);
  const DerivativeContext at{context.build, context.primals, context.operands[0].dtype};
  MaybeValue sum;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    if (!context.tangents[i]) continue;
    MaybeValue one;
    if (const DerivativeRule rule = context.op.elementwise->columns.tangents[i]) {
      if (const auto term = rule(at, {&context.build, *context.tangents[i]})) one = term->id;
    } else {
      std::vector<MaybeValue> alone(context.operands.size());
      alone[i] = context.tangents[i];
      JvpContext with_one = context;
      with_one.tangents = alone;
      one = linear_tangents(with_one)[0];
    }
    if (one) sum = sum ? context.build.add(*sum, *one) : *one;
  }
  // Of operands that are scalars.
  const Shape& shape = context.results[0].shape;
  if (sum && context.build.type(*sum).shape != shape) sum = context.build.broadcast_in_dim(*sum, shape, {});
  return {sum};
}

// The values of a transposed equation, of which the result is none.
class KnownOperands final : public Primals {
 public:
  explicit KnownOperands(std::span<const MaybeValue> values) : values_(values) {}
  ValueId operand(std::size_t i) override { return values_[i].value(); }
  ValueId result(std::size_t) override { throw InternalError("the rule of a linear op asks for its result"); }

 private:
  std::span<const MaybeValue> values_;
};

std::vector<MaybeValue> pointwise_transpose(const TransposeContext& context) {
  KnownOperands known(context.values);
  std::vector<MaybeValue> cotangents(context.operands.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    const DerivativeRule rule = context.op.elementwise->columns.cotangents[i];
    if (!context.wants(i) || rule == nullptr) continue;
    const DerivativeContext at{context.build, known, context.operands[i].dtype};
    const std::optional<Term> term = rule(at, {&context.build, context.cotangent()});
    if (!term) continue;
    ValueId& made = cotangents[i].emplace(term->id);
    const Shape& shape = context.build.type(made).shape;
    if (context.operands[i].rank() == 0 && !shape.empty()) {
      made = context.build.reduce(ReduceKind::kSum, made, all_dims(shape.size()));
    }
  }
  return cotangents;
}

double one_per_element(const RuleContext& context) {
  return static_cast<double>(num_elements(context.outputs[0].shape));
}

// ---- Records.

OpDef record(std::string_view name, std::string_view doc, int arity, const ElementwiseRow& row) {
  return {.name = name,
          .doc = doc,
          .arity = arity,
          .infer = infer_pointwise,
          .rule = pointwise_rule,
          .reference = pointwise,
          .simplify = simplify_pointwise,
          .flops = one_per_element,
          .linear = row.columns.linear,
          .jvp = pointwise_jvp,
          .transpose = pointwise_transpose,
          .is_flat = row.columns.is_flat,
          .elementwise = &row};
}

// The rows of the table, and the ops that have an infer or a result of their own.
using enum Linear;
#define SHOAL_UNARY(name, kinds, result, doc, body, ...)                    \
  constexpr ElementwiseRow name##_row{kinds,                                \
                                      ResultDtype::result,                  \
                                      [](std::span<const Expr> in, Dtype) { \
                                        const Expr x = in[0];               \
                                        return body;                        \
                                      },                                    \
                                      {__VA_ARGS__}};
#define SHOAL_BINARY(name, kinds, result, doc, body, ...)                   \
  constexpr ElementwiseRow name##_row{kinds,                                \
                                      ResultDtype::result,                  \
                                      [](std::span<const Expr> in, Dtype) { \
                                        const Expr x = in[0];               \
                                        const Expr y = in[1];               \
                                        return body;                        \
                                      },                                    \
                                      {__VA_ARGS__}};
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY
#define SHOAL_QUATERNARY(name, doc, body, ...)                              \
  constexpr ElementwiseRow name##_row{kFloats,                              \
                                      ResultDtype::kSame,                   \
                                      [](std::span<const Expr> in, Dtype) { \
                                        const Expr x = in[0];               \
                                        const Expr y = in[1];               \
                                        const Expr z = in[2];               \
                                        const Expr w = in[3];               \
                                        return body;                        \
                                      },                                    \
                                      {__VA_ARGS__}};
#define SHOAL_TERNARY(name, doc, body, ...)                                    \
  constexpr ElementwiseRow name##_row{kFloats,                                 \
                                      ResultDtype::kSame,                      \
                                      [](std::span<const Expr> in, Dtype) {    \
                                        [[maybe_unused]] const Expr x = in[0]; \
                                        [[maybe_unused]] const Expr y = in[1]; \
                                        [[maybe_unused]] const Expr z = in[2]; \
                                        return body;                           \
                                      },                                       \
                                      {__VA_ARGS__}};
#define SHOAL_BINARY(name, doc, body, ...)                                  \
  constexpr ElementwiseRow name##_row{kFloats,                              \
                                      ResultDtype::kSame,                   \
                                      [](std::span<const Expr> in, Dtype) { \
                                        const Expr x = in[0];               \
                                        const Expr y = in[1];               \
                                        return body;                        \
                                      },                                    \
                                      {__VA_ARGS__}};
#define SHOAL_UNARY(name, doc, body, ...)                                   \
  constexpr ElementwiseRow name##_row{kFloats,                              \
                                      ResultDtype::kSame,                   \
                                      [](std::span<const Expr> in, Dtype) { \
                                        const Expr x = in[0];               \
                                        return body;                        \
                                      },                                    \
                                      {__VA_ARGS__}};
#include "ops/special.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY
#undef SHOAL_TERNARY
#undef SHOAL_QUATERNARY

constexpr ElementwiseRow select_row{kAnyOrKey,
                                    ResultDtype::kSame,
                                    [](std::span<const Expr> in, Dtype) { return scalar::select(in[0], in[1], in[2]); },
                                    {.linear = {kNo, kMoved},
                                     .tangents = {nullptr, D(select(x, t, 0)), D(select(x, 0, t))},
                                     .cotangents = {nullptr, D(select(x, t, 0)), D(select(x, 0, t))}}};
// Where the result holds every operand: else it rounds or cuts off, and is linear in nothing.
bool is_exact_conversion(const RuleContext& context) {
  const Dtype from = context.inputs[0].dtype;
  const Dtype to = context.outputs[0].dtype;
  return is_floating(from) && is_floating(to) && (from == to || size_of(from) < size_of(to));
}
constexpr ElementwiseRow convert_row{
    kAny,
    ResultDtype::kAttr,
    [](std::span<const Expr> in, Dtype result) { return scalar::convert(in[0], result); },
    {.linear = kTogether, .simplify = simplify_identity, .cotangents = {D(convert(t, at.operand_dtype))}}};
constexpr ElementwiseRow complex_row{kFloats,
                                     ResultDtype::kComplex,
                                     [](std::span<const Expr> in, Dtype) { return scalar::make_complex(in[0], in[1]); },
                                     {.linear = kTogether, .cotangents = {D(real(t)), D(-imag(t))}}};
constexpr ElementwiseRow threefry2x32_row{
    kWordKind,
    ResultDtype::kSame,
    [](std::span<const Expr> in, Dtype) { return scalar::threefry2x32(in[0], in[1]); },
    {.stays_weak = false}};
constexpr ElementwiseRow philox4x32_row{
    kWordKind,
    ResultDtype::kSame,
    [](std::span<const Expr> in, Dtype) { return scalar::philox4x32(in[0], in[1], in[2]); },
    {.stays_weak = false}};
constexpr ElementwiseRow quick_erf_inv_row{kFloats,
                                           ResultDtype::kSame,
                                           [](std::span<const Expr> in, Dtype) { return scalar::quick_erf_inv(in[0]); },
                                           {.tangents = {D(t * (exp(square(result)) / kTwoOverRootPi))}}};
constexpr ElementwiseRow quick_log_row{kFloats,
                                       ResultDtype::kSame,
                                       [](std::span<const Expr> in, Dtype) { return scalar::quick_log(in[0]); },
                                       {.tangents = {D(t / x)}}};
constexpr ElementwiseRow quick_log1p_row{kFloats,
                                         ResultDtype::kSame,
                                         [](std::span<const Expr> in, Dtype) { return scalar::quick_log1p(in[0]); },
                                         {.tangents = {D(t / (x + 1))}}};
constexpr ElementwiseRow quick_erf_row{kFloats,
                                       ResultDtype::kSame,
                                       [](std::span<const Expr> in, Dtype) { return scalar::quick_erf(in[0]); },
                                       {.tangents = {D(t * (kTwoOverRootPi * exp(-square(x))))}}};

const std::vector<OpDef>& records() {
  // Never destroyed, like all that kernels use: work that is under way when the process ends is finished first.
  static const std::vector<OpDef>& list = *[] {
    auto* made = new std::vector<OpDef>;
    std::vector<OpDef>& ops = *made;
#define SHOAL_UNARY(name, kinds, result, doc, ...) ops.push_back(record(#name, doc, 1, name##_row));
#define SHOAL_BINARY(name, kinds, result, doc, ...) ops.push_back(record(#name, doc, 2, name##_row));
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY
#define SHOAL_UNARY(name, doc, ...) ops.push_back(record(#name, doc, 1, name##_row));
#define SHOAL_BINARY(name, doc, ...) ops.push_back(record(#name, doc, 2, name##_row));
#define SHOAL_TERNARY(name, doc, ...) ops.push_back(record(#name, doc, 3, name##_row));
#define SHOAL_QUATERNARY(name, doc, ...) ops.push_back(record(#name, doc, 4, name##_row));
#include "ops/special.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY
#undef SHOAL_TERNARY
#undef SHOAL_QUATERNARY
    ops.push_back(record("select", "The second operand where the first holds, the third elsewhere.", 3, select_row));
    ops.back().infer = infer_select;
    ops.push_back(record("complex", "The complex number with the operands as its parts.", 2, complex_row));
    ops.back().infer = infer_complex;
    ops.push_back(record("threefry2x32",
                         "Random bits: the block of a key, the first operand, for a counter. The first "
                         "word of each is the lower half.",
                         2, threefry2x32_row));
    ops.push_back(record("philox4x32",
                         "Random bits: a pair of words of a stream, for a key, the lower half of the counter that the "
                         "stream begins with, and the number of the pair. The first word is the lower half.",
                         3, philox4x32_row));
    ops.push_back(
        record("quick_erf_inv", "The inverse of erf, of random numbers: less exact near 1.", 1, quick_erf_inv_row));
    ops.push_back(record("quick_log", "The natural logarithm, of random numbers, by JAX's formula.", 1, quick_log_row));
    ops.push_back(record("quick_log1p", "log(1 + x), of random numbers, by JAX's formula.", 1, quick_log1p_row));
    ops.push_back(record("quick_erf", "The error function, of random numbers, by JAX's formula.", 1, quick_erf_row));
    ops.push_back(record("convert", "The operand in another dtype.", 1, convert_row));
    ops.back().attributes = {{.name = "dtype"}, {.name = "weak"}};
    ops.back().is_exact = is_exact_conversion;
    return made;
  }();
  return list;
}

}  // namespace

Kinds kind_of(Dtype dtype) {
  if (dtype == bool_) return kBoolKind;
  if (is_integer(dtype)) return kIntegerKind;
  if (is_key(dtype)) return kKeyKind;
  return is_complex(dtype) ? kComplexKind : kFloatKind;
}

const scalar::Body& body_of(const OpDef& op, std::span<const Dtype> operands, Dtype result) {
  using Key = std::tuple<const OpDef*, std::vector<Dtype>, Dtype>;
  static std::mutex mutex;
  static auto& bodies = *new std::map<Key, scalar::Body>;
  Key key{&op, {operands.begin(), operands.end()}, result};
  const std::lock_guard lock(mutex);
  const auto found = bodies.find(key);
  if (found != bodies.end()) return found->second;
  scalar::Body body =
      scalar::make_body(std::get<1>(key), [&](std::span<const Expr> in) { return op.elementwise->body(in, result); });
  return bodies.emplace(std::move(key), std::move(body)).first->second;
}

std::span<const OpDef> elementwise_ops() { return records(); }

}  // namespace shoal
