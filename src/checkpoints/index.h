// index.json: which arrays a checkpoint has, and where their parts are.
//
// The first line holds a checksum of all that follows it, so that the file is JSON and damage to it is noticed. Boxes
// of an array do not overlap, and together they are all of it. The elements of a box are dense and row-major in the
// file, and have a checksum for each `piece_bytes` of them, so that a part can be read and checked without the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/files.h"
#include "sharding/box.h"
#include "shoal/dtype.h"
#include "shoal/shape.h"
#include "shoal/sharding.h"

namespace shoal::checkpoints {

inline constexpr std::string_view kIndexName = "index.json";
/// A multiple of the size of every element, so that no piece cuts one.
inline constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

/// The lower half of XXH3's 128 bits.
std::uint64_t checksum_of_bytes(const void* data, std::size_t bytes);

struct StoredBox {
  Box box;
  std::size_t file = 0;                       ///< Among the files of the index.
  std::int64_t offset = 0;                    ///< In the file.
  std::vector<std::uint64_t> checksums = {};  ///< Of its pieces; empty if there are none to compare with.
};

struct StoredArray {
  std::string path;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  bool weak = false;
  std::string sharding = {};  ///< JSON.
  std::vector<StoredBox> boxes = {};

  std::int64_t bytes() const { return num_elements(shape) * static_cast<std::int64_t>(size_of(dtype)); }
};

struct StoredFile {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t header_bytes = 0;  ///< What stands before the elements.
  std::uint64_t header_checksum = 0;
};

struct Index {
  std::int64_t step = 0;
  std::string run;              ///< Of this save alone, and in the metadata of its files.
  std::string metadata = "{}";  ///< The user's, JSON.
  std::vector<StoredFile> files = {};
  std::vector<StoredArray> arrays = {};
  std::int64_t piece_bytes = kPieceBytes;
};

std::string to_text(const Index& index);
/// Reads it. Throws CheckpointError, naming `path`, for what to_text() does not write: what refers to files is checked
/// against their sizes as the index says them, and nothing else of them is looked at.
Index parse_index(const std::string& text, const Path& path);

/// Where an array lies, as JSON.
std::string sharding_text(const Sharding& sharding);

/// JSON without spaces where it is some. Throws InvalidArgument, beginning with `what`, for other texts.
std::string checked_json(const std::string& text, std::string_view what);

}  // namespace shoal::checkpoints
