#include "backend/cpu/loops/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/loops/primitives.h"
#include "base/cache_line.h"
#include "base/check.h"
#include "core/dispatch.h"
#include "ops/reduction.h"
#include "ops/scalar/core_ops.h"

namespace shoal::cpu {
namespace {

using scalar::Core;
using scalar::Node;

// The table of bases: constants, the memory of a run, the arrays, the temporaries.
constexpr std::uint16_t kConstants = 0;
constexpr std::uint16_t kMemory = 1;
constexpr std::uint16_t kFirstArray = 2;
// While a loop is planned: a register, whose number is the offset. It gets its place in memory at the end.
constexpr std::uint16_t kRegister = 0xffff;

constexpr std::size_t kBlockBytes = 16384;   // Of all registers: half of a small first-level cache.
constexpr std::int64_t kMostColumns = 2048;  // Of a block; more hide no more of the cost of an instruction.
constexpr std::size_t kStackBytes = 32768;   // The memory of most runs is on the stack.

struct alignas(kCacheLine) Line {
  std::array<std::byte, kCacheLine> bytes;
};

std::size_t lines_of(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine; }

// An array of which a phase takes the element of the row from the memory of the run.
struct UniformResult {
  std::size_t array;
  std::uint32_t offset;
  std::size_t size;  // In bytes.
};

// An array of which a phase reads the element of the row.
struct UniformInput {
  std::size_t array;
  bool counts;
  std::size_t size;
  std::uint32_t staging = 0;  // Where the number is, of one that counts.
};

// An array that a phase steps through.
struct SteppedArray {
  std::size_t array;
  Access access;
  bool counts;
  bool is_read;
  bool is_written;
  std::size_t size;
  std::uint32_t staging;  // Where elements are that cannot be worked on in place: of strided arrays and partial chunks.
};

struct Step {
  bool once;
  std::vector<UniformInput> uniform;
  std::vector<Instruction> before;  // What is the same for all columns.
  std::vector<UniformResult> stored;
  std::vector<SteppedArray> arrays;
  std::vector<std::pair<std::size_t, std::size_t>> temporaries;  // Numbers of those in use, and bytes of an element.
  std::vector<Instruction> for_columns;
  std::vector<Instruction> after;  // The last step of reductions.
};

struct Plan {
  std::vector<Step> steps;
  std::vector<Line> constants;
  std::size_t bytes = 0;              // Of the memory of a run; it begins with the table of bases.
  std::int64_t block = kMostColumns;  // Columns.
  std::size_t first_temporary = 0;
  std::optional<std::uint32_t> goes_on = {};  // Where the bool lies that says so.
};

// ---- Planning.

// Hands out the constants and the memory of a run, except for registers.
class Memory {
 public:
  // A chunk of elements of `size` bytes.
  std::uint32_t chunk(std::size_t size) { return allocate(size * kChunk); }

  std::uint32_t allocate(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += lines_of(bytes) * kCacheLine;
    SHOAL_CHECK(bytes_ <= UINT32_MAX, "a loop with too many values");
    return static_cast<std::uint32_t>(offset);
  }

  // The same element kChunk times; its representation is the low bytes of `bits`.
  Place constant(std::uint64_t bits, std::size_t size) {
    for (const Constant& known : constants_) {
      if (known.bits == bits && known.size == size) return known.place;
    }
    const Place place = {.base = kConstants, .step = 0, .offset = constants_end_};
    constants_.push_back({bits, size, place});
    constants_end_ += static_cast<std::uint32_t>(lines_of(size * kChunk) * kCacheLine);
    return place;
  }

  std::size_t bytes() const { return bytes_; }

  std::vector<Line> constants() const {
    std::vector<Line> lines(lines_of(constants_end_));
    for (const Constant& constant : constants_) {
      std::byte* chunk = reinterpret_cast<std::byte*>(lines.data()) + constant.place.offset;
      for (std::size_t i = 0; i < kChunk; ++i) std::memcpy(chunk + i * constant.size, &constant.bits, constant.size);
    }
    return lines;
  }

 private:
  struct Constant {
    std::uint64_t bits;
    std::size_t size;
    Place place;
  };
  std::vector<Constant> constants_;
  std::uint32_t constants_end_ = 0;
  std::size_t bytes_ = 0;
};

bool is_half(Dtype dtype) { return dtype == Dtype::kF16 || dtype == Dtype::kBF16; }

bool is_external(const Place& place) { return place.base >= kFirstArray && place.base != kRegister; }

// Turns the nodes of a phase into instructions on registers.
class PhasePlanner {
 public:
  PhasePlanner(const Loop& loop, const Phase& phase, std::span<const std::uint32_t> scalars, Memory& memory)
      : loop_(loop), phase_(phase), scalars_(scalars), memory_(memory) {}

  Step plan() {
    step_.once = phase_.once;
    for (const Node& node : phase_.nodes) values_.push_back({lower(node), std::nullopt});
    for (const LoopResult& result : phase_.results) finish(result);
    for (const Output& output : outputs_) write(output);
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
      join_polynomials(dtype);
      join_pairs(dtype);
    }
    assign_registers();
    return std::move(step_);
  }

  std::size_t num_registers() const { return num_assigned_; }
  std::size_t register_size() const { return register_sizes_.empty() ? 0 : *std::ranges::max_element(register_sizes_); }

 private:
  struct Value {
    Place place;
    std::optional<Place> widened;  // To f32, of f16 and bf16.
  };

  struct Output {
    Place value;
    Place destination;
    Dtype dtype;
  };

  const Node& node(int id) const { return phase_.nodes[static_cast<std::size_t>(id)]; }
  Place place_of(int id) const { return values_[static_cast<std::size_t>(id)].place; }

  Place place_of_array(std::size_t index) const {
    return {.base = static_cast<std::uint16_t>(kFirstArray + index), .step = 1, .offset = 0};
  }
  Place place_of_temporary(std::size_t index) {
    const std::pair<std::size_t, std::size_t> used = {index, size_of(loop_.temporaries[index])};
    if (std::ranges::find(step_.temporaries, used) == step_.temporaries.end()) step_.temporaries.push_back(used);
    return place_of_array(loop_.arrays.size() + index);
  }
  Place place_of_scalar(std::size_t index) const { return {.base = kMemory, .step = 0, .offset = scalars_[index]}; }

  SteppedArray& stepped(std::size_t index) {
    for (SteppedArray& known : step_.arrays) {
      if (known.array == index) return known;
    }
    const LoopArray& array = loop_.arrays[index];
    step_.arrays.push_back({index, array.access, array.counts, false, false, size_of(array.dtype), 0});
    return step_.arrays.back();
  }

  Place lower_input(const LoopInput& input) {
    const auto index = static_cast<std::size_t>(input.index);
    switch (input.kind) {
      case LoopInput::Kind::kArray: {
        const LoopArray& array = loop_.arrays[index];
        if (array.access != Access::kUniform) {
          stepped(index).is_read = true;
          return place_of_array(index);
        }
        step_.uniform.push_back({index, array.counts, size_of(array.dtype)});
        Place element = place_of_array(index);
        element.step = 0;
        return emit(find_spread(size_of(array.dtype)), size_of(array.dtype), std::array{element});
      }
      case LoopInput::Kind::kTemporary:
        return place_of_temporary(index);
      case LoopInput::Kind::kScalar:
        return place_of_scalar(index);
    }
    throw InternalError("unknown kind of input");
  }

  Place emit(Core core, Dtype result, Dtype from, std::span<const Place> operands) {
    const Primitive primitive = find_primitive(core, result, from);
    SHOAL_CHECK(primitive != nullptr,
                fmt::format("a loop applies {} to {}", scalar::name_of(core), short_name_of(from)));
    return emit(primitive, size_of(result), operands);
  }

  // What is the same for all columns is computed before them.
  Place emit(Primitive primitive, std::size_t result_size, std::span<const Place> operands) {
    const bool is_uniform = std::ranges::none_of(operands, [](const Place& operand) { return operand.step != 0; });
    Instruction instruction = {primitive, {}, {}};
    std::ranges::copy(operands, instruction.operands.begin());
    instruction.result = is_uniform ? Place{.base = kMemory, .step = 0, .offset = memory_.chunk(result_size)}
                                    : new_register(result_size);
    (is_uniform ? step_.before : step_.for_columns).push_back(instruction);
    return instruction.result;
  }

  Place new_register(std::size_t size) {
    register_sizes_.push_back(size);
    return {.base = kRegister, .step = 1, .offset = static_cast<std::uint32_t>(register_sizes_.size() - 1)};
  }

  // The value of an operand, in f32 if it is a smaller float.
  Place wide_place_of(int id) {
    if (!is_half(node(id).dtype)) return place_of(id);
    Value& value = values_[static_cast<std::size_t>(id)];
    if (!value.widened) {
      if (node(id).core == Core::kConstant) {
        value.widened = memory_.constant(widened_bits(node(id)), size_of(Dtype::kF32));
      } else {
        value.widened = emit(Core::kConvert, Dtype::kF32, node(id).dtype, std::array{value.place});
      }
    }
    return *value.widened;
  }

  static std::uint64_t widened_bits(const Node& constant) {
    const auto bits = static_cast<std::uint16_t>(constant.bits);
    return std::bit_cast<std::uint32_t>(constant.dtype == Dtype::kF16
                                            ? static_cast<float>(std::bit_cast<float16_t>(bits))
                                            : static_cast<float>(std::bit_cast<bfloat16_t>(bits)));
  }

  Place lower(const Node& node) {
    switch (node.core) {
      case Core::kInput:
        return lower_input(phase_.inputs[static_cast<std::size_t>(node.bits)]);
      case Core::kConstant:
        return memory_.constant(node.bits, size_of(node.dtype));
      case Core::kBitcast:
      case Core::kLast:
        return place_of(node.operands[0]);
      case Core::kConvert:
        return lower_convert(node);
      case Core::kCarried:
        return lower_carried(node);
      case Core::kNext:
        // Nothing reads what is carried after the select that gives the next one.
        instructions().push_back({copying(node.dtype), place_of(node.operands[0]), {place_of(node.operands[1])}});
        return place_of(node.operands[0]);
      case Core::kRepeat:
        instructions().push_back({nullptr, {}, {place_of(node.operands[0])}, 1, instructions().size() - trip_});
        return place_of(node.operands[0]);
      default:
        return lower_operation(node);
    }
  }

  std::vector<Instruction>& instructions() { return phase_.once ? step_.before : step_.for_columns; }
  static Primitive copying(Dtype dtype) { return find_primitive(Core::kBitcast, dtype, dtype); }

  // A copy of the first value, even if that is uniform: the next ones may differ by column.
  Place lower_carried(const Node& node) {
    const std::size_t size = size_of(node.dtype);
    const Place place =
        phase_.once ? Place{.base = kMemory, .step = 0, .offset = memory_.chunk(size)} : new_register(size);
    instructions().push_back({copying(node.dtype), place, {place_of(node.operands[0])}});
    trip_ = instructions().size();
    return place;
  }

  Place lower_convert(const Node& node) {
    const int operand = node.operands[0];
    const Dtype from = this->node(operand).dtype;
    if (node.dtype == from) return place_of(operand);
    if (!is_half(from)) return emit(Core::kConvert, node.dtype, from, std::array{place_of(operand)});
    const Place wide = wide_place_of(operand);
    return node.dtype == Dtype::kF32 ? wide : emit(Core::kConvert, node.dtype, Dtype::kF32, std::array{wide});
  }

  Place lower_operation(const Node& node) {
    const bool is_select = node.core == Core::kSelect;
    const Dtype from = this->node(node.operands[is_select ? 1 : 0]).dtype;
    // These look at the bits of small floats; all others compute in f32 and round.
    const bool of_bits = is_select || node.core == Core::kNeg || node.core == Core::kAbs;
    const bool is_widened = is_half(from) && !of_bits;
    std::array<Place, 3> operands;
    const auto arity = static_cast<std::size_t>(scalar::arity_of(node.core));
    for (std::size_t i = 0; i < arity; ++i) {
      operands[i] = is_widened ? wide_place_of(node.operands[i]) : place_of(node.operands[i]);
    }
    const std::span<const Place> used = std::span(operands).first(arity);
    if (!is_widened) return emit(node.core, node.dtype, from, used);
    if (!is_half(node.dtype)) return emit(node.core, node.dtype, Dtype::kF32, used);
    const Place wide = emit(node.core, Dtype::kF32, Dtype::kF32, used);
    return emit(Core::kConvert, node.dtype, Dtype::kF32, std::array{wide});
  }

  void finish(const LoopResult& result) {
    const auto index = static_cast<std::size_t>(result.index);
    const Place value = place_of(result.node);
    const Dtype dtype = node(result.node).dtype;
    switch (result.kind) {
      case LoopResult::Kind::kArray:
        if (phase_.once) {
          step_.stored.push_back(
              {index, value.base == kMemory ? value.offset : copy(value, dtype).offset, size_of(dtype)});
          return;
        }
        stepped(index).is_written = true;
        return output(value, dtype, place_of_array(index));
      case LoopResult::Kind::kTemporary:
        return output(value, dtype, place_of_temporary(index));
      case LoopResult::Kind::kScalar:
        step_.before.push_back({find_primitive(Core::kBitcast, dtype, dtype), place_of_scalar(index), {value}});
        return;
      case LoopResult::Kind::kReduce:
        return reduce(value, dtype, result);
    }
  }

  // Another chunk with a uniform value.
  Place copy(const Place& value, Dtype dtype) { return emit(Core::kBitcast, dtype, dtype, std::array{value}); }

  void reduce(const Place& value, Dtype dtype, const LoopResult& result) {
    const Place accumulators = copy(memory_.constant(neutral_bits(result.reduction, dtype), size_of(dtype)), dtype);
    step_.for_columns.push_back({find_reduction(result.reduction, dtype), accumulators, {value}});
    step_.after.push_back({find_last_reduction(result.reduction, dtype),
                           place_of_scalar(static_cast<std::size_t>(result.index)),
                           {accumulators}});
    SHOAL_CHECK(step_.after.back().primitive != nullptr, "a loop reduces a dtype in a way that is not defined");
  }

  // An array or a temporary gets the value, after all instructions, or by the one that computes it.
  //
  // An array that is written may be one that is read. So what is written comes after all that is read: an array that
  // is copied first goes to a register.
  void output(Place value, Dtype dtype, const Place& destination) {
    if (is_external(value)) {
      const Place loaded = new_register(size_of(dtype));
      step_.for_columns.insert(step_.for_columns.begin(),
                               {find_primitive(Core::kBitcast, dtype, dtype), loaded, {value}});
      value = loaded;
    }
    outputs_.push_back({value, destination, dtype});
  }

  void write(const Output& output) {
    const auto computes = [&](const Instruction& instruction) { return instruction.result == output.value; };
    const auto reads_external = [](const Instruction& instruction) {
      return std::ranges::any_of(instruction.operands, is_external);
    };
    std::vector<Instruction>& instructions = step_.for_columns;
    const auto computed = std::ranges::find_if(instructions, computes);
    if (output.value.base == kRegister && std::none_of(computed + 1, instructions.end(), reads_external)) {
      const auto rename = [&](Place& place) {
        if (place == output.value) place = output.destination;
      };
      for (auto it = computed; it != instructions.end(); ++it) {
        rename(it->result);
        std::ranges::for_each(it->operands, rename);
      }
      for (Output& other : outputs_) {
        if (&other != &output) rename(other.value);
      }
      return;
    }
    const Primitive primitive = find_primitive(Core::kBitcast, output.dtype, output.dtype);
    instructions.push_back({primitive, output.destination, {output.value}});
  }

  bool is_used_once(const Place& value) const {
    std::ptrdiff_t uses = 0;
    for (const Instruction& instruction : step_.for_columns) uses += std::ranges::count(instruction.operands, value);
    return value.base == kRegister && uses == 1;
  }

  // A value that has one use, in the instruction after it, is computed there: memory is what instructions wait for.
  void join_pairs(Dtype dtype) {
    constexpr std::array kCores = {Core::kAdd, Core::kSub, Core::kMul};
    const auto core_of = [&](const Instruction& instruction) -> std::optional<Core> {
      for (const Core core : kCores) {
        if (instruction.primitive == find_primitive(core, dtype, dtype)) return core;
      }
      return std::nullopt;
    };
    std::vector<Instruction>& all = step_.for_columns;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const Instruction& first = all[i];
      const std::optional<Core> first_core = core_of(first);
      const std::optional<Core> second_core = core_of(all[i + 1]);
      if (!first_core || !second_core || !is_used_once(first.result)) continue;
      const bool is_reversed = all[i + 1].operands[1] == first.result;
      if (!is_reversed && all[i + 1].operands[0] != first.result) continue;
      all[i + 1].primitive = find_pair(*first_core, *second_core, is_reversed, dtype);
      all[i + 1].operands = {first.operands[0], first.operands[1], all[i + 1].operands[is_reversed ? 0 : 1]};
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::size_t k = i; k < all.size(); ++k) {
        if (all[k].back > k - i) --all[k].back;  // It goes back beyond what was taken out.
      }
    }
  }

  // A polynomial by Horner's rule is computed at once.
  void join_polynomials(Dtype dtype) {
    const Primitive fma = find_primitive(Core::kFma, dtype, dtype);
    const Primitive polynomial = find_polynomial(dtype);
    if (polynomial == nullptr) return;
    std::vector<Instruction>& all = step_.for_columns;
    const auto is_term = [&](const Instruction& instruction) {
      return instruction.primitive == fma && instruction.operands[2].step == 0;
    };
    for (std::size_t i = 0; i < all.size(); i += all[i].length) {
      if (!is_term(all[i])) continue;
      std::size_t length = 1;
      for (; i + length < all.size(); ++length) {
        const Instruction& next = all[i + length];
        const Place& value = all[i + length - 1].result;
        const bool continues = is_term(next) && next.operands[0] == value && next.operands[1] == all[i].operands[1];
        if (!continues || !is_used_once(value)) break;
      }
      if (length == 1) continue;
      all[i].primitive = polynomial;
      all[i].length = length;
    }
  }

  // Linear scan: after the last use of a value its register is free for others. For the result of that instruction,
  // too, if the elements have the same size. What a trip of an iteration reads and does not compute is needed until the
  // last one ends.
  void assign_registers() {
    constexpr std::size_t kNever = SIZE_MAX;
    std::vector<std::size_t> first_use(register_sizes_.size(), kNever);
    std::vector<std::size_t> last_use(register_sizes_.size(), kNever);
    for (std::size_t i = 0; i < step_.for_columns.size(); ++i) {
      const auto use = [&](const Place& place) {
        if (place.base != kRegister) return;
        first_use[place.offset] = std::min(first_use[place.offset], i);
        last_use[place.offset] = i;
      };
      use(step_.for_columns[i].result);
      std::ranges::for_each(step_.for_columns[i].operands, use);
    }
    for (std::size_t i = 0; i < step_.for_columns.size(); ++i) {
      const std::size_t back = step_.for_columns[i].back;
      for (std::size_t value = 0; back != 0 && value < last_use.size(); ++value) {
        const bool is_read = last_use[value] >= i - back && last_use[value] < i;
        if (is_read && first_use[value] < i - back) last_use[value] = i;
      }
    }

    std::vector<std::optional<std::uint32_t>> assigned(register_sizes_.size());
    std::vector<std::uint32_t> free;
    for (std::size_t i = 0; i < step_.for_columns.size(); ++i) {
      Place& result = step_.for_columns[i].result;
      std::vector<std::uint32_t> free_later;
      for (Place& operand : step_.for_columns[i].operands) {
        if (operand.base != kRegister) continue;
        const std::size_t value = operand.offset;
        operand.offset = *assigned[value];
        if (last_use[value] != i) continue;
        last_use[value] = kNever;  // An instruction may have the operand twice.
        const bool fits = result.base == kRegister && register_sizes_[value] == register_sizes_[result.offset];
        (fits ? free : free_later).push_back(operand.offset);
      }
      if (result.base == kRegister) {
        const std::size_t value = result.offset;
        if (!assigned[value]) {  // What is carried is written by several instructions.
          if (free.empty()) free.push_back(num_assigned_++);
          assigned[value] = free.back();
          free.pop_back();
        }
        result.offset = *assigned[value];
        if (last_use[value] == i) free_later.push_back(result.offset);
      } else if (step_.for_columns[i].back != 0) {
        for (std::size_t value = 0; value < last_use.size(); ++value) {
          if (last_use[value] == i) free_later.push_back(*assigned[value]);
        }
      }
      free.insert(free.end(), free_later.begin(), free_later.end());
    }
  }

  const Loop& loop_;
  const Phase& phase_;
  std::span<const std::uint32_t> scalars_;  // Where their chunks are.
  Memory& memory_;
  std::vector<Value> values_;  // Of the nodes.
  std::vector<Output> outputs_;
  std::vector<std::size_t> register_sizes_;  // Bytes of an element, of each that was made,
  std::uint32_t num_assigned_ = 0;           // and how many there are in the end.
  std::size_t trip_ = 0;                     // The instruction with which a trip of the present iteration begins.
  Step step_;
};

Plan plan_loop(const Loop& loop) {
  Plan plan;
  plan.first_temporary = kFirstArray + loop.arrays.size();
  const std::size_t num_bases = plan.first_temporary + loop.temporaries.size();
  SHOAL_CHECK(num_bases < kRegister, "a loop over too many arrays");
  Memory memory;
  memory.allocate(num_bases * sizeof(std::byte*));
  std::vector<std::uint32_t> scalars;
  for (const Dtype dtype : loop.scalars) scalars.push_back(memory.chunk(size_of(dtype)));

  if (loop.goes_on >= 0) plan.goes_on = scalars[static_cast<std::size_t>(loop.goes_on)];

  std::size_t num_registers = 0;
  std::size_t register_size = 0;
  for (const Phase& phase : loop.phases) {
    PhasePlanner planner(loop, phase, scalars, memory);
    plan.steps.push_back(planner.plan());
    num_registers = std::max(num_registers, planner.num_registers());
    register_size = std::max(register_size, planner.register_size());
  }
  plan.constants = memory.constants();

  std::size_t bytes_per_column = num_registers * register_size;
  for (const LoopArray& array : loop.arrays) {
    if (array.access == Access::kStrided) bytes_per_column += size_of(array.dtype);
  }
  const auto columns = static_cast<std::int64_t>(kBlockBytes / std::max<std::size_t>(bytes_per_column, 1));
  plan.block = std::clamp(columns / kChunk * kChunk, kChunk, kMostColumns);

  std::vector<std::uint32_t> staging;
  for (const LoopArray& array : loop.arrays) {
    const std::int64_t staged = array.access == Access::kStrided ? plan.block : kChunk;
    staging.push_back(memory.allocate(size_of(array.dtype) * static_cast<std::size_t>(staged)));
  }

  const std::size_t stride = register_size * static_cast<std::size_t>(plan.block);
  const std::uint32_t registers = memory.allocate(num_registers * stride);
  const auto settle = [&](Place& place) {
    if (place.base != kRegister) return;
    place.base = kMemory;
    place.offset = registers + place.offset * static_cast<std::uint32_t>(stride);
  };
  for (Step& step : plan.steps) {
    for (SteppedArray& array : step.arrays) array.staging = staging[array.array];
    for (UniformInput& input : step.uniform) input.staging = staging[input.array];
    for (Instruction& instruction : step.for_columns) {
      settle(instruction.result);
      std::ranges::for_each(instruction.operands, settle);
    }
  }
  plan.bytes = memory.bytes();
  return plan;
}

// ---- Running.

// Calls f with the size of an element, in bytes, as a constant.
template <class F>
void with_size(std::size_t size, F f) {
  switch (size) {
    case 1:
      return f(std::integral_constant<std::size_t, 1>());
    case 2:
      return f(std::integral_constant<std::size_t, 2>());
    case 4:
      return f(std::integral_constant<std::size_t, 4>());
    case 8:
      return f(std::integral_constant<std::size_t, 8>());
    default:
      return f(std::integral_constant<std::size_t, 16>());
  }
}

// Elements `stride` bytes apart, to or from dense ones.
void gather(const std::byte* from, std::int64_t stride, std::size_t size, std::byte* to, std::int64_t count) {
  with_size(size, [&](auto constant_size) {
    for (std::int64_t i = 0; i < count; ++i, from += stride, to += constant_size) std::memcpy(to, from, constant_size);
  });
}
void scatter(const std::byte* from, std::size_t size, std::byte* to, std::int64_t stride, std::int64_t count) {
  with_size(size, [&](auto constant_size) {
    for (std::int64_t i = 0; i < count; ++i, from += constant_size, to += stride) std::memcpy(to, from, constant_size);
  });
}

// The numbers of an array that counts, which gets them as its memory.
std::byte* write_counts(const std::byte* from, std::int64_t stride, std::size_t size, std::int64_t count,
                        std::byte* to) {
  const auto write = [&]<class Number>(Number) {
    auto* const numbers = reinterpret_cast<Number*>(to);
    const std::int64_t first = count_at(from);
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<Number>(first + i * stride);
  };
  switch (size) {
    case 1:
      write(std::uint8_t{});
      break;
    case 2:
      write(std::uint16_t{});
      break;
    case 4:
      write(std::uint32_t{});
      break;
    default:
      write(std::uint64_t{});
  }
  return to;
}

void execute(const std::vector<Instruction>& instructions, std::byte* const* bases, std::int64_t count) {
  const Instruction* const end = instructions.data() + instructions.size();
  for (const Instruction* next = instructions.data(); next != end;) {
    if (next->back == 0) {
      next->primitive(*next, bases, count);
      next += next->length;
    } else {
      const Place& place = next->operands[0];
      const auto* const goes_on = reinterpret_cast<const bool*>(bases[place.base] + place.offset);
      const bool is_done = std::none_of(goes_on, goes_on + count, [](bool value) { return value; });
      next = is_done ? next + 1 : next - next->back;
    }
  }
}

class Interpreter final : public LoopRunner {
 public:
  explicit Interpreter(Plan plan) : plan_(std::move(plan)) {}

  void run(const LoopArguments& arguments) const override {
    if (plan_.bytes <= kStackBytes) {
      alignas(kCacheLine) std::byte memory[kStackBytes];  // Not initialised.
      run(arguments, memory);
    } else {
      std::vector<Line> memory(lines_of(plan_.bytes));
      run(arguments, memory.data()->bytes.data());
    }
  }

 private:
  void run(const LoopArguments& arguments, std::byte* memory) const {
    auto* const bases = reinterpret_cast<std::byte**>(memory);
    // Nothing writes to constants.
    bases[kConstants] = reinterpret_cast<std::byte*>(const_cast<Line*>(plan_.constants.data()));
    bases[kMemory] = memory;
    for (std::int64_t row = 0; row < arguments.rows; ++row) {
      for (const Step& step : plan_.steps) {
        run(step, arguments, row, bases);
        if (!plan_.goes_on || &step != plan_.steps.data() || memory[*plan_.goes_on] != std::byte{0}) continue;
        *arguments.rows_done = row;
        return;
      }
    }
    if (plan_.goes_on) *arguments.rows_done = arguments.rows;
  }

  void run(const Step& step, const LoopArguments& arguments, std::int64_t row, std::byte** bases) const {
    std::byte* const memory = bases[kMemory];
    const auto address = [&](std::size_t array) { return arguments.bases[array] + row * arguments.row_strides[array]; };
    for (const UniformInput& input : step.uniform) {
      std::byte*& base = bases[kFirstArray + input.array];
      base = address(input.array);
      if (input.counts) base = write_counts(base, 0, input.size, 1, memory + input.staging);
    }
    execute(step.before, bases, kChunk);
    for (const UniformResult& uniform : step.stored) {
      std::memcpy(address(uniform.array), memory + uniform.offset, uniform.size);
    }
    if (step.once) return;

    const std::size_t scratch_step = scratch_stride(arguments.columns);
    std::int64_t count = 0;
    for (std::int64_t column = 0; column < arguments.columns; column += count) {
      const std::int64_t left = arguments.columns - column;
      const bool is_partial = left < kChunk;
      count = is_partial ? left : std::min(left / kChunk * kChunk, plan_.block);
      for (const SteppedArray& array : step.arrays) {
        std::byte* const staging = memory + array.staging;
        std::byte*& base = bases[kFirstArray + array.array];
        if (array.access == Access::kStrided) {
          const std::int64_t stride = arguments.column_strides[array.array];
          if (array.counts) {
            write_counts(address(array.array) + column * stride, stride, array.size, count, staging);
          } else if (array.is_read) {
            gather(address(array.array) + column * stride, stride, array.size, staging, count);
          }
          base = staging;
        } else {
          base = address(array.array) + static_cast<std::size_t>(column) * array.size;
          if (!is_partial) continue;
          if (array.is_read) {
            partial_copy_(base, static_cast<std::size_t>(count) * array.size, staging, kChunk * array.size);
          }
          base = staging;
        }
      }
      for (const auto& [number, size] : step.temporaries) {
        bases[plan_.first_temporary + number] =
            arguments.scratch + number * scratch_step + static_cast<std::size_t>(column) * size;
      }
      execute(step.for_columns, bases, count);
      for (const SteppedArray& array : step.arrays) {
        if (!array.is_written) continue;
        const std::byte* const staging = memory + array.staging;
        if (array.access == Access::kStrided) {
          const std::int64_t stride = arguments.column_strides[array.array];
          scatter(staging, array.size, address(array.array) + column * stride, stride, count);
        } else if (is_partial) {
          std::memcpy(address(array.array) + static_cast<std::size_t>(column) * array.size, staging,
                      static_cast<std::size_t>(count) * array.size);
        }
      }
    }
    execute(step.after, bases, kChunk);
  }

  Plan plan_;
  PartialCopy partial_copy_ = find_partial_copy();
};

}  // namespace

std::unique_ptr<LoopRunner> interpret_loop(const Loop& loop) { return std::make_unique<Interpreter>(plan_loop(loop)); }

}  // namespace shoal::cpu
