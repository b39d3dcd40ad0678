#include "frontend/transforms/stored_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error_text.h"
#include "base/misuse.h"
#include "comm/transport/box_copy.h"
#include "frontend/transforms/jit_impl.h"

namespace shoal::detail {
namespace {

constexpr std::string_view kVersion = SHOAL_VERSION;

// Deeper ones would be a danger to the stack.
constexpr int kDeepestTree = 1000;

TreeDef read_tree_at(ByteReader& in, int depth) {
  if (depth > kDeepestTree) throw InvalidArgument(fmt::format("a tree that is deeper than {}", kDeepestTree));
  TreeDef tree;
  tree.kind = std::string(in.text());
  const std::size_t count = in.count(3 * sizeof(std::int64_t));
  for (std::size_t i = 0; i < count; ++i) {
    std::string key(in.text());
    tree.children.emplace_back(std::move(key), read_tree_at(in, depth + 1));
  }
  return tree;
}

}  // namespace

std::string Envelope::pack(FunctionRef<void(ByteWriter&)> write) const {
  ByteWriter out;
  out.text(magic_);
  out.number(format_);
  out.text(kVersion);
  write(out);
  const std::int64_t checksum = checksum_of(out.bytes());
  out.number(checksum);
  return out.bytes();
}

void Envelope::unpack(std::string_view bytes, SourceLocation where, FunctionRef<void(ByteReader&)> read) const {
  const auto refusal = [&](const std::string& text) {
    return InvalidArgument(fmt::format("{}: {}", function_, text), where);
  };
  ByteWriter start;
  start.text(magic_);
  if (!bytes.starts_with(start.bytes()))
    throw refusal(fmt::format("the bytes are no {} that serialize() stored", noun_));
  try {
    ByteReader in(bytes.substr(start.bytes().size()));
    const std::int64_t format = in.number();
    const std::string version(in.text());
    // What is printed of bytes that nobody has checked yet is text at least.
    if (!std::ranges::all_of(version, [](unsigned char c) { return c > 0x20 && c < 0x7f; })) {
      throw refusal(fmt::format("the bytes of the {} are damaged: they name no version", noun_));
    }
    if (format != format_ || version != kVersion) {
      throw refusal(
          fmt::format("the {} was stored by version {} of Shoal, in format {}, but this is version {}, which "
                      "reads format {}; store it anew",
                      noun_, version, format, kVersion, format_));
    }
  } catch (const InvalidArgument& error) {
    if (error.where()) throw;
    throw refusal(fmt::format("the bytes of the {} are cut off", noun_));
  }
  const std::size_t end = bytes.size() - std::min(bytes.size(), sizeof(std::int64_t));
  if (ByteReader(bytes.substr(end)).number() != checksum_of(bytes.substr(0, end))) {
    throw refusal(
        fmt::format("the {} bytes of the {} are damaged or cut off: their checksum is another", bytes.size(), noun_));
  }
  ByteReader in(bytes.substr(start.bytes().size(), end - start.bytes().size()));
  in.number();
  in.text();
  // What follows has passed for undamaged, and may have been written by anybody: all of it is checked before use.
  const auto unsound = [&](std::string_view why) {
    return refusal(fmt::format("the bytes are no {} that serialize() stored: {}", noun_, why));
  };
  try {
    read(in);
  } catch (const Error& error) {
    const bool of_caller =
        error.where() && error.where()->file_name() == where.file_name() && error.where()->line() == where.line();
    if (of_caller) throw;  // It is sound, and does not fit the devices.
    throw unsound(message_of(error));
  } catch (const std::exception& error) {
    throw unsound(error.what());
  }
}

void store(ByteWriter& out, const TreeDef& tree) {
  out.text(tree.kind);
  out.number(static_cast<std::int64_t>(tree.children.size()));
  for (const auto& [key, child] : tree.children) {
    out.text(key);
    store(out, child);
  }
}

TreeDef read_tree(ByteReader& in) { return read_tree_at(in, 0); }

void store_elements(ByteWriter& out, const Array& array, bool committed) {
  const DeviceArray device = concrete(array, "captured array");
  if (!device.placement().partial.empty()) {
    throw misuse<InvalidArgument>(
        "captured array is unreduced, {}, and cannot be stored; reshard it first, or pass it "
        "as an argument",
        to_string(device.sharding()));
  }
  const Buffer whole = to_host(device);
  out.flag(committed);
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

}  // namespace shoal::detail
