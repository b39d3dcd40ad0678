// What is to end before the static objects of libraries are destroyed.
//
// When a process exits, what was made last is destroyed first. Libraries make static objects when they are loaded, and
// a task that still runs may use them. So the functions that wait for tasks are registered anew after that. Static
// objects that a library makes when it is first used have to be made before a task uses it, too (plugin_onednn), or
// must not be destroyed at all (plugin_jit).
#pragma once

namespace shoal {

/// Calls `finish` when the process exits; maybe several times.
void at_exit(void (*finish)());

/// All that libraries have made so far is destroyed after those functions have been called. To be called after a
/// library has been loaded, or has made static objects.
void keep_until_finished() noexcept;

}  // namespace shoal
