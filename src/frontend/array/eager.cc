// Operations outside any trace: each is a program of one equation, compiled once for each kind of operands.
#include "frontend/array/eager.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <utility>

#include "backend/backend.h"
#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/program_cache.h"
#include "frontend/array/trace.h"
#include "ir/bodies.h"
#include "runtime/program.h"
#include "runtime/result_checks.h"
#include "sharding/default_place.h"
#include "transform/custom.h"

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

std::size_t hash_of(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
  std::size_t seed = 0;
  boost::hash_combine(seed, &op);
  boost::hash_combine(seed, &current_backend());
  if (!attrs.entries().empty()) boost::hash_combine(seed, attrs.hash());
  for (const DeviceArray& operand : operands) boost::hash_combine(seed, operand.kind.get());
  return seed;
}

bool is_for(const Key& key, const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
  return key.op == &op && key.backend == &current_backend() && key.attrs == attrs && key.place == default_place() &&
         std::ranges::equal(key.operands, operands, {}, {}, &DeviceArray::kind);
}

std::shared_ptr<const Program> compiled(const OpDef& op, const Attrs& attrs, const DeviceArrays& operands) {
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
  graph.outputs = graph.add_eqn(op, attrs, std::move(inputs), Caller::line());
  std::vector<OutputSpec> outputs(graph.outputs.size());
  return std::make_shared<const Program>(std::move(graph), std::move(specs), std::move(outputs), Caller::line());
}

ProgramCache<Key, Program>& programs() {
  static auto* cache = new ProgramCache<Key, Program>;
  return *cache;
}

}  // namespace

void clear_eager_programs() { programs().clear(); }

std::vector<Array> run_eagerly(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  attrs = without_rules(std::move(attrs));
  DeviceArrays arguments;
  for (const Array& operand : operands) arguments.push_back(detail::concrete(operand));
  const std::size_t hash = hash_of(op, attrs, arguments);
  // Programs of equal graphs are one, with the lines of the first; those that are looked for must be this call's.
  const bool is_of_lines = are_results_checked() && !bodies_of(attrs).empty();
  std::shared_ptr<const Program> program;
  if (!is_of_lines) program = programs().find(hash, [&](const Key& key) { return is_for(key, op, attrs, arguments); });
  if (program == nullptr) {
    program = compiled(op, attrs, arguments);  // Not under the cache's mutex.
    Key key{
        .op = &op, .backend = &current_backend(), .attrs = std::move(attrs), .operands = {}, .place = default_place()};
    for (const DeviceArray& argument : arguments) key.operands.push_back(argument.kind);
    programs().add(hash, std::move(key), program);
  }
  DeviceArrays values = program->call(std::move(arguments), Caller::line());
  std::vector<Array> results;
  results.reserve(values.size());
  for (DeviceArray& array : values) results.push_back(detail::Access::make(std::move(array)));
  return results;
}

}  // namespace shoal
