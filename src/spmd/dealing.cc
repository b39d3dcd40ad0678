#include "spmd/dealing.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

// More would take longer to plan than they save.
constexpr std::int64_t kMostRuns = 4096;

// What `parts` shards get of a dimension of outer × middle × inner elements if they divide its middle. Runs are as few
// as possible: the elements that lie next to each other, or those at one place of every outer index.
std::vector<Run> runs_of(std::int64_t outer, std::int64_t middle, std::int64_t inner, std::int64_t parts) {
  const std::int64_t piece = middle / parts * inner;
  std::vector<Run> runs;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (outer <= piece) {
      for (std::int64_t o = 0; o < outer; ++o) {
        runs.push_back(
            {.count = piece, .in_start = o * middle * inner + part * piece, .out_start = (part * outer + o) * piece});
      }
    } else {
      for (std::int64_t k = 0; k < piece; ++k) {
        runs.push_back({.count = outer,
                        .in_start = part * piece + k,
                        .in_step = middle * inner,
                        .out_start = part * outer * piece + k,
                        .out_step = piece});
      }
    }
  }
  return runs;
}

}  // namespace

Dealing Dealing::inverse() const {
  Dealing back = *this;
  for (Run& run : back.runs) {
    std::swap(run.in_start, run.out_start);
    std::swap(run.in_step, run.out_step);
  }
  return back;
}

std::optional<std::vector<Dealing>> dealings_of(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                                                const FactorAxes& axes) {
  std::vector<Dealing> dealings;
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    bool is_complete = true;  // Every factor so far is divided into single elements.
    bool is_said = true;      // By the placement.
    std::int64_t extent = 1;
    std::size_t split = 0;
    std::int64_t outer = 1;   // Before the last factor that is split.
    std::int64_t middle = 1;  // Its own.
    Atoms atoms;
    for (int factor : tensor[d]) {
      const auto f = static_cast<std::size_t>(factor);
      const std::int64_t size = rule.factors[f].size;
      const std::int64_t parts = grid.size_of(axes[f]);
      if (size % parts != 0) return std::nullopt;
      if (!axes[f].empty()) {
        is_said = is_said && is_complete;
        ++split;
        outer = extent;
        middle = size;
        atoms = axes[f];
      }
      is_complete = is_complete && parts == size;
      extent *= size;
    }
    if (is_said) continue;
    const std::int64_t parts = grid.size_of(atoms);
    const std::int64_t inner = extent / (outer * middle);
    if (split != 1 || parts * std::min(outer, middle / parts * inner) > kMostRuns) return std::nullopt;
    dealings.push_back(
        {.dim = d, .extent = extent, .atoms = std::move(atoms), .runs = runs_of(outer, middle, inner, parts)});
  }
  return dealings;
}

}  // namespace shoal
