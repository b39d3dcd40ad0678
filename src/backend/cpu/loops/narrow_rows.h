// Rows of a few columns: a loop spends more on each of them than on its elements. Where results lie densely, several
// rows are walked as one instead. What is read otherwise, such as one element for each row, or the same row over and
// over, is laid out like the results first, piece by piece, in the first cache.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/tiers.h"

namespace shoal::cpu {

class NarrowRows {
 public:
  /// For a loop over so many rows and columns; nullptr if its rows are not narrow, or depend on being walked one by
  /// one.
  static std::unique_ptr<NarrowRows> of(const LoopPlan& plan, std::int64_t rows, std::int64_t columns);

  /// Bytes of scratch memory that run() takes, aligned to 64.
  std::size_t bytes() const { return temporary_bytes_ + arrays_.size() * kArrayBytes; }

  /// Runs the loop, if what it writes lies densely; else it returns false.
  bool run(const LoopArguments& arguments) const;

 private:
  static constexpr std::int64_t kElements = 1024;  // Of a piece, about.
  static constexpr std::size_t kArrayBytes = kElements * 16;

  NarrowRows(const Loop& loop, const std::vector<bool>& same_everywhere, double elements);

  struct Array {
    std::int64_t size;
    bool written;
    bool counts;
    bool is_one;  // One element for all rows.
  };
  std::vector<Array> arrays_;
  std::size_t temporary_bytes_;
  Tiers tiers_;
};

}  // namespace shoal::cpu
