// How costs are told to the authors of programs.
#pragma once

#include <string>

namespace shoal {

/// "1.5 KiB".
std::string bytes_text(double bytes);
/// "16.38 k": of operations.
std::string count_text(double count);
/// "1.25 us".
std::string seconds_text(double seconds);

}  // namespace shoal
