// What a property of values does in the bodies of an equation: that they have a tangent, or are mapped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "ir/op.h"

namespace shoal {

/// Which of the arguments and results of an equation's bodies have the property.
struct BodyFlags {
  std::vector<bool> arguments;
  std::vector<bool> results;
};

/// The least flags from these arguments on of which all bodies agree: a carry that is yielded with the property begins
/// with it, and what one branch gives with it others do, too. `rewrite` rewrites body `b` for flags, whose results it
/// has to give with the property, and says which have it. What its last calls have made goes together.
inline BodyFlags settle(const Control& control, std::vector<bool> arguments, std::size_t num_results,
                        std::size_t num_bodies,
                        FunctionRef<std::vector<bool>(std::size_t b, const BodyFlags& flags)> rewrite) {
  BodyFlags flags{.arguments = std::move(arguments), .results = std::vector<bool>(num_results)};
  const std::size_t carries = control.loops ? control.carries : 0;
  for (bool settled = false; !settled;) {
    for (std::size_t i = 0; i < carries; ++i) flags.results[i] = flags.arguments[i];
    const BodyFlags given = flags;
    std::vector<std::vector<bool>> made;
    for (std::size_t b = 0; b < num_bodies; ++b) {
      made.push_back(rewrite(b, given));
      for (std::size_t i = 0; i < num_results; ++i) flags.results[i] = flags.results[i] || made.back()[i];
    }
    for (std::size_t i = 0; i < carries; ++i) flags.arguments[i] = flags.results[i];
    settled = flags.arguments == given.arguments &&
              std::ranges::all_of(made, [&](const std::vector<bool>& one) { return one == flags.results; });
  }
  return flags;
}

}  // namespace shoal
