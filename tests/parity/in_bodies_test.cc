// Every op of the table gives in a body what it gives outside: in a loop, where its operands are other ones in each
// trip, and in a branch.
//
// On one device the bits are those of the op by itself on the same back end, on `cpu` and on `reference`. On a mesh the
// values are those of the oracle, wherever operands and results lie. Collectives and calls run in random manual
// regions, which then stand in the body.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/env.h"
#include "equations.h"
#include "manual_regions.h"
#include "ops/builder.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

constexpr std::size_t kTripsInBodies = 2;

// The same equation of each trip, on data of its own.
using Trips = std::vector<Equation>;

GraphAttr graph_attr(Graph body) { return {std::make_shared<const Graph>(std::move(body))}; }

// A graph of the equation alone.
Graph body_of(const Equation& equation) {
  Graph body;
  body.name = "body";
  for (const Type& type : equation.sample.operands) body.add_input(type);
  body.outputs = body.add_eqn(equation.op, equation.sample.attrs, body.inputs, SourceLocation::current());
  return body;
}

Buffer stack_of(const std::vector<Buffer>& slices) {
  Shape shape = slices[0].shape();
  const std::size_t bytes = static_cast<std::size_t>(num_elements(shape)) * size_of(slices[0].dtype());
  shape.insert(shape.begin(), static_cast<std::int64_t>(slices.size()));
  Buffer stack = make_buffer(slices[0].dtype(), shape);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (bytes != 0) std::memcpy(static_cast<std::byte*>(stack.mutable_data()) + i * bytes, slices[i].data(), bytes);
  }
  return stack;
}

Buffer slice_of(const Buffer& stack, std::size_t i) {
  Shape shape = stack.shape();
  shape.erase(shape.begin());
  Buffer slice = make_buffer(stack.dtype(), shape);
  const std::size_t bytes = static_cast<std::size_t>(num_elements(shape)) * size_of(stack.dtype());
  if (bytes != 0) std::memcpy(slice.mutable_data(), static_cast<const std::byte*>(stack.data()) + i * bytes, bytes);
  return slice;
}

class OpInBodies : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
  bool in_regions() const {
    return op().op_class == OpClass::kCollective || op().op_class == OpClass::kCall ||
           op().op_class == OpClass::kRegion || is_boundary(op());
  }

  std::optional<Sample> sample_of(const Mesh& mesh, const Type& first) {
    if (!in_regions()) return sample(rng_, mesh, op(), first);
    ManualOptions options{.only = &op(), .equations = 4};
    if (op().op_class == OpClass::kCall || op().op_class == OpClass::kRegion) options.only = nullptr;
    if (is_boundary(op())) options.only = &op_named("transpose");
    const std::vector<Type> operands(options.only == nullptr ? 2 : 1, first);
    std::optional<Attrs> attrs = random_manual_region(rng_, mesh, operands, options);
    if (!attrs) return {};
    return Sample{.operands = operands, .attrs = std::move(*attrs)};
  }

  // Equal equations with data for each trip; nothing if the op takes no such type, or nothing is known of the results.
  std::optional<Trips> trips_of(const Mesh& mesh, const Type& first) {
    const OpDef& called = in_regions() ? op_named("shard_map") : op();
    for (int tries = 0; tries < 20; ++tries) {
      const std::optional<Sample> made = sample_of(mesh, first);
      if (!made) continue;
      Trips trips;
      for (std::size_t i = 0; i < kTripsInBodies; ++i)
        trips.push_back(make_equation(rng_, called, *made, Fill::kIntegers));
      if (std::ranges::all_of(trips, &Equation::is_comparable)) return trips;
    }
    return {};
  }

  std::optional<PartitionSpec> spec_for(const Mesh& mesh, const Shape& shape) {
    std::optional<PartitionSpec> spec = random_spec(rng_, mesh, shape.size());
    if (!divides(mesh, *spec, shape) || rng_.chance(30)) spec.reset();
    return spec;
  }

  void add_operand(Case& test, std::vector<ValueId>& operands, const Buffer& data) {
    std::optional<PartitionSpec> spec = spec_for(test.mesh, data.shape());
    operands.push_back(add_input(test, type_of(data.dtype(), data.shape()), data, std::move(spec)));
  }

  // A loop over stacks of the operands, which stacks the results. Its first carry counts the trips.
  Case in_loop(const Trips& trips, const Mesh& mesh) {
    Case test;
    test.mesh = mesh;
    const Equation& first = trips.front();
    Graph body = body_of(first);
    const ValueId counter = body.add_input(type_of(int32, {}));
    body.inputs.insert(body.inputs.begin(), counter);
    body.inputs.pop_back();
    Builder count(body, {});
    body.outputs.insert(body.outputs.begin(), count.add(counter, count.constant(1, int32)));
    std::vector<ValueId> operands = {Builder(test.graph, {}).constant(0, int32)};
    for (std::size_t i = 0; i < first.data.size(); ++i) {
      std::vector<Buffer> slices;
      for (const Equation& trip : trips) slices.push_back(trip.data[i]);
      add_operand(test, operands, stack_of(slices));
    }
    const Attrs attrs = {{"bodies", std::vector<GraphAttr>{graph_attr(std::move(body))}},
                         {"carries", std::int64_t{1}},
                         {"slices", static_cast<std::int64_t>(first.data.size())},
                         {"length", static_cast<std::int64_t>(kTripsInBodies)},
                         {"reverse", false}};
    const std::vector<ValueId> results =
        test.graph.add_eqn(op_named("scan"), attrs, operands, SourceLocation::current());
    for (std::size_t k = 1; k < results.size(); ++k) add_output(test, results[k], std::nullopt);
    return test;
  }

  // A branch that is taken; the other one gives zeros, if these lie where the results do.
  Case in_branch(const Equation& equation, const Mesh& mesh) {
    Case test;
    test.mesh = mesh;
    Graph other = body_of(equation);
    const auto lies_on_device = [](const Type& type) { return type.memory == kDeviceMemory; };
    if (std::ranges::all_of(equation.results, lies_on_device)) {
      other = Graph();
      for (const Type& type : equation.sample.operands) other.add_input(type);
      Builder zeros(other, {});
      for (const Type& type : equation.results) other.outputs.push_back(zeros.constant(0, type.dtype, type.shape));
    }
    other.name = "other";
    Buffer index = make_buffer(int32, {});
    *static_cast<std::int32_t*>(index.mutable_data()) = 1;
    std::vector<ValueId> operands = {add_input(test, type_of(int32, {}), index, std::nullopt)};
    for (const Buffer& data : equation.data) add_operand(test, operands, data);
    const Attrs attrs = {
        {"bodies", std::vector<GraphAttr>{graph_attr(std::move(other)), graph_attr(body_of(equation))}}};
    const std::vector<ValueId> results =
        test.graph.add_eqn(op_named("switch"), attrs, operands, SourceLocation::current());
    for (const ValueId id : results) add_output(test, id, std::nullopt);
    return test;
  }

  Case alone(const Equation& equation, const Mesh& mesh) {
    return make_case(rng_, equation, mesh, Specs(tensors_of(equation).size()));
  }

  void check(const Case& test, const Trips& trips, bool stacks, bool exactly) {
    ++cases_;
    try {
      const std::vector<Buffer> got = run(test);
      for (std::size_t i = 0; i < (stacks ? trips.size() : 1); ++i) {
        std::vector<Buffer> of_trip;
        for (const Buffer& one : got) of_trip.push_back(stacks ? slice_of(one, i) : one);
        const std::optional<std::string> failure =
            exactly ? unlike_outside(of_trip, trips[i], test.mesh) : compare(of_trip, trips[i].expected);
        if (failure) ADD_FAILURE() << "trip " << i << ": " << *failure << "\n" << to_text(test);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << to_text(test);
    }
  }

  std::optional<std::string> unlike_outside(const std::vector<Buffer>& got, const Equation& equation,
                                            const Mesh& mesh) {
    const std::vector<Buffer> want = run(alone(equation, mesh));
    for (std::size_t k = 0; k < want.size(); ++k) {
      if (const auto found = difference(got[k], want[k], {})) return fmt::format("output {}: {}", k, *found);
    }
    return {};
  }

  void check_both(const Trips& trips, const Mesh& mesh, bool exactly) {
    check(in_loop(trips, mesh), trips, true, exactly);
    check(in_branch(trips[0], mesh), trips, false, exactly);
  }

  Rng rng_{static_cast<std::uint64_t>(env_int("SHOAL_PARITY_SEED", 0, 1'000'000'000).value_or(1))};
  int cases_ = 0;
};

TEST_P(OpInBodies, GivesWhatItGivesOutside) {
  const Mesh& one = standard_meshes()[0].second;
  const Mesh& many = standard_meshes()[3].second;
  for (const Dtype dtype : {float32, int32, bool_, complex64, bfloat16, uint32, uint64}) {
    for (const Shape& shape : {Shape{8, 4}, Shape{6, 5}, Shape{}}) {
      if (const auto trips = trips_of(one, type_of(dtype, shape))) {
        for (const Backend* backend : {&cpu_backend(), &reference_backend()}) {
          const BackendScope scope(*backend);
          check_both(*trips, one, true);
        }
      }
      if (const auto trips = trips_of(many, type_of(dtype, shape))) check_both(*trips, many, false);
    }
  }
  EXPECT_GE(cases_, 12) << "the generator of " << op().name << " makes too little";
}

INSTANTIATE_TEST_SUITE_P(EveryOp, OpInBodies, testing::ValuesIn(ops_with_results()),
                         [](const auto& tested) { return std::string(tested.param->name); });

}  // namespace
}  // namespace shoal::parity
