// `shoal explain-hang`: where the processes of a job stood, from the files that their flight recorders left.
#pragma once

#include <string>

namespace shoal::tool {

/// Reads the files of a folder (SHOAL_FLIGHT_RECORDER) and prints what each process did last, and for each set of
/// processes where they went different ways. Returns the exit code: 1 if there is no such file.
int explain_hang(const std::string& folder, bool as_json);

}  // namespace shoal::tool
