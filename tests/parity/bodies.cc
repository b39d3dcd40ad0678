#include "bodies.h"

#include <algorithm>
#include <array>
#include <memory>
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
  BodyMaker(Rng& rng, const Mesh& mesh, std::span<const Type> arguments) : rng_(rng), mesh_(mesh) {
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
      if (body_.values[i].type == type) found.push_back(static_cast<ValueId>(i));
    }
    return rng_.chance(70) ? found.back() : rng_.pick(found);
  }
  ValueId any() {
    return static_cast<ValueId>(std::max(rng_.below(body_.values.size()), rng_.below(body_.values.size())));
  }

 private:
  void try_op() {
    static const std::vector<const OpDef*> ops = body_ops();
    const OpDef& op = *rng_.pick(ops);
    if (op.op_class == OpClass::kControl && depth > kDeepest) return;
    const ValueId first = any();
    const std::optional<Sample> made = sample(rng_, mesh_, op, body_.type(first));
    if (!made) return;
    std::vector<ValueId> operands;
    for (const Type& type : made->operands) {
      const auto is_there = [&](const Value& value) { return value.type == type; };
      if (std::ranges::any_of(body_.values, is_there)) {
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
  Graph body_;
};

GraphAttr attr_of(Graph body) { return {std::make_shared<const Graph>(std::move(body))}; }

Attrs scan_attrs(Rng& rng, const Mesh& mesh, std::span<const Type> operands) {
  // Two carries, a stack and a capture.
  std::vector<Type> arguments(operands.begin(), operands.end());
  arguments[2].shape.erase(arguments[2].shape.begin());
  BodyMaker maker(rng, mesh, arguments);
  std::vector<ValueId> outputs = {maker.like(arguments[0]), maker.like(arguments[1])};
  for (std::size_t i = rng.below(3); i > 0; --i) outputs.push_back(maker.any());
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
  BodyMaker maker(rng, mesh, operands);
  Builder count(maker.graph(), {});
  const ValueId next = count.add(maker.graph().inputs[0], count.constant(1, int32));
  maker.graph().outputs = {next, maker.like(operands[1]), maker.like(operands[2])};
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

std::vector<Type> control_operands(Rng& rng, const OpDef& op, const Type& first) {
  Type number;
  number.dtype = int32;
  if (op.name == "scan") {
    Type stack = first;
    stack.shape.insert(stack.shape.begin(), kTrips[rng.below(kTrips.size())]);
    return {first, first, stack, first};
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
