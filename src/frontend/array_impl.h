// What an Array points to.
#pragma once

#include <memory>
#include <optional>
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

/// Either an array on devices, or a value of a trace.
struct ArrayImpl {
  Type type;
  std::optional<DeviceArray> device;
  std::shared_ptr<Trace> trace;  ///< Of a tracer.
  ValueId value = -1;            ///< Of a tracer: its value in the trace's graph.
};

/// The way from Array to its implementation and back.
struct Access {
  static Array make(DeviceArray array) {
    Type type = array.type;
    if (const NamedSharding* named = array.sharding.named()) type.explicit_axes = explicit_axes_of(*named, type.rank());
    return Array(std::make_shared<const ArrayImpl>(
        ArrayImpl{.type = std::move(type), .device = std::move(array), .trace = nullptr, .value = -1}));
  }
  static Array make(std::shared_ptr<Trace> trace, ValueId value, Type type) {
    return Array(std::make_shared<const ArrayImpl>(
        ArrayImpl{.type = std::move(type), .device = {}, .trace = std::move(trace), .value = value}));
  }
  static const ArrayImpl* get(const Array& array) { return array.impl_.get(); }
};

/// Throws InvalidState, naming the operation if there is one, for an Array without a value.
const ArrayImpl& impl_of(const Array& array, std::string_view operation = {}, SourceLocation where = {});

/// The concrete array. Throws InvalidState, naming the operation, for a tracer.
const DeviceArray& concrete(const Array& array, std::string_view operation, SourceLocation where);

/// The one element of an array of size 1. Throws as item() does, naming the operation.
Scalar scalar_value(const Array& array, std::string_view operation, SourceLocation where);

/// Why a tracer cannot be used where `operation` stands: it has no value, or belongs to another call or thread.
[[noreturn]] void refuse_tracer(const ArrayImpl& tracer, std::string_view operation, SourceLocation where);

/// Throws InvalidState, naming `what` and its path, if one of the arrays of a call has no value.
void check_values(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view what, SourceLocation where);

}  // namespace detail
}  // namespace shoal
