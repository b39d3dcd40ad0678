// The bytes of an exported function:
//
//   the envelope (stored_bytes.h), and in it
//   name, note, the number of devices, trees of arguments and results
//   the traced graph as text, without calls, over abstract meshes
//   shardings of arguments and results, where any are said
//   the elements of captured arrays
#include "shoal/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/body.h"
#include "frontend/transforms/jit_impl.h"
#include "frontend/transforms/stored_bytes.h"
#include "ir/bodies.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"
#include "passes/inline_calls.h"
#include "shoal/default_device.h"
#include "spmd/map_meshes.h"

namespace shoal::detail {

struct ExportedImpl {
  ExportedFacts facts;
  Graph graph;                  // Over abstract meshes; calls in it have their rules, unless it was stored.
  std::vector<Array> captures;  // The further inputs of the graph.
  Exemplar exemplar;
  std::shared_ptr<JitCache> cache;  // Of what calls outside of traces have compiled.
};

namespace {

constexpr Envelope kEnvelope("shoal exported function\n", 1, "deserialize_exported", "exported function");

Mesh without_devices(const Mesh& mesh) {
  return mesh.is_abstract() || mesh.empty() ? mesh : Mesh(mesh.abstract_mesh());
}

// A sharding that says more than which device an array lies on, which is its caller's affair.
MaybeSharding without_devices(const MaybeSharding& sharding) {
  if (!sharding || sharding->named() == nullptr) return std::nullopt;
  return map_mesh(*sharding, [](const Mesh& mesh) { return without_devices(mesh); });
}

bool has_rules(const Graph& graph) {
  return any_eqn(graph,
                 [](const Eqn& eqn) { return eqn.op->op_class == OpClass::kCall && eqn.attrs.contains("rules"); });
}

// Throws Unsupported if a graph without calls calls functions of this process.
void check_computes_alone(const Graph& graph) {
  for_each_eqn(graph, [&](const Eqn& eqn) {
    for (const auto& [key, value] : eqn.attrs.entries()) {
      if (!std::holds_alternative<CallbackAttr>(value)) continue;
      const std::string line = to_string(eqn.where);
      throw misuse<Unsupported>(
          "the function calls a function of this process{}: {}; only functions that compute with Shoal's own ops can "
          "be exported",
          line.empty() ? "" : " at " + line, eqn.op->name);
    }
  });
}

// The devices of the meshes that a function names; 1 if it names none.
std::int64_t count_devices(const Graph& graph, const ExportedFacts& facts) {
  std::optional<Mesh> found;
  const auto look = [&](const Mesh& mesh) {
    if (mesh.empty()) return mesh;
    if (found && found->size() != mesh.size()) {
      throw misuse<InvalidArgument>("the function is over {} and over {}, which have other numbers of devices",
                                    to_string(*found), to_string(mesh));
    }
    found = mesh;
    return mesh;
  };
  for (const std::vector<MaybeSharding>* all : {&facts.in_shardings, &facts.out_shardings}) {
    for (const MaybeSharding& sharding : *all) {
      if (sharding) map_mesh(*sharding, look);
    }
  }
  map_meshes(graph, look);
  return found ? found->size() : 1;
}

std::vector<Array> types_as_arrays(const Graph& graph, std::span<const ValueId> values,
                                   const std::vector<MaybeSharding>& shardings) {
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < shardings.size(); ++i) {
    arrays.push_back(Access::make(graph.type(values[i]), shardings[i]));
  }
  return arrays;
}

// What follows from the rest.
std::shared_ptr<ExportedImpl> completed(std::shared_ptr<ExportedImpl> exported) {
  ExportedFacts& facts = exported->facts;
  facts.has_rules = has_rules(exported->graph);
  facts.in_types = types_as_arrays(exported->graph, exported->graph.inputs, facts.in_shardings);
  facts.out_types = types_as_arrays(exported->graph, exported->graph.outputs, facts.out_shardings);
  exported->cache = make_jit_cache({.name = facts.name}, Caller::line());
  return exported;
}

void store_sharding(ByteWriter& out, const MaybeSharding& sharding) {
  out.flag(sharding.has_value());
  if (sharding) out.text(to_text(Attr(*sharding->named())));
}

MaybeSharding read_sharding(ByteReader& in) {
  if (!in.flag()) return std::nullopt;
  const Attr attr = parse_attr(in.text(), find_op);
  const auto* named = std::get_if<NamedSharding>(&attr);
  if (named == nullptr || !named->mesh().is_abstract()) throw InvalidArgument("a sharding is none over a mesh alone");
  return *named;
}

std::shared_ptr<ExportedImpl> read_exported(ByteReader& in, SourceLocation where) {
  auto exported = std::make_shared<ExportedImpl>();
  ExportedFacts& facts = exported->facts;
  facts.name = std::string(in.text());
  facts.note = std::string(in.text());
  facts.num_devices = in.number();
  facts.in_tree = read_tree(in);
  facts.out_tree = read_tree(in);
  Graph& graph = exported->graph;
  graph = parse_graph(in.text(), find_op);
  verify(graph, "exported");
  const std::size_t arguments = facts.in_tree.num_leaves();
  if (arguments > graph.inputs.size() || facts.out_tree.num_leaves() != graph.outputs.size()) {
    throw InvalidArgument("the trees of arguments and results are not those of the graph");
  }
  const bool is_placed = graph.grid != nullptr || any_eqn(graph, [](const Eqn& eqn) {
                           return eqn.op->op_class == OpClass::kEnter || eqn.op->op_class == OpClass::kLeave;
                         });
  if (is_placed || !graph.axes.axes().empty()) throw InvalidArgument("the graph is not one that was traced");
  check_computes_alone(inline_calls(graph));
  if (has_rules(graph)) throw InvalidArgument("the graph has calls with rules, which are not stored");
  for (std::size_t i = 0; i < arguments; ++i) facts.in_shardings.push_back(read_sharding(in));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) facts.out_shardings.push_back(read_sharding(in));
  if (facts.num_devices != count_devices(graph, facts)) {
    throw InvalidArgument("the meshes are not of the number of devices that is told");
  }
  for (std::size_t i = arguments; i < graph.inputs.size(); ++i) {
    const Type& type = graph.type(graph.inputs[i]);
    if (type.explicit_axes || !type.varying.empty()) throw InvalidArgument("a captured array is split by its type");
    const SingleDeviceSharding here(default_device(), type.memory);
    exported->captures.push_back(read_elements(in, type, here, where));
  }
  if (!in.at_end()) throw InvalidArgument("there are bytes after the last captured array");
  return completed(std::move(exported));
}

// ---- Calls

// The graph on these operands, equation by equation: its types do not say that they differ between devices, or between
// the places of vmap, as these do.
std::vector<Array> replayed(const Graph& graph, const std::vector<Array>& operands) {
  std::unordered_map<ValueId, Array> values;
  for (std::size_t i = 0; i < operands.size(); ++i) values.emplace(graph.inputs[i], operands[i]);
  for (const Eqn& eqn : graph.eqns) {
    std::vector<Array> inputs;
    bool is_same = true;
    for (ValueId id : eqn.inputs) {
      inputs.push_back(values.at(id));
      is_same = is_same && impl_of(inputs.back()).type == graph.type(id);
    }
    std::vector<Array> made;
    if (!is_same && eqn.op->op_class == OpClass::kCall && !eqn.attrs.contains("rules")) {
      made = replayed(eqn.attrs.graph(), inputs);
    } else if (!is_same && !bodies_of(eqn).empty()) {
      throw misuse<Unsupported>(
          "an exported function with {} in it is called with arrays that differ between the devices of a shard_map or "
          "the places of vmap, for which it was not traced; call the function itself",
          eqn.op->name);
    } else {
      made = shoal::bind(*eqn.op, eqn.attrs, inputs);
    }
    for (std::size_t i = 0; i < made.size(); ++i) values.insert_or_assign(eqn.outputs[i], made[i]);
  }
  std::vector<Array> results;
  for (ValueId id : graph.outputs) results.push_back(values.at(id));
  return results;
}

// A mesh of the export, or that of the same axes which the types of these arrays speak of.
Mesh mesh_of(const std::vector<Array>& leaves, const Mesh& mesh) {
  for (const Array& leaf : leaves) {
    const auto& axes = impl_of(leaf).type.explicit_axes;
    if (axes && mesh.is_abstract() && Mesh(axes->mesh.abstract_mesh()) == mesh) return axes->mesh;
  }
  return mesh;
}

// Says where arrays lie, over meshes whose devices those give that they are used with.
void constrain(std::vector<Array>& arrays, const std::vector<MaybeSharding>& shardings,
               FunctionRef<Mesh(const Mesh&)> mesh_here) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!shardings[i]) continue;
    const Sharding here = map_mesh(*shardings[i], mesh_here);
    arrays[i] = bind_one("sharding_constraint", {{"sharding", *here.named()}}, {arrays[i]});
  }
}

// The function as part of the trace that is under way.
TracedResult traced_call(const ExportedImpl& exported, std::vector<Array> leaves) {
  const std::vector<Array> given = leaves;
  const auto mesh_here = [&](const Mesh& mesh) { return mesh_of(given, mesh); };
  const Graph graph = map_meshes(exported.graph, mesh_here);
  const std::vector<Type> types = graph.types(graph.inputs);
  constrain(leaves, exported.facts.in_shardings, mesh_here);
  std::vector<Array> operands = as_types(std::move(leaves), types);
  operands.insert(operands.end(), exported.captures.begin(), exported.captures.end());
  bool is_same = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Type type = impl_of(operands[i]).type;
    is_same = is_same && equal_if_unsplit(type, types[i]);
    type.varying = types[i].varying;
    if (equal_if_unsplit(type, types[i])) continue;
    throw misuse<InvalidArgument>("argument {} is {}, but the function was exported for {}",
                                  exported.facts.in_tree.leaf_paths()[i], user_string(impl_of(operands[i]).type),
                                  user_string(types[i]));
  }
  std::vector<Array> results =
      is_same ? shoal::bind("jit",
                            {{"body", GraphAttr{std::make_shared<const Graph>(graph)}}, {"name", exported.facts.name}},
                            operands)
              : replayed(graph, operands);
  constrain(results, exported.facts.out_shardings, mesh_here);
  return {.leaves = std::move(results),
          .tree = exported.facts.out_tree,
          .exemplar = exported.exemplar == nullptr ? std::any() : *exported.exemplar};
}

}  // namespace

std::shared_ptr<const ExportedImpl> export_lowered(const LoweredImpl& lowered, SourceLocation where) {
  const Traced& traced = *lowered.traced;
  const JitOptions& options = options_of(*lowered.cache);
  const Caller caller("export", where);
  auto exported = std::make_shared<ExportedImpl>();
  ExportedFacts& facts = exported->facts;
  facts.name = options.name;
  facts.in_tree = lowered.tree;
  facts.out_tree = traced.result_tree;
  exported->graph = map_meshes(traced.graph, [](const Mesh& mesh) { return without_devices(mesh); });
  exported->captures = traced.captures;
  exported->exemplar = traced.exemplar;
  check_computes_alone(inline_calls(traced.graph));
  const std::vector<MaybeSharding> wanted = apply_prefix(options.in_shardings, lowered.tree, "in_shardings");
  for (std::size_t i = 0; i < lowered.leaves.size(); ++i) {
    facts.in_shardings.push_back(without_devices(wanted[i] ? wanted[i] : lowered.leaves[i].sharding));
  }
  for (const MaybeSharding& sharding : traced.out_shardings) facts.out_shardings.push_back(without_devices(sharding));
  facts.num_devices = count_devices(exported->graph, facts);
  return completed(std::move(exported));
}

std::string serialize_exported(const ExportedImpl& exported, std::string_view note, SourceLocation where) {
  const Caller caller(exported.facts.name, where);
  const ExportedFacts& facts = exported.facts;
  const Graph graph = inline_calls(exported.graph);
  return kEnvelope.pack([&](ByteWriter& out) {
    out.text(facts.name);
    out.text(note);
    out.number(facts.num_devices);
    store(out, facts.in_tree);
    store(out, facts.out_tree);
    out.text(to_text(graph));
    for (const MaybeSharding& sharding : facts.in_shardings) store_sharding(out, sharding);
    for (const MaybeSharding& sharding : facts.out_shardings) store_sharding(out, sharding);
    for (const Array& capture : exported.captures) {
      const Type& type = impl_of(capture).type;
      if (type.explicit_axes) {
        throw misuse<InvalidArgument>(
            "a captured array {} is split over Explicit axes, and cannot be stored; pass it as an argument",
            user_string(type));
      }
      store_elements(out, capture, false);
    }
  });
}

std::shared_ptr<const ExportedImpl> load_exported(std::string_view bytes, SourceLocation where) {
  const Caller caller("deserialize_exported", where);
  std::shared_ptr<ExportedImpl> exported;
  kEnvelope.unpack(bytes, where, [&](ByteReader& in) { exported = read_exported(in, where); });
  return exported;
}

const ExportedFacts& facts_of(const ExportedImpl& exported) { return exported.facts; }

std::string exported_text(const ExportedImpl& exported) { return to_text(exported.graph); }

void set_exemplar(ExportedImpl& exported, std::any exemplar) {
  exported.exemplar = std::make_shared<const std::any>(std::move(exemplar));
}

std::vector<Array> call_exported(const ExportedImpl& exported, const CallArguments& arguments, std::any& exemplar,
                                 MaybeLocation where) {
  const ExportedFacts& facts = exported.facts;
  const Caller caller(facts.name, where.value_or(SourceLocation()));
  check_values(arguments.leaves, arguments.tree, "argument ");
  TreeDef tree = facts.in_tree;
  // Static arguments are not passed again, so that the others may stand at other positions.
  for (std::size_t i = 0; i < std::min(tree.children.size(), arguments.tree.children.size()); ++i) {
    tree.children[i].key = arguments.tree.children[i].key;
  }
  if (tree != arguments.tree) {
    throw misuse<TypeMismatch>("the function was exported for arguments {}, but is called with {}",
                               to_string(facts.in_tree), to_string(arguments.tree));
  }
  const std::vector<std::string> paths = tree.leaf_paths();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Type& is = impl_of(arguments.leaves[i]).type;
    const Type& wanted = exported.graph.type(exported.graph.inputs[i]);
    if (is.dtype == wanted.dtype && is.shape == wanted.shape) continue;
    throw misuse<InvalidArgument>("argument {} is {}, but the function was exported for {}", paths[i], user_string(is),
                                  user_string(wanted));
  }
  const TracedFunction function = [&](const std::vector<Array>& leaves) { return traced_call(exported, leaves); };
  return call_cached(*exported.cache, arguments, function, exemplar, where);
}

}  // namespace shoal::detail
