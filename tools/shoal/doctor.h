// `shoal doctor`: what Shoal sees of this machine.
#pragma once

namespace shoal::tool {

/// Prints the results of all checks, as lines or as a JSON object. Returns the exit code: 1 if a check failed.
int run_doctor(bool as_json);

}  // namespace shoal::tool
