// What jitted, lowered and compiled functions consist of.
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <vector>

#include "frontend/array/array_impl.h"
#include "frontend/transforms/launches.h"
#include "ir/graph.h"
#include "runtime/program.h"
#include "shoal/jit.h"

namespace shoal::detail {

using MaybeSharding = std::optional<Sharding>;

// What a compiled program depends on.
struct LeafKey {
  Type type;
  MaybeSharding sharding;  // Of committed arrays, for a program; traces do not depend on it.
  friend bool operator==(const LeafKey&, const LeafKey&) = default;
};

// A function traced for one kind of arguments.
struct Traced {
  Graph graph;
  std::vector<Array> captures;  // The further inputs of the graph.
  TreeDef result_tree;
  Exemplar exemplar;
  std::vector<MaybeSharding> out_shardings;
};

struct LoweredImpl {
  std::shared_ptr<JitCache> cache;
  TreeDef tree;
  std::size_t num_statics;
  std::vector<LeafKey> leaves;
  std::shared_ptr<const Traced> traced;
};

struct CompiledImpl {
  LoweredImpl lowered;
  std::shared_ptr<const Program> program;
  std::unique_ptr<Launches> launches = std::make_unique<Launches>();
};

/// The options that a jitted function was made with.
const JitOptions& options_of(const JitCache& cache);

/// The sharding of an array, or of a type alone, if it is bound to it.
MaybeSharding committed_sharding(const Array& array);

}  // namespace shoal::detail
