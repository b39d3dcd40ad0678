// Why a call needs a program of its own.
#pragma once

#include <string>
#include <vector>

#include "frontend/transforms/jit_impl.h"

namespace shoal::detail {

/// Of the calls that one program serves, all that it depends on.
struct CallKind {
  const TreeDef& tree;  ///< Of the arguments that are not static.
  const std::vector<LeafKey>& leaves;
  const std::vector<StaticValue>& statics;
  const Mesh& context;  ///< That of set_mesh.
};

/// What distinguishes a call from another one, a text for each: "argument [0] is f32[8], not f32[4]".
std::vector<std::string> differences(const CallKind& call, const CallKind& other);

}  // namespace shoal::detail
