#include "ir/eqn_classes.h"

#include <boost/container_hash/hash.hpp>
#include <utility>

namespace shoal {

std::size_t EqnClasses::HashValue::operator()(const Value* value) const {
  std::size_t seed = static_cast<std::size_t>(value->type.dtype);
  boost::hash_range(seed, value->type.shape.begin(), value->type.shape.end());
  return seed;
}

bool EqnClasses::EqnKey::operator==(const EqnKey& other) const {
  return eqn->op == other.eqn->op && eqn->inputs.size() == other.eqn->inputs.size() && values == other.values &&
         eqn->attrs == other.eqn->attrs;
}

std::size_t EqnClasses::HashEqn::operator()(const EqnKey& key) const {
  std::size_t seed = boost::hash_range(key.values.begin(), key.values.end());
  boost::hash_combine(seed, key.eqn->op);
  return seed;
}

std::uint32_t EqnClasses::of(ValueId id) {
  if (class_of_value_.empty()) class_of_value_.resize(graph_.values.size());
  std::uint32_t& known = class_of_value_[slot(id)];
  if (known == 0) {
    const auto next = static_cast<std::uint32_t>(values_.size() + 1);
    known = values_.try_emplace(&graph_.value(id), next).first->second;
  }
  return known;
}

std::uint32_t EqnClasses::of(const Eqn& eqn) {
  if (class_of_eqn_.empty()) class_of_eqn_.resize(graph_.eqns.size());
  std::uint32_t& known = class_of_eqn_[static_cast<std::size_t>(&eqn - graph_.eqns.data())];
  if (known == 0) {
    EqnKey key{.eqn = &eqn, .values = {}};
    key.values.reserve(eqn.inputs.size() + eqn.outputs.size());
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (const ValueId id : *ids) key.values.push_back(of(id));
    }
    const auto next = static_cast<std::uint32_t>(eqns_.size() + 1);
    known = eqns_.try_emplace(std::move(key), next).first->second;
  }
  return known;
}

}  // namespace shoal
