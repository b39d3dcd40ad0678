#include "spmd/factors.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

bool is_prefix(const Atoms& prefix, const Atoms& list) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

// The number of leading atoms whose product divides `size`.
std::size_t dividing(const Grid& grid, const Atoms& atoms, std::size_t from, std::int64_t size) {
  std::size_t count = 0;
  std::int64_t product = 1;
  while (from + count < atoms.size()) {
    product *= grid.atom_size(atoms[from + count]);
    if (size % product != 0) break;
    ++count;
  }
  return count;
}

// The number of leading atoms whose product is no more than `size`.
std::size_t within(const Grid& grid, const Atoms& atoms, std::int64_t size) {
  std::size_t count = 0;
  for (std::int64_t product = 1; count < atoms.size(); ++count) {
    product *= grid.atom_size(atoms[count]);
    if (product > size) break;
  }
  return count;
}

// Takes away what no contiguous split of a dimension expresses: atoms of a factor behind one that is not divided
// completely, and atoms that do not divide a factor evenly where it shares its dimension or shards must be even.
// Devices that would have no window at all get none of the work: others would do it for them.
void normalise(const Grid& grid, const ShardingRule& rule, FactorAxes& axes) {
  bool changed = true;
  const auto shorten = [&](int factor, std::size_t length) {
    Atoms& atoms = axes[static_cast<std::size_t>(factor)];
    if (atoms.size() <= length) return;
    atoms.resize(length);
    changed = true;
  };
  const auto normalise_dim = [&](const DimFactors& dim) {
    if (dim.empty()) return;
    if (takes_halos(rule.factors[static_cast<std::size_t>(dim[0])].kind)) {
      shorten(dim[0], within(grid, axes[static_cast<std::size_t>(dim[0])],
                             rule.factors[static_cast<std::size_t>(dim[0])].size));
    }
    const bool counts = rule.factors[static_cast<std::size_t>(dim[0])].kind == FactorKind::kCounted;
    if (dim.size() < 2 && !rule.even && !counts) return;
    bool complete = true;
    for (int factor : dim) {
      const auto f = static_cast<std::size_t>(factor);
      shorten(factor, complete ? dividing(grid, axes[f], 0, rule.factors[f].size) : 0);
      complete = complete && grid.size_of(axes[f]) == rule.factors[f].size;
    }
  };
  while (changed) {
    changed = false;
    for (const auto* tensors : {&rule.operands, &rule.results}) {
      for (const TensorFactors& tensor : *tensors) {
        for (const DimFactors& dim : tensor) normalise_dim(dim);
      }
    }
  }
}

}  // namespace

FactorAxes project(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                   const std::vector<Atoms>& dims) {
  FactorAxes axes(rule.factors.size());
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    const DimFactors& dim = tensor[d];
    if (dim.size() == 1) {
      axes[static_cast<std::size_t>(dim[0])] = dims[d];
      continue;
    }
    std::size_t next = 0;
    for (int factor : dim) {
      const auto f = static_cast<std::size_t>(factor);
      const std::size_t count = dividing(grid, dims[d], next, rule.factors[f].size);
      axes[f].assign(dims[d].begin() + static_cast<std::ptrdiff_t>(next),
                     dims[d].begin() + static_cast<std::ptrdiff_t>(next + count));
      next += count;
      if (grid.size_of(axes[f]) != rule.factors[f].size) break;
    }
  }
  return axes;
}

std::vector<std::size_t> walled_dims(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                                     const std::vector<Atoms>& dims) {
  FactorAxes axes(rule.factors.size());
  extend(grid, rule, axes, project(grid, rule, tensor, dims));
  const std::vector<Atoms> carried = dims_of(tensor, axes);
  std::vector<std::size_t> walled;
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    if (carried[d].size() < dims[d].size()) walled.push_back(d);
  }
  return walled;
}

std::vector<Atoms> dims_of(const TensorFactors& tensor, const FactorAxes& axes) {
  std::vector<Atoms> dims(tensor.size());
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    for (int factor : tensor[d]) {
      const Atoms& atoms = axes[static_cast<std::size_t>(factor)];
      dims[d].insert(dims[d].end(), atoms.begin(), atoms.end());
    }
  }
  return dims;
}

bool extend(const Grid& grid, const ShardingRule& rule, FactorAxes& axes, const FactorAxes& more) {
  const FactorAxes before = axes;
  AtomSet used;
  for (const Atoms& atoms : axes) used = used | AtomSet(atoms);
  for (std::size_t f = 0; f < axes.size(); ++f) {
    if (rule.factors[f].kind == FactorKind::kNeedReplication || !is_prefix(axes[f], more[f])) continue;
    for (std::size_t i = axes[f].size(); i < more[f].size() && !used.contains(more[f][i]); ++i) {
      axes[f].push_back(more[f][i]);
      used.insert(more[f][i]);
    }
  }
  normalise(grid, rule, axes);
  return axes != before;
}

void add_wish(std::vector<FactorAxes>& wishes, FactorAxes wish) {
  if (std::find(wishes.begin(), wishes.end(), wish) == wishes.end()) wishes.push_back(std::move(wish));
}

Atoms reduced_atoms(const ShardingRule& rule, const FactorAxes& axes) {
  AtomSet set;
  for (std::size_t f = 0; f < axes.size(); ++f) {
    if (sums_over(rule.factors[f].kind)) set = set | AtomSet(axes[f]);
  }
  return set.sorted();
}

}  // namespace shoal
