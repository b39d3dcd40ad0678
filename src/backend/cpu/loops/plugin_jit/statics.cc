// The plugin's static objects, LLVM's above all, are never destroyed.
//
// A program may end while a loop is being compiled, and LLVM makes some of its static objects when it compiles first.
// As exit() destroys what was made last first, no handler that is registered before could wait for the compilation. The
// plugin is never unloaded, so nothing is lost: what registers destructors here finds this function and no other.
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }
