// Which mesh axes split which dimension of an array.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal {

struct None {};
/// In a spec: the dimension is not split. For axes and shardings: not given.
inline constexpr None none{};

struct Unconstrained {};
/// In a sharding constraint: the compiler chooses for this dimension.
inline constexpr Unconstrained unconstrained{};

/// The entry of a spec for one dimension: no axis, one axis, several axes (the first is the most major), or
/// unconstrained.
class PartitionEntry {
 public:
  PartitionEntry() = default;
  PartitionEntry(None) {}
  PartitionEntry(Unconstrained) : unconstrained_(true) {}
  PartitionEntry(const char* axis) : axes_{axis} {}
  PartitionEntry(std::string axis) : axes_{std::move(axis)} {}
  PartitionEntry(std::initializer_list<const char*> axes) : axes_(axes.begin(), axes.end()) {}
  PartitionEntry(std::vector<std::string> axes) : axes_(std::move(axes)) {}

  const std::vector<std::string>& axes() const { return axes_; }
  bool is_none() const { return axes_.empty() && !unconstrained_; }
  bool is_unconstrained() const { return unconstrained_; }
  /// Entries are equal if they name the same axes in order: "x" equals {"x"}, none equals {}.
  friend bool operator==(const PartitionEntry& a, const PartitionEntry& b) {
    return a.axes_ == b.axes_ && a.unconstrained_ == b.unconstrained_;
  }

 private:
  std::vector<std::string> axes_;
  bool unconstrained_ = false;
};

/// "'x'", "('x', 'y')", "None", "UNCONSTRAINED".
std::string to_string(const PartitionEntry& entry);

/// A sequence of entries, one per leading dimension; the remaining dimensions are not split.
class PartitionSpec {
 public:
  PartitionSpec() = default;
  explicit PartitionSpec(std::vector<PartitionEntry> entries) : entries_(std::move(entries)) {}

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const PartitionEntry& operator[](std::size_t i) const { return entries_.at(i); }
  const std::vector<PartitionEntry>& entries() const { return entries_; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  std::size_t hash() const;
  /// Entry by entry: P("x") and P("x", none) differ, as in JAX; compare shardings with is_equivalent_to.
  friend bool operator==(const PartitionSpec& a, const PartitionSpec& b) { return a.entries_ == b.entries_; }
  friend PartitionSpec operator+(PartitionSpec a, const PartitionSpec& b) {
    a.entries_.insert(a.entries_.end(), b.entries_.begin(), b.entries_.end());
    return a;
  }

 private:
  std::vector<PartitionEntry> entries_;
};

// P(…) writes a spec: P("x", none, {"y", "z"}). It is a set of functions, because a braced entry would be ambiguous
// with a copy of the spec if it were a class.
inline PartitionSpec P() { return {}; }
inline PartitionSpec P(PartitionEntry a) { return PartitionSpec({std::move(a)}); }
inline PartitionSpec P(PartitionEntry a, PartitionEntry b) { return PartitionSpec({std::move(a), std::move(b)}); }
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, PartitionEntry c) {
  return PartitionSpec({std::move(a), std::move(b), std::move(c)});
}
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d) {
  return PartitionSpec({std::move(a), std::move(b), std::move(c), std::move(d)});
}
template <std::convertible_to<PartitionEntry>... More>
PartitionSpec P(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d, PartitionEntry e,
                const More&... more) {
  return PartitionSpec({std::move(a), std::move(b), std::move(c), std::move(d), std::move(e), PartitionEntry(more)...});
}

/// "P()", "P('x',)", "P('x', None)", "P(('x', 'y'), UNCONSTRAINED)".
std::string to_string(const PartitionSpec& spec);
std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec);

}  // namespace shoal
