// The number of this process in its job.
#pragma once

namespace shoal {

/// 0 unless set_this_process() said otherwise.
int this_process();
/// Once, before anything uses a device.
void set_this_process(int number);

}  // namespace shoal
