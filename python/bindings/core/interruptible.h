// Long waits that Ctrl-C ends.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "bindings/core/convert.h"
#include "runtime/lane.h"

namespace shoal::python {

/// Runs `body` on a thread of its own, and waits for it without the GIL. Where a signal's handler raises, such as that
/// of Ctrl-C, that is raised, and the body is left to end by itself: it must own what it uses, or its caller must not
/// go on to use that. For waits between processes, beside which a thread costs nothing.
template <class F>
void interruptible(F body) {
  // Only the main thread runs handlers of signals.
  const nb::module_ threading = nb::module_::import_("threading");
  if (!threading.attr("current_thread")().is(threading.attr("main_thread")())) {
    unlocked(body);
    return;
  }
  auto task = std::make_shared<std::packaged_task<void()>>(std::move(body));
  std::future<void> done = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (true) {
    const bool is_done =
        unlocked([&] { return done.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready; });
    if (is_done) break;
    if (PyErr_CheckSignals() != 0) {
      Lane::give_up_loops();
      throw nb::python_error();
    }
  }
  done.get();
}

}  // namespace shoal::python
