// Plain memory for the limits that benchmarks are compared with.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/thread_pool.h"

namespace shoal::bench {

/// Calls f(begin, count) for pieces of [0, n), on all threads of the library.
template <class F>
void for_each_piece(std::int64_t n, F&& f) {
  constexpr std::int64_t kPiece = 1 << 16;
  ThreadPool::shared().parallel_for((n + kPiece - 1) / kPiece,
                                    [&](std::int64_t i) { f(i * kPiece, std::min(kPiece, n - i * kPiece)); });
}

/// f32 elements in huge pages, which have been written to.
class Stream {
 public:
  explicit Stream(std::int64_t count) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
    elements_.reset(static_cast<float*>(std::aligned_alloc(kHugePage, bytes)));
    if (elements_ == nullptr) throw std::bad_alloc();
    madvise(elements_.get(), bytes, MADV_HUGEPAGE);
    for_each_piece(count,
                   [this](std::int64_t begin, std::int64_t n) { std::fill_n(elements_.get() + begin, n, 1.0F); });
  }
  float* data() const { return elements_.get(); }

 private:
  struct Free {
    void operator()(float* elements) const { std::free(elements); }
  };
  std::unique_ptr<float, Free> elements_;
};

}  // namespace shoal::bench
