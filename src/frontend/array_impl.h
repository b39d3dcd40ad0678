// What an Array points to.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/shard_set.h"
#include "ir/explicit_axes.h"
#include "ir/graph.h"
#include "runtime/device_array.h"
#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal {

class Trace;

namespace detail {

/// How an array lost its elements: "deleted", or "donated to 'step'".
struct Deletion {
  std::string how;
  SourceLocation where;
};

/// An array on devices, a value of a trace, or a type alone.
struct ArrayImpl {
  Type type;
  /// Of an array on devices. Only its shards change, once: they go when it is deleted.
  mutable std::optional<DeviceArray> device;
  mutable std::optional<Deletion> deletion;
  mutable std::mutex mutex;           ///< Guards the shards and `deletion`.
  std::shared_ptr<Trace> trace;       ///< Of a tracer.
  ValueId value = -1;                 ///< Of a tracer: its value in the trace's graph.
  std::optional<Sharding> would_lie;  ///< Of a type alone: the sharding that was given with it.

  bool is_type_only() const { return !device && trace == nullptr; }
};

/// The way from Array to its implementation and back.
struct Access {
  static Array make(DeviceArray array) {
    auto impl = std::make_shared<ArrayImpl>();
    impl->type = array.type;
    if (const NamedSharding* named = array.sharding.named()) {
      impl->type.explicit_axes = explicit_axes_of(*named, impl->type.rank());
    }
    impl->device = std::move(array);
    return Array(std::move(impl));
  }
  static Array make(std::shared_ptr<Trace> trace, ValueId value, Type type) {
    auto impl = std::make_shared<ArrayImpl>();
    impl->type = std::move(type);
    impl->trace = std::move(trace);
    impl->value = value;
    return Array(std::move(impl));
  }
  static Array make(Type type, std::optional<Sharding> sharding) {
    auto impl = std::make_shared<ArrayImpl>();
    impl->type = std::move(type);
    if (sharding && sharding->named() != nullptr) {
      impl->type.explicit_axes = explicit_axes_of(*sharding->named(), impl->type.rank());
    }
    impl->would_lie = std::move(sharding);
    return Array(std::move(impl));
  }
  static const ArrayImpl* get(const Array& array) { return array.impl_.get(); }
};

/// Throws InvalidState, naming the operation if there is one, for an Array without a value.
const ArrayImpl& impl_of(const Array& array, std::string_view operation = {}, SourceLocation where = {});

/// The concrete array. Throws InvalidState, naming the operation, for a tracer, for a type alone and for an array that
/// was deleted or donated.
DeviceArray concrete(const Array& array, std::string_view operation, SourceLocation where);

/// The concrete array, which has no elements from now on: they were deleted or donated, as `deletion` says. Throws as
/// concrete().
DeviceArray take(const Array& array, std::string_view operation, SourceLocation where, Deletion deletion);

/// Where a concrete array lies or has lain. Throws InvalidState, naming the operation, for a tracer or a type alone.
const Sharding& sharding_of(const Array& array, std::string_view operation, SourceLocation where);

/// The one element of an array of size 1. Throws as item() does, naming the operation.
Scalar scalar_value(const Array& array, std::string_view operation, SourceLocation where);

/// Why a tracer or a type alone cannot be used where `operation` stands: it has no value, or belongs to another call or
/// thread.
[[noreturn]] void refuse_tracer(const ArrayImpl& tracer, std::string_view operation, SourceLocation where);

/// Throws InvalidState, naming `what` and its path, if one of the arrays of a call has no value.
void check_values(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view what, SourceLocation where);

}  // namespace detail
}  // namespace shoal
