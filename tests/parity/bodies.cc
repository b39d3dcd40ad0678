#include "bodies.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cases.h"
#include "generators.h"
#include "ops/builder.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

// Trips of a scan.
constexpr std::array<std::int64_t, 4> kTrips = {0, 1, 2, 7};
// A counter is counted up from there at least, and to there.
constexpr int kFirst = -4;
constexpr int kLimit = 3;
constexpr int kDeepest = 2;
// Of a hundred loops, those in which a carry is a sum, and of a hundred of these, those in which nothing else reads it.
constexpr int kAddUp = 60;
constexpr int kOnlyAddUp = 80;

thread_local int depth = 0;  // Of bodies that are being made.

std::vector<const OpDef*> body_ops() {
  std::vector<const OpDef*> ops;
  const auto add = [&](std::span<const OpDef> family, int times) {
    for (const OpDef& op : family) {
      for (int i = 0; i < times; ++i) ops.push_back(&op);
    }
  };
  add(elementwise_ops(), 1);
  add(reduce_ops(), 1);
  add(contract_ops(), 8);
  add(movement_ops(), 4);
  for (const char* name : {"add", "subtract", "multiply", "negative", "maximum", "reduce_sum"}) {
    for (int i = 0; i < 10; ++i) ops.push_back(&op_named(name));
  }
  for (int i = 0; i < 20; ++i) ops.push_back(&op_named("sharding_constraint"));
  for (const char* name : {"scan", "while", "switch", "region"}) {
    for (int i = 0; i < 5; ++i) ops.push_back(&op_named(name));
  }
  return ops;
}

class BodyMaker {
 public:
  // Equations do not read the argument `spared`, if there is one.
  BodyMaker(Rng& rng, const Mesh& mesh, std::span<const Type> arguments, std::optional<std::size_t> spared = {})
      : rng_(rng), mesh_(mesh), spared_(spared) {
    body_.name = "body";
    for (const Type& type : arguments) body_.add_input(type);
    const std::size_t wanted = 1 + rng_.below(5);
    ++depth;
    for (int tries = 0; body_.eqns.size() < wanted && tries < 40; ++tries) try_op();
    --depth;
  }

  Graph& graph() { return body_; }

  // A value of a type that some argument has, the last ones more often than the first.
  ValueId like(const Type& type) {
    std::vector<ValueId> found;
    for (std::size_t i = 0; i < body_.values.size(); ++i) {
      if (body_.values[i].type == type && i != spared_) found.push_back(static_cast<ValueId>(i));
    }
    if (found.empty()) return static_cast<ValueId>(*spared_);
    return rng_.chance(70) ? found.back() : rng_.pick(found);
  }
  // The argument, a carry, to which a sum along a dimension is added, of products of what a trip has: where devices
  // split that, they have summands, which need not be added up before the last trip. Nothing if the sum is of another
  // type.
  std::optional<ValueId> with_sum(std::size_t argument, const Type& summed, std::size_t dim) {
    const ValueId carry = body_.inputs[argument];
    Builder build(body_, {});
    const ValueId factor = like(summed);
    ValueId x = like(summed);
    if (const std::optional<std::string> axis = axis_for(summed.shape[dim])) {
      std::vector<PartitionEntry> entries(summed.rank());
      entries[dim] = {*axis};
      x = build.sharding_constraint(x, NamedSharding(mesh_, PartitionSpec(std::move(entries))));
    }
    const ValueId sum = build.reduce(ReduceKind::kSum, build.multiply(x, factor), {static_cast<std::int64_t>(dim)});
    if (body_.type(sum) != body_.type(carry)) return {};
    return build.add(rng_.chance(30) ? build.negative(carry) : carry, sum);
  }
  // The later ones more often.
  ValueId any() {
    const std::size_t id = std::max(rng_.below(body_.values.size()), rng_.below(body_.values.size()));
    return static_cast<ValueId>(id == spared_ ? body_.values.size() - 1 : id);
  }

 private:
  // An axis of several devices that splits an extent evenly.
  std::optional<std::string> axis_for(std::int64_t extent) {
    std::vector<std::string> axes;
    for (std::size_t a = 0; a < mesh_.axis_names().size(); ++a) {
      const std::int64_t size = mesh_.axis_sizes()[a];
      if (size > 1 && extent > 0 && extent % size == 0) axes.push_back(mesh_.axis_names()[a]);
    }
    return axes.empty() ? std::nullopt : std::optional(rng_.pick(axes));
  }

  void try_op() {
    static const std::vector<const OpDef*> ops = body_ops();
    const OpDef& op = *rng_.pick(ops);
    if (op.op_class == OpClass::kControl && depth > kDeepest) return;
    const ValueId first = any();
    const std::optional<Sample> made = sample(rng_, mesh_, op, body_.type(first));
    if (!made) return;
    const std::size_t carries = op.control == nullptr ? 0 : op.control(made->attrs).carries;
    std::vector<ValueId> operands;
    for (const Type& type : made->operands) {
      const bool is_zero = operands.size() < carries && can_be_zero(type) && rng_.chance(kFromZero);
      const auto is_there = [&](const Value& value) {
        return value.type == type && (!spared_ || &value != &body_.values[*spared_]);
      };
      if (is_zero) {
        operands.push_back(Builder(body_, {}).constant(0, type.dtype, type.shape));
      } else if (std::ranges::any_of(body_.values, is_there)) {
        operands.push_back(like(type));
      } else if (type.dtype == int32 && type.rank() == 0) {
        operands.push_back(Builder(body_, {}).constant(static_cast<int>(rng_.below(4)), int32));
      } else {
        return;
      }
    }
    const std::size_t values = body_.values.size();
    std::vector<ValueId> results;
    try {
      results = body_.add_eqn(op, made->attrs, operands, SourceLocation::current());
    } catch (const Error&) {
      return;  // The number that was put in lives in another memory.
    }
    const bool fits = std::ranges::all_of(
        results, [&](ValueId id) { return num_elements(body_.type(id).shape) <= 2000 && body_.type(id).rank() <= 5; });
    if (fits) return;
    body_.eqns.pop_back();
    body_.values.resize(values);
  }

  Rng& rng_;
  const Mesh& mesh_;
  std::optional<std::size_t> spared_;
  Graph body_;
};

GraphAttr attr_of(Graph body) { return {std::make_shared<const Graph>(std::move(body))}; }

// The types of two carries: often the first is a sum of the second along one of its dimensions, which `first` has or
// gets.
std::pair<Type, Type> random_carries(Rng& rng, const Type& first) {
  static const std::vector<std::int64_t> extents = {8, 24};  // Meshes split them.
  Type sum = first;
  Type summed = first;
  if (first.dtype == bool_ || is_key(first.dtype) || !rng.chance(kAddUp)) return {sum, summed};
  const bool is_small = first.rank() <= 2 && num_elements(first.shape) <= 80;
  if (is_small && (first.rank() == 0 || rng.chance(60))) {
    const auto place = static_cast<std::ptrdiff_t>(rng.below(first.rank() + 1));
    summed.shape.insert(summed.shape.begin() + place, rng.pick(extents));
  } else if (first.rank() > 0) {
    sum.shape.erase(sum.shape.begin() + static_cast<std::ptrdiff_t>(rng.below(first.rank())));
  }
  return {sum, summed};
}

// The dimension that a shape lacks of another one; nothing if it lacks none.
std::optional<std::size_t> summed_dim(const Shape& sum, const Shape& summed) {
  if (sum.size() + 1 != summed.size()) return {};
  for (std::size_t d = 0; d < summed.size(); ++d) {
    Shape rest = summed;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(d));
    if (rest == sum) return d;
  }
  return {};
}

Attrs scan_attrs(Rng& rng, const Mesh& mesh, std::span<const Type> operands) {
  // Two carries, a stack and a capture.
  std::vector<Type> arguments(operands.begin(), operands.end());
  arguments[2].shape.erase(arguments[2].shape.begin());
  const std::optional<std::size_t> dim = summed_dim(arguments[0].shape, arguments[1].shape);
  const bool spares = dim && rng.chance(kOnlyAddUp);
  BodyMaker maker(rng, mesh, arguments, spares ? std::optional<std::size_t>(0) : std::nullopt);
  std::vector<ValueId> outputs = {maker.like(arguments[0]), maker.like(arguments[1])};
  for (std::size_t i = rng.below(3); i > 0; --i) outputs.push_back(maker.any());
  if (dim) outputs[0] = maker.with_sum(0, arguments[1], *dim).value_or(outputs[0]);
  maker.graph().outputs = std::move(outputs);
  return {{"bodies", std::vector<GraphAttr>{attr_of(std::move(maker.graph()))}},
          {"carries", std::int64_t{2}},
          {"slices", std::int64_t{1}},
          {"length", operands[2].shape[0]},
          {"reverse", rng.chance(30)}};
}

// Counts its first carry from where it is up to the limit, but only if there are few trips.
Attrs while_attrs(Rng& rng, const Mesh& mesh, std::span<const Type> operands) {
  Graph question;
  question.name = "condition";
  for (const Type& type : operands) question.add_input(type);
  Builder ask(question, {});
  const ValueId counter = question.inputs[0];
  const ValueId goes_on = ask.elementwise("less", {counter, ask.constant(kLimit, int32)});
  const ValueId is_near = ask.elementwise("greater", {counter, ask.constant(kFirst, int32)});
  question.outputs = {ask.elementwise("bitwise_and", {goes_on, is_near})};
  const std::optional<std::size_t> dim = summed_dim(operands[1].shape, operands[2].shape);
  const bool spares = dim && rng.chance(kOnlyAddUp);
  BodyMaker maker(rng, mesh, operands, spares ? std::optional<std::size_t>(1) : std::nullopt);
  Builder count(maker.graph(), {});
  const ValueId next = count.add(maker.graph().inputs[0], count.constant(1, int32));
  std::vector<ValueId> outputs = {next, maker.like(operands[1]), maker.like(operands[2])};
  if (dim) outputs[1] = maker.with_sum(1, operands[2], *dim).value_or(outputs[1]);
  maker.graph().outputs = std::move(outputs);
  return {{"bodies", std::vector<GraphAttr>{attr_of(std::move(question)), attr_of(std::move(maker.graph()))}},
          {"carries", std::int64_t{3}}};
}

Attrs branch_attrs(Rng& rng, const Mesh& mesh, std::span<const Type> arguments, std::size_t branches) {
  std::vector<GraphAttr> bodies;
  for (std::size_t i = 0; i < branches; ++i) {
    BodyMaker maker(rng, mesh, arguments);
    maker.graph().outputs = {maker.like(arguments[0]), maker.like(arguments.back())};
    bodies.push_back(attr_of(std::move(maker.graph())));
  }
  return {{"bodies", std::move(bodies)}};
}

}  // namespace

bool can_be_zero(const Type& type) { return !is_key(type.dtype) && type.memory == kDeviceMemory && !type.weak; }

std::vector<Type> control_operands(Rng& rng, const OpDef& op, const Type& first) {
  Type number;
  number.dtype = int32;
  if (op.name == "scan") {
    const auto [carry, other] = random_carries(rng, first);
    Type stack = other;
    stack.shape.insert(stack.shape.begin(), kTrips[rng.below(kTrips.size())]);
    return {carry, other, stack, other};
  }
  if (op.name == "while") {
    const auto [carry, other] = random_carries(rng, first);
    return {number, carry, other};
  }
  if (op.name == "region") return {first, first};
  return {number, first, first};
}

Attrs control_attrs(Rng& rng, const Mesh& mesh, const OpDef& op, std::span<const Type> operands) {
  if (op.name == "scan") return scan_attrs(rng, mesh, operands);
  if (op.name == "while") return while_attrs(rng, mesh, operands);
  if (op.name == "switch") return branch_attrs(rng, mesh, operands.subspan(1), 1 + rng.below(3));
  return branch_attrs(rng, mesh, operands, 1);
}

}  // namespace shoal::parity
