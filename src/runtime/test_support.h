// Graphs of shards for tests: written down by hand, or made at random.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/table.h"
#include "runtime/executable.h"
#include "sharding/test_support.h"

namespace shoal::test_support {

inline GridPtr grid_of(const Shape& mesh) { return std::make_shared<const Grid>(grid(mesh)); }

inline AtomSet all_atoms(const Grid& grid) {
  AtomSet set;
  for (int atom = 0; atom < grid.num_atoms(); ++atom) set.insert(static_cast<Atom>(atom));
  return set;
}

// A partitioned graph that is written down by hand: shapes are those of shards.
class GraphOfShards {
 public:
  explicit GraphOfShards(GridPtr grid) { graph_.grid = std::move(grid); }

  ValueId value(Shape shape, AtomSet varying) {
    const ValueId id = graph_.add_value({.dtype = int32, .shape = std::move(shape)});
    graph_.value(id).varying = varying;
    return id;
  }
  ValueId input(Shape shape, AtomSet varying) {
    const ValueId id = value(std::move(shape), varying);
    graph_.inputs.push_back(id);
    return id;
  }
  ValueId add(std::string_view op, Attrs attrs, std::vector<ValueId> inputs, Shape shape, AtomSet varying) {
    const ValueId id = value(std::move(shape), varying);
    graph_.eqns.push_back({.op = &op_named(op),
                           .attrs = std::move(attrs),
                           .inputs = std::move(inputs),
                           .outputs = {id},
                           .where = SourceLocation::current()});
    return id;
  }
  ValueId add(std::string_view op, ValueId x) { return add(op, {}, {x}, shape(x), varying(x)); }
  ValueId add(std::string_view op, ValueId x, ValueId y) {
    return add(op, {}, {x, y}, shape(x), varying(x) | varying(y));
  }
  Attrs along(const Atoms& atoms) const { return {{"axes", graph_.grid->axis_refs(atoms)}}; }

  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  AtomSet varying(ValueId id) const { return graph_.value(id).varying; }
  Graph& graph() { return graph_; }

 private:
  Graph graph_;
};

// A program of computations, renamings and collectives at random.
class RandomProgram : public GraphOfShards {
 public:
  RandomProgram(std::uint32_t seed, GridPtr grid, int steps = 16) : GraphOfShards(std::move(grid)), random_(seed) {
    const Grid& g = *graph().grid;
    for (std::size_t i = 0; i < 3; ++i) {
      AtomSet varying;
      for (int atom = 0; atom < g.num_atoms(); ++atom) {
        if (below(4) != 0) varying.insert(static_cast<Atom>(atom));
      }
      // Some shards begin at multiples of 64 bytes in what is gathered from them, others do not.
      input(below(2) == 0 ? Shape{12, 16} : Shape{12, 2}, varying);
    }
    for (int i = 0; i < steps; ++i) add_step();
    for (int i = 0; i < 3; ++i) graph().outputs.push_back(pick());
    graph().outputs.push_back(static_cast<ValueId>(graph().values.size() - 1));
  }

  std::size_t below(std::size_t n) { return random_() % n; }

  // Pairs of inputs and outputs of one type, each at most once.
  std::vector<Reuse> random_reuses() {
    std::vector<Reuse> reuses;
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
      for (std::size_t o = 0; o < graph().outputs.size(); ++o) {
        const ValueId in = graph().inputs[i];
        const ValueId out = graph().outputs[o];
        if (shape(in) != shape(out) || varying(in) != varying(out) || taken.contains(o) || below(4) == 0) continue;
        taken.insert(o);
        reuses.push_back({.input = i, .output = o});
        break;
      }
    }
    return reuses;
  }

 private:
  ValueId pick() {
    // Late ones more often, so that memory is taken over and over.
    const std::size_t count = graph().values.size();
    return static_cast<ValueId>(below(2) == 0 ? below(count) : count - 1 - below(std::min<std::size_t>(count, 4)));
  }

  Atoms some_atoms() {
    Atoms atoms;
    const int count = graph().grid->num_atoms();
    for (int atom = 0; atom < count; ++atom) {
      if (below(2) == 0) atoms.push_back(static_cast<Atom>(atom));
    }
    if (atoms.empty()) atoms.push_back(static_cast<Atom>(below(static_cast<std::size_t>(count))));
    std::shuffle(atoms.begin(), atoms.end(), random_);
    return atoms;
  }

  void add_step() {
    const ValueId x = pick();
    const Shape shape = this->shape(x);
    const AtomSet varying = this->varying(x);
    const Atoms atoms = some_atoms();
    const std::int64_t group = graph().grid->size_of(atoms);
    Attrs attrs = along(atoms);
    switch (below(15)) {
      case 0:
        add("negative", x);
        return;
      case 13:
        // Its kernel may not write over its operand.
        add("reverse", {{"dims", Dims{0, 1}}}, {x}, shape, varying);
        return;
      case 1:
      case 2:
      case 3: {
        std::vector<ValueId> like;
        for (std::size_t i = 0; i < graph().values.size(); ++i) {
          if (graph().values[i].type.shape == shape) like.push_back(static_cast<ValueId>(i));
        }
        add(below(2) == 0 ? "add" : "multiply", x, like[below(like.size())]);
        return;
      }
      case 4: {
        const Shape turned = {shape[1], shape[0]};
        add("reshape", {{"shape", turned}}, {x}, turned, varying);
        return;
      }
      case 5:
        attrs.set("kind", std::string("sum"));
        add("all_reduce", std::move(attrs), {x}, shape, varying - AtomSet(atoms));
        return;
      case 6:
        if (num_elements(shape) * group > 20000) return;
        attrs.set("dim", std::int64_t{0});
        add("all_gather", std::move(attrs), {x}, {shape[0] * group, shape[1]}, varying - AtomSet(atoms));
        return;
      case 7:
        if (shape[0] % group != 0) return;
        attrs.set("dim", std::int64_t{0});
        attrs.set("kind", std::string("sum"));
        add("reduce_scatter", std::move(attrs), {x}, {shape[0] / group, shape[1]}, varying | AtomSet(atoms));
        return;
      case 8:
        if (shape[0] % group != 0) return;
        attrs.set("split_dim", std::int64_t{0});
        attrs.set("concat_dim", std::int64_t{1});
        add("all_to_all", std::move(attrs), {x}, {shape[0] / group, shape[1] * group}, varying | AtomSet(atoms));
        return;
      case 9: {
        const std::size_t dim = below(2);
        if (shape[dim] % group != 0) return;
        Shape piece = shape;
        piece[dim] /= group;
        attrs.set("dim", static_cast<std::int64_t>(dim));
        add("shard_slice", std::move(attrs), {x}, piece, varying | AtomSet(atoms));
        return;
      }
      case 10: {
        Dims sources(static_cast<std::size_t>(group));
        std::iota(sources.begin(), sources.end(), 0);
        Dims targets = sources;
        std::shuffle(sources.begin(), sources.end(), random_);
        std::shuffle(targets.begin(), targets.end(), random_);
        const std::size_t pairs = below(3) == 0 ? below(sources.size() + 1) : sources.size();
        sources.resize(pairs);
        targets.resize(pairs);
        attrs.set("sources", sources);
        attrs.set("targets", targets);
        add("collective_permute", std::move(attrs), {x}, shape, varying | AtomSet(atoms));
        return;
      }
      case 11:
        attrs.set("source", static_cast<std::int64_t>(below(static_cast<std::size_t>(group))));
        add("pbroadcast", std::move(attrs), {x}, shape, varying - AtomSet(atoms));
        return;
      case 12:
        add("pvary", std::move(attrs), {x}, shape, varying | AtomSet(atoms));
        return;
      default:
        attrs.set("kind", std::string("sum"));
        attrs.set("reverse", below(2) == 0);
        add("exclusive_scan", std::move(attrs), {x}, shape, varying | AtomSet(atoms));
        return;
    }
  }

  std::mt19937 random_;
};

inline std::vector<ShardSet> random_inputs(const Graph& graph, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<ShardSet> inputs;
  for (ValueId id : graph.inputs) {
    ShardSet& set = inputs.emplace_back(ShardSet::make(graph.grid, graph.value(id).varying));
    for (Buffer& shard : set.shards) {
      shard = Buffer(host_space({}), int32, graph.type(id).shape);
      auto* data = static_cast<std::int32_t*>(shard.mutable_data());
      for (std::int64_t i = 0; i < num_elements(shard.shape()); ++i) data[i] = static_cast<std::int32_t>(random());
    }
  }
  return inputs;
}

// Each equation by itself: no value takes the memory of another.
inline std::vector<ShardSet> run_one_by_one(const Graph& graph, const std::vector<ShardSet>& inputs) {
  std::vector<ShardSet> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  for (const Eqn& eqn : graph.eqns) {
    GraphOfShards one(graph.grid);
    std::vector<ValueId> operands;
    std::vector<ShardSet> data;
    for (ValueId id : eqn.inputs) {
      operands.push_back(one.input(graph.type(id).shape, graph.value(id).varying));
      data.push_back(values[slot(id)]);
    }
    const ValueId result = eqn.outputs[0];
    one.graph().outputs = {
        one.add(eqn.op->name, eqn.attrs, operands, graph.type(result).shape, graph.value(result).varying)};
    values[slot(result)] = Executable(one.graph(), reference_backend()).run(data)[0];
  }
  std::vector<ShardSet> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[slot(id)]);
  return outputs;
}

inline ::testing::AssertionResult same_elements(const std::vector<ShardSet>& a, const std::vector<ShardSet>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::int64_t position = 0; position < a[i].grid->num_devices(); ++position) {
      const Buffer& x = a[i].at(position);
      const Buffer& y = b[i].at(position);
      if (x.shape() == y.shape() && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0) continue;
      return ::testing::AssertionFailure() << "output " << i << " on device " << position;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace shoal::test_support
