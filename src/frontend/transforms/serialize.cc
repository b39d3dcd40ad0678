// The bytes of a compiled program:
//
//   the envelope (stored_bytes.h), and in it
//   the function: name, trees of arguments and results, for which arguments in_shardings say something
//   the program (Program::store): the graph after every stage as text, shardings of inputs and outputs
//   the elements of captured arrays
#include "shoal/serialize.h"

#include <utility>

#include "frontend/array/array_impl.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/jit_impl.h"
#include "frontend/transforms/stored_bytes.h"

namespace shoal::detail {
namespace {

constexpr Envelope kEnvelope("shoal program\n", 2, "deserialize_and_load", "program");

// A sharding for some leaves, as a prefix of the tree.
ShardingTree spelled_out(const TreeDef& tree, const std::vector<MaybeSharding>& leaves, std::size_t& next) {
  if (tree.is_leaf()) return ShardingTree(leaves[next++]);
  std::vector<ShardingTree> children;
  for (const auto& [key, child] : tree.children) children.push_back(spelled_out(child, leaves, next));
  return ShardingTree(std::move(children));
}

// The program that follows in the bytes.
std::shared_ptr<CompiledImpl> read_compiled(ByteReader& in, const std::vector<Device>& devices, SourceLocation where) {
  JitOptions options{.name = std::string(in.text())};
  auto traced = std::make_shared<Traced>();
  LoweredImpl lowered{.cache = {}, .tree = read_tree(in), .num_statics = 0, .leaves = {}, .traced = {}};
  traced->result_tree = read_tree(in);
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < lowered.tree.num_leaves(); ++i) wanted.push_back(in.flag());
  auto program = std::make_shared<const Program>(in, devices, options.name, where);
  traced->graph = program->stage("traced");
  const std::vector<Sharding>& shardings = program->input_shardings();
  if (wanted.size() > shardings.size() || traced->result_tree.num_leaves() != traced->graph.outputs.size()) {
    throw InvalidArgument("the trees of arguments and results are not those of the graph");
  }
  std::vector<MaybeSharding> in_shardings;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    lowered.leaves.push_back({.type = traced->graph.type(traced->graph.inputs[i]), .sharding = {}});
    in_shardings.push_back(wanted[i] ? MaybeSharding(shardings[i]) : std::nullopt);
  }
  for (std::size_t i = wanted.size(); i < shardings.size(); ++i) {
    traced->captures.push_back(read_elements(in, traced->graph.type(traced->graph.inputs[i]), shardings[i], where));
  }
  if (!in.at_end()) throw InvalidArgument("there are bytes after the last captured array");
  std::size_t next = 0;
  options.in_shardings = spelled_out(lowered.tree, in_shardings, next);
  lowered.cache = make_jit_cache(options, where);
  lowered.traced = std::move(traced);
  return std::make_shared<CompiledImpl>(CompiledImpl{std::move(lowered), std::move(program)});
}

}  // namespace

std::string serialize_compiled(const CompiledImpl& compiled, SourceLocation where) {
  const LoweredImpl& lowered = compiled.lowered;
  const JitOptions& options = options_of(*lowered.cache);
  const Caller caller(options.name, where);
  return kEnvelope.pack([&](ByteWriter& out) {
    out.text(options.name);
    store(out, lowered.tree);
    store(out, lowered.traced->result_tree);
    for (const MaybeSharding& sharding : apply_prefix(options.in_shardings, lowered.tree, "in_shardings")) {
      out.flag(sharding.has_value());
    }
    compiled.program->store(out, options.name, where);
    for (const Array& capture : lowered.traced->captures) {
      store_elements(out, capture, committed_sharding(capture).has_value());
    }
  });
}

std::shared_ptr<CompiledImpl> load_compiled(std::string_view bytes, const std::vector<Device>& devices,
                                            SourceLocation where) {
  const Caller caller("deserialize_and_load", where);
  std::shared_ptr<CompiledImpl> compiled;
  kEnvelope.unpack(bytes, where, [&](ByteReader& in) { compiled = read_compiled(in, devices, where); });
  return compiled;
}

const TreeDef& result_tree(const CompiledImpl& compiled) { return compiled.lowered.traced->result_tree; }

void set_exemplar(CompiledImpl& compiled, std::any exemplar) {
  auto traced = std::make_shared<Traced>(*compiled.lowered.traced);
  traced->exemplar = std::make_shared<const std::any>(std::move(exemplar));
  compiled.lowered.traced = std::move(traced);
}

}  // namespace shoal::detail
