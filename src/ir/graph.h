// The one intermediate representation: graphs of equations over typed values.
//
// A graph is in single-assignment form: inputs come first, every equation defines its outputs, uses follow
// definitions. The same structure serves every stage:
//   traced       values have types; shapes are global outside manual regions and local inside
//   placed       manual regions are opened: their equations stand in the graph, between boundary ops
//   propagated   values have placements on the graph's grid as well
//   partitioned  the program of one device: shapes are local, communication is explicit
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "ir/attrs.h"
#include "ir/op.h"
#include "ir/type.h"
#include "sharding/placement.h"

namespace shoal {

/// In a partitioned graph: where a value's shards come from. In a manual region over some axes, "global" means the
/// shards along those axes taken one by one.
struct GlobalShape {
  Shape shape;
  Placement placement;
  friend bool operator==(const GlobalShape&, const GlobalShape&) = default;
};

struct Value {
  Type type;
  /// Propagated graphs: where the value lies. Shapes of `type` are global.
  Shared<Placement> placement;
  /// From the placed stage on: the atoms of the manual regions that the value stands in.
  AtomSet manual;
  /// The atoms over which devices hold different data: of a placed graph's inputs those among `manual`; of partitioned
  /// graphs all.
  AtomSet varying;
  /// Partitioned graphs.
  Shared<GlobalShape> global;

  friend bool operator==(const Value&, const Value&) = default;
};

/// Where a table with a row for each value has this one.
inline std::size_t slot(ValueId id) { return static_cast<std::size_t>(id); }

/// The user's line that an equation comes from.
struct Origin : SourceLocation {
  Origin() = default;
  Origin(const SourceLocation& where, bool derived = false) : SourceLocation(where), is_derived(derived) {}
  bool is_derived = false;  ///< A part of its derivative, and nothing that the line says itself.
};
inline Origin derivative_of(const SourceLocation& where) { return {where, true}; }
/// What a message that ends with the line adds of it.
inline const char* derived_note(const Origin& origin) {
  return origin.is_derived ? "; it is a part of the derivative of this line" : "";
}

/// The operands or results of an equation, which are few: up to four need no allocation.
class ValueIds : public boost::container::small_vector<ValueId, 4> {
 public:
  using Base = boost::container::small_vector<ValueId, 4>;
  using Base::Base;
  ValueIds(const std::vector<ValueId>& ids) : Base(ids.begin(), ids.end()) {}
  operator std::vector<ValueId>() const { return {begin(), end()}; }
  friend bool operator==(const ValueIds& a, const ValueIds& b) { return std::ranges::equal(a, b); }
  friend bool operator==(const ValueIds& a, const std::vector<ValueId>& b) { return std::ranges::equal(a, b); }
};

struct Eqn {
  const OpDef* op = nullptr;
  Attrs attrs;
  ValueIds inputs;
  ValueIds outputs;
  Origin where;  ///< Never compared or printed.
};

struct GraphDigest;  // ir/graph_digest.h

/// The digest of a graph that will not change any more, kept with it. A copy may be changed, and begins without.
class KeptDigest {
 public:
  KeptDigest() = default;
  KeptDigest(const KeptDigest&) noexcept {}
  KeptDigest& operator=(const KeptDigest&) noexcept {
    set(nullptr);
    return *this;
  }
  std::shared_ptr<const GraphDigest> get() const { return kept_.load(std::memory_order_acquire); }
  void set(std::shared_ptr<const GraphDigest> digest) const {
    kept_.store(std::move(digest), std::memory_order_release);
  }

 private:
  mutable std::atomic<std::shared_ptr<const GraphDigest>> kept_;
};

struct Graph {
  std::string name = "main";
  std::vector<Value> values;
  std::vector<ValueId> inputs;
  std::vector<Eqn> eqns;
  std::vector<ValueId> outputs;
  AxisEnv axes;  ///< The manual axes bound in this graph.
  GridPtr grid;  ///< Propagated and partitioned graphs.
  KeptDigest digest;

  const Type& type(ValueId id) const { return values[slot(id)].type; }
  Value& value(ValueId id) { return values[slot(id)]; }
  const Value& value(ValueId id) const { return values[slot(id)]; }
  std::vector<Type> types(std::span<const ValueId> ids) const;

  ValueId add_value(Type type);
  ValueId add_input(Type type);
  /// Appends an equation whose output types its op infers. Throws what the op's infer throws.
  std::vector<ValueId> add_eqn(const OpDef& op, Attrs attrs, std::vector<ValueId> inputs, const Origin& where);
};

/// Whether an equation calls the user's program, itself or in its sub-graph.
bool calls_user(const Eqn& eqn);
/// The same, and not only for results: it is neither removed nor merged.
bool has_effect(const Eqn& eqn);

/// The number of equations that use each value, outputs of the graph counted too.
std::vector<int> count_uses(const Graph& graph);

/// Appends the equations of `callee` to `caller`, with its inputs replaced by `arguments`; returns the values that
/// stand for its outputs.
std::vector<ValueId> inline_graph(Graph& caller, const Graph& callee, std::span<const ValueId> arguments);

// ---- Text. parse(to_text(g)) equals g; golden tests compare this form.

std::string to_text(const Graph& graph);
std::string to_text(const Attr& attr);

using OpLookup = const OpDef* (*)(std::string_view name);

/// Reads a graph back; ops are found through `lookup`. Throws InvalidArgument with line and column on a mistake.
Graph parse_graph(std::string_view text, OpLookup lookup);
/// The same for an attribute by itself.
Attr parse_attr(std::string_view text, OpLookup lookup);

/// Throws InternalError, naming the equation, if the graph is malformed: a use before its definition, an operand count
/// that the op does not take, a type other than what the op infers, a placement that does not fit.
void verify(const Graph& graph, std::string_view stage);

}  // namespace shoal
