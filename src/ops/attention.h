// What the reference and the kernels of attention share: what operands there are, and where their elements lie.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "ir/attrs.h"

namespace shoal {

/// The logit of a key that a query does not see. Finite, so that a query that sees nothing has a mean of all values
/// instead of NaN.
inline constexpr double kHiddenLogit = -1e38;

/// What operands of a dtype are added up in: f32, or their own if it is larger.
Dtype dtype_of_sums(Dtype dtype);

/// (batch, k, g, t, s), of queries (batch, t, k, g, h) and keys (batch, s, k, h).
Shape shape_of_logits(const Shape& query, const Shape& key);

/// The operands and attributes of an attention.
struct AttentionViews {
  TensorView query;
  TensorView key;
  TensorView value;
  const TensorView* bias = nullptr;
  const TensorView* mask = nullptr;
  double scale;
  bool causal;

  /// `views` are those of `attention`, which outlive this.
  AttentionViews(const Attrs& attrs, std::span<const TensorView> views);

  // Their extents; those of the batch are one.
  std::int64_t b;
  std::int64_t t;
  std::int64_t k;
  std::int64_t g;
  std::int64_t h;
  std::int64_t s;
  std::int64_t v;
  std::int64_t first_query;  ///< The position of the first query of the shard.

  /// The number of a query, or of a key, among all.
  std::int64_t query_at(std::int64_t at_b, std::int64_t at_t, std::int64_t at_k, std::int64_t at_g) const {
    return ((at_b * t + at_t) * k + at_k) * g + at_g;
  }
  std::int64_t key_at(std::int64_t at_b, std::int64_t at_s, std::int64_t at_k) const {
    return (at_b * s + at_s) * k + at_k;
  }

  /// Where in a mask or bias the elements for one part of the batch are.
  struct Logits {
    std::int64_t first;
    std::array<std::int64_t, 4> strides;  ///< Along k, g, t and s; 0 where it is the same for all.

    std::int64_t at(std::int64_t at_k, std::int64_t at_g, std::int64_t at_t, std::int64_t at_s) const {
      return first + at_k * strides[0] + at_g * strides[1] + at_t * strides[2] + at_s * strides[3];
    }
  };
  Logits logits(const TensorView& view, std::int64_t at_b) const;
};

}  // namespace shoal
