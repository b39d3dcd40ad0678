#include "passes/simplify.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace shoal {
namespace {

class Simplifier {
 public:
  explicit Simplifier(const Graph& graph) : old_(graph) {
    new_.name = graph.name;
    new_.axes = graph.axes;
    new_.grid = graph.grid;
    new_.values = graph.values;  // Values keep their numbers.
    new_.inputs = graph.inputs;
  }

  Graph run() {
    for (const Eqn& eqn : old_.eqns) {
      Eqn copy = eqn;
      for (ValueId& id : copy.inputs) id = current(id);
      if (copy.op->op_class == OpClass::kCall) {
        copy.attrs.set("body", GraphAttr{std::make_shared<const Graph>(simplify(copy.attrs.graph()))});
      }
      const std::optional<ValueId> same = rewrite(copy);
      if (same && new_.type(*same) == new_.type(copy.outputs[0])) {
        replaced_[copy.outputs[0]] = *same;
        continue;
      }
      for (ValueId id : copy.outputs) makers_[id] = new_.eqns.size();
      new_.eqns.push_back(std::move(copy));
    }
    for (ValueId id : old_.outputs) new_.outputs.push_back(current(id));
    return std::move(new_);
  }

 private:
  // A value that the equation's result equals, if there is one. Else the equation may have become a simpler one.
  std::optional<ValueId> rewrite(Eqn& eqn) const {
    using Rule = std::optional<ValueId> (Simplifier::*)(Eqn&) const;
    static constexpr std::pair<std::string_view, Rule> kRules[] = {
        {"transpose", &Simplifier::transpose},
        {"reshape", &Simplifier::reshape},
        {"broadcast_in_dim", &Simplifier::broadcast},
        {"slice", &Simplifier::slice},
        {"convert", &Simplifier::unary_identity},
        {"to_memory", &Simplifier::unary_identity},
        {"negative", &Simplifier::involution},
        {"bitwise_not", &Simplifier::involution},
        {"conj", &Simplifier::involution},
        {"add", &Simplifier::neutral_zero},
        {"subtract", &Simplifier::neutral_zero},
        {"multiply", &Simplifier::neutral_one},
    };
    if (eqn.op->elementwise != nullptr) drop_broadcasts(eqn);
    for (const auto& [name, rule] : kRules) {
      if (eqn.op->name == name) return (this->*rule)(eqn);
    }
    return std::nullopt;
  }

  std::optional<ValueId> transpose(Eqn& eqn) const {
    Dims perm = eqn.attrs.get<Dims>("perm");
    if (const Eqn* inner = maker(eqn.inputs[0], "transpose")) {
      const Dims& first = inner->attrs.get<Dims>("perm");
      for (std::int64_t& d : perm) d = first[static_cast<std::size_t>(d)];
      eqn.inputs = inner->inputs;
      eqn.attrs.set("perm", perm);
    }
    for (std::size_t i = 0; i < perm.size(); ++i) {
      if (perm[i] != static_cast<std::int64_t>(i)) return std::nullopt;
    }
    return eqn.inputs[0];
  }

  std::optional<ValueId> reshape(Eqn& eqn) const {
    if (const Eqn* inner = maker(eqn.inputs[0], "reshape")) eqn.inputs = inner->inputs;
    return unary_identity(eqn);
  }

  std::optional<ValueId> broadcast(Eqn& eqn) const {
    if (const Eqn* inner = maker(eqn.inputs[0], "broadcast_in_dim")) {
      Dims dims = inner->attrs.get<Dims>("dims");
      const Dims& outer = eqn.attrs.get<Dims>("dims");
      for (std::int64_t& d : dims) d = outer[static_cast<std::size_t>(d)];
      eqn.inputs = inner->inputs;
      eqn.attrs.set("dims", std::move(dims));
    }
    // Of equal shapes it is the identity: dimensions are in ascending order.
    return unary_identity(eqn);
  }

  std::optional<ValueId> slice(Eqn& eqn) const { return unary_identity(eqn); }  // Of everything, if shapes are equal.

  // The op does nothing if the types are equal, which run() checks.
  std::optional<ValueId> unary_identity(Eqn& eqn) const { return eqn.inputs[0]; }

  // f(f(x)) is x.
  std::optional<ValueId> involution(Eqn& eqn) const {
    const Eqn* inner = maker(eqn.inputs[0], eqn.op->name);
    return inner == nullptr ? std::nullopt : std::optional(inner->inputs[0]);
  }

  // Of integers only: -0. + 0. is 0., and 1. * x makes a quiet NaN of a signalling one.
  std::optional<ValueId> neutral_zero(Eqn& eqn) const { return neutral(eqn, 0, eqn.op->name == "add"); }
  std::optional<ValueId> neutral_one(Eqn& eqn) const { return neutral(eqn, 1, true); }

  std::optional<ValueId> neutral(const Eqn& eqn, std::int64_t element, bool commutes) const {
    if (!is_integer(new_.type(eqn.outputs[0]).dtype)) return std::nullopt;
    if (is_full_of(eqn.inputs[1], element)) return eqn.inputs[0];
    if (commutes && is_full_of(eqn.inputs[0], element)) return eqn.inputs[1];
    return std::nullopt;
  }

  bool is_full_of(ValueId id, std::int64_t element) const {
    const Eqn* full = maker(id, "full");
    if (full == nullptr) return false;
    return full->attrs.get<Scalar>("value").converted_to(int64).as<std::int64_t>() == element;
  }

  // Elementwise ops take scalars as they are. One operand keeps the shape.
  void drop_broadcasts(Eqn& eqn) const {
    const Shape& shape = new_.type(eqn.outputs[0]).shape;
    if (shape.empty()) return;
    const auto keeps_shape = [&](ValueId id) { return new_.type(id).shape == shape; };
    for (ValueId& id : eqn.inputs) {
      const Eqn* inner = maker(id, "broadcast_in_dim");
      if (inner == nullptr || !new_.type(inner->inputs[0]).shape.empty()) continue;
      if (std::count_if(eqn.inputs.begin(), eqn.inputs.end(), keeps_shape) > 1) id = inner->inputs[0];
    }
  }

  ValueId current(ValueId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? id : found->second;
  }

  // The equation of that op that makes a value, or nullptr.
  const Eqn* maker(ValueId id, std::string_view op) const {
    const auto found = makers_.find(id);
    if (found == makers_.end()) return nullptr;
    const Eqn& eqn = new_.eqns[found->second];
    return eqn.op->name == op ? &eqn : nullptr;
  }

  const Graph& old_;
  Graph new_;
  std::unordered_map<ValueId, ValueId> replaced_;
  std::unordered_map<ValueId, std::size_t> makers_;
};

}  // namespace

Graph simplify(const Graph& graph) { return Simplifier(graph).run(); }

}  // namespace shoal
