// What is computed once for all Fourier transforms of a length: how it is taken apart, and the roots of one.
//
// How a line is transformed, and so its bits, depends on its length and dtype alone, not on what is beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace shoal::cpu {

/// Prime factors up to this are steps of their own; lengths with greater ones are transformed by convolution.
inline constexpr std::int64_t kMostRadix = 97;

/// A step of Stockham's algorithm (Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1.7): `radix`
/// numbers become sums of all of them, `done` times for each of `left` places.
struct FftStep {
  std::int64_t radix;
  std::int64_t done;      ///< The product of the radices of the steps before.
  std::int64_t left;      ///< And of those after.
  std::int64_t twiddles;  ///< Where they begin in the table: radix - 1 for each of `left` places. Unused if left is 1.
  std::int64_t roots;     ///< Cosines and sines of 2 pi k / radix, of odd radices.
};

/// Of lines that lie beside each other, one in each lane of vectors.
template <class T>
struct LanesPlan {
  explicit LanesPlan(std::int64_t n);

  std::int64_t n;
  std::vector<FftStep> steps;
  std::vector<T> table;  ///< Real and imaginary parts in turn.
};

/// Of lines that lie in one piece each.
template <class T>
struct LinePlan {
  enum class Way {
    kLanes,  ///< Several at once, one in each lane.
    kSplit,  ///< As a matrix: its columns, then its rows (Bailey, "FFTs in external or hierarchical memory", 1990).
    kChirp,  ///< As a convolution of the length of another plan (Bluestein, 1970).
  };
  /// Columns that share a factor of their twiddles where the table of all would be large.
  static constexpr std::int64_t kTogether = 16;

  explicit LinePlan(std::int64_t n);

  std::int64_t n;
  Way way;

  // kLanes: `columns`. kSplit: both; a column has columns->n elements, which lie rows->n apart.
  std::shared_ptr<const LanesPlan<T>> columns;
  std::shared_ptr<const LanesPlan<T>> rows;
  /// kSplit: element (k, j) of the matrix after its columns, k rows->n + j, is multiplied by exp(-2 pi i j k / n). If
  /// `are_factored` those are of the columns j < kTogether, kTogether of each row, and the others have a factor
  /// groups[(j / kTogether) columns->n + k].
  std::vector<T> real_twiddles;
  std::vector<T> imag_twiddles;
  bool are_factored = false;
  std::vector<T> groups;  ///< Real and imaginary parts in turn.

  // kChirp: exp(-pi i j^2 / n), and the transform of its conjugate in a cycle of inner->n, divided by that.
  std::shared_ptr<const LinePlan<T>> inner;
  std::vector<T> chirp;
  std::vector<T> spectrum;
};

/// The roots exp(-2 pi i k / n) for k up to n / 2, by which transforms of n real numbers are made of those of n / 2
/// complex ones; n is even.
template <class T>
struct HalfPlan {
  explicit HalfPlan(std::int64_t n);

  std::vector<T> real;
  std::vector<T> imag;
};

/// A plan, from a cache that keeps what was used last.
template <class Plan>
std::shared_ptr<const Plan> shared_plan(std::int64_t n);

/// Whether lines of that many elements can be transformed in lanes: they have no great prime factors.
bool fits_lanes(std::int64_t n);

}  // namespace shoal::cpu
