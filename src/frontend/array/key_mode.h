// What functions of random do that no argument says, as this process has chosen. What is traced depends on it.
#pragma once

#include <cstdint>

namespace shoal {

/// The implementations of random numbers.
enum class KeyImplementation : std::uint8_t { kThreefry, kRbg, kUnsafeRbg };

struct KeyMode {
  KeyImplementation implementation = KeyImplementation::kThreefry;  ///< Of raw keys, and of keys where none is said.
  bool checks_reuse = false;                                        ///< Whether uses of keys are recorded.
  friend bool operator==(const KeyMode&, const KeyMode&) = default;
};

KeyMode key_mode();
void set_key_mode(KeyMode mode);

}  // namespace shoal
