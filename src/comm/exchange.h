// What the processes of a step give each other: parts of arrays that one holds and others read.
//
// A step of a program needs, in each process, the data that its own results are made from. Which process needs what of
// whom follows from the mesh and the shapes, so all work out the same list of transfers, and nobody asks for anything.
// Between two processes they are made in the order of the list.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "comm/region.h"
#include "comm/waiting.h"
#include "sharding/placement.h"
#include "shoal/error.h"

namespace shoal {

/// A part of an operand's shard that somebody reads.
struct Need {
  std::int32_t operand;
  std::int32_t shard;
  Region region;
};

/// One part that goes from a process to another.
struct Transfer {
  int from;
  int to;
  std::uint32_t part;  ///< Its number among those between the two.
  Need need;
};

class Exchange {
 public:
  /// Of what each of `processes` reads, as `add_needs` lists it, and of which it is no holder itself. `holders` gives
  /// the processes that hold a shard of an operand, ascending; provider_of() says from whom each reader has it.
  Exchange(const std::vector<int>& processes, FunctionRef<void(int process, std::vector<Need>& needs)> add_needs,
           FunctionRef<std::vector<int>(std::int32_t operand, std::int32_t shard)> holders);

  /// Whether this process neither sends nor receives anything.
  bool empty() const { return sends_.empty() && receives_.empty(); }

  /// What this process gets from others.
  std::size_t received_bytes() const;

  /// What one step calls an exchange, for its messages.
  struct Step {
    Communicator& communicator;
    MessageTag tag;  ///< Without part and bytes.
    std::string_view name;
    SourceLocation where;
  };
  /// A shard, and the buffer in which it lies if nobody writes that while others hold it.
  struct Held {
    const std::byte* data;
    const Buffer* buffer = nullptr;
  };
  using Find = FunctionRef<Held(std::int32_t operand, std::int32_t shard)>;
  using Arrived = FunctionRef<void(std::int32_t operand, std::int32_t shard, const std::byte* data)>;

  /// An exchange under way. What arrived stays there until release(), and what is sent as it is until is_read(), unless
  /// it lies in buffers. Whoever does not come so far leaves the others without what they wait for: the communicator
  /// has failed.
  class Run {
   public:
    /// Sends what this process has to; find(operand, shard) tells where shards are.
    Run(const Exchange& exchange, const Step& step, Find find);
    Run(Run&&) = default;
    /// Waits for what others send, and tells where the shards begin; only the needed parts are there. What is left
    /// there from sets of processes whose work has failed is dropped. Throws Disagreement if the rest is not what this
    /// step expects, and what ends the job or the communicator.
    void receive(Arrived arrived);
    /// Says that what arrived is read.
    void release();
    /// Whether others have read what was sent from outside of buffers, or would not reach them without this process.
    bool is_read() const;
    /// Waits until they have. Throws as receive() does.
    void wait_until_read();
    void finish() {
      release();
      wait_until_read();
    }

   private:
    void wait_for(Channel& channel, Awaited awaited, FunctionRef<bool()> is_over);
    const MessageTag& next_message(Channel& channel, bool is_first);
    void check_tag(const Transfer& receive, const MessageTag& tag) const;

    const Exchange& exchange_;
    Step step_;
    // By peer, the number of the last message that is to be waited for, and of the last that was accepted.
    boost::container::small_vector<std::uint64_t, 4> sent_;
    boost::container::small_vector<std::uint64_t, 4> accepted_;
    std::vector<std::unique_ptr<std::byte[]>> kept_;  // Copies of payloads.
  };

 private:
  std::size_t peer_index(int process) const;

  std::vector<int> peers_;  // Those that this process sends to or receives from, ascending.
  std::vector<Transfer> sends_;
  std::vector<Transfer> receives_;  // By sender.
};

/// Which of those that hold something gives it to a reader: one on its host, if there is one. Of them, others serve
/// other readers.
int provider_of(int reader, const std::vector<int>& holders);

/// The processes that hold a shard of a value that varies over `varying`.
std::vector<int> holders_of(const Grid& grid, AtomSet varying, std::int64_t shard);

}  // namespace shoal
