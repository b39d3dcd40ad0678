// What groups of equations have in common: where a model repeats a layer, what was found out about a group of the first
// one holds for those of the others.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/eqn_classes.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// What fusion asks of the equations of a graph again and again. It is found out once for those that are alike.
class EqnTable {
 public:
  struct Row {
    std::uint32_t number = 0;  ///< Equal for equations that are alike; from 1 on.
    bool is_loop_op = false;
    bool is_view = false;
    bool is_known = false;     ///< As loop_shape.h says.
    bool is_constant = false;  ///< The same.
    std::size_t bytes = 0;     ///< Of the first result.

    bool is_read_through() const { return is_view || is_known; }
  };

  /// The graph must outlive this, and stay as it is.
  explicit EqnTable(const Graph& graph);

  const Graph& graph() const { return graph_; }
  std::size_t number_of(const Eqn& eqn) const { return static_cast<std::size_t>(&eqn - graph_.eqns.data()); }
  const Row& row(std::size_t eqn) const { return rows_[row_of_[eqn]]; }
  const Row& row(const Eqn& eqn) const { return row(number_of(eqn)); }
  /// Those that make each value; nullptr of inputs.
  const std::vector<const Eqn*>& producers() const { return producers_; }
  const Eqn* producer(ValueId id) const { return producers_[slot(id)]; }
  /// The value that this one is a view of, through all views; itself if it is none.
  ValueId source(ValueId id) const { return sources_[slot(id)]; }

 private:
  const Graph& graph_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> row_of_;  // Of each equation.
  std::vector<const Eqn*> producers_;
  std::vector<ValueId> sources_;
};

/// A set of values that is begun anew in no time.
class ValueMarks {
 public:
  explicit ValueMarks(std::size_t values) : round_of_(values, 0) {}

  void clear() { ++round_; }
  bool contains(ValueId id) const { return round_of_[slot(id)] == round_; }
  /// Returns whether it was not there.
  bool add(ValueId id) { return std::exchange(round_of_[slot(id)], round_) != round_; }

 private:
  std::vector<std::uint32_t> round_of_;
  std::uint32_t round_ = 1;
};

/// The structure of groups of equations, as numbers: equal ones for equal ops, attributes and types, put together in
/// the same way.
class GroupStructures {
 public:
  using Structure = std::vector<std::uint32_t>;
  struct Hash {
    std::size_t operator()(const Structure& structure) const;
  };
  template <class T>
  using Map = std::unordered_map<Structure, T, Hash>;

  /// The table must outlive this.
  explicit GroupStructures(const EqnTable& table)
      : table_(table), visited_(table.graph().values.size()), number_(table.graph().values.size()) {}

  /// Of equations, in their order, with the views and constants that they read through. It is there until the next is
  /// asked for.
  const Structure& of(std::span<const std::size_t> group);
  /// Of these equations alone, in their order, of which `results` are needed. It is there until the next is asked for.
  const Structure& of(std::span<const Eqn* const> eqns, std::span<const ValueId> results);

 private:
  void begin();
  // Whether the value has no number yet; then it gets the next.
  bool is_first(ValueId id);
  void add(const Eqn& eqn);
  void use(ValueId id);

  const EqnTable& table_;
  Structure structure_;
  // The values of the group that is looked at, by their first appearance.
  ValueMarks visited_;
  std::vector<std::uint32_t> number_;
  std::uint32_t next_ = 0;
};

}  // namespace shoal::cpu
