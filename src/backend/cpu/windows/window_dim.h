// What a window meets along one dimension.
//
// The element that place q of the result meets by position k of the window is
// (q strides + k window_dilation - low) / base_dilation, where that is whole. Places whose numbers differ by a multiple
// of `period` meet elements by the same positions, `step` elements further on each time: these places are a phase, and
// those positions are its taps. So nothing is ever done with a gap. Elements `step` apart make a line: along it,
// neighbouring places of a phase meet neighbours.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal::cpu {

/// A dimension along which a window moves.
struct WindowDim {
  struct Tap {
    std::int64_t position;  ///< In the window.
    std::int64_t line;      ///< The number of the line of the grid that it meets.
    std::int64_t shift;     ///< What is met in place 0 of the phase, as an index of the line.
  };
  struct Phase {
    std::int64_t first;   ///< Place.
    std::int64_t places;  ///< Their number.
    std::vector<Tap> taps;
  };

  std::int64_t array;  ///< Extents.
  std::int64_t window;
  std::int64_t places;
  std::int64_t period;
  std::int64_t step;
  std::vector<Phase> phases;
  std::vector<std::int64_t> lines;  ///< The element, counted from `origin`, that each begins with: less than `step`.
  std::int64_t origin = 0;          ///< The element, or padding, that index 0 of the lines stands for.
  std::int64_t reach = 0;           ///< Indices of a line beyond those of places.

  /// Of the phases: the first has most.
  std::int64_t most_places() const { return phases.empty() ? 0 : phases.front().places; }
};

struct WindowMove {
  std::int64_t stride = 1;
  std::int64_t low = 0;
  std::int64_t base_dilation = 1;
  std::int64_t window_dilation = 1;
};

/// Positions that meet no element in any place of their phase are no taps of it.
WindowDim window_dim(std::int64_t array, std::int64_t window, std::int64_t places, const WindowMove& move);

}  // namespace shoal::cpu
