// What an Array points to.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "comm/collectives/shard_set.h"
#include "ir/explicit_axes.h"
#include "ir/graph.h"
#include "runtime/device_array.h"
#include "shoal/array.h"
#include "shoal/numpy.h"
#include "shoal/tree.h"

namespace shoal {

class Layer;
class Mapping;
class Tape;
class Trace;

namespace detail {

/// How an array lost its elements, "deleted" or "donated to 'step'", and the user's line where it did.
struct Deletion {
  std::string how;
  SourceLocation where = Caller::line();
};

/// What stands for elements that are not there.
struct Abstract {
  Type type;
  std::shared_ptr<Trace> trace = {};       ///< Of a tracer.
  ValueId value = -1;                      ///< Of a tracer: its value in the trace's graph.
  std::optional<Sharding> would_lie = {};  ///< Of a type alone: the sharding that was given with it.
  std::shared_ptr<Layer> layer = {};       ///< Of an array of a layer,
  Array outside = {};                      ///< and what that is outside of it; empty if it is a tangent alone.
  const Tape* tape = nullptr;              ///< The layer, if it is a tape, of which `value` is the tangent,
  const Mapping* mapping = nullptr;        ///< or if it is a mapping,
  std::size_t dim = 0;                     ///< and which dimension of `outside` is mapped.
};

/// An array on devices, a value of a trace, one of these with a tangent, or a type alone.
struct ArrayImpl {
  explicit ArrayImpl(DeviceArray array)
      : type(array.kind->type), kind(std::move(array.kind)), shards_(std::move(array.shards)) {}
  explicit ArrayImpl(std::unique_ptr<const Abstract> what) : type(what->type), abstract(std::move(what)) {}

  const Type& type;
  const KindPtr kind;                              ///< Of an array on devices.
  const std::unique_ptr<const Abstract> abstract;  ///< Of a tracer or a type alone.

  /// The trace of a tracer, or nullptr.
  const Trace* trace() const { return abstract == nullptr ? nullptr : abstract->trace.get(); }
  /// The layer that it is of, or nullptr.
  const Layer* layer() const { return abstract == nullptr ? nullptr : abstract->layer.get(); }
  /// The same if that is a tape, so that it has a tangent, or a mapping, so that it stands for many.
  const Tape* tape() const { return abstract == nullptr ? nullptr : abstract->tape; }
  const Mapping* mapping() const { return abstract == nullptr ? nullptr : abstract->mapping; }
  /// Whether it is a tangent, and has no value.
  bool is_tangent_alone() const;
  /// Whether it has no elements of its own: a value of a trace, or one that stands for many, with a tangent or without.
  bool is_tracer() const;
  /// Whether its trace or layer is over.
  bool is_leaked() const;
  bool is_type_only() const { return abstract != nullptr && abstract->trace == nullptr && abstract->layer == nullptr; }
  bool is_committed() const { return kind != nullptr && kind->committed; }

  /// The shards of an array on devices; empty if it was deleted.
  ShardFuture shards() const {
    const Lock lock(*this);
    return shards_;
  }
  /// The same, and they are the array's no more.
  ShardFuture take_shards(Deletion deletion) const;
  bool is_deleted() const { return kind != nullptr && !shards(); }
  /// How it was deleted. Only for an array that was.
  Deletion deletion() const;

 private:
  // Held for no longer than it takes to copy a pointer.
  class Lock {
   public:
    explicit Lock(const ArrayImpl& impl) : impl_(impl) {
      while (impl_.locked_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    ~Lock() { impl_.locked_.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    const ArrayImpl& impl_;
  };

  mutable std::atomic_flag locked_ = ATOMIC_FLAG_INIT;  // Guards what follows.
  mutable ShardFuture shards_;
  mutable std::unique_ptr<const Deletion> deletion_;
};

/// The way from Array to its implementation and back.
struct Access {
  static Array make(DeviceArray array) { return Array(std::make_shared<const ArrayImpl>(std::move(array))); }
  static Array make(std::shared_ptr<Trace> trace, ValueId value, Type type) {
    return make_abstract({.type = std::move(type), .trace = std::move(trace), .value = value});
  }
  static Array make(std::shared_ptr<Tape> tape, Array primal, ValueId tangent, Type type);
  static Array make(std::shared_ptr<Mapping> mapping, Array outside, std::size_t dim, Type type);
  static Array make(Type type, std::optional<Sharding> sharding) {
    if (sharding && sharding->named() != nullptr) {
      type.explicit_axes = explicit_axes_of(*sharding->named(), type.rank());
    }
    return make_abstract({.type = std::move(type), .would_lie = std::move(sharding)});
  }
  static const ArrayImpl* get(const Array& array) { return array.impl_.get(); }
  static const std::shared_ptr<const ArrayImpl>& shared(const Array& array) { return array.impl_; }
  static bool is_empty(const Array& array) { return array.impl_ == nullptr; }

 private:
  static Array make_abstract(Abstract what) {
    return Array(std::make_shared<const ArrayImpl>(std::make_unique<const Abstract>(std::move(what))));
  }
};

inline bool ArrayImpl::is_tangent_alone() const { return tape() != nullptr && Access::is_empty(abstract->outside); }

inline bool ArrayImpl::is_tracer() const {
  if (tape() == nullptr) return trace() != nullptr || mapping() != nullptr;
  return is_tangent_alone() || Access::get(abstract->outside)->is_tracer();
}

// What follows throws errors of the Caller's call. `what` says which of its arrays is meant, as in "argument 0: needs
// an array"; it is left out where there is no choice.

/// Throws InvalidState for an Array without a value.
const ArrayImpl& impl_of(const Array& array, std::string_view what = {});

/// The concrete array. Throws InvalidState for a tracer, for a type alone and for an array that was deleted or donated.
DeviceArray concrete(const Array& array, std::string_view what = {});

/// The concrete array, which has no elements from now on: they were deleted or donated, as `deletion` says. Throws as
/// concrete().
DeviceArray take(const Array& array, Deletion deletion, std::string_view what = {});

/// Where a concrete array lies or has lain, with a tangent or without. Throws InvalidState for a tracer or a type
/// alone.
const Sharding& sharding_of(const Array& array);

/// An array of elements of the host, as array() makes them; as put_host() says, it may have these themselves.
Array array_of_elements(Dtype dtype, const Shape& shape, const HostElements& elements, const CreationOptions& options);

/// The one element of an array of size 1, with a tangent or without. Throws as item() does.
Scalar scalar_value(const Array& array);

/// Throws InvalidArgument if no array can be put where a sharding says.
void check_put_target(const Sharding& sharding);

/// Why a tracer or a type alone cannot be used: it has no value, or belongs to another call or thread.
[[noreturn]] void refuse_tracer(const ArrayImpl& tracer, std::string_view what = {});

/// Throws InvalidState, naming `what` and its path, if one of the arrays of a call has no value.
void check_values(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view what);

}  // namespace detail
}  // namespace shoal
