#include "backend/cpu/group_structure.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <utility>

#include "backend/cpu/loops/loop_shape.h"

namespace shoal::cpu {

std::size_t GroupStructures::Hash::operator()(const Structure& structure) const {
  return boost::hash_range(structure.begin(), structure.end());
}

std::size_t GroupStructures::HashValue::operator()(const Value* value) const {
  std::size_t seed = static_cast<std::size_t>(value->type.dtype);
  boost::hash_range(seed, value->type.shape.begin(), value->type.shape.end());
  return seed;
}

bool GroupStructures::EqualValues::operator()(const Value* a, const Value* b) const { return *a == *b; }

bool GroupStructures::EqnKey::operator==(const EqnKey& other) const {
  return eqn->op == other.eqn->op && values == other.values && eqn->attrs == other.eqn->attrs;
}

std::size_t GroupStructures::HashEqn::operator()(const EqnKey& key) const {
  std::size_t seed = boost::hash_range(key.values.begin(), key.values.end());
  boost::hash_combine(seed, key.eqn->op);
  return seed;
}

std::uint32_t GroupStructures::class_of(ValueId id) {
  std::uint32_t& known = class_of_value_[slot(id)];
  if (known == 0) {
    const auto next = static_cast<std::uint32_t>(values_.size() + 1);
    known = values_.try_emplace(&graph_.value(id), next).first->second;
  }
  return known;
}

std::uint32_t GroupStructures::class_of(const Eqn& eqn) {
  std::uint32_t& known = class_of_eqn_[static_cast<std::size_t>(&eqn - graph_.eqns.data())];
  if (known == 0) {
    EqnKey key{.eqn = &eqn, .values = {}};
    for (const std::vector<ValueId>* ids : {&eqn.inputs, &eqn.outputs}) {
      for (const ValueId id : *ids) key.values.push_back(class_of(id));
    }
    const auto next = static_cast<std::uint32_t>(eqns_.size() + 1);
    known = eqns_.try_emplace(std::move(key), next).first->second;
  }
  return known;
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
  structure.push_back(class_of(eqn));
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

}  // namespace shoal::cpu
