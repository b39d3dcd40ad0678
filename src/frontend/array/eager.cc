// Operations outside any trace: each is a program of one equation, compiled once for each kind of operands.
#include "frontend/array/eager.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <functional>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backend/backend.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "runtime/program.h"
#include "sharding/default_place.h"

namespace shoal {
namespace {

// What the program of an op depends on. Kinds are compared by their pointers.
struct Key {
  const OpDef* op;
  const Backend* backend;
  Attrs attrs;
  boost::container::small_vector<KindPtr, 4> operands;
  DefaultPlace place;  // Where it runs if no operand is committed.
};

// The programs used most recently.
class Cache {
 public:
  std::shared_ptr<const Program> find(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
    const std::size_t hash = hash_of(op, attrs, operands);
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = index_.equal_range(hash);
    for (auto place = begin; place != end; ++place) {
      if (!is_for(place->second->key, op, attrs, operands)) continue;
      order_.splice(order_.begin(), order_, place->second);
      return place->second->program;
    }
    return nullptr;
  }

  void add(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands, std::shared_ptr<const Program> program) {
    Key key{.op = &op, .backend = &current_backend(), .attrs = attrs, .operands = {}, .place = default_place()};
    for (const DeviceArray& operand : operands) key.operands.push_back(operand.kind);
    const std::size_t hash = hash_of(op, attrs, operands);
    const std::lock_guard lock(mutex_);
    order_.push_front({std::move(key), std::move(program), hash});
    index_.emplace(hash, order_.begin());
    if (order_.size() <= kCapacity) return;
    const auto [begin, end] = index_.equal_range(order_.back().hash);
    index_.erase(std::find_if(begin, end, [&](const auto& place) { return &*place.second == &order_.back(); }));
    order_.pop_back();
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    index_.clear();
    order_.clear();
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  struct Entry {
    Key key;
    std::shared_ptr<const Program> program;
    std::size_t hash;
  };
  using Order = std::list<Entry>;

  static std::size_t hash_of(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
    std::size_t seed = 0;
    boost::hash_combine(seed, &op);
    boost::hash_combine(seed, &current_backend());
    if (!attrs.entries().empty()) boost::hash_combine(seed, attrs.hash());
    for (const DeviceArray& operand : operands) boost::hash_combine(seed, operand.kind.get());
    return seed;
  }
  static bool is_for(const Key& key, const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
    return key.op == &op && key.backend == &current_backend() && key.attrs == attrs && key.place == default_place() &&
           std::ranges::equal(key.operands, operands, {}, {}, &DeviceArray::kind);
  }

  std::mutex mutex_;
  Order order_;
  std::unordered_multimap<std::size_t, Order::iterator> index_;
};

std::shared_ptr<const Program> compiled(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands,
                                        SourceLocation where) {
  Graph graph;
  graph.name = std::string(op.name);
  std::vector<ValueId> inputs;
  std::vector<InputSpec> specs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ArrayKind& kind = *operands[i].kind;
    inputs.push_back(graph.add_input(kind.type));
    specs.push_back({kind.committed ? std::optional(kind.sharding) : std::nullopt,
                     "operand " + std::to_string(i) + " " + to_string(kind.type)});
  }
  graph.outputs = graph.add_eqn(op, attrs, std::move(inputs), where);
  std::vector<OutputSpec> outputs(graph.outputs.size());
  return std::make_shared<const Program>(std::move(graph), std::move(specs), std::move(outputs), where);
}

Cache& programs() {
  static auto* cache = new Cache;
  return *cache;
}

}  // namespace

void clear_eager_programs() { programs().clear(); }

std::vector<Array> run_eagerly(const OpDef& op, Attrs attrs, std::span<const Array> operands, SourceLocation where) {
  DeviceArrays arguments;
  for (const Array& operand : operands) arguments.push_back(detail::concrete(operand, op.name, where));
  std::shared_ptr<const Program> program = programs().find(op, attrs, arguments);
  if (program == nullptr) {
    // Not under the cache's mutex. Two threads may compile the same: either will do.
    program = compiled(op, attrs, arguments, where);
    programs().add(op, attrs, arguments, program);
  }
  DeviceArrays values = program->call(std::move(arguments), where);
  std::vector<Array> results;
  results.reserve(values.size());
  for (DeviceArray& array : values) results.push_back(detail::Access::make(std::move(array)));
  return results;
}

}  // namespace shoal
