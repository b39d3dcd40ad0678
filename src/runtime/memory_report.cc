#include "runtime/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "core/host_allocator.h"
#include "runtime/byte_counts.h"

namespace shoal {
namespace {

// Buffers of few bytes have their record in the same block.
constexpr std::size_t kSmallBuffer = std::size_t{16} << 10;
constexpr std::size_t kBufferRecord = 64;
// That a message says are held.
constexpr std::size_t kValuesToName = 3;

// What the buffers of a storage take together.
std::size_t buffer_bytes(const Schedule& schedule, const MemoryPlan::Storage& storage) {
  const ShardShapes& shapes = schedule.shapes_of(storage.owner);
  std::size_t bytes = 0;
  for (std::int64_t piece = 0; piece < storage.pieces; ++piece) {
    if (!schedule.is_held(storage, piece)) continue;
    const std::size_t elements = shapes.bytes(piece);
    bytes = plus(bytes, HostAllocator::block_size(elements <= kSmallBuffer ? elements + kBufferRecord : elements));
  }
  return bytes;
}

std::size_t block_of(std::size_t arena) { return arena == 0 ? 0 : HostAllocator::block_size(arena); }

}  // namespace

std::size_t argument_bytes(const Schedule& schedule) {
  std::size_t bytes = 0;
  for (const MemoryPlan::Storage& storage : schedule.plan.storages) {
    if (storage.kind == MemoryPlan::Kind::kInput) bytes = plus(bytes, buffer_bytes(schedule, storage));
  }
  return bytes;
}

std::size_t output_bytes(const Schedule& schedule) {
  std::size_t bytes = 0;
  for (const MemoryPlan::Storage& storage : schedule.plan.storages) {
    const bool is_made = storage.kind == MemoryPlan::Kind::kOutput && storage.donor < 0;
    if (is_made) bytes = plus(bytes, buffer_bytes(schedule, storage));
  }
  return bytes;
}

std::size_t body_arena_bytes(const Schedule& schedule) {
  std::size_t bytes = 0;
  for (const Step& step : schedule.steps) {
    const auto* const control = std::get_if<ControlStep>(&step.work);
    if (control == nullptr) continue;
    for (const ControlStep::Body& body : control->bodies) {
      const auto& arenas = body.schedule->plan.arena_bytes;
      for (std::size_t kind = 1; kind < arenas.size(); ++kind) bytes = plus(bytes, block_of(arenas[kind]));
      bytes = plus(bytes, body_arena_bytes(*body.schedule));
    }
  }
  return bytes;
}

std::size_t launch_bytes(const Schedule& schedule) {
  std::size_t bytes = plus(output_bytes(schedule), body_arena_bytes(schedule));
  for (const std::size_t arena : schedule.plan.arena_bytes) bytes = plus(bytes, block_of(arena));
  return bytes;
}

std::vector<HeldStorage> held_storages(const Schedule& schedule, std::int32_t number) {
  std::vector<HeldStorage> held;
  for (const MemoryPlan::Storage& storage : schedule.plan.storages) {
    const bool is_made = storage.kind == MemoryPlan::Kind::kArena || storage.kind == MemoryPlan::Kind::kOutput;
    if (!is_made || number < storage.birth || storage.death < number) continue;
    const bool is_range = storage.kind == MemoryPlan::Kind::kArena;
    held.push_back({&storage, is_range ? times(storage.stride, static_cast<std::size_t>(storage.held))
                                       : buffer_bytes(schedule, storage)});
  }
  std::ranges::stable_sort(held, [](const HeldStorage& a, const HeldStorage& b) { return a.bytes > b.bytes; });
  return held;
}

std::string described(const Schedule& schedule, ValueId id) {
  const auto makes = [&](const Eqn& eqn) { return std::ranges::count(eqn.outputs, id) != 0; };
  const auto maker = std::ranges::find_if(schedule.graph.eqns, makes);
  return fmt::format("{} of {}", to_string(schedule.graph.type(id)), described(*maker));
}

std::string described(const Eqn& eqn) {
  const std::string line = to_string(eqn.where);
  if (line.empty()) return std::string(eqn.op->name);
  return fmt::format("{} {} {}", eqn.op->name, eqn.where.is_derived ? "in the derivative of" : "at", line);
}

std::string held_at(const Schedule& schedule, std::int32_t number) {
  const std::vector<HeldStorage> held = held_storages(schedule, number);
  std::string text;
  for (std::size_t i = 0; i < std::min(held.size(), kValuesToName); ++i) {
    text += fmt::format("{}{} with {}", i == 0 ? "; the largest values here: " : ", ",
                        described(schedule, held[i].storage->owner), held[i].bytes);
  }
  return text;
}

}  // namespace shoal
