// The device of new arrays, and of programs whose arrays are all uncommitted.
#pragma once

#include <optional>

#include "shoal/device.h"
#include "shoal/error.h"

namespace shoal {

/// The device of new arrays on this thread, and of programs whose arrays are all uncommitted: the first device of this
/// process, unless another one is set. Under set_mesh such programs run over its mesh.
Device default_device();

/// Sets the default device of this thread; nullopt means the first device of this process. Arrays that exist already
/// stay where they are. Throws InvalidArgument for a device of another process.
/// @param device The device; none: the first one of this process.
void set_default_device(std::optional<Device> device, SourceLocation where = SourceLocation::current());

/// Sets the default device until the end of a scope.
class use_default_device {
 public:
  /// @param device The device.
  explicit use_default_device(const Device& device, SourceLocation where = SourceLocation::current());
  ~use_default_device();
  use_default_device(const use_default_device&) = delete;
  use_default_device& operator=(const use_default_device&) = delete;

 private:
  std::optional<Device> before_;
};

}  // namespace shoal
