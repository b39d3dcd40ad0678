// The safetensors format (https://github.com/huggingface/safetensors): eight bytes that say how long the header is, a
// header of JSON, and the elements of all tensors without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/files.h"
#include "shoal/dtype.h"
#include "shoal/shape.h"

namespace shoal::checkpoints {

/// The format's limit for what stands before the elements.
inline constexpr std::int64_t kMostHeaderBytes = 100'000'008;

/// How elements of a dtype are stored: as those of a dtype that the format has, with one more dimension of `parts` if
/// that is not 1. Keys are words of u32, and complex128 pairs of f64.
struct StoredAs {
  std::string_view dtype;
  std::int64_t parts = 1;
};
StoredAs stored_as(Dtype dtype);
/// The dtype of a name of the format; none if Shoal has no such dtype.
std::optional<Dtype> dtype_of_stored(std::string_view name);

struct StoredTensor {
  std::string name;
  std::string dtype;  ///< As the format calls it.
  Shape shape;
  std::int64_t begin = 0;  ///< Of its bytes among those of all.
  std::int64_t bytes = 0;
};
/// That of elements of this dtype. Where they begin is left open.
StoredTensor stored_tensor(std::string name, Dtype dtype, const Shape& shape);

struct TensorFile {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::int64_t data_begin = 0;  ///< Of the elements in the file.
};

/// Gives tensors their places one after the other. Those of wide elements should come first, so that all are aligned.
/// Returns how many bytes all have.
std::int64_t place_tensors(std::vector<StoredTensor>& tensors);
/// What stands before the elements, which begin at a multiple of FileReader::kBlock.
std::string header_of(const std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata);
/// Reads what stands there. Throws CheckpointError, naming the file, unless it is what the format says.
TensorFile read_header(const FileReader& file);

}  // namespace shoal::checkpoints
