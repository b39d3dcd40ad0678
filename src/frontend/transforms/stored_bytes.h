// What stored programs and exported functions have in common as bytes: an envelope, trees, and the elements of captured
// arrays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "frontend/array/array_impl.h"
#include "shoal/tree.h"

namespace shoal::detail {

/// The envelope: magic, version of the format, version of the library; what is stored; a checksum of all before. Only
/// this very version of the library reads it: what ops mean, and how graphs are written, is its own.
class Envelope {
 public:
  /// `function` reads, and is named in errors; `noun` is what it reads.
  constexpr Envelope(std::string_view magic, std::int64_t format, std::string_view function, std::string_view noun)
      : magic_(magic), format_(format), function_(function), noun_(noun) {}

  /// The bytes around what `write` writes.
  std::string pack(FunctionRef<void(ByteWriter&)> write) const;
  /// Reads what is stored. Throws InvalidArgument for bytes that are none, that are cut off, damaged or of another
  /// version, or of which `read` throws something with another line than `where`: they may be written by anybody.
  void unpack(std::string_view bytes, SourceLocation where, FunctionRef<void(ByteReader&)> read) const;

 private:
  std::string_view magic_;
  std::int64_t format_;
  std::string_view function_;
  std::string_view noun_;
};

void store(ByteWriter& out, const TreeDef& tree);
TreeDef read_tree(ByteReader& in);

/// The elements of a captured array, and whether it is committed; its type is that of the graph's input.
void store_elements(ByteWriter& out, const Array& array, bool committed);
Array read_elements(ByteReader& in, const Type& type, const Sharding& sharding, SourceLocation where);

}  // namespace shoal::detail
