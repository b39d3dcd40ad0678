// What a child made by fork() must not have.
//
// A child holds copies of its parent's sockets, so that others would not see the parent die; and it has none of its
// threads. The sockets named here are closed in children that do not call exec; those that do get none, being opened
// with CLOEXEC.
#pragma once

namespace shoal {

/// From now on children close this descriptor. Call it right after opening.
void close_in_children(int descriptor);
/// The contrary. Call it right before closing.
void keep_in_children(int descriptor);

/// Whether this process was made by fork() after its parent called close_in_children.
bool is_forked_child() noexcept;

}  // namespace shoal
