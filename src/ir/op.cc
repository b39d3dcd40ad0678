#include "ir/op.h"

namespace shoal {

Linear linear_in(const RuleContext& eqn, std::size_t i) {
  if (eqn.op.is_exact != nullptr && !eqn.op.is_exact(eqn)) return Linear::kNo;
  const Attr* kind = eqn.attrs.find("kind");
  return kind != nullptr && std::get<std::string>(*kind) != name_of(ReduceKind::kSum) ? Linear::kNo : eqn.op.linear[i];
}

}  // namespace shoal
