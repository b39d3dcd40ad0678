#include "backend/cpu/loops/routine_interpreter.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/scalar/interpret.h"

namespace shoal::cpu {
namespace {

// Steps of loops within a trip of the outermost one, after which it is asked whether to leave.
constexpr std::int64_t kStepsUntilAsked = 1 << 17;

struct alignas(16) RoutineSlot {
  std::array<std::byte, 16> bytes;
};

struct RoutineInstruction {
  enum class Kind : std::uint8_t {
    kApply,        // Operands to `result`.
    kLoad,         // The element of array `number` at the first operand, to `result`.
    kStore,        // The second operand to there, where the third one holds; or the operand is -1.
    kCopy,         // The first operand to `result`.
    kJump,         // To `target`.
    kBranch,       // To one of the `number` jumps that follow, by the first operand.
    kLeave,        // To `target`, unless the first operand is less than the second one.
    kLeaveUnless,  // To `target`, unless the first operand holds.
    kCount,        // One more trip: of the first operand.
    kGoRound,      // The same in loops within others, after `number` steps: it may be asked whether to leave.
    kBeginRow,     // Arrays move to the trip that the first operand says.
    kEndRows,      // The first operand says how many trips there were.
  };
  Kind kind;
  std::uint8_t size = 0;  // Of an element, in bytes.
  int number = 0;
  int result = 0;
  std::array<int, 3> operands = {-1, -1, -1};
  std::size_t target = 0;
  scalar::ElementFunction function = nullptr;
};

// Turns blocks into instructions, which follow each other.
class RoutinePlanner {
 public:
  explicit RoutinePlanner(const Routine& routine) : routine_(routine), slots_(static_cast<int>(routine.values.size())) {
    rows_ = slots_++;
    write(routine.block);
  }

  std::vector<RoutineInstruction> take() { return std::move(instructions_); }
  int slots() const { return slots_; }
  int rows() const { return rows_; }

 private:
  RoutineInstruction& add(RoutineInstruction instruction) { return instructions_.emplace_back(instruction); }
  std::size_t here() const { return instructions_.size(); }
  Dtype dtype_of(int value) const { return routine_.values[static_cast<std::size_t>(value)]; }
  std::uint8_t size_of_array(int array) const {
    return static_cast<std::uint8_t>(size_of(routine_.arrays[static_cast<std::size_t>(array)].dtype));
  }

  void copy(int from, int to) {
    add({.kind = RoutineInstruction::Kind::kCopy, .result = to, .operands = {from, -1, -1}});
  }

  void write(const Routine::Block& block) {
    for (const Routine::Step& step : block.steps) {
      std::visit([&](const auto& one) { write(one); }, step);
    }
  }

  void write(const Routine::Operation& step) {
    const scalar::Node& node = step.node;
    const Dtype from = node.operands[0] < 0 ? node.dtype : dtype_of(node.operands[0]);
    const scalar::ElementFunction function = scalar::element_function(node.core, node.dtype, from);
    SHOAL_CHECK(function != nullptr, "a routine applies an operation to a dtype on which it is not defined");
    add({.kind = RoutineInstruction::Kind::kApply,
         .result = step.value,
         .operands = node.operands,
         .function = function});
  }

  void write(const Routine::Load& step) {
    add({.kind = RoutineInstruction::Kind::kLoad,
         .size = size_of_array(step.array),
         .number = step.array,
         .result = step.value,
         .operands = {step.index, -1, -1}});
  }

  void write(const Routine::Store& step) {
    add({.kind = RoutineInstruction::Kind::kStore,
         .size = size_of_array(step.array),
         .number = step.array,
         .operands = {step.index, step.stored, step.condition}});
  }

  void write(const Routine::Branch& step) {
    add({.kind = RoutineInstruction::Kind::kBranch,
         .number = static_cast<int>(step.ways.size()),
         .operands = {step.index, -1, -1}});
    const std::size_t first = here();
    for (std::size_t way = 0; way < step.ways.size(); ++way) add({.kind = RoutineInstruction::Kind::kJump});
    std::vector<std::size_t> ends;
    for (std::size_t way = 0; way < step.ways.size(); ++way) {
      instructions_[first + way].target = here();
      const Routine::Block& block = step.ways[way];
      write(block);
      for (std::size_t k = 0; k < step.values.size(); ++k) copy(block.results[k], step.values[k]);
      ends.push_back(here());
      add({.kind = RoutineInstruction::Kind::kJump});
    }
    for (const std::size_t end : ends) instructions_[end].target = here();
  }

  void write(const Routine::Repeat& step) {
    const bool is_outermost = step.trips == Routine::Repeat::kRows;
    for (std::size_t k = 0; k < step.values.size(); ++k) copy(step.initial[k], step.values[k]);
    copy(zero(), step.trip);
    const std::size_t head = here();
    std::vector<std::size_t> exits;
    if (step.trips != Routine::Repeat::kAnyNumber) {
      exits.push_back(here());
      add({.kind = RoutineInstruction::Kind::kLeave, .operands = {step.trip, is_outermost ? rows_ : step.trips, -1}});
    }
    if (is_outermost) add({.kind = RoutineInstruction::Kind::kBeginRow, .operands = {step.trip, -1, -1}});
    if (step.asks()) {
      write(step.blocks.front());
      exits.push_back(here());
      add({.kind = RoutineInstruction::Kind::kLeaveUnless, .operands = {step.blocks.front().results[0], -1, -1}});
    }
    const Routine::Block& body = step.blocks.back();
    write(body);
    // What is given may be a value that is replaced.
    std::vector<std::pair<int, int>> moved;
    for (std::size_t k = 0; k < step.values.size(); ++k) {
      if (body.results[k] == step.values[k]) continue;
      moved.emplace_back(slots_++, step.values[k]);
      copy(body.results[k], moved.back().first);
    }
    for (const auto& [from, to] : moved) copy(from, to);
    add({.kind = is_outermost ? RoutineInstruction::Kind::kCount : RoutineInstruction::Kind::kGoRound,
         .number = steps_of_trip(step),
         .operands = {step.trip, -1, -1},
         .target = head});
    for (const std::size_t exit : exits) instructions_[exit].target = here();
    if (is_outermost) add({.kind = RoutineInstruction::Kind::kEndRows, .operands = {step.trip, -1, -1}});
  }

  // A slot that nobody writes to.
  int zero() {
    if (zero_ < 0) zero_ = slots_++;
    return zero_;
  }

  const Routine& routine_;
  std::vector<RoutineInstruction> instructions_;
  int slots_;
  int rows_;
  int zero_ = -1;
};

void copy_routine_element(std::byte* to, const std::byte* from, std::uint8_t size) {
  switch (size) {
    case 1:
      *to = *from;
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    default:
      std::memcpy(to, from, 16);
  }
}

class RoutineInterpreter final : public LoopRunner {
 public:
  explicit RoutineInterpreter(const Routine& routine) : arrays_(routine.arrays) {
    RoutinePlanner planner(routine);
    rows_ = planner.rows();
    slots_.resize(static_cast<std::size_t>(planner.slots()));
    for (const Routine::Constant& constant : routine.constants) {
      std::memcpy(slots_[static_cast<std::size_t>(constant.value)].bytes.data(), &constant.bits, sizeof constant.bits);
    }
    instructions_ = planner.take();
  }

  void run(const LoopArguments& arguments) const override {
    boost::container::small_vector<RoutineSlot, 128> slots(slots_.begin(), slots_.end());
    boost::container::small_vector<std::byte*, 16> bases(arguments.bases, arguments.bases + arrays_.size());
    const auto at = [&](int slot) { return slots[static_cast<std::size_t>(slot)].bytes.data(); };
    const auto number_at = [&](int slot) -> std::int64_t& { return *reinterpret_cast<std::int64_t*>(at(slot)); };
    const auto element_at = [&](const RoutineInstruction& one) {
      const int index = one.operands[0];
      return bases[static_cast<std::size_t>(one.number)] + (index < 0 ? 0 : number_at(index) * one.size);
    };
    number_at(rows_) = arguments.rows;
    std::int64_t left = kStepsUntilAsked;
    const RoutineInstruction* const first = instructions_.data();
    const RoutineInstruction* const end = first + instructions_.size();
    for (const RoutineInstruction* next = first; next != end;) {
      const RoutineInstruction& one = *next++;
      switch (one.kind) {
        case RoutineInstruction::Kind::kApply: {
          const std::array<const void*, 3> operands = {at(one.operands[0]), at(std::max(one.operands[1], 0)),
                                                       at(std::max(one.operands[2], 0))};
          one.function(operands.data(), at(one.result));
          break;
        }
        case RoutineInstruction::Kind::kLoad:
          copy_routine_element(at(one.result), element_at(one), one.size);
          break;
        case RoutineInstruction::Kind::kStore:
          if (one.operands[2] >= 0 && at(one.operands[2])[0] == std::byte{0}) break;
          copy_routine_element(element_at(one), at(one.operands[1]), one.size);
          break;
        case RoutineInstruction::Kind::kCopy:
          slots[static_cast<std::size_t>(one.result)] = slots[static_cast<std::size_t>(one.operands[0])];
          break;
        case RoutineInstruction::Kind::kJump:
          next = first + one.target;
          break;
        case RoutineInstruction::Kind::kBranch: {
          std::int32_t way = 0;
          std::memcpy(&way, at(one.operands[0]), sizeof way);
          next += std::clamp(way, 0, one.number - 1);
          break;
        }
        case RoutineInstruction::Kind::kLeave:
          if (number_at(one.operands[0]) >= number_at(one.operands[1])) next = first + one.target;
          break;
        case RoutineInstruction::Kind::kLeaveUnless:
          if (at(one.operands[0])[0] == std::byte{0}) next = first + one.target;
          break;
        case RoutineInstruction::Kind::kGoRound:
          left -= one.number;
          if (left <= 0) {
            if (arguments.is_to_end != nullptr && (*arguments.is_to_end)()) return;
            left = kStepsUntilAsked;
          }
          [[fallthrough]];
        case RoutineInstruction::Kind::kCount:
          ++number_at(one.operands[0]);
          next = first + one.target;
          break;
        case RoutineInstruction::Kind::kBeginRow:
          for (std::size_t a = 0; a < arrays_.size(); ++a) {
            if (arrays_[a].moves) bases[a] = arguments.bases[a] + number_at(one.operands[0]) * arguments.row_strides[a];
          }
          break;
        case RoutineInstruction::Kind::kEndRows:
          *arguments.rows_done = number_at(one.operands[0]);
          break;
      }
    }
  }

 private:
  std::vector<Routine::Array> arrays_;
  std::vector<RoutineInstruction> instructions_;
  std::vector<RoutineSlot> slots_ = {};  // As they are at the beginning.
  int rows_ = 0;
};

}  // namespace

std::unique_ptr<LoopRunner> interpret_routine(const Routine& routine) {
  return std::make_unique<RoutineInterpreter>(routine);
}

}  // namespace shoal::cpu
