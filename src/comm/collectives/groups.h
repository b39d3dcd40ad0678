// Which devices of a grid communicate with which.
#pragma once

#include <cstdint>
#include <vector>

#include "sharding/placement.h"
#include "shoal/shape.h"

namespace shoal::collectives {

/// The groups of devices that communicate: those that differ along `atoms` alone, in the order of `atoms`, the first
/// being the most major; or the given lists of positions in that order, of which each is a group.
class Groups {
 public:
  Groups(GridPtr grid, Atoms atoms, std::vector<Dims> lists = {});

  const GridPtr& grid() const { return grid_; }
  const Atoms& atoms() const { return atoms_; }
  /// The positions in the grid of the group of the device at `position`, in the group's order.
  std::vector<std::int64_t> members(std::int64_t position) const;
  /// The position of the first of them.
  std::int64_t first(std::int64_t position) const;
  /// The device's place in its group.
  std::int64_t rank(std::int64_t position) const;
  /// The device's piece of a dimension that its group splits.
  Extent extent(std::int64_t size, std::int64_t position) const;
  /// Over what a value varies that is the same on all devices of a group, and made from one that varies over `varying`.
  AtomSet joined(AtomSet varying) const { return lists_.empty() ? varying - AtomSet(atoms_) : split(varying); }
  /// The same for a value of which every device has its own.
  AtomSet split(AtomSet varying) const { return varying | AtomSet(atoms_); }

 private:
  const Dims& list_of(std::int64_t position) const;

  GridPtr grid_;
  Atoms atoms_;
  std::vector<Dims> lists_;
  std::vector<std::int32_t> list_at_;  // For each position along the atoms, the list that has it,
  std::vector<std::int64_t> rank_at_;  // and its place there.
};

}  // namespace shoal::collectives
