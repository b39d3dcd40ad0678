// Runs the reference kernels of ops on small arrays, and shows their sharding rules and complaints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "base/error_text.h"
#include "base/shape_mismatch.h"
#include "core/buffer.h"
#include "core/dispatch.h"
#include "ir/op.h"
#include "ops/table.h"
#include "shoal/error.h"

namespace shoal::test_support {

using Ints = std::vector<std::int32_t>;

inline Type type_of(Dtype dtype, Shape shape) {
  return {.dtype = dtype, .shape = std::move(shape), .weak = false, .memory = {}, .varying = {}};
}

template <class T>
Buffer array(Shape shape, const std::vector<T>& values) {
  Buffer buffer(host_space({}), dtype_of<T>(), std::move(shape));
  EXPECT_EQ(static_cast<std::size_t>(num_elements(buffer.shape())), values.size());
  std::copy(values.begin(), values.end(), static_cast<T*>(buffer.mutable_data()));
  return buffer;
}

/// 0, 1, 2, … in row-major order.
template <class T>
Buffer counting(Shape shape) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) values.push_back(T(static_cast<float>(i)));
  return array<T>(std::move(shape), values);
}

template <class T>
std::vector<T> values(const Buffer& buffer) {
  EXPECT_EQ(buffer.dtype(), dtype_of<T>());
  const T* data = static_cast<const T*>(buffer.data());
  return std::vector<T>(data, data + num_elements(buffer.shape()));
}

inline std::vector<Type> infer(std::string_view name, const Attrs& attrs, const std::vector<Type>& inputs,
                               SourceLocation where = SourceLocation::current()) {
  const OpDef& op = op_named(name);
  return op.infer({.op = op, .inputs = inputs, .attrs = attrs, .axes = {}, .where = where});
}

/// The op's results by its reference kernel.
inline std::vector<Buffer> run_all(std::string_view name, const Attrs& attrs, const std::vector<Buffer>& inputs) {
  const OpDef& op = op_named(name);
  std::vector<Type> types;
  std::vector<TensorView> operands;
  for (const Buffer& buffer : inputs) {
    types.push_back(type_of(buffer.dtype(), buffer.shape()));
    operands.push_back(buffer.view());
  }
  std::vector<Buffer> buffers;
  std::vector<TensorView> results;
  for (const Type& type : infer(name, attrs, types)) {
    buffers.emplace_back(host_space({}), type.dtype, type.shape);
    results.push_back(buffers.back().view());
  }
  op.reference({.op = op, .attrs = attrs, .inputs = operands, .outputs = results});
  return buffers;
}

/// The first of them.
inline Buffer run(std::string_view name, const Attrs& attrs, const std::vector<Buffer>& inputs) {
  return run_all(name, attrs, inputs)[0];
}

inline ShardingRule rule_of(std::string_view name, const Attrs& attrs, const std::vector<Type>& inputs) {
  const OpDef& op = op_named(name);
  const std::vector<Type> outputs = infer(name, attrs, inputs);
  return op.rule({.op = op, .inputs = inputs, .outputs = outputs, .attrs = attrs});
}

/// The complaint about such operands; it must be of class E and name the line of the call.
template <class E = InvalidArgument>
std::string complaint(std::string_view name, const Attrs& attrs, const std::vector<Type>& inputs,
                      SourceLocation where = SourceLocation::current()) {
  try {
    infer(name, attrs, inputs, where);
  } catch (const Error& error) {
    const bool is_of_shapes =
        std::is_same_v<E, InvalidArgument> && dynamic_cast<const ShapeMismatch*>(&error) != nullptr;
    EXPECT_TRUE(is_of_shapes || typeid(error) == typeid(E)) << error.what();
    EXPECT_TRUE(error.where() && error.where()->line() == where.line()) << error.what();
    return message_of(error);
  }
  ADD_FAILURE() << name << " did not complain";
  return {};
}

/// Calls f(T{}) for the C++ type of every dtype.
template <class F>
void for_each_dtype(F&& f) {
  for (int number = 0; number < kNumDtypes; ++number) {
    SCOPED_TRACE(name_of(static_cast<Dtype>(number)));
    with_element_type(static_cast<Dtype>(number), f);
  }
}

}  // namespace shoal::test_support
