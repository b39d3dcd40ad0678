// Sharding rules: which dimensions of an op's operands and results belong together.
//
// A rule maps every dimension to factors, as in Shardy: dot: (i, k), (k, j) -> (i, j). One rule per op drives
// propagation, partitioning and cost alike. A dimension of several factors (major to minor) is their product, as in a
// reshape that merges dimensions.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sharding/placement.h"

namespace shoal {

enum class FactorKind : std::uint8_t {
  kPassThrough,      ///< Shards compute alone.
  kReduction,        ///< Shards compute partial results, to be combined by the rule's reduction.
  kNeedReplication,  ///< The dimension must be whole on each device.
  kCumulative,  ///< Along it each element is combined with those before it, by the rule's reduction: shards compute
                ///< their own part and then take in what those before them have.
  kCounted,     ///< Elements count along it: shards, all of one extent, count on from where they begin.
  kRearranged,  ///< Elements change places along it: shards fetch what they lack (OpDef::rearrange).
  kJoint,       ///< Of a matrix that all devices compute with together (OpDef::joint).
  kWindowed,    ///< Windows move along it: shards fetch what theirs reach of other shards (OpDef::windowed).
  kWindowedReduction,  ///< The same, of positions in a window that are summed over: shards compute partial results.
};

struct Factor {
  std::int64_t size = 1;
  FactorKind kind = FactorKind::kPassThrough;
  friend bool operator==(const Factor&, const Factor&) = default;
};

/// Whether shards of a factor of this kind compute partial results.
inline bool sums_over(FactorKind kind) {
  return kind == FactorKind::kReduction || kind == FactorKind::kWindowedReduction;
}
/// Whether shards of a factor of this kind take in elements of their neighbours' before they compute.
inline bool takes_halos(FactorKind kind) {
  return kind == FactorKind::kWindowed || kind == FactorKind::kWindowedReduction;
}

/// The factors of one dimension, major to minor.
using DimFactors = boost::container::small_vector<int, 2>;
/// The dimensions of one operand or result.
using TensorFactors = std::vector<DimFactors>;

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;
  std::vector<TensorFactors> results;
  ReduceKind reduction = ReduceKind::kSum;
  bool even = false;  ///< Whether shards must all be of one shape: factors are split by what divides them only.

  int add_factor(std::int64_t size, FactorKind kind = FactorKind::kPassThrough) {
    factors.push_back({size, kind});
    return static_cast<int>(factors.size()) - 1;
  }
};

/// "(i, k), (k, j) -> (i, j) reduction={k}"; merged factors are written next to each other: "(ij)".
std::string to_string(const ShardingRule& rule);

}  // namespace shoal
