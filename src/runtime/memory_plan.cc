#include "runtime/memory_plan.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>

#include "runtime/byte_counts.h"

namespace shoal {
namespace {

using Kind = MemoryPlan::Kind;
using Place = MemoryPlan::Place;
using Storage = MemoryPlan::Storage;

constexpr std::size_t kAlignment = 64;
// So many steps together have lists of what lives in them.
constexpr std::size_t kStepsOfPart = 128;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::size_t size_in_memory(const Shape& shape, Dtype dtype) {
  return times(static_cast<std::size_t>(num_elements(shape)), size_of(dtype));
}

std::size_t index_of(MemoryKind memory) { return static_cast<std::size_t>(memory.kind()); }

class Planner {
 public:
  Planner(const Graph& graph, std::span<const ShardShapes> shapes, std::span<const StepFacts> steps)
      : graph_(graph), shapes_(shapes), steps_(steps), escapes_(graph.values.size()), values_(graph.values.size()) {
    plan_.places.resize(graph.values.size());
    plan_.runs.assign(steps.size(), true);
    plan_.renames.assign(steps.size(), false);
    plan_.zeros.assign(steps.size(), -1);
    plan_.taken.assign(steps.size(), 0);
    plan_.scratch.assign(steps.size(), 0);
  }

  MemoryPlan plan(std::span<const Reuse> reuses, bool only_pairs) {
    find_escapes();
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      Storage& storage = add_storage(graph_.inputs[i], -1, Kind::kInput);
      storage.input = static_cast<std::int32_t>(i);
    }
    for (std::size_t step = 0; step < steps_.size(); ++step) place_results(step);
    find_deaths();
    for (const Reuse& reuse : reuses) donate(reuse.input, reuse.output);
    if (!only_pairs) donate_what_is_left(reuses);
    for (std::size_t step = steps_.size(); step-- > 0;) {
      if (may_overwrite_any(steps_[step]) && plan_.runs[step]) overwrite_operands(step);
      if (steps_[step].collective != nullptr) make_operand_in_result(step);
    }
    lay_out();
    resolve();
    count();
    return std::move(plan_);
  }

 private:
  // What a value lies in.
  struct Lies {
    boost::container::small_vector<std::int32_t, 1> storages;
    bool whole = false;  // Its shards are the pieces of one storage, in order.
  };
  // The storage that another became part of, and where its pieces lie there: in order, if nothing is said.
  struct Parent {
    std::int32_t storage = -1;
    std::vector<collectives::View> pieces = {};
  };

  const Eqn& eqn(std::size_t step) const { return graph_.eqns[step]; }
  Lies& lies(ValueId id) { return values_[slot(id)]; }
  const ShardShapes& shapes(ValueId id) const { return shapes_[slot(id)]; }
  Storage& storage(std::int32_t number) { return plan_.storages[static_cast<std::size_t>(number)]; }
  Parent& parent(std::int32_t number) { return parents_[static_cast<std::size_t>(number)]; }
  bool is_output(const Storage& storage) const { return storage.death == static_cast<std::int32_t>(steps_.size()); }

  const std::vector<collectives::View>& views(std::size_t step) const {
    return steps_[step].collective != nullptr ? steps_[step].collective->views() : steps_[step].views;
  }

  std::int32_t root(std::int32_t number) {
    while (parent(number).storage >= 0) number = parent(number).storage;
    return number;
  }

  // The values that outputs may share memory with.
  void find_escapes() {
    for (ValueId id : graph_.outputs) escapes_[slot(id)] = true;
    for (std::size_t step = steps_.size(); step-- > 0;) {
      if (views(step).empty()) continue;
      if (escapes_[static_cast<std::size_t>(eqn(step).outputs[0])]) {
        escapes_[static_cast<std::size_t>(eqn(step).inputs[0])] = true;
      }
    }
  }

  Storage& add_storage(ValueId owner, std::int32_t birth, Kind kind) {
    const auto number = static_cast<std::int32_t>(plan_.storages.size());
    const std::int64_t pieces = shapes(owner).count();
    plan_.storages.push_back({.kind = kind,
                              .owner = owner,
                              .pieces = pieces,
                              .held = shapes(owner).count_held(),
                              .birth = birth,
                              .death = birth});
    parents_.emplace_back();
    auto& places = plan_.places[static_cast<std::size_t>(owner)];
    places.resize(static_cast<std::size_t>(pieces));
    for (std::int64_t i = 0; i < pieces; ++i) {
      places[static_cast<std::size_t>(i)] = {.storage = number, .piece = static_cast<std::int32_t>(i), .offset = 0};
    }
    lies(owner) = {.storages = {number}, .whole = true};
    return plan_.storages.back();
  }

  void place_results(std::size_t step) {
    if (!views(step).empty() && may_rename(step)) {
      rename(step);
      return;
    }
    for (ValueId id : eqn(step).outputs) add_storage(id, static_cast<std::int32_t>(step), Kind::kArena);
  }

  // A part of a piece would keep the whole alive for as long as the user holds an output.
  bool may_rename(std::size_t step) const {
    const ValueId result = eqn(step).outputs[0];
    const ValueId operand = eqn(step).inputs[0];
    if (graph_.type(result).memory != graph_.type(operand).memory) return false;
    if (!escapes_[slot(result)]) return true;
    for (std::size_t shard = 0; shard < views(step).size(); ++shard) {
      const collectives::View& view = views(step)[shard];
      if (view.shard < 0) continue;
      if (view.offset != 0) return false;
      if (shapes(operand).bytes(view.shard) != shapes(result).bytes(static_cast<std::int64_t>(shard))) return false;
    }
    return true;
  }

  void rename(std::size_t step) {
    const ValueId result = eqn(step).outputs[0];
    const ValueId operand = eqn(step).inputs[0];
    const std::vector<collectives::View>& views = this->views(step);
    const std::vector<Place>& from = plan_.places[static_cast<std::size_t>(operand)];
    const auto count = [&](std::int64_t kind) { return std::ranges::count(views, kind, &collectives::View::shard); };
    // Memory for what does not lie in the operand. Where all pieces have one shape, there are no more than are used.
    const bool even = shapes(result).even();
    const auto add = [&](std::int64_t pieces) {
      const auto number = static_cast<std::int32_t>(plan_.storages.size());
      Storage& storage = add_storage(result, static_cast<std::int32_t>(step), Kind::kArena);
      if (even) storage.pieces = storage.held = pieces;
      return number;
    };
    const std::int64_t made = count(collectives::View::kMade);
    if (count(collectives::View::kZeros) > 0) plan_.zeros[step] = add(1);
    const std::int32_t storage_of_made = made > 0 ? add(made) : -1;
    plan_.runs[step] = plan_.zeros[step] >= 0 || made > 0;
    plan_.renames[step] = true;
    std::int32_t next_made = 0;
    std::vector<Place> places;
    Lies& lie = lies(result);
    lie = {};
    lie.whole = lies(operand).whole && views.size() == from.size();
    for (std::size_t shard = 0; shard < views.size(); ++shard) {
      const collectives::View& view = views[shard];
      if (view.shard == collectives::View::kZeros) {
        places.push_back({.storage = plan_.zeros[step], .piece = even ? 0 : static_cast<std::int32_t>(shard)});
      } else if (view.shard == collectives::View::kMade) {
        places.push_back({.storage = storage_of_made, .piece = even ? next_made++ : static_cast<std::int32_t>(shard)});
      } else {
        places.push_back(from[static_cast<std::size_t>(view.shard)]);
        places.back().offset += view.offset;
      }
      lie.whole = lie.whole && view.shard == static_cast<std::int64_t>(shard) && view.offset == 0;
      if (std::ranges::count(lie.storages, places.back().storage) == 0) lie.storages.push_back(places.back().storage);
    }
    // A part of each piece is not the piece.
    for (std::int64_t shard = 0; lie.whole && shard < shapes(result).count(); ++shard) {
      lie.whole = shapes(result).bytes(shard) == shapes(operand).bytes(shard);
      if (shapes(result).even() && shapes(operand).even()) break;
    }
    plan_.places[slot(result)] = std::move(places);
  }

  void find_deaths() {
    const auto use = [&](ValueId id, std::size_t step) {
      for (std::int32_t number : lies(id).storages) {
        storage(number).death = std::max(storage(number).death, static_cast<std::int32_t>(step));
      }
    };
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      for (ValueId id : eqn(step).inputs) use(id, step);
    }
    for (ValueId id : graph_.outputs) use(id, steps_.size());
    for (Storage& storage : plan_.storages) {
      if (storage.kind == Kind::kArena && is_output(storage)) storage.kind = Kind::kOutput;
    }
  }

  // Whether shards of one lie in memory as those of the other do.
  bool alike(ValueId a, ValueId b) const {
    const ShardShapes& x = shapes(a);
    const ShardShapes& y = shapes(b);
    return x.dtype == y.dtype && x.varying == y.varying && x.shapes == y.shapes &&
           graph_.type(a).memory == graph_.type(b).memory;
  }

  static bool may_overwrite_any(const StepFacts& facts) { return facts.kernel != nullptr || !facts.overwrites.empty(); }
  static bool may_overwrite(const StepFacts& facts, std::size_t input, std::size_t output) {
    if (facts.kernel != nullptr) return facts.kernel->may_overwrite(input, output);
    return std::ranges::any_of(facts.overwrites,
                               [&](const Reuse& one) { return one.input == input && one.output == output; });
  }

  // Whether a step may write `result` to a storage that it reads and nobody needs later.
  bool may_write(std::size_t step, ValueId result, std::int32_t number) {
    const StepFacts& facts = steps_[step];
    if (!may_overwrite_any(facts) || !plan_.runs[step]) return false;
    const ValueIds& outputs = eqn(step).outputs;
    const auto output = static_cast<std::size_t>(std::ranges::find(outputs, result) - outputs.begin());
    for (std::size_t i = 0; i < eqn(step).inputs.size(); ++i) {
      const ValueId operand = eqn(step).inputs[i];
      if (std::ranges::count(lies(operand).storages, number) == 0) continue;
      if (!lies(operand).whole || !alike(operand, result) || !may_overwrite(facts, i, output)) return false;
    }
    return true;
  }

  // Whether `input` is free when its owner's step writes `target`.
  bool is_free_for(std::int32_t input, const Storage& target) {
    const Storage& donor = storage(input);
    if (is_output(donor) || donor.death > target.birth) return false;
    return donor.death < target.birth || may_write(static_cast<std::size_t>(target.birth), target.owner, input);
  }

  // Whether shards of one fit into the memory of those of the other.
  bool is_as_large(ValueId a, ValueId b) const {
    const ShardShapes& x = shapes(a);
    const ShardShapes& y = shapes(b);
    if (x.dtype != y.dtype || x.varying != y.varying || graph_.type(a).memory != graph_.type(b).memory) return false;
    if (x.even() && y.even()) return x.bytes(0) == y.bytes(0);
    for (std::int64_t shard = 0; shard < x.count(); ++shard) {
      if (x.bytes(shard) != y.bytes(shard)) return false;
    }
    return true;
  }

  bool donate(std::size_t from, std::size_t to) {
    const ValueId input = graph_.inputs[from];
    const ValueId output = graph_.outputs[to];
    if (!lies(output).whole || !is_as_large(input, output)) return false;
    Storage& target = storage(lies(output).storages[0]);
    const std::int32_t donor = lies(input).storages[0];
    if (target.kind != Kind::kOutput || target.donor >= 0) return false;
    if (!is_free_for(donor, target)) return false;
    target.donor = static_cast<std::int32_t>(from);
    plan_.use.alias += size_in_memory(shapes(output).shape(0), shapes(output).dtype);
    return true;
  }

  // An argument that is still read when its own result is made may hold a later one.
  void donate_what_is_left(std::span<const Reuse> reuses) {
    std::vector<bool> is_given(graph_.inputs.size());
    for (const Storage& storage : plan_.storages) {
      if (storage.donor >= 0) is_given[static_cast<std::size_t>(storage.donor)] = true;
    }
    std::vector<std::size_t> inputs;
    std::vector<std::size_t> outputs;
    for (const Reuse& reuse : reuses) {
      if (is_given[reuse.input]) continue;
      inputs.push_back(reuse.input);
      outputs.push_back(reuse.output);
    }
    // What is free for one is free for those after it, so that any choice leaves as much for these.
    const auto birth = [&](std::size_t i) { return storage(lies(graph_.outputs[i]).storages[0]).birth; };
    std::ranges::stable_sort(outputs, {}, birth);
    for (const std::size_t output : outputs) {
      const auto taken = std::ranges::find_if(inputs, [&](std::size_t input) { return donate(input, output); });
      if (taken != inputs.end()) inputs.erase(taken);
    }
  }

  // Makes `number`, which dies where the storage `into` is born, part of it; false if that would hurt a donation.
  bool merge(std::int32_t number, std::int32_t into, std::vector<collectives::View> pieces) {
    Storage& part = storage(number);
    Storage& whole = storage(root(into));
    if (whole.donor >= 0) {
      const std::int32_t donor = lies(graph_.inputs[static_cast<std::size_t>(whole.donor)]).storages[0];
      // The one may be written over the other only piece by piece.
      const bool free = pieces.empty() ? is_free_for(donor, part) : storage(donor).death < part.birth;
      if (!free) return false;
    }
    parent(number) = {.storage = into, .pieces = std::move(pieces)};
    part.kind = Kind::kMerged;
    whole.birth = std::min(whole.birth, part.birth);
    return true;
  }

  // Whether a storage could be part of another that is born at `step`.
  bool ends_at(std::int32_t number, std::size_t step) {
    return storage(number).kind == Kind::kArena && storage(number).death == static_cast<std::int32_t>(step);
  }

  // Lets results take the memory of operands that nobody needs later.
  void overwrite_operands(std::size_t step) {
    for (ValueId result : eqn(step).outputs) {
      const std::int32_t target = lies(result).storages[0];
      for (ValueId operand : eqn(step).inputs) {
        if (!lies(operand).whole || !alike(operand, result)) continue;
        const std::int32_t number = lies(operand).storages[0];
        if (!ends_at(number, step) || !may_write(step, result, number)) continue;
        if (!merge(number, target, {})) continue;
        plan_.taken[step] += shapes(result).count_held();
        break;
      }
    }
  }

  // Lets what is gathered be computed where it is gathered to.
  void make_operand_in_result(std::size_t step) {
    const std::vector<collectives::View>& pieces = steps_[step].collective->operand_in_result();
    if (pieces.empty()) return;
    const ValueId operand = eqn(step).inputs[0];
    const ValueId result = eqn(step).outputs[0];
    if (!lies(operand).whole || graph_.type(operand).memory != graph_.type(result).memory) return;
    const auto is_aligned = [](const collectives::View& piece) { return piece.offset % kAlignment == 0; };
    const std::int32_t number = lies(operand).storages[0];
    const bool same_pieces = storage(number).pieces == static_cast<std::int64_t>(pieces.size());
    if (!ends_at(number, step) || !same_pieces || !std::ranges::all_of(pieces, is_aligned)) return;
    if (merge(number, lies(result).storages[0], pieces)) plan_.runs[step] = false;
  }

  // ---- Offsets

  // A range of the arena for some steps.
  struct Block {
    std::size_t bytes;
    std::int32_t birth;
    std::int32_t death;
    std::size_t* offset;
  };

  void lay_out() {
    std::array<std::vector<Block>, 3> blocks;
    for (Storage& storage : plan_.storages) {
      if (storage.kind != Kind::kArena) continue;
      const ShardShapes& shape = shapes(storage.owner);
      for (const Shape& one : shape.shapes) {
        storage.stride = std::max(storage.stride, aligned(size_in_memory(one, shape.dtype)));
      }
      blocks[index_of(graph_.type(storage.owner).memory)].push_back(
          {.bytes = times(storage.stride, static_cast<std::size_t>(storage.held)),
           .birth = storage.birth,
           .death = storage.death,
           .offset = &storage.offset});
    }
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      if (!plan_.runs[step] || steps_[step].scratch_bytes == 0) continue;
      blocks[0].push_back({.bytes = aligned(steps_[step].scratch_bytes),
                           .birth = steps_[step].start,
                           .death = static_cast<std::int32_t>(step),
                           .offset = &plan_.scratch[step]});
    }
    for (std::size_t kind = 0; kind < blocks.size(); ++kind) plan_.arena_bytes[kind] = pack(blocks[kind]);
    find_peak(blocks);
  }

  // A range of offsets that is taken in some steps.
  struct Taken {
    std::size_t begin;
    std::size_t end;
    std::int32_t birth;
    std::int32_t death;
  };
  using TakenByOffset = std::vector<Taken>;

  // The lowest offset where so many bytes are free while a block lives, as far as ranges that are shown in order say.
  struct Gap {
    const Block& block;
    std::size_t offset = 0;

    // Returns whether the block fits before the range. Whether ranges live at the same time no processor can foresee:
    // that is no branch.
    bool pass(const Taken& taken) {
      const bool meets = static_cast<int>(taken.death >= block.birth) & static_cast<int>(block.death >= taken.birth);
      if (offset + block.bytes <= taken.begin && meets) return true;  // The sum of two fits (byte_counts.h).
      offset = std::max(offset, meets ? taken.end : 0);
      return false;
    }
  };

  // What is taken in some steps that follow each other. Most blocks live shortly, and meet few.
  struct Part {
    TakenByOffset sometimes;
    TakenByOffset always;  // Those that are next to each other are one.
  };

  static void add(const Taken& taken, TakenByOffset& to) {
    to.insert(std::ranges::upper_bound(to, taken.begin, {}, &Taken::begin), taken);
  }

  static void add_joined(const Taken& taken, TakenByOffset& to) {
    const auto first = std::ranges::lower_bound(to, taken.begin, {}, &Taken::end);
    if (first == to.end() || taken.end < first->begin) {
      to.insert(first, taken);
      return;
    }
    auto last = first;
    first->begin = std::min(first->begin, taken.begin);
    for (std::size_t end = taken.end; last != to.end() && last->begin <= end; ++last) end = std::max(end, last->end);
    first->end = std::max(taken.end, std::prev(last)->end);
    to.erase(std::next(first), last);
  }

  static std::size_t lowest_offset(const Block& block, const TakenByOffset& taken) {
    Gap gap{block};
    for (const Taken& one : taken) {
      if (gap.pass(one)) break;
    }
    return gap.offset;
  }

  static std::size_t lowest_offset(const Block& block, const Part& part) {
    Gap gap{block};
    auto always = part.always.begin();
    auto sometimes = part.sometimes.begin();
    while (always != part.always.end() || sometimes != part.sometimes.end()) {
      const bool is_next =
          sometimes == part.sometimes.end() || (always != part.always.end() && always->begin <= sometimes->begin);
      if (gap.pass(is_next ? *always++ : *sometimes++)) break;
    }
    return gap.offset;
  }

  // The largest first, each at the lowest offset where nothing else lies while it lives; returns the end of the last.
  // That is "greedy by size for offset calculation" of Pisarchyk and Lee, arXiv:2001.03288.
  static std::size_t pack(std::vector<Block>& blocks) {
    std::ranges::stable_sort(blocks, [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
    TakenByOffset all;
    std::vector<Part> parts;
    const auto part_of = [](std::int32_t step) { return static_cast<std::size_t>(std::max(step, 0)) / kStepsOfPart; };
    for (const Block& block : blocks) parts.resize(std::max(parts.size(), part_of(block.death) + 1));
    std::size_t end = 0;
    for (Block& block : blocks) {
      const std::size_t first = part_of(block.birth);
      const std::size_t last = part_of(block.death);
      const std::size_t offset = first == last ? lowest_offset(block, parts[first]) : lowest_offset(block, all);
      *block.offset = offset;
      const Taken taken{.begin = offset, .end = plus(offset, block.bytes), .birth = block.birth, .death = block.death};
      end = std::max(end, taken.end);
      add(taken, all);
      add(taken, parts[first].sometimes);
      for (std::size_t part = first + 1; part < last; ++part) {
        const auto begins = static_cast<std::int32_t>(part * kStepsOfPart);
        add_joined({.begin = taken.begin,
                    .end = taken.end,
                    .birth = begins,
                    .death = begins + static_cast<std::int32_t>(kStepsOfPart) - 1},
                   parts[part].always);
      }
      if (last != first) add(taken, parts[last].sometimes);
    }
    return end;
  }

  void find_peak(const std::array<std::vector<Block>, 3>& blocks) {
    // What is held from a step on, and what no more.
    std::vector<std::size_t> begins(steps_.size() + 1);
    std::vector<std::size_t> ends(steps_.size() + 1);
    for (const std::vector<Block>& some : blocks) {
      for (const Block& block : some) {
        std::size_t& begin = begins[static_cast<std::size_t>(block.birth)];
        begin = plus(begin, block.bytes);
        std::size_t& end = ends[static_cast<std::size_t>(block.death)];
        end = plus(end, block.bytes);
      }
    }
    std::size_t held = 0;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      held = plus(held, begins[step]);
      if (held > plan_.peak_bytes) {
        plan_.peak_bytes = held;
        plan_.peak = static_cast<std::int32_t>(step);
      }
      held -= std::min(held, ends[step]);
    }
  }

  // Says of each value where it lies in storages that are not part of others.
  void resolve() {
    // Those that are another's in order are skipped at once. A parent was made later than its parts.
    std::vector<std::int32_t> whole(parents_.size());
    for (std::size_t i = parents_.size(); i-- > 0;) {
      const bool renamed = parents_[i].storage >= 0 && parents_[i].pieces.empty();
      whole[i] = renamed ? whole[static_cast<std::size_t>(parents_[i].storage)] : static_cast<std::int32_t>(i);
    }
    for (std::vector<Place>& places : plan_.places) {
      for (Place& place : places) {
        place.storage = whole[static_cast<std::size_t>(place.storage)];
        while (parent(place.storage).storage >= 0) {
          const Parent& up = parent(place.storage);
          const collectives::View& view = up.pieces[static_cast<std::size_t>(place.piece)];
          place.piece = static_cast<std::int32_t>(view.shard);
          place.offset += view.offset;
          place.storage = whole[static_cast<std::size_t>(up.storage)];
        }
      }
    }
  }

  void count() {
    MemoryUse& use = plan_.use;
    const auto bytes = [&](ValueId id) { return size_in_memory(shapes(id).shape(0), shapes(id).dtype); };
    for (ValueId id : graph_.inputs) use.argument = plus(use.argument, bytes(id));
    for (ValueId id : graph_.outputs) use.output = plus(use.output, bytes(id));
    std::vector<std::size_t> begins(steps_.size() + 1);
    std::vector<std::size_t> ends(steps_.size() + 1);
    const auto hold = [&](std::size_t from, std::size_t to, std::size_t some) {
      begins[from] = plus(begins[from], some);
      ends[to] = plus(ends[to], some);
    };
    for (const Storage& storage : plan_.storages) {
      if (storage.kind != Kind::kArena) continue;
      hold(static_cast<std::size_t>(storage.birth), static_cast<std::size_t>(storage.death), bytes(storage.owner));
    }
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      const auto start = static_cast<std::size_t>(steps_[step].start);
      if (plan_.runs[step]) hold(start, step, steps_[step].scratch_bytes_of_shard);
    }
    std::size_t held = 0;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      held = plus(held, begins[step]);
      use.temp = std::max(use.temp, held);
      held -= std::min(held, ends[step]);
    }
  }

  const Graph& graph_;
  std::span<const ShardShapes> shapes_;
  std::span<const StepFacts> steps_;
  std::vector<bool> escapes_;
  std::vector<Lies> values_;
  std::vector<Parent> parents_;  // Of each storage.
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, std::span<const ShardShapes> shapes, std::span<const StepFacts> steps,
                       std::span<const Reuse> reuses, bool only_pairs) {
  return Planner(graph, shapes, steps).plan(reuses, only_pairs);
}

}  // namespace shoal
