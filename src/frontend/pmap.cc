#include "shoal/pmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/manual_region.h"
#include "frontend/pmap_mesh.h"
#include "frontend/prefix.h"
#include "frontend/trace.h"
#include "runtime/device_array.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using MaybeAxis = std::optional<std::int64_t>;
using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

// Thrown through the traced functions to the outermost pmap: its mesh needs `factor` times as many devices. No Error,
// so that no handler of theirs takes it for one.
struct MoreDevices {
  std::string axis;
  std::int64_t factor;
};

// The mesh on which this thread traces an outermost pmap.
thread_local const Mesh* outermost_mesh = nullptr;

class OutermostScope {
 public:
  explicit OutermostScope(const Mesh& mesh) : before_(std::exchange(outermost_mesh, &mesh)) {}
  ~OutermostScope() { outermost_mesh = before_; }
  OutermostScope(const OutermostScope&) = delete;
  OutermostScope& operator=(const OutermostScope&) = delete;

 private:
  const Mesh* before_;
};

const AxisEnv& bound_axes() {
  static const AxisEnv nothing;
  return Trace::current() == nullptr ? nothing : Trace::current()->graph().axes;
}

// What a call maps.
struct Mapping {
  std::string axis;
  std::int64_t size;
  std::vector<MaybeAxis> dims;  // Of each argument, not negative.
};

PartitionSpec spec_at(const MaybeAxis& dim, const std::string& axis) {
  if (!dim) return {};
  std::vector<PartitionEntry> entries(static_cast<std::size_t>(*dim) + 1);
  entries.back() = PartitionEntry(axis);
  return PartitionSpec(std::move(entries));
}

}  // namespace

void request_devices(const std::vector<Device>& devices) {
  if (outermost_mesh == nullptr) return;
  const std::vector<Device>& have = outermost_mesh->devices();
  const bool extends = devices.size() > have.size() && devices.size() % have.size() == 0 &&
                       std::equal(have.begin(), have.end(), devices.begin());
  if (extends) throw MoreDevices{"rest", static_cast<std::int64_t>(devices.size() / have.size())};
}

namespace {

// A kind of arguments.
struct Kind {
  TreeDef tree;
  std::vector<Type> types;
  std::vector<StaticValue> statics;
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

class Call {
 public:
  Call(PmapCache& cache, MaybeLocation where)
      : cache_(cache), options_(cache.options), where_(where.value_or(cache.where)) {}

  std::vector<Array> run(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    check_processes();
    const Mapping mapping = mapping_of(arguments);
    if (!bound_axes().empty()) {
      TracedResult result = record(mapping, inner_mesh(mapping), arguments.leaves, function);
      exemplar = std::move(result.exemplar);
      return std::move(result.leaves);
    }
    return on_mesh(mapping, arguments, [&](const Mesh& mesh) {
      if (Trace::current() == nullptr) {
        return call_cached(*cache_.jit, placed(mapping, mesh, arguments, false), recorder(mapping, mesh, function),
                           exemplar, where_);
      }
      TracedResult result = recorder(mapping, mesh, function)(arguments.leaves);
      exemplar = std::move(result.exemplar);
      return std::move(result.leaves);
    });
  }

  std::shared_ptr<LoweredImpl> lower(const CallArguments& arguments, const TracedFunction& function) {
    if (Trace::current() != nullptr) {
      throw InvalidState("pmap: lower() must be called outside jit, shard_map and pmap", where_);
    }
    check_processes();
    const Mapping mapping = mapping_of(arguments);
    return on_mesh(mapping, arguments, [&](const Mesh& mesh) {
      return lower_cached(cache_.jit, placed(mapping, mesh, arguments, true), recorder(mapping, mesh, function),
                          where_);
    });
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw InvalidArgument("pmap: " + text, where_); }

  // The first devices of a job are those of one process.
  void check_processes() const {
    if (process_count() == 1 || options_.devices) return;
    throw Unsupported(
        "pmap: over the devices of several processes it is not there yet; use shard_map over a mesh of all devices, or "
        "give local_devices() as devices",
        where_);
  }

  // A dimension counted from the front. `rank` dimensions may be named.
  std::int64_t canonical(std::int64_t dim, std::size_t rank, std::string_view option, const std::string& what,
                         const Array& array) const {
    const auto count = static_cast<std::int64_t>(rank);
    if (dim >= -count && dim < count) return dim < 0 ? dim + count : dim;
    const std::string allowed =
        rank == 0 ? "none, as it has no dimensions" : fmt::format("{} to {}", -count, count - 1);
    throw OutOfRange(fmt::format("pmap: {} is {} for {} {}; allowed is {}", option, dim, what, type_of(array), allowed),
                     where_);
  }

  Mapping mapping_of(const CallArguments& arguments) const {
    check_values(arguments.leaves, arguments.tree, "pmap: argument ", where_);
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    Mapping mapping{.axis = options_.axis_name,
                    .size = options_.axis_size.value_or(0),
                    .dims = apply_prefix(options_.in_axes, arguments.tree, "pmap: in_axes", where_)};
    std::string size_of = options_.axis_size ? fmt::format("axis_size is {}", mapping.size) : "";
    for (std::size_t i = 0; i < mapping.dims.size(); ++i) {
      if (!mapping.dims[i]) continue;
      const Array& leaf = arguments.leaves[i];
      const std::int64_t dim = canonical(*mapping.dims[i], leaf.ndim(), "in_axes", "argument " + paths[i], leaf);
      mapping.dims[i] = dim;
      const std::int64_t size = leaf.shape()[static_cast<std::size_t>(dim)];
      const std::string text =
          fmt::format("dimension {} of argument {} {} has extent {}", dim, paths[i], type_of(leaf), size);
      if (size_of.empty()) {
        mapping.size = size;
        size_of = text;
      } else if (size != mapping.size) {
        fail(fmt::format("all mapped dimensions must be of one size, but {}, and {}", size_of, text));
      }
    }
    if (size_of.empty()) fail("no argument is mapped; map one by in_axes, or give axis_size");
    if (mapping.size < 1) fail(fmt::format("there must be one slice or more, but {}", size_of));
    if (mapping.axis.empty()) mapping.axis = fmt::format("pmap_axis_{}", bound_axes().axes().size());
    return mapping;
  }

  // ---- The mesh.

  Mesh mesh_over(const NamedSizes& axes) const {
    const std::vector<Device> available = options_.devices.value_or(devices());
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
    if (count > static_cast<std::int64_t>(available.size())) {
      fail(fmt::format("a slice on each device takes {} devices ({}), but there are {}", count, fmt::join(texts, ", "),
                       available.size()));
    }
    return Mesh({available.begin(), available.begin() + count}, sizes, names, {}, where_);
  }

  // Runs an outermost call on the smallest mesh that holds everything inside it.
  template <class Run>
  std::invoke_result_t<Run&, const Mesh&> on_mesh(const Mapping& mapping, const CallArguments& arguments, Run&& run) {
    NamedSizes axes = remembered(arguments).value_or(NamedSizes{{mapping.axis, mapping.size}});
    for (;;) {
      const Mesh mesh = mesh_over(axes);
      try {
        const OutermostScope scope(mesh);
        auto result = run(mesh);
        if (axes.size() > 1) remember(arguments, axes);
        return result;
      } catch (const MoreDevices& more) {
        const bool named =
            std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return axis.first == more.axis; });
        axes.emplace_back(named ? fmt::format("{}_{}", more.axis, axes.size()) : more.axis, more.factor);
      }
    }
  }

  // What earlier calls with such arguments have found. Without nested pmaps there is nothing to find.
  std::optional<NamedSizes> remembered(const CallArguments& arguments) {
    const std::lock_guard lock(cache_.mutex);
    for (const auto& [kind, axes] : cache_.found) {
      if (kind == kind_of(arguments)) return axes;
    }
    return std::nullopt;
  }

  void remember(const CallArguments& arguments, const NamedSizes& axes) {
    const std::lock_guard lock(cache_.mutex);
    for (const auto& [kind, known] : cache_.found) {
      if (kind == kind_of(arguments)) return;
    }
    cache_.found.emplace_back(kind_of(arguments), axes);
  }

  static Kind kind_of(const CallArguments& arguments) {
    Kind kind{arguments.tree, {}, arguments.statics};
    for (const Array& leaf : arguments.leaves) kind.types.push_back(impl_of(leaf).type);
    return kind;
  }

  // The mesh of a pmap inside another or inside shard_map: that of the enclosing one, where this axis takes the place
  // of axes that are not bound. What it leaves of them is an axis of its own.
  Mesh inner_mesh(const Mapping& mapping) const {
    const Mesh& outer = Trace::current()->mesh();
    const AxisEnv& bound = bound_axes();
    if (options_.devices) fail("devices can only be given to an outermost pmap; leave it out of this one");
    if (bound.size_of(mapping.axis)) {
      fail(fmt::format("axis_name '{}' is bound here already; choose another", mapping.axis));
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
      if (outermost_mesh != nullptr) throw MoreDevices{mapping.axis, std::lcm(room, mapping.size) / room};
      fail(
          fmt::format("'{}' has size {}, but {} has no axes of that many devices that the enclosing shard_map leaves "
                      "to the compiler",
                      mapping.axis, mapping.size, to_string(outer)));
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
    return Mesh(outer.devices(), sizes, names, {}, where_);
  }

  // ---- The function.

  // Arguments that are committed elsewhere are moved, so that results lie on this mesh and no other.
  CallArguments placed(const Mapping& mapping, const Mesh& mesh, const CallArguments& arguments,
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
      const DeviceArray array = concrete(leaf, "pmap", where_);
      const NamedSharding* named = array.sharding().named();
      const bool here = !array.committed() || (named != nullptr && named->mesh() == mesh);
      const NamedSharding wanted(mesh, spec_at(mapping.dims[i], mapping.axis), {.memory_kind = array.type().memory});
      result.leaves.push_back(here ? leaf : device_put(Operand(leaf, where_), wanted));
    }
    return result;
  }

  TracedFunction recorder(const Mapping& mapping, const Mesh& mesh, const TracedFunction& function) const {
    return [&, this](const std::vector<Array>& leaves) {
      TracedResult result = record(mapping, mesh, leaves, function);
      if (options_.devices && mesh.size() != static_cast<std::int64_t>(options_.devices->size())) {
        fail(fmt::format("devices names {} devices, but a slice on each takes {}", options_.devices->size(),
                         mesh.size()));
      }
      return result;
    };
  }

  TracedResult record(const Mapping& mapping, const Mesh& mesh, const std::vector<Array>& arguments,
                      const TracedFunction& function) const {
    Region region{
        .name = "pmap", .mesh = mesh, .manual = {mapping.axis}, .in_specs = {}, .local_types = {}, .where = where_};
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
        slices.push_back(dim ? squeeze({shards[i], where_}, Axes({*dim})) : shards[i]);
      }
      TracedResult result = function(slices);
      RegionResult stacked = stack(mapping, result);
      traced.tree = std::move(result.tree);
      traced.exemplar = std::move(result.exemplar);
      return stacked;
    });
    return traced;
  }

  // The results with a dimension for the slices.
  RegionResult stack(const Mapping& mapping, const TracedResult& result) const {
    check_values(result.leaves, result.tree, "pmap: result", where_);
    const std::vector<MaybeAxis> wanted = apply_result_prefix(options_.out_axes, result.tree, "pmap: out_axes", where_);
    const std::vector<std::string> paths = result.tree.leaf_paths();
    RegionResult stacked;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Array& leaf = result.leaves[i];
      const std::string what = paths[i].empty() ? "the result" : "result " + paths[i];
      if (!wanted[i]) {
        const ArrayImpl& impl = impl_of(leaf);
        const AxisNames& varying = impl.type.varying;
        if (impl.trace() == Trace::current() && std::binary_search(varying.begin(), varying.end(), mapping.axis)) {
          fail(
              fmt::format("out_axes none for {} says that it is the same on all devices, but its value {} varies over "
                          "'{}'. Give out_axes a dimension, or make the value equal with psum, pbroadcast or "
                          "all_gather_invariant",
                          what, type_of(leaf), mapping.axis));
        }
        stacked.leaves.push_back(leaf);
        stacked.specs.emplace_back();
        continue;
      }
      const std::int64_t dim = canonical(*wanted[i], leaf.ndim() + 1, "out_axes", what, leaf);
      stacked.leaves.push_back(expand_dims({leaf, where_}, dim));
      stacked.specs.push_back(spec_at(dim, mapping.axis));
    }
    return stacked;
  }

  PmapCache& cache_;
  const PmapOptions& options_;
  SourceLocation where_;
};

}  // namespace

std::shared_ptr<PmapCache> make_pmap_cache(const PmapOptions& options, SourceLocation where) {
  if (options.devices && options.devices->empty()) {
    throw InvalidArgument("pmap: devices is empty; name one device or more, or leave devices out", where);
  }
  auto cache = std::make_shared<PmapCache>();
  cache->options = options;
  cache->where = where;
  cache->jit = make_jit_cache({.name = "pmap"}, where);
  return cache;
}

CallResults call_cached(PmapCache& cache, const FunctionCall& call, Exemplar& exemplar, MaybeLocation where) {
  std::any result;
  std::vector<Array> leaves = Call(cache, where).run(call.flatten(), call.function(), result);
  exemplar = std::make_shared<const std::any>(std::move(result));
  return {std::make_move_iterator(leaves.begin()), std::make_move_iterator(leaves.end())};
}

std::shared_ptr<LoweredImpl> lower_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                                          const TracedFunction& function, MaybeLocation where) {
  return Call(*cache, where).lower(arguments, function);
}

std::vector<Array> eval_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                               const TracedFunction& function, std::any& exemplar, MaybeLocation where) {
  return lowered_out_info(*lower_cached(cache, arguments, function, where), exemplar);
}

}  // namespace shoal::detail
