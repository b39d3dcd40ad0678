// What the benchmarks share: the devices they run on, and the check of what they computed.
#pragma once

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <shoal/shoal.h>

#include <cmath>
#include <vector>

namespace shoal::bench {

inline constexpr int kDevices = 8;

/// A mesh with one axis, "x", over kDevices virtual devices.
inline Mesh eight_devices() {
  set_num_cpu_devices(kDevices);
  return make_mesh({kDevices}, {"x"});
}

/// Ends the benchmark with an error unless the elements of `got` are those of `want`, to within `tolerance`.
inline void check_result(benchmark::State& state, const Array& got, const std::vector<float>& want,
                         float tolerance = 0) {
  const std::vector<float> have = got.to_vector<float>();
  if (have.size() != want.size()) {
    state.SkipWithError(fmt::format("{} elements instead of {}", have.size(), want.size()).c_str());
    return;
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::abs(have[i] - want[i]) <= tolerance) continue;
    state.SkipWithError(fmt::format("element {} is {} instead of {}", i, have[i], want[i]).c_str());
    return;
  }
}

}  // namespace shoal::bench
