#include "passes/cse.h"

#include <algorithm>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "ir/bodies.h"
#include "passes/dce.h"

namespace shoal {
namespace {

// One of all attributes that are equal.
class AttrsPool {
 public:
  // Makes them the one, unless they know lines of the user's, which are never compared. Returns a hash.
  std::size_t share(Attrs& attrs) {
    if (std::ranges::any_of(attrs.entries(), knows_lines)) return attrs.hash();
    attrs = *pool_.insert(std::move(attrs)).first;
    return boost::hash_value(&attrs.entries());
  }

 private:
  struct Hash {
    std::size_t operator()(const Attrs& attrs) const { return attrs.hash(); }
  };

  static bool knows_lines(const std::pair<std::string, Attr>& entry) {
    return std::holds_alternative<NamedSharding>(entry.second) || std::holds_alternative<GraphAttr>(entry.second) ||
           std::holds_alternative<std::vector<GraphAttr>>(entry.second);
  }

  std::unordered_set<Attrs, Hash> pool_;
};

// The equations that compute something first, by what they compute. Values are named by the first that equals them.
class Known {
 public:
  // For so many equations at most.
  Known(const std::vector<ValueId>& first, std::size_t eqns) : first_(first), known_(std::bit_ceil(2 * eqns + 1)) {}

  // The place of the equation in `eqns` that computes the same as this one, whose place would be the next; else it is
  // known from now on.
  std::optional<std::size_t> find_or_add(const std::vector<Eqn>& eqns, const Eqn& eqn, std::size_t hash_of_attrs) {
    std::size_t hash = hash_of_attrs;
    boost::hash_combine(hash, eqn.op);
    for (const ValueId id : eqn.inputs) boost::hash_combine(hash, first_[slot(id)]);
    for (std::size_t place = hash;; ++place) {
      Entry& entry = known_[place & (known_.size() - 1)];
      if (entry.next == 0) {
        entry = {.hash = hash, .next = eqns.size() + 1};
        return std::nullopt;
      }
      if (entry.hash == hash && is_same(eqns[entry.next - 1], eqn)) return entry.next - 1;
    }
  }

 private:
  struct Entry {
    std::size_t hash = 0;
    std::size_t next = 0;  // One past the place of the equation; 0: nothing is here.
  };

  bool is_same(const Eqn& a, const Eqn& b) const {
    const auto are_equal = [&](ValueId x, ValueId y) { return first_[slot(x)] == first_[slot(y)]; };
    return a.op == b.op && a.attrs == b.attrs && std::ranges::equal(a.inputs, b.inputs, are_equal);
  }

  const std::vector<ValueId>& first_;
  std::vector<Entry> known_;  // Each as near behind the place of its hash as there was room.
};

// Whether an equation makes its results of nothing, or of one element that it only repeats.
bool is_free(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->op_class != OpClass::kCompute) return false;
  if (eqn.inputs.empty()) return true;
  return eqn.inputs.size() == 1 && moves_elements(*eqn.op) && graph.type(eqn.inputs[0]).rank() == 0;
}

}  // namespace

Graph cse(Graph graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  result.values = std::move(graph.values);
  result.inputs = std::move(graph.inputs);
  result.outputs = std::move(graph.outputs);
  result.eqns.reserve(graph.eqns.size());
  AttrsPool pool;                                    // Equations that are alike share attributes from here on.
  std::vector<ValueId> first(result.values.size());  // The first value that equals another.
  std::iota(first.begin(), first.end(), 0);
  Known known(first, graph.eqns.size());
  std::vector<ValueId> kept = first;  // What stands for a value whose equation goes.
  const auto in = [](const std::vector<ValueId>& map, ValueId id) { return map[slot(id)]; };
  for (Eqn& eqn : graph.eqns) {
    for (ValueId& id : eqn.inputs) id = in(kept, id);
    map_bodies(eqn, [](const Graph& body) { return dce(cse(body)); });
    if (has_effect(eqn)) {
      result.eqns.push_back(std::move(eqn));
      continue;
    }
    const std::size_t hash = pool.share(eqn.attrs);
    const std::optional<std::size_t> found = known.find_or_add(result.eqns, eqn, hash);
    if (found) {
      const bool stays = is_free(result, eqn);
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        const ValueId same = result.eqns[*found].outputs[i];
        first[slot(eqn.outputs[i])] = in(first, same);
        if (!stays) kept[slot(eqn.outputs[i])] = same;
      }
      if (!stays) continue;
    }
    result.eqns.push_back(std::move(eqn));
  }
  for (ValueId& id : result.outputs) id = in(kept, id);
  return result;
}

}  // namespace shoal
