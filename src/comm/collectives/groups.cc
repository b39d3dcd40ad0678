#include "comm/collectives/groups.h"

#include <utility>

namespace shoal::collectives {

Groups::Groups(GridPtr grid, Atoms atoms, std::vector<Dims> lists)
    : grid_(std::move(grid)), atoms_(std::move(atoms)), lists_(std::move(lists)) {
  if (lists_.empty()) return;
  list_at_.resize(static_cast<std::size_t>(grid_->size_of(atoms_)));
  rank_at_.resize(list_at_.size());
  for (std::size_t list = 0; list < lists_.size(); ++list) {
    for (std::size_t rank = 0; rank < lists_[list].size(); ++rank) {
      const auto index = static_cast<std::size_t>(lists_[list][rank]);
      list_at_[index] = static_cast<std::int32_t>(list);
      rank_at_[index] = static_cast<std::int64_t>(rank);
    }
  }
}

const Dims& Groups::list_of(std::int64_t position) const {
  const auto index = static_cast<std::size_t>(grid_->index_along(position, atoms_));
  return lists_[static_cast<std::size_t>(list_at_[index])];
}

std::vector<std::int64_t> Groups::members(std::int64_t position) const {
  std::vector<std::int64_t> members;
  if (lists_.empty()) {
    for (std::int64_t i = 0; i < grid_->size_of(atoms_); ++i) {
      members.push_back(grid_->with_index_along(position, atoms_, i));
    }
    return members;
  }
  for (std::int64_t i : list_of(position)) members.push_back(grid_->with_index_along(position, atoms_, i));
  return members;
}

std::int64_t Groups::first(std::int64_t position) const {
  return grid_->with_index_along(position, atoms_, lists_.empty() ? 0 : list_of(position)[0]);
}

std::int64_t Groups::rank(std::int64_t position) const {
  const std::int64_t index = grid_->index_along(position, atoms_);
  return lists_.empty() ? index : rank_at_[static_cast<std::size_t>(index)];
}

Extent Groups::extent(std::int64_t size, std::int64_t position) const {
  if (lists_.empty()) return grid_->extent(size, atoms_, position);
  const std::int64_t piece = size / static_cast<std::int64_t>(list_of(position).size());
  return {.start = rank(position) * piece, .size = piece};
}

}  // namespace shoal::collectives
