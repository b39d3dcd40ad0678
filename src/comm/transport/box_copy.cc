#include "comm/transport/box_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/cache_line.h"
#include "base/thread_pool.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "comm/transport/element_copy.h"

namespace shoal {
namespace {

constexpr std::size_t kAhead = std::size_t{2} << 10;

void copy_rows(std::int64_t count, const std::byte* from, std::size_t from_stride, std::byte* to, std::size_t to_stride,
               std::size_t bytes, bool streams) {
  const bool are_short = with_element_size(bytes, [=](auto size) {
    copy_elements<size>(from, static_cast<std::int64_t>(from_stride), to, static_cast<std::int64_t>(to_stride), count);
  });
  if (are_short) return;
  for (std::int64_t i = 0; i < count; ++i) {
    if (streams) {
      stream_copy(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
    from += from_stride;
    to += to_stride;
  }
}

std::size_t offset_of(const Shape& shape, const Dims& start, std::size_t element) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + start[d];
  return static_cast<std::size_t>(offset) * element;
}

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kWorthwhile = 16 * kCacheLine;
  if (bytes >= kWorthwhile) {
    const std::size_t head = (kCacheLine - reinterpret_cast<std::uintptr_t>(to) % kCacheLine) % kCacheLine;
    std::memcpy(to, from, head);
    std::size_t at = head;
    for (; at + kCacheLine <= bytes; at += kCacheLine) {
      // The processor's own prefetching is too late by a third of the time.
      _mm_prefetch(reinterpret_cast<const char*>(from + at) + kAhead, _MM_HINT_T0);
      const auto* source = reinterpret_cast<const __m128i*>(from + at);
      auto* target = reinterpret_cast<__m128i*>(to + at);
      const __m128i a = _mm_loadu_si128(source);
      const __m128i b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2);
      const __m128i d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    std::memcpy(to + at, from + at, bytes - at);
    _mm_sfence();  // Streamed stores are not ordered with those by which threads tell each other that they are done.
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

BoxCopy::BoxCopy(const Shape& from, const Shape& to, const Shape& extents, std::size_t element) : run_(element) {
  std::size_t from_stride = element;
  std::size_t to_stride = element;
  for (std::size_t d = extents.size(); d-- > 0;) {
    const std::int64_t extent = extents[d];
    // The outermost level so far, if this dimension continues it.
    const bool continues_run = levels_.empty() && from_stride == run_ && to_stride == run_;
    const bool continues_level =
        !levels_.empty() && from_stride == static_cast<std::size_t>(levels_.front().count) * levels_.front().from &&
        to_stride == static_cast<std::size_t>(levels_.front().count) * levels_.front().to;
    if (extent == 1) {
      // Neither steps nor repeats.
    } else if (continues_run) {
      run_ *= static_cast<std::size_t>(extent);
    } else if (continues_level) {
      levels_.front().count *= extent;
    } else {
      levels_.insert(levels_.begin(), {extent, from_stride, to_stride});
    }
    from_stride *= static_cast<std::size_t>(from[d]);
    to_stride *= static_cast<std::size_t>(to[d]);
  }
  for (const Level& level : levels_) rows_ *= level.count;
}

void BoxCopy::copy(const std::byte* from, std::byte* to, std::int64_t part, std::int64_t parts, bool streams) const {
  std::int64_t row = 0;
  std::int64_t end = rows_;
  std::size_t run_begin = 0;
  std::size_t run_end = run_;
  if (rows_ >= parts) {
    row = rows_ * part / parts;
    end = rows_ * (part + 1) / parts;
  } else {
    // Few long rows: each is cut, between lines.
    const auto cut = [&](std::int64_t i) {
      return i == parts
                 ? run_
                 : run_ * static_cast<std::size_t>(i) / static_cast<std::size_t>(parts) / kCacheLine * kCacheLine;
    };
    run_begin = cut(part);
    run_end = cut(part + 1);
  }
  if (row >= end || run_begin >= run_end) return;
  if (levels_.empty()) {
    copy_rows(1, from + run_begin, 0, to + run_begin, 0, run_end - run_begin, streams);
    return;
  }
  // The innermost level is a loop of its own; the others are counted by `row`.
  const Level& inner = levels_.back();
  while (row < end) {
    std::size_t from_offset = run_begin;
    std::size_t to_offset = run_begin;
    std::int64_t rest = row;
    for (std::size_t i = levels_.size(); i-- > 0;) {
      const auto index = static_cast<std::size_t>(rest % levels_[i].count);
      rest /= levels_[i].count;
      from_offset += index * levels_[i].from;
      to_offset += index * levels_[i].to;
    }
    const std::int64_t count = std::min(end - row, inner.count - row % inner.count);
    copy_rows(count, from + from_offset, inner.from, to + to_offset, inner.to, run_end - run_begin, streams);
    row += count;
  }
}

PlacedCopy place_copy(const TensorView& from, const Dims& from_start, const TensorView& to, const Dims& to_start,
                      const Shape& extents) {
  const std::size_t element = size_of(from.dtype);
  return {BoxCopy(from.shape, to.shape, extents, element),
          static_cast<const std::byte*>(from.data) + offset_of(from.shape, from_start, element),
          static_cast<std::byte*>(to.data) + offset_of(to.shape, to_start, element)};
}

void copy_boxes(std::span<const PlacedCopy> copies) {
  constexpr std::size_t kWorthWaking = std::size_t{1} << 18;
  constexpr std::size_t kLeastPart = std::size_t{1} << 16;
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  std::size_t total = 0;
  for (const PlacedCopy& copy : copies) total += copy.box.bytes();
  if (total < kWorthWaking) {
    for (const PlacedCopy& copy : copies) copy.box.copy(copy.from, copy.to);
    return;
  }
  ThreadPool& pool = ThreadPool::shared();
  const auto shares = std::size_t{4} * static_cast<std::size_t>(pool.thread_count());
  const std::size_t part_bytes = std::clamp(total / shares, kLeastPart, kHugePage);
  const auto parts_of = [&](const PlacedCopy& copy) {
    return static_cast<std::int64_t>((copy.box.bytes() + part_bytes - 1) / part_bytes);
  };
  std::vector<std::int64_t> ends;  // The number of the first part after each copy.
  ends.reserve(copies.size());
  std::int64_t count = 0;
  for (const PlacedCopy& copy : copies) ends.push_back(count += parts_of(copy));
  pool.parallel_for(count, [&](std::int64_t part) {
    const auto index = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), part) - ends.begin());
    const PlacedCopy& copy = copies[index];
    const std::int64_t parts = parts_of(copy);
    copy.box.copy(copy.from, copy.to, part - (ends[index] - parts), parts, total >= kStreamedBytes);
  });
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  const Shape shape = {static_cast<std::int64_t>(bytes)};
  const PlacedCopy copy{BoxCopy(shape, shape, shape, 1), static_cast<const std::byte*>(from),
                        static_cast<std::byte*>(to)};
  copy_boxes({&copy, 1});
}

}  // namespace shoal
