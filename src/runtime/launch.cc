#include "runtime/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/profiler.h"
#include "base/thread_pool.h"
#include "runtime/lane.h"
#include "runtime/memory_report.h"

namespace shoal {
namespace {

MemoryKind memory_kind_of(std::size_t index) {
  constexpr MemoryKind::Kind kKinds[] = {MemoryKind::Kind::kDevice, MemoryKind::Kind::kPinnedHost,
                                         MemoryKind::Kind::kUnpinnedHost};
  return kKinds[index];
}

}  // namespace

ExecutionCounters& execution_counters() {
  static ExecutionCounters counters;
  return counters;
}

// ---- Memory

Launch::Launch(const Schedule& schedule, std::byte* arena)
    : schedule_(schedule), arena_(arena), views_(schedule.views) {
  pointers_.resize(schedule.num_pointers);
  buffers_.resize(schedule.num_buffers);
  make_arenas();
  point_into_arenas();
  make_bodies();
}

void Launch::make_arenas() {
  const MemoryPlan& plan = schedule_.plan;
  for (std::size_t kind = 0; kind < arenas_.size(); ++kind) {
    if (plan.arena_bytes[kind] == 0 || (kind == 0 && arena_ != nullptr)) continue;
    AddressSpace& space = schedule_.space_of(memory_kind_of(kind));
    try {
      arenas_[kind] = Arena(space, plan.arena_bytes[kind]);
    } catch (const std::bad_alloc&) {
      const Eqn& eqn = schedule_.graph.eqns[static_cast<std::size_t>(plan.peak)];
      throw OutOfMemory(
          fmt::format("{}: out of memory: what '{}' holds at a time, most of it here, needs {} bytes in "
                      "memory '{}', where {} are in use{}{}{}",
                      eqn.op->name, schedule_.graph.name, plan.arena_bytes[kind], space.name(), space.bytes_in_use(),
                      space.condition(), held_at(schedule_, plan.peak), derived_note(eqn.where)),
          eqn.where);
    }
  }
}

void Launch::point_into_arenas() {
  const MemoryPlan& plan = schedule_.plan;
  // The pieces that this process holds follow each other.
  const auto slot_of = [&](const MemoryPlan::Storage& storage, std::int64_t piece) -> std::int64_t {
    if (storage.held == storage.pieces) return piece;
    const AtomSet varying = schedule_.shapes_of(storage.owner).varying;
    return schedule_.graph.grid->held(varying).slot_of[static_cast<std::size_t>(piece)];
  };
  schedule_.for_each_place([&](std::size_t pointer, const MemoryPlan::Place& place) {
    const MemoryPlan::Storage& storage = plan.storage(place);
    if (storage.kind != MemoryPlan::Kind::kArena) return;
    const auto kind = static_cast<std::size_t>(schedule_.graph.type(storage.owner).memory.kind());
    pointers_[pointer] = arena(kind) + storage.offset +
                         static_cast<std::size_t>(slot_of(storage, place.piece)) * storage.stride + place.offset;
  });
  for (const Step& step : schedule_.steps) {
    const auto* const work = std::get_if<CollectiveStep>(&step.work);
    if (work == nullptr) continue;
    for (std::size_t i = 0; i < work->collective->extras().size(); ++i) {
      const std::optional<std::size_t> offset = work->collective->extras()[i].scratch;
      if (offset) pointers_[work->extras + i] = arena(0) + work->scratch + *offset;
    }
  }
}

void Launch::clear() {
  inputs_.clear();
  for (Buffer& buffer : buffers_) {
    if (buffer) buffer = {};
  }
}

// ---- The way through the steps

std::vector<ShardSet> Launch::run(std::vector<ShardSet> inputs, const Digest& lineage, const LaunchCall& call) {
  const profiler::TallyScope taken(profiler::timed(&profiler::RunTallies::programs));
  inputs_ = std::move(inputs);
  take_inputs();
  if (schedule_.communicator == nullptr) {
    run_steps();
    return outputs();
  }
  try {
    schedule_.communicator->launch(call, schedule_.digest, lineage, [&](MessageTag& tag) {
      tag_ = tag;
      run_steps();
      tag.history = tag_.history;
    });
  } catch (...) {
    abandon_exchanges();
    may_be_read_ = true;
    throw;
  }
  return outputs();
}

void Launch::run_steps() {
  const profiler::TallyScope taken(profiler::is_recording() ? &schedule_.tally() : nullptr);
  std::int64_t made = schedule_.made;
  for (const Step& step : schedule_.steps) {
    Lane::check_interrupt();
    try {
      if (!unread_.empty()) wait_until_read();
      for (std::int32_t number : step.starts) {
        const Step& other = schedule_.steps[static_cast<std::size_t>(number)];
        if (!is_ahead_ || !std::get<CollectiveStep>(other.work).exchanges.starts_trip_ahead) start(other);
      }
      if (&step - schedule_.steps.data() == schedule_.trip_ahead_before) start_trip_ahead();
      for (Exchange::Run& exchange : under_way_) exchange.move_on();
      for (std::int32_t storage : step.births) made -= give_birth(storage);
      run_step(step);
    } catch (const OutOfMemory& error) {
      if (error.where()) throw;
      const Eqn& eqn = *step.eqn;
      throw OutOfMemory(fmt::format("{}: {}{}{}", eqn.op->name, error.what(), held_at(schedule_, step.number),
                                    derived_note(eqn.where)),
                        eqn.where);
    }
    for (std::int32_t input : step.releases) inputs_[static_cast<std::size_t>(input)].shards.clear();
  }
  if (!unread_.empty()) wait_until_read();
  ExecutionCounters& counters = execution_counters();
  if (schedule_.kernels != 0) counters.kernels.fetch_add(schedule_.kernels, std::memory_order_relaxed);
  if (made != 0) counters.buffers.fetch_add(made, std::memory_order_relaxed);
  if (schedule_.collectives != 0) counters.collectives.fetch_add(schedule_.collectives, std::memory_order_relaxed);
}

// The storages of inputs come first, in their order.
void Launch::take_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ShardSet& set = inputs_[i];
    const ShardShapes& shapes = schedule_.shapes_of(schedule_.graph.inputs[i]);
    const bool same = set.varying == shapes.varying;
    for (const Schedule::Binding& binding : schedule_.bindings[i]) {
      const Buffer& buffer =
          same ? set.shards[static_cast<std::size_t>(binding.piece)] : set.at(shapes.position_of(binding.piece));
      pointers_[binding.pointer] = static_cast<std::byte*>(const_cast<void*>(buffer.data())) + binding.offset;
    }
  }
}

// Gets the buffers of an output storage: those of its donor that nobody else holds, and new ones. Returns how many are
// the donor's.
std::int64_t Launch::give_birth(std::int32_t number) {
  const MemoryPlan::Storage& storage = schedule_.plan.storages[static_cast<std::size_t>(number)];
  const ShardShapes& shapes = schedule_.shapes_of(storage.owner);
  AddressSpace& space = schedule_.space_of(schedule_.graph.type(storage.owner).memory);
  ShardSet* donor = storage.donor < 0 ? nullptr : &inputs_[static_cast<std::size_t>(storage.donor)];
  if (donor != nullptr && donor->varying != shapes.varying) donor = nullptr;
  Buffer* buffers = &output_piece(number, 0);
  std::int64_t taken = 0;
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    if (!schedule_.is_held(storage, piece)) continue;
    Buffer* given = donor == nullptr ? nullptr : &donor->shards[static_cast<std::size_t>(piece)];
    if (given != nullptr && *given && &given->space() == &space && given->is_unique()) {
      buffers[piece] = std::move(*given);
      ++taken;
    } else {
      buffers[piece] = Buffer(space, shapes.dtype, shapes.shape(piece));
    }
  }
  for (const Schedule::Binding& binding : schedule_.bindings[static_cast<std::size_t>(number)]) {
    pointers_[binding.pointer] = static_cast<std::byte*>(buffers[binding.piece].mutable_data()) + binding.offset;
  }
  return taken;
}

// A piece of an argument, which may vary over more or fewer axes than the program reads it with.
const Buffer& Launch::input_piece(std::int32_t input, std::int64_t piece) const {
  const ShardSet& given = inputs_[static_cast<std::size_t>(input)];
  const ShardShapes& read = schedule_.shapes_of(schedule_.graph.inputs[static_cast<std::size_t>(input)]);
  return given.varying == read.varying ? given.shards[static_cast<std::size_t>(piece)]
                                       : given.at(read.position_of(piece));
}

Buffer& Launch::output_piece(std::int32_t storage, std::int64_t piece) {
  return buffers_[schedule_.first_buffer[static_cast<std::size_t>(storage)] + static_cast<std::size_t>(piece)];
}

std::vector<ShardSet> Launch::outputs() {
  const Graph& graph = schedule_.graph;
  std::vector<ShardSet> outputs;
  outputs.reserve(schedule_.outputs.size());
  for (std::size_t i = 0; i < schedule_.outputs.size(); ++i) {
    const ShardShapes& shapes = schedule_.shapes_of(graph.outputs[i]);
    ShardSet& output = outputs.emplace_back(ShardSet{.grid = graph.grid, .varying = shapes.varying, .shards = {}});
    output.shards.reserve(schedule_.outputs[i].size());
    for (const Schedule::Source& source : schedule_.outputs[i]) {
      if (source.storage < 0) {
        output.shards.emplace_back();
        continue;
      }
      const MemoryPlan::Storage& storage = schedule_.plan.storages[static_cast<std::size_t>(source.storage)];
      if (storage.kind == MemoryPlan::Kind::kInput) {
        output.shards.push_back(input_piece(storage.input, source.piece));
      } else if (source.last) {
        output.shards.push_back(std::move(output_piece(source.storage, source.piece)));
      } else {
        output.shards.push_back(output_piece(source.storage, source.piece));
      }
      const Shape& shape = shapes.shape(static_cast<std::int64_t>(output.shards.size()) - 1);
      if (output.shards.back().shape() != shape) output.shards.back() = output.shards.back().reshaped(shape);
    }
  }
  return outputs;
}

void Launch::run_step(const Step& step) {
  using profiler::Category;
  profiler::ProfileScope event(
      std::holds_alternative<CollectiveStep>(step.work) ? Category::kCollective : Category::kStep, step.eqn->op->name,
      {.program = schedule_.graph.name,
       .where = step.eqn->where,
       .bytes = static_cast<std::int64_t>(step.bytes),
       .trip = static_cast<std::int64_t>(trip_)});
  const profiler::TallyScope taken(profiler::is_recording() ? &schedule_.tally_of(step) : nullptr);
  if (const auto* const kernel = std::get_if<KernelStep>(&step.work)) {
    run_kernel(step, *kernel);
  } else if (const auto* const collective = std::get_if<CollectiveStep>(&step.work)) {
    run_collective(step, *collective);
  } else if (const auto* const control = std::get_if<ControlStep>(&step.work)) {
    run_control(step, *control, event);
  } else {
    run_effect(step, std::get<EffectStep>(step.work));
  }
}

// ---- Kernels

// Calls body(first, last) for ranges of 0..count, on all threads.
void Launch::for_each_range(std::int64_t count, std::int64_t ranges_per_thread,
                            FunctionRef<void(std::int64_t, std::int64_t)> body) {
  ThreadPool& pool = ThreadPool::shared();
  const std::int64_t blocks = std::min(count, pool.thread_count() * ranges_per_thread);
  pool.parallel_for(blocks, [&](std::int64_t block) { body(count * block / blocks, count * (block + 1) / blocks); });
}

// Whether the input that tiles would copy is where they would copy it to, for so many shards.
bool Launch::lies_in_result(const Step& step, const KernelStep& work, std::int64_t first, std::int64_t shards) const {
  const Step::Operand& from = step.operands[static_cast<std::size_t>(work.copied)];
  const Step::Operand& to = step.operands[step.eqn->inputs.size()];
  for (std::int64_t shard = first; shard < first + shards; ++shard) {
    const std::int64_t number = work.held == nullptr ? shard : work.held[shard];
    if (pointers_[from.at(number)] != pointers_[to.at(number)]) return false;
  }
  return true;
}

void Launch::run_kernel(const Step& step, const KernelStep& work) {
  const std::size_t inputs = step.eqn->inputs.size();
  const std::size_t operands = step.operands.size();
  std::byte* const scratch = arena(0) + work.scratch;
  // Lets views of the shard's shapes look at its data.
  const auto look = [&](TensorView* views, std::int64_t shard) {
    const std::int64_t number = work.held == nullptr ? shard : work.held[shard];
    for (std::size_t i = 0; i < operands; ++i) views[i].data = pointers_[step.operands[i].at(number)];
  };
  for (std::int64_t first = 0; first < work.shards; first += work.wave) {
    const std::int64_t shards = std::min(work.wave, work.shards - first);
    const auto scratch_of = [&](std::int64_t shard) {
      return scratch + static_cast<std::size_t>(shard - first) * work.scratch_stride;
    };
    const bool is_small = step.bytes <= kInlineKernelBytes || shards * work.tiles == 1;
    const bool is_there = work.copied >= 0 && lies_in_result(step, work, first, shards);
    if (!is_small && !is_there) {
      const std::int64_t ranges = work.merges ? 1 : kRangesPerThread;
      for_each_range(shards * work.tiles, ranges, [&](std::int64_t begin, std::int64_t end) {
        const profiler::ProfileScope event(profiler::Category::kKernel, step.eqn->op->name,
                                           {.shard = first + begin / work.tiles, .tile = begin % work.tiles});
        // Kernels that merge tiles get those of all shards at once, others one shard after the other.
        const std::int64_t at_once = work.merges ? (end - 1) / work.tiles - begin / work.tiles + 1 : 1;
        boost::container::small_vector<TensorView, 6> views(static_cast<std::size_t>(at_once) * operands);
        boost::container::small_vector<ShardTiles, 1> tiles;
        const KernelStep::Variant* viewed = nullptr;
        for (std::int64_t i = begin; i < end;) {
          const std::int64_t shard = first + i / work.tiles;
          const KernelStep::Variant& variant = work.variant(shard);
          TensorView* const own = views.data() + tiles.size() * operands;
          if (work.merges || viewed != &variant) std::copy_n(views_.data() + variant.first_view, operands, own);
          viewed = &variant;
          look(own, shard);
          const std::span<const TensorView> all(own, operands);
          const std::int64_t tile = i % work.tiles;
          const std::int64_t last = std::min(tile + end - i, work.tiles);
          const ShardTiles of_shard{all.first(inputs), all.subspan(inputs), scratch_of(shard), tile,
                                    std::min(last, variant.work.tiles)};
          if (work.merges) {
            tiles.push_back(of_shard);
          } else {
            work.kernel->run_tiles(of_shard.inputs, of_shard.outputs, of_shard.scratch, of_shard.begin, of_shard.end);
          }
          i += last - tile;
        }
        if (work.merges) work.kernel->run_shards(tiles);
      });
    }
    const auto finish = [&](std::int64_t shard, TensorView* views) {
      const KernelStep::Variant& variant = work.variant(shard);
      look(views, shard);
      const std::span<const TensorView> all(views, operands);
      if (is_small && !is_there) {
        work.kernel->run_tiles(all.first(inputs), all.subspan(inputs), scratch_of(shard), 0, variant.work.tiles);
      }
      work.kernel->finish(all.first(inputs), all.subspan(inputs), scratch_of(shard));
    };
    // Of a few shards each may be finished by all threads.
    if (work.finishes_long && shards >= ThreadPool::shared().thread_count() && step.bytes > kInlineKernelBytes) {
      for_each_range(shards, kRangesPerThread, [&](std::int64_t begin, std::int64_t end) {
        boost::container::small_vector<TensorView, 6> views(operands);
        for (std::int64_t shard = first + begin; shard < first + end; ++shard) {
          std::copy_n(views_.data() + work.variant(shard).first_view, operands, views.data());
          finish(shard, views.data());
        }
      });
      continue;
    }
    for (std::int64_t shard = first; shard < first + shards; ++shard) {
      finish(shard, views_.data() + work.variant(shard).first_view);
    }
  }
}

}  // namespace shoal
