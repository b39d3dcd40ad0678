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

/// At the end of a spec, as unreduced("x", "y") makes it: the axes over which the array is still to be summed. What
/// devices hold along them are the summands.
class Unreduced {
 public:
  const std::vector<std::string>& axes() const { return axes_; }

 private:
  // Not made of a list alone, which in a spec is an entry.
  struct Key {};
  Unreduced(Key, std::vector<std::string> axes) : axes_(std::move(axes)) {}
  template <std::convertible_to<std::string>... Axes>
  friend Unreduced unreduced(Axes... axes);

  std::vector<std::string> axes_;
};
template <std::convertible_to<std::string>... Axes>
Unreduced unreduced(Axes... axes) {
  return {Unreduced::Key(), {std::string(axes)...}};
}

/// A sequence of entries, one per leading dimension; the remaining dimensions are not split.
class PartitionSpec {
 public:
  PartitionSpec() = default;
  explicit PartitionSpec(std::vector<PartitionEntry> entries, std::vector<std::string> unreduced = {});

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const PartitionEntry& operator[](std::size_t i) const { return entries_.at(i); }
  const std::vector<PartitionEntry>& entries() const { return entries_; }
  /// The axes over which the array is still to be summed: sorted, each once.
  const std::vector<std::string>& unreduced() const { return unreduced_; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  std::size_t hash() const;
  /// Entry by entry: P("x") and P("x", none) differ, as in JAX; compare shardings with is_equivalent_to.
  friend bool operator==(const PartitionSpec& a, const PartitionSpec& b) {
    return a.entries_ == b.entries_ && a.unreduced_ == b.unreduced_;
  }
  /// The entries of both, one after the other, and all unreduced axes.
  friend PartitionSpec operator+(PartitionSpec a, const PartitionSpec& b);

 private:
  std::vector<PartitionEntry> entries_;
  std::vector<std::string> unreduced_;
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

inline PartitionSpec P(const Unreduced& u) { return PartitionSpec({}, u.axes()); }
inline PartitionSpec P(PartitionEntry a, const Unreduced& u) { return PartitionSpec({std::move(a)}, u.axes()); }
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, const Unreduced& u) {
  return PartitionSpec({std::move(a), std::move(b)}, u.axes());
}
inline PartitionSpec P(PartitionEntry a, PartitionEntry b, PartitionEntry c, const Unreduced& u) {
  return PartitionSpec({std::move(a), std::move(b), std::move(c)}, u.axes());
}

/// "P()", "P('x',)", "P('x', None)", "P(('x', 'y'), UNCONSTRAINED)", "P('x', unreduced={'y'})".
std::string to_string(const PartitionSpec& spec);
std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec);

}  // namespace shoal
