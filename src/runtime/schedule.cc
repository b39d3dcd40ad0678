#include "runtime/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <ranges>
#include <span>

#include "base/check.h"
#include "comm/collectives/table.h"
#include "core/this_process.h"
#include "ir/bodies.h"
#include "ir/eqn_classes.h"
#include "linalg/table.h"
#include "ops/collective.h"
#include "passes/update_last.h"
#include "runtime/bind_plan.h"
#include "runtime/byte_counts.h"
#include "runtime/step_exchanges.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// The most scratch memory of a step; where shards together need more, fewer run at a time.
constexpr std::size_t kMostScratch = std::size_t{256} << 20;
constexpr std::size_t kScratchAlignment = 64;

class Scheduler {
 public:
  Scheduler(GraphPtr graph, const Backend& backend, const Digest& digest) : schedule_(std::move(graph)) {
    schedule_.backend = &backend;
    schedule_.digest = digest;
    if (!grid().is_local()) schedule_.communicator = &Communicator::of(grid().processes());
  }

  // Of a body of a control equation, which processes of different parties run differently often.
  Scheduler(GraphPtr body, const Scheduler& outer, std::vector<int> parties)
      : Scheduler(std::move(body), *outer.schedule_.backend, outer.schedule_.digest) {
    schedule_.is_body = true;
    parties_ = std::move(parties);
  }

  Schedule schedule(const std::vector<Reuse>& reuses) {
    make_steps();
    const std::vector<std::int32_t> starts = find_starts(graph_, steps_);
    schedule_.plan = plan_memory(graph_, shapes_, facts_of_steps(starts), reuses, schedule_.is_body);
    bind_plan(schedule_);
    settle_starts(steps_, starts);
    schedule_.tallies = std::make_unique<profiler::Tally[]>(steps_.size() + 1);
    return std::move(schedule_);
  }

 private:
  const Grid& grid() const { return *graph_.grid; }
  bool is_local() const { return schedule_.communicator == nullptr; }
  const ShardShapes& shapes_of(ValueId id) const { return shapes_[slot(id)]; }

  // Shapes follow from the graph, and for collectives from those of their operands: each step is made when those of its
  // operands are known.
  void make_steps() {
    shapes_.resize(graph_.values.size());
    schedule_.first_pointer.resize(graph_.values.size());
    steps_.resize(graph_.eqns.size());
    for (ValueId id : graph_.inputs) settle_shapes(id, shapes_of_graph(id));
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Step& step = steps_[i];
      step.eqn = &graph_.eqns[i];
      step.number = static_cast<std::int32_t>(i);
      switch (step.eqn->op->op_class) {
        case OpClass::kCompute:
          make_kernel(step, step.work.emplace<KernelStep>());
          break;
        case OpClass::kCollective:
          make_collective(step, step.work.emplace<CollectiveStep>());
          break;
        case OpClass::kEffect:
          make_effect(step, step.work.emplace<EffectStep>());
          break;
        case OpClass::kControl:
          make_control(step, step.work.emplace<ControlStep>());
          break;
        default:
          SHOAL_CHECK(false, "a partitioned graph has compute ops, collectives, effects and control only");
      }
    }
  }

  void settle_shapes(ValueId id, ShardShapes shapes) {
    schedule_.first_pointer[slot(id)] = schedule_.num_pointers;
    schedule_.num_pointers += static_cast<std::size_t>(shapes.count());
    shapes_[slot(id)] = std::move(shapes);
  }

  ShardShapes shapes_of_graph(ValueId id) const {
    const Value& value = graph_.value(id);
    ShardShapes shapes{.grid = graph_.grid, .varying = value.varying, .dtype = value.type.dtype, .shapes = {}};
    if (!value.global) {
      shapes.shapes.push_back(value.type.shape);
      return shapes;
    }
    const Shape& whole = value.global->shape;
    const Placement& placement = value.global->placement;
    const bool even = is_even(grid(), whole, placement.dims);
    for (std::int64_t shard = 0; shard < (even ? 1 : shapes.count()); ++shard) {
      shapes.shapes.push_back(local_shape(grid(), whole, placement, shapes.position_of(shard)));
    }
    return shapes;
  }

  // Adds a value as a step sees it whose shards vary over `varying`.
  void add_operand(Step& step, ValueId id, AtomSet varying) {
    Step::Operand& operand =
        step.operands.emplace_back(Step::Operand{.first = schedule_.first_pointer[slot(id)], .shard_of = nullptr});
    const AtomSet has = shapes_of(id).varying;
    if (has == varying) return;
    std::vector<std::int32_t>& map = schedule_.shard_maps[{varying.bits(), has.bits()}];
    if (map.empty()) {
      for (std::int64_t shard = 0; shard < grid().size_of(varying); ++shard) {
        map.push_back(static_cast<std::int32_t>(shapes_of(id).shard_at(grid().representative(varying, shard))));
      }
    }
    operand.shard_of = map.data();
  }

  // What steps of equations that are alike have in common.
  struct KnownKernel {
    std::shared_ptr<const Kernel> kernel;
    const Step* first = nullptr;  // The first step of them, once it is made.
  };

  KnownKernel& known_kernel_of(const Eqn& eqn) {
    std::vector<std::uint32_t> key = {classes_.of(eqn)};
    for (ValueId id : eqn.inputs) {  // A value may be several operands.
      key.push_back(static_cast<std::uint32_t>(std::ranges::find(eqn.inputs, id) - eqn.inputs.begin()));
    }
    KnownKernel& known = kernels_[std::move(key)];
    if (known.kernel == nullptr) known.kernel = schedule_.backend->compile(graph_, eqn);
    return known;
  }

  // Whether the shards of operands and results have equal shapes.
  bool has_shapes_of(const Eqn& one, const Eqn& other) const {
    const auto alike = [&](ValueId a, ValueId b) { return shapes_of(a).shapes == shapes_of(b).shapes; };
    return std::ranges::equal(one.inputs, other.inputs, alike) && std::ranges::equal(one.outputs, other.outputs, alike);
  }

  // Divides the work of a kernel. What is divided alike looks at its data through the same views, one after the other.
  void make_kernel(Step& step, KernelStep& work) {
    const Eqn& eqn = *step.eqn;
    for (ValueId id : eqn.outputs) settle_shapes(id, shapes_of_graph(id));
    KnownKernel& known = known_kernel_of(eqn);
    const AtomSet varying = shapes_of(eqn.outputs[0]).varying;
    step.operands.reserve(eqn.inputs.size() + eqn.outputs.size());
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) add_operand(step, id, varying);
    }
    if (known.first != nullptr && has_shapes_of(*known.first->eqn, eqn)) {
      work = std::get<KernelStep>(known.first->work);
      step.bytes = known.first->bytes;
      return;
    }
    known.first = &step;
    work.kernel = known.kernel;
    if (const auto copied = work.kernel->copied_input()) work.copied = static_cast<std::int32_t>(*copied);
    const ShardShapes& result = shapes_of(eqn.outputs[0]);
    work.shards = result.count_held();
    if (!is_local()) work.held = grid().held(result.varying).shards.data();
    bool equal = !eqn.op->sees_start;
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) equal = equal && shapes_of(id).even();
    }
    std::map<std::vector<std::int64_t>, std::int32_t> variants;  // By the numbers in their views.
    for (std::int64_t shard = 0; shard < (equal ? 1 : work.shards); ++shard) {
      const std::int64_t position = result.position_of(work.held == nullptr ? shard : work.held[shard]);
      std::vector<TensorView> views = views_at(eqn, position);
      std::vector<std::int64_t> numbers;
      for (const TensorView& view : views) {
        numbers.insert(numbers.end(), view.shape.begin(), view.shape.end());
        numbers.insert(numbers.end(), view.start.begin(), view.start.end());
      }
      const auto next = static_cast<std::int32_t>(work.variants.size());
      const auto [found, is_new] = variants.try_emplace(std::move(numbers), next);
      work.variant_of.push_back(found->second);
      if (is_new) add_variant(step, work, std::move(views));
    }
    if (work.variants.size() == 1) work.variant_of.clear();
    step.bytes *= static_cast<std::size_t>(work.shards);
    work.wave = work.shards;
    if (work.scratch_stride != 0) {
      const auto most = static_cast<std::int64_t>(std::max<std::size_t>(1, kMostScratch / work.scratch_stride));
      work.wave = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, work.shards));
    }
  }

  // The operands and results of an equation on the shard of the device at `position`, without data.
  std::vector<TensorView> views_at(const Eqn& eqn, std::int64_t position) const {
    std::vector<TensorView> views;
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) {
        const ShardShapes& shapes = shapes_of(id);
        const Value& value = graph_.value(id);
        TensorView& view = views.emplace_back(TensorView{shapes.dtype, shapes.shape_at(position), nullptr, {}});
        if (!eqn.op->sees_start || !value.global) continue;
        view.start = shard_start(grid(), value.global->shape, value.global->placement, position);
      }
    }
    return views;
  }

  void add_variant(Step& step, KernelStep& kernel, std::vector<TensorView> views) {
    const std::span<const TensorView> all(views);
    const std::size_t inputs = step.eqn->inputs.size();
    const Work work = kernel.kernel->work(all.first(inputs), all.subspan(inputs));
    kernel.variants.push_back({.work = work, .first_view = schedule_.views.size()});
    kernel.tiles = std::max(kernel.tiles, work.tiles);
    kernel.merges |= work.merges;
    kernel.finishes_long |= work.finishes_long;
    const std::size_t scratch = (work.scratch_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    kernel.scratch_stride = std::max(kernel.scratch_stride, scratch);
    std::size_t bytes = 0;
    for (const TensorView& view : views) {
      bytes += static_cast<std::size_t>(num_elements(view.shape)) * size_of(view.dtype);
    }
    step.bytes = std::max(step.bytes, bytes);
    std::ranges::move(views, std::back_inserter(schedule_.views));
  }

  void make_collective(Step& step, CollectiveStep& work) {
    const Eqn& eqn = *step.eqn;
    const CollectiveFacts& facts = *eqn.op->collective;
    work.collective = facts.solves     ? linalg::make_solver(graph_, eqn, shapes_)
                      : facts.computes ? schedule_.backend->compile_collective(graph_, eqn, shapes_)
                                       : collectives::make_collective(graph_, eqn, shapes_);
    const collectives::Collective& collective = *work.collective;
    step.bytes = collective.bytes();
    settle_shapes(eqn.outputs[0], collective.result());
    for (std::size_t i = 1; i < eqn.outputs.size(); ++i) {
      settle_shapes(eqn.outputs[i], collective.more_results()[i - 1]);
    }
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) add_operand(step, id, shapes_of(id).varying);
    }
    work.extras = schedule_.num_pointers;
    schedule_.num_pointers += collective.extras().size();
    if (!is_local()) work.exchanges.rounds = exchanges_of_collective(graph_, eqn, collective, shapes_, parties_);
    if (!exchanges_nothing(graph_, eqn)) number(work.exchanges);
    ++schedule_.collectives;
  }

  void make_effect(Step& step, EffectStep& work) {
    const Eqn& eqn = *step.eqn;
    work.calls = positions_of_calls(eqn);
    for (ValueId id : eqn.outputs) settle_shapes(id, shapes_of_graph(id));
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) add_operand(step, id, shapes_of(id).varying);
    }
    if (!is_local()) {
      work.exchanges.rounds.push_back(exchange_of_operands(graph_, eqn, work.calls, shapes_, parties_));
      if (!eqn.outputs.empty()) {
        work.exchanges.rounds.push_back(exchange_of_results(graph_, eqn, work.calls, shapes_, parties_));
      }
      add_given(step, work);
    }
    number(work.exchanges);
  }

  // One for each device along the manual axes, in the order of the devices; outside of such regions one.
  std::vector<std::int64_t> positions_of_calls(const Eqn& eqn) const {
    const AtomSet manual(grid().atoms_of(eqn.attrs.get<std::vector<std::string>>("axes")));
    std::vector<std::int64_t> positions;
    for (std::int64_t call = 0; call < grid().size_of(manual); ++call) {
      positions.push_back(grid().representative(manual, call));
    }
    if (!eqn.attrs.contains("device")) return positions;
    const auto device = eqn.attrs.get<std::int64_t>("device");
    const auto found = std::ranges::find(grid().devices(), device, &Device::id);
    if (found == grid().devices().end()) {
      throw InvalidArgument(
          fmt::format("{}: device {} is to make the call, but the program runs on devices {}", eqn.op->name, device,
                      fmt::join(grid().devices() | std::views::transform(&Device::id), ", ")),
          eqn.where);
    }
    return {found - grid().devices().begin()};
  }

  void add_given(const Step& step, EffectStep& work) const {
    const std::size_t inputs = step.eqn->inputs.size();
    for (const std::int64_t position : work.calls) {
      if (grid().process_of(position) == this_process()) continue;
      for (std::size_t i = 0; i < step.eqn->outputs.size(); ++i) {
        const ShardShapes& shapes = shapes_of(step.eqn->outputs[i]);
        const std::int64_t shard = shapes.shard_at(position);
        if (!shapes.is_held(shard)) continue;
        work.given.push_back({.pointer = step.operands[inputs + i].at(shard), .bytes = shapes.bytes(shard)});
      }
    }
  }

  // ---- Control

  void make_control(Step& step, ControlStep& work) {
    const Eqn& eqn = *step.eqn;
    work.control = eqn.op->control(eqn.attrs);
    for (ValueId id : eqn.outputs) settle_shapes(id, shapes_of_graph(id));
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) step.bytes += shapes_of(id).bytes(0);
    }
    const auto bodies = bodies_of(eqn);
    for (std::size_t i = 0; i < work.control.first_argument; ++i) {
      work.apart = work.apart | shapes_of(eqn.inputs[i]).varying;
    }
    if (work.control.asks) work.apart = bodies.front()->value(bodies.front()->outputs[0]).varying;
    if (make_whole(step, work)) return;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const bool is_argument = i >= work.control.first_argument;
      const Graph& last = *bodies.back();
      add_operand(step, eqn.inputs[i],
                  is_argument ? last.value(last.inputs[i - work.control.first_argument]).varying
                              : shapes_of(eqn.inputs[i]).varying);
    }
    for (ValueId id : eqn.outputs) add_operand(step, id, shapes_of(id).varying);
    settle_places(eqn, work, bodies);
    std::size_t arena = 0;
    const bool parts = !work.apart.empty() && !is_local();
    const std::vector<int> parties = parts ? parties_within(grid(), parties_, work.apart) : parties_;
    const auto schedule_bodies = [&] {
      std::vector<Reuse> reuses;
      for (std::size_t k = 0; work.apart.empty() && k < work.places.size(); ++k) {
        if (work.places[k] >= 0) reuses.push_back({.input = static_cast<std::size_t>(work.places[k]), .output = k});
      }
      std::vector<Schedule> made;
      for (const Graph* body : bodies) {
        const bool answers = work.control.asks && body == bodies.front();
        made.push_back(Scheduler(std::make_shared<const Graph>(*body), *this, parties)
                           .schedule(answers ? std::vector<Reuse>() : reuses));
      }
      return made;
    };
    std::vector<Schedule> schedules = schedule_bodies();
    while (!work.control.loops && drop_places(eqn, work, schedules)) schedules = schedule_bodies();
    for (Schedule& inside : schedules) {
      if (work.control.loops) settle_trips_ahead(inside, work.control);
      const auto made = std::make_shared<const Schedule>(std::move(inside));
      arena = std::max(arena, made->plan.arena_bytes[0]);
      work.scratch_bytes_of_shard = std::max(work.scratch_bytes_of_shard, made->plan.use.temp);
      work.exchanges = work.exchanges || made->exchanges;
      work.bodies.push_back({.schedule = made, .yields = {}, .rooms = {}});
    }
    schedule_.exchanges = schedule_.exchanges || work.exchanges;
    if (work.exchanges) work.number = ++num_exchanges_;
    work.scratch_bytes = arena;
    for (ControlStep::Body& body : work.bodies) {
      const bool answers = work.control.asks && &body == &work.bodies.front();
      settle_yields(eqn, work, body, answers);
    }
  }

  // The arguments whose places results might take. A result of branches takes that of the argument which each of them
  // gives as it is, or begins to update.
  void settle_places(const Eqn& eqn, ControlStep& work, std::span<const Graph* const> bodies) {
    work.places.assign(eqn.outputs.size(), -1);
    if (work.control.loops) {
      std::iota(work.places.begin(), work.places.begin() + static_cast<std::ptrdiff_t>(work.control.carries), 0);
      return;
    }
    if (!work.apart.empty()) return;
    for (std::size_t k = 0; k < work.places.size(); ++k) {
      const std::int32_t argument = updated_argument(*bodies[0], bodies[0]->outputs[k]);
      const bool is_taken = std::ranges::count(work.places, argument) != 0;
      const auto begins_there = [&](const Graph* body) {
        return updated_argument(*body, body->outputs[k]) == argument;
      };
      if (argument < 0 || is_taken || !std::ranges::all_of(bodies, begins_there)) continue;
      const ValueId operand = eqn.inputs[work.control.first_argument + static_cast<std::size_t>(argument)];
      if (shapes_of(operand).varying == shapes_of(eqn.outputs[k]).varying) work.places[k] = argument;
    }
  }

  // Gives up the places that a branch does not keep to: it must leave what is there, or update it. Other results are
  // written to memory of their own, so that nothing has to be copied first. Returns whether there were any.
  bool drop_places(const Eqn& eqn, ControlStep& work, std::span<const Schedule> schedules) const {
    bool any = false;
    for (std::size_t k = 0; k < work.places.size(); ++k) {
      const std::int32_t argument = work.places[k];
      if (argument < 0) continue;
      const bool kept = std::ranges::all_of(schedules, [&](const Schedule& inside) {
        const MemoryPlan::Storage* storage = whole_storage(inside, k, shapes_of(eqn.outputs[k]));
        if (storage == nullptr) return false;
        if (storage->kind == MemoryPlan::Kind::kInput) return storage->input == argument;
        return storage->donor == argument && updates(inside, inside.graph.outputs[k]);
      });
      if (kept) continue;
      work.places[k] = -1;
      any = true;
    }
    return any;
  }

  // Whether the step that makes a value changes a part of another one.
  static bool updates(const Schedule& inside, ValueId id) {
    const auto step = std::ranges::find_if(
        inside.steps, [&](const Step& one) { return std::ranges::count(one.eqn->outputs, id) != 0; });
    if (step == inside.steps.end()) return false;
    if (const auto* const kernel = std::get_if<KernelStep>(&step->work))
      return kernel->kernel->copied_input().has_value();
    return std::holds_alternative<ControlStep>(step->work);
  }

  // The storage of an output, if it has the shards of the result, each at the beginning of its piece; else null.
  static const MemoryPlan::Storage* whole_storage(const Schedule& inside, std::size_t k, const ShardShapes& result) {
    const ValueId id = inside.graph.outputs[k];
    const ShardShapes& shapes = inside.shapes_of(id);
    const std::vector<MemoryPlan::Place>& places = inside.plan.places[slot(id)];
    const MemoryPlan::Storage& storage = inside.plan.storage(places[0]);
    bool is_whole = shapes.varying == result.varying && storage.pieces == shapes.count();
    for (std::size_t piece = 0; piece < places.size(); ++piece) {
      is_whole = is_whole && places[piece].storage == places[0].storage && places[piece].offset == 0 &&
                 places[piece].piece == static_cast<std::int32_t>(piece);
    }
    return is_whole ? &storage : nullptr;
  }

  // Whether other processes are to be told which ways a run of the body takes: Launch::note_way does that.
  bool tells_ways_within(const Graph& body) const {
    const auto chooses = [](const Eqn& eqn) {
      if (eqn.op->op_class != OpClass::kControl) return false;
      const Control control = eqn.op->control(eqn.attrs);
      return control.asks || control.first_argument > 0;
    };
    return schedule_.communicator != nullptr && Communicator::is_strict() && any_eqn(body, chooses);
  }

  // Whether the back end has a kernel that goes round by itself.
  bool make_whole(Step& step, ControlStep& work) {
    const Eqn& eqn = *step.eqn;
    const Control& control = work.control;
    if (!control.loops || control.first_argument != 0) return false;
    const auto bodies = bodies_of(eqn);
    const Graph& body = *bodies.back();
    if (tells_ways_within(body)) return false;
    const Graph* const condition = control.asks ? bodies.front() : nullptr;
    AtomSet varying;
    if (condition != nullptr) varying = condition->value(condition->outputs[0]).varying;
    for (ValueId id : body.inputs) varying = varying | body.value(id).varying;
    for (ValueId id : eqn.outputs) varying = varying | shapes_of(id).varying;
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) {
        if (!shapes_of(id).even()) return false;
      }
    }
    ControlStep::Whole whole;
    for (std::size_t k = 0; k < eqn.outputs.size(); ++k) {
      const bool is_shared = shapes_of(eqn.outputs[k]).varying != varying;
      // What shards have together is kept for each of them until they are done.
      if (is_shared && (k >= control.carries || !body.type(body.inputs[k]).shape.empty())) return false;
      if (k < control.carries) whole.shared.push_back(is_shared);
    }
    whole.kernel = schedule_.backend->compile_repeated(body, condition, control.carries,
                                                       static_cast<std::int64_t>(control.weight()));
    if (whole.kernel == nullptr) return false;
    for (const ValueIds* ids : {&eqn.inputs, &eqn.outputs}) {
      for (ValueId id : *ids) add_operand(step, id, varying);
    }
    for (const std::vector<ValueId>* ids : {&body.inputs, &body.outputs}) {
      for (ValueId id : *ids) {
        const Type& type = body.type(id);
        whole.bytes.push_back(static_cast<std::size_t>(num_elements(type.shape)) * size_of(type.dtype));
      }
    }
    whole.varying = varying;
    if (is_local()) {
      whole.shards = grid().size_of(varying);
    } else {
      whole.held = grid().held(varying).shards.data();
      whole.shards = std::ssize(grid().held(varying).shards);
    }
    work.whole = std::move(whole);
    return true;
  }

  // Scratch memory for pieces of such shapes.
  static std::vector<std::size_t> room_for(const ShardShapes& shapes, std::int64_t pieces, ControlStep& work) {
    std::vector<std::size_t> offsets;
    if (pieces > 0) work.scratch_bytes_of_shard = plus(work.scratch_bytes_of_shard, shapes.bytes(0));
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      work.scratch_bytes = times((work.scratch_bytes + kScratchAlignment - 1) / kScratchAlignment, kScratchAlignment);
      offsets.push_back(work.scratch_bytes);
      const bool is_here = pieces != shapes.count() || shapes.is_held(piece);
      if (is_here) work.scratch_bytes = plus(work.scratch_bytes, shapes.bytes(piece));
    }
    return offsets;
  }

  void settle_yields(const Eqn& eqn, ControlStep& work, ControlStep::Body& body, bool answers) {
    const Schedule& inside = *body.schedule;
    const MemoryPlan& plan = inside.plan;
    std::vector<bool> taken(plan.storages.size(), false);
    for (std::size_t k = 0; !answers && k < inside.graph.outputs.size(); ++k) {
      ControlStep::Yield& yield = body.yields.emplace_back();
      const ValueId id = inside.graph.outputs[k];
      const ShardShapes& shapes = inside.shapes_of(id);
      const ShardShapes& result = shapes_of(eqn.outputs[k]);
      for (std::int64_t shard = 0; shard < result.count(); ++shard) {
        yield.shard_of.push_back(static_cast<std::int32_t>(shapes.shard_at(result.position_of(shard))));
      }
      const MemoryPlan::Storage* const storage = whole_storage(inside, k, result);
      const bool is_carry = work.control.loops && k < work.control.carries;
      const std::int32_t place = work.places[k];
      using Way = ControlStep::Yield::Way;
      if (storage != nullptr && place >= 0 && storage->kind == MemoryPlan::Kind::kInput && storage->input == place) {
        yield.way = Way::kStays;
        continue;
      }
      // Where devices end at different trips, each has to keep what is its own.
      if (storage != nullptr && is_carry && work.apart.empty() && storage->kind == MemoryPlan::Kind::kInput &&
          storage->input < static_cast<std::int32_t>(work.control.carries)) {
        yield.way = Way::kPassed;
        yield.storage = storage->input;
        continue;
      }
      const bool is_own = work.apart.empty() || work.control.loops;  // Or branches write over each other.
      const std::int32_t number = plan.places[slot(id)][0].storage;
      if (storage != nullptr && is_own && storage->kind == MemoryPlan::Kind::kOutput &&
          !taken[static_cast<std::size_t>(number)]) {
        taken[static_cast<std::size_t>(number)] = true;
        yield.way = place >= 0 && storage->donor == place ? Way::kInPlace : Way::kMade;
        yield.storage = number;
      }
      if (is_carry && yield.way != Way::kInPlace) yield.spare = room_for(result, result.count(), work);
    }
    for (std::size_t i = 0; i < plan.storages.size(); ++i) {
      const MemoryPlan::Storage& storage = plan.storages[i];
      if (storage.kind != MemoryPlan::Kind::kOutput || taken[i]) continue;
      body.rooms.push_back({.storage = static_cast<std::int32_t>(i),
                            .offsets = room_for(inside.shapes_of(storage.owner), storage.pieces, work)});
    }
  }

  // Numbers are equal in all processes, whatever else they do between these steps.
  void number(StepExchanges& exchanges) {
    schedule_.exchanges = true;
    exchanges.number = num_exchanges_ + 1;
    num_exchanges_ += static_cast<std::uint32_t>(std::max<std::size_t>(1, exchanges.rounds.size()));
  }

  std::vector<StepFacts> facts_of_steps(std::span<const std::int32_t> starts) const {
    std::vector<StepFacts> facts;
    for (const Step& step : steps_) {
      StepFacts& fact = facts.emplace_back();
      fact.start = starts[facts.size() - 1];
      if (const auto* const collective = std::get_if<CollectiveStep>(&step.work)) {
        fact.collective = collective->collective.get();
        fact.scratch_bytes = fact.collective->scratch_bytes();
        fact.scratch_bytes_of_shard = fact.scratch_bytes / static_cast<std::size_t>(devices_here());
        const std::size_t results = fact.collective->overwritten() ? step.eqn->outputs.size() : 0;
        for (std::size_t i = 0; i < results; ++i) {
          fact.overwrites.push_back({.input = *fact.collective->overwritten(), .output = i});
        }
      } else if (const auto* const kernel = std::get_if<KernelStep>(&step.work)) {
        fact.kernel = kernel->kernel.get();
        if (step.eqn->op->keeps_order) fact.views = same_bytes(*step.eqn);
        if (kernel->shards == 0) continue;
        fact.scratch_bytes = kernel->scratch_stride * static_cast<std::size_t>(kernel->wave);
        fact.scratch_bytes_of_shard = kernel->variants[0].work.scratch_bytes;
      } else if (const auto* const control = std::get_if<ControlStep>(&step.work)) {
        fact.scratch_bytes = control->scratch_bytes;
        fact.scratch_bytes_of_shard = control->scratch_bytes_of_shard;
        if (control->whole) {
          for (std::size_t i = 0; i < control->whole->shared.size(); ++i) {
            if (!control->whole->shared[i]) fact.overwrites.push_back({.input = i, .output = i});
          }
          continue;
        }
        const std::vector<ControlStep::Yield>& yields = control->bodies.back().yields;
        for (std::size_t k = 0; k < yields.size(); ++k) {
          if (control->places[k] < 0) continue;
          if (control->control.loops && yields[k].way != ControlStep::Yield::Way::kInPlace) continue;
          const auto argument = static_cast<std::size_t>(control->places[k]);
          fact.overwrites.push_back({.input = control->control.first_argument + argument, .output = k});
        }
      }
    }
    return facts;
  }

  // How many devices share the memory of this process.
  std::int64_t devices_here() const {
    std::int64_t count = 0;
    for (std::int64_t position = 0; position < grid().num_devices(); ++position) {
      count += grid().process_of(position) == this_process() ? 1 : 0;
    }
    return std::max<std::int64_t>(1, count);
  }

  // Where the shards of a result lie whose bytes are the operand's.
  std::vector<collectives::View> same_bytes(const Eqn& eqn) const {
    const ShardShapes& result = shapes_of(eqn.outputs[0]);
    std::vector<collectives::View> views;
    for (std::int64_t shard = 0; shard < result.count(); ++shard) {
      views.push_back({.shard = shapes_of(eqn.inputs[0]).shard_at(result.position_of(shard))});
    }
    return views;
  }

  Schedule schedule_;
  const Graph& graph_ = schedule_.graph;
  std::vector<ShardShapes>& shapes_ = schedule_.shapes;
  std::vector<Step>& steps_ = schedule_.steps;
  EqnClasses classes_{graph_};
  std::map<std::vector<std::uint32_t>, KnownKernel> kernels_;
  std::uint32_t num_exchanges_ = 0;
  std::vector<int> parties_ = {};  // Of the processes, in the body of a control step; empty if there is one.
};

}  // namespace

AddressSpace& Schedule::space_of(MemoryKind kind) const {
  return backend->address_space(graph.grid->devices().front(), kind);
}

bool Schedule::is_held(const MemoryPlan::Storage& storage, std::int64_t piece) const {
  return storage.held == storage.pieces || shapes_of(storage.owner).is_held(piece);
}

void Schedule::for_each_place(FunctionRef<void(std::size_t, const MemoryPlan::Place&)> use) const {
  for (std::size_t id = 0; id < plan.places.size(); ++id) {
    for (std::size_t shard = 0; shard < plan.places[id].size(); ++shard) {
      if (!shapes[id].is_held(static_cast<std::int64_t>(shard))) continue;
      use(first_pointer[id] + shard, plan.places[id][shard]);
    }
  }
  for (const Step& step : steps) {
    const auto* const work = std::get_if<CollectiveStep>(&step.work);
    if (work == nullptr) continue;
    const std::vector<MemoryPlan::Place>& results = plan.places[slot(step.eqn->outputs[0])];
    for (std::size_t i = 0; i < work->collective->extras().size(); ++i) {
      const std::int64_t shard = work->collective->extras()[i].result;
      if (shard >= 0) use(work->extras + i, results[static_cast<std::size_t>(shard)]);
    }
  }
}

Schedule make_schedule(GraphPtr graph, const Backend& backend, const std::vector<Reuse>& reuses, const Digest& digest) {
  return Scheduler(std::move(graph), backend, digest).schedule(reuses);
}

}  // namespace shoal
