// Attributes of equations: a small sorted map of named values that prints, parses and compares by itself.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/shared.h"
#include "core/buffer.h"
#include "shoal/dtype.h"
#include "shoal/error.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"
#include "shoal/shape.h"
#include "shoal/sharding.h"

namespace shoal {

struct BatchedGraph;  // transform/batch.h
struct Graph;
struct Linearized;  // transform/linearize.h
struct MappedAxis;  // transform/batch.h
struct Type;

/// One element of any dtype.
struct Scalar {
  Dtype dtype = Dtype::kF32;
  alignas(16) std::array<std::byte, 16> bytes{};

  template <Element T>
  static Scalar of(T value) {
    Scalar scalar{.dtype = dtype_of<T>()};
    std::memcpy(scalar.bytes.data(), &value, sizeof(T));
    return scalar;
  }
  template <Element T>
  T as() const {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// Converted to another dtype as C++ converts.
  Scalar converted_to(Dtype to) const;
  friend bool operator==(const Scalar&, const Scalar&) = default;  // By bits: NaN equals itself.
};

using GraphPtr = std::shared_ptr<const Graph>;
bool graphs_equal(const Graph& a, const Graph& b);
std::size_t hash_of_graph(const Graph& graph);  ///< By structure, sub-graphs included; of `graph` itself kept with it.

/// A sub-graph as an attribute: compared by structure.
struct GraphAttr {
  GraphPtr graph;
  friend bool operator==(const GraphAttr& a, const GraphAttr& b) {
    return a.graph == b.graph || graphs_equal(*a.graph, *b.graph);
  }
};

/// What a graph may call in the user's program; those are set that it is for.
struct Callback {
  /// While the program runs, with the elements of the operands: gives those of the results, of their types.
  std::function<std::vector<Buffer>(std::span<const Buffer>)> on_values = {};
  /// When the program is compiled, with the sharding of its operand.
  std::function<void(const Sharding&)> on_sharding = {};
  /// When the program is compiled: the graph that computes results of these types from operands of these.
  std::function<GraphPtr(std::span<const Type> operands, std::span<const Type> results, SourceLocation where)>
      on_shards = {};
  /// While the program runs, on any thread, with the elements of one shard of the operands and results.
  std::function<void(std::span<const TensorView> operands, std::span<const TensorView> results)> on_views = {};
  /// When a derivative reaches a call: what takes its place, for operands of these types, of which some have tangents.
  std::function<Linearized(std::span<const Type> operands, const std::vector<bool>& with_tangent)> on_tangents = {};
  /// When vmap reaches a call: the graph that takes its place, for operands of which some have the dimension first.
  std::function<BatchedGraph(std::span<const Type> operands, const std::vector<bool>& mapped, const MappedAxis& axis)>
      on_batch = {};
};

/// A function of the user's program as an attribute. It lives as long as a graph holds it, and is known by its number.
struct CallbackAttr {
  std::int64_t number = 0;
  std::shared_ptr<const Callback> callback;  ///< Null in a graph that was read from text.

  /// With the next free number.
  static CallbackAttr of(Callback callback);
  friend bool operator==(const CallbackAttr& a, const CallbackAttr& b) { return a.number == b.number; }
};

using Attr =
    std::variant<bool, std::int64_t, std::string, Dtype, MemoryKind, Dims, std::vector<std::string>, Scalar, Mesh,
                 NamedSharding, std::vector<PartitionSpec>, GraphAttr, CallbackAttr, std::vector<GraphAttr>>;

/// Copies share their entries.
class Attrs {
 public:
  using Entries = std::vector<std::pair<std::string, Attr>>;

  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, Attr>> entries);

  /// Adds or replaces an entry.
  void set(std::string name, Attr value);
  /// Leaves out the entry if there is one.
  void erase(std::string_view name);
  const Attr* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The value of type T if there is one of this name. A different one is a defect of the caller.
  template <class T>
  const T* find_as(std::string_view name) const {
    const Attr* attr = find(name);
    if (attr == nullptr) return nullptr;
    const T* value = std::get_if<T>(attr);
    if (value == nullptr) wrong_kind(name);
    return value;
  }
  /// The named value of type T. A missing or different one is a defect of the caller.
  template <class T>
  const T& get(std::string_view name) const {
    const T* value = std::get_if<T>(&at(name));
    if (value == nullptr) wrong_kind(name);
    return *value;
  }
  const Graph& graph(std::string_view name = "body") const { return *get<GraphAttr>(name).graph; }
  const Entries& entries() const { return entries_ ? *entries_ : kNone; }
  friend bool operator==(const Attrs&, const Attrs&) = default;
  /// Equal for equal attributes.
  std::size_t hash() const;

 private:
  const Attr& at(std::string_view name) const;
  [[noreturn]] static void wrong_kind(std::string_view name);
  static const Entries kNone;
  Shared<Entries> entries_;  // Sorted by name; nothing if there are none.
};

}  // namespace shoal
