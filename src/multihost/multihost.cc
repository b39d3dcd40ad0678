#include "shoal/multihost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/local_part.h"
#include "frontend/array/tree_prefix.h"
#include "multihost/gather_whole.h"
#include "runtime/device_array.h"
#include "runtime/process_data.h"
#include "shoal/make_array.h"

namespace shoal::multihost {
namespace {

// What must be equal in all processes before elements can be exchanged.
Digest digest_of_types(const std::vector<Array>& leaves, const TreeDef& tree) {
  std::string text;
  const std::vector<std::string> paths = tree.leaf_paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    text += fmt::format("{} {}{};", paths[i], name_of(leaves[i].dtype()), fmt::join(leaves[i].shape(), ","));
  }
  return digest_of(text);
}

std::string types_text(const std::vector<Array>& leaves) {
  std::vector<std::string> types;
  for (const Array& leaf : leaves) types.push_back(fmt::format("{}{}", name_of(leaf.dtype()), to_string(leaf.shape())));
  return fmt::format("{}", fmt::join(types, ", "));
}

// The public function at hand, which the layers below name.
std::string_view function() { return Caller::function_or("multihost"); }

// The elements of an array of this process, which may lie anywhere in it.
Buffer elements_of(const Array& array) { return to_host(shoal::detail::concrete(array), function(), Caller::line()); }

Array array_of(Buffer buffer) {
  const Type type{.dtype = buffer.dtype(), .shape = buffer.shape(), .weak = false, .memory = {}, .varying = {}};
  KindPtr kind = kind_of(type, SingleDeviceSharding(local_devices().front()), false);
  ShardSet shards{kind->layout.grid, {}, {std::move(buffer)}};
  return shoal::detail::Access::make(ready_array(std::move(kind), std::move(shards)));
}

Array whole_array(const Array& array, std::int64_t chunk_bytes) {
  const DeviceArray given = shoal::detail::concrete(array);
  return array_of(given.grid()->is_local() ? to_host(given, function(), Caller::line())
                                           : gather_whole(given, chunk_bytes));
}

void check_types(const std::vector<Digest>& all, const std::vector<Array>& leaves) {
  const std::vector<int> others = differing(all_processes(), all);
  if (others.empty()) return;
  throw misuse<InvalidArgument>(
      "trees of other structure, shapes, dtypes or devices were given by process 0 and process{} {}; here they are {}",
      others.size() == 1 ? "" : "es", fmt::join(others, ", "), types_text(leaves));
}

}  // namespace

void sync_global_devices(std::string_view name, SourceLocation where) {
  const Caller caller("sync_global_devices", where);
  const std::vector<int> all = all_processes();
  const std::vector<int> others = differing(all, gather_digests(all, digest_of(name), function(), Caller::line()));
  if (others.empty()) return;
  throw misuse<InvalidArgument>("the name here is '{}', but process 0 and process{} {} gave different ones", name,
                                others.size() == 1 ? "" : "es", fmt::join(others, ", "));
}

namespace detail {

std::vector<Array> broadcast_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                                    std::optional<bool> is_source, SourceLocation where) {
  const Caller caller("broadcast_one_to_all", where);
  const std::vector<int> all = all_processes();
  const bool is_mine = is_source.value_or(process_index() == all.front());
  // A source says so in the lowest bit.
  Digest said = digest_of_types(leaves, tree);
  said[0] = (said[0] & ~std::uint64_t{1}) | (is_mine ? 1U : 0U);
  std::vector<Digest> answers = gather_digests(all, said, function(), Caller::line());
  std::vector<int> sources;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((answers[i][0] & 1U) != 0) sources.push_back(all[i]);
    answers[i][0] &= ~std::uint64_t{1};
  }
  check_types(answers, leaves);
  if (sources.size() != 1) {
    throw misuse<InvalidArgument>("is_source must be true in one process, but it is so in {} of {}{}", sources.size(),
                                  all.size(), sources.empty() ? "" : fmt::format(": {}", fmt::join(sources, ", ")));
  }
  std::vector<Array> results;
  for (const Array& leaf : leaves) {
    results.push_back(array_of(broadcast_buffer(all, sources[0], elements_of(leaf), function(), Caller::line())));
  }
  return results;
}

std::vector<Array> gather_leaves(const std::vector<Array>& leaves, const TreeDef& tree, bool tiled,
                                 SourceLocation where) {
  const Caller caller("process_allgather", where);
  const std::vector<int> all = all_processes();
  const std::vector<std::string> paths = tree.leaf_paths();
  // All agree on which arrays span processes, before some throw and others wait.
  Digest said = digest_of(digest_of_types(leaves, tree), tiled ? 1 : 0);
  for (const Array& leaf : leaves) {
    const bool spans = !leaf.is_fully_addressable();
    said = digest_of(said, spans ? 1 : 0);
    if (!spans) continue;
    for (const Device& device : leaf.sharding().device_list())
      said = digest_of(said, static_cast<std::uint64_t>(device.id));
  }
  check_types(gather_digests(all, said, function(), Caller::line()), leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool spans = !leaves[i].is_fully_addressable();
    if (spans && !tiled) {
      throw misuse<InvalidArgument>(
          "argument {}: the array {} lies on devices of several processes, and is whole already; gather it with tiled "
          "= true",
          paths[i], to_string(leaves[i].shape()));
    }
    if (spans && shoal::detail::concrete(leaves[i]).grid()->processes() != all) {
      throw misuse<InvalidArgument>("argument {}: the array {} lies on devices of some of the processes only", paths[i],
                                    to_string(leaves[i].shape()));
    }
  }
  std::vector<Array> results;
  for (const Array& leaf : leaves) {
    if (!leaf.is_fully_addressable()) {
      results.push_back(whole_array(leaf, ToHostOptions().chunk_bytes));
      continue;
    }
    Buffer stacked = gather_buffers(all, elements_of(leaf), function(), Caller::line());
    if (tiled && leaf.ndim() > 0) {
      Shape shape = leaf.shape();
      shape[0] *= static_cast<std::int64_t>(all.size());
      stacked = stacked.reshaped(shape);
    }
    results.push_back(array_of(std::move(stacked)));
  }
  return results;
}

std::vector<Array> leaves_to_host(const std::vector<Array>& leaves, const TreeDef& tree, std::int64_t chunk_bytes,
                                  SourceLocation where) {
  const Caller caller("to_host", where);
  const std::vector<std::string> paths = tree.leaf_paths();
  std::vector<Array> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    results.push_back(whole_array(leaves[i], chunk_bytes));
  }
  return results;
}

void check_equal_leaves(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view message,
                        SourceLocation where) {
  const Caller caller("assert_equal", where);
  Digest digest = digest_of_types(leaves, tree);
  for (const Array& leaf : leaves) {
    const Buffer elements = elements_of(leaf);
    digest = digest_of(elements.data(), elements.size_bytes(), digest);
  }
  const std::string what = message.empty() ? "" : fmt::format("{}: ", message);
  const std::vector<int> all = all_processes();
  const std::vector<int> others = differing(all, gather_digests(all, digest, function(), Caller::line()));
  if (others.empty()) return;
  throw misuse<InvalidArgument>("{}process{} {} gave other values than process 0; here they are {}", what,
                                others.size() == 1 ? "" : "es", fmt::join(others, ", "), types_text(leaves));
}

std::vector<Array> to_global_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const Mesh& mesh,
                                    const SpecTree& specs, SourceLocation where) {
  const Caller caller("host_local_array_to_global_array", where);
  const std::vector<PartitionSpec> wanted = apply_prefix(specs, tree, "specs");
  std::vector<Array> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const NamedSharding sharding(mesh, wanted[i], {}, Caller::line());
    const bool spans = !leaves[i].is_fully_addressable();
    results.push_back(spans ? device_put(leaves[i], sharding)
                            : make_array_from_process_local_data(sharding, leaves[i]));
  }
  return results;
}

std::vector<Array> to_local_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const Mesh& mesh,
                                   const SpecTree& specs, SourceLocation where) {
  const Caller caller("global_array_to_host_local_array", where);
  const std::vector<PartitionSpec> wanted = apply_prefix(specs, tree, "specs");
  std::vector<Array> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const NamedSharding sharding(mesh, wanted[i], {}, Caller::line());
    const bool lies_so = Sharding(sharding).is_equivalent_to(leaves[i].sharding(), leaves[i].ndim());
    // Written as asked, so that the result is written so, too.
    const DeviceArray array = shoal::detail::concrete(lies_so ? leaves[i] : device_put(leaves[i], sharding));
    results.push_back(shoal::detail::local_part(
        shoal::detail::Access::make(shoal::detail::relabelled(array, kind_of(array.type(), sharding, true)))));
  }
  return results;
}

}  // namespace detail
}  // namespace shoal::multihost
