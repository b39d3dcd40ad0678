// Mappings: a function applied to all places of a dimension at once.
//
// An array of a mapping is, for the function, what is in one place; outside it has the mapped dimension. An operation
// on one becomes operations on what is outside, by the rules of the records (ops/batching.h). A value that is the same
// in all places is an array like any other, so that what is concrete stays concrete.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/array/layer.h"
#include "transform/batch.h"

namespace shoal {

class Mapping final : public Layer {
 public:
  Mapping(std::string name, MappedAxis axis);

  const MappedAxis& axis() const { return axis_; }
  /// What is in one place of an array along this dimension.
  Array mapped(const Array& array, std::size_t dim);
  std::string why_not() const override;
  std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) override;
  /// A result outside, and where it has the mapped dimension.
  struct Result {
    Array array;
    std::optional<std::size_t> dim;
  };
  /// Ends the mapping.
  std::vector<Result> finish(std::span<const Array> results);

 private:
  MappedAxis axis_;
};

}  // namespace shoal
