// What machine code depends on.
#pragma once

#include <string>

namespace shoal::cpu {

/// Kind and features of the processor, as bytes: equal on processors that can run each other's code, and are tuned
/// for alike.
std::string processor_identity();

}  // namespace shoal::cpu
