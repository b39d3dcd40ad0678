// What the processes of a step give each other: parts of arrays that one holds and others read.
//
// A step of a program needs, in each process, the data that its own results are made from. Which process needs what of
// whom follows from the mesh and the shapes, so all work out the same list of transfers, and nobody asks for anything.
// Between two processes they are made in the order of the list.
//
// What several processes of a host need of another host crosses once: one of them gets it, and gives it to the others
// once it has arrived. Small parts go straight to each, as that is one message after the other less.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "comm/record/communicator.h"
#include "comm/record/waiting.h"
#include "comm/transport/region.h"
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
  ///
  /// Of processes in several parties, those of one do not know whether others come to this exchange: `parties` has the
  /// party of each, or is empty. Each reads from its own.
  Exchange(const std::vector<int>& processes, FunctionRef<void(int process, std::vector<Need>& needs)> add_needs,
           FunctionRef<std::vector<int>(std::int32_t operand, std::int32_t shard)> holders,
           std::span<const int> parties = {});

  /// Whether every process finds what it reads in its own party; the same in all processes.
  bool is_possible() const { return is_possible_; }

  /// Whether this process neither sends nor receives anything.
  bool empty() const { return peers_.empty(); }

  /// Whether some process sends what it has got in the same exchange. If not, all is sent when a run begins.
  bool relays() const { return relays_; }

  /// What this process gets from others.
  std::size_t received_bytes() const;

  /// What one step calls an exchange, for its messages.
  struct Step {
    Communicator& communicator;
    MessageTag tag;  ///< Without part and bytes.
    std::string_view name;
    SourceLocation where;
    std::uint64_t trip = 0;  ///< Of the loop that it is in, from 1 on.
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
  ///
  /// Runs may begin before others have received, if those relay nothing; they receive in the order in which they began.
  class Run {
   public:
    /// Sends what this process has to; find(operand, shard) tells where shards are.
    Run(const Exchange& exchange, const Step& step, Find find);
    Run(Run&&) = default;
    /// Lets arrive what others send while this process does something else. It must not wait for other messages of
    /// these processes before receive() but those of runs that began before.
    void expect();
    /// Moves on what is under way, where nobody else does.
    void move_on();
    /// Waits for what others send, and tells where the shards begin; only the needed parts are there. What is left
    /// there from sets of processes whose work has failed is dropped. Throws Disagreement if the rest is not what this
    /// step expects, and what ends the job or the communicator.
    void receive(Arrived arrived);
    /// Says that what arrived is read.
    void release();
    /// Whether others have read what was sent from outside of buffers, or would not reach them without this process.
    /// What was sent on is kept so long.
    bool is_read() const;
    /// Waits until they have. Throws as receive() does.
    void wait_until_read();
    void finish() {
      release();
      wait_until_read();
    }

   private:
    // What is still to come of a peer: messages, and bytes of those that may be copied on their way.
    struct Left {
      std::size_t messages = 0;
      std::size_t bytes = 0;
    };
    struct Forget {
      void operator()(const Exchange* exchange) const noexcept;
    };

    MessageTag tag_of(const Transfer& transfer) const;
    void send(const Transfer& transfer, const Held& held);
    void receive_from(std::span<const Transfer> transfers, std::span<Left> left, Arrived arrived);
    void wait_for(Channel& channel, Awaited awaited, FunctionRef<bool()> is_over);
    const MessageTag& next_message(Channel& channel, bool is_first);
    void check_tag(const Transfer& receive, const MessageTag& tag) const;
    void release_relayed() const;

    const Exchange& exchange_;
    Step step_;
    std::unique_ptr<const Exchange, Forget> expects_;  // Null unless channels expect what it receives.
    // By peer, the number of the last message that is to be waited for, and of the last that was accepted.
    boost::container::small_vector<std::uint64_t, 4> sent_;
    boost::container::small_vector<std::uint64_t, 4> accepted_;
    std::vector<std::unique_ptr<std::byte[]>> kept_;  // Copies of payloads.
  };

 private:
  // Of what a process sends or receives: what goes at once, and what goes on from those that have got it.
  struct Legs {
    std::vector<Transfer> first;
    std::vector<Transfer> second;
  };

  std::size_t peer_index(int process) const;

  std::vector<int> peers_;  // Those that this process sends to or receives from, ascending.
  Legs sends_;
  Legs receives_;             // By sender.
  std::vector<int> relayed_;  // Those from whom comes what this process sends on, ascending.
  bool relays_ = false;
  bool is_possible_ = true;
};

/// Which of those that hold something gives it to a reader: one on its host, if there is one. Of them, others serve
/// other readers.
int provider_of(int reader, const std::vector<int>& holders);

/// The processes that hold a shard of a value that varies over `varying`.
std::vector<int> holders_of(const Grid& grid, AtomSet varying, std::int64_t shard);

}  // namespace shoal
