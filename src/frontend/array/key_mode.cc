#include "frontend/array/key_mode.h"

#include <atomic>

namespace shoal {
namespace {

std::atomic<KeyMode> chosen_mode = KeyMode();

}  // namespace

KeyMode key_mode() { return chosen_mode.load(std::memory_order_relaxed); }
void set_key_mode(KeyMode mode) { chosen_mode = mode; }

}  // namespace shoal
