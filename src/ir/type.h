// The type of a value in a graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "shoal/device.h"
#include "shoal/dtype.h"
#include "shoal/mesh.h"
#include "shoal/shape.h"

namespace shoal {

/// Names of mesh axes, sorted and distinct.
using AxisNames = std::vector<std::string>;

/// How the Explicit axes of a mesh split a value: part of its type, which every op derives from those of its operands.
struct ExplicitAxes {
  Mesh mesh;
  std::vector<std::vector<std::string>> dims;  ///< Per dimension, the axes that split it, major to minor.
  AxisNames unreduced = {};                    ///< Those over which it is still to be summed.
  AxisNames reduced = {};                      ///< Those over which it is the same, and its cotangent such a sum.
  friend bool operator==(const ExplicitAxes&, const ExplicitAxes&) = default;
};

struct Type {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  bool weak = false;       ///< From a C++ scalar: gives way to typed operands.
  MemoryKind memory = {};  ///< The space the value lives in.
  AxisNames varying = {};  ///< Inside manual regions: the manual axes over which devices may hold different data.
  /// Nothing where the compiler chooses how the value is split.
  Shared<ExplicitAxes> explicit_axes = {};
  AxisNames summands = {};  ///< Inside manual regions: those of `varying` over which devices hold summands of it.
  AxisNames reduced = {};   ///< The same: manual axes over which it is the same, and its cotangent such summands.

  std::size_t rank() const { return shape.size(); }
  DtypeAndWeakness element() const { return {dtype, weak}; }
  friend bool operator==(const Type&, const Type&) = default;
};

/// "f32[4,8]"; weak types as "~f32[]", other memories as "f32<pinned_host>[4]", varying values as "f32[4]{V:x}",
/// explicitly split ones as "f32[8@x,4@(y,z)]", those still to be summed as "f32[8@x]{U:y}", those with such a
/// cotangent as "f32[8@x]{R:y}", and what is several of that as "f32[8]{V:x}{U:y}{R:z}".
std::string to_string(const Type& type);

/// "float32[4,8]{V:x}", "float32[4,8]{V:(x,y), U:z}", as the user sees it.
std::string user_string(const Type& type);

/// The type of the cotangent of a value: unreduced over the axes over which the value is reduced, and the other way
/// round. That of the cotangent of a cotangent is the value's again.
Type cotangent_type(Type type);
std::vector<Type> cotangent_types(std::vector<Type> types);

/// The union of the sorted name lists.
AxisNames union_of(const AxisNames& a, const AxisNames& b);
/// The names of `a` that are not in `b`.
AxisNames difference_of(const AxisNames& a, const AxisNames& b);

/// The manual axes that are bound where an equation stands, with their sizes, outermost first.
class AxisEnv {
 public:
  AxisEnv() = default;
  void bind(std::string name, std::int64_t size) { axes_.emplace_back(std::move(name), size); }
  /// From here on the places of a mapping are split over these axes of a mesh, sorted: devices along them will have
  /// places of their own, once it is mapped.
  void split_places(const AxisNames& axes) { places_ = union_of(places_, axes); }
  const AxisNames& places() const { return places_; }
  /// The size of an axis or sub-axis ("x:(2)4"), or nullopt if it is not bound.
  std::optional<std::int64_t> size_of(std::string_view ref) const;
  const std::vector<std::pair<std::string, std::int64_t>>& axes() const { return axes_; }
  bool empty() const { return axes_.empty(); }
  friend bool operator==(const AxisEnv&, const AxisEnv&) = default;

 private:
  std::vector<std::pair<std::string, std::int64_t>> axes_;
  AxisNames places_;
};

}  // namespace shoal
