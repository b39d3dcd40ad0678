// Plugins: shared libraries with what costs start-up time (LLVM, BLAS), loaded when first needed.
//
// A plugin is built by add_shoal_plugin in CMakeLists.txt. It exports one function, which returns its table of
// functions:
//
//   SHOAL_PLUGIN(jit, JitApi) { static const JitApi api{...}; return &api; }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoal {

/// The table of the plugin `name`, loaded at the first call; nullptr if it cannot be loaded. Where it was looked for
/// and why that failed is told once as a warning, or in `why`, if that is given. `version` is what the library was
/// built with; a plugin of another build is refused. It is looked for in SHOAL_PLUGIN_PATH if that is set, else beside
/// the library or the program that holds it, and where it was installed. Thread-safe.
const void* load_plugin(std::string_view name, std::uint64_t version, std::string* why = nullptr);

/// The same, typed. Api::kVersion must change whenever the layout of the table or of what it passes changes.
template <class Api>
const Api* plugin(std::string_view name) {
  return static_cast<const Api*>(load_plugin(name, Api::kVersion));
}

}  // namespace shoal

/// Defines the one function that a plugin exports.
#define SHOAL_PLUGIN(name, Api)                                                                              \
  static const void* shoal_plugin_table();                                                                   \
  extern "C" __attribute__((visibility("default"))) const void* shoal_plugin_##name(std::uint64_t version) { \
    return version == Api::kVersion ? shoal_plugin_table() : nullptr;                                        \
  }                                                                                                          \
  static const void* shoal_plugin_table()
