#include "shoal/jit.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/function_ref.h"
#include "base/log.h"
#include "base/misuse.h"
#include "base/profiler.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/eager.h"
#include "frontend/array/key_mode.h"
#include "frontend/array/key_reuse.h"
#include "frontend/array/layer.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/analysis.h"
#include "frontend/transforms/cache_miss.h"
#include "frontend/transforms/jit_impl.h"
#include "ops/table.h"
#include "runtime/explain_memory.h"
#include "runtime/explain_times.h"
#include "runtime/program.h"
#include "sharding/default_place.h"
#include "shoal/mesh_context.h"
#include "spmd/explain.h"

namespace shoal::detail {
namespace {

struct Key {
  TreeDef tree;
  std::vector<LeafKey> leaves;
  std::vector<StaticValue> statics;
  AxisEnv axes;  // Inside shard_map: what is bound there,
  AxisNames unchecked;
  Mesh mesh;     // and its mesh.
  Mesh context;  // Of set_mesh, which the function may look up.
  DefaultPlace place = default_place();
  KeyMode mode = key_mode();  // Of keys of random numbers.
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
    for (const StaticValue& value : key.statics) boost::hash_combine(seed, value.hash());
    return seed;
  }
};

struct Entry {
  std::shared_ptr<const Traced> traced;
  std::shared_ptr<const Program> program;  // Outside any trace, for these shardings.
};

std::vector<LeafKey> keys_of(const std::vector<Array>& leaves) {
  std::vector<LeafKey> keys;
  for (const Array& leaf : leaves) keys.push_back({impl_of(leaf).type, committed_sharding(leaf)});
  return keys;
}

// Runs the function on tracers of these types.
Graph trace_leaves(const std::shared_ptr<Trace>& trace, const std::vector<LeafKey>& leaves,
                   const TracedFunction& function, TracedResult& result) {
  return trace_graph(trace, [&] {
    std::vector<Array> tracers;
    for (const LeafKey& leaf : leaves) tracers.push_back(trace->add_input(leaf.type));
    {
      const Caller::Pause pause;
      result = function(tracers);
    }
    check_values(result.leaves, result.tree, "result");
    return std::move(result.leaves);
  });
}

// Arrays without elements, of the types of a graph's outputs.
std::vector<Array> types_of_outputs(const Graph& graph, const std::vector<MaybeSharding>& shardings) {
  std::vector<Array> types;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    types.push_back(Access::make(graph.type(graph.outputs[i]), shardings[i]));
  }
  return types;
}

}  // namespace

MaybeSharding committed_sharding(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  if (impl.is_type_only()) return impl.abstract->would_lie;
  if (!impl.is_committed()) return std::nullopt;
  return impl.kind->sharding;
}

class JitCache;

namespace {

// All caches that there are.
struct Caches {
  std::mutex mutex;
  std::unordered_set<JitCache*> all;  // Guarded.
};
Caches& caches() {
  static auto* caches = new Caches;
  return *caches;
}

}  // namespace

class JitCache : public std::enable_shared_from_this<JitCache> {
 public:
  JitCache(JitOptions options, SourceLocation where) : options_(std::move(options)), where_(where) {
    const std::lock_guard lock(caches().mutex);
    caches().all.insert(this);
  }
  ~JitCache() {
    const std::lock_guard lock(caches().mutex);
    caches().all.erase(this);
  }
  JitCache(const JitCache&) = delete;
  JitCache& operator=(const JitCache&) = delete;

  const JitOptions& options() const { return options_; }
  SourceLocation where() const { return where_; }

  CallResults call(const FunctionCall& call, Exemplar& exemplar) {
    // What was compiled knows nothing of the axes that a mapping binds.
    if (Trace::current() != nullptr || Layer::binds_axis()) {
      return call_nested(call.flatten(), call.function(), exemplar);
    }
    const Launches::Use use(launches_);
    DeviceArrays values;
    if (const Launch* launch = launches_.find(call.key(), values)) {
      return run(*launch, call, std::move(values), exemplar);
    }
    const CallArguments arguments = call.flatten();
    if (of_layers(arguments.leaves)) return call_nested(arguments, call.function(), exemplar);
    return call_compiled(arguments, call.function(), &call.key(), exemplar);
  }

  CallResults call(const CallArguments& arguments, const TracedFunction& function, Exemplar& exemplar) {
    return Trace::current() != nullptr || Layer::binds_axis() || of_layers(arguments.leaves)
               ? call_nested(arguments, function, exemplar)
               : call_compiled(arguments, function, nullptr, exemplar);
  }

  // The arguments where in_shardings wants them, for a call outside any trace. Types alone are no arguments of a call.
  std::vector<Array> placed_arguments(const CallArguments& arguments, bool types_allowed) const {
    const std::vector<MaybeSharding> wanted = in_shardings(arguments.tree);
    std::vector<std::string> paths;
    std::vector<Array> leaves;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const Array& leaf = arguments.leaves[i];
      const ArrayImpl* impl = Access::get(leaf);
      if (!wanted[i] && impl != nullptr && impl->kind != nullptr && !impl->is_deleted()) {
        leaves.push_back(leaf);  // By far the most common case.
        continue;
      }
      if (paths.empty()) paths = arguments.tree.leaf_paths();
      const std::string what = fmt::format("argument {}", paths[i]);
      leaves.push_back(placed_argument(leaf, wanted[i], what, types_allowed));
    }
    return leaves;
  }

  // For each leaf, whether donate_argnums or donate_argnames has its argument.
  std::vector<bool> donated_leaves(const TreeDef& tree, std::size_t num_statics) const {
    const int count = static_cast<int>(tree.children.size() + num_statics);
    const auto is_argument = [&](const std::string& key) {
      return std::ranges::any_of(tree.children, [&](const auto& child) { return child.key == key; });
    };
    std::set<std::string> donated;
    for (const std::string& name : options_.donate_argnames) donated.insert(fmt::format("['{}']", name));
    for (int position : options_.donate_argnums) {
      const bool may_have_name = !options_.donate_argnames.empty();
      if (may_have_name && (position >= count || !is_argument(index_text(position)))) continue;
      if (position < -count || position >= count) {
        throw misuse<InvalidArgument>("donate_argnums has {}, but the function is called with {} arguments", position,
                                      count);
      }
      const std::string key = index_text(position < 0 ? position + count : position);
      if (!is_argument(key)) {
        throw misuse<InvalidArgument>("donate_argnums has {}, but argument {} is static: it has no memory to give away",
                                      position, key);
      }
      donated.insert(key);
    }
    std::vector<bool> leaves;
    for (const auto& [key, child] : tree.children)
      leaves.insert(leaves.end(), child.num_leaves(), donated.contains(key));
    return leaves;
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(entries_, [](const auto& entry) { return entry.second.program != nullptr; }));
  }

  void clear() {
    std::unordered_map<Key, Entry, HashKey> entries;  // Destroyed when the mutex is free.
    {
      const std::lock_guard lock(mutex_);
      entries.swap(entries_);
    }
    launches_.clear();
  }

  std::shared_ptr<const Traced> trace(const std::vector<LeafKey>& leaves, const TracedFunction& function) const {
    const profiler::ProfileScope event(profiler::Category::kCompile, "trace",
                                       {.program = options_.name, .where = Caller::line()});
    auto traced = std::make_shared<Traced>();
    const auto trace = Trace::begin(Trace::Kind::kJit, options_.name);
    TracedResult result;
    traced->graph = trace_leaves(trace, leaves, function, result);
    traced->result_tree = std::move(result.tree);
    traced->exemplar = std::make_shared<const std::any>(std::move(result.exemplar));
    traced->captures = trace->captures();
    traced->out_shardings = apply_result_prefix(options_.out_shardings, traced->result_tree, "out_shardings");
    for (const MaybeSharding& sharding : traced->out_shardings) check_constrained(sharding, "out_shardings");
    return traced;
  }

  std::shared_ptr<const Program> compile(const Traced& traced, const TreeDef& tree, std::size_t num_statics,
                                         const std::vector<LeafKey>& leaves, std::vector<Device> devices) const {
    const std::vector<std::string> paths = tree.leaf_paths();
    const std::vector<bool> donated = donated_leaves(tree, num_statics);
    std::vector<InputSpec> inputs;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      inputs.push_back({.sharding = leaves[i].sharding,
                        .label = fmt::format("argument {} {}", paths[i], to_string(leaves[i].type)),
                        .donated = donated[i]});
    }
    for (const Array& capture : traced.captures) {
      inputs.push_back({.sharding = committed_sharding(capture),
                        .label = fmt::format("captured array {}", to_string(impl_of(capture).type))});
    }
    const std::vector<std::string> result_paths = traced.result_tree.leaf_paths();
    std::vector<OutputSpec> outputs;
    for (std::size_t i = 0; i < traced.out_shardings.size(); ++i) {
      outputs.push_back({traced.out_shardings[i], fmt::format("{}: result{}", options_.name, result_paths[i])});
    }
    const SourceLocation where = Caller::line();
    if (options_.memory_budget.value_or(0) < 0) {
      throw misuse<InvalidArgument>("memory_budget is {} bytes, and must not be negative", *options_.memory_budget);
    }
    const Caller::Pause pause;
    auto program = std::make_shared<const Program>(traced.graph, std::move(inputs), std::move(outputs), where,
                                                   std::move(devices), options_.memory_budget);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!donated[i] || program->donations()[i]) continue;
      log_warning(
          fmt::format("{}: argument {} {} is donated, but no result has its type and placement, so that it is "
                      "kept",
                      options_.name, paths[i], to_string(leaves[i].type)));
    }
    return program;
  }

  // Launches the program on the values of the arguments; `given` are the arrays that the caller passed. Those that are
  // donated are deleted. `paths` says where they stand in the call.
  CallResults run(const Program& program, const Traced& traced, std::span<const Array* const> given,
                  DeviceArrays&& values, FunctionRef<std::vector<std::string>()> paths) const {
    if (program.donates()) {
      check_donated_once(program, traced, given, paths);
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (!program.donations()[i]) continue;
        static_cast<void>(take(*given[i], {fmt::format("donated to '{}'", options_.name)}));
      }
    }
    for (const Array& capture : traced.captures) {
      values.push_back(concrete(capture, "captured array"));
    }
    CallResults results;
    for (DeviceArray& array : program.call(std::move(values), Caller::line()))
      results.push_back(Access::make(std::move(array)));
    return results;
  }

  // The same for a call that was found.
  CallResults run(const Launch& launch, const FunctionCall& call, DeviceArrays&& values, Exemplar& exemplar) const {
    exemplar = launch.traced->exemplar;
    const auto paths = [&] { return call.flatten().tree.leaf_paths(); };
    return run(*launch.program, *launch.traced, call.key().leaves, std::move(values), paths);
  }

  // The same for arguments as placed_arguments gives them.
  CallResults run(const Program& program, const Traced& traced, const CallArguments& arguments,
                  std::vector<Array> leaves) const {
    DeviceArrays values;
    boost::container::small_vector<const Array*, 8> given;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      values.push_back(concrete(leaves[i]));
      given.push_back(&arguments.leaves[i]);
    }
    leaves.clear();  // Memory that is given away has no other owner than the values.
    const auto paths = [&] { return arguments.tree.leaf_paths(); };
    return run(program, traced, given, std::move(values), paths);
  }

 private:
  Array placed_argument(const Array& leaf, const MaybeSharding& wanted, const std::string& what,
                        bool types_allowed) const {
    const bool type_only = types_allowed && impl_of(leaf, what).is_type_only();
    // A tracer, a deleted array or a type that is not allowed.
    const std::optional<DeviceArray> array = type_only ? std::nullopt : std::optional(concrete(leaf, what));
    if (!wanted) return leaf;
    const Type& type = impl_of(leaf).type;
    const MaybeSharding given = committed_sharding(leaf);
    if (given && !given->is_equivalent_to(*wanted, type.rank())) {
      throw misuse<InvalidArgument>(
          "{} {} lies as {}, but in_shardings wants {}; move it with device_put, or leave in_shardings out", what,
          to_string(type), to_string(*given), to_string(*wanted));
    }
    wanted->check_compatible(type.shape, fmt::format("{}: {}", options_.name, what), Caller::line());
    if (given) return leaf;
    if (type_only) return Access::make(type, wanted);
    return Access::make(put(*array, *wanted, true, Caller::line()));
  }

  void check_constrained(const MaybeSharding& sharding, std::string_view option) const {
    if (!sharding || sharding->named() == nullptr) return;
    for (const PartitionEntry& entry : sharding->named()->spec()) {
      if (entry.is_unconstrained()) {
        throw misuse<InvalidArgument>("{} must say how every dimension lies, but {} leaves one unconstrained", option,
                                      to_string(sharding->named()->spec()));
      }
    }
  }

  std::vector<MaybeSharding> in_shardings(const TreeDef& tree) const {
    std::vector<MaybeSharding> wanted = apply_prefix(options_.in_shardings, tree, "in_shardings");
    for (const MaybeSharding& sharding : wanted) check_constrained(sharding, "in_shardings");
    return wanted;
  }

  // An array that is given away cannot be used for anything else in the same call.
  void check_donated_once(const Program& program, const Traced& traced, std::span<const Array* const> leaves,
                          FunctionRef<std::vector<std::string>()> paths) const {
    const auto same = [](const Array& a, const Array& b) { return Access::get(a) == Access::get(b); };
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!program.donations()[i]) continue;
      for (std::size_t k = 0; k < leaves.size(); ++k) {
        if (k == i || !same(*leaves[i], *leaves[k])) continue;
        throw misuse<InvalidArgument>("argument {} {} is donated, but is passed as argument {} too; pass a copy",
                                      paths()[i], to_string(impl_of(*leaves[i]).type), paths()[k]);
      }
      if (std::ranges::none_of(traced.captures, [&](const Array& capture) { return same(*leaves[i], capture); })) {
        continue;
      }
      throw misuse<InvalidArgument>("argument {} {} is donated, but the function captures it too; pass a copy",
                                    paths()[i], to_string(impl_of(*leaves[i]).type));
    }
  }

  static Key key_of(const CallArguments& arguments, const std::vector<Array>& leaves) {
    const Trace* trace = Trace::current();
    return {.tree = arguments.tree,
            .leaves = keys_of(leaves),
            .statics = arguments.statics,
            .axes = Layer::bound_axes(),
            .unchecked = trace == nullptr ? AxisNames() : trace->unchecked(),
            .mesh = trace == nullptr ? Mesh() : trace->mesh(),
            .context = get_mesh(),
            .place = default_place(),
            .mode = key_mode()};
  }

  static Key without_shardings(Key key) {
    for (LeafKey& leaf : key.leaves) leaf.sharding.reset();
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

  // Tells what makes this call another one than that which is most like it.
  void log_miss(const Key& key) {
    const auto kind_of = [](const Key& k) { return CallKind{k.tree, k.leaves, k.statics, k.context}; };
    std::optional<std::vector<std::string>> fewest;
    std::size_t programs = 0;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [other, entry] : entries_) {
        if (entry.program == nullptr) continue;
        ++programs;
        std::vector<std::string> found = differences(kind_of(key), kind_of(other));
        if (!fewest || found.size() < fewest->size()) fewest = std::move(found);
      }
    }
    log_info(LogTopic::kCompile, fewest ? fmt::format("{}: unlike the nearest of {} compiled before: {}", options_.name,
                                                      programs, fmt::join(*fewest, "; "))
                                        : fmt::format("{}: called for the first time", options_.name));
  }

  // `call` is the same as the caller gave it, if that is known.
  CallResults call_compiled(const CallArguments& arguments, const TracedFunction& function, const CallKey* call,
                            Exemplar& exemplar) {
    std::vector<Array> leaves = placed_arguments(arguments, false);
    const Key key = key_of(arguments, leaves);
    Entry entry = find(key);
    if (entry.program == nullptr) {
      if (log_enabled(LogTopic::kCompile)) log_miss(key);
      // The trace does not depend on where arrays lie.
      const Key types = without_shardings(key);
      if (entry.traced == nullptr) entry.traced = find(types).traced;
      if (entry.traced == nullptr) {
        entry.traced = trace(key.leaves, function);
        // What captures an array with a tangent is differentiated, and is good for this call alone.
        if (of_layers(entry.traced->captures)) return record(*entry.traced, std::move(leaves), exemplar);
        store(types, entry);
      }
      entry.program = compile(*entry.traced, arguments.tree, arguments.statics.size(), key.leaves, {});
      store(key, entry);
    }
    exemplar = entry.traced->exemplar;
    if (call != nullptr) launches_.add(*call, leaves, entry.traced, entry.program);
    if (!key.mode.checks_reuse) return run(*entry.program, *entry.traced, arguments, std::move(leaves));
    std::vector<Array> operands = arguments.leaves;
    operands.insert(operands.end(), entry.traced->captures.begin(), entry.traced->captures.end());
    KeyUses uses(entry.traced->graph, operands);
    CallResults results = run(*entry.program, *entry.traced, arguments, std::move(leaves));
    uses.done({results.data(), results.size()});
    return results;
  }

  // Inside a trace the function becomes an equation of it; shardings become constraints.
  CallResults call_nested(const CallArguments& arguments, const TracedFunction& function, Exemplar& exemplar) {
    check_values(arguments.leaves, arguments.tree, "argument ");
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    const std::vector<MaybeSharding> wanted = in_shardings(arguments.tree);
    std::vector<Array> leaves;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      leaves.push_back(constrained(arguments.leaves[i], wanted[i], "argument " + paths[i]));
    }
    // Not cached when it captures values of the enclosing trace, which the next one has not.
    const Key key = without_shardings(key_of(arguments, leaves));
    Entry entry = find(key);
    if (entry.traced == nullptr) {
      entry.traced = trace(key.leaves, function);
      if (entry.traced->captures.empty()) store(key, entry);
    }
    return record(*entry.traced, std::move(leaves), exemplar);
  }

  // The function as an equation.
  CallResults record(const Traced& traced, std::vector<Array> operands, Exemplar& exemplar) const {
    operands.insert(operands.end(), traced.captures.begin(), traced.captures.end());
    std::vector<Array> results =
        bind(op_named("jit"),
             {{"body", GraphAttr{std::make_shared<const Graph>(traced.graph)}}, {"name", options_.name}}, operands);
    const std::vector<std::string> result_paths = traced.result_tree.leaf_paths();
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = constrained(results[i], traced.out_shardings[i], "result" + result_paths[i]);
    }
    exemplar = traced.exemplar;
    return {results.begin(), results.end()};
  }

  Array constrained(const Array& array, const MaybeSharding& sharding, const std::string& what) const {
    if (!sharding) return array;
    sharding->check_compatible(impl_of(array).type.shape, fmt::format("{}: {}", options_.name, what), Caller::line());
    return device_put(array, *sharding);
  }

  JitOptions options_;
  SourceLocation where_;
  std::mutex mutex_;
  std::unordered_map<Key, Entry, HashKey> entries_;
  Launches launches_;
};

const JitOptions& options_of(const JitCache& cache) { return cache.options(); }

std::shared_ptr<JitCache> make_jit_cache(const JitOptions& options, SourceLocation where) {
  return std::make_shared<JitCache>(options, where);
}

CallResults call_cached(JitCache& cache, const FunctionCall& call, Exemplar& exemplar, MaybeLocation where) {
  const Caller caller(cache.options().name, where.value_or(cache.where()));
  return cache.call(call, exemplar);
}

std::vector<Array> call_cached(JitCache& cache, const CallArguments& arguments, const TracedFunction& function,
                               std::any& exemplar, MaybeLocation where) {
  const Caller caller(cache.options().name, where.value_or(cache.where()));
  Exemplar found;
  const CallResults results = cache.call(arguments, function, found);
  exemplar = *found;
  return {results.begin(), results.end()};
}

std::shared_ptr<LoweredImpl> lower_cached(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                                          const TracedFunction& function, MaybeLocation where) {
  const Caller caller(cache->options().name, where.value_or(cache->where()));
  std::vector<LeafKey> leaves = keys_of(cache->placed_arguments(arguments, true));
  auto traced = cache->trace(leaves, function);
  return std::make_shared<LoweredImpl>(
      LoweredImpl{cache, arguments.tree, arguments.statics.size(), std::move(leaves), std::move(traced)});
}

std::string lowered_text(const LoweredImpl& lowered) { return to_text(lowered.traced->graph); }

std::size_t program_count(JitCache& cache) { return cache.size(); }

void give_up_programs(JitCache& cache) { cache.clear(); }

const TreeDef& lowered_in_tree(const LoweredImpl& lowered) { return lowered.tree; }

std::vector<std::pair<Array, bool>> lowered_arguments(const LoweredImpl& lowered, SourceLocation where) {
  const Caller caller(lowered.cache->options().name, where);
  const std::vector<bool> donated = lowered.cache->donated_leaves(lowered.tree, lowered.num_statics);
  std::vector<std::pair<Array, bool>> arguments;
  for (std::size_t i = 0; i < lowered.leaves.size(); ++i) {
    arguments.emplace_back(Access::make(lowered.leaves[i].type, lowered.leaves[i].sharding), donated[i]);
  }
  return arguments;
}

std::vector<Array> lowered_out_info(const LoweredImpl& lowered, std::any& exemplar) {
  exemplar = *lowered.traced->exemplar;
  return types_of_outputs(lowered.traced->graph, lowered.traced->out_shardings);
}

std::shared_ptr<CompiledImpl> compile_lowered(const LoweredImpl& lowered, std::vector<Device> devices,
                                              SourceLocation where) {
  const Caller caller(lowered.cache->options().name, where);
  auto program =
      lowered.cache->compile(*lowered.traced, lowered.tree, lowered.num_statics, lowered.leaves, std::move(devices));
  return std::make_shared<CompiledImpl>(CompiledImpl{lowered, std::move(program)});
}

const LoweredImpl& lowered_of(const CompiledImpl& compiled) { return compiled.lowered; }

std::string compiled_text(const CompiledImpl& compiled, std::string_view stage) {
  return to_text(compiled.program->stage(stage));
}

std::string explain_compiled(const CompiledImpl& compiled, std::int64_t threshold) {
  return explain(compiled.program->stage("partitioned"), threshold) + explain_times(compiled.program->executable());
}

std::string explain_memory_of(const CompiledImpl& compiled) { return explain_memory(compiled.program->executable()); }

std::vector<Sharding> compiled_shardings(const CompiledImpl& compiled, bool of_inputs) {
  const std::vector<Sharding>& all =
      of_inputs ? compiled.program->input_shardings() : compiled.program->output_shardings();
  // Captured arrays are no arguments.
  const std::size_t count = of_inputs ? compiled.lowered.leaves.size() : all.size();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Array> compiled_out_info(const CompiledImpl& compiled, std::any& exemplar) {
  exemplar = *compiled.lowered.traced->exemplar;
  const std::vector<Sharding>& shardings = compiled.program->output_shardings();
  return types_of_outputs(compiled.lowered.traced->graph, {shardings.begin(), shardings.end()});
}

CostAnalysis compiled_cost(const CompiledImpl& compiled) { return cost_of(compiled.program->stage("partitioned")); }

MemoryAnalysis compiled_memory(const CompiledImpl& compiled) {
  const MemoryUse& use = compiled.program->memory_plan().use;
  return {.argument_size = static_cast<std::int64_t>(use.argument),
          .output_size = static_cast<std::int64_t>(use.output),
          .alias_size = static_cast<std::int64_t>(use.alias),
          .temp_size = static_cast<std::int64_t>(use.temp)};
}

CallResults call_compiled(const CompiledImpl& compiled, const FunctionCall& call, Exemplar& exemplar,
                          MaybeLocation where) {
  const LoweredImpl& lowered = compiled.lowered;
  const Caller caller(lowered.cache->options().name, where.value_or(lowered.cache->where()));
  DeviceArrays values;
  if (const Launch* launch = compiled.launches->find(call.key(), values)) {
    return lowered.cache->run(*launch, call, std::move(values), exemplar);
  }
  const CallArguments arguments = call.flatten();
  // Static arguments are not passed again, so that the others may stand at other positions.
  TreeDef tree = lowered.tree;
  for (std::size_t i = 0; i < std::min(tree.children.size(), arguments.tree.children.size()); ++i) {
    tree.children[i].key = arguments.tree.children[i].key;
  }
  if (tree != arguments.tree) {
    throw misuse<TypeMismatch>("compiled for arguments {}, but called with {}: {}", to_string(lowered.tree),
                               to_string(arguments.tree), fmt::join(tree_mismatches(tree, arguments.tree), "; "));
  }
  std::vector<Array> leaves = lowered.cache->placed_arguments(arguments, false);
  const std::vector<std::string> paths = arguments.tree.leaf_paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Type& want = lowered.leaves[i].type;
    const Type& have = impl_of(leaves[i]).type;
    if (want != have) {
      throw misuse<TypeMismatch>("argument {} was {} when this was compiled, but is {}", paths[i], to_string(want),
                                 to_string(have));
    }
    const MaybeSharding given = committed_sharding(leaves[i]);
    const Sharding& expected = compiled.program->input_shardings()[i];
    if (given && !given->is_equivalent_to(expected, have.rank())) {
      throw misuse<InvalidArgument>("argument {} was compiled for {}, but lies as {}", paths[i], to_string(expected),
                                    to_string(*given));
    }
  }
  exemplar = lowered.traced->exemplar;
  compiled.launches->add(call.key(), leaves, lowered.traced, compiled.program);
  return lowered.cache->run(*compiled.program, *lowered.traced, arguments, std::move(leaves));
}

namespace {

void clear_all_caches() {
  std::vector<std::shared_ptr<JitCache>> all;
  {
    const std::lock_guard lock(caches().mutex);
    for (JitCache* cache : caches().all) {
      // One whose last owner has just gone is about to leave the list.
      if (std::shared_ptr<JitCache> held = cache->weak_from_this().lock()) all.push_back(std::move(held));
    }
  }
  for (const std::shared_ptr<JitCache>& cache : all) cache->clear();
}

}  // namespace

std::vector<Array> eval_cached(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                               const TracedFunction& function, std::any& exemplar, MaybeLocation where) {
  const Caller caller("eval_shape", where.value_or(cache->where()));
  check_values(arguments.leaves, arguments.tree, "argument ");
  TracedResult result;
  const auto trace = Trace::begin(Trace::Kind::kJit, "eval_shape");
  const Graph graph = trace_leaves(trace, keys_of(arguments.leaves), function, result);
  exemplar = std::move(result.exemplar);
  return types_of_outputs(graph, std::vector<MaybeSharding>(graph.outputs.size()));
}

}  // namespace shoal::detail

namespace shoal {

void clear_caches() {
  detail::clear_all_caches();
  clear_eager_programs();
  clear_region_programs();
}

}  // namespace shoal
