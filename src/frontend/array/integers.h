// What becomes of an integer that the dtype it is taken in does not hold.
#pragma once

namespace shoal {

/// Of this process: an error, as at first and in C++, or its low bits, as of the numbers of Python.
void set_integers_wrap(bool wrap);

}  // namespace shoal
