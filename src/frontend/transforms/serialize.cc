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
#include "base/error_text.h"
#include "base/misuse.h"
#include "comm/transport/box_copy.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/tree_prefix.h"
#include "frontend/transforms/jit_impl.h"

namespace shoal::detail {
namespace {

constexpr std::string_view kMagic = "shoal program\n";
constexpr std::int64_t kFormat = 2;
constexpr std::string_view kVersion = SHOAL_VERSION;

void store(ByteWriter& out, const TreeDef& tree) {
  out.text(tree.kind);
  out.number(static_cast<std::int64_t>(tree.children.size()));
  for (const auto& [key, child] : tree.children) {
    out.text(key);
    store(out, child);
  }
}

// Deeper ones would be a danger to the stack.
constexpr int kDeepestTree = 1000;

TreeDef read_tree(ByteReader& in, int depth = 0) {
  if (depth > kDeepestTree) throw InvalidArgument(fmt::format("a tree that is deeper than {}", kDeepestTree));
  TreeDef tree;
  tree.kind = std::string(in.text());
  const std::size_t count = in.count(3 * sizeof(std::int64_t));
  for (std::size_t i = 0; i < count; ++i) {
    std::string key(in.text());
    tree.children.emplace_back(std::move(key), read_tree(in, depth + 1));
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
  if (type.dtype == bool_ && bytes.find_first_not_of(std::string_view("\0\1", 2)) != std::string_view::npos) {
    throw InvalidArgument("a captured array of bools has elements that are neither false nor true");
  }
  const std::size_t needed = static_cast<std::size_t>(num_elements(type.shape)) * size_of(type.dtype);
  if (bytes.size() != needed) {
    throw InvalidArgument(fmt::format("{} bytes are the elements of a captured array {}, which has {}", bytes.size(),
                                      to_string(type), needed));
  }
  Buffer whole(host_space(kDeviceMemory), type.dtype, type.shape);
  copy_bytes(whole.mutable_data(), bytes.data(), bytes.size());
  const Sharding here = SingleDeviceSharding(sharding.device_list().front());
  KindPtr kind = kind_of(type, here, true);
  ShardSet shards{kind->layout.grid, {}, {std::move(whole)}};
  return Access::make(put(ready_array(std::move(kind), std::move(shards)), sharding, committed, where));
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
  const auto refusal = [&](const std::string& text) { return InvalidArgument("deserialize_and_load: " + text, where); };
  ByteWriter start;
  start.text(kMagic);
  if (!bytes.starts_with(start.bytes())) throw refusal("the bytes are no program that serialize() stored");
  try {
    ByteReader in(bytes.substr(start.bytes().size()));
    const std::int64_t format = in.number();
    const std::string version(in.text());
    if (format != kFormat || version != kVersion) {
      throw refusal(fmt::format(
          "the program was stored by version {} of Shoal, in format {}, but this is version {}, which reads "
          "format {}; store it anew",
          version, format, kVersion, kFormat));
    }
  } catch (const InvalidArgument& error) {
    if (error.where()) throw;
    throw refusal("the bytes of the program are cut off");
  }
  const std::size_t end = bytes.size() - std::min(bytes.size(), sizeof(std::int64_t));
  if (ByteReader(bytes.substr(end)).number() != checksum_of(bytes.substr(0, end))) {
    throw refusal(
        fmt::format("the {} bytes of the program are damaged or cut off: their checksum is another", bytes.size()));
  }
  ByteReader in(bytes.substr(start.bytes().size(), end - start.bytes().size()));
  in.number();
  in.text();
  // What follows has passed for undamaged, and may have been written by anybody: all of it is checked before use.
  const auto unsound = [&](std::string_view why) {
    return refusal(fmt::format("the bytes are no program that serialize() stored: {}", why));
  };
  try {
    return read_compiled(in, devices, where);
  } catch (const Error& error) {
    const bool of_caller =
        error.where() && error.where()->file_name() == where.file_name() && error.where()->line() == where.line();
    if (of_caller) throw;  // The program is sound, and does not fit the devices.
    throw unsound(message_of(error));
  } catch (const std::exception& error) {
    throw unsound(error.what());
  }
}

const TreeDef& result_tree(const CompiledImpl& compiled) { return compiled.lowered.traced->result_tree; }

void set_exemplar(CompiledImpl& compiled, std::any exemplar) {
  auto traced = std::make_shared<Traced>(*compiled.lowered.traced);
  traced->exemplar = std::make_shared<const std::any>(std::move(exemplar));
  compiled.lowered.traced = std::move(traced);
}

}  // namespace shoal::detail
