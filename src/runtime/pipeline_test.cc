// Random programs on random meshes: what the partitioned program computes is what its equations say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include "backend/backend.h"
#include "ops/table.h"
#include "runtime/device_array.h"
#include "runtime/executable.h"
#include "sharding/test_support.h"
#include "spmd/partition.h"
#include "spmd/propagate.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

using test_support::all_placements;

// Graphs over i32, whose arithmetic wraps, so that no order of additions changes a result.
class RandomArrayProgram {
 public:
  RandomArrayProgram(std::uint32_t seed, GridPtr grid) : random_(seed) {
    graph_.grid = std::move(grid);
    const std::size_t inputs = 1 + below(3);
    for (std::size_t i = 0; i < inputs; ++i)
      graph_.add_input({.dtype = int32, .shape = random_shape(), .weak = false, .memory = {}, .varying = {}});
    for (int i = 0; i < 10; ++i) add_random_eqn();
    for (int i = 0; i < 2; ++i) graph_.outputs.push_back(pick());
    graph_.outputs.push_back(static_cast<ValueId>(graph_.values.size() - 1));
  }

  const Graph& graph() const { return graph_; }

  std::vector<std::optional<Placement>> random_inputs() {
    std::vector<std::optional<Placement>> placements;
    for (ValueId id : graph_.inputs) {
      placements.emplace_back();
      if (below(4) == 0) continue;
      const std::vector<Placement> all = all_placements(*graph_.grid, graph_.type(id).rank(), false);
      placements.back() = all[below(all.size())];
    }
    return placements;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  std::int64_t random_extent() {
    constexpr std::int64_t kExtents[] = {1, 2, 3, 4, 4, 6, 8, 12};
    return kExtents[below(8)];
  }

  Shape random_shape() {
    Shape shape(below(4));
    for (std::int64_t& extent : shape) extent = random_extent();
    return shape;
  }

  ValueId pick() { return static_cast<ValueId>(below(graph_.values.size())); }

  std::optional<ValueId> pick_like(ValueId id) {
    std::vector<ValueId> found;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Type& type = graph_.values[i].type;
      if (type == graph_.type(id)) found.push_back(static_cast<ValueId>(i));
    }
    return found[below(found.size())];
  }

  std::vector<std::int64_t> shuffled(std::size_t n) {
    std::vector<std::int64_t> list(n);
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random_);
    return list;
  }

  void add(std::string_view op, Attrs attrs, std::vector<ValueId> inputs) {
    graph_.add_eqn(op_named(op), std::move(attrs), std::move(inputs), SourceLocation::current());
  }

  void add_random_eqn() {
    const ValueId x = pick();
    const Shape shape = graph_.type(x).shape;
    switch (below(12)) {
      case 0:
        return add("add", {}, {x, *pick_like(x)});
      case 1:
        return add("subtract", {}, {x, *pick_like(x)});
      case 2:
        return add("multiply", {}, {x, *pick_like(x)});
      case 3:
        return add("negative", {}, {x});
      case 4:
        return add_reduction(x);
      case 5:
        return add_dot(x);
      case 6:
        return add_broadcast(x);
      case 7:
        return add_reshape(x);
      case 8: {
        const auto perm = shuffled(shape.size());
        return add("transpose", {{"perm", Dims(perm.begin(), perm.end())}}, {x});
      }
      case 9:
        return add_slice(x);
      case 10:
        return add_constraint(x);
      default:
        return add_creation();
    }
  }

  void add_reduction(ValueId x) {
    constexpr std::string_view kOps[] = {"reduce_sum", "reduce_sum",  "reduce_max",
                                         "reduce_min", "reduce_prod", "reduce_or"};
    const auto list = shuffled(graph_.type(x).rank());
    Dims axes(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)));
    std::sort(axes.begin(), axes.end());
    add(kOps[below(6)], {{"axes", axes}}, {x});
  }

  void add_dot(ValueId x) {
    const ValueId y = pick();
    Dims lhs_contract, rhs_contract, lhs_batch, rhs_batch;
    std::vector<bool> used(graph_.type(y).rank());
    for (const std::int64_t d : shuffled(graph_.type(x).rank())) {
      for (std::size_t e = 0; e < used.size(); ++e) {
        if (used[e] || graph_.type(y).shape[e] != graph_.type(x).shape[static_cast<std::size_t>(d)]) continue;
        used[e] = true;
        const bool batch = below(3) == 0;
        (batch ? lhs_batch : lhs_contract).push_back(d);
        (batch ? rhs_batch : rhs_contract).push_back(static_cast<std::int64_t>(e));
        break;
      }
    }
    const std::size_t rank = graph_.type(x).rank() + graph_.type(y).rank() - 2 * lhs_contract.size() - lhs_batch.size();
    if (rank > 4) return;
    add("dot_general",
        {{"lhs_contract", lhs_contract},
         {"rhs_contract", rhs_contract},
         {"lhs_batch", lhs_batch},
         {"rhs_batch", rhs_batch}},
        {x, y});
  }

  void add_broadcast(ValueId x) {
    const Shape from = graph_.type(x).shape;
    if (from.size() > 3) return;
    Shape shape;
    Dims dims;
    for (std::size_t d = 0; d <= from.size(); ++d) {
      if (below(3) == 0) shape.push_back(random_extent());
      if (d == from.size()) break;
      dims.push_back(static_cast<std::int64_t>(shape.size()));
      shape.push_back(from[d] == 1 ? random_extent() : from[d]);
    }
    if (num_elements(shape) > 2000) return;
    add("broadcast_in_dim", {{"shape", shape}, {"dims", dims}}, {x});
  }

  // Joins neighbours and splits extents at random.
  void add_reshape(ValueId x) {
    Shape shape = graph_.type(x).shape;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t d = below(shape.size() + 1);
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(d);
      if (below(2) == 0 && d + 1 < shape.size()) {
        shape[d + 1] *= shape[d];
        shape.erase(at);
      } else if (d < shape.size() && shape.size() < 4) {
        for (const std::int64_t divisor : {std::int64_t{3}, std::int64_t{2}}) {
          if (shape[d] % divisor != 0 || below(2) == 0) continue;
          shape[d] /= divisor;
          shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d + below(2)), divisor);
          break;
        }
      } else if (shape.size() < 4) {
        shape.insert(at, 1);
      }
    }
    if (num_elements(shape) != num_elements(graph_.type(x).shape)) return;
    add("reshape", {{"shape", shape}}, {x});
  }

  void add_slice(ValueId x) {
    Dims starts, limits, strides;
    for (const std::int64_t extent : Shape(graph_.type(x).shape)) {
      const bool whole = below(2) == 0;
      starts.push_back(whole ? 0 : static_cast<std::int64_t>(below(static_cast<std::size_t>(extent))));
      limits.push_back(whole ? extent
                             : starts.back() + 1 +
                                   static_cast<std::int64_t>(below(static_cast<std::size_t>(extent - starts.back()))));
      strides.push_back(whole ? 1 : 1 + static_cast<std::int64_t>(below(2)));
    }
    add("slice", {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {x});
  }

  void add_constraint(ValueId x) {
    const Mesh& mesh = graph_.grid->mesh();
    std::vector<std::vector<std::string>> names(graph_.type(x).rank());
    for (const std::int64_t axis : shuffled(mesh.axis_names().size())) {
      const std::size_t d = below(names.size() + 1);
      if (d < names.size()) names[d].push_back(mesh.axis_names()[static_cast<std::size_t>(axis)]);
    }
    std::vector<PartitionEntry> entries;
    for (auto& list : names) {
      entries.emplace_back(std::move(list));
      if (below(5) == 0) entries.back() = PartitionEntry(unconstrained);
    }
    add("sharding_constraint", {{"sharding", NamedSharding(mesh, PartitionSpec(std::move(entries)))}}, {x});
  }

  void add_creation() {
    const Shape shape = random_shape();
    if (shape.empty() || below(2) == 0)
      return add("full", {{"shape", shape}, {"value", Scalar::of<std::int32_t>(3)}}, {});
    add("iota", {{"shape", shape}, {"dtype", int32}, {"dim", static_cast<std::int64_t>(below(shape.size()))}}, {});
  }

  std::mt19937 random_;
  Graph graph_;
};

// Runs each equation's reference on whole arrays.
std::vector<Buffer> evaluate(const Graph& graph, const std::vector<Buffer>& inputs) {
  std::vector<Buffer> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  for (const Eqn& eqn : graph.eqns) {
    std::vector<TensorView> operands;
    for (ValueId id : eqn.inputs) operands.push_back(values[static_cast<std::size_t>(id)].view());
    const ValueId id = eqn.outputs[0];
    Buffer& out = values[static_cast<std::size_t>(id)];
    out = Buffer(host_space({}), graph.type(id).dtype, graph.type(id).shape);
    const std::vector<TensorView> results = {out.view()};
    eqn.op->reference({.op = *eqn.op, .attrs = eqn.attrs, .inputs = operands, .outputs = results});
  }
  std::vector<Buffer> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

ShardSet whole(const Buffer& buffer) {
  ShardSet set = ShardSet::make(std::make_shared<const Grid>(Device{}), {});
  set.shards[0] = buffer;
  return set;
}

// Runs a program on inputs that it must leave as they are, and, with the same results, on inputs given away.
std::vector<ShardSet> run_both_ways(const Graph& graph, const std::vector<ShardSet>& inputs) {
  std::vector<Reuse> reuses;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
      const Value& input = graph.value(graph.inputs[i]);
      const Value& output = graph.value(graph.outputs[o]);
      const auto takes_output = [&](const Reuse& reuse) { return reuse.output == o; };
      if (input.global != output.global || input.type.dtype != output.type.dtype) continue;
      if (std::ranges::any_of(reuses, takes_output)) continue;
      reuses.push_back({.input = i, .output = o});
      break;
    }
  }
  std::vector<ShardSet> copies = inputs;
  for (ShardSet& copy : copies) {
    for (Buffer& shard : copy.shards) {
      const Buffer given = shard;
      shard = Buffer(given.space(), given.dtype(), given.shape());
      std::memcpy(shard.mutable_data(), given.data(), given.size_bytes());
    }
  }
  const Executable executable(graph, reference_backend(), reuses);
  const std::vector<ShardSet> results = executable.run(inputs);
  const std::vector<ShardSet> donated = executable.run(std::move(copies));
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t shard = 0; shard < results[i].shards.size(); ++shard) {
      const Buffer& a = results[i].shards[shard];
      const Buffer& b = donated[i].shards[shard];
      EXPECT_EQ(a.shape(), b.shape());
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << "output " << i << " with inputs given away";
    }
  }
  return results;
}

void check_program(std::uint32_t seed, const Shape& mesh) {
  const auto grid = std::make_shared<const Grid>(test_support::grid(mesh));
  RandomArrayProgram program(seed, grid);
  const Graph& graph = program.graph();
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_text(graph));
  verify(graph, "traced");
  const Graph propagated = propagate(graph, program.random_inputs());
  verify(propagated, "propagated");
  const Graph partitioned = partition(propagated);
  SCOPED_TRACE(to_text(propagated));
  SCOPED_TRACE(to_text(partitioned));
  verify(partitioned, "partitioned");
  ASSERT_EQ(to_text(parse_graph(to_text(partitioned), find_op)), to_text(partitioned));

  std::vector<Buffer> inputs;
  std::vector<ShardSet> shards;
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Shape& shape = graph.type(graph.inputs[i]).shape;
    inputs.emplace_back(host_space({}), int32, shape);
    auto* data = static_cast<std::int32_t*>(inputs.back().mutable_data());
    for (std::int64_t k = 0; k < num_elements(shape); ++k) data[k] = static_cast<std::int32_t>(random());
    const Placement& placement = *propagated.value(propagated.inputs[i]).placement;
    shards.push_back(redistribute(whole(inputs.back()), graph.type(graph.inputs[i]),
                                  Placement::replicated(shape.size()), grid, placement, host_space({})));
  }
  const std::vector<ShardSet> results = run_both_ways(partitioned, shards);
  const std::vector<Buffer> expected = evaluate(graph, inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const GlobalShape& global = *partitioned.value(partitioned.outputs[i]).global;
    ASSERT_EQ(global.placement, *propagated.value(propagated.outputs[i]).placement);
    ASSERT_TRUE((results[i].varying - global.placement.varying()).empty())
        << "output " << i << " has more shards than its placement";
    const auto one = std::make_shared<const Grid>(Device{});
    const Buffer found = redistribute(results[i].widened_to(global.placement.varying()), graph.type(graph.outputs[i]),
                                      global.placement, one, Placement::replicated(global.shape.size()), host_space({}))
                             .shards[0];
    ASSERT_EQ(found.shape(), expected[i].shape());
    ASSERT_EQ(std::memcmp(found.data(), expected[i].data(), found.size_bytes()), 0) << "output " << i;
  }
}

TEST(Pipeline, PartitionedProgramsComputeTheSame) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    for (const Shape& mesh : std::vector<Shape>{{2}, {4}, {2, 2}, {2, 3}, {2, 2, 2}}) {
      check_program(seed, mesh);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace shoal
