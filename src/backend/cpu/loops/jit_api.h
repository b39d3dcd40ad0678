// What the library and the plugin `jit` say to each other: loops in, machine code out.
//
// The code is an image: position-independent, without references to anything outside it, so that it can be kept in a
// file and needs neither the plugin nor a linker to be run. It reaches C++ through JitHelpers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/loops/jit_helpers.h"
#include "backend/cpu/loops/loop.h"
#include "backend/cpu/loops/routine.h"

namespace shoal::cpu {

struct JitImage {
  std::vector<std::byte> bytes = {};  ///< To be put at the start of a page.
  std::size_t entry = 0;              ///< Where in it the JitFunction begins.
  std::string error = {};             ///< Why there is no code; else empty.
};

struct JitApi {
  /// A hash of the plugin's sources and of LLVM's version: code made by others is not taken for its own.
  static constexpr std::uint64_t kVersion = SHOAL_JIT_VERSION;

  /// Code for the processor that runs this. Thread-safe.
  JitImage (*compile)(const Loop& loop);
  JitImage (*compile_routine)(const Routine& routine);
};

}  // namespace shoal::cpu
