#include "backend/cpu/merged_nodes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shoal::cpu {
namespace {

// Between neighbours, where labels are given anew.
constexpr std::uint64_t kGap = std::uint64_t{1} << 32;

MergedNodes::Needs reversed(const MergedNodes::Needs& needs) {
  MergedNodes::Needs needing(needs.size());
  for (std::size_t i = 0; i < needs.size(); ++i) {
    for (const std::size_t source : needs[i]) needing[source].push_back(i);
  }
  return needing;
}

}  // namespace

// ---- An order.

ChangingOrder::ChangingOrder(std::size_t count) : next_(count + 1), previous_(count + 1), labels_(count + 1) {
  for (std::size_t i = 0; i <= count; ++i) {
    next_[i] = i == count ? 0 : i + 1;
    previous_[i] = i == 0 ? count : i - 1;
  }
  spread();
}

void ChangingOrder::spread() {
  const std::size_t end = labels_.size() - 1;
  std::uint64_t label = 0;
  labels_[end] = 0;
  for (std::size_t i = next_[end]; i != end; i = next_[i]) labels_[i] = label += kGap;
}

void ChangingOrder::remove(std::size_t item) {
  next_[previous_[item]] = next_[item];
  previous_[next_[item]] = previous_[item];
}

void ChangingOrder::insert(std::size_t item, std::size_t previous) {
  const std::size_t end = labels_.size() - 1;
  const std::size_t next = next_[previous];
  previous_[item] = previous;
  next_[item] = next;
  next_[previous] = previous_[next] = item;
  const std::uint64_t above = next == end ? labels_[previous] + 2 * kGap : labels_[next];
  labels_[item] = labels_[previous] + (above - labels_[previous]) / 2;
  if (labels_[item] == labels_[previous]) spread();
}

void ChangingOrder::move_before(std::size_t item, std::size_t place) {
  remove(item);
  insert(item, previous_[place]);
}

void ChangingOrder::move_after(std::size_t item, std::size_t place) {
  remove(item);
  insert(item, place);
}

// ---- Landmarks.

Landmarks::Landmarks(const Needs& needs) : own_(needs.size()), needed_(needs.size()), needing_(needs.size()) {
  const std::size_t count = needs.size();
  const std::size_t landmarks = std::min(count, kCount);
  for (std::size_t k = 0; k < landmarks; ++k) own_[k * count / landmarks][k / 64] |= std::uint64_t{1} << (k % 64);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t source : needs[i]) add(needed_[i], needed_[source], own_[source]);
  }
  for (std::size_t i = count; i-- > 0;) {
    for (const std::size_t source : needs[i]) add(needing_[source], needing_[i], own_[i]);
  }
}

void Landmarks::merge(std::size_t a, std::size_t b) {
  add(own_[a], own_[b], own_[b]);
  add(needed_[a], needed_[b], needed_[b]);
  add(needing_[a], needing_[b], needing_[b]);
}

bool Landmarks::any_between(std::size_t a, std::size_t b) const {
  std::uint64_t any = 0;
  for (std::size_t w = 0; w < kWords; ++w) {
    const std::uint64_t between = (needing_[a][w] & needed_[b][w]) | (needing_[b][w] & needed_[a][w]);
    any |= between & ~(own_[a][w] | own_[b][w]);
  }
  return any != 0;
}

void Landmarks::add(Bits& to, const Bits& a, const Bits& b) {
  for (std::size_t w = 0; w < kWords; ++w) to[w] |= a[w] | b[w];
}

// ---- Nodes.

MergedNodes::MergedNodes(Needs needs)
    : numbers_(needs.size()),
      node_of_(needs.size()),
      members_(needs.size()),
      up_(std::move(needs)),
      down_(reversed(up_.leads_to)),
      landmarks_(up_.leads_to),
      order_(up_.leads_to.size()) {
  std::iota(numbers_.begin(), numbers_.end(), std::size_t{0});
  node_of_ = numbers_;
}

bool MergedNodes::merge(std::size_t a, std::size_t b) {
  if (landmarks_.any_between(a, b)) return false;
  const bool in_order = order_.is_before(a, b);
  if (!put_side_by_side(in_order ? a : b, in_order ? b : a)) return false;
  const std::size_t node = std::min(a, b);
  const std::size_t other = std::max(a, b);
  // Nothing is between them that needs or is needed: one place is as good as the other.
  order_.remove(other);
  std::vector<std::size_t> all;
  all.reserve(members(node).size() + members(other).size());
  std::ranges::merge(members(node), members(other), std::back_inserter(all));
  for (const std::size_t member : members(other)) node_of_[member] = node;
  members_[node] = std::move(all);
  members_[other].clear();
  landmarks_.merge(node, other);
  return true;
}

// Looks for all that is between two nodes, up from the last one and down from the first one in turn, until one search
// has come to its end. Returns whether one has met the node that the other began with, through others.
bool MergedNodes::search(std::size_t first, std::size_t last) {
  ++visit_;
  const auto look = [&](Search& search, std::size_t from, std::size_t goal) {
    for (const std::size_t member : members(from)) {
      for (const std::size_t equation : search.leads_to[member]) {
        const std::size_t node = node_of_[equation];
        if (node == goal && from != first && from != last) return true;
        if (node == first || node == last || search.visits[node] == visit_) continue;
        search.visits[node] = visit_;
        // A way leads through what is between them in the order.
        const bool is_between = &search == &up_ ? order_.is_before(first, node) : order_.is_before(node, last);
        if (!is_between) continue;
        search.open.push_back(node);
        search.found.push_back(node);
      }
    }
    return false;
  };
  for (Search* search : {&up_, &down_}) {
    search->open.clear();
    search->found.clear();
  }
  look(up_, last, first);
  look(down_, first, last);
  const auto go_on = [&](Search& search, std::size_t goal) {
    const std::size_t node = search.open.back();
    search.open.pop_back();
    return look(search, node, goal);
  };
  while (!up_.open.empty() && !down_.open.empty()) {
    if (go_on(up_, first) || go_on(down_, last)) return true;
  }
  return false;
}

// Moves what needs the first one behind the last one, or what the last one needs before the first one, unless there is
// a way from one to the other through others.
bool MergedNodes::put_side_by_side(std::size_t first, std::size_t last) {
  if (search(first, last)) return false;
  const bool moves_up = up_.open.empty();
  std::vector<std::size_t>& moved = moves_up ? up_.found : down_.found;
  std::ranges::sort(moved, {}, [&](std::size_t node) { return order_.label(node); });
  if (moves_up) {
    for (const std::size_t node : moved) order_.move_before(node, first);
    order_.move_after(last, first);
  } else {
    for (auto node = moved.rbegin(); node != moved.rend(); ++node) order_.move_after(*node, last);
    order_.move_before(first, last);
  }
  return true;
}

}  // namespace shoal::cpu
