// The bytes of a compiled program:
//
//   magic, version of the format, version of the library
//   the function: name, trees of arguments and results, for which arguments in_shardings say something
//   the program (Program::store): the graph after every stage as text, shardings of inputs and outputs
//   the elements of captured arrays
//   checksum of all before
//
// Only this very version of the library reads them: what ops mean, and how graphs are written, is its own.
#include "shoal/serialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/misuse.h"
#include "comm/transport/box_copy.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/jit_impl.h"

namespace shoal::detail {
namespace {

constexpr std::string_view kMagic = "shoal program\n";
constexpr std::int64_t kFormat = 1;
constexpr std::string_view kVersion = SHOAL_VERSION;

void store(ByteWriter& out, const TreeDef& tree) {
  out.text(tree.kind);
  out.number(static_cast<std::int64_t>(tree.children.size()));
  for (const auto& [key, child] : tree.children) {
    out.text(key);
    store(out, child);
  }
}

TreeDef read_tree(ByteReader& in) {
  TreeDef tree;
  tree.kind = std::string(in.text());
  const std::int64_t count = in.number();
  for (std::int64_t i = 0; i < count; ++i) {
    std::string key(in.text());
    tree.children.emplace_back(std::move(key), read_tree(in));
  }
  return tree;
}

// A sharding for some leaves, as a prefix of the tree.
ShardingTree spelled_out(const TreeDef& tree, const std::vector<MaybeSharding>& leaves, std::size_t& next) {
  if (tree.is_leaf()) return ShardingTree(leaves[next++]);
  std::vector<ShardingTree> children;
  for (const auto& [key, child] : tree.children) children.push_back(spelled_out(child, leaves, next));
  return ShardingTree(std::move(children));
}

// The elements of a captured array; its type is that of the graph's input.
void store_elements(ByteWriter& out, const Array& array) {
  const DeviceArray device = concrete(array, "captured array");
  if (!device.placement().partial.empty()) {
    throw misuse<InvalidArgument>(
        "captured array is unreduced, {}, and cannot be stored; reshard it first, or pass it "
        "as an argument",
        to_string(device.sharding()));
  }
  const Buffer whole = to_host(device);
  out.flag(committed_sharding(array).has_value());
  out.text({static_cast<const char*>(whole.data()), whole.size_bytes()});
}

Array read_elements(ByteReader& in, const Type& type, const Sharding& sharding, SourceLocation where) {
  const bool committed = in.flag();
  const std::string_view bytes = in.text();
  Buffer whole(host_space(kDeviceMemory), type.dtype, type.shape);
  copy_bytes(whole.mutable_data(), bytes.data(), std::min(bytes.size(), whole.size_bytes()));
  const Sharding here = SingleDeviceSharding(sharding.device_list().front());
  KindPtr kind = kind_of(type, here, true);
  ShardSet shards{kind->layout.grid, {}, {std::move(whole)}};
  return Access::make(put(ready_array(std::move(kind), std::move(shards)), sharding, committed, where));
}

}  // namespace

std::string serialize_compiled(const CompiledImpl& compiled, SourceLocation where) {
  const LoweredImpl& lowered = compiled.lowered;
  const JitOptions& options = options_of(*lowered.cache);
  const Caller caller(options.name, where);
  ByteWriter out;
  out.text(kMagic);
  out.number(kFormat);
  out.text(kVersion);
  out.text(options.name);
  store(out, lowered.tree);
  store(out, lowered.traced->result_tree);
  for (const MaybeSharding& sharding : apply_prefix(options.in_shardings, lowered.tree, "in_shardings")) {
    out.flag(sharding.has_value());
  }
  compiled.program->store(out, options.name, where);
  for (const Array& capture : lowered.traced->captures) {
    store_elements(out, capture);
  }
  const std::int64_t checksum = checksum_of(out.bytes());
  out.number(checksum);
  return out.bytes();
}

std::shared_ptr<CompiledImpl> load_compiled(std::string_view bytes, const std::vector<Device>& devices,
                                            SourceLocation where) {
  const Caller caller("deserialize_and_load", where);
  const auto refuse = [&](const std::string& text) { throw InvalidArgument("deserialize_and_load: " + text, where); };
  ByteWriter start;
  start.text(kMagic);
  if (!bytes.starts_with(start.bytes())) refuse("the bytes are no program that serialize() stored");
  try {
    ByteReader in(bytes.substr(start.bytes().size()));
    const std::int64_t format = in.number();
    const std::string version(in.text());
    if (format != kFormat || version != kVersion) {
      refuse(fmt::format(
          "the program was stored by version {} of Shoal, in format {}, but this is version {}, which reads "
          "format {}; store it anew",
          version, format, kVersion, kFormat));
    }
  } catch (const InvalidArgument& error) {
    if (error.where()) throw;
    refuse("the bytes of the program are cut off");
  }
  const std::size_t end = bytes.size() - std::min(bytes.size(), sizeof(std::int64_t));
  if (ByteReader(bytes.substr(end)).number() != checksum_of(bytes.substr(0, end))) {
    refuse(fmt::format("the {} bytes of the program are damaged or cut off: their checksum is another", bytes.size()));
  }
  ByteReader in(bytes.substr(start.bytes().size(), end - start.bytes().size()));
  in.number();
  in.text();
  JitOptions options{.name = std::string(in.text())};
  auto traced = std::make_shared<Traced>();
  LoweredImpl lowered{.cache = {}, .tree = read_tree(in), .num_statics = 0, .leaves = {}, .traced = {}};
  traced->result_tree = read_tree(in);
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < lowered.tree.num_leaves(); ++i) wanted.push_back(in.flag());
  auto program = std::make_shared<const Program>(in, devices, options.name, where);
  traced->graph = program->stage("traced");
  const std::vector<Sharding>& shardings = program->input_shardings();
  std::vector<MaybeSharding> in_shardings;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    lowered.leaves.push_back({.type = traced->graph.type(traced->graph.inputs[i]), .sharding = {}});
    in_shardings.push_back(wanted[i] ? MaybeSharding(shardings[i]) : std::nullopt);
  }
  for (std::size_t i = wanted.size(); i < shardings.size(); ++i) {
    traced->captures.push_back(read_elements(in, traced->graph.type(traced->graph.inputs[i]), shardings[i], where));
  }
  std::size_t next = 0;
  options.in_shardings = spelled_out(lowered.tree, in_shardings, next);
  lowered.cache = make_jit_cache(options, where);
  lowered.traced = std::move(traced);
  return std::make_shared<CompiledImpl>(CompiledImpl{std::move(lowered), std::move(program)});
}

const TreeDef& result_tree(const CompiledImpl& compiled) { return compiled.lowered.traced->result_tree; }

void set_exemplar(CompiledImpl& compiled, std::any exemplar) {
  auto traced = std::make_shared<Traced>(*compiled.lowered.traced);
  traced->exemplar = std::make_shared<const std::any>(std::move(exemplar));
  compiled.lowered.traced = std::move(traced);
}

}  // namespace shoal::detail
