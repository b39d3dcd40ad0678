// What a launch does for loops and branches: it runs the launches of their bodies, which read and write where this one
// has its values.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/profiler.h"
#include "runtime/lane.h"
#include "runtime/launch.h"

namespace shoal {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): never 0 for the numbers of the first runs, which is what
// stands outside of bodies.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + (b + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

void Launch::make_bodies() {
  for (const Step& step : schedule_.steps) {
    const auto* const work = std::get_if<ControlStep>(&step.work);
    if (work == nullptr) continue;
    std::byte* const scratch = arena(0) + work->scratch;
    std::vector<std::unique_ptr<Launch>>& bodies = bodies_[step.number];
    for (const ControlStep::Body& body : work->bodies) {
      bodies.push_back(std::unique_ptr<Launch>(new Launch(*body.schedule, scratch)));
      for (const ControlStep::Room& room : body.rooms) {
        bodies.back()->point(
            room.storage, [&](std::int32_t piece) { return scratch + room.offsets[static_cast<std::size_t>(piece)]; });
      }
    }
  }
}

// Says where the pieces of an input's or an output's storage lie.
template <class PointerAt>
void Launch::point(std::int32_t storage, PointerAt&& pointer_at) {
  for (const Schedule::Binding& binding : schedule_.bindings[static_cast<std::size_t>(storage)]) {
    pointers_[binding.pointer] = pointer_at(binding.piece) + binding.offset;
  }
}

// Messages of a run are told from all others of the launch by where it stands, not by a count: processes whose devices
// go different ways count differently.
void Launch::enter_body(const Launch& outer, const Step& step, std::int64_t run, std::optional<std::int64_t> trip) {
  outer_ = &outer;
  tag_ = outer.tag_;
  trip_ = trip ? static_cast<std::uint64_t>(*trip) + 1 : outer.trip_;
  const std::uint32_t number = std::get<ControlStep>(step.work).number;
  tag_.trip = mixed(mixed(outer.tag_.trip, number), static_cast<std::uint64_t>(run));
}

void Launch::run_body(Launch& outer, const Step& step, std::int64_t run, std::optional<std::int64_t> trip) {
  enter_body(outer, step, run, trip);
  run_steps();
  // What devices do on ways of their own is no history of all processes.
  if (std::get<ControlStep>(step.work).apart.empty()) outer.tag_.history = tag_.history;
}

// In strict mode, what follows tells the other processes which branch was taken, or how many trips a loop has made,
// where all devices should do the same.
void Launch::note_way(const ControlStep& work, std::int64_t way) {
  if (schedule_.communicator == nullptr || !work.apart.empty() || !Communicator::is_strict()) return;
  // Loops and branches keep their order then, but not their numbers: a process that is short of memory has more steps.
  tag_.history = mixed(tag_.history, static_cast<std::uint64_t>(way));
}

// Whether the device at a position has come here: in a body, that it is one of those which go this way.
bool Launch::is_on_way(std::int64_t position) const {
  for (const Launch* body = this; body != nullptr; body = body->outer_) {
    if (body->apart_.empty()) continue;
    const std::int64_t way = schedule_.graph.grid->distinct_index(position, body->apart_);
    if (!body->on_way_[static_cast<std::size_t>(way)]) return false;
  }
  return true;
}

// Whether some devices may be on another way than this.
bool Launch::may_part() const {
  for (const Launch* body = this; body != nullptr; body = body->outer_) {
    if (!body->apart_.empty()) return true;
  }
  return false;
}

// Which shards of a value that varies so belong to a device that has come here. It is the same in all processes that
// run this together, whichever of the devices are theirs.
std::vector<bool> Launch::shards_on_way(AtomSet varying) const {
  const Grid& grid = *schedule_.graph.grid;
  const bool parts = may_part();
  std::vector<bool> shards(static_cast<std::size_t>(grid.size_of(varying)), !parts);
  for (std::int64_t position = 0; parts && position < grid.num_devices(); ++position) {
    if (is_on_way(position)) shards[static_cast<std::size_t>(grid.distinct_index(position, varying))] = true;
  }
  return shards;
}

// Gives up what is under way after an error.
void Launch::abandon_exchanges() {
  under_way_.clear();
  unread_.clear();
  is_ahead_ = false;
  for (auto& [number, bodies] : bodies_) {
    for (const std::unique_ptr<Launch>& body : bodies) body->abandon_exchanges();
  }
}

// One run of a control step.
class Launch::ControlRun {
 public:
  ControlRun(Launch& launch, const Step& step, const ControlStep& work)
      : launch_(launch), step_(step), work_(work), bodies_(launch.bodies_.at(step.number)) {}

  // Its record in the profiler is one, and tells how many trips there were, or which branch was taken.
  void run(profiler::ProfileScope& event) {
    if (work_.control.loops) {
      loop();
      event.note_trips(trip_);
    } else {
      const std::vector<std::size_t> chosen = chosen_bodies();
      if (work_.control.first_argument != 0 && chosen.size() == 1)
        event.note_branch(static_cast<std::int64_t>(chosen[0]));
      if (bodies_.size() > 1) launch_.note_way(work_, static_cast<std::int64_t>(chosen[0]));
      for (std::size_t body = 0; body < bodies_.size(); ++body) {
        if (std::ranges::find(chosen, body) != chosen.end()) run_branch(body, chosen);
      }
    }
  }

  // Calls begin() as if the body came to its next trip. Returns whether there is one.
  bool in_next_trip(FunctionRef<void()> begin) {
    if (trip_ + 1 == *work_.control.trips) return false;
    Launch& body = *bodies_.back();
    const std::pair<MessageTag, std::uint64_t> now(body.tag_, body.trip_);
    body.enter_body(launch_, step_, 2 * (trip_ + 1) + 1, trip_ + 1);
    point_slices(trip_ + 1);
    begin();
    point_slices(trip_);
    std::tie(body.tag_, body.trip_) = now;
    return true;
  }

 private:
  using Way = ControlStep::Yield::Way;
  using Pointers = std::vector<std::byte*>;  // To the shards of a value; null to those that are not here.

  std::size_t arguments() const { return step_.eqn->inputs.size() - work_.control.first_argument; }
  std::size_t results() const { return step_.eqn->outputs.size(); }
  const Schedule& inside(std::size_t body) const { return *work_.bodies[body].schedule; }
  const ShardShapes& argument_shapes(std::size_t i) const {
    const Schedule& last = inside(work_.bodies.size() - 1);
    return last.shapes_of(last.graph.inputs[i]);
  }
  const ShardShapes& result_shapes(std::size_t k) const { return launch_.schedule_.shapes_of(step_.eqn->outputs[k]); }

  Pointers pointers(const Step::Operand& operand, const ShardShapes& shapes) const {
    Pointers found(static_cast<std::size_t>(shapes.count()), nullptr);
    for (std::size_t shard = 0; shard < found.size(); ++shard) {
      const auto number = static_cast<std::int64_t>(shard);
      if (shapes.is_held(number)) found[shard] = launch_.pointers_[operand.at(number)];
    }
    return found;
  }
  Pointers argument_pointers(std::size_t i) const {
    return pointers(step_.operands[work_.control.first_argument + i], argument_shapes(i));
  }
  Pointers result_pointers(std::size_t k) const {
    return pointers(step_.operands[step_.eqn->inputs.size() + k], result_shapes(k));
  }

  static void copy(const Pointers& from, const Pointers& to, const ShardShapes& shapes) {
    for (std::size_t shard = 0; shard < to.size(); ++shard) {
      const std::size_t bytes = to[shard] == nullptr ? 0 : shapes.bytes(static_cast<std::int64_t>(shard));
      if (bytes != 0 && to[shard] != from[shard]) std::memcpy(to[shard], from[shard], bytes);
    }
  }

  void point(std::size_t body, std::int32_t storage, const Pointers& where) const {
    bodies_[body]->point(storage, [&](std::int32_t piece) { return where[static_cast<std::size_t>(piece)]; });
  }

  void point_argument(std::size_t body, std::size_t i) const {
    point(body, static_cast<std::int32_t>(i), argument_pointers(i));
  }

  void point_yield(std::size_t body, std::size_t k, const Pointers& where) const {
    const ControlStep::Yield& yield = work_.bodies[body].yields[k];
    if (yield.way == Way::kMade || yield.way == Way::kInPlace) point(body, yield.storage, where);
  }

  void copy_yield(std::size_t body, std::size_t k, const Pointers& to) const {
    const ControlStep::Yield& yield = work_.bodies[body].yields[k];
    if (yield.way != Way::kCopied) return;
    const Schedule& schedule = inside(body);
    const std::size_t first = schedule.first_pointer[slot(schedule.graph.outputs[k])];
    const ShardShapes& shapes = schedule.shapes_of(schedule.graph.outputs[k]);
    for (std::size_t shard = 0; shard < to.size(); ++shard) {
      if (to[shard] == nullptr) continue;
      const std::int32_t from = yield.shard_of[shard];
      const std::size_t bytes = shapes.bytes(from);
      if (bytes != 0) {
        std::memcpy(to[shard], bodies_[body]->pointers_[first + static_cast<std::size_t>(from)], bytes);
      }
    }
  }

  // Says which ways lead through a run of a body.
  void part(std::size_t body, std::vector<bool> on_way) const {
    bodies_[body]->apart_ = work_.apart;
    bodies_[body]->on_way_ = std::move(on_way);
  }

  // ---- Branches

  // Which of the ways that devices go those of a shard go.
  std::size_t way_of(const ShardShapes& shapes, std::size_t shard) const {
    const std::int64_t position = shapes.position_of(static_cast<std::int64_t>(shard));
    return static_cast<std::size_t>(shapes.grid->distinct_index(position, work_.apart));
  }

  // The body that the devices of each way take; none where they are of other processes. Devices that have not come here
  // take the body of one that has.
  std::vector<std::size_t> chosen_bodies() const {
    if (work_.control.first_argument == 0) return {0};
    const Pointers indices = pointers(step_.operands[0], launch_.schedule_.shapes_of(step_.eqn->inputs[0]));
    const std::vector<bool> here = launch_.shards_on_way(work_.apart);
    std::vector<std::size_t> chosen(indices.size(), bodies_.size());
    std::size_t taken = bodies_.size();
    for (std::size_t way = 0; way < chosen.size(); ++way) {
      if (indices[way] == nullptr || !here[way]) continue;
      std::int32_t index = 0;
      std::memcpy(&index, indices[way], sizeof index);
      chosen[way] = static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, std::ssize(work_.bodies) - 1));
      taken = std::min(taken, chosen[way]);
    }
    for (std::size_t way = 0; way < chosen.size(); ++way) {
      if (indices[way] != nullptr && !here[way]) chosen[way] = taken;
    }
    return chosen;
  }

  void run_branch(std::size_t body, const std::vector<std::size_t>& chosen) const {
    for (std::size_t i = 0; i < arguments(); ++i) point_argument(body, i);
    for (std::size_t k = 0; k < results(); ++k) {
      const Pointers to = result_pointers(k);
      point_yield(body, k, to);
      if (work_.places[k] < 0) continue;
      // What takes the place of an argument is there already, or is brought there.
      const auto argument = static_cast<std::size_t>(work_.places[k]);
      copy(argument_pointers(argument), to, result_shapes(k));
      if (work_.bodies[body].yields[k].way == Way::kInPlace) point(body, work_.places[k], to);
    }
    if (!work_.apart.empty()) {
      std::vector<bool> on_way(chosen.size());
      for (std::size_t way = 0; way < chosen.size(); ++way) on_way[way] = chosen[way] == body;
      part(body, std::move(on_way));
    }
    bodies_[body]->run_body(launch_, step_, static_cast<std::int64_t>(body));
    for (std::size_t k = 0; k < results(); ++k) {
      Pointers to = result_pointers(k);
      // Devices that have chosen another branch keep what that gives.
      for (std::size_t shard = 0; shard < to.size() && chosen.size() > 1; ++shard) {
        if (chosen[way_of(result_shapes(k), shard)] != body) to[shard] = nullptr;
      }
      copy_yield(body, k, to);
    }
  }

  // ---- Loops

  // An operand of which each trip reads a slice, or a result of which it makes one.
  struct Stack {
    Pointers shards;
    std::vector<std::size_t> slice_bytes;
    Pointers slice = {};  // That of the trip at hand.

    void move_to(std::int64_t index) {
      for (std::size_t shard = 0; shard < shards.size(); ++shard) {
        if (shards[shard] != nullptr)
          slice[shard] = shards[shard] + static_cast<std::size_t>(index) * slice_bytes[shard];
      }
    }
  };

  Stack stack_of(Pointers shards, const ShardShapes& whole) const {
    Stack stack{.shards = std::move(shards), .slice_bytes = {}};
    const auto slices = static_cast<std::size_t>(std::max<std::int64_t>(1, *work_.control.trips));
    for (std::size_t shard = 0; shard < stack.shards.size(); ++shard) {
      stack.slice_bytes.push_back(whole.bytes(static_cast<std::int64_t>(shard)) / slices);
    }
    stack.slice.resize(stack.shards.size(), nullptr);
    return stack;
  }

  struct Carry {
    Pointers now;  // Where it lies.
    Pointers result;
    Pointers spare;      // If it has two buffers.
    Pointers next = {};  // Where the trip at hand puts its next value.
    // Those among which buffers go round, itself too, if some of them is passed.
    std::vector<std::size_t> circle = {};
  };

  // Joins the carries of which one takes the value of another.
  void find_circles() {
    const auto& yields = work_.bodies.back().yields;
    std::vector<std::size_t> first(carries_.size());  // Of each, one that stands for all of its circle.
    std::iota(first.begin(), first.end(), std::size_t{0});
    std::vector<bool> goes_round(carries_.size(), false);
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      if (yields[k].way != Way::kPassed) continue;
      const auto from = static_cast<std::size_t>(yields[k].storage);
      SHOAL_CHECK(yields[from].way != Way::kInPlace, "what is yielded is not written over");
      std::ranges::replace(first, std::size_t{first[from]}, std::size_t{first[k]});
      goes_round[k] = goes_round[from] = true;
    }
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      for (std::size_t other = 0; goes_round[k] && other < carries_.size(); ++other) {
        if (first[other] == first[k]) carries_[k].circle.push_back(other);
      }
    }
  }

  void begin() {
    for (std::size_t k = 0; k < work_.control.carries; ++k) {
      const ControlStep::Yield& yield = work_.bodies.back().yields[k];
      Carry& carry =
          carries_.emplace_back(Carry{.now = argument_pointers(k), .result = result_pointers(k), .spare = {}});
      if (yield.way == Way::kInPlace) {
        copy(carry.now, carry.result, argument_shapes(k));
        carry.now = carry.result;
      } else if (yield.way != Way::kStays && yield.way != Way::kPassed) {
        carry.spare = carry.result;
        for (std::size_t shard = 0; shard < carry.spare.size(); ++shard) {
          if (carry.spare[shard] == nullptr) continue;
          carry.spare[shard] = launch_.arena(0) + work_.scratch + yield.spare[shard];
        }
      }
    }
    find_circles();
    for (std::size_t i = work_.control.carries; i < work_.control.carries + work_.control.slices; ++i) {
      const ValueId operand = step_.eqn->inputs[work_.control.first_argument + i];
      slices_.push_back(stack_of(argument_pointers(i), launch_.schedule_.shapes_of(operand)));
    }
    for (std::size_t k = work_.control.carries; k < results(); ++k) {
      stacks_.push_back(stack_of(result_pointers(k), result_shapes(k)));
    }
    for (std::size_t body = 0; body < bodies_.size(); ++body) {
      for (std::size_t i = work_.control.carries + work_.control.slices; i < arguments(); ++i) {
        point_argument(body, i);
      }
    }
  }

  // Whether there is another trip for any devices here; going_ says for which.
  bool goes_on(std::int64_t trip) {
    if (!work_.control.asks) return trip < *work_.control.trips;
    for (std::size_t k = 0; k < carries_.size(); ++k) point(0, static_cast<std::int32_t>(k), carries_[k].now);
    if (trip == 0) going_ = launch_.shards_on_way(work_.apart);
    if (!work_.apart.empty()) part(0, going_);
    bodies_[0]->run_body(launch_, step_, 2 * trip, trip);
    const Schedule& schedule = inside(0);
    const ValueId answer = schedule.graph.outputs[0];
    const ShardShapes& shapes = schedule.shapes_of(answer);
    const std::byte* const* answers = bodies_[0]->pointers_.data() + schedule.first_pointer[slot(answer)];
    // Who has not come here, or has ended, is not asked.
    for (std::size_t way = 0; way < going_.size(); ++way) {
      bool yes = false;
      if (going_[way] && shapes.is_held(static_cast<std::int64_t>(way))) std::memcpy(&yes, answers[way], sizeof yes);
      going_[way] = yes;
    }
    if (!work_.apart.empty()) part(bodies_.size() - 1, going_);
    return std::ranges::find(going_, true) != going_.end();
  }

  // Where a trip puts the next values of carries. What is passed stays where it is. What is made goes where none of the
  // values lies that the trip reads: there are as many buffers as carries of the circle, and one for each that is made.
  void aim_all(std::int64_t trip) {
    const auto& yields = work_.bodies.back().yields;
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      Carry& carry = carries_[k];
      if (carry.circle.empty()) {
        aim(carry, trip);
      } else if (yields[k].way == Way::kPassed) {
        carry.next = carries_[static_cast<std::size_t>(yields[k].storage)].now;
      } else {
        carry.next = carry.now;
      }
    }
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      Carry& carry = carries_[k];
      const bool is_made = yields[k].way == Way::kMade || yields[k].way == Way::kCopied;
      if (carry.circle.empty() || !is_made) continue;
      for (std::size_t shard = 0; shard < carry.next.size(); ++shard) {
        if (result_shapes(k).bytes(static_cast<std::int64_t>(shard)) == 0)
          continue;  // Those have no place of their own.
        if (carry.next[shard] != nullptr) carry.next[shard] = free_buffer(carry, shard);
      }
    }
  }

  std::byte* free_buffer(const Carry& carry, std::size_t shard) const {
    const auto is_free = [&](const std::byte* buffer) {
      return std::ranges::none_of(carry.circle, [&](std::size_t other) {
        return carries_[other].now[shard] == buffer || carries_[other].next[shard] == buffer;
      });
    };
    for (std::size_t other : carry.circle) {
      const Carry& lender = carries_[other];
      if (is_free(lender.result[shard])) return lender.result[shard];
      if (!lender.spare.empty() && is_free(lender.spare[shard])) return lender.spare[shard];
    }
    throw InternalError("no buffer is left for a carry");
  }

  // The last values go to the results: first to those in which no other value lies any more. Where values have changed
  // places, one of them makes room.
  void settle_circle(const std::vector<std::size_t>& circle) {
    for (std::size_t shard = 0; shard < carries_[circle[0]].now.size(); ++shard) {
      const std::size_t bytes = result_shapes(circle[0]).bytes(static_cast<std::int64_t>(shard));
      std::vector<std::size_t> left;
      for (std::size_t k : circle) {
        if (bytes != 0 && carries_[k].now[shard] != carries_[k].result[shard]) left.push_back(k);
      }
      std::vector<std::byte> aside;
      while (!left.empty()) {
        const auto is_in_the_way = [&](std::size_t k) {
          return std::ranges::any_of(left, [&](std::size_t other) {
            return other != k && carries_[other].now[shard] == carries_[k].result[shard];
          });
        };
        const auto next = std::ranges::find_if_not(left, is_in_the_way);
        if (next != left.end()) {
          std::memcpy(carries_[*next].result[shard], carries_[*next].now[shard], bytes);
          carries_[*next].now[shard] = carries_[*next].result[shard];
          left.erase(next);
          continue;
        }
        // All that is left goes round in circles. What lay where the first one's result is moves out of the way.
        std::byte* const wanted = carries_[left[0]].result[shard];
        aside.assign(wanted, wanted + bytes);
        for (std::size_t k : left) {
          if (carries_[k].now[shard] == wanted) carries_[k].now[shard] = aside.data();
        }
      }
    }
  }

  // Where a trip puts the next value of a carry: with two buffers, where the present one is not. The last trip, if it
  // is known which that is, writes to the result.
  void aim(Carry& carry, std::int64_t trip) const {
    carry.next = carry.result;
    if (carry.spare.empty()) return;
    if (work_.control.trips) {
      if ((*work_.control.trips - 1 - trip) % 2 != 0) carry.next = carry.spare;
      return;
    }
    for (std::size_t shard = 0; shard < carry.next.size(); ++shard) {
      if (carry.now[shard] == carry.result[shard]) carry.next[shard] = carry.spare[shard];
    }
  }

  // A carry after a trip. Devices that did not go on keep theirs.
  void take(Carry& carry, std::size_t k) const {
    for (std::size_t shard = 0; shard < carry.next.size(); ++shard) {
      if (work_.apart.empty() || going_[way_of(argument_shapes(k), shard)]) carry.now[shard] = carry.next[shard];
    }
  }

  std::int64_t index_of(std::int64_t trip) const {
    return work_.control.reverse ? *work_.control.trips - 1 - trip : trip;
  }

  void point_slices(std::int64_t trip) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      slices_[i].move_to(index_of(trip));
      point(bodies_.size() - 1, static_cast<std::int32_t>(work_.control.carries + i), slices_[i].slice);
    }
  }

  void loop() {
    const std::size_t body = bodies_.size() - 1;
    begin();
    bodies_[body]->loop_ = this;
    for (trip_ = 0; goes_on(trip_); ++trip_) {
      Lane::check_loop();
      aim_all(trip_);
      for (std::size_t k = 0; k < carries_.size(); ++k) {
        point(body, static_cast<std::int32_t>(k), carries_[k].now);
        point_yield(body, k, carries_[k].next);
      }
      point_slices(trip_);
      for (std::size_t i = 0; i < stacks_.size(); ++i) {
        stacks_[i].move_to(index_of(trip_));
        point_yield(body, work_.control.carries + i, stacks_[i].slice);
      }
      bodies_[body]->run_body(launch_, step_, 2 * trip_ + 1, trip_);
      for (std::size_t k = 0; k < carries_.size(); ++k) copy_yield(body, k, carries_[k].next);
      for (std::size_t i = 0; i < stacks_.size(); ++i) copy_yield(body, work_.control.carries + i, stacks_[i].slice);
      for (std::size_t k = 0; k < carries_.size(); ++k) {
        if (work_.bodies[body].yields[k].way != Way::kStays) take(carries_[k], k);
      }
    }
    if (work_.control.asks) launch_.note_way(work_, trip_);
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      const std::vector<std::size_t>& circle = carries_[k].circle;
      if (circle.empty()) copy(carries_[k].now, carries_[k].result, result_shapes(k));
      if (!circle.empty() && circle[0] == k) settle_circle(circle);
    }
  }

  Launch& launch_;
  const Step& step_;
  const ControlStep& work_;
  const std::vector<std::unique_ptr<Launch>>& bodies_;
  std::vector<Carry> carries_;
  std::vector<Stack> slices_;
  std::vector<Stack> stacks_;
  std::vector<bool> going_;
  std::int64_t trip_ = 0;
};

// Begins what the next trip exchanges first, which needs nothing of this one.
void Launch::start_trip_ahead() {
  is_ahead_ = loop_->in_next_trip([&] {
    for (const std::int32_t number : schedule_.trip_ahead) start(schedule_.steps[static_cast<std::size_t>(number)]);
  });
}

void Launch::run_control(const Step& step, const ControlStep& work, profiler::ProfileScope& event) {
  if (!work.whole) return ControlRun(*this, step, work).run(event);
  const std::int64_t trips = run_whole(step, work.control, *work.whole);
  event.note_trips(trips);
  if (work.control.asks) note_way(work, trips);
}

// A loop that a kernel runs whole. From time to time it comes back, to see whether it is to end. Returns the most trips
// of a shard.
std::int64_t Launch::run_whole(const Step& step, const Control& control, const ControlStep::Whole& whole) {
  using Operand = RepeatedKernel::Operand;
  const std::size_t arguments = step.eqn->inputs.size();
  const std::size_t results = step.eqn->outputs.size();
  const std::int64_t trips = control.trips.value_or(std::numeric_limits<std::int64_t>::max());
  const std::size_t count = arguments + results - control.carries;
  const auto shards = static_cast<std::size_t>(whole.shards);
  std::vector<Operand> operands(shards * count);
  // Carries that shards share, an element of each.
  constexpr std::size_t kElement = 16;
  std::vector<std::byte> own(shards * control.carries * kElement);
  const auto sliced = [&](std::byte* first, std::size_t bytes) {
    const auto step_bytes = static_cast<std::int64_t>(bytes);
    if (!control.reverse) return Operand{first, step_bytes};
    return Operand{first + std::max<std::int64_t>(0, *control.trips - 1) * step_bytes, -step_bytes};
  };
  const auto result_at = [&](std::size_t k, std::size_t shard) {
    return pointers_[step.operands[arguments + k].at(whole.number_of(static_cast<std::int64_t>(shard)))];
  };
  for (std::size_t shard = 0; shard < shards; ++shard) {
    Operand* const of_shard = operands.data() + shard * count;
    for (std::size_t i = 0; i < arguments; ++i) {
      std::byte* const data = pointers_[step.operands[i].at(whole.number_of(static_cast<std::int64_t>(shard)))];
      if (control.is_slice(i)) {
        of_shard[i] = sliced(data, whole.bytes[i]);
      } else if (i >= control.carries) {
        of_shard[i] = {data, 0};
      } else {
        std::byte* const carry =
            whole.shared[i] ? own.data() + (shard * control.carries + i) * kElement : result_at(i, shard);
        if (carry != data) std::memcpy(carry, data, whole.bytes[i]);
        of_shard[i] = {carry, 0};
      }
    }
    for (std::size_t k = control.carries; k < results; ++k) {
      of_shard[arguments + k - control.carries] = sliced(result_at(k, shard), whole.bytes[arguments + k]);
    }
  }
  std::vector<std::uint8_t> ended(shards, 0);
  if (control.asks && may_part()) {
    // Devices that have not come here may never end: whether they go on is not asked.
    const std::vector<bool> here = shards_on_way(whole.varying);
    for (std::size_t shard = 0; shard < shards; ++shard) {
      const std::int64_t number = whole.number_of(static_cast<std::int64_t>(shard));
      ended[shard] = here[static_cast<std::size_t>(number)] ? 0 : 1;
    }
  }
  std::vector<std::int64_t> made(shards, 0);
  const auto is_to_end = Lane::loop_check();
  const auto run_shards = [&](std::int64_t begin, std::int64_t end, std::int64_t now) {
    for (std::int64_t shard = begin; shard < end && !is_to_end(); ++shard) {
      std::uint8_t& has_ended = ended[static_cast<std::size_t>(shard)];
      if (has_ended != 0) continue;
      const std::span<Operand> of_shard(operands.data() + static_cast<std::size_t>(shard) * count, count);
      const std::int64_t trips_now = whole.kernel->run(of_shard, now, is_to_end);
      made[static_cast<std::size_t>(shard)] += trips_now;
      if (trips_now < now) has_ended = 1;
      for (Operand& operand : of_shard) operand.data += operand.step * now;
    }
  };
  for (std::int64_t done = 0; done < trips && std::ranges::count(ended, 0) != 0;) {
    Lane::check_loop();
    const std::int64_t now = std::min(trips - done, whole.kernel->trips_at_once());
    if (whole.shards == 1 || step.bytes * static_cast<std::size_t>(now) <= kInlineKernelBytes) {
      run_shards(0, whole.shards, now);
    } else {
      for_each_range(whole.shards, kRangesPerThread,
                     [&](std::int64_t begin, std::int64_t end) { run_shards(begin, end, now); });
    }
    done += now;
    Lane::check_loop();  // What was told to end within a trip has left something arbitrary.
  }
  for (std::size_t i = 0; i < control.carries; ++i) {
    for (std::size_t shard = 0; shard < shards && whole.shared[i]; ++shard) {
      std::memcpy(result_at(i, shard), own.data() + (shard * control.carries + i) * kElement, whole.bytes[i]);
    }
  }
  return made.empty() ? 0 : std::ranges::max(made);
}

}  // namespace shoal
