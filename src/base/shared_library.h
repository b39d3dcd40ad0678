// Shared libraries of the system that Shoal uses where they are installed.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace shoal {

/// A library that is never closed: threads of its own may still run in it.
class SharedLibrary {
 public:
  /// Loads the first of these that is there, names or paths.
  explicit SharedLibrary(std::initializer_list<std::string> names) {
    for (const std::string& name : names) {
      if (handle_ == nullptr && !name.empty()) handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }

  explicit operator bool() const { return handle_ != nullptr; }

  /// Sets a pointer to the function of this name. False if the library does not have it, or is not there.
  template <class F>
  bool find(const char* name, F*& function) const {
    function = handle_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace shoal
