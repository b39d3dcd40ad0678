// `shoal agent`: the part of `shoal run` on another host.
#pragma once

namespace shoal::tool {

/// Does what the frames on standard input say, and tells by frames on standard output what happens. The end of standard
/// input ends the processes. Returns the exit code.
int run_agent();

}  // namespace shoal::tool
