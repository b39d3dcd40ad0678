#include "backend/cpu/group_structure.h"

#include "backend/cpu/loops/loop_shape.h"

namespace shoal::cpu {
namespace {

// Tells the numbers of equations from those of values.
constexpr std::uint32_t kEqn = std::uint32_t{1} << 31;

EqnTable::Row row_for(const Graph& graph, const Eqn& eqn, std::uint32_t number) {
  EqnTable::Row row{.number = number};
  row.is_loop_op = is_loop_op(graph, eqn);
  row.is_view = is_view(graph, eqn);
  row.is_known = is_known(eqn);
  row.is_constant = is_constant(eqn);
  if (!eqn.outputs.empty()) {
    const Type& type = graph.type(eqn.outputs[0]);
    row.bytes = static_cast<std::size_t>(num_elements(type.shape)) * size_of(type.dtype);
  }
  return row;
}

}  // namespace

EqnTable::EqnTable(const Graph& graph)
    : graph_(graph), producers_(graph.values.size(), nullptr), sources_(graph.values.size()) {
  EqnClasses classes(graph);
  row_of_.reserve(graph.eqns.size());
  for (std::size_t id = 0; id < sources_.size(); ++id) sources_[id] = static_cast<ValueId>(id);
  for (const Eqn& eqn : graph.eqns) {
    const std::uint32_t number = classes.of(eqn);  // They are counted from 1.
    if (number > rows_.size()) rows_.push_back(row_for(graph, eqn, number));
    row_of_.push_back(number - 1);
    for (const ValueId id : eqn.outputs) producers_[slot(id)] = &eqn;
    if (rows_[number - 1].is_view) sources_[slot(eqn.outputs[0])] = source(eqn.inputs[0]);
  }
}

std::size_t GroupStructures::Hash::operator()(const Structure& structure) const {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::uint64_t hash = structure.size();
  for (const std::uint32_t number : structure) {
    hash = (hash ^ number) * kFactor;
    hash ^= hash >> 32U;
  }
  return hash;
}

void GroupStructures::begin() {
  structure_.clear();
  visited_.clear();
  next_ = 1;
}

bool GroupStructures::is_first(ValueId id) {
  if (!visited_.add(id)) return false;
  number_[slot(id)] = next_++;
  return true;
}

void GroupStructures::use(ValueId id) {
  if (visited_.contains(id)) {
    structure_.push_back(number_[slot(id)]);
    return;
  }
  const Eqn* producer = table_.producer(id);
  if (producer != nullptr && table_.row(*producer).is_read_through()) {
    add(*producer);
  } else {
    is_first(id);
    structure_.push_back(0);
  }
}

void GroupStructures::add(const Eqn& eqn) {
  structure_.push_back(table_.row(eqn).number | kEqn);
  for (const ValueId id : eqn.inputs) use(id);
  for (const ValueId id : eqn.outputs) {
    visited_.add(id);
    number_[slot(id)] = next_++;
  }
}

const GroupStructures::Structure& GroupStructures::of(std::span<const std::size_t> group) {
  begin();
  for (const std::size_t i : group) add(table_.graph().eqns[i]);
  return structure_;
}

const GroupStructures::Structure& GroupStructures::of(std::span<const Eqn* const> eqns,
                                                      std::span<const ValueId> results) {
  begin();
  const auto number_of = [&](ValueId id) {
    is_first(id);
    return number_[slot(id)];
  };
  for (const Eqn* eqn : eqns) {
    structure_.push_back(table_.row(*eqn).number | kEqn);
    for (const ValueIds* ids : {&eqn->inputs, &eqn->outputs}) {
      for (const ValueId id : *ids) structure_.push_back(number_of(id));
    }
  }
  structure_.push_back(0);  // No equation's number.
  for (const ValueId id : results) structure_.push_back(number_of(id));
  return structure_;
}

}  // namespace shoal::cpu
