// The reshard planner: the cheapest way from one placement to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sharding/placement.h"

namespace shoal {

/// One step of a plan.
struct ReshardStep {
  enum class Kind : std::uint8_t {
    kAllReduce,      ///< atoms: partial -> none
    kReduceScatter,  ///< atoms: partial -> minor end of `dim`
    kAllGather,      ///< atoms: minor end of `dim` -> none
    kSlice,          ///< atoms: none -> minor end of `dim`
    kAllToAll,       ///< atoms: minor end of `from_dim` -> minor end of `dim`
    kPermute,        ///< shards are exchanged whole, along `atoms`
    kMakePartial,    ///< atoms: none -> partial. The first device along them keeps its shard; others have zeros.
  };
  Kind kind;
  Atoms atoms;
  std::size_t dim = 0;
  std::size_t from_dim = 0;
  Placement result;  ///< Where the value lies after the step.
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  /// What a device receives in all steps together, on average over the devices, as spmd/cost.h counts it: bytes along
  /// slower axes as more.
  double bytes = 0;
};

/// The cheapest plan, in bytes received per device and then in steps, that leads a value of `shape` and `element_size`
/// from `from` to `to`. A search over the placements that slicing, gathering, exchanging and reducing whole groups of
/// atoms reach; only atoms that either placement uses take part, and shards are exchanged whole only towards `to`. Only
/// sums become partial where `from` is not.
ReshardPlan plan_reshard(const Grid& grid, const Shape& shape, std::size_t element_size, const Placement& from,
                         const Placement& to);

/// Plans on one grid, each searched for once: the layers of a model ask for the same ones again and again.
class ReshardPlans {
 public:
  explicit ReshardPlans(const Grid& grid) : grid_(grid) {}
  /// plan_reshard of these arguments. Stays where it is.
  const ReshardPlan& plan(const Shape& shape, std::size_t element_size, const Placement& from, const Placement& to);

 private:
  using Key =
      std::tuple<Shape, std::size_t, std::vector<Atoms>, Atoms, ReduceKind, std::vector<Atoms>, Atoms, ReduceKind>;

  const Grid& grid_;
  std::map<Key, ReshardPlan, std::less<>> plans_;
};

/// For a kPermute step between two placements: for each position along the step's atoms, the position along them whose
/// shard it receives.
std::vector<std::int64_t> permutation_sources(const Grid& grid, const Placement& from, const Placement& to,
                                              const Atoms& atoms);

}  // namespace shoal
