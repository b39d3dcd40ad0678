#include <fmt/format.h>

#include "ir/bodies.h"
#include "ir/eqn_text.h"
#include "ir/graph.h"
#include "shoal/error.h"

namespace shoal {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view stage) : graph_(graph), stage_(stage), defined_(graph.values.size()) {}

  void run() {
    for (ValueId id : graph_.inputs) {
      check_value(id);
      define(id, "an input");
    }
    for (const Eqn& eqn : graph_.eqns) check_eqn(eqn);
    for (ValueId id : graph_.outputs) check_use(id, "the outputs");
  }

 private:
  void define(ValueId id, std::string_view what) {
    if (defined_[slot(id)]) fail(fmt::format("{} defines %{} a second time", what, id));
    defined_[slot(id)] = true;
  }

  void check_use(ValueId id, std::string_view what) const {
    if (id < 0 || slot(id) >= defined_.size() || !defined_[slot(id)]) {
      fail(fmt::format("{} use %{} before its definition", what, id));
    }
  }

  // What can be said of a value by itself.
  void check_value(ValueId id) const {
    if (id < 0 || slot(id) >= defined_.size()) fail(fmt::format("%{} is defined but unknown", id));
    const Value& value = graph_.value(id);
    for (std::int64_t extent : value.type.shape) {
      if (extent < 0) fail(fmt::format("%{} has a negative extent", id));
    }
    for (const std::string& axis : value.type.varying) {
      if (graph_.grid == nullptr && !graph_.axes.size_of(axis))
        fail(fmt::format("%{} varies over '{}', which is not bound", id, axis));
    }
    if (value.placement) check_placement(id, *value.placement, value.type.shape);
    if (value.global) {
      for (std::int64_t extent : value.global->shape) {
        if (extent < 0) fail(fmt::format("%{} has a negative global extent", id));
      }
      check_placement(id, value.global->placement, value.global->shape);
      if (local_shape(*graph_.grid, value.global->shape, value.global->placement) != value.type.shape) {
        fail(fmt::format("%{} is not the shard of its global shape", id));
      }
      if (!((value.varying - value.global->placement.varying() - value.manual).empty())) {
        fail(fmt::format("%{} varies over more than its placement does", id));
      }
    }
  }

  void check_placement(ValueId id, const Placement& placement, const Shape& shape) const {
    if (graph_.grid == nullptr) fail(fmt::format("%{} has a placement but the graph has no grid", id));
    if (placement.dims.size() != shape.size()) fail(fmt::format("the placement of %{} is of another rank", id));
    std::size_t count = 0;
    const auto check_atoms = [&](const Atoms& atoms) {
      count += atoms.size();
      for (Atom atom : atoms) {
        if (atom >= graph_.grid->num_atoms()) fail(fmt::format("the placement of %{} uses an unknown axis", id));
      }
    };
    for (const Atoms& atoms : placement.dims) check_atoms(atoms);
    check_atoms(placement.partial);
    if (static_cast<int>(count) != placement.varying().size()) {
      fail(fmt::format("the placement of %{} uses an axis twice", id));
    }
    if (!(placement.varying() & graph_.value(id).manual).empty()) {
      fail(fmt::format("the placement of %{} uses an axis that is manual there", id));
    }
  }

  void check_eqn(const Eqn& eqn) {
    if (eqn.op == nullptr) fail("an equation has no op");
    for (ValueId id : eqn.outputs) check_value(id);
    const std::string text = eqn_text(graph_, eqn);
    for (ValueId id : eqn.inputs) check_use(id, text);
    if (eqn.op->arity >= 0 && static_cast<std::size_t>(eqn.op->arity) != eqn.inputs.size()) {
      fail(fmt::format("{} has {} operands, not {}", text, eqn.inputs.size(), eqn.op->arity));
    }
    check_attributes(eqn, text);
    check_types(eqn, text);
    for (ValueId id : eqn.outputs) define(id, text);
    for (const Graph* body : bodies_of(eqn)) {
      if (eqn.op->op_class == OpClass::kControl && !on_same_devices(*body)) {
        fail(fmt::format("graph '{}' in {} is for other devices", body->name, eqn.op->name));
      }
      verify(*body, stage_);
    }
  }

  // Each is one that the op takes, and if it speaks of dimensions, of the kind that does.
  void check_attributes(const Eqn& eqn, const std::string& text) const {
    static constexpr AttrFact kOutSharding{.name = "out_sharding", .role = AttrRole::kSpec, .of = AttrFact::kResult};
    for (const auto& [name, value] : eqn.attrs.entries()) {
      const AttrFact* fact = name == kOutSharding.name ? &kOutSharding : eqn.op->attributes.find(name);
      if (fact == nullptr)
        fail(fmt::format("{} has an attribute '{}', which {} does not take", text, name, eqn.op->name));
      if (!is_of_kind(fact->role, value)) fail(fmt::format("attribute '{}' of {} is of another kind", name, text));
    }
  }

  static bool is_of_kind(AttrRole role, const Attr& value) {
    switch (role) {
      case AttrRole::kOther:
        return true;
      case AttrRole::kLabel:
        return std::holds_alternative<std::string>(value) || std::holds_alternative<CallbackAttr>(value);
      case AttrRole::kDim:
        return std::holds_alternative<std::int64_t>(value);
      case AttrRole::kSpec:
        return std::holds_alternative<NamedSharding>(value);
      case AttrRole::kDims:
      case AttrRole::kBatchDims:
      case AttrRole::kPerDim:
      case AttrRole::kExtents:
      case AttrRole::kDimOfEach:
        return std::holds_alternative<Dims>(value);
    }
    return false;
  }

  bool on_same_devices(const Graph& body) const {
    if (graph_.grid == nullptr || body.grid == nullptr) return graph_.grid == body.grid;
    return graph_.grid->mesh() == body.grid->mesh() && graph_.grid->devices() == body.grid->devices();
  }

  void check_types(const Eqn& eqn, const std::string& text) const {
    const std::vector<Type> inputs = graph_.types(eqn.inputs);
    std::vector<Type> expected;
    try {
      expected =
          eqn.op->infer({.op = *eqn.op, .inputs = inputs, .attrs = eqn.attrs, .axes = axes(), .where = eqn.where});
    } catch (const Error& error) {
      fail(fmt::format("{} does not check: {}", text, error.what()));
    }
    if (expected.size() != eqn.outputs.size()) fail(fmt::format("{} has {} results", text, expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Type actual = graph_.type(eqn.outputs[i]);
      // From the placed stage on variation is tracked by atoms, not by names.
      if (graph_.grid != nullptr) actual.varying = expected[i].varying = {};
      // Explicit axes are derived when a function is traced; what a pass writes in another way keeps them.
      actual.explicit_axes = expected[i].explicit_axes = {};
      actual.summands = expected[i].summands = {};
      actual.reduced = expected[i].reduced = {};
      if (actual != expected[i]) {
        fail(fmt::format("{} should give {}, not {}", text, to_string(expected[i]), to_string(actual)));
      }
    }
  }

  AxisEnv axes() const {
    if (graph_.grid == nullptr) return graph_.axes;
    AxisEnv env;
    for (const auto& [name, size] : graph_.grid->mesh().shape()) env.bind(name, size);
    return env;
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw InternalError(fmt::format("verify after {}, graph '{}': {}", stage_, graph_.name, text));
  }

  const Graph& graph_;
  std::string_view stage_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph, std::string_view stage) { Verifier(graph, stage).run(); }

}  // namespace shoal
