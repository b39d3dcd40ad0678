#include "runtime/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <deque>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/profiler.h"
#include "base/thread_pool.h"
#include "comm/record/communicator.h"
#include "comm/transport/box_copy.h"
#include "core/host_allocator.h"
#include "core/this_process.h"
#include "ops/collective.h"
#include "runtime/lane.h"

namespace shoal {
namespace {

// Steps that touch no more bytes are done before another thread has woken up.
constexpr std::size_t kInlineKernelBytes = std::size_t{32} << 10;
constexpr std::size_t kInlineCollectiveBytes = std::size_t{128} << 10;
// The most scratch memory of a step; where shards together need more, fewer run at a time.
constexpr std::size_t kMostScratch = std::size_t{256} << 20;
// Pieces of a step per thread, to even out those that take longer.
constexpr std::int64_t kBlocksPerThread = 16;

constexpr std::size_t kNumMemories = 3;
// Buffers of few bytes have their record in the same block.
constexpr std::size_t kSmallBuffer = std::size_t{16} << 10;
constexpr std::size_t kBufferRecord = 64;
// That a message says are held.
constexpr std::size_t kValuesToName = 3;
// The most that may be on its way from other processes to steps that have not come; more only for one of them.
constexpr std::size_t kMostUnderWay = std::size_t{256} << 20;

// A sum, or the most there is.
std::size_t plus(std::size_t a, std::size_t b) { return a + b < a ? static_cast<std::size_t>(-1) : a + b; }

// One block of memory of an address space.
class Arena {
 public:
  Arena() = default;
  Arena(AddressSpace& space, std::size_t bytes) : space_(&space), bytes_(bytes), data_(space.allocate(bytes)) {}
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Arena() {
    if (data_ != nullptr) space_->deallocate(data_, bytes_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  AddressSpace* space_ = nullptr;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

MemoryKind memory_kind_of(std::size_t index) {
  constexpr MemoryKind::Kind kKinds[] = {MemoryKind::Kind::kDevice, MemoryKind::Kind::kPinnedHost,
                                         MemoryKind::Kind::kUnpinnedHost};
  return kKinds[index];
}

// Calls body(first, last) for ranges of 0..count, on all threads.
template <class F>
void for_each_range(std::int64_t count, std::int64_t ranges_per_thread, F&& body) {
  ThreadPool& pool = ThreadPool::shared();
  const std::int64_t blocks = std::min(count, pool.thread_count() * ranges_per_thread);
  pool.parallel_for(blocks, [&](std::int64_t block) { body(count * block / blocks, count * (block + 1) / blocks); });
}

}  // namespace

ExecutionCounters& execution_counters() {
  static ExecutionCounters counters;
  return counters;
}

// ---- What is decided once

// What a launch needs, to be used again by later ones.
struct Executable::Launch {
  std::vector<std::byte*> pointers;  // To the shards of all values.
  std::vector<TensorView> views;     // Of the variants of all steps.
  std::vector<ShardSet> inputs;
  std::vector<Buffer> buffers;  // The pieces of output storages.
  std::array<Arena, kNumMemories> arenas;
  MessageTag tag;  // Of what is exchanged with other processes.
  // Of steps that have not come, in their order.
  std::deque<Exchange::Run> under_way;
  // Of what others may still be reading where a later step writes.
  std::vector<Exchange::Run> unread;
};

// A launch that nobody else uses.
class Executable::Borrowed {
 public:
  explicit Borrowed(const Executable& executable) : executable_(executable) {
    launch_.reset(executable.spare_.exchange(nullptr, std::memory_order_acquire));
    if (launch_ != nullptr) return;
    {
      const std::lock_guard lock(executable.mutex_);
      if (!executable.spares_.empty()) {
        launch_ = std::move(executable.spares_.back());
        executable.spares_.pop_back();
        return;
      }
    }
    launch_ = executable.make_launch();
  }
  ~Borrowed() {
    if (launch_ == nullptr) return;
    launch_->inputs.clear();
    for (Buffer& buffer : launch_->buffers) {
      if (buffer) buffer = {};
    }
    Launch* nothing = nullptr;
    if (executable_.spare_.compare_exchange_strong(nothing, launch_.get(), std::memory_order_release,
                                                   std::memory_order_relaxed)) {
      launch_.release();
      return;
    }
    try {
      const std::lock_guard lock(executable_.mutex_);
      executable_.spares_.push_back(std::move(launch_));
    } catch (const std::bad_alloc&) {
      // A later launch makes another.
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Launch& operator*() const { return *launch_; }
  // Leaves all memory of the launch as it is for good: other processes may still be reading it.
  void abandon() { launch_.release(); }

 private:
  const Executable& executable_;
  std::unique_ptr<Launch> launch_;
};

Executable::Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses, const Digest& digest)
    : graph_(std::move(graph)), backend_(backend), digest_(digest) {
  if (!graph_.grid->is_local()) communicator_ = &Communicator::of(graph_.grid->processes());
  steps_.resize(graph_.eqns.size());
  find_shapes();
  find_starts();
  std::vector<StepFacts> facts;
  for (const Step& step : steps_) {
    StepFacts& fact = facts.emplace_back();
    fact.kernel = step.kernel.get();
    fact.collective = step.collective.get();
    fact.start = step.start;
    if (step.collective != nullptr) fact.scratch_bytes = step.collective->scratch_bytes();
    if (step.kernel != nullptr && step.shards > 0) {
      fact.scratch_bytes = step.scratch_stride * static_cast<std::size_t>(step.wave);
      fact.scratch_bytes_of_shard = step.variants[0].work.scratch_bytes;
    }
    if (step.eqn->op->name != "reshape") continue;
    // The bytes are the operand's.
    const ShardShapes& result = shapes_[static_cast<std::size_t>(step.eqn->outputs[0])];
    const ShardShapes& operand = shapes_[static_cast<std::size_t>(step.eqn->inputs[0])];
    for (std::int64_t shard = 0; shard < result.count(); ++shard) {
      fact.views.push_back({.shard = operand.shard_at(result.position_of(shard))});
    }
  }
  plan_ = plan_memory(graph_, shapes_, facts, reuses);
  bind_pointers();
}

Executable::~Executable() { delete spare_.load(); }

// Shapes follow from the graph, and for collectives from those of their operands. Kernels and collectives are made on
// the way.
void Executable::find_shapes() {
  shapes_.resize(graph_.values.size());
  first_pointer_.resize(graph_.values.size());
  const auto settle = [&](ValueId id, ShardShapes shapes) {
    first_pointer_[static_cast<std::size_t>(id)] = num_pointers_;
    num_pointers_ += static_cast<std::size_t>(shapes.count());
    shapes_[static_cast<std::size_t>(id)] = std::move(shapes);
  };
  const auto of_graph = [&](ValueId id) {
    const Value& value = graph_.value(id);
    ShardShapes shapes{.grid = graph_.grid, .varying = value.varying, .dtype = value.type.dtype, .shapes = {}};
    const bool even = !value.global || is_even(*graph_.grid, value.global->shape, value.global->placement.dims);
    for (std::int64_t shard = 0; shard < (even ? 1 : shapes.count()); ++shard) {
      shapes.shapes.push_back(shard_shape(value, shapes.position_of(shard)));
    }
    return shapes;
  };
  for (ValueId id : graph_.inputs) settle(id, of_graph(id));
  std::uint32_t exchanges = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Eqn& eqn = graph_.eqns[i];
    Step& step = steps_[i];
    step.eqn = &eqn;
    const bool may_exchange = eqn.op->op_class != OpClass::kCompute && !exchanges_nothing(graph_, eqn);
    // Equal in all processes, whatever else they do between these steps.
    step.number = may_exchange ? exchanges + 1 : 0;
    switch (eqn.op->op_class) {
      case OpClass::kCompute:
        for (ValueId id : eqn.outputs) settle(id, of_graph(id));
        step.kernel = backend_.compile(graph_, eqn);
        settle_kernel(step);
        break;
      case OpClass::kCollective:
        step.collective = make_collective(eqn);
        step.bytes = step.collective->bytes();
        settle(eqn.outputs[0], step.collective->result());
        for (ValueId id : eqn.inputs)
          step.operands.push_back(operand(id, shapes_[static_cast<std::size_t>(id)].varying));
        step.operands.push_back(operand(eqn.outputs[0], step.collective->result().varying));
        step.extras = num_pointers_;
        num_pointers_ += step.collective->extras().size();
        if (communicator_ != nullptr) add_exchanges(step);
        ++collectives_;
        break;
      case OpClass::kEffect:
        for (ValueId id : eqn.inputs)
          step.operands.push_back(operand(id, shapes_[static_cast<std::size_t>(id)].varying));
        if (communicator_ != nullptr) step.exchanges.push_back(make_exchange(eqn));
        break;
      default:
        SHOAL_CHECK(false, "a partitioned graph has compute ops, collectives and effects only");
    }
    if (may_exchange) exchanges += static_cast<std::uint32_t>(std::max<std::size_t>(1, step.exchanges.size()));
  }
}

Shape Executable::shard_shape(const Value& value, std::int64_t position) const {
  if (!value.global) return value.type.shape;
  return local_shape(*graph_.grid, value.global->shape, value.global->placement, position);
}

AddressSpace& Executable::space_of(MemoryKind kind) const {
  return backend_.address_space(graph_.grid->devices().front(), kind);
}

// A value as a step sees it whose shards vary over `varying`.
Executable::Operand Executable::operand(ValueId id, AtomSet varying) {
  const ShardShapes& shapes = shapes_[static_cast<std::size_t>(id)];
  Operand operand{.first = first_pointer_[static_cast<std::size_t>(id)], .shard_of = nullptr};
  if (shapes.varying == varying) return operand;
  std::vector<std::int32_t>& map = shard_maps_[{varying.bits(), shapes.varying.bits()}];
  if (map.empty()) {
    for (std::int64_t shard = 0; shard < graph_.grid->size_of(varying); ++shard) {
      map.push_back(static_cast<std::int32_t>(shapes.shard_at(graph_.grid->representative(varying, shard))));
    }
  }
  operand.shard_of = map.data();
  return operand;
}

local::CollectivePtr Executable::make_collective(const Eqn& eqn) const {
  const std::string_view name = eqn.op->name;
  const Attrs& attrs = eqn.attrs;
  const Atoms atoms = graph_.grid->atoms_of(attrs.get<std::vector<std::string>>("axes"));
  const AtomSet wanted = graph_.value(eqn.outputs[0]).varying;
  const auto dim = [&](std::string_view key) { return static_cast<std::size_t>(attrs.get<std::int64_t>(key)); };
  const auto kind = [&] { return parse_reduce_kind(attrs.get<std::string>("kind")); };
  if (name == "axis_index") return local::axis_index(graph_.grid, wanted, atoms);
  const local::Groups groups(graph_.grid, atoms, index_groups(attrs));
  std::vector<ShardShapes> operands;
  for (ValueId id : eqn.inputs) operands.push_back(shapes_[static_cast<std::size_t>(id)]);
  const ShardShapes& in = operands[0];
  if (name == "pvary") return local::unchanged(in, wanted);
  if (name == "all_reduce") return local::all_reduce(in, wanted, groups, kind());
  if (name == "all_gather") return local::all_gather(in, wanted, groups, dim("dim"));
  if (name == "reduce_scatter") return local::reduce_scatter(in, wanted, groups, dim("dim"), kind());
  if (name == "all_to_all") return local::all_to_all(in, wanted, groups, dim("split_dim"), dim("concat_dim"));
  if (name == "shard_slice") return local::shard_slice(in, wanted, atoms, dim("dim"));
  if (name == "exclusive_scan") return local::exclusive_scan(in, wanted, atoms, kind(), attrs.get<bool>("reverse"));
  if (name == "pbroadcast") return local::broadcast(in, wanted, atoms, attrs.get<std::int64_t>("source"));
  if (name == "ragged_all_to_all") return local::ragged_all_to_all(std::move(operands), wanted, groups, eqn.where);
  if (name == "rearrange") {
    return local::rearrange(std::move(operands), wanted, attrs.get<bool>("fills"), atoms, dim("dim"),
                            attrs.get<Dims>("extents"), attrs.get<std::int64_t>("size"),
                            runs_of(attrs.get<Dims>("runs")));
  }
  SHOAL_CHECK(name == "collective_permute", "unknown collective");
  return local::collective_permute(in, wanted, atoms, attrs.get<Dims>("sources"), attrs.get<Dims>("targets"));
}

namespace {

// One of what each process needs; null if that is nothing here.
template <class AddNeeds, class Holders>
std::unique_ptr<Exchange> exchange_of(const Grid& grid, AddNeeds&& add_needs, Holders&& holders) {
  auto exchange = std::make_unique<Exchange>(grid.processes(), add_needs, holders);
  return exchange->empty() ? nullptr : std::move(exchange);
}

}  // namespace

void Executable::add_exchanges(Step& step) const {
  const local::Collective& collective = *step.collective;
  const std::size_t operands = step.eqn->inputs.size();
  const auto holders = [&](std::int32_t operand, std::int32_t shard) {
    const auto number = static_cast<std::size_t>(operand);
    if (number == operands) return collective.extras()[static_cast<std::size_t>(shard)].holders;
    return holders_of(*graph_.grid, shapes_[static_cast<std::size_t>(step.eqn->inputs[number])].varying, shard);
  };
  const auto add = [&](std::size_t round) {
    const auto add_needs = [&](int process, std::vector<Need>& needs) { collective.add_needs(round, process, needs); };
    step.exchanges.push_back(exchange_of(*graph_.grid, add_needs, holders));
  };
  if (collective.rounds().empty()) add(0);
  for (std::size_t round = 0; round < collective.rounds().size(); ++round) {
    if (collective.rounds()[round].exchanges) add(round);
  }
}

namespace {

// Whether more is sent in an exchange, or after it, than when it begins.
bool goes_on(const std::vector<std::unique_ptr<Exchange>>& exchanges) {
  return exchanges.size() > 1 || (exchanges[0] != nullptr && exchanges[0]->relays());
}

}  // namespace

// What a collective sends first is sent once its operands are made, as messages arrive while this process computes. But
// all processes send in one order, that of the steps, and what arrives needs memory.
void Executable::find_starts() {
  std::vector<std::int32_t> made(graph_.values.size(), 0);  // Before which equation.
  struct UnderWay {
    std::int32_t end;  // One past the step that receives it.
    std::size_t bytes;
  };
  std::deque<UnderWay> under_way;
  std::size_t bytes = 0;
  std::int32_t earliest = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    step.start = static_cast<std::int32_t>(i);
    for (ValueId id : step.eqn->outputs) made[static_cast<std::size_t>(id)] = step.start + 1;
    if (step.exchanges.empty()) continue;
    const std::int32_t end = step.start + 1;
    const std::size_t received = step.exchanges[0] == nullptr ? 0 : step.exchanges[0]->received_bytes();
    if (step.collective != nullptr) {
      std::int32_t start = earliest;
      for (ValueId id : step.eqn->inputs) start = std::max(start, made[static_cast<std::size_t>(id)]);
      while (!under_way.empty() && (under_way.front().end <= start || plus(bytes, received) > kMostUnderWay)) {
        start = std::max(start, under_way.front().end);
        bytes -= under_way.front().bytes;
        under_way.pop_front();
      }
      step.start = std::min(start, step.start);
    }
    under_way.push_back({end, received});
    bytes += received;
    earliest = step.start + 1 == end || goes_on(step.exchanges) ? end : step.start;
  }
}

// The same among the steps that are left.
void Executable::settle_starts() {
  std::size_t earliest = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.exchanges.empty()) continue;
    const auto begins_later = [&](const Step& other) { return other.eqn - graph_.eqns.data() < step.start; };
    std::size_t start = earliest;
    while (start < i && begins_later(steps_[start])) ++start;
    step.starts_early = start < i;
    if (step.starts_early) steps_[start].starts.push_back(static_cast<std::int32_t>(i));
    earliest = !step.starts_early || goes_on(step.exchanges) ? i + 1 : start;
  }
}

// A call of the user's program is made where the first of the devices is that it is for.
std::unique_ptr<Exchange> Executable::make_exchange(const Eqn& effect) const {
  const Grid& grid = *graph_.grid;
  const AtomSet manual(grid.atoms_of(effect.attrs.get<std::vector<std::string>>("axes")));
  const auto holders = [&](std::int32_t operand, std::int32_t shard) {
    const ValueId id = effect.inputs[static_cast<std::size_t>(operand)];
    return holders_of(grid, shapes_[static_cast<std::size_t>(id)].varying, shard);
  };
  const auto add_needs = [&](int process, std::vector<Need>& needs) {
    for (std::int64_t call = 0; call < grid.size_of(manual); ++call) {
      const std::int64_t position = grid.representative(manual, call);
      if (grid.process_of(position) != process) continue;
      for (std::size_t i = 0; i < effect.inputs.size(); ++i) {
        const ShardShapes& shapes = shapes_[static_cast<std::size_t>(effect.inputs[i])];
        const AtomSet split = graph_.value(effect.inputs[i]).global->placement.varying();
        for (std::int64_t part = 0; part < grid.size_of(split); ++part) {
          const std::int64_t shard = shapes.shard_at(position + grid.representative(split, part));
          const Shape& shape = shapes.shape(shard);
          needs.push_back({static_cast<std::int32_t>(i),
                           static_cast<std::int32_t>(shard),
                           {shape, Dims(shape.size(), 0), shape, size_of(shapes.dtype)}});
        }
      }
    }
  };
  return exchange_of(grid, add_needs, holders);
}

// Whether a piece of a storage has memory here, and its place among those that do.
bool Executable::is_held(const MemoryPlan::Storage& storage, std::int64_t piece) const {
  const ShardShapes& shapes = shapes_[static_cast<std::size_t>(storage.owner)];
  return storage.held == storage.pieces || shapes.is_held(piece);
}

std::int64_t Executable::slot_of(const MemoryPlan::Storage& storage, std::int64_t piece) const {
  if (storage.held == storage.pieces) return piece;
  const AtomSet varying = shapes_[static_cast<std::size_t>(storage.owner)].varying;
  return graph_.grid->held(varying).slot_of[static_cast<std::size_t>(piece)];
}

// The operands and results of a step on the shard of the device at `position`, without data.
std::vector<TensorView> Executable::views_at(const Step& step, std::int64_t position) const {
  std::vector<TensorView> views;
  for (const std::vector<ValueId>* ids : {&step.eqn->inputs, &step.eqn->outputs}) {
    for (ValueId id : *ids) {
      const ShardShapes& shapes = shapes_[static_cast<std::size_t>(id)];
      const Value& value = graph_.value(id);
      TensorView& view = views.emplace_back(TensorView{shapes.dtype, shapes.shape_at(position), nullptr, {}});
      if (!step.eqn->op->sees_start || !value.global) continue;
      view.start = shard_start(*graph_.grid, value.global->shape, value.global->placement, position);
    }
  }
  return views;
}

// Divides the work of a kernel.
void Executable::settle_kernel(Step& step) {
  const Eqn& eqn = *step.eqn;
  const ShardShapes& result = shapes_[static_cast<std::size_t>(eqn.outputs[0])];
  step.shards = result.count_held();
  if (!graph_.grid->is_local()) step.held = graph_.grid->held(result.varying).shards.data();
  bool equal = !eqn.op->sees_start;
  for (const std::vector<ValueId>* ids : {&eqn.inputs, &eqn.outputs}) {
    for (ValueId id : *ids) {
      step.operands.push_back(operand(id, result.varying));
      equal = equal && shapes_[static_cast<std::size_t>(id)].even();
    }
  }
  std::map<std::vector<std::int64_t>, std::int32_t> known;  // Variants by the numbers in their views.
  std::size_t scratch = 0;
  for (std::int64_t shard = 0; shard < (equal ? 1 : step.shards); ++shard) {
    std::vector<TensorView> views = views_at(step, result.position_of(step.held == nullptr ? shard : step.held[shard]));
    std::vector<std::int64_t> numbers;
    for (const TensorView& view : views) {
      numbers.insert(numbers.end(), view.shape.begin(), view.shape.end());
      numbers.insert(numbers.end(), view.start.begin(), view.start.end());
    }
    const auto [found, is_new] = known.try_emplace(std::move(numbers), static_cast<std::int32_t>(step.variants.size()));
    step.variant_of.push_back(found->second);
    if (!is_new) continue;
    const std::span<const TensorView> all(views);
    const Work work = step.kernel->work(all.first(eqn.inputs.size()), all.subspan(eqn.inputs.size()));
    step.variants.push_back({.work = work, .first_view = views_.size()});
    step.tiles = std::max(step.tiles, work.tiles);
    step.merges |= work.merges;
    scratch = std::max(scratch, (work.scratch_bytes + 63) / 64 * 64);
    std::size_t bytes = 0;
    for (const TensorView& view : views) {
      bytes += static_cast<std::size_t>(num_elements(view.shape)) * size_of(view.dtype);
    }
    step.bytes = std::max(step.bytes, bytes);
    views_.insert(views_.end(), std::make_move_iterator(views.begin()), std::make_move_iterator(views.end()));
  }
  if (step.variants.size() == 1) step.variant_of.clear();
  step.bytes *= static_cast<std::size_t>(step.shards);
  step.scratch_stride = scratch;
  step.wave = step.shards;
  if (scratch != 0) {
    const auto most = static_cast<std::int64_t>(std::max<std::size_t>(1, kMostScratch / scratch));
    step.wave = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, step.shards));
  }
}

// Calls use(pointer, place) for each pointer to what lies in a storage here.
template <class F>
void Executable::for_each_place(F&& use) const {
  for (std::size_t id = 0; id < plan_.places.size(); ++id) {
    for (std::size_t shard = 0; shard < plan_.places[id].size(); ++shard) {
      if (!shapes_[id].is_held(static_cast<std::int64_t>(shard))) continue;
      use(first_pointer_[id] + shard, plan_.places[id][shard]);
    }
  }
  for (const Step& step : steps_) {
    if (step.collective == nullptr) continue;
    const auto result = static_cast<std::size_t>(step.eqn->outputs[0]);
    for (std::size_t i = 0; i < step.collective->extras().size(); ++i) {
      const std::int64_t shard = step.collective->extras()[i].result;
      if (shard >= 0) use(step.extras + i, plan_.places[result][static_cast<std::size_t>(shard)]);
    }
  }
}

// Turns the plan into what a launch does: pointers to be set, buffers to be made and released.
void Executable::bind_pointers() {
  bindings_.resize(plan_.storages.size());
  first_buffer_.resize(plan_.storages.size());
  std::size_t buffers = 0;
  for (std::size_t i = 0; i < plan_.storages.size(); ++i) {
    if (plan_.storages[i].kind != MemoryPlan::Kind::kOutput) continue;
    first_buffer_[i] = buffers;
    buffers += static_cast<std::size_t>(plan_.storages[i].pieces);
  }
  for_each_place([&](std::size_t pointer, const MemoryPlan::Place& place) {
    if (plan_.storage(place).kind == MemoryPlan::Kind::kArena) return;
    bindings_[static_cast<std::size_t>(place.storage)].push_back(
        {.pointer = pointer, .piece = place.piece, .offset = place.offset});
  });
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>> last;
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    std::vector<Source>& sources = outputs_.emplace_back();
    const auto id = static_cast<std::size_t>(graph_.outputs[i]);
    for (const MemoryPlan::Place& place : plan_.places[id]) {
      if (!shapes_[id].is_held(static_cast<std::int64_t>(sources.size()))) {
        sources.push_back({.storage = -1, .piece = 0, .last = false});
        continue;
      }
      const auto [found, is_new] = last.try_emplace({place.storage, place.piece}, i, sources.size());
      if (!is_new) {
        outputs_[found->second.first][found->second.second].last = false;
        found->second = {i, sources.size()};
      }
      sources.push_back({.storage = place.storage, .piece = place.piece, .last = true});
    }
  }
  settle_steps();
}

// Leaves the steps that have something to do, and tells them what.
void Executable::settle_steps() {
  last_writes_.assign(plan_.storages.size(), -1);
  for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
    if (!plan_.runs[i]) continue;
    for (ValueId id : graph_.eqns[i].outputs) {
      for (const MemoryPlan::Place& place : plan_.places[static_cast<std::size_t>(id)]) {
        // What keeps its bytes there was there before.
        if (plan_.renames[i] && plan_.storage(place).birth < static_cast<std::int32_t>(i)) continue;
        last_writes_[static_cast<std::size_t>(place.storage)] = static_cast<std::int32_t>(i);
      }
    }
  }
  std::vector<std::int32_t> release_at(graph_.inputs.size(), -1);
  for (std::size_t i = 0; i < plan_.storages.size(); ++i) {
    const MemoryPlan::Storage& storage = plan_.storages[i];
    if (storage.kind == MemoryPlan::Kind::kInput && storage.death < static_cast<std::int32_t>(steps_.size())) {
      release_at[static_cast<std::size_t>(storage.input)] = storage.death;
    }
  }
  for (std::size_t i = 0; i < plan_.storages.size(); ++i) {
    const MemoryPlan::Storage& storage = plan_.storages[i];
    if (storage.kind != MemoryPlan::Kind::kOutput) continue;
    steps_[static_cast<std::size_t>(storage.birth)].births.push_back(static_cast<std::int32_t>(i));
    if (storage.donor < 0) continue;
    std::int32_t& release = release_at[static_cast<std::size_t>(storage.donor)];
    release = std::max(release, storage.birth);
  }
  std::vector<Step> all = std::exchange(steps_, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    Step& step = all[i];
    step.scratch = plan_.scratch[i];
    step.zeros = plan_.zeros[i];
    step.runs = plan_.runs[i] && plan_.zeros[i] < 0;
    if (step.collective != nullptr && communicator_ != nullptr && step.collective->rounds().empty()) {
      const local::Collective& collective = *step.collective;
      const auto is_made = [&](std::int32_t shard) {
        return !plan_.renames[i] || collective.views()[static_cast<std::size_t>(shard)].shard == local::View::kMade;
      };
      std::ranges::copy_if(graph_.grid->held(collective.result().varying).shards, std::back_inserter(step.made),
                           is_made);
      step.runs = plan_.runs[i] && !step.made.empty();
      if (plan_.renames[i]) {
        step.bytes = 0;
        for (std::int32_t shard : step.made) step.bytes += 2 * collective.result().bytes(shard);
      }
    }
    const auto is_there = [](const auto& exchange) { return exchange != nullptr; };
    if (plan_.runs[i] || std::ranges::any_of(step.exchanges, is_there)) {
      if (step.kernel != nullptr) {
        kernels_ += step.shards;
        made_ += step.shards * static_cast<std::int64_t>(step.eqn->outputs.size()) - plan_.taken[i];
      }
      steps_.push_back(std::move(step));
    }
    // What a step that does nothing was the last to name, was last needed before it.
    for (std::size_t input = 0; input < release_at.size() && !steps_.empty(); ++input) {
      if (release_at[input] == static_cast<std::int32_t>(i)) {
        steps_.back().releases.push_back(static_cast<std::int32_t>(input));
      }
    }
  }
  settle_starts();
}

std::size_t Executable::argument_bytes() const {
  std::size_t bytes = 0;
  for (const MemoryPlan::Storage& storage : plan_.storages) {
    if (storage.kind == MemoryPlan::Kind::kInput) bytes = plus(bytes, buffer_bytes(storage));
  }
  return bytes;
}

std::size_t Executable::output_bytes() const {
  std::size_t bytes = 0;
  for (const MemoryPlan::Storage& storage : plan_.storages) {
    if (storage.kind == MemoryPlan::Kind::kOutput && storage.donor < 0) bytes = plus(bytes, buffer_bytes(storage));
  }
  return bytes;
}

std::size_t Executable::launch_bytes() const {
  std::size_t bytes = output_bytes();
  for (const std::size_t arena : plan_.arena_bytes) {
    if (arena != 0) bytes = plus(bytes, HostAllocator::block_size(arena));
  }
  return bytes;
}

// What the buffers of a storage take together.
std::size_t Executable::buffer_bytes(const MemoryPlan::Storage& storage) const {
  const ShardShapes& shapes = shapes_[static_cast<std::size_t>(storage.owner)];
  std::size_t bytes = 0;
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    if (!is_held(storage, piece)) continue;
    const std::size_t elements = shapes.bytes(piece);
    bytes = plus(bytes, HostAllocator::block_size(elements <= kSmallBuffer ? elements + kBufferRecord : elements));
  }
  return bytes;
}

// The largest values that a launch has made and needs at a step, with the lines that made them: the end of a message.
std::string Executable::held_at(std::int32_t step) const {
  struct Held {
    std::size_t bytes;
    ValueId id;
  };
  std::vector<Held> held;
  for (const MemoryPlan::Storage& storage : plan_.storages) {
    const bool is_made = storage.kind == MemoryPlan::Kind::kArena || storage.kind == MemoryPlan::Kind::kOutput;
    if (is_made && storage.birth <= step && step <= storage.death)
      held.push_back({buffer_bytes(storage), storage.owner});
  }
  std::ranges::stable_sort(held, [](const Held& a, const Held& b) { return a.bytes > b.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(held.size(), kValuesToName); ++i) {
    const auto makes = [&](const Eqn& eqn) { return std::ranges::count(eqn.outputs, held[i].id) != 0; };
    const Eqn& maker = *std::ranges::find_if(graph_.eqns, makes);
    const std::string line = to_string(maker.where);
    text += fmt::format("{}{} of {}{}{} with {}", i == 0 ? "; the largest values here: " : ", ",
                        to_string(graph_.type(held[i].id)), maker.op->name, line.empty() ? "" : " at ", line,
                        held[i].bytes);
  }
  return text;
}

// ---- Launches

std::unique_ptr<Executable::Launch> Executable::make_launch() const {
  auto launch = std::make_unique<Launch>();
  launch->pointers.resize(num_pointers_);
  launch->views = views_;
  for (std::size_t kind = 0; kind < kNumMemories; ++kind) {
    if (plan_.arena_bytes[kind] == 0) continue;
    AddressSpace& space = space_of(memory_kind_of(kind));
    try {
      launch->arenas[kind] = Arena(space, plan_.arena_bytes[kind]);
    } catch (const std::bad_alloc&) {
      const Eqn& eqn = graph_.eqns[static_cast<std::size_t>(plan_.peak)];
      throw OutOfMemory(fmt::format("{}: out of memory: what '{}' holds at a time, most of it here, needs {} bytes in "
                                    "memory '{}', where {} are in use{}{}",
                                    eqn.op->name, graph_.name, plan_.arena_bytes[kind], space.name(),
                                    space.bytes_in_use(), space.condition(), held_at(plan_.peak)),
                        eqn.where);
    }
  }
  std::size_t buffers = 0;
  for (const MemoryPlan::Storage& storage : plan_.storages) {
    if (storage.kind == MemoryPlan::Kind::kOutput) buffers += static_cast<std::size_t>(storage.pieces);
  }
  launch->buffers.resize(buffers);
  for_each_place([&](std::size_t pointer, const MemoryPlan::Place& place) {
    const MemoryPlan::Storage& storage = plan_.storage(place);
    if (storage.kind != MemoryPlan::Kind::kArena) return;
    const auto kind = static_cast<std::size_t>(graph_.type(storage.owner).memory.kind());
    launch->pointers[pointer] = launch->arenas[kind].data() + storage.offset +
                                static_cast<std::size_t>(slot_of(storage, place.piece)) * storage.stride + place.offset;
  });
  for (const Step& step : steps_) {
    if (step.collective == nullptr) continue;
    for (std::size_t i = 0; i < step.collective->extras().size(); ++i) {
      const std::optional<std::size_t> offset = step.collective->extras()[i].scratch;
      if (offset) launch->pointers[step.extras + i] = launch->arenas[0].data() + step.scratch + *offset;
    }
  }
  return launch;
}

std::vector<ShardSet> Executable::run(std::vector<ShardSet> inputs, const Digest& lineage,
                                      const LaunchCall& call) const {
  SHOAL_CHECK(inputs.size() == graph_.inputs.size(), "an executable takes as many inputs as its graph");
  Borrowed borrowed(*this);
  Launch& launch = *borrowed;
  launch.inputs = std::move(inputs);
  if (communicator_ == nullptr) {
    run(launch);
    return outputs_of(launch);
  }
  try {
    communicator_->launch(call, digest_, lineage, [&](const MessageTag& tag) {
      launch.tag = tag;
      run(launch);
    });
  } catch (...) {
    launch.under_way.clear();
    borrowed.abandon();
    throw;
  }
  return outputs_of(launch);
}

void Executable::run(Launch& launch) const {
  const auto wait_until_read = [&] {
    for (Exchange::Run& run : launch.unread) run.wait_until_read();
    launch.unread.clear();
  };
  take_inputs(launch);
  std::int64_t made = made_;
  for (const Step& step : steps_) {
    Lane::check_interrupt();
    try {
      if (!launch.unread.empty()) wait_until_read();
      for (std::int32_t other : step.starts) start(steps_[static_cast<std::size_t>(other)], launch);
      for (Exchange::Run& exchange : launch.under_way) exchange.move_on();
      for (std::int32_t storage : step.births) made -= give_birth(launch, storage);
      run_step(step, launch);
    } catch (const OutOfMemory& error) {
      if (error.where()) throw;
      const auto number = static_cast<std::int32_t>(step.eqn - graph_.eqns.data());
      throw OutOfMemory(fmt::format("{}: {}{}", step.eqn->op->name, error.what(), held_at(number)), step.eqn->where);
    }
    for (std::int32_t input : step.releases) launch.inputs[static_cast<std::size_t>(input)].shards.clear();
  }
  if (!launch.unread.empty()) wait_until_read();
  ExecutionCounters& counters = execution_counters();
  if (kernels_ != 0) counters.kernels.fetch_add(kernels_, std::memory_order_relaxed);
  if (made != 0) counters.buffers.fetch_add(made, std::memory_order_relaxed);
  if (collectives_ != 0) counters.collectives.fetch_add(collectives_, std::memory_order_relaxed);
}

// The storages of inputs come first, in their order.
void Executable::take_inputs(Launch& launch) const {
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const ShardSet& set = launch.inputs[i];
    const ShardShapes& shapes = shapes_[static_cast<std::size_t>(graph_.inputs[i])];
    const bool same = set.varying == shapes.varying;
    for (const Binding& binding : bindings_[i]) {
      const Buffer& buffer =
          same ? set.shards[static_cast<std::size_t>(binding.piece)] : set.at(shapes.position_of(binding.piece));
      launch.pointers[binding.pointer] = static_cast<std::byte*>(const_cast<void*>(buffer.data())) + binding.offset;
    }
  }
}

// Gets the buffers of an output storage: those of its donor that nobody else holds, and new ones. Returns how many are
// the donor's.
std::int64_t Executable::give_birth(Launch& launch, std::int32_t number) const {
  const auto index = static_cast<std::size_t>(number);
  const MemoryPlan::Storage& storage = plan_.storages[index];
  const ShardShapes& shapes = shapes_[static_cast<std::size_t>(storage.owner)];
  AddressSpace& space = space_of(graph_.type(storage.owner).memory);
  ShardSet* donor = storage.donor < 0 ? nullptr : &launch.inputs[static_cast<std::size_t>(storage.donor)];
  if (donor != nullptr && donor->varying != shapes.varying) donor = nullptr;
  Buffer* buffers = launch.buffers.data() + first_buffer_[index];
  std::int64_t taken = 0;
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    if (!is_held(storage, piece)) continue;
    Buffer* given = donor == nullptr ? nullptr : &donor->shards[static_cast<std::size_t>(piece)];
    if (given != nullptr && *given && &given->space() == &space && given->is_unique()) {
      buffers[piece] = std::move(*given);
      ++taken;
    } else {
      buffers[piece] = Buffer(space, shapes.dtype, shapes.shape(piece));
    }
  }
  for (const Binding& binding : bindings_[index]) {
    launch.pointers[binding.pointer] = static_cast<std::byte*>(buffers[binding.piece].mutable_data()) + binding.offset;
  }
  return taken;
}

void Executable::run_step(const Step& step, Launch& launch) const {
  using profiler::Category;
  const profiler::ProfileScope event(
      step.collective != nullptr ? Category::kCollective : Category::kStep, step.eqn->op->name,
      {.program = graph_.name, .where = step.eqn->where, .bytes = static_cast<std::int64_t>(step.bytes)});
  if (step.kernel != nullptr) {
    run_kernel(step, launch);
  } else if (step.collective != nullptr || step.zeros >= 0) {
    if (step.zeros >= 0) fill_with_zeros(step, launch);
    if (step.runs || !step.exchanges.empty()) run_collective(step, launch);
  } else {
    run_effect(step, launch);
  }
}

void Executable::run_kernel(const Step& step, Launch& launch) const {
  const std::size_t inputs = step.eqn->inputs.size();
  const std::size_t operands = step.operands.size();
  std::byte* const scratch = launch.arenas[0].data() + step.scratch;
  const auto variant_of = [&](std::int64_t shard) -> const Variant& {
    return step
        .variants[step.variant_of.empty() ? 0
                                          : static_cast<std::size_t>(step.variant_of[static_cast<std::size_t>(shard)])];
  };
  // Lets views of the shard's shapes look at its data.
  const auto look = [&](TensorView* views, std::int64_t shard) {
    const std::int64_t number = step.held == nullptr ? shard : step.held[shard];
    for (std::size_t i = 0; i < operands; ++i) views[i].data = launch.pointers[step.operands[i].at(number)];
  };
  for (std::int64_t first = 0; first < step.shards; first += step.wave) {
    const std::int64_t shards = std::min(step.wave, step.shards - first);
    const auto scratch_of = [&](std::int64_t shard) {
      return scratch + static_cast<std::size_t>(shard - first) * step.scratch_stride;
    };
    const bool is_small = step.bytes <= kInlineKernelBytes || shards * step.tiles == 1;
    if (!is_small) {
      const std::int64_t ranges = step.merges ? 1 : kBlocksPerThread;
      for_each_range(shards * step.tiles, ranges, [&](std::int64_t begin, std::int64_t end) {
        const profiler::ProfileScope event(profiler::Category::kKernel, step.eqn->op->name,
                                           {.shard = first + begin / step.tiles, .tile = begin % step.tiles});
        boost::container::small_vector<TensorView, 6> views;
        const Variant* viewed = nullptr;
        for (std::int64_t i = begin; i < end;) {
          const std::int64_t shard = first + i / step.tiles;
          const Variant& variant = variant_of(shard);
          const TensorView* shapes = launch.views.data() + variant.first_view;
          if (viewed != &variant) views.assign(shapes, shapes + operands);
          viewed = &variant;
          look(views.data(), shard);
          const std::span<const TensorView> all(views.data(), operands);
          const std::int64_t tile = i % step.tiles;
          const std::int64_t last = std::min(tile + end - i, step.tiles);
          step.kernel->run_tiles(all.first(inputs), all.subspan(inputs), scratch_of(shard), tile,
                                 std::min(last, variant.work.tiles));
          i += last - tile;
        }
      });
    }
    for (std::int64_t shard = first; shard < first + shards; ++shard) {
      const Variant& variant = variant_of(shard);
      TensorView* views = launch.views.data() + variant.first_view;
      look(views, shard);
      const std::span<const TensorView> all(views, operands);
      if (is_small) {
        step.kernel->run_tiles(all.first(inputs), all.subspan(inputs), scratch_of(shard), 0, variant.work.tiles);
      }
      step.kernel->finish(all.first(inputs), all.subspan(inputs), scratch_of(shard));
    }
  }
}

void Executable::fill_with_zeros(const Step& step, Launch& launch) const {
  const auto index = static_cast<std::size_t>(step.zeros);
  const MemoryPlan::Storage& storage = plan_.storages[index];
  if (storage.kind == MemoryPlan::Kind::kArena) {
    const auto kind = static_cast<std::size_t>(graph_.type(storage.owner).memory.kind());
    std::memset(launch.arenas[kind].data() + storage.offset, 0,
                static_cast<std::size_t>(storage.held) * storage.stride);
    return;
  }
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    Buffer& buffer = launch.buffers[first_buffer_[index] + static_cast<std::size_t>(piece)];
    if (buffer && buffer.size_bytes() != 0) std::memset(buffer.mutable_data(), 0, buffer.size_bytes());
  }
}

// A piece of an argument, which may vary over more or fewer axes than the program reads it with.
const Buffer& Executable::input_piece(const Launch& launch, std::int32_t input, std::int64_t piece) const {
  const ShardSet& given = launch.inputs[static_cast<std::size_t>(input)];
  const ShardShapes& read = shapes_[static_cast<std::size_t>(graph_.inputs[static_cast<std::size_t>(input)])];
  return given.varying == read.varying ? given.shards[static_cast<std::size_t>(piece)]
                                       : given.at(read.position_of(piece));
}

// The buffer in which a shard of an operand, or an extra, lies that no later step of the launch writes; null if it lies
// elsewhere.
const Buffer* Executable::buffer_of(const Step& step, std::size_t operand, std::int64_t shard,
                                    const Launch& launch) const {
  const auto number = static_cast<std::int32_t>(step.eqn - graph_.eqns.data());
  ValueId id = 0;
  if (operand < step.eqn->inputs.size()) {
    id = step.eqn->inputs[operand];
  } else {
    shard = step.collective->extras()[static_cast<std::size_t>(shard)].result;
    if (shard < 0) return nullptr;
    id = step.eqn->outputs[0];
  }
  const MemoryPlan::Place& place = plan_.places[static_cast<std::size_t>(id)][static_cast<std::size_t>(shard)];
  const auto storage = static_cast<std::size_t>(place.storage);
  switch (plan_.storages[storage].kind) {
    case MemoryPlan::Kind::kInput:
      // Who is given it to write an output there finds that it is not the only one that holds it.
      return &input_piece(launch, plan_.storages[storage].input, place.piece);
    case MemoryPlan::Kind::kOutput:
      if (last_writes_[storage] > number) return nullptr;
      return &launch.buffers[first_buffer_[storage] + static_cast<std::size_t>(place.piece)];
    default:
      return nullptr;
  }
}

// Begins an exchange of a step: sends what other processes need.
Exchange::Run Executable::begin_exchange(const Step& step, std::size_t number, const Launch& launch) const {
  MessageTag tag = launch.tag;
  tag.step = step.number + static_cast<std::uint32_t>(number);
  return {*step.exchanges[number],
          {*communicator_, tag, step.eqn->op->name, step.eqn->where},
          [&](std::int32_t operand, std::int32_t shard) {
            const Buffer* buffer = buffer_of(step, static_cast<std::size_t>(operand), shard, launch);
            return Exchange::Held{launch.pointers[pointer_to(step, operand, shard)], buffer};
          }};
}

// The number of the pointer to a shard of an operand, or to an extra.
std::size_t Executable::pointer_to(const Step& step, std::int32_t operand, std::int32_t shard) {
  const auto place = static_cast<std::size_t>(operand);
  if (place == step.eqn->inputs.size()) return step.extras + static_cast<std::size_t>(shard);
  return step.operands[place].at(shard);
}

// Gets what other processes hold, and gives them what they need, in an exchange of a step; use() works on it.
template <class F>
void Executable::exchange(const Step& step, std::size_t number, Launch& launch, F&& use) const {
  if (number >= step.exchanges.size() || step.exchanges[number] == nullptr) return use();
  // To the end of the work on what arrives, so that its bytes give a bandwidth.
  const profiler::ProfileScope event(
      profiler::Category::kCollective, "exchange",
      {.program = graph_.name,
       .where = step.eqn->where,
       .bytes = profiler::is_recording() ? static_cast<std::int64_t>(step.exchanges[number]->received_bytes()) : -1});
  const auto begin = [&] {
    if (number > 0 || !step.starts_early) return begin_exchange(step, number, launch);
    Exchange::Run begun = std::move(launch.under_way.front());
    launch.under_way.pop_front();
    return begun;
  };
  Exchange::Run run = begin();
  run.receive([&](std::int32_t operand, std::int32_t shard, const std::byte* data) {
    launch.pointers[pointer_to(step, operand, shard)] = const_cast<std::byte*>(data);  // It is only read.
  });
  use();
  run.release();
  if (!run.is_read()) launch.unread.push_back(std::move(run));
}

// Runs so many tiles of a collective; tile_at(i) gives the i-th of them.
template <class TileAt>
void Executable::run_tiles(const Step& step, const Launch& launch, std::int64_t tiles, TileAt&& tile_at) const {
  if (!step.runs) return;
  boost::container::small_vector<std::byte* const*, 6> operands;
  for (const Operand& operand : step.operands) operands.push_back(launch.pointers.data() + operand.first);
  std::byte* const* result = operands.back();
  operands.pop_back();
  const local::Collective& collective = *step.collective;
  if (!collective.extras().empty()) operands.push_back(launch.pointers.data() + step.extras);
  const auto run_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      collective.run({operands.data(), operands.size()}, result, tile_at(i));
    }
  };
  if (step.bytes <= kInlineCollectiveBytes) return run_range(0, tiles);
  for_each_range(tiles, kBlocksPerThread, [&](std::int64_t begin, std::int64_t end) {
    const profiler::ProfileScope event(profiler::Category::kKernel, step.eqn->op->name, {.tile = begin});
    run_range(begin, end);
  });
}

// The rounds that are over before the first exchange.
std::size_t Executable::rounds_before_exchange(const Step& step) {
  const std::vector<local::Collective::Round>& rounds = step.collective->rounds();
  return static_cast<std::size_t>(std::ranges::find(rounds, true, &local::Collective::Round::exchanges) -
                                  rounds.begin());
}

// Runs some of the rounds of a collective.
void Executable::run_rounds(const Step& step, Launch& launch, std::size_t first, std::size_t last) const {
  const std::vector<local::Collective::Round>& rounds = step.collective->rounds();
  std::size_t exchanges = 0;
  for (std::size_t round = first; round < last; ++round) {
    const std::int64_t begin = round == 0 ? 0 : rounds[round - 1].end;
    const auto run = [&] {
      run_tiles(step, launch, rounds[round].end - begin, [&](std::int64_t i) { return begin + i; });
    };
    if (rounds[round].exchanges) {
      exchange(step, exchanges++, launch, run);
    } else {
      run();
    }
  }
}

// Begins what a step that has not come exchanges first.
void Executable::start(const Step& step, Launch& launch) const {
  const profiler::ProfileScope event(profiler::Category::kCollective, "start",
                                     {.program = graph_.name, .where = step.eqn->where});
  run_rounds(step, launch, 0, rounds_before_exchange(step));
  if (step.exchanges[0] == nullptr) return;
  launch.under_way.push_back(begin_exchange(step, 0, launch));
  launch.under_way.back().expect();
}

void Executable::run_collective(const Step& step, Launch& launch) const {
  const local::Collective& collective = *step.collective;
  if (communicator_ == nullptr) {
    return run_tiles(step, launch, collective.tiles(), [](std::int64_t i) { return i; });
  }
  if (!collective.rounds().empty()) {
    return run_rounds(step, launch, step.starts_early ? rounds_before_exchange(step) : 0, collective.rounds().size());
  }
  const std::int64_t tiles_of_shard = collective.tiles() / collective.result().count();
  exchange(step, 0, launch, [&] {
    run_tiles(step, launch, tiles_of_shard * static_cast<std::int64_t>(step.made.size()), [&](std::int64_t i) {
      return step.made[static_cast<std::size_t>(i / tiles_of_shard)] * tiles_of_shard + i % tiles_of_shard;
    });
  });
}

// Calls the user's program once for each device along the manual axes, in the order of the devices, with what is whole
// there: over the other axes, shards are put together.
void Executable::run_effect(const Step& step, Launch& launch) const {
  const Eqn& eqn = *step.eqn;
  const auto& callback = eqn.attrs.get<CallbackAttr>("callback").callback;
  if (callback == nullptr) return;
  const Grid& grid = *graph_.grid;
  const AtomSet manual(grid.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes")));
  const auto whole_at = [&](std::size_t operand, std::int64_t position) {
    const ValueId id = eqn.inputs[operand];
    const GlobalShape& global = *graph_.value(id).global;
    const ShardShapes& shapes = shapes_[static_cast<std::size_t>(id)];
    Buffer whole(space_of(graph_.type(id).memory), shapes.dtype, global.shape);
    const AtomSet split = global.placement.varying();
    std::vector<PlacedCopy> copies;
    for (std::int64_t part = 0; part < grid.size_of(split); ++part) {
      const std::int64_t device = position + grid.representative(split, part);
      const std::int64_t shard = shapes.shard_at(device);
      const Shape& extents = shapes.shape(shard);
      copies.push_back(place_copy({shapes.dtype, extents, launch.pointers[step.operands[operand].at(shard)]},
                                  Dims(extents.size(), 0), whole.view(),
                                  shard_start(grid, global.shape, global.placement, device), extents));
    }
    copy_boxes(copies);
    return whole;
  };
  exchange(step, 0, launch, [&] {
    for (std::int64_t call = 0; call < grid.size_of(manual); ++call) {
      const std::int64_t position = grid.representative(manual, call);
      if (communicator_ != nullptr && grid.process_of(position) != this_process()) continue;
      std::vector<Buffer> operands;
      for (std::size_t i = 0; i < eqn.inputs.size(); ++i) operands.push_back(whole_at(i, position));
      callback->on_values(operands);
    }
  });
}

std::vector<ShardSet> Executable::outputs_of(Launch& launch) const {
  std::vector<ShardSet> outputs;
  outputs.reserve(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const ShardShapes& shapes = shapes_[static_cast<std::size_t>(graph_.outputs[i])];
    ShardSet& output = outputs.emplace_back(ShardSet{.grid = graph_.grid, .varying = shapes.varying, .shards = {}});
    output.shards.reserve(outputs_[i].size());
    for (const Source& source : outputs_[i]) {
      if (source.storage < 0) {
        output.shards.emplace_back();
        continue;
      }
      const MemoryPlan::Storage& storage = plan_.storages[static_cast<std::size_t>(source.storage)];
      const auto piece = static_cast<std::size_t>(source.piece);
      if (storage.kind == MemoryPlan::Kind::kInput) {
        output.shards.push_back(input_piece(launch, storage.input, source.piece));
      } else {
        Buffer& buffer = launch.buffers[first_buffer_[static_cast<std::size_t>(source.storage)] + piece];
        if (source.last) {
          output.shards.push_back(std::move(buffer));
        } else {
          output.shards.push_back(buffer);
        }
      }
      const Shape& shape = shapes.shape(static_cast<std::int64_t>(output.shards.size()) - 1);
      if (output.shards.back().shape() != shape) output.shards.back() = output.shards.back().reshaped(shape);
    }
  }
  return outputs;
}

}  // namespace shoal
