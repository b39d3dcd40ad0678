// The calls that a jitted or compiled function has seen: they are found by the kinds of their arrays, without a look at
// trees, types or shardings.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "frontend/array/key_mode.h"
#include "runtime/program.h"
#include "sharding/default_place.h"
#include "shoal/callable.h"

namespace shoal::detail {

struct Traced;

/// A program for arguments of these kinds, which lie where it wants them.
struct Launch {
  CallKey key;  ///< Without the arrays.
  boost::container::small_vector<KindPtr, 8> kinds;
  Mesh context;  ///< Of set_mesh.
  DefaultPlace place;
  KeyMode keys;
  std::shared_ptr<const Traced> traced;
  std::shared_ptr<const Program> program;
};

/// May be used from any thread.
class Launches {
 public:
  /// While there is one, launches that were found stay alive.
  class Use {
   public:
    explicit Use(Launches& launches) : launches_(launches) { ++launches_.uses_; }
    ~Use() { --launches_.uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Launches& launches_;
  };

  /// The launch for a call outside any trace, with the values of its arguments. Null if there is none, and if an
  /// argument has no elements.
  const Launch* find(const CallKey& call, DeviceArrays& values);
  /// Remembers what a call has launched; `leaves` are its arrays where the program wants them. A call of which arrays
  /// had to be moved is not remembered.
  void add(const CallKey& call, const std::vector<Array>& leaves, std::shared_ptr<const Traced> traced,
           std::shared_ptr<const Program> program);
  /// Forgets all launches. If there is a Use they stay alive until the next clear(), or as long as this object.
  void clear();

 private:
  using ByHash = std::unordered_multimap<std::size_t, const Launch>;  // By the hashes of their calls.

  const Launch* find(const CallKey& call);

  std::atomic<const Launch*> last_{nullptr};
  std::atomic<std::int64_t> uses_{0};
  std::mutex mutex_;
  ByHash launches_;
  std::vector<ByHash> forgotten_;
};

}  // namespace shoal::detail
