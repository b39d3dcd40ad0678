#include "ir/explicit_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/caller.h"
#include "ir/summed_axes.h"

namespace shoal {
namespace {

using AxisList = std::vector<std::string>;

std::string list_text(const AxisList& axes) { return fmt::format("({})", fmt::join(axes, ", ")); }

class Inference {
 public:
  Inference(const InferContext& context, std::vector<Type>& results)
      : context_(context),
        results_(results),
        rule_(
            context.op.rule({.op = context.op, .inputs = context.inputs, .outputs = results, .attrs = context.attrs})),
        axes_(rule_.factors.size()),
        uses_(rule_.factors.size(), 0) {}

  void run() {
    for (std::size_t i = 0; i < context_.inputs.size(); ++i) take_operand(i);
    for (std::size_t f = 0; f < axes_.size(); ++f) check_factor(f);
    for (std::size_t i = 0; i < results_.size(); ++i) give_result(i);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw ShardingTypeError(fmt::format("{}: {}", Caller::function_or(context_.op.name), text), context_.where);
  }

  std::string operands_text() const {
    std::vector<std::string> texts;
    for (const Type& type : context_.inputs) texts.push_back(to_string(type));
    return fmt::format("{}", fmt::join(texts, " and "));
  }

  std::int64_t size_of(const AxisList& axes) const {
    std::int64_t size = 1;
    for (const std::string& axis : axes) size *= mesh_.axis_size(axis);
    return size;
  }

  void take_operand(std::size_t i) {
    const Type& type = context_.inputs[i];
    if (!type.explicit_axes) return;
    if (mesh_.empty()) {
      mesh_ = type.explicit_axes->mesh;
    } else if (type.explicit_axes->mesh != mesh_) {
      fail(fmt::format("operands are split over different meshes, {} and {}; move one with reshard", to_string(mesh_),
                       to_string(type.explicit_axes->mesh)));
    }
    for (std::size_t d = 0; d < type.rank(); ++d) {
      if (!type.explicit_axes->dims[d].empty()) give_factors(rule_.operands[i][d], type.explicit_axes->dims[d], i, d);
    }
  }

  // A dimension of several factors gives its axes to the most major one, and goes on to the next only when that one is
  // divided completely.
  void give_factors(const DimFactors& dim, const AxisList& axes, std::size_t operand, std::size_t d) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < dim.size() && next < axes.size(); ++k) {
      const auto f = static_cast<std::size_t>(dim[k]);
      AxisList part;
      std::int64_t pieces = 1;
      while (next < axes.size()) {
        const std::int64_t more = pieces * mesh_.axis_size(axes[next]);
        if (dim.size() > 1 && rule_.factors[f].size % more != 0) break;
        pieces = more;
        part.push_back(axes[next++]);
      }
      if (!part.empty()) agree(f, part);
      if (pieces != rule_.factors[f].size) break;
    }
    if (next < axes.size()) {
      fail(
          fmt::format("dimension {} of operand {} is split over {} in a way that the result cannot be; use reshard "
                      "first, or auto_axes",
                      d, to_string(context_.inputs[operand]), list_text(axes)));
    }
  }

  void agree(std::size_t f, const AxisList& axes) {
    ++uses_[f];
    if (axes_[f].empty()) axes_[f] = axes;
    if (axes_[f] == axes) return;
    fail(fmt::format("operands {} are split differently where they must agree, over {} and {}; move one with reshard",
                     operands_text(), list_text(axes_[f]), list_text(axes)));
  }

  void check_factor(std::size_t f) const {
    if (axes_[f].empty()) return;
    const FactorKind kind = rule_.factors[f].kind;
    if (sums_over(kind) && is_in_a_result(f)) return;  // Which is split by it, so that only others are sums.
    // Those at positions: gather and its kin.
    const bool moves_items = context_.op.sees_start && context_.op.attributes.find("array_batch") != nullptr;
    if (kind == FactorKind::kNeedReplication) {
      fail(fmt::format("needs a dimension whole that {} splits in {}; use reshard first, or {}", list_text(axes_[f]),
                       operands_text(), moves_items ? "out_sharding" : "auto_axes"));
    }
    if (sums_over(kind) && moves_items) {
      fail(fmt::format(
          "{} splits {} in {}, so that devices would have to exchange items; use reshard first, or say "
          "how the result is split with out_sharding",
          list_text(axes_[f]), context_.op.name == "gather" ? "a dimension that the positions address" : "the items",
          operands_text()));
    }
    if (sums_over(kind) && uses_[f] > 1) {
      fail(
          fmt::format("{} are both split over {} where they are summed, so the result could be split in several ways; "
                      "say which with out_sharding",
                      operands_text(), list_text(axes_[f])));
    }
  }

  bool is_in_a_result(std::size_t f) const {
    const auto has_it = [f](const DimFactors& dim) { return std::ranges::find(dim, static_cast<int>(f)) != dim.end(); };
    return std::ranges::any_of(rule_.results,
                               [&](const TensorFactors& tensor) { return std::ranges::any_of(tensor, has_it); });
  }

  void give_result(std::size_t i) {
    Type& type = results_[i];
    ExplicitAxes result{.mesh = mesh_, .dims = std::vector<AxisList>(type.rank())};
    std::set<std::string> used;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      for (int factor : rule_.results[i][d]) {
        const AxisList& axes = axes_[static_cast<std::size_t>(factor)];
        result.dims[d].insert(result.dims[d].end(), axes.begin(), axes.end());
      }
      for (const std::string& axis : result.dims[d]) {
        if (used.insert(axis).second) continue;
        fail(fmt::format("axis '{}' would split two dimensions of the result of {}; use reshard first", axis,
                         operands_text()));
      }
      if (type.shape[d] % size_of(result.dims[d]) != 0) {
        fail(
            fmt::format("dimension {} of the result has extent {}, which the axes {} that split it in {} do not divide "
                        "evenly; use reshard first",
                        d, type.shape[d], list_text(result.dims[d]), operands_text()));
      }
    }
    type.explicit_axes = std::move(result);
  }

  const InferContext& context_;
  std::vector<Type>& results_;
  const ShardingRule rule_;
  Mesh mesh_;
  std::vector<AxisList> axes_;  // Per factor.
  std::vector<int> uses_;       // Operand dimensions that split the factor.
};

// A product may stay unreduced over the axes that split what it sums over, in both operands alike.
void check_summands(const InferContext& context, const NamedSharding& sharding) {
  const AxisList& unreduced = sharding.spec().unreduced();
  if (unreduced.empty()) return;
  AxisList split[2];
  constexpr const char* kContracted[] = {"lhs_contract", "rhs_contract"};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!context.inputs[i].explicit_axes) continue;
    for (std::int64_t d : context.attrs.get<Dims>(kContracted[i])) {
      const AxisList& axes = context.inputs[i].explicit_axes->dims[static_cast<std::size_t>(d)];
      split[i].insert(split[i].end(), axes.begin(), axes.end());
    }
    std::sort(split[i].begin(), split[i].end());
  }
  if (split[0] == unreduced && split[1] == unreduced) return;
  throw ShardingTypeError(
      fmt::format("{}: out_sharding {} must be unreduced over the axes that split the summed dimensions of {} and {}, "
                  "which are {} and {}; these must be the same",
                  Caller::function_or(context.op.name), to_string(sharding.spec()), to_string(context.inputs[0]),
                  to_string(context.inputs[1]), list_text(split[0]), list_text(split[1])),
      context.where);
}

}  // namespace

std::optional<ExplicitAxes> explicit_axes_of(const NamedSharding& sharding, std::size_t rank) {
  const Mesh& mesh = sharding.mesh();
  const std::vector<AxisType>& types = mesh.axis_types();
  // Asked for each array that is made: most meshes have no such axis.
  if (std::find(types.begin(), types.end(), AxisType::kExplicit) == types.end()) return std::nullopt;
  const auto is_explicit = [&](const std::string& axis) { return types[*mesh.find_axis(axis)] == AxisType::kExplicit; };
  ExplicitAxes axes{.mesh = mesh, .dims = std::vector<AxisList>(rank)};
  for (std::size_t d = 0; d < sharding.spec().size(); ++d) {
    const AxisList& names = sharding.spec()[d].axes();
    std::copy_if(names.begin(), names.end(), std::back_inserter(axes.dims[d]), is_explicit);
  }
  axes.unreduced = sharding.spec().unreduced();
  axes.reduced = sharding.spec().reduced();
  return axes;
}

Mesh with_axis_types(const Mesh& mesh, std::vector<AxisType> types) {
  const Mesh changed = mesh.is_abstract()
                           ? Mesh(AbstractMesh(mesh.axis_sizes(), mesh.axis_names(), std::move(types)))
                           : Mesh(mesh.devices(), mesh.axis_sizes(), mesh.axis_names(), std::move(types));
  return changed.with_speeds(mesh.speeds());
}

Mesh with_auto_axes(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    const bool named = std::find(axes.begin(), axes.end(), mesh.axis_names()[a]) != axes.end();
    if (named && types[a] == AxisType::kExplicit) types[a] = AxisType::kAuto;
  }
  return with_axis_types(mesh, std::move(types));
}

std::optional<ExplicitAxes> without_manual(ExplicitAxes axes, FunctionRef<bool(const std::string&)> is_manual) {
  std::vector<AxisType> types = axes.mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    if (is_manual(axes.mesh.axis_names()[a])) types[a] = AxisType::kManual;
  }
  if (std::find(types.begin(), types.end(), AxisType::kExplicit) == types.end()) return std::nullopt;
  for (AxisList& dim : axes.dims) std::erase_if(dim, is_manual);
  std::erase_if(axes.unreduced, is_manual);
  std::erase_if(axes.reduced, is_manual);
  axes.mesh = with_axis_types(axes.mesh, std::move(types));
  return axes;
}

bool is_unsplit(const Type& type) {
  const Shared<ExplicitAxes>& axes = type.explicit_axes;
  return !axes ||
         (axes->unreduced.empty() && axes->reduced.empty() && std::ranges::all_of(axes->dims, &AxisList::empty));
}

bool equal_if_unsplit(const Type& a, const Type& b) {
  if (a.explicit_axes == b.explicit_axes) return a == b;
  if (!is_unsplit(a) || !is_unsplit(b)) return false;
  Type alike = a;
  alike.explicit_axes = b.explicit_axes;
  return alike == b;
}

PartitionSpec spec_of(const ExplicitAxes& axes) {
  return PartitionSpec(std::vector<PartitionEntry>(axes.dims.begin(), axes.dims.end()), axes.unreduced, axes.reduced);
}

namespace {

// Positions and sizes in bytes are 64-bit numbers; those of empty arrays, too, whose extents may grow again.
void check_sizes(const InferContext& context, const std::vector<Type>& results) {
  for (const Type& type : results) {
    auto bytes = static_cast<std::int64_t>(size_of(type.dtype));
    for (std::int64_t extent : type.shape) {
      if (extent >= 0 && (extent == 0 || !__builtin_mul_overflow(bytes, extent, &bytes))) continue;
      throw InvalidArgument(fmt::format("{}: the result {} is too large: its bytes, those of its extents that are not "
                                        "0, must be fewer than 2^63",
                                        Caller::function_or(context.op.name), to_string(type)),
                            context.where);
    }
  }
}

// Keys are moved, and read as words; nothing is computed with them.
void check_keys(const InferContext& context) {
  const OpDef& op = context.op;
  const bool computes = op.op_class == OpClass::kCompute || op.op_class == OpClass::kCollective;
  if (!computes || op.takes_keys) return;
  const auto* made = context.attrs.find_as<Dtype>("dtype");
  const bool takes = moves_elements(op) || op.elementwise != nullptr;  // Which say it themselves.
  for (std::size_t i = 0; i < context.inputs.size() && !takes; ++i) {
    const Type& type = context.inputs[i];
    if (!is_key(type.dtype)) continue;
    throw TypeMismatch(fmt::format("{}: operand {} is {}; nothing is computed with keys. random::key_data gives the "
                                   "numbers they are made of",
                                   Caller::function_or(op.name), i, to_string(type)),
                       context.where);
  }
  if (made != nullptr && is_key(*made) && !moves_elements(op)) {
    throw TypeMismatch(fmt::format("{}: dtype {} is of keys, which random::key and random::wrap_key_data make",
                                   Caller::function_or(op.name), name_of(*made)),
                       context.where);
  }
}

// An axis splits a value, or says how it is summed.
void check_roles_of_axes(const InferContext& context, const std::vector<Type>& results) {
  for (const Type& type : results) {
    if (!type.explicit_axes) continue;
    for (const AxisList& dim : type.explicit_axes->dims) {
      for (const std::string& axis : dim) {
        const bool is_unreduced = std::ranges::count(type.explicit_axes->unreduced, axis) != 0;
        if (!is_unreduced && std::ranges::count(type.explicit_axes->reduced, axis) == 0) continue;
        std::vector<std::string> operands;
        for (const Type& operand : context.inputs) operands.push_back(user_string(operand));
        throw ShardingTypeError(
            fmt::format("{}: axis '{}' would split the result of {}, which is {} over it, too; use reshard first",
                        Caller::function_or(context.op.name), axis, fmt::join(operands, " and "),
                        is_unreduced ? "unreduced" : "reduced"),
            context.where);
      }
    }
  }
}

}  // namespace

std::vector<Type> infer_types(const InferContext& context) {
  check_keys(context);
  std::vector<Type> results = context.op.infer(context);
  check_sizes(context, results);
  if (const auto* wanted = context.attrs.find_as<NamedSharding>("out_sharding")) {
    const NamedSharding& sharding = *wanted;
    for (Type& type : results) {
      if (sharding.spec().size() > type.rank()) {
        throw InvalidArgument(
            fmt::format("{}: out_sharding {} has {} entries, but the result {} has only {} dimensions",
                        Caller::function_or(context.op.name), to_string(sharding.spec()), sharding.spec().size(),
                        to_string(type), type.rank()),
            context.where);
      }
      type.explicit_axes = explicit_axes_of(sharding, type.rank());
    }
    refuse_unreduced(context);
    check_summands(context, sharding);
    return results;
  }
  // Calls, constraints and relax_axes say it themselves.
  const bool derives = context.op.op_class == OpClass::kCompute || context.op.op_class == OpClass::kCollective;
  if (!derives || context.op.rule == nullptr) {
    if (derives || context.op.op_class == OpClass::kEffect) refuse_unreduced(context);
    return results;
  }
  for (Type& type : results) type.explicit_axes.reset();
  const bool any = std::any_of(context.inputs.begin(), context.inputs.end(),
                               [](const Type& type) { return type.explicit_axes.has_value(); });
  if (any) Inference(context, results).run();
  infer_summed_axes(context, results);
  check_roles_of_axes(context, results);
  return results;
}

}  // namespace shoal
