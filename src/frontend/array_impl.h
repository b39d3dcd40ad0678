// What an Array points to.
#pragma once

#include <memory>
#include <optional>

#include "comm/shard_set.h"
#include "ir/graph.h"
#include "runtime/device_array.h"
#include "shoal/array.h"

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
    return Array(std::make_shared<const ArrayImpl>(
        ArrayImpl{.type = std::move(type), .device = std::move(array), .trace = nullptr, .value = -1}));
  }
  static Array make(std::shared_ptr<Trace> trace, ValueId value, Type type) {
    return Array(std::make_shared<const ArrayImpl>(
        ArrayImpl{.type = std::move(type), .device = {}, .trace = std::move(trace), .value = value}));
  }
  /// Throws InvalidState for an Array without a value.
  static const ArrayImpl& get(const Array& array) {
    if (array.impl_ == nullptr) throw InvalidState("an Array without a value was used; assign one to it first");
    return *array.impl_;
  }
  static bool has_value(const Array& array) { return array.impl_ != nullptr; }
};

inline const ArrayImpl& impl_of(const Array& array) { return Access::get(array); }

/// The concrete array. Throws InvalidState, naming the operation, for a tracer.
const DeviceArray& concrete(const Array& array, std::string_view operation, SourceLocation where);

}  // namespace detail
}  // namespace shoal
