#include "random_graphs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "bodies.h"
#include "generators.h"
#include "manual_regions.h"
#include "ops/builder.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

constexpr std::int64_t kMaxElements = 4000;

// Ops by how often they are drawn: constraints and what moves data make most of the work of the partitioner.
std::vector<const OpDef*> weighted_ops() {
  std::vector<const OpDef*> ops;
  const auto add = [&ops](std::span<const OpDef> family, int times) {
    for (const OpDef& op : family) {
      for (int i = 0; i < times; ++i) ops.push_back(&op);
    }
  };
  add(elementwise_ops(), 1);
  add(reduce_ops(), 4);
  add(contract_ops(), 24);
  add(movement_ops(), 16);
  add(creation_ops(), 4);
  for (int i = 0; i < 60; ++i) ops.push_back(&op_named("sharding_constraint"));
  for (const char* name : {"add", "subtract", "multiply", "negative", "reduce_sum", "convert"}) {
    for (int i = 0; i < 10; ++i) ops.push_back(&op_named(name));
  }
  for (int i = 0; i < 2; ++i) ops.push_back(&op_named("to_memory"));
  for (int i = 0; i < 20; ++i) ops.push_back(&op_named("shard_map"));
  add(control_ops(), 12);
  return ops;
}

Dtype random_dtype(Rng& rng) {
  if (rng.chance(45)) return float32;
  if (rng.chance(40)) return int32;
  return static_cast<Dtype>(rng.below(kNumDtypes));
}

class GraphMaker {
 public:
  explicit GraphMaker(std::uint64_t seed) : rng_(seed), fill_(rng_.chance(60) ? Fill::kIntegers : Fill::kReals) {
    test_.mesh = rng_.pick(all_meshes()).second;
    test_.graph.name = "random";
  }

  Case make() {
    static const std::vector<const OpDef*> ops = weighted_ops();
    const Dtype dtype = random_dtype(rng_);
    for (std::size_t i = 1 + rng_.below(2); i > 0; --i) new_input(rng_.chance(80) ? dtype : random_dtype(rng_));
    const std::size_t wanted = 2 + rng_.below(10);
    for (int tries = 0; test_.graph.eqns.size() < wanted && tries < 200; ++tries) try_op(*rng_.pick(ops));
    choose_outputs();
    return std::move(test_);
  }

 private:
  ValueId new_input(Dtype dtype) {
    Type type;
    type.dtype = dtype;
    type.shape = random_shape(rng_, rng_.below(4));
    return new_input(type);
  }

  ValueId new_input(const Type& type) {
    std::optional<PartitionSpec> spec = random_spec(rng_, test_.mesh, type.rank());
    if (!divides(test_.mesh, *spec, type.shape) || rng_.chance(15)) spec.reset();
    Buffer data = random_buffer(rng_, type.dtype, type.shape, fill_);
    known_.push_back(known_input(data));
    return add_input(test_, type, std::move(data), std::move(spec));
  }

  ValueId zeros(const Type& type) {
    const ValueId id = Builder(test_.graph, {}).constant(0, type.dtype, type.shape);
    accept();
    return id;
  }

  // Late values more often than early ones.
  ValueId any_value() {
    const std::size_t n = test_.graph.values.size();
    return static_cast<ValueId>(std::max(rng_.below(n), rng_.below(n)));
  }

  std::optional<ValueId> value_of_type(const Type& type) {
    std::vector<ValueId> found;
    for (std::size_t i = 0; i < test_.graph.values.size(); ++i) {
      if (test_.graph.values[i].type == type) found.push_back(static_cast<ValueId>(i));
    }
    if (!found.empty() && rng_.chance(90)) return rng_.pick(found);
    if (type.memory != kDeviceMemory || type.weak) return {};
    return new_input(type);
  }

  void try_op(const OpDef& op) {
    if (op.name == "shard_map") return try_region();
    const ValueId first = any_value();
    Type like = test_.graph.type(first);
    if (op.arity == 0) like.shape = random_shape(rng_, rng_.below(4));
    const std::optional<Sample> made = sample(rng_, test_.mesh, op, like);
    if (!made) return;
    const std::size_t carries = op.control == nullptr ? 0 : op.control(made->attrs).carries;
    std::vector<ValueId> operands;
    for (const Type& type : made->operands) {
      std::optional<ValueId> id;
      if (operands.size() < carries && can_be_zero(type) && rng_.chance(kFromZero)) {
        id = zeros(type);
      } else {
        id = operands.empty() && type == like ? std::optional<ValueId>(first) : value_of_type(type);
      }
      if (!id) return;
      operands.push_back(*id);
    }
    const std::size_t values = test_.graph.values.size();
    if (rng_.chance(6)) {
      add_call(op, made->attrs, operands);
    } else {
      test_.graph.add_eqn(op, made->attrs, operands, SourceLocation::current());
    }
    accept_last(values);
  }

  // Keeps the last equation, before which the graph had `values` values, if it can be compared with the oracle.
  void accept_last(std::size_t values) {
    if (accept()) return;
    test_.graph.eqns.pop_back();
    test_.graph.values.resize(values);
  }

  // The op inside a jit call.
  void add_call(const OpDef& op, const Attrs& attrs, const std::vector<ValueId>& operands) {
    auto body = std::make_shared<Graph>();
    body->name = "inner";
    std::vector<ValueId> inputs;
    for (ValueId id : operands) inputs.push_back(body->add_input(test_.graph.type(id)));
    body->outputs = body->add_eqn(op, attrs, inputs, SourceLocation::current());
    test_.graph.add_eqn(op_named("jit"), {{"body", GraphAttr{std::move(body)}}}, operands, SourceLocation::current());
  }

  // A shard_map of one or two values.
  void try_region() {
    std::vector<ValueId> operands = {any_value()};
    if (rng_.chance(40)) operands.push_back(any_value());
    std::vector<Type> types;
    for (ValueId id : operands) types.push_back(test_.graph.type(id));
    const int equations = 1 + static_cast<int>(rng_.below(5));
    std::optional<Attrs> attrs =
        random_manual_region(rng_, test_.mesh, types, {.only = nullptr, .equations = equations});
    if (!attrs) return;
    const std::size_t values = test_.graph.values.size();
    test_.graph.add_eqn(op_named("shard_map"), std::move(*attrs), operands, SourceLocation::current());
    accept_last(values);
  }

  // Evaluates the last equation. Whether its results can be compared with the program's.
  bool accept() {
    const Eqn& eqn = test_.graph.eqns.back();
    for (ValueId id : eqn.outputs) {
      if (num_elements(test_.graph.type(id).shape) > kMaxElements || test_.graph.type(id).rank() > 5) return false;
    }
    std::vector<Known> operands;
    for (ValueId id : eqn.inputs) operands.push_back(known_[static_cast<std::size_t>(id)]);
    std::vector<Known> results = analyse(test_.graph, eqn, operands);
    for (const Known& result : results) {
      if (std::isinf(result.error)) return false;
    }
    for (Known& result : results) known_.push_back(std::move(result));
    return true;
  }

  void choose_outputs() {
    const std::vector<int> uses = count_uses(test_.graph);
    const auto n = static_cast<ValueId>(test_.graph.values.size());
    for (ValueId id = n; id-- > 0;) {
      const bool last = id == n - 1;
      const bool unused = uses[static_cast<std::size_t>(id)] == 0;
      if (last || rng_.chance(unused ? 70 : 10)) choose_output(id);
    }
  }

  void choose_output(ValueId id) {
    const Type& type = test_.graph.type(id);
    std::optional<PartitionSpec> spec = random_spec(rng_, test_.mesh, type.rank());
    if (!divides(test_.mesh, *spec, type.shape) || rng_.chance(60)) spec.reset();
    add_output(test_, id, std::move(spec));
  }

  Rng rng_;
  Fill fill_;
  Case test_;
  std::vector<Known> known_;
};

}  // namespace

Case random_case(std::uint64_t seed) { return GraphMaker(seed).make(); }

}  // namespace shoal::parity
