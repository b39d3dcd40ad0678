// A process that ends others should this one be killed.
#pragma once

#include <sys/types.h>

#include "descriptor.h"

namespace shoal::tool {

/// Knows process groups, and sends SIGKILL to all of them as soon as this process is no more, however it ended. It
/// learns that from the end of a pipe, and lives in a session of its own, so that what kills this process's group or
/// terminal does not end it.
class Guardian {
 public:
  /// Forks. To be made before there are threads or other children.
  Guardian();
  /// The groups still known are killed.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void add(pid_t group) { tell(group); }
  void remove(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);

  Descriptor pipe_;
  pid_t pid_ = 0;
};

}  // namespace shoal::tool
