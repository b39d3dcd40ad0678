#include "shoal/pmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/misuse.h"
#include "base/sort_unique.h"
#include "comm/record/communicator.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/layer.h"
#include "frontend/array/local_part.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/jit_impl.h"
#include "frontend/transforms/manual_region.h"
#include "frontend/transforms/mapped_axes.h"
#include "frontend/transforms/pmap_mesh.h"
#include "runtime/device_array.h"
#include "shoal/custom_derivatives.h"
#include "shoal/derivatives.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

// Thrown through the traced functions to the outermost pmap: its mesh needs `factor` times as many devices. No Error,
// so that no handler of theirs takes it for one.
struct MoreDevices {
  std::string axis;
  std::int64_t factor;
};

// The devices of an outermost pmap.
struct Places {
  std::vector<Device> devices;
  std::int64_t slices;  // Of all processes.
  // If there are devices of several processes, how many of them in a row belong to each slice, so that a slice is of
  // one process. Else 0: slices take the first devices, as many as they need.
  std::int64_t per_slice = 0;

  bool span_processes() const { return per_slice > 0; }
  // For the slices, `factor` devices each. There are so many.
  std::vector<Device> take(std::int64_t factor) const {
    const std::int64_t stride = span_processes() ? per_slice : factor;
    std::vector<Device> taken;
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      const auto first = devices.begin() + slice * stride;
      taken.insert(taken.end(), first, first + factor);
    }
    return taken;
  }
};

// The outermost pmap that this thread traces.
struct Outermost {
  const Places& places;
  const Mesh& mesh;
};
thread_local const Outermost* outermost = nullptr;

class OutermostScope {
 public:
  OutermostScope(const Places& places, const Mesh& mesh)
      : mine_{places, mesh}, before_(std::exchange(outermost, &mine_)) {}
  ~OutermostScope() { outermost = before_; }
  OutermostScope(const OutermostScope&) = delete;
  OutermostScope& operator=(const OutermostScope&) = delete;

 private:
  const Outermost mine_;
  const Outermost* before_;
};

// The axes that enclosing maps over devices bind.
AxisEnv bound_axes() { return Trace::current() == nullptr ? AxisEnv() : Trace::current()->manual_axes(); }

// What a call maps.
struct Mapped {
  std::string axis;
  std::int64_t size;            // Slices of this process.
  std::vector<MaybeAxis> dims;  // Of each argument, not negative.
};

// An outermost call.
struct Plan {
  Mapped mapping;
  Places places;
};

PartitionSpec spec_at(const MaybeAxis& dim, const std::string& axis) {
  if (!dim) return {};
  std::vector<PartitionEntry> entries(static_cast<std::size_t>(*dim) + 1);
  entries.back() = PartitionEntry(axis);
  return PartitionSpec(std::move(entries));
}

}  // namespace

void request_devices(const std::vector<Device>& devices) {
  if (outermost == nullptr) return;
  const std::size_t have = outermost->mesh.devices().size();
  const Places& places = outermost->places;
  if (devices.size() <= have || devices.size() % have != 0 || devices.size() > places.devices.size()) return;
  if (places.take(static_cast<std::int64_t>(devices.size()) / places.slices) != devices) return;
  throw MoreDevices{"rest", static_cast<std::int64_t>(devices.size() / have)};
}

namespace {

// A kind of arguments.
struct Kind {
  TreeDef tree;
  std::vector<Type> types;
  std::vector<StaticValue> statics;
  std::int64_t slices;  // Of all processes; inside jit there is but this one.
  friend bool operator==(const Kind&, const Kind&) = default;
};

}  // namespace

/// What the calls of a mapped function share.
struct PmapCache {
  PmapOptions options;
  SourceLocation where;
  std::shared_ptr<JitCache> jit;
  std::mutex mutex;
  std::vector<std::pair<Kind, NamedSizes>> found;  // Guarded: the meshes of calls with pmaps inside.
};

namespace {

class PmapCall {
 public:
  PmapCall(PmapCache& cache, MaybeLocation where)
      : caller_("pmap", where.value_or(cache.where)), cache_(cache), options_(cache.options) {}

  std::vector<Array> run(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    if (!bound_axes().empty()) {
      const Mapped mapping = mapping_of(arguments, options_.axis_size, "axis_size is");
      TracedResult result = record(mapping, inner_mesh(mapping), arguments.leaves, function);
      exemplar = std::move(result.exemplar);
      return std::move(result.leaves);
    }
    const Plan plan = plan_of(arguments);
    const bool spans = plan.places.span_processes();
    if (spans && of_layers(arguments.leaves)) return differentiated(plan, arguments, function, exemplar);
    if (!spans && (Trace::current() != nullptr || Layer::is_running())) {
      return on_mesh(plan, arguments, [&](const Mesh& mesh) {
        TracedResult result = recorder(plan, mesh, function)(arguments.leaves);
        exemplar = std::move(result.exemplar);
        return std::move(result.leaves);
      });
    }
    const std::vector<Digest> lineages = spans ? lineages_of(plan, arguments) : std::vector<Digest>();
    return on_mesh(plan, arguments, [&](const Mesh& mesh) {
      const CallArguments here =
          spans ? joined(plan, mesh, arguments, lineages) : placed(plan.mapping, mesh, arguments, false);
      std::vector<Array> results =
          call_cached(*cache_.jit, here, recorder(plan, mesh, function), exemplar, Caller::line());
      if (!spans) return results;
      for (Array& result : results) result = local_part(result);
      delete_donated(arguments.leaves, here.leaves);
      return results;
    });
  }

  std::shared_ptr<LoweredImpl> lower(const CallArguments& arguments, const TracedFunction& function) {
    if (Trace::current() != nullptr) {
      throw misuse<InvalidState>("lower() must be called outside jit, shard_map and pmap");
    }
    const Plan plan = plan_of(arguments);
    return on_mesh(plan, arguments, [&](const Mesh& mesh) {
      const CallArguments types = plan.places.span_processes() ? joined_types(plan, mesh, arguments)
                                                               : placed(plan.mapping, mesh, arguments, true);
      return lower_cached(cache_.jit, types, recorder(plan, mesh, function), Caller::line());
    });
  }

  // The types of the results, which are those of this process.
  std::vector<Array> eval(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    const std::shared_ptr<LoweredImpl> lowered = lower(arguments, function);
    std::vector<Array> types = lowered_out_info(*lowered, exemplar);
    const Plan plan = plan_of(arguments);
    if (!plan.places.span_processes()) return types;
    const std::vector<MaybeAxis> wanted =
        apply_result_prefix(options_.out_axes, lowered->traced->result_tree, "out_axes");
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!wanted[i]) continue;
      Type type = impl_of(types[i]).type;
      const std::int64_t dim = *wanted[i] < 0 ? *wanted[i] + static_cast<std::int64_t>(type.rank()) : *wanted[i];
      type.shape[static_cast<std::size_t>(dim)] = plan.mapping.size;
      types[i] = Access::make(std::move(type), std::nullopt);
    }
    return types;
  }

 private:
  // `given` is the number of slices, and `given_by` what it is by, if it does not follow from the arguments.
  Mapped mapping_of(const CallArguments& arguments, std::optional<std::int64_t> given,
                    std::string_view given_by) const {
    MappedArguments mapped = mapped_arguments(options_.in_axes, arguments, given, given_by, 1);
    Mapped mapping{.axis = options_.axis_name, .size = mapped.size, .dims = std::move(mapped.dims)};
    if (mapping.axis.empty()) mapping.axis = fmt::format("pmap_axis_{}", bound_axes().axes().size());
    return mapping;
  }

  // ---- The devices.

  // Within a trace arrays are whole, and without `devices` they are those of this process. Outside, each process passes
  // the slices of its own devices.
  Plan plan_of(const CallArguments& arguments) const {
    const bool is_traced = Trace::current() != nullptr;
    std::vector<Device> all = options_.devices.value_or(is_traced ? local_devices() : devices());
    const auto count = static_cast<std::int64_t>(all.size());
    const std::int64_t here = std::ranges::count(all, process_index(), &Device::process_index);
    if (is_traced || here == count) {
      const Mapped mapping = mapping_of(arguments, options_.axis_size, "axis_size is");
      return {mapping, {std::move(all), mapping.size}};
    }
    if (here == 0) {
      throw misuse<InvalidArgument>(
          "devices are those of other processes; only processes that have some of them call it");
    }
    std::optional<std::int64_t> given;
    if (options_.axis_size) {
      const std::int64_t size = *options_.axis_size;
      if (size < 1 || count % size != 0 || here % (count / size) != 0) {
        throw misuse<InvalidArgument>(
            "axis_size is {}, but there are {} devices, {} of them of this process, and each slice must have as many "
            "of one process",
            size, count, here);
      }
      given = here / (count / size);
    }
    const Mapped mapping = mapping_of(arguments, given, "the part of axis_size for this process is");
    check_local(mapping, arguments);
    if (here % mapping.size != 0) fail_count(here, mapping.size, mapping.size);
    const std::int64_t per_slice = here / mapping.size;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = i - i % per_slice;
      const bool whole = first + per_slice <= count;
      if (whole && all[static_cast<std::size_t>(i)].process_index == all[static_cast<std::size_t>(first)].process_index)
        continue;
      throw misuse<InvalidArgument>(
          "{} slices for the {} devices of this process make {} for each, but in that order not every {} devices are "
          "of one process",
          mapping.size, here, per_slice, per_slice);
    }
    return {mapping, {std::move(all), count / per_slice, per_slice}};
  }

  [[noreturn]] void fail_count(std::int64_t here, std::int64_t slices, std::int64_t taken) const {
    throw misuse<InvalidArgument>(
        "each process passes slices for all of its devices, unless devices names fewer: this one has {}, but passes {} "
        "slice{}, which take {}",
        here, slices, slices == 1 ? "" : "s", taken);
  }

  // Slices are those of this process.
  void check_local(const Mapped& mapping, const CallArguments& arguments) const {
    for (std::size_t i = 0; i < mapping.dims.size(); ++i) {
      const ArrayImpl& impl = impl_of(arguments.leaves[i]);
      if (!mapping.dims[i] || impl.kind == nullptr || impl.kind->layout.grid->is_local()) continue;
      throw misuse<InvalidArgument>(
          "argument {} {} lies on devices of several processes, but each process passes the slices of its own devices; "
          "take its part with multihost::global_array_to_host_local_array, or use shard_map",
          arguments.tree.leaf_paths()[i], type_of(arguments.leaves[i]));
    }
  }

  // ---- The mesh.

  Mesh mesh_over(const Places& places, const NamedSizes& axes) const {
    std::vector<std::string> names;
    std::vector<std::string> texts;
    Shape sizes;
    std::int64_t count = 1;
    for (const auto& [name, size] : axes) {
      names.push_back(name);
      sizes.push_back(size);
      texts.push_back(fmt::format("'{}': {}", name, size));
      count *= size;
    }
    if (count > static_cast<std::int64_t>(places.devices.size())) {
      throw misuse<InvalidArgument>("a slice on each device takes {} devices ({}), but there are {}", count,
                                    fmt::join(texts, ", "), places.devices.size());
    }
    return Mesh(places.take(count / places.slices), sizes, names, {}, Caller::line());
  }

  // Runs an outermost call on the smallest mesh that holds everything inside it.
  template <class Run>
  std::invoke_result_t<Run&, const Mesh&> on_mesh(const Plan& plan, const CallArguments& arguments, Run&& run) {
    NamedSizes axes =
        remembered(kind_of(plan, arguments)).value_or(NamedSizes{{plan.mapping.axis, plan.places.slices}});
    for (;;) {
      const Mesh mesh = mesh_over(plan.places, axes);
      try {
        const OutermostScope scope(plan.places, mesh);
        auto result = run(mesh);
        if (axes.size() > 1) remember(kind_of(plan, arguments), axes);
        return result;
      } catch (const MoreDevices& more) {
        const bool named =
            std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return axis.first == more.axis; });
        axes.emplace_back(named ? fmt::format("{}_{}", more.axis, axes.size()) : more.axis, more.factor);
      }
    }
  }

  // What earlier calls with such arguments have found. Without nested pmaps there is nothing to find.
  std::optional<NamedSizes> remembered(const Kind& kind) {
    const std::lock_guard lock(cache_.mutex);
    for (const auto& [known, axes] : cache_.found) {
      if (known == kind) return axes;
    }
    return std::nullopt;
  }

  void remember(const Kind& kind, const NamedSizes& axes) {
    const std::lock_guard lock(cache_.mutex);
    for (const auto& [known, found] : cache_.found) {
      if (known == kind) return;
    }
    cache_.found.emplace_back(kind, axes);
  }

  static Kind kind_of(const Plan& plan, const CallArguments& arguments) {
    Kind kind{arguments.tree, {}, arguments.statics, plan.places.slices};
    for (const Array& leaf : arguments.leaves) kind.types.push_back(impl_of(leaf).type);
    return kind;
  }

  // The mesh of a pmap inside another or inside shard_map: that of the enclosing one, where this axis takes the place
  // of axes that are not bound. What it leaves of them is an axis of its own.
  Mesh inner_mesh(const Mapped& mapping) const {
    const Mesh& outer = Trace::current()->mesh();
    const AxisEnv bound = bound_axes();
    if (options_.devices) {
      throw misuse<InvalidArgument>("devices can only be given to an outermost pmap; leave it out of this one");
    }
    if (bound.size_of(mapping.axis)) {
      throw misuse<InvalidArgument>("axis_name '{}' is bound here already; choose another", mapping.axis);
    }
    const NamedSizes axes = outer.shape();
    const auto is_free = [&](std::size_t i) { return !bound.size_of(axes[i].first); };
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int64_t room = 1;
    for (begin = 0; begin <= axes.size(); begin = end + 1) {
      room = 1;
      for (end = begin; end < axes.size() && is_free(end); ++end) room *= axes[end].second;
      if (room % mapping.size == 0) break;
    }
    if (begin > axes.size()) {
      if (outermost != nullptr) throw MoreDevices{mapping.axis, std::lcm(room, mapping.size) / room};
      throw misuse<InvalidArgument>(
          "'{}' has size {}, but {} has no axes of that many devices that the enclosing shard_map leaves to the "
          "compiler",
          mapping.axis, mapping.size, to_string(outer));
    }
    if (begin < end && axes[begin] == std::pair(mapping.axis, mapping.size)) return outer;
    NamedSizes mine(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(begin));
    mine.emplace_back(mapping.axis, mapping.size);
    if (room > mapping.size) mine.emplace_back(mapping.axis + "_rest", room / mapping.size);
    mine.insert(mine.end(), axes.begin() + static_cast<std::ptrdiff_t>(end), axes.end());
    Shape sizes;
    std::vector<std::string> names;
    for (const auto& [name, size] : mine) {
      names.push_back(name);
      sizes.push_back(size);
    }
    return Mesh(outer.devices(), sizes, names, {}, Caller::line());
  }

  // ---- The function.

  // Arguments that are committed elsewhere are moved, so that results lie on this mesh and no other.
  CallArguments placed(const Mapped& mapping, const Mesh& mesh, const CallArguments& arguments,
                       bool types_allowed) const {
    CallArguments result{{}, arguments.tree, arguments.statics};
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const Array& leaf = arguments.leaves[i];
      const ArrayImpl& impl = impl_of(leaf);
      if (types_allowed && impl.is_type_only()) {
        result.leaves.push_back(Access::make(
            impl.type, NamedSharding(mesh, spec_at(mapping.dims[i], mapping.axis), {.memory_kind = impl.type.memory})));
        continue;
      }
      const DeviceArray array = concrete(leaf);
      const NamedSharding* named = array.sharding().named();
      // An argument that is moved here is kept, and its copy given away; jit would give away the argument.
      const bool moves_later = !array.committed() && options_.donate_argnums.empty();
      const bool here = moves_later || (named != nullptr && named->mesh() == mesh);
      const NamedSharding wanted(mesh, spec_at(mapping.dims[i], mapping.axis), {.memory_kind = array.type().memory});
      result.leaves.push_back(here ? leaf : device_put(leaf, wanted));
    }
    return result;
  }

  // Deletes the arguments of which the joined ones were donated.
  void delete_donated(const std::vector<Array>& arguments, const std::vector<Array>& joined) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!joined[i].is_deleted() || arguments[i].is_deleted()) continue;
      static_cast<void>(take(arguments[i], {"donated to 'pmap'", Caller::line()}));
    }
  }

  // The arguments of all processes as arrays that span them, of which this one has its slices.
  CallArguments joined(const Plan& plan, const Mesh& mesh, const CallArguments& arguments,
                       const std::vector<Digest>& lineages) const {
    CallArguments result = joined_types(plan, mesh, arguments);
    for (std::size_t i = 0; i < result.leaves.size(); ++i) {
      const DeviceArray mine = concrete(arguments.leaves[i]);
      const ArrayImpl& whole = impl_of(result.leaves[i]);
      const Sharding& sharding = *whole.abstract->would_lie;
      result.leaves[i] = mine.grid()->is_local() ? joined_part(mine, whole.type.shape, *sharding.named(), lineages[i])
                                                 : device_put(arguments.leaves[i], sharding);
    }
    return result;
  }

  // A call over several processes whose arguments are differentiated by: the arrays that span them are, and this
  // process has its slices of the results and of the cotangents.
  std::vector<Array> differentiated(const Plan& plan, const CallArguments& arguments, const TracedFunction& function,
                                    std::any& exemplar) {
    if (std::dynamic_pointer_cast<Tape>(Layer::of(arguments.leaves)) == nullptr) {
      throw misuse<Unsupported>("a pmap over several processes cannot be batched from outside; call vmap inside of it");
    }
    const ForwardRule rule = [&](const std::vector<Array>& leaves, const std::vector<bool>& changes) {
      const CallArguments own{leaves, arguments.tree, arguments.statics};
      const std::vector<Digest> lineages = lineages_of(plan, own);
      return on_mesh(plan, own, [&](const Mesh& mesh) {
        auto [made, map] =
            call_linearize("pmap", joined(plan, mesh, own, lineages), recorder(plan, mesh, function), Caller::line());
        TracedResult result{.leaves = {}, .tree = std::move(made.result_tree), .exemplar = std::move(made.exemplar)};
        for (const Array& whole : made.results) result.leaves.push_back(local_part(whole));
        PullbackRule pull_back = [changes, linear = std::move(map), wholes = std::move(made.results),
                                  places = plan.places, where = Caller::line()](const std::vector<Array>& cotangents) {
          std::vector<Array> given;
          for (std::size_t i = 0; i < wholes.size(); ++i) {
            given.push_back(Access::is_empty(cotangents[i]) ? zeros_like(wholes[i])
                                                            : joined_cotangent(cotangents[i], wholes[i], places));
          }
          std::vector<Array> all = linear.pull_back(given, where);
          for (std::size_t i = 0; i < all.size(); ++i) all[i] = changes[i] ? local_part(all[i]) : Array();
          return all;
        };
        return std::pair(std::move(result), std::move(pull_back));
      });
    };
    return call_custom_vjp(arguments, function, rule, exemplar, Caller::line());
  }

  // The cotangent of a result that spans processes, of which this one gives its part.
  static Array joined_cotangent(const Array& part, const Array& whole, const Places& places) {
    const DeviceArray like = concrete(whole);
    const DeviceArray mine = concrete(part);
    const bool is_same_everywhere = like.sharding().is_fully_replicated();
    return joined_part(mine, like.type().shape, *like.sharding().named(),
                       lineage_of(mine, !is_same_everywhere, communicator_of(places)));
  }

  // Their types, and where they lie.
  CallArguments joined_types(const Plan& plan, const Mesh& mesh, const CallArguments& arguments) const {
    CallArguments result{{}, arguments.tree, arguments.statics};
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const MaybeAxis& dim = plan.mapping.dims[i];
      Type type = impl_of(arguments.leaves[i]).type;
      if (dim) type.shape[static_cast<std::size_t>(*dim)] = plan.places.slices;
      const NamedSharding sharding(mesh, spec_at(dim, plan.mapping.axis), {.memory_kind = type.memory});
      result.leaves.push_back(Access::make(std::move(type), sharding));
    }
    return result;
  }

  // Where the arguments come from, for the checks between processes. Slices and committed arrays are taken as they are;
  // other arrays that all processes are to pass alike are told by their elements. Numbers are given before the function
  // is traced, which some processes may have done before.
  std::vector<Digest> lineages_of(const Plan& plan, const CallArguments& arguments) const {
    Communicator& communicator = communicator_of(plan.places);
    std::vector<Digest> lineages;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const DeviceArray array = concrete(arguments.leaves[i]);
      lineages.push_back(lineage_of(array, plan.mapping.dims[i] || array.committed(), communicator));
    }
    return lineages;
  }

  static Communicator& communicator_of(const Places& places) {
    std::vector<int> processes;
    for (const Device& device : places.devices) processes.push_back(device.process_index);
    sort_unique(processes);
    return Communicator::of(processes);
  }

  static Digest lineage_of(const DeviceArray& array, bool is_own, Communicator& communicator) {
    if (is_own) return communicator.new_origin("pmap");
    const Buffer elements = to_host(array, "pmap", Caller::line());
    return digest_of(elements.data(), elements.size_bytes(), {communicator.id(), 1});
  }

  TracedFunction recorder(const Plan& plan, const Mesh& mesh, const TracedFunction& function) const {
    return [&, this, where = Caller::line()](const std::vector<Array>& leaves) {
      const Caller caller("pmap", where);  // A jitted function of its own calls this.
      TracedResult result = record(plan.mapping, mesh, leaves, function);
      const auto available = static_cast<std::int64_t>(plan.places.devices.size());
      if (mesh.size() == available) return result;
      if (plan.places.span_processes()) {
        const std::int64_t factor = mesh.size() / plan.places.slices;
        fail_count(plan.mapping.size * plan.places.per_slice, plan.mapping.size, plan.mapping.size * factor);
      }
      if (options_.devices) {
        throw misuse<InvalidArgument>("devices names {} devices, but a slice on each takes {}", available, mesh.size());
      }
      return result;
    };
  }

  TracedResult record(const Mapped& mapping, const Mesh& mesh, const std::vector<Array>& arguments,
                      const TracedFunction& function) const {
    Region region{
        .name = "pmap", .mesh = mesh, .manual = {mapping.axis}, .in_specs = {}, .local_types = {}, .checked = false};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const MaybeAxis& dim = mapping.dims[i];
      Type local = impl_of(arguments[i]).type;
      local.explicit_axes = {};
      if (dim) {
        local.shape[static_cast<std::size_t>(*dim)] = 1;
        local.varying = union_of(local.varying, {mapping.axis});
      }
      region.local_types.push_back(std::move(local));
      region.in_specs.push_back(spec_at(dim, mapping.axis));
    }
    TracedResult traced;
    traced.leaves = record_region(std::move(region), arguments, [&](const std::vector<Array>& shards) {
      std::vector<Array> slices;
      for (std::size_t i = 0; i < shards.size(); ++i) {
        const MaybeAxis& dim = mapping.dims[i];
        slices.push_back(dim ? squeeze(shards[i], Axes({*dim})) : shards[i]);
      }
      TracedResult result = [&] {
        const Caller::Pause pause;
        return function(slices);
      }();
      RegionResult stacked = stack(mapping, result);
      traced.tree = std::move(result.tree);
      traced.exemplar = std::move(result.exemplar);
      return stacked;
    });
    return traced;
  }

  // The results with a dimension for the slices.
  RegionResult stack(const Mapped& mapping, const TracedResult& result) const {
    check_values(result.leaves, result.tree, "result");
    const std::vector<MaybeAxis> wanted = apply_result_prefix(options_.out_axes, result.tree, "out_axes");
    const std::vector<std::string> paths = result.tree.leaf_paths();
    RegionResult stacked;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Array& leaf = result.leaves[i];
      const std::string what = paths[i].empty() ? "the result" : "result " + paths[i];
      if (!wanted[i]) {
        const ArrayImpl& impl = impl_of(leaf);
        const AxisNames& varying = impl.type.varying;
        if (impl.trace() == Trace::current() && std::binary_search(varying.begin(), varying.end(), mapping.axis)) {
          throw misuse<InvalidArgument>(
              "out_axes none for {} says that it is the same on all devices, but its value {} varies over '{}'. Give "
              "out_axes a dimension, or make the value equal with psum, pbroadcast or all_gather_invariant",
              what, type_of(leaf), mapping.axis);
        }
        stacked.leaves.push_back(leaf);
        stacked.specs.emplace_back();
        continue;
      }
      const std::int64_t dim = mapped_dim(*wanted[i], leaf.ndim() + 1, "out_axes", what, leaf);
      stacked.leaves.push_back(expand_dims(leaf, dim));
      stacked.specs.push_back(spec_at(dim, mapping.axis));
    }
    return stacked;
  }

  const Caller caller_;
  PmapCache& cache_;
  const PmapOptions& options_;
};

}  // namespace

std::shared_ptr<PmapCache> make_pmap_cache(const PmapOptions& options, SourceLocation where) {
  const Caller caller("pmap", where);
  if (options.devices && options.devices->empty()) {
    throw misuse<InvalidArgument>("devices is empty; name one device or more, or leave devices out");
  }
  auto cache = std::make_shared<PmapCache>();
  cache->options = options;
  cache->where = where;
  cache->jit = make_jit_cache({.donate_argnums = options.donate_argnums, .name = "pmap"}, where);
  return cache;
}

CallResults call_cached(PmapCache& cache, const FunctionCall& call, Exemplar& exemplar, MaybeLocation where) {
  std::any result;
  std::vector<Array> leaves = PmapCall(cache, where).run(call.flatten(), call.function(), result);
  exemplar = std::make_shared<const std::any>(std::move(result));
  return {std::make_move_iterator(leaves.begin()), std::make_move_iterator(leaves.end())};
}

std::shared_ptr<LoweredImpl> lower_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                                          const TracedFunction& function, MaybeLocation where) {
  return PmapCall(*cache, where).lower(arguments, function);
}

std::vector<Array> eval_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                               const TracedFunction& function, std::any& exemplar, MaybeLocation where) {
  return PmapCall(*cache, where).eval(arguments, function, exemplar);
}

std::size_t program_count(PmapCache& cache) { return program_count(*cache.jit); }

void give_up_programs(PmapCache& cache) {
  give_up_programs(*cache.jit);
  const std::lock_guard lock(cache.mutex);
  cache.found.clear();
}

}  // namespace shoal::detail
