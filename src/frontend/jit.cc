#include "shoal/jit.h"

#include <fmt/format.h>

#include <boost/container_hash/hash.hpp>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/prefix.h"
#include "frontend/trace.h"
#include "ops/table.h"
#include "runtime/program.h"

namespace shoal::detail {
namespace {

using MaybeSharding = std::optional<Sharding>;

// What a compiled program depends on.
struct LeafKey {
  Type type;
  MaybeSharding sharding;  // Of committed arrays outside any trace.
  friend bool operator==(const LeafKey&, const LeafKey&) = default;
};

struct Key {
  TreeDef tree;
  std::vector<LeafKey> leaves;
  AxisEnv axes;  // Inside shard_map: what is bound there,
  Mesh mesh;     // and its mesh.
  friend bool operator==(const Key&, const Key&) = default;
};

struct HashKey {
  std::size_t operator()(const Key& key) const {
    std::size_t seed = key.leaves.size();
    for (const LeafKey& leaf : key.leaves) {
      boost::hash_combine(seed, static_cast<int>(leaf.type.dtype));
      boost::hash_combine(seed, leaf.type.weak);
      boost::hash_range(seed, leaf.type.shape.begin(), leaf.type.shape.end());
      if (leaf.sharding) boost::hash_combine(seed, leaf.sharding->hash());
    }
    return seed;
  }
};

// A function traced for one kind of arguments.
struct Traced {
  Graph graph;
  std::vector<Array> captures;  // The further inputs of the graph.
  TreeDef result_tree;
  std::any exemplar;
  std::vector<MaybeSharding> out_shardings;
};

struct Entry {
  std::shared_ptr<const Traced> traced;
  std::shared_ptr<const Program> program;  // Outside any trace.
};

}  // namespace

class JitCache {
 public:
  JitCache(JitOptions options, SourceLocation where) : options_(std::move(options)), where_(where) {}

  std::vector<Array> call(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    return Trace::current() != nullptr ? call_nested(arguments, function, exemplar)
                                       : call_compiled(arguments, function, exemplar);
  }

  // The arguments where in_shardings wants them, for a call outside any trace.
  std::vector<Array> placed_arguments(const CallArguments& arguments) const {
    const std::vector<MaybeSharding> wanted = in_shardings(arguments.tree);
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    std::vector<Array> leaves;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const Array& leaf = arguments.leaves[i];
      const std::string what = fmt::format("{}: argument {}", options_.name, paths[i]);
      const DeviceArray& array = concrete(leaf, what, where_);
      if (!wanted[i]) {
        leaves.push_back(leaf);
        continue;
      }
      if (array.committed && !array.sharding.is_equivalent_to(*wanted[i], array.type.rank())) {
        throw InvalidArgument(
            fmt::format("{} {} lies as {}, but in_shardings wants {}; move it with device_put, or leave in_shardings "
                        "out",
                        what, to_string(array.type), to_string(array.sharding), to_string(*wanted[i])),
            where_);
      }
      wanted[i]->check_compatible(array.type.shape, what, where_);
      leaves.push_back(array.committed ? leaf : Access::make(put(array, *wanted[i], true, where_)));
    }
    return leaves;
  }

  std::shared_ptr<const Traced> trace(const std::vector<Array>& leaves, const TracedFunction& function) const {
    auto traced = std::make_shared<Traced>();
    const auto trace = Trace::begin(Trace::Kind::kJit, options_.name);
    traced->graph = trace_graph(trace, where_, [&] {
      std::vector<Array> tracers;
      for (const Array& leaf : leaves) tracers.push_back(trace->add_input(impl_of(leaf).type));
      TracedResult result = function(tracers);
      check_values(result.leaves, result.tree, options_.name + ": result", where_);
      traced->result_tree = std::move(result.tree);
      traced->exemplar = std::move(result.exemplar);
      return result.leaves;
    });
    traced->captures = trace->captures();
    traced->out_shardings = apply_result_prefix(options_.out_shardings, traced->result_tree,
                                                fmt::format("{}: out_shardings", options_.name), where_);
    for (const MaybeSharding& sharding : traced->out_shardings) check_constrained(sharding, "out_shardings");
    return traced;
  }

  std::shared_ptr<const Program> compile(const Traced& traced, const CallArguments& arguments,
                                         const std::vector<Array>& leaves) const {
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    std::vector<InputSpec> inputs;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      inputs.push_back(
          {committed_sharding(leaves[i]), fmt::format("argument {} {}", paths[i], to_string(impl_of(leaves[i]).type))});
    }
    for (const Array& capture : traced.captures) {
      inputs.push_back(
          {committed_sharding(capture), fmt::format("captured array {}", to_string(impl_of(capture).type))});
    }
    const std::vector<std::string> result_paths = traced.result_tree.leaf_paths();
    std::vector<OutputSpec> outputs;
    for (std::size_t i = 0; i < traced.out_shardings.size(); ++i) {
      outputs.push_back({traced.out_shardings[i], fmt::format("{}: result{}", options_.name, result_paths[i])});
    }
    return std::make_shared<const Program>(traced.graph, std::move(inputs), std::move(outputs), where_);
  }

  const JitOptions& options() const { return options_; }
  SourceLocation where() const { return where_; }

  static MaybeSharding committed_sharding(const Array& array) {
    const ArrayImpl& impl = impl_of(array);
    if (!impl.device || !impl.device->committed) return std::nullopt;
    return impl.device->sharding;
  }

 private:
  void check_constrained(const MaybeSharding& sharding, std::string_view option) const {
    if (!sharding || sharding->named() == nullptr) return;
    for (const PartitionEntry& entry : sharding->named()->spec()) {
      if (entry.is_unconstrained()) {
        throw InvalidArgument(fmt::format("{}: {} must say how every dimension lies, but {} leaves one unconstrained",
                                          options_.name, option, to_string(sharding->named()->spec())),
                              where_);
      }
    }
  }

  std::vector<MaybeSharding> in_shardings(const TreeDef& tree) const {
    std::vector<MaybeSharding> wanted =
        apply_prefix(options_.in_shardings, tree, fmt::format("{}: in_shardings", options_.name), where_);
    for (const MaybeSharding& sharding : wanted) check_constrained(sharding, "in_shardings");
    return wanted;
  }

  static Key key_of(const CallArguments& arguments, const std::vector<Array>& leaves) {
    Key key{.tree = arguments.tree, .leaves = {}, .axes = {}, .mesh = {}};
    const Trace* trace = Trace::current();
    if (trace != nullptr) {
      key.axes = trace->graph().axes;
      key.mesh = trace->mesh();
    }
    for (const Array& leaf : leaves) {
      key.leaves.push_back({impl_of(leaf).type, trace == nullptr ? committed_sharding(leaf) : std::nullopt});
    }
    return key;
  }

  Entry find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? Entry{} : found->second;
  }

  void store(const Key& key, const Entry& entry) {
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(key, entry);
  }

  std::vector<Array> call_compiled(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    const std::vector<Array> leaves = placed_arguments(arguments);
    const Key key = key_of(arguments, leaves);
    Entry entry = find(key);
    if (entry.program == nullptr) {
      if (entry.traced == nullptr) entry.traced = trace(leaves, function);
      entry.program = compile(*entry.traced, arguments, leaves);
      store(key, entry);
    }
    exemplar = entry.traced->exemplar;
    return run(*entry.program, *entry.traced, leaves);
  }

 public:
  static std::vector<Array> run(const Program& program, const Traced& traced, const std::vector<Array>& leaves) {
    std::vector<DeviceArray> values;
    for (const auto* list : {&leaves, &traced.captures}) {
      for (const Array& array : *list) values.push_back(concrete(array, program.stage("traced").name, {}));
    }
    std::vector<Array> results;
    for (DeviceArray& array : program.call(values)) results.push_back(Access::make(std::move(array)));
    return results;
  }

 private:
  // Inside a trace the function becomes an equation of it; shardings become constraints.
  std::vector<Array> call_nested(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    check_values(arguments.leaves, arguments.tree, options_.name + ": argument ", where_);
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    const std::vector<MaybeSharding> wanted = in_shardings(arguments.tree);
    std::vector<Array> leaves;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      leaves.push_back(constrained(arguments.leaves[i], wanted[i], "argument " + paths[i]));
    }
    // Not cached when it captures values of the enclosing trace, which the next one has not.
    const Key key = key_of(arguments, leaves);
    Entry entry = find(key);
    if (entry.traced == nullptr) {
      entry.traced = trace(leaves, function);
      if (entry.traced->captures.empty()) store(key, entry);
    }
    std::vector<Array> operands = leaves;
    operands.insert(operands.end(), entry.traced->captures.begin(), entry.traced->captures.end());
    std::vector<Array> results =
        bind(op_named("jit"),
             {{"body", GraphAttr{std::make_shared<const Graph>(entry.traced->graph)}}, {"name", options_.name}},
             operands, where_);
    const std::vector<std::string> result_paths = entry.traced->result_tree.leaf_paths();
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = constrained(results[i], entry.traced->out_shardings[i], "result" + result_paths[i]);
    }
    exemplar = entry.traced->exemplar;
    return results;
  }

  Array constrained(const Array& array, const MaybeSharding& sharding, const std::string& what) const {
    if (!sharding) return array;
    sharding->check_compatible(impl_of(array).type.shape, fmt::format("{}: {}", options_.name, what), where_);
    return device_put(Operand(array, where_), *sharding);
  }

  JitOptions options_;
  SourceLocation where_;
  std::mutex mutex_;
  std::unordered_map<Key, Entry, HashKey> entries_;
};

struct LoweredImpl {
  std::shared_ptr<JitCache> cache;
  CallArguments arguments;
  std::vector<Array> leaves;
  std::shared_ptr<const Traced> traced;
};

struct CompiledImpl {
  LoweredImpl lowered;
  std::shared_ptr<const Program> program;
};

std::shared_ptr<JitCache> make_jit_cache(const JitOptions& options, SourceLocation where) {
  return std::make_shared<JitCache>(options, where);
}

std::vector<Array> call_jit(JitCache& cache, const CallArguments& arguments, const TracedFunction& function,
                            std::any& exemplar) {
  return cache.call(arguments, function, exemplar);
}

std::shared_ptr<LoweredImpl> lower_jit(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                                       const TracedFunction& function) {
  std::vector<Array> leaves = cache->placed_arguments(arguments);
  auto traced = cache->trace(leaves, function);
  return std::make_shared<LoweredImpl>(LoweredImpl{cache, arguments, std::move(leaves), std::move(traced)});
}

std::string lowered_text(const LoweredImpl& lowered) { return to_text(lowered.traced->graph); }

std::shared_ptr<CompiledImpl> compile_lowered(const LoweredImpl& lowered) {
  auto program = lowered.cache->compile(*lowered.traced, lowered.arguments, lowered.leaves);
  return std::make_shared<CompiledImpl>(CompiledImpl{lowered, std::move(program)});
}

std::string compiled_text(const CompiledImpl& compiled, std::string_view stage) {
  return to_text(compiled.program->stage(stage));
}

std::vector<Sharding> compiled_shardings(const CompiledImpl& compiled, bool of_inputs) {
  const std::vector<Sharding>& all =
      of_inputs ? compiled.program->input_shardings() : compiled.program->output_shardings();
  // Captured arrays are no arguments.
  const std::size_t count = of_inputs ? compiled.lowered.leaves.size() : all.size();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Array> call_compiled(const CompiledImpl& compiled, const CallArguments& arguments, std::any& exemplar) {
  const LoweredImpl& lowered = compiled.lowered;
  const std::string& name = lowered.cache->options().name;
  const SourceLocation where = lowered.cache->where();
  if (arguments.tree != lowered.arguments.tree) {
    throw TypeMismatch(fmt::format("{}: compiled for arguments {}, but called with {}", name,
                                   to_string(lowered.arguments.tree), to_string(arguments.tree)),
                       where);
  }
  const std::vector<Array> leaves = lowered.cache->placed_arguments(arguments);
  const std::vector<std::string> paths = arguments.tree.leaf_paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Type& want = impl_of(lowered.leaves[i]).type;
    const Type& have = impl_of(leaves[i]).type;
    if (want != have) {
      throw TypeMismatch(fmt::format("{}: argument {} was {} when this was compiled, but is {}", name, paths[i],
                                     to_string(want), to_string(have)),
                         where);
    }
    const MaybeSharding given = JitCache::committed_sharding(leaves[i]);
    const Sharding& expected = compiled.program->input_shardings()[i];
    if (given && !given->is_equivalent_to(expected, have.rank())) {
      throw InvalidArgument(fmt::format("{}: argument {} was compiled for {}, but lies as {}", name, paths[i],
                                        to_string(expected), to_string(*given)),
                            where);
    }
  }
  exemplar = lowered.traced->exemplar;
  return JitCache::run(*compiled.program, *lowered.traced, leaves);
}

}  // namespace shoal::detail
