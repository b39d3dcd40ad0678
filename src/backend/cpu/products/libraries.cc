#include "backend/cpu/products/libraries.h"

#include "base/at_exit.h"
#include "base/plugin.h"

namespace shoal::cpu {
namespace {

const OnednnApi* loaded_onednn() {
  static const OnednnApi* const api = plugin<OnednnApi>("onednn");
  return api;
}

}  // namespace

const BlasApi* blas() {
  static const BlasApi* const api = plugin<BlasApi>("blas");
  return api;
}

const OnednnApi* onednn_for(Dtype operands) {
  const OnednnApi* const api = loaded_onednn();
  return api != nullptr && api->offers(operands, keep_until_finished) ? api : nullptr;
}

}  // namespace shoal::cpu
