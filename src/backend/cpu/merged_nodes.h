// Equations that are put together, so that all that stands for itself still has an order.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::cpu {

/// Places in an order that can be changed. Moving one takes as long as telling which of two comes first.
class ChangingOrder {
 public:
  /// Of 0, 1, … in this order.
  explicit ChangingOrder(std::size_t count);

  bool is_before(std::size_t a, std::size_t b) const { return labels_[a] < labels_[b]; }
  std::uint64_t label(std::size_t item) const { return labels_[item]; }
  /// Takes an item away from where it is.
  void move_before(std::size_t item, std::size_t place);
  void move_after(std::size_t item, std::size_t place);
  void remove(std::size_t item);

 private:
  void insert(std::size_t item, std::size_t previous);
  void spread();

  // One more than there are items: the last entry is before the first and after the last.
  std::vector<std::size_t> next_;
  std::vector<std::size_t> previous_;
  std::vector<std::uint64_t> labels_;
};

/// Some equations, evenly spread, and which others need them or are needed by them, through whatever is in between:
/// quick answers for what is far apart. Nodes are numbered by an equation in them.
class Landmarks {
 public:
  using Needs = std::vector<boost::container::small_vector<std::size_t, 4>>;

  explicit Landmarks(const Needs& needs);
  /// Node a becomes what both are.
  void merge(std::size_t a, std::size_t b);
  /// Whether one of them is outside both nodes, needs one of them and is needed by the other.
  bool any_between(std::size_t a, std::size_t b) const;

 private:
  static constexpr std::size_t kCount = 256;
  static constexpr std::size_t kWords = kCount / 64;
  using Bits = std::array<std::uint64_t, kWords>;

  static void add(Bits& to, const Bits& a, const Bits& b);

  std::vector<Bits> own_;
  std::vector<Bits> needed_;
  std::vector<Bits> needing_;
};

/// A node is one equation, or several that are merged; nodes are numbered by the first equation in them.
class MergedNodes {
 public:
  /// Of each equation, those before it that it needs.
  using Needs = Landmarks::Needs;

  explicit MergedNodes(Needs needs);

  const Needs& needs() const { return up_.leads_to; }
  std::size_t node_of(std::size_t equation) const { return node_of_[equation]; }
  /// In order; none for the number of an equation that another node has taken in. They stay until something is merged.
  std::span<const std::size_t> members(std::size_t node) const {
    if (node_of_[node] != node) return {};
    return members_[node].empty() ? std::span(&numbers_[node], 1) : std::span(members_[node]);
  }
  /// Whether it is seen at once that the two cannot be merged.
  bool has_landmark_between(std::size_t a, std::size_t b) const { return landmarks_.any_between(a, b); }
  /// Makes one node of two, unless a third one needs one of them and is needed by the other. Returns whether it did.
  bool merge(std::size_t a, std::size_t b);

 private:
  // A search up, for what equations need, or down, for what needs them.
  struct Search {
    explicit Search(Needs needs) : leads_to(std::move(needs)), visits(leads_to.size(), 0) {}

    Needs leads_to;  // Of each equation.
    std::vector<std::uint32_t> visits;
    std::vector<std::size_t> open;
    std::vector<std::size_t> found;
  };

  bool search(std::size_t first, std::size_t last);
  bool put_side_by_side(std::size_t first, std::size_t last);

  std::vector<std::size_t> numbers_;  // 0, 1, …
  std::vector<std::size_t> node_of_;
  std::vector<std::vector<std::size_t>> members_;  // Of nodes that are several equations.
  Search up_;
  Search down_;
  Landmarks landmarks_;
  ChangingOrder order_;  // Of nodes: each comes after what it needs.
  std::uint32_t visit_ = 0;
};

}  // namespace shoal::cpu
