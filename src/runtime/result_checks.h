// A look at the results of programs for NaN and infinities, as debug::check_results asks for it.
#pragma once

#include <string_view>

#include "runtime/device_array.h"
#include "shoal/error.h"

namespace shoal {

/// A result that is NaN, or infinite, while these are looked for (Python: FloatingPointError).
class NotFinite : public InvalidState {
 public:
  using InvalidState::InvalidState;
};

/// What is looked for in the results of all programs of this process.
void set_result_checks(bool nans, bool infinities);
bool are_results_checked();

/// Waits for the results and looks at what this process has of them. Throws NotFinite, naming the program.
void check_results(const DeviceArrays& results, std::string_view program, SourceLocation where);

}  // namespace shoal
