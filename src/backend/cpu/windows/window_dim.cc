#include "backend/cpu/windows/window_dim.h"

#include <algorithm>
#include <numeric>

namespace shoal::cpu {

WindowDim window_dim(std::int64_t array, std::int64_t window, std::int64_t places, const WindowMove& move) {
  WindowDim dim{.array = array, .window = window, .places = places, .period = 1, .step = 1, .phases = {}, .lines = {}};
  const std::int64_t base = move.base_dilation;
  const std::int64_t common = std::gcd(move.stride, base);
  dim.period = base / common;
  dim.step = move.stride / common;
  // Positions whose element is whole are so many apart, and the elements so many.
  const std::int64_t apart = base / std::gcd(move.window_dilation, base);
  const std::int64_t elements_apart = move.window_dilation / std::gcd(move.window_dilation, base);
  struct Met {
    std::int64_t phase, position, element;
  };
  std::vector<Met> met;
  for (std::int64_t first = 0; first < std::min(dim.period, places); ++first) {
    const std::int64_t count = (places - first - 1) / dim.period + 1;
    dim.phases.push_back({.first = first, .places = count, .taps = {}});
    if (array == 0) continue;
    const auto met_at = [&](std::int64_t position) {
      return first * move.stride + position * move.window_dilation - move.low;
    };
    std::int64_t k = 0;
    while (k < std::min(apart, window) && met_at(k) % base != 0) ++k;
    if (k == std::min(apart, window)) continue;
    std::int64_t element = met_at(k) / base;
    // Positions that meet nothing even in the last place are passed over, and those that meet nothing in the first.
    const std::int64_t least = -(count - 1) * dim.step;
    if (element < least) {
      const std::int64_t passed = (least - element + elements_apart - 1) / elements_apart;
      if (passed > (window - 1 - k) / apart) continue;
      k += passed * apart;
      element += passed * elements_apart;
    }
    for (; k < window && element < array; k += apart, element += elements_apart) met.push_back({first, k, element});
  }
  if (met.empty()) return dim;
  dim.origin = std::ranges::min(met, {}, &Met::element).element;
  for (const Met& m : met) dim.lines.push_back((m.element - dim.origin) % dim.step);
  std::ranges::sort(dim.lines);
  dim.lines.erase(std::ranges::unique(dim.lines).begin(), dim.lines.end());
  for (const Met& m : met) {
    const std::int64_t from = m.element - dim.origin;
    const auto line = std::ranges::lower_bound(dim.lines, from % dim.step) - dim.lines.begin();
    dim.phases[static_cast<std::size_t>(m.phase)].taps.push_back({m.position, line, from / dim.step});
    dim.reach = std::max(dim.reach, from / dim.step);
  }
  return dim;
}

}  // namespace shoal::cpu
