#include "shoal/shard_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "comm/record/communicator.h"
#include "core/device_list.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/layer.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/manual_region.h"
#include "frontend/transforms/pmap_mesh.h"
#include "ir/explicit_axes.h"
#include "runtime/program.h"
#include "sharding/placement.h"
#include "shoal/mesh_context.h"

namespace shoal::detail {
namespace {

// The axes that a spec names, sorted.
AxisNames axes_in(const PartitionSpec& spec) {
  AxisNames names;
  for (const PartitionEntry& entry : spec) names.insert(names.end(), entry.axes().begin(), entry.axes().end());
  std::sort(names.begin(), names.end());
  return names;
}

// What a call of shard_map knows: the mesh, and where it stands in the user's program.
class ShardMapCall {
 public:
  ShardMapCall(const ShardMapOptions& options, const CallArguments& arguments)
      : mesh_(concrete_mesh(options.mesh, arguments)), options_(options) {
    if (mesh_.empty()) {
      throw misuse<InvalidArgument>("the mesh is empty; pass one made by make_mesh, or call set_mesh");
    }
    choose_manual_axes();
  }

  std::vector<Array> run(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    check_values(arguments.leaves, arguments.tree, "argument ");
    in_paths_ = arguments.tree.leaf_paths();
    if (options_.infer_in_specs) {
      for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
        in_specs_.push_back(inferred_spec(arguments.leaves[i], "argument " + in_paths_[i]));
      }
    } else {
      in_specs_ = apply_prefix(options_.in_specs, arguments.tree, "in_specs");
    }
    for (std::size_t i = 0; i < in_specs_.size(); ++i) {
      local_types_.push_back(local_type(impl_of(arguments.leaves[i]).type, in_specs_[i], "argument " + in_paths_[i]));
    }
    if (Trace::current() != nullptr || Layer::is_running()) return record(arguments.leaves, function, exemplar);
    const bool all_manual = manual_.size() == mesh_.axis_names().size();
    return all_manual ? run_eagerly(arguments, function, exemplar) : run_compiled(arguments, function, exemplar);
  }

 private:
  // The mesh that is meant: that of set_mesh if none is given; for one without devices one with the same axes, that of
  // set_mesh or of an argument.
  static Mesh concrete_mesh(const Mesh& given, const CallArguments& arguments) {
    if (given.empty()) return get_mesh();
    if (!given.is_abstract()) return given;
    const auto fits = [&](const Mesh& mesh) { return !mesh.is_abstract() && mesh.shape() == given.shape(); };
    if (const Mesh mesh = get_mesh(); fits(mesh)) return with_axis_types(mesh, given.axis_types());
    for (const Array& leaf : arguments.leaves) {
      const Type& type = impl_of(leaf).type;
      if (type.explicit_axes && fits(type.explicit_axes->mesh)) return type.explicit_axes->mesh;
      if (leaf.is_tracer() || impl_of(leaf).is_type_only()) continue;
      const Sharding sharding = leaf.sharding();
      if (sharding.named() != nullptr && fits(sharding.named()->mesh())) return sharding.named()->mesh();
    }
    return given;
  }

  // What the function gives, where this mesh is the one that bare specs mean.
  TracedResult result_of(const TracedFunction& function, const std::vector<Array>& tracers) const {
    const use_abstract_mesh inside(mesh_);
    const Caller::Pause pause;
    return function(tracers);
  }

  // Which axes become manual: those of axis_names, or all that are not manual already.
  void choose_manual_axes() {
    const Trace* trace = Trace::current();
    const AxisEnv bound = trace == nullptr ? AxisEnv() : trace->manual_axes();
    if (!bound.empty() && trace->mesh().devices() != mesh_.devices()) {
      request_devices(mesh_.devices());
      throw misuse<InvalidArgument>(
          "called inside a shard_map over {}, it must use the same devices in the same order; got {}",
          to_string(trace->mesh()), to_string(mesh_));
    }
    for (const std::string& axis : options_.axis_names) {
      if (!mesh_.find_axis(axis)) {
        throw misuse<InvalidArgument>("axis_names has '{}', which {} has not", axis, to_string(mesh_));
      }
      if (bound.size_of(axis)) throw misuse<InvalidArgument>("axis_names has '{}', which is manual already here", axis);
    }
    for (const std::string& axis : mesh_.axis_names()) {
      const bool wanted =
          options_.axis_names.empty()
              ? !bound.size_of(axis).has_value()
              : std::find(options_.axis_names.begin(), options_.axis_names.end(), axis) != options_.axis_names.end();
      if (wanted) manual_.push_back(axis);
    }
    if (manual_.empty() && !mesh_.axis_names().empty()) {
      throw misuse<InvalidArgument>("all axes of {} are manual already here", to_string(mesh_));
    }
    sorted_manual_ = manual_;
    std::sort(sorted_manual_.begin(), sorted_manual_.end());
    if (!bound.empty()) check_free(trace->mesh(), bound);
  }

  // Another mesh of the same devices may have other names for what is manual already.
  void check_free(const Mesh& outer, const AxisEnv& bound) const {
    const Grid grid(outer);
    if (!grid.covers(mesh_)) return;  // No program can use both.
    for (const std::string& axis : manual_) {
      const AtomSet own = grid.dims_of(mesh_, PartitionSpec({PartitionEntry(axis)}), 1)[0];
      for (const auto& [name, size] : bound.axes()) {
        if ((own & grid.atoms_of(name)).empty()) continue;
        throw misuse<InvalidArgument>("axis '{}' of {} goes along '{}' of {}, which is manual already here", axis,
                                      to_string(mesh_), name, to_string(outer));
      }
    }
  }

  // What is known of how an argument is split over the manual axes.
  PartitionSpec inferred_spec(const Array& argument, const std::string& what) const {
    const Type& type = impl_of(argument).type;
    const auto is_manual = [&](const std::string& axis) {
      return std::binary_search(sorted_manual_.begin(), sorted_manual_.end(), axis);
    };
    std::vector<PartitionEntry> entries;
    const auto add = [&](std::vector<std::string> axes) {
      std::erase_if(axes, [&](const std::string& axis) { return !is_manual(axis); });
      entries.emplace_back(std::move(axes));
    };
    if (type.explicit_axes) {
      for (const std::vector<std::string>& axes : type.explicit_axes->dims) add(axes);
      return PartitionSpec(std::move(entries), manual_of(type.explicit_axes->unreduced),
                           manual_of(type.explicit_axes->reduced));
    }
    for (std::size_t a = 0; a < mesh_.axis_names().size(); ++a) {
      if (!argument.is_tracer() || !is_manual(mesh_.axis_names()[a])) continue;
      if (mesh_.axis_types()[a] == AxisType::kExplicit) continue;
      throw misuse<TypeMismatch>(
          "in_specs was left out, but axis '{}' is not Explicit, so that the type of {} {} does not say how it is "
          "split over it; pass in_specs",
          mesh_.axis_names()[a], what, user_string(type));
    }
    if (argument.is_tracer()) return {};
    const Sharding sharding = argument.sharding();
    if (sharding.named() == nullptr || sharding.named()->mesh().devices() != mesh_.devices()) return {};
    for (const PartitionEntry& entry : sharding.named()->spec()) add(entry.axes());
    return PartitionSpec(std::move(entries));
  }

  // Those of sorted names that are manual axes of this call.
  AxisNames manual_of(const AxisNames& names) const {
    return difference_of(names, difference_of(names, sorted_manual_));
  }

  void check_spec(const PartitionSpec& spec, const Type& type, const std::string& what, std::string_view option) const {
    for (const PartitionEntry& entry : spec) {
      if (entry.is_unconstrained()) {
        throw misuse<InvalidArgument>("{} {} for {} leaves a dimension unconstrained; name its axes, or none", option,
                                      to_string(spec), what);
      }
    }
    const AxisNames axes = axes_in(spec);
    if (!spec.unreduced().empty()) check_summed(spec, "unreduced", what, option);
    if (!spec.reduced().empty()) check_summed(spec, "reduced", what, option);
    for (const std::string& axis : axes) {
      if (std::find(manual_.begin(), manual_.end(), axis) != manual_.end()) continue;
      if (mesh_.find_axis(axis)) {
        throw misuse<InvalidArgument>(
            "{} {} for {} names axis '{}', which is not manual in this call; its manual axes are ({})", option,
            to_string(spec), what, axis, fmt::join(manual_, ", "));
      }
      throw misuse<InvalidArgument>("{} {} for {} names axis '{}', which {} has not", option, to_string(spec), what,
                                    axis, to_string(mesh_));
    }
    if (const auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end()) {
      throw misuse<DuplicateSpecError>("{} {} for {} names axis '{}' twice; an axis can split one dimension", option,
                                       to_string(spec), what, *twice);
    }
    if (spec.size() > type.rank()) {
      throw misuse<InvalidArgument>("{} {} for {} has {} entries, but {} has only {} dimensions", option,
                                    to_string(spec), what, spec.size(), user_string(type), type.rank());
    }
    static_cast<void>(NamedSharding(mesh_, spec, {}, Caller::line()));  // For what a sharding has to be.
  }

  // Summands go in and out where every device computes alone; the mesh says which axes may have some.
  void check_summed(const PartitionSpec& spec, std::string_view summed, const std::string& what,
                    std::string_view option) const {
    if (manual_.size() != mesh_.axis_names().size()) {
      throw misuse<InvalidArgument>(
          "{} {} for {} is {}, which is possible only where all axes of the mesh become manual", option,
          to_string(spec), what, summed);
    }
  }

  // The type of one shard of an argument.
  Type local_type(const Type& type, const PartitionSpec& spec, const std::string& what) const {
    check_spec(spec, type, what, "in_specs");
    const auto check_same = [&](const AxisNames& is, const AxisNames& should_be, std::string_view said) {
      if (is == should_be) return;
      throw misuse<InvalidArgument>("in_specs {} for {} must be {} over the axes that {} is, ({}); reshard it first",
                                    to_string(spec), what, said, user_string(type), fmt::join(should_be, ", "));
    };
    const auto& axes = type.explicit_axes;
    check_same(spec.unreduced(), axes ? manual_of(axes->unreduced) : AxisNames(), "unreduced");
    check_same(spec.reduced(), axes ? manual_of(axes->reduced) : AxisNames(), "reduced");
    Type local = type;
    for (std::size_t d = 0; d < spec.size(); ++d) {
      std::int64_t pieces = 1;
      for (const std::string& axis : spec[d].axes()) pieces *= mesh_.axis_size(axis);
      if (type.shape[d] % pieces != 0) {
        throw misuse<IndivisibleError>(
            "{} {} is split by in_specs {}: dimension {} has extent {}, which the {} devices along ({}) do not divide "
            "evenly",
            what, user_string(type), to_string(spec), d, type.shape[d], pieces, fmt::join(spec[d].axes(), ", "));
      }
      local.shape[d] /= pieces;
    }
    local.varying = union_of(type.varying, union_of(axes_in(spec), spec.unreduced()));
    if (options_.check_vma) {
      local.summands = union_of(type.summands, spec.unreduced());
      local.reduced = union_of(type.reduced, spec.reduced());
    }
    // Inside, the manual axes are no longer part of types.
    const auto is_manual = [&](const std::string& axis) {
      return std::binary_search(sorted_manual_.begin(), sorted_manual_.end(), axis);
    };
    if (local.explicit_axes) local.explicit_axes = without_manual(*local.explicit_axes, is_manual);
    return local;
  }

  // The specs of the results, checked against what the function returned.
  std::vector<PartitionSpec> out_specs(const TracedResult& result) const {
    check_values(result.leaves, result.tree, "result");
    const std::vector<PartitionSpec> specs = apply_result_prefix(options_.out_specs, result.tree, "out_specs");
    const std::vector<std::string> paths = result.tree.leaf_paths();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Type& type = impl_of(result.leaves[i]).type;
      const std::string what = paths[i].empty() ? "the result" : "result " + paths[i];
      check_spec(specs[i], type, what, "out_specs");
      const bool own = impl_of(result.leaves[i]).trace() == Trace::current();
      const AxisNames kept = difference_of(type.varying, difference_of(type.varying, sorted_manual_));
      const AxisNames named = union_of(axes_in(specs[i]), specs[i].unreduced());
      const AxisNames loose = own ? difference_of(kept, named) : AxisNames{};
      const AxisNames copies = difference_of(specs[i].unreduced(), type.varying);
      if (!copies.empty() && options_.check_vma) {
        throw misuse<InvalidArgument>(
            "out_specs {} for {} says that it is a sum over axis '{}', along which its value {} does not vary: it "
            "would be added to itself. Make it vary with lax::pvary if you want that",
            to_string(specs[i]), what, copies.front(), user_string(type));
      }
      if (options_.check_vma) check_summed_alike(specs[i], type, own, what);
      if (loose.empty() || !options_.check_vma) continue;
      throw misuse<InvalidArgument>(
          "out_specs {} for {} says that it is the same on all devices along axis '{}', but its value {} varies over "
          "'{}'. Name the axis in out_specs, make the value equal with psum or another collective, or pass check_vma = "
          "false if you know that it is",
          to_string(specs[i]), what, loose.front(), user_string(type), loose.front());
    }
    return specs;
  }

  // What the spec of a result says of sums is what its type says.
  void check_summed_alike(const PartitionSpec& spec, const Type& type, bool is_own, const std::string& what) const {
    const auto check = [&](const AxisNames& said, const AxisNames& is, std::string_view word) {
      const AxisNames own = is_own ? manual_of(is) : AxisNames();
      if (said == own) return;
      throw misuse<InvalidArgument>(
          "out_specs {} for {} says that it is {} over ({}), but its value {} is so over ({}); say the same in "
          "out_specs, or make it so with {}",
          to_string(spec), what, word, fmt::join(said, ", "), user_string(type), fmt::join(own, ", "),
          own.empty() ? "pcast" : "psum, psum_scatter or pcast");
    };
    check(spec.unreduced(), type.summands, "unreduced");
    check(spec.reduced(), type.reduced, "reduced");
  }

  Type global_type(const Type& local, const PartitionSpec& spec) const {
    Type type = local;
    for (std::size_t d = 0; d < spec.size(); ++d) {
      for (const std::string& axis : spec[d].axes()) {
        if (!__builtin_mul_overflow(type.shape[d], mesh_.axis_size(axis), &type.shape[d])) continue;
        throw misuse<InvalidArgument>("out_specs {} would join results {} to an extent of more than 2^63 - 1",
                                      to_string(spec), user_string(local));
      }
    }
    type.varying = type.summands = type.reduced = {};
    return type;
  }

  // Outside any trace the function runs at once, on the shards.
  std::vector<Array> run_eagerly(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    if (mesh_.is_abstract()) {
      throw misuse<InvalidArgument>(
          "{} has no devices, and neither set_mesh nor an argument names any for these axes; pass a mesh made by "
          "make_mesh",
          to_string(mesh_));
    }
    check_devices(mesh_.devices(), "shard_map", Caller::line());
    std::vector<DeviceArray> placed;
    for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
      const DeviceArray array = concrete(arguments.leaves[i], "argument " + in_paths_[i]);
      if (array.committed() && array.sharding().device_list() != mesh_.devices()) {
        throw misuse<InvalidArgument>("argument {} {} is committed to {}, but the mesh has {}; move it with device_put",
                                      in_paths_[i], to_string(array.type()),
                                      describe_devices(array.sharding().device_list()),
                                      describe_devices(mesh_.devices()));
      }
      placed.push_back(
          put(array, NamedSharding(mesh_, in_specs_[i], {.memory_kind = array.type().memory}), true, Caller::line()));
    }
    const auto trace = Trace::begin(Trace::Kind::kEager, "shard_map", mesh_, manual_, options_.check_vma);
    std::vector<PartitionSpec> specs;
    const Graph graph = trace_graph(trace, [&] {
      std::vector<Array> tracers;
      for (std::size_t i = 0; i < placed.size(); ++i) {
        tracers.push_back(trace->add_input(local_types_[i], on_grid(*trace, placed[i].wait())));
      }
      TracedResult result = result_of(function, tracers);
      specs = out_specs(result);
      exemplar = std::move(result.exemplar);
      return result.leaves;
    });
    std::vector<Array> results;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const Type type = global_type(graph.type(graph.outputs[i]), specs[i]);
      const NamedSharding sharding(mesh_, specs[i], {.memory_kind = type.memory});
      const KindPtr kind = kind_of(type, sharding, true);
      const AtomSet varying = kind->layout.placement.varying();
      const ShardSet& data = trace->data(graph.outputs[i]);
      ShardSet shards = data.narrowed_to(data.varying & varying).widened_to(varying);
      Digest lineage{};
      if (const Grid& grid = *kind->layout.grid; !grid.is_local()) {
        lineage = Communicator::of(grid.processes()).new_origin("shard_map");
      }
      results.push_back(Access::make(ready_array(kind, std::move(shards), lineage)));
    }
    return results;
  }

  static ShardSet on_grid(const Trace& trace, ShardSet shards) {
    shards.grid = trace.grid();
    return shards;
  }

  // With axes left to the compiler there is a program to compile, even outside jit.
  std::vector<Array> run_compiled(const CallArguments& arguments, const TracedFunction& function, std::any& exemplar) {
    const auto trace = Trace::begin(Trace::Kind::kJit, "shard_map");
    Graph graph = trace_graph(trace, [&] {
      std::vector<Array> tracers;
      for (const Array& leaf : arguments.leaves) tracers.push_back(trace->add_input(impl_of(leaf).type));
      return record(tracers, function, exemplar);
    });
    std::vector<Array> operands = arguments.leaves;
    operands.insert(operands.end(), trace->captures().begin(), trace->captures().end());
    std::vector<InputSpec> inputs;
    DeviceArrays values;
    for (const Array& operand : operands) {
      const DeviceArray array = concrete(operand);
      inputs.push_back(
          {array.committed() ? std::optional(array.sharding()) : std::nullopt, "argument " + to_string(array.type())});
      values.push_back(array);
    }
    std::vector<OutputSpec> outputs(graph.outputs.size());
    const auto program =
        std::make_shared<const Program>(std::move(graph), std::move(inputs), std::move(outputs), Caller::line());
    std::vector<Array> results;
    for (DeviceArray& array : program->call(std::move(values), Caller::line()))
      results.push_back(Access::make(std::move(array)));
    return results;
  }

  // Inside jit it becomes an equation.
  std::vector<Array> record(const std::vector<Array>& arguments, const TracedFunction& function, std::any& exemplar) {
    return record_region({.name = "shard_map",
                          .mesh = mesh_,
                          .manual = manual_,
                          .in_specs = in_specs_,
                          .local_types = local_types_,
                          .checked = options_.check_vma},
                         arguments, [&](const std::vector<Array>& tracers) {
                           TracedResult result = result_of(function, tracers);
                           std::vector<PartitionSpec> specs = out_specs(result);
                           exemplar = std::move(result.exemplar);
                           return RegionResult{std::move(result.leaves), std::move(specs)};
                         });
  }

  const Mesh mesh_;
  const ShardMapOptions& options_;
  std::vector<std::string> manual_;  // In the order of the mesh.
  AxisNames sorted_manual_;
  std::vector<std::string> in_paths_;
  std::vector<PartitionSpec> in_specs_;
  std::vector<Type> local_types_;
};

}  // namespace

std::vector<Array> call_shard_map(const ShardMapOptions& options, const CallArguments& arguments,
                                  const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const Caller caller("shard_map", where);
  return ShardMapCall(options, arguments).run(arguments, function, exemplar);
}

}  // namespace shoal::detail
