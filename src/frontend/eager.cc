// Operations outside any trace: each is a program of one equation, compiled once for each kind of operands.
#include <boost/container_hash/hash.hpp>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/trace.h"
#include "runtime/program.h"

namespace shoal {
namespace {

struct OperandKey {
  Type type;
  std::optional<Sharding> sharding;
  friend bool operator==(const OperandKey&, const OperandKey&) = default;
};

struct Key {
  const OpDef* op;
  Attrs attrs;
  std::vector<OperandKey> operands;
  friend bool operator==(const Key&, const Key&) = default;
};

struct HashKey {
  std::size_t operator()(const Key& key) const {
    std::size_t seed = 0;
    boost::hash_combine(seed, key.op);
    boost::hash_combine(seed, key.attrs.hash());
    for (const OperandKey& operand : key.operands) {
      boost::hash_combine(seed, static_cast<int>(operand.type.dtype));
      boost::hash_range(seed, operand.type.shape.begin(), operand.type.shape.end());
      if (operand.sharding) boost::hash_combine(seed, operand.sharding->hash());
    }
    return seed;
  }
};

// The programs used most recently.
class Cache {
 public:
  template <class F>
  std::shared_ptr<const Program> get(const Key& key, F&& compile) {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    std::shared_ptr<const Program> program = compile();
    order_.emplace_front(key, program);
    index_[key] = order_.begin();
    if (order_.size() > kCapacity) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return program;
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  using Order = std::list<std::pair<Key, std::shared_ptr<const Program>>>;
  std::mutex mutex_;
  Order order_;
  std::unordered_map<Key, Order::iterator, HashKey> index_;
};

}  // namespace

std::vector<Array> run_eagerly(const OpDef& op, Attrs attrs, std::span<const Array> operands, SourceLocation where) {
  Key key{.op = &op, .attrs = std::move(attrs), .operands = {}};
  std::vector<DeviceArray> arguments;
  for (const Array& operand : operands) {
    const DeviceArray& array = arguments.emplace_back(detail::concrete(operand, op.name, where));
    key.operands.push_back(
        {detail::impl_of(operand).type, array.committed ? std::optional(array.sharding) : std::nullopt});
  }
  static auto* cache = new Cache;
  const std::shared_ptr<const Program> program = cache->get(key, [&] {
    Graph graph;
    graph.name = std::string(op.name);
    std::vector<ValueId> inputs;
    std::vector<InputSpec> specs;
    for (std::size_t i = 0; i < key.operands.size(); ++i) {
      inputs.push_back(graph.add_input(key.operands[i].type));
      specs.push_back(
          {key.operands[i].sharding, "operand " + std::to_string(i) + " " + to_string(key.operands[i].type)});
    }
    graph.outputs = graph.add_eqn(op, key.attrs, std::move(inputs), where);
    std::vector<OutputSpec> outputs(graph.outputs.size());
    return std::make_shared<const Program>(std::move(graph), std::move(specs), std::move(outputs), where);
  });
  std::vector<Array> results;
  for (DeviceArray& array : program->call(std::move(arguments)))
    results.push_back(detail::Access::make(std::move(array)));
  return results;
}

}  // namespace shoal
