// Fourier transforms of lines, by vectors. Complex numbers are pairs of reals; strides and counts are in numbers.
//
// All functions run in the caller's thread. A result may lie in the place of its operand where both lie alike.
#pragma once

#include <cstdint>

#include "backend/cpu/transforms/fft_plan.h"

namespace shoal::cpu {

/// What becomes of numbers besides the sums.
struct FftOptions {
  bool inverse = false;  ///< The conjugate roots.
  double scale = 1;      ///< Results are multiplied by it.
};

/// Lines that lie in one piece each, one after the other.
struct LineLayout {
  std::int64_t count;
  std::int64_t from_stride = 0;  ///< From a line to the next, of the operand and of the result.
  std::int64_t to_stride = 0;
};

/// Lines that lie beside each other: element j of line i is at j stride + i.
struct ColumnLayout {
  std::int64_t count;
  std::int64_t from_stride;
  std::int64_t to_stride;
};

template <class T>
class FftLines {
 public:
  explicit FftLines(const LinePlan<T>& plan) : plan_(plan) {}

  void transform(const T* from, T* to, const LineLayout& layout, const FftOptions& options) const;

  // One line of a plan that is split, in two parts that several threads may share: its columns first .. end - 1 into
  // memory for all of the matrix, whose rows are row_stride() apart, and then rows.
  void columns(const T* from, T* matrix, std::int64_t first, std::int64_t end, const FftOptions& options) const;
  void rows(const T* matrix, T* to, std::int64_t first, std::int64_t end, const FftOptions& options) const;
  static std::int64_t row_stride(const LinePlan<T>& plan);

 private:
  const LinePlan<T>& plan_;
};

template <class T>
class FftColumns {
 public:
  explicit FftColumns(const LanesPlan<T>& plan) : plan_(plan) {}

  void transform(const T* from, T* to, const ColumnLayout& layout, const FftOptions& options) const;

 private:
  const LanesPlan<T>& plan_;
};

/// Between the transform of `half` complex numbers, whose parts are the even and odd ones of 2 half real ones, and the
/// half + 1 numbers that stand for that of the latter.
template <class T>
class FftHalves {
 public:
  explicit FftHalves(const HalfPlan<T>& plan) : plan_(plan) {}

  /// In place, for the pairs (k, half - k) with first <= k < end; 0 and half are made with k = 0. k <= half / 2.
  void separate(T* line, std::int64_t half, std::int64_t first, std::int64_t end) const;
  /// The other way, from one line to another.
  void join(const T* from, T* to, std::int64_t half, std::int64_t first, std::int64_t end) const;

 private:
  const HalfPlan<T>& plan_;
};

}  // namespace shoal::cpu
