// Copies of the state that processes keep in memory for each other.
//
// A process keeps, of each array, the shards that it holds: that costs nothing but their memory, as buffers do not
// change. What no other process holds it also gives to a neighbour, on another host if there is one. So whichever
// process is lost, what it held is still somewhere. The copies of one step replace those of the step before once all
// processes have theirs, so that a loss meanwhile leaves those.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "sharding/box.h"
#include "shoal/array.h"

namespace shoal::elastic {

class Copies {
 public:
  /// Keeps a copy of these arrays, as they are after `step` steps. All processes call it with the same arrays; it waits
  /// for these, and for what a neighbour gives. Throws what makes an array fail, and as programs on several processes
  /// do.
  void take(std::int64_t generation, std::int64_t step, const std::vector<Array>& leaves);
  /// All processes have the last copy: older ones are not needed any more.
  void keep_last();
  /// Gives those of the processes that stay what no other one of them has, as the others leave. All processes of the
  /// job call it.
  void hand_over(const std::vector<int>& staying);
  /// Forgets all.
  void clear() { copies_.clear(); }

  struct Restored {
    std::int64_t step = 0;
    std::vector<Array> leaves;
  };
  /// The arrays of the last copy of which the processes of the job together have all parts; they lie as those of `like`
  /// do. All processes call it. nullopt if there is no such copy. Throws InvalidArgument, naming the path, if shapes or
  /// dtypes are others than those of `like`.
  std::optional<Restored> restore(const std::vector<Array>& like, const std::vector<std::string>& paths);

 private:
  // A part of an array.
  struct Piece {
    std::size_t leaf;
    Dtype dtype;  // Of the array; buffers of keys may have that of their words.
    Box box;
    Buffer elements;
  };
  // What this process has of a copy. Those of other generations are of other runs of the same steps, on other meshes.
  struct Copy {
    std::int64_t generation;
    std::int64_t step;
    std::vector<Piece> pieces;
  };
  struct Stock;

  std::vector<Stock> stocks() const;

  std::vector<Copy> copies_;  // The last one at the end.
};

}  // namespace shoal::elastic
