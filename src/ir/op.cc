#include "ir/op.h"

namespace shoal {

Linear linear_in(const OpDef& op, const Attrs& attrs, std::size_t i) {
  const Attr* kind = attrs.find("kind");
  return kind != nullptr && std::get<std::string>(*kind) != name_of(ReduceKind::kSum) ? Linear::kNo : op.linear[i];
}

}  // namespace shoal
