// What is to end before the static objects of libraries are destroyed.
//
// When a process exits, what was made last is destroyed first. Libraries make some of their static objects when they
// are loaded, some when they are first used; a task that still runs may use them. So the functions that wait for tasks
// are registered anew after that.
#pragma once

namespace shoal {

/// Calls `finish` when the process exits; maybe several times.
void at_exit(void (*finish)());

/// All that libraries have made so far is destroyed after those functions have been called. To be called after the
/// first use of a library.
void keep_until_finished() noexcept;

}  // namespace shoal
