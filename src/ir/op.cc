#include "ir/op.h"

namespace shoal {

Linear linear_in(const RuleContext& eqn, std::size_t i) {
  if (eqn.op.is_exact != nullptr && !eqn.op.is_exact(eqn)) return Linear::kNo;
  const auto* kind = eqn.attrs.find_as<std::string>("kind");
  return kind != nullptr && *kind != name_of(ReduceKind::kSum) ? Linear::kNo : eqn.op.linear[i];
}

}  // namespace shoal
