// Data that processes have apart from each other, exchanged among them.
//
// All processes of a list call these functions in one order, as they call programs. With one process they exchange
// nothing.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "core/buffer.h"
#include "shoal/error.h"

namespace shoal {

/// What should be the same in all processes is not.
class ValuesDiffer : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// All processes of the job.
std::vector<int> all_processes();

/// What each of `processes` gives, in their order.
std::vector<Digest> gather_digests(const std::vector<int>& processes, const Digest& mine, std::string_view what,
                                   SourceLocation where);

std::vector<std::array<Digest, 2>> gather_digests(const std::vector<int>& processes, const std::array<Digest, 2>& mine,
                                                  std::string_view what, SourceLocation where);

/// Those of `processes` whose digest is not that of the first.
std::vector<int> differing(const std::vector<int>& processes, const std::vector<Digest>& digests);

/// Throws ValuesDiffer, beginning with `what` and saying who differs, unless the digests of all `processes` are the
/// same.
void check_same(const std::vector<int>& processes, const std::vector<Digest>& digests, std::string_view what,
                SourceLocation where);
/// Throws ValuesDiffer in all of `processes`, beginning with `what` and saying who differs, unless all give the
/// same.
void check_agreed(const std::vector<int>& processes, const Digest& digest, std::string_view what, SourceLocation where);

/// The buffers of all processes, which have one type, one after the other in an array with one more dimension. The
/// caller has checked the types.
Buffer gather_buffers(const std::vector<int>& processes, const Buffer& mine, std::string_view what,
                      SourceLocation where);

/// That of the process `source`, in all of them. The caller has checked the types.
Buffer broadcast_buffer(const std::vector<int>& processes, int source, const Buffer& mine, std::string_view what,
                        SourceLocation where);

}  // namespace shoal
