// Which mesh axes split which dimension of an array.
//
// @param entry The entry.
// @param axes Names of axes.
// @param a The entry of the first dimension.
// @param b That of the second.
// @param c That of the third.
// @param d That of the fourth.
// @param e That of the fifth.
// @param more Those of further ones.
// @param s The axes over which the array is still to be summed, or over which it is the same: unreduced("x"),
//   reduced("x").
// @param spec The spec.
// @param axis The name of an axis.
// @param entries The entries, one for each dimension.
// @param unreduced The axes over which the array is still to be summed.
// @param reduced The axes over which it is the same, and its cotangent may be an unfinished sum.
// @param summed Both.
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

/// What may stand at the end of a spec: unreduced("x", "y"), the axes over which the array is still to be summed, so
/// that devices along them hold summands; reduced("x"), those over which it is the same everywhere, and its cotangent
/// such an unfinished sum; or both, unreduced("x") + reduced("y").
class SummedAxes {
 public:
  const std::vector<std::string>& unreduced() const { return unreduced_; }
  const std::vector<std::string>& reduced() const { return reduced_; }
  friend SummedAxes operator+(SummedAxes a, const SummedAxes& b) {
    a.unreduced_.insert(a.unreduced_.end(), b.unreduced_.begin(), b.unreduced_.end());
    a.reduced_.insert(a.reduced_.end(), b.reduced_.begin(), b.reduced_.end());
    return a;
  }

 private:
  // There is no constructor from a list alone, as in a spec a list is an entry.
  struct Key {};
  SummedAxes(Key, std::vector<std::string> unreduced, std::vector<std::string> reduced)
      : unreduced_(std::move(unreduced)), reduced_(std::move(reduced)) {}
  template <std::convertible_to<std::string>... Axes>
  friend SummedAxes unreduced(Axes... axes);
  template <std::convertible_to<std::string>... Axes>
  friend SummedAxes reduced(Axes... axes);

  std::vector<std::string> unreduced_;
  std::vector<std::string> reduced_;
};
template <std::convertible_to<std::string>... Axes>
SummedAxes unreduced(Axes... axes) {
  return {SummedAxes::Key(), {std::string(axes)...}, {}};
}
template <std::convertible_to<std::string>... Axes>
SummedAxes reduced(Axes... axes) {
  return {SummedAxes::Key(), {}, {std::string(axes)...}};
}

/// A sequence of entries, one per leading dimension; the remaining dimensions are not split.
class PartitionSpec {
 public:
  PartitionSpec() = default;
  explicit PartitionSpec(std::vector<PartitionEntry> entries, std::vector<std::string> unreduced = {},
                         std::vector<std::string> reduced = {});
  PartitionSpec(std::vector<PartitionEntry> entries, const SummedAxes& summed)
      : PartitionSpec(std::move(entries), summed.unreduced(), summed.reduced()) {}

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const PartitionEntry& operator[](std::size_t i) const { return entries_.at(i); }
  const std::vector<PartitionEntry>& entries() const { return entries_; }
  /// The axes over which the array is still to be summed: sorted, each once.
  const std::vector<std::string>& unreduced() const { return unreduced_; }
  /// The axes over which the array is the same, and over which its cotangent may be an unfinished sum: sorted, each
  /// once. The compiler decides where that sum is finished, so these axes do not affect placement.
  const std::vector<std::string>& reduced() const { return reduced_; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  std::size_t hash() const;
  /// Entry by entry: P("x") and P("x", none) differ, as in JAX; compare shardings with is_equivalent_to.
  friend bool operator==(const PartitionSpec& a, const PartitionSpec& b) {
    return a.entries_ == b.entries_ && a.unreduced_ == b.unreduced_ && a.reduced_ == b.reduced_;
  }
  /// The entries of both, one after the other, and all unreduced and reduced axes.
  friend PartitionSpec operator+(PartitionSpec a, const PartitionSpec& b);

 private:
  std::vector<PartitionEntry> entries_;
  std::vector<std::string> unreduced_;
  std::vector<std::string> reduced_;
};

// P(…) writes a spec: P("x", none, {"y", "z"}), P("x", unreduced("y")). It is a set of functions, because a braced
// entry would be ambiguous with a copy of the spec if it were a class.
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

inline PartitionSpec P(const SummedAxes& s) { return PartitionSpec({}, s); }
inline PartitionSpec P(PartitionEntry a, const SummedAxes& s) { return PartitionSpec({std::move(a)}, s); }
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, const SummedAxes& s) {
  return PartitionSpec({std::move(a), std::move(b)}, s);
}
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, PartitionEntry c, const SummedAxes& s) {
  return PartitionSpec({std::move(a), std::move(b), std::move(c)}, s);
}

/// "P()", "P('x',)", "P('x', None)", "P(('x', 'y'), UNCONSTRAINED)", "P('x', unreduced={'y'}, reduced={'z'})".
std::string to_string(const PartitionSpec& spec);
std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec);

}  // namespace shoal
