// Which keys of random numbers have been used, for debug::check_key_reuse.
//
// Each key has an identity, which it keeps where it is moved. Graphs are read equation by equation, with the identities
// of the keys that they are called with.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "shoal/array.h"

namespace shoal {

/// The keys that a call of a graph on concrete arrays uses, from its beginning to its end: to be made before the call,
/// which is not done if that throws.
class KeyUses {
 public:
  /// Throws KeyReuseError if a key is used that was used before, or twice here.
  KeyUses(const Graph& graph, std::span<const Array> operands);
  KeyUses(const KeyUses&) = delete;
  KeyUses& operator=(const KeyUses&) = delete;
  ~KeyUses();

  /// The call gave these.
  void done(std::span<const Array> results);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The keys of an array on devices, where they have been moved: they are still the same.
void follow_keys(const Array& from, const Array& to);

}  // namespace shoal
