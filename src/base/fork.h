// What a child made by fork() must not have.
//
// A child holds copies of its parent's sockets, so that others would not see the parent die; and it has none of its
// threads. The descriptors opened here are closed in children that do not call exec, before fork() returns there; those
// that do get none, being opened with CLOEXEC.
#pragma once

#include "base/function_ref.h"

namespace shoal {

/// What open() returns: a new descriptor that children close, or a negative number, with errno as open() left it. No
/// child is made before that is settled, so open() does not wait.
int open_for_this_process(FunctionRef<int()> open);
/// Closes it. In a child, which has closed it, the number may be that of something else, and nothing is done.
void close_for_this_process(int descriptor) noexcept;

/// Whether this process was made by fork() after its parent called open_for_this_process.
bool is_forked_child() noexcept;

}  // namespace shoal
