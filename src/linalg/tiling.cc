#include "linalg/tiling.h"

#include <numeric>

namespace shoal::linalg {
namespace {

constexpr std::int64_t kTile = 256;
constexpr std::int64_t kSmallTile = 128;  // Of matrices of so many rows:
constexpr std::int64_t kFewRows = 2048;

Extent common(const Extent& a, const Extent& b) {
  const std::int64_t start = std::max(a.start, b.start);
  return {start, std::max<std::int64_t>(0, std::min(a.start + a.size, b.start + b.size) - start)};
}

bool contains(const Extent& a, const Extent& b) { return a.start <= b.start && b.start + b.size <= a.start + a.size; }

// Whether begin … end - 1 has a number with this remainder.
bool has_remainder(std::int64_t begin, std::int64_t end, std::int64_t divisor, std::int64_t remainder) {
  return begin + (remainder - begin % divisor + divisor) % divisor < end;
}

}  // namespace

bool Box::contains(const Box& other) const {
  return linalg::contains(rows, other.rows) && linalg::contains(columns, other.columns);
}

Box common(const Box& a, const Box& b) { return {common(a.rows, b.rows), common(a.columns, b.columns)}; }

std::int64_t tile_size(std::int64_t n, std::int64_t wanted, const std::vector<Extent>& shards) {
  if (wanted > 0) return wanted;
  // Products of tiles are to be near the rate of large ones, and the factors of those on the diagonal, which one thread
  // computes while others wait, to be few.
  const std::int64_t usual = n <= kFewRows ? kSmallTile : kTile;
  std::int64_t borders = 0;
  for (const Extent& shard : shards) {
    borders = std::gcd(borders, shard.start);
    if (shard.start + shard.size != n) borders = std::gcd(borders, shard.start + shard.size);
  }
  if (borders == 0) return usual;  // One shard.
  const std::int64_t parts = (borders + usual - 1) / usual;
  for (std::int64_t size = (borders + parts - 1) / parts; size >= usual / 2; --size) {
    if (borders % size == 0) return size;
  }
  return usual;
}

ProcessGrid::ProcessGrid(std::vector<int> processes) : processes_(std::move(processes)) {
  const auto count = static_cast<std::int64_t>(processes_.size());
  for (std::int64_t rows = 1; rows * rows <= count; ++rows) {
    if (count % rows == 0) rows_ = rows;
  }
  columns_ = count / rows_;
}

std::int64_t ProcessGrid::place_of(int process) const {
  return std::ranges::lower_bound(processes_, process) - processes_.begin();
}

bool ProcessGrid::has_in_row(int process, std::int64_t i, std::int64_t begin, std::int64_t end) const {
  const std::int64_t place = place_of(process);
  return i % rows_ == place / columns_ && has_remainder(begin, end, columns_, place % columns_);
}

bool ProcessGrid::has_in_column(int process, std::int64_t j, std::int64_t begin, std::int64_t end) const {
  const std::int64_t place = place_of(process);
  return j % columns_ == place % columns_ && has_remainder(begin, end, rows_, place / columns_);
}

}  // namespace shoal::linalg
