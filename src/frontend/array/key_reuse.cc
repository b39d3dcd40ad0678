#include "frontend/array/key_reuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "frontend/array/array_impl.h"
#include "ir/bodies.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using Identity = std::uint64_t;
// The identities of the keys of a value, in row-major order. Empty for numbers, and for arrays that are too large.
using Keys = std::vector<Identity>;

constexpr std::int64_t kMaxKeys = 1 << 16;

struct KeyUse {
  SourceLocation where;
  SourceLocation call;  // Of the operation or jitted function by which it is used.
  const Eqn* eqn;       // In the call that is being read.

  // "model.cc:7, called at train.cc:12", or nothing.
  std::string place() const {
    const std::string line = to_string(where);
    const std::string of_call = to_string(call);
    if (of_call.empty() || of_call == line) return line;
    return line.empty() ? of_call : line + ", called at " + of_call;
  }
};

// The uses of keys, beside those that were known before.
class UsesOfKeys {
 public:
  explicit UsesOfKeys(const UsesOfKeys* before = nullptr) : before_(before) {}

  const KeyUse* find(Identity key) const {
    const auto found = own_.find(key);
    if (found != own_.end()) return &found->second;
    return before_ == nullptr ? nullptr : before_->find(key);
  }
  void add(Identity key, const KeyUse& use) { own_.emplace(key, use); }
  void add(const UsesOfKeys& others) { own_.insert(others.own_.begin(), others.own_.end()); }
  // What was read is over.
  void forget_equations() {
    for (auto& [key, use] : own_) use.eqn = nullptr;
  }

 private:
  const UsesOfKeys* before_;
  std::unordered_map<Identity, KeyUse> own_;
};

// Of the concrete arrays of this process.
struct KnownKeys {
  struct Entry {
    std::weak_ptr<const detail::ArrayImpl> array;
    Keys keys;
  };

  std::mutex mutex;
  Identity next = 1;
  std::map<const detail::ArrayImpl*, Entry> arrays;
  UsesOfKeys uses;
  std::size_t purge_at = 1024;
};

KnownKeys& known_keys() {
  static auto& known = *new KnownKeys;
  return known;
}

Keys fresh_keys(Identity& next, const Type& type) {
  if (!is_key(type.dtype) || num_elements(type.shape) > kMaxKeys) return {};
  Keys keys(static_cast<std::size_t>(num_elements(type.shape)));
  for (Identity& key : keys) key = next++;
  return keys;
}

class KeyReader {
 public:
  KeyReader(Identity& next, const SourceLocation& call) : next_(next), call_(call) {}

  Keys fresh(const Type& type) { return fresh_keys(next_, type); }

  std::vector<Keys> read(const Graph& graph, std::span<const Keys> arguments, UsesOfKeys& uses) {
    std::vector<Keys> keys(graph.values.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) keys[slot(graph.inputs[i])] = arguments[i];
    for (const Eqn& eqn : graph.eqns) {
      std::vector<Keys> operands;
      for (const ValueId id : eqn.inputs) operands.push_back(keys[slot(id)]);
      std::vector<Keys> results = read(graph, eqn, operands, uses);
      for (std::size_t i = 0; i < results.size(); ++i) keys[slot(eqn.outputs[i])] = std::move(results[i]);
    }
    std::vector<Keys> results;
    for (const ValueId id : graph.outputs) results.push_back(keys[slot(id)]);
    return results;
  }

 private:
  std::vector<Keys> fresh_results(const Graph& graph, const Eqn& eqn) {
    std::vector<Keys> results;
    for (const ValueId id : eqn.outputs) results.push_back(fresh(graph.type(id)));
    return results;
  }

  std::vector<Keys> read(const Graph& graph, const Eqn& eqn, std::span<const Keys> operands, UsesOfKeys& uses) {
    switch (eqn.op->op_class) {
      case OpClass::kCall:
        if (!eqn.attrs.contains("body")) return fresh_results(graph, eqn);
        return read(eqn.attrs.graph(), operands, uses);
      case OpClass::kControl:
        return read_control(graph, eqn, operands, uses);
      case OpClass::kRegion:
        return read_region(graph, eqn, operands, uses);
      default:
        break;
    }
    if (eqn.op->uses_keys) {
      for (const Identity key : operands[0]) use(key, eqn, uses);
      return {operands[0]};
    }
    return moved(graph, eqn, operands);
  }

  void use(Identity key, const Eqn& eqn, UsesOfKeys& uses) const {
    const KeyUse now{.where = eqn.where, .call = call_, .eqn = &eqn};
    const KeyUse* before = uses.find(key);
    if (before == nullptr) return uses.add(key, now);
    const bool is_here = before->eqn == &eqn;
    const std::string how = is_here
                                ? "more than once here, by trips of a loop, calls of a function or places of an array"
                                : fmt::format("before, at {}", before->place());
    const std::string call = to_string(call_);
    const std::string by = call.empty() || call == to_string(eqn.where) ? "" : fmt::format(" (called at {})", call);
    throw KeyReuseError(fmt::format("{}{}: the key is used {}; split and fold_in make a key for each use, and clone "
                                    "gives one for the same numbers again",
                                    eqn.attrs.get<std::string>("function"), by, how),
                        eqn.where);
  }

  // What an op does to elements it does to their identities, too, if no number decides where they go.
  std::vector<Keys> moved(const Graph& graph, const Eqn& eqn, std::span<const Keys> operands) {
    const bool all_known = std::ranges::none_of(operands, [](const Keys& keys) { return keys.empty(); });
    const bool moves = moves_elements(*eqn.op) || eqn.op->keeps_order;
    std::vector<Keys> results = fresh_results(graph, eqn);
    if (!moves || !all_known || operands.empty()) return results;
    if (eqn.op->collective && eqn.op->collective->gives == CollectiveFacts::Gives::kAsBefore) return {operands[0]};
    if (eqn.op->reference == nullptr) return results;
    std::vector<Keys> ids(operands.begin(), operands.end());
    std::vector<TensorView> from;
    std::vector<TensorView> to;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      from.push_back({.dtype = uint64, .shape = graph.type(eqn.inputs[i]).shape, .data = ids[i].data()});
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Type& type = graph.type(eqn.outputs[i]);
      if (num_elements(type.shape) > kMaxKeys) return results;
      to.push_back({.dtype = uint64, .shape = type.shape, .data = results[i].data()});
    }
    eqn.op->reference({.op = *eqn.op, .attrs = eqn.attrs, .inputs = from, .outputs = to});
    return results;
  }

  std::vector<Keys> read_control(const Graph& graph, const Eqn& eqn, std::span<const Keys> operands, UsesOfKeys& uses) {
    const Control control = eqn.op->control(eqn.attrs);
    // What a derivative computes again has been read.
    if (control.recomputes) return fresh_results(graph, eqn);
    const std::span<const Keys> arguments = operands.subspan(control.first_argument);
    if (control.loops) return read_loop(graph, eqn, control, arguments, uses);
    std::vector<Keys> results;
    UsesOfKeys all;
    bool is_first = true;
    for (const Graph* body : bodies_of(eqn)) {
      UsesOfKeys own(&uses);
      std::vector<Keys> yields = read(*body, arguments, own);
      all.add(own);
      if (is_first) {
        results = std::move(yields);
      } else {
        for (std::size_t i = 0; i < results.size(); ++i) {
          if (results[i] != yields[i]) results[i] = fresh(graph.type(eqn.outputs[i]));
        }
      }
      is_first = false;
    }
    uses.add(all);
    return results;
  }

  // Two trips show what all do.
  std::vector<Keys> read_loop(const Graph& graph, const Eqn& eqn, const Control& control,
                              std::span<const Keys> arguments, UsesOfKeys& uses) {
    const auto bodies = bodies_of(eqn);
    const std::int64_t trips = control.trips.value_or(2);
    std::vector<Keys> results = fresh_results(graph, eqn);
    std::vector<Keys> of_trip(arguments.begin(), arguments.end());
    const auto slice = [&](std::size_t argument, std::int64_t trip) {
      const Keys& whole = arguments[argument];
      const std::size_t extent = whole.size() / static_cast<std::size_t>(trips);
      const std::int64_t row = control.reverse ? trips - 1 - trip : trip;
      const auto begin = whole.begin() + row * static_cast<std::int64_t>(extent);
      return Keys(begin, begin + static_cast<std::ptrdiff_t>(extent));
    };
    const std::int64_t read_trips = std::min<std::int64_t>(trips, 2);
    for (std::int64_t trip = 0; trip < read_trips; ++trip) {
      for (std::size_t i = control.carries; i < control.carries + control.slices; ++i) of_trip[i] = slice(i, trip);
      if (control.asks) read(*bodies[0], of_trip, uses);
      std::vector<Keys> yields = read(*bodies.back(), of_trip, uses);
      for (std::size_t i = 0; i < control.carries; ++i) results[i] = of_trip[i] = std::move(yields[i]);
    }
    // Further trips use of their slices what the last one used.
    for (std::size_t i = control.carries; trips > read_trips && i < control.carries + control.slices; ++i) {
      for (std::size_t k = 0; k < of_trip[i].size(); ++k) {
        const KeyUse* last = uses.find(of_trip[i][k]);
        if (last == nullptr) continue;
        const KeyUse found = *last;
        for (std::int64_t trip = read_trips; trip < trips; ++trip) uses.add(slice(i, trip)[k], found);
      }
    }
    return results;
  }

  // Of a split array each device has a part; one part stands for all.
  std::vector<Keys> read_region(const Graph& graph, const Eqn& eqn, std::span<const Keys> operands, UsesOfKeys& uses) {
    const Graph& body = eqn.attrs.graph();
    std::vector<Keys> arguments;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Type& inside = body.type(body.inputs[i]);
      const bool is_whole = inside.shape == graph.type(eqn.inputs[i]).shape;
      arguments.push_back(is_whole || operands[i].empty() ? operands[i] : fresh(inside));
    }
    const std::vector<Keys> yields = read(body, arguments, uses);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (arguments[i] == operands[i]) continue;
      const Shape& whole = graph.type(eqn.inputs[i]).shape;
      const Shape& part = body.type(body.inputs[i]).shape;
      const Dims strides = row_major_strides(whole);
      const Dims part_strides = row_major_strides(part);
      for (std::size_t k = 0; k < operands[i].size(); ++k) {
        std::int64_t position = 0;
        for (std::size_t d = 0; d < whole.size(); ++d) {
          position += static_cast<std::int64_t>(k) / strides[d] % whole[d] % part[d] * part_strides[d];
        }
        const KeyUse* inside = uses.find(arguments[i][static_cast<std::size_t>(position)]);
        if (inside == nullptr) continue;
        const KeyUse found = *inside;
        use(operands[i][k], *found.eqn, uses);
      }
    }
    std::vector<Keys> results = fresh_results(graph, eqn);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (graph.type(eqn.outputs[i]).shape == body.type(body.outputs[i]).shape) results[i] = yields[i];
    }
    return results;
  }

  Identity& next_;
  SourceLocation call_;
};

}  // namespace

struct KeyUses::Impl {
  UsesOfKeys uses;
  std::vector<Keys> results;
};

namespace {

// Those of an array on devices; empty if it has none.
Keys keys_of(KnownKeys& known, const Array& array) {
  const detail::ArrayImpl& impl = detail::impl_of(array);
  if (!is_key(impl.type.dtype)) return {};
  KnownKeys::Entry& entry = known.arrays[&impl];
  if (entry.array.expired()) {
    entry = {.array = detail::Access::shared(array), .keys = fresh_keys(known.next, impl.type)};
  }
  return entry.keys;
}

}  // namespace

void follow_keys(const Array& from, const Array& to) {
  KnownKeys& known = known_keys();
  const std::lock_guard lock(known.mutex);
  Keys keys = keys_of(known, from);
  if (keys.empty()) return;
  known.arrays[&detail::impl_of(to)] = {.array = detail::Access::shared(to), .keys = std::move(keys)};
}

KeyUses::KeyUses(const Graph& graph, std::span<const Array> operands) {
  KnownKeys& known = known_keys();
  const std::lock_guard lock(known.mutex);
  KeyReader reader(known.next, Caller::line());
  if (known.arrays.size() >= known.purge_at) {
    std::erase_if(known.arrays, [](const auto& entry) { return entry.second.array.expired(); });
    known.purge_at = std::max<std::size_t>(1024, 2 * known.arrays.size());
  }
  std::vector<Keys> arguments;
  for (const Array& operand : operands) arguments.push_back(keys_of(known, operand));
  auto impl = std::make_unique<Impl>(Impl{.uses = UsesOfKeys(&known.uses), .results = {}});
  impl->results = reader.read(graph, arguments, impl->uses);
  impl_ = std::move(impl);
}

KeyUses::~KeyUses() = default;

void KeyUses::done(std::span<const Array> results) {
  KnownKeys& known = known_keys();
  const std::lock_guard lock(known.mutex);
  impl_->uses.forget_equations();
  known.uses.add(impl_->uses);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (impl_->results[i].empty()) continue;
    known.arrays[&detail::impl_of(results[i])] = {.array = detail::Access::shared(results[i]),
                                                  .keys = std::move(impl_->results[i])};
  }
}

}  // namespace shoal
