#include "backend/cpu/group_structure.h"

#include <boost/container_hash/hash.hpp>

#include "backend/cpu/loops/loop_shape.h"

namespace shoal::cpu {

std::size_t GroupStructures::Hash::operator()(const Structure& structure) const {
  return boost::hash_range(structure.begin(), structure.end());
}

void GroupStructures::use(ValueId id, Structure& structure) {
  if (visit_of_[slot(id)] == visit_) {
    structure.push_back(number_[slot(id)]);
    return;
  }
  const Eqn* producer = producers_[slot(id)];
  if (producer != nullptr && (is_view(graph_, *producer) || is_known(*producer))) {
    add(*producer, structure);
  } else {
    visit_of_[slot(id)] = visit_;
    number_[slot(id)] = next_++;
    structure.push_back(0);
  }
}

void GroupStructures::add(const Eqn& eqn, Structure& structure) {
  structure.push_back(classes_.of(eqn));
  for (const ValueId id : eqn.inputs) use(id, structure);
  for (const ValueId id : eqn.outputs) {
    visit_of_[slot(id)] = visit_;
    number_[slot(id)] = next_++;
  }
}

GroupStructures::Structure GroupStructures::of(const std::vector<std::size_t>& group) {
  ++visit_;
  next_ = 1;
  Structure structure;
  for (const std::size_t i : group) add(graph_.eqns[i], structure);
  return structure;
}

GroupStructures::Structure GroupStructures::of(std::span<const Eqn* const> eqns, std::span<const ValueId> results) {
  ++visit_;
  next_ = 1;
  Structure structure;
  const auto number_of = [&](ValueId id) {
    if (visit_of_[slot(id)] != visit_) {
      visit_of_[slot(id)] = visit_;
      number_[slot(id)] = next_++;
    }
    return number_[slot(id)];
  };
  for (const Eqn* eqn : eqns) {
    structure.push_back(classes_.of(*eqn));
    for (const ValueIds* ids : {&eqn->inputs, &eqn->outputs}) {
      for (const ValueId id : *ids) structure.push_back(number_of(id));
    }
  }
  structure.push_back(0);  // No equation's class.
  for (const ValueId id : results) structure.push_back(number_of(id));
  return structure;
}

}  // namespace shoal::cpu
