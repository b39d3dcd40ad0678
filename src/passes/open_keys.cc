#include "passes/open_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ir/bodies.h"
#include "ops/builder.h"

namespace shoal {
namespace {

constexpr std::size_t kPairBytes = 16;

bool is_pair(Dtype dtype) { return is_key(dtype) && size_of(dtype) == kPairBytes; }

bool has_keys(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& value) { return is_key(value.type.dtype); }) ||
         std::ranges::any_of(graph.eqns, [](const Eqn& eqn) {
           return std::ranges::any_of(bodies_of(eqn), [](const Graph* body) { return has_keys(*body); });
         });
}

// The word `half` of a key, if it has two; of other dtypes nothing changes.
void open_attrs(Attrs& attrs, std::size_t half, bool is_whole) {
  std::vector<std::pair<std::string, Attr>> changed;
  for (const auto& [name, value] : attrs.entries()) {
    if (const auto* dtype = std::get_if<Dtype>(&value); dtype != nullptr && is_key(*dtype)) {
      changed.emplace_back(name, is_whole ? stored_as(*dtype) : uint64);
    }
    if (const auto* scalar = std::get_if<Scalar>(&value); scalar != nullptr && is_key(scalar->dtype)) {
      const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(scalar->bytes);
      changed.emplace_back(name, is_whole ? Scalar{.dtype = stored_as(scalar->dtype), .bytes = scalar->bytes}
                                          : Scalar::of(words.at(half)));
    }
  }
  for (auto& [name, value] : changed) attrs.set(std::move(name), std::move(value));
}

// Writes a graph anew, in which keys of two words are two values, of their first and their second words. Where they
// come from outside or from a body, or go there, they are one: elements of 16 bytes, of which nothing but the words is
// made.
class Opener {
 public:
  explicit Opener(const Graph& graph) : from_(graph) {
    to_.name = graph.name;
    to_.axes = graph.axes;
    to_.grid = graph.grid;
  }

  Graph run() {
    for (const ValueId id : from_.inputs) {
      const ValueId made = fresh(id, stored_as(from_.type(id).dtype));
      to_.inputs.push_back(made);
      whole_[id] = made;
    }
    for (const Eqn& eqn : from_.eqns) open(eqn);
    for (const ValueId id : from_.outputs) to_.outputs.push_back(whole(id, {}));
    return std::move(to_);
  }

 private:
  using Words = std::array<ValueId, 2>;

  ValueId fresh(ValueId id, Dtype dtype) {
    const ValueId made = to_.add_value({});
    to_.value(made) = from_.value(id);
    to_.value(made).type.dtype = dtype;
    return made;
  }

  ValueId whole(ValueId id, const SourceLocation& where) {
    const auto found = whole_.find(id);
    if (found != whole_.end()) return found->second;
    Builder build(to_, where);
    const Words& words = words_.at(id);
    const ValueId first = build.bitcast(words[0], float64);
    return whole_[id] = build.elementwise("complex", {first, build.bitcast(words[1], float64)});
  }

  const Words& words(ValueId id, const SourceLocation& where) {
    const auto found = words_.find(id);
    if (found != words_.end()) return found->second;
    Builder build(to_, where);
    const ValueId pair = whole_.at(id);
    const auto word = [&](std::string_view part) { return build.bitcast(build.elementwise(part, {pair}), uint64); };
    const ValueId first = word("real");
    return words_[id] = {first, word("imag")};
  }

  bool is_pair_of(ValueId id) const { return is_pair(from_.type(id).dtype); }

  bool any_pair(std::span<const ValueId> ids) const {
    return std::ranges::any_of(ids, [&](ValueId id) { return is_pair(from_.type(id).dtype); });
  }

  void open(const Eqn& eqn) {
    const bool takes = any_pair(eqn.inputs);
    const bool gives = any_pair(eqn.outputs);
    const bool has_bodies = !bodies_of(eqn).empty();
    if ((!takes && !gives) || has_bodies || eqn.op->op_class == OpClass::kEffect) return copy(eqn);
    if ((takes && gives) || eqn.inputs.empty()) {
      for (std::size_t half = 0; half < 2; ++half) copy_half(eqn, half);
    } else if (eqn.op->elementwise != nullptr) {
      compare(eqn);
    } else {
      reread(eqn);
    }
  }

  void copy(const Eqn& eqn) {
    Eqn opened = eqn;
    for (ValueId& id : opened.inputs) id = whole(id, eqn.where);
    for (ValueId& id : opened.outputs) id = whole_[id] = fresh(id, stored_as(from_.type(id).dtype));
    open_attrs(opened.attrs, 0, true);
    map_bodies(opened, [](const Graph& body) { return open_keys(body); });
    to_.eqns.push_back(std::move(opened));
  }

  // The same of one half of the words. What is no key is the same both times.
  void copy_half(const Eqn& eqn, std::size_t half) {
    Eqn opened = eqn;
    for (ValueId& id : opened.inputs) id = is_pair_of(id) ? words(id, eqn.where)[half] : whole(id, eqn.where);
    for (ValueId& id : opened.outputs) {
      if (is_pair_of(id)) {
        id = words_[id][half] = fresh(id, uint64);
      } else {
        const ValueId made = fresh(id, stored_as(from_.type(id).dtype));
        if (half == 0) whole_[id] = made;
        id = made;
      }
    }
    open_attrs(opened.attrs, half, false);
    to_.eqns.push_back(std::move(opened));
  }

  // Whether keys are equal: whether no bit of their words differs.
  void compare(const Eqn& eqn) {
    Builder build(to_, eqn.where);
    const Words x = words(eqn.inputs[0], eqn.where);
    const Words y = words(eqn.inputs[1], eqn.where);
    const ValueId first = build.elementwise("bitwise_xor", {x[0], y[0]});
    const ValueId second = build.elementwise("bitwise_xor", {x[1], y[1]});
    const ValueId differing = build.elementwise("bitwise_or", {first, second});
    const ValueId none = build.constant(0, uint64, build.type(differing).shape);
    whole_[eqn.outputs[0]] = build.elementwise(eqn.op->name, {differing, none});
  }

  // The same bits, as keys or as numbers; words lie along the last dimension of these.
  void reread(const Eqn& eqn) {
    const ValueId in = eqn.inputs[0];
    const ValueId out = eqn.outputs[0];
    Builder build(to_, eqn.where);
    if (is_pair_of(in)) {
      Shape shape = from_.type(in).shape;
      shape.push_back(1);
      std::vector<ValueId> parts;
      for (const ValueId word : Words(words(in, eqn.where))) parts.push_back(build.reshape(word, shape));
      const ValueId pair = build.concatenate(std::move(parts), shape.size() - 1);
      const Type& type = from_.type(out);
      whole_[out] = type.dtype == uint64 ? pair : build.reshape(build.bitcast(pair, type.dtype), type.shape);
      return;
    }
    const ValueId numbers = whole(in, eqn.where);
    const Shape& shape = from_.type(in).shape;
    const std::int64_t length = shape.back() / 2;
    for (std::size_t half = 0; half < 2; ++half) {
      Dims starts(shape.size(), 0);
      Dims limits(shape.begin(), shape.end());
      starts.back() = static_cast<std::int64_t>(half) * length;
      limits.back() = starts.back() + length;
      const ValueId part = build.slice(numbers, std::move(starts), std::move(limits), Dims(shape.size(), 1));
      // An element of 8 bytes is one word.
      words_[out][half] = build.bitcast(length == 1 ? build.reshape(part, from_.type(out).shape) : part, uint64);
    }
  }

  const Graph& from_;
  Graph to_;
  // What stands for values of the old graph. Each is there, or both of its words are.
  std::unordered_map<ValueId, ValueId> whole_;
  std::unordered_map<ValueId, Words> words_;
};

}  // namespace

Dtype stored_as(Dtype dtype) {
  if (!is_key(dtype)) return dtype;
  return is_pair(dtype) ? complex128 : uint64;
}

Graph open_keys(Graph graph) {
  if (!has_keys(graph)) return graph;
  return Opener(graph).run();
}

}  // namespace shoal
