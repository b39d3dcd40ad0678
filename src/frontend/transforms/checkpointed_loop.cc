#include "frontend/transforms/checkpointed_loop.h"

#include <algorithm>
#include <any>
#include <string>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/body.h"
#include "ops/derivatives.h"
#include "shoal/control_flow.h"
#include "shoal/custom_derivatives.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

Array count_of(std::int64_t number) { return full({}, number, {.dtype = int64}); }

Leaves part(const Leaves& all, std::size_t first, std::size_t last) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last)};
}

// States of a loop, in as many places as may be kept and one that is written to when none is to be.
struct Kept {
  Leaves states;  // Stacks of the carries.
  Array trips;    // For each place, before which trip its state was; -1 if it has none.

  // Writes a state into a free place; it counts only if `keeps` is true.
  Kept with(const Leaves& state, const Array& trip, const Array& keeps) const {
    const Array place = argmin(trips);
    Kept made = *this;
    for (std::size_t i = 0; i < state.size(); ++i) {
      made.states[i] = lax::dynamic_update_index_in_dim(states[i], state[i], place, 0);
    }
    const Array is_place = equal(arange(trips.shape()[0], {.dtype = int64}), place.astype(int64));
    made.trips = where(is_place, where(keeps, trip, count_of(-1)), trips);
    return made;
  }
  Array count() const { return sum((trips >= 0).astype(int64)); }
};

// How many of `trips` trips the next state to be kept should lie ahead, if there are `places` for it and others: the
// binomial division of revolve. With no place left, that is the state before the last trip.
Array distance(const Array& trips, const Array& places) {
  // all: how many trips can be reversed with these places if none is run more than `times` times again; fewer: if once
  // less. Both are binomial coefficients.
  struct Search {
    Array times, all, fewer;
  };
  const Array with_start = places + 1;
  const Search found = lax::while_loop(
      [&](const Search& at) { return logical_and(at.all<trips, places> 0); },
      [&](const Search& at) {
        const Array times = at.times + 1;
        return Search{.times = times, .all = floor_divide(at.all * (with_start + times), times), .fewer = at.all};
      },
      Search{.times = count_of(0), .all = count_of(1), .fewer = count_of(0)});
  const Array last_part = floor_divide(found.fewer * with_start, maximum(places + found.times, 1));
  return where(places > 0, minimum(found.fewer, trips - last_part), trips - 1);
}

class Checkpoints {
 public:
  Checkpoints(const std::vector<GraphAttr>& graphs, std::size_t carries, std::int64_t most)
      : graphs_(graphs), carries_(carries), most_(most) {
    const Graph& body = *graphs[1].graph;
    for (std::size_t i = 0; i < carries; ++i) {
      if (has_tangents(body.type(body.inputs[i]).dtype)) smooth_.push_back(i);
    }
  }

  struct Forward {
    Leaves carries;
    Kept kept;
    Array trips;
  };
  // The loop, which keeps every n-th state, and half of those once there are too many. Half of the places are left for
  // the way back.
  Forward forward(const Leaves& operands) const {
    const Leaves captures = part(operands, carries_, operands.size());
    const Leaves first = part(operands, 0, carries_);
    struct State {
      Leaves carries;
      Kept kept;
      Array trip, apart;
    };
    State init{.carries = first,
               .kept = {.states = {}, .trips = full({most_ + 1}, -1, {.dtype = int64})},
               .trip = count_of(0),
               .apart = count_of(1)};
    for (const Array& carry : first) {
      Shape shape = carry.shape();
      shape.insert(shape.begin(), most_ + 1);
      init.kept.states.push_back(broadcast_to(expand_dims(carry, 0), shape));
    }
    const State last = lax::while_loop(
        [&](const State& at) { return call(0, at.carries, captures)[0]; },
        [&](const State& at) {
          const Array is_full = logical_and(equal(remainder(at.trip, at.apart), 0),
                                            at.kept.count() >= std::max<std::int64_t>(1, most_ / 2));
          State next{.carries = call(1, at.carries, captures),
                     .kept = at.kept,
                     .trip = at.trip + 1,
                     .apart = where(is_full, 2 * at.apart, at.apart)};
          next.kept.trips = where(equal(remainder(at.kept.trips, next.apart), 0), at.kept.trips, count_of(-1));
          next.kept = next.kept.with(at.carries, at.trip, equal(remainder(at.trip, next.apart), 0));
          return next;
        },
        init, options());
    return {.carries = last.carries, .kept = last.kept, .trips = last.trip};
  }

  // From the cotangents of the smooth carries in the end to those of the operands that are named.
  Leaves reverse(const Leaves& operands, const Forward& made, const Leaves& cotangents,
                 const std::vector<std::size_t>& changing) const {
    const Leaves captures = part(operands, carries_, operands.size());
    std::vector<std::size_t> captured;
    Leaves sums;
    for (const std::size_t i : changing) {
      if (i < carries_) continue;
      captured.push_back(i - carries_);
      sums.push_back(zero_cotangent_of(operands[i]));
    }
    struct State {
      Leaves cotangents, sums;
      Kept kept;
      Array trips;  // That are still to be reversed.
    };
    const auto last_trip = [&](const Leaves& carries, const Leaves& of_results, const Leaves& of_captures) {
      Leaves changed;
      for (const std::size_t i : captured) changed.push_back(captures[i]);
      const auto [results, pull_back] = vjp(
          [&](const Leaves& own, const Leaves& others) {
            Leaves all = carries;
            for (std::size_t k = 0; k < own.size(); ++k) all[smooth_[k]] = own[k];
            Leaves around = captures;
            for (std::size_t k = 0; k < others.size(); ++k) around[captured[k]] = others[k];
            return smooth_of(call(1, all, around));
          },
          smooth_of(carries), changed);
      auto [own, others] = pull_back(of_results);
      for (std::size_t k = 0; k < others.size(); ++k) others[k] = of_captures[k] + others[k];
      return std::tuple(own, others);
    };
    State init{.cotangents = cotangents, .sums = sums, .kept = made.kept, .trips = made.trips};
    const State end = lax::while_loop(
        [](const State& at) { return at.trips > 0; },
        [&](const State& at) {
          Kept kept = at.kept;
          kept.trips = where(kept.trips < at.trips, kept.trips, count_of(-1));
          const Array place = argmax(kept.trips);
          const Array start = max(kept.trips);
          const Array trips = at.trips - start;
          const Array ahead = distance(trips, most_ - kept.count());
          Leaves from;
          for (const Array& stack : kept.states) from.push_back(lax::dynamic_index_in_dim(stack, place, 0, false));
          const auto moved = lax::while_loop([&](const std::pair<Array, Leaves>& one) { return one.first < ahead; },
                                             [&](const std::pair<Array, Leaves>& one) {
                                               return std::pair(one.first + 1, call(1, one.second, captures));
                                             },
                                             std::pair(count_of(0), from), options());
          const Array is_last = equal(ahead, trips - 1);
          const auto [own, others] = lax::cond(
              is_last, last_trip,
              [](const Leaves&, const Leaves& of_results, const Leaves& of_captures) {
                return std::tuple(of_results, of_captures);
              },
              moved.second, at.cotangents, at.sums);
          return State{.cotangents = own,
                       .sums = others,
                       .kept = kept.with(moved.second, start + ahead, logical_not(is_last)),
                       .trips = where(is_last, at.trips - 1, at.trips)};
        },
        init, options());
    Leaves all;
    std::size_t next = 0;
    for (const std::size_t i : changing) {
      if (i >= carries_) {
        all.push_back(end.sums[next++]);
        continue;
      }
      const auto found = std::find(smooth_.begin(), smooth_.end(), i);
      all.push_back(end.cotangents[static_cast<std::size_t>(found - smooth_.begin())]);
    }
    return all;
  }

  // Those of the carries that have tangents.
  Leaves smooth_of(const Leaves& carries) const {
    Leaves smooth;
    for (const std::size_t i : smooth_) smooth.push_back(carries[i]);
    return smooth;
  }
  const std::vector<std::size_t>& smooth() const { return smooth_; }

 private:
  // These loops are differentiated in turn.
  lax::WhileOptions options() const { return {.max_checkpoints = most_}; }

  Leaves call(std::size_t which, const Leaves& carries, const Leaves& captures) const {
    Leaves operands = carries;
    operands.insert(operands.end(), captures.begin(), captures.end());
    const Graph& graph = *graphs_[which].graph;
    // What comes out of the store is not weakly typed.
    operands = as_types(std::move(operands), graph.types(graph.inputs));
    return bind("jit", {{"body", graphs_[which]}, {"name", graph.name}}, operands);
  }

  std::vector<GraphAttr> graphs_;  // The condition and the body.
  std::size_t carries_;
  std::int64_t most_;
  std::vector<std::size_t> smooth_;
};

}  // namespace

CheckpointedLoop::CheckpointedLoop(std::vector<GraphAttr> graphs, std::size_t carries)
    : graphs_(std::move(graphs)), carries_(carries) {}

Leaves CheckpointedLoop::run(const Leaves& operands) const {
  return bind("while", {{"bodies", graphs_}, {"carries", static_cast<std::int64_t>(carries_)}}, operands);
}

Leaves CheckpointedLoop::differentiable(const Leaves& operands, std::int64_t max_checkpoints) const {
  if (max_checkpoints < 1) {
    throw misuse<InvalidArgument>("max_checkpoints is {}; it must be at least 1", max_checkpoints);
  }
  const Graph& condition = *graphs_[0].graph;
  const Type& predicate = condition.type(condition.outputs[0]);
  if (!predicate.varying.empty()) {
    throw misuse<Unsupported>(
        "the predicate {} differs between the devices along '{}', and a loop with max_checkpoints runs the same number "
        "of times on all. Make the predicate equal on all, with lax::pmax",
        user_string(predicate), predicate.varying.front());
  }
  const CheckpointedLoop loop = *this;
  const TracedFunction plain = [loop](const Leaves& leaves) { return flat_result<Leaves>(loop.run(leaves)); };
  const TangentRule rule = [loop, max_checkpoints](const Leaves& leaves, const Leaves& tangents) {
    const Checkpoints checkpoints(loop.graphs_, loop.carries_, max_checkpoints);
    Checkpoints::Forward made = checkpoints.forward(leaves);
    std::vector<std::size_t> changing;
    Leaves changes;
    for (std::size_t i = 0; i < tangents.size(); ++i) {
      if (is_empty(tangents[i])) continue;
      changing.push_back(i);
      changes.push_back(tangents[i]);
    }
    RuleResult result{.result = flat_result<Leaves>(made.carries), .tangents = Leaves(made.carries.size())};
    if (changing.empty() || checkpoints.smooth().empty()) return result;
    // Forward values and tangents go side by side, and no state is needed.
    const auto push_forward = [loop, checkpoints, changing](const std::tuple<Leaves, Checkpoints::Forward>& others,
                                                            const Leaves& linear) {
      const Leaves& values = std::get<0>(others);
      Leaves primals;
      for (const std::size_t i : changing) primals.push_back(values[i]);
      return jvp(
                 [&](const Leaves& own) {
                   Leaves all = values;
                   for (std::size_t k = 0; k < own.size(); ++k) all[changing[k]] = own[k];
                   return checkpoints.smooth_of(loop.run(all));
                 },
                 std::tuple(primals), std::tuple(linear))
          .second;
    };
    const auto pull_back = [checkpoints, changing](const std::tuple<Leaves, Checkpoints::Forward>& others,
                                                   const Leaves& cotangents) {
      return checkpoints.reverse(std::get<0>(others), std::get<1>(others), cotangents, changing);
    };
    const Leaves made_tangents = linear_call(push_forward, pull_back, std::tuple(leaves, made), changes);
    for (std::size_t k = 0; k < made_tangents.size(); ++k) {
      result.tangents[checkpoints.smooth()[k]] = made_tangents[k];
    }
    return result;
  };
  std::any exemplar;
  return call_custom_jvp(flatten_arguments(std::tuple<Leaves>(operands)), plain, rule, exemplar, Caller::line());
}

}  // namespace shoal::detail
