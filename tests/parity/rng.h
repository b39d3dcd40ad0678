// A source of random choices that is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace shoal::parity {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t next() { return engine_(); }
  /// 0 to n - 1. The slight preference for small numbers does not matter here.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  /// In [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }

  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace shoal::parity
