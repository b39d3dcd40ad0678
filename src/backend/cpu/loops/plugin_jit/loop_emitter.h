// A loop as an LLVM function.
//
// For each row and phase over columns, the columns are gone through in segments: all whole blocks at once, then the
// rest. The code of a block is emitted once. It reads and writes dense memory: that of the arrays themselves, or
// buffers in the frame where
//   - less than a block is left: arrays are copied to the buffers and back;
//   - an array is strided: segments are then as long as the buffers.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "backend/cpu/loops/jit_api.h"
#include "backend/cpu/loops/plugin_jit/core_emitter.h"

namespace shoal::cpu::jit {

/// How the columns of a phase are cut.
struct Blocking {
  unsigned lanes;      ///< Columns per vector.
  unsigned vectors;    ///< Vectors per iteration.
  unsigned alignment;  ///< Segments but the last have a multiple of so many columns.
  unsigned step() const { return lanes * vectors; }
};

inline bool reduces(const Phase& phase) {
  return std::any_of(phase.results.begin(), phase.results.end(),
                     [](const LoopResult& result) { return result.kind == LoopResult::Kind::kReduce; });
}

/// Vectors fill a register with elements of the size that most nodes have. An operation waits for the one before it,
/// and the processor looks but some sixty operations ahead for others: so several vectors are computed side by side. In
/// large phases fewer: they have more to wait for at once, and compile faster.
inline Blocking blocking_of(const Phase& phase, unsigned register_bytes) {
  std::array<int, 9> nodes_of_size{};
  std::int64_t bytes = 0;  // Of the results of operations.
  for (const scalar::Node& node : phase.nodes) {
    if (node.core == scalar::Core::kConstant) continue;
    const int size = is_half_type(node.dtype) ? 4 : static_cast<int>(bytes_of(part_of(node.dtype)));
    if (node.core != scalar::Core::kInput) bytes += size;
    if (node.dtype != Dtype::kBool) ++nodes_of_size[static_cast<std::size_t>(size)];
  }
  const auto most = std::max_element(nodes_of_size.begin() + 1, nodes_of_size.end());
  const auto size = static_cast<unsigned>(most - nodes_of_size.begin());
  constexpr auto kReducedLanes = static_cast<unsigned>(kLanes);
  const unsigned lanes = std::min(register_bytes / size, kReducedLanes);
  const std::int64_t instructions = bytes * lanes / register_bytes;  // About so many.
  // A trip of an iteration waits for the one before it.
  const bool iterates = std::any_of(phase.nodes.begin(), phase.nodes.end(),
                                    [](const scalar::Node& node) { return node.core == scalar::Core::kRepeat; });
  const unsigned wanted = instructions <= 36 ? 4 : instructions <= 72 || iterates ? 2 : 1;
  const unsigned vectors = std::min(wanted, kReducedLanes / lanes);
  return {lanes, vectors, reduces(phase) ? kReducedLanes : lanes * vectors};
}

class LoopEmitter {
 public:
  /// Emits to `function`, which has the type of JitFunction.
  LoopEmitter(const Loop& loop, llvm::Function& function, unsigned register_bytes)
      : loop_(loop),
        function_(function),
        register_bytes_(register_bytes),
        b_(function.getContext()),
        arguments_(function.getArg(0)),
        helpers_(function.getArg(1)),
        one_(b_, 1, helpers_),
        scalars_(loop.scalars.size()) {}

  void emit() {
    llvm::BasicBlock* entry = new_block("entry");
    b_.SetInsertPoint(entry);
    llvm::BasicBlock* head = new_block("row");
    llvm::BasicBlock* body = new_block("row_body");
    llvm::BasicBlock* done = new_block("done");
    open_carried();
    b_.CreateBr(head);

    b_.SetInsertPoint(head);
    llvm::PHINode* row = b_.CreatePHI(b_.getInt64Ty(), 2);
    row->addIncoming(i64(0), entry);
    row_ = row;
    for (Carried& carried : carried_) carried.join(b_, entry);
    llvm::Value* rows = argument(b_.getInt64Ty(), offsetof(LoopArguments, rows));
    b_.CreateCondBr(b_.CreateICmpSLT(row, rows), body, done);

    b_.SetInsertPoint(body);
    for (const Phase& phase : loop_.phases) {
      phase.once ? emit_once(phase) : emit_columns(phase);
      if (loop_.goes_on >= 0 && &phase == loop_.phases.data()) leave_unless(scalars_[index(loop_.goes_on)], done);
    }
    row->addIncoming(b_.CreateAdd(row, i64(1)), b_.GetInsertBlock());
    for (Carried& carried : carried_) carried.go_round(b_.GetInsertBlock());
    b_.CreateBr(head);

    b_.SetInsertPoint(done);
    for (const Carried& carried : carried_) {
      one_.store(loop_.arrays[index(carried.written)].dtype, carried.now, base_of(carried.written));
    }
    if (loop_.goes_on >= 0) {
      b_.CreateStore(row, argument(b_.getPtrTy(), offsetof(LoopArguments, rows_done)));
    }
    b_.CreateRetVoid();
  }

 private:
  // An array as a phase uses it: read or written.
  struct Use {
    int array;
    bool written;
    llvm::Value* buffer = nullptr;
    llvm::Value* target = nullptr;   // The first element of the present segment.
    llvm::Value* address = nullptr;  // Where the block finds it: there, or in the buffer.
    llvm::Value* counts = nullptr;   // Of an array that counts, the numbers of the present vector,
    llvm::Value* ahead = nullptr;    // and what those of the next one are more.
  };

  // Lanes of a reduction, as vectors of consecutive ones.
  struct Reduction {
    const LoopResult* result;
    Dtype dtype;      // Of the node.
    ReduceKind kind;  // A maximum of floats is the minimum of the negated ones, which takes less.
    bool is_negated = false;
    llvm::Type* type = nullptr;    // Of one vector; bool is kept in bytes.
    llvm::Value* masks = nullptr;  // In the frame: all ones for lanes that take part in the segment.
    llvm::Constant* neutral = nullptr;
    std::vector<llvm::Value*> lanes = {};  // The present values.
  };

  // Uniform arrays that go from row to row in registers.
  struct Carried {
    int read;
    int written;
    Value now;  // In the present row.
    Value next = {};

    // At the head of the rows, the values from before them and those of the row before become one.
    void join(llvm::IRBuilder<>& b, llvm::BasicBlock* before) {
      for (llvm::Value** part : {&now.re, &now.im}) {
        if (*part == nullptr) continue;
        llvm::PHINode* const phi = b.CreatePHI((*part)->getType(), 2);
        phi->addIncoming(*part, before);
        *part = phi;
      }
      next = now;
    }
    void go_round(llvm::BasicBlock* from) const {
      llvm::cast<llvm::PHINode>(now.re)->addIncoming(next.re, from);
      if (now.im != nullptr) llvm::cast<llvm::PHINode>(now.im)->addIncoming(next.im, from);
    }
  };

  // A phase over columns while it is emitted.
  struct Columns {
    const Phase& phase;
    Blocking blocking;
    std::vector<CoreEmitter> cores;  // Of each vector of a block.
    std::vector<Use> uses = {};
    std::vector<Reduction> reductions = {};
    std::vector<bool> is_uniform = {};             // By node.
    std::vector<Value> uniform_values = {};        // By node, splat.
    std::vector<bool> is_rare = {};                // By node.
    std::map<int, llvm::Value*> temporaries = {};  // Where the present segment of each lies.
    std::int64_t longest = 0;                      // Columns of a segment whose arrays are in buffers.
    bool is_strided = false;                       // Some array is.
    llvm::Value* is_rest = nullptr;                // Whether the present segment is less than a block,
    llvm::Value* streams = nullptr;                // and whether dense arrays are written past the caches in it.
    CoreEmitter& core() { return cores.front(); }
  };

  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  llvm::BasicBlock* new_block(const char* name) {
    return llvm::BasicBlock::Create(function_.getContext(), name, &function_);
  }
  llvm::Value* i64(std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Value* advance(llvm::Value* address, llvm::Value* bytes) {
    return b_.CreateGEP(b_.getInt8Ty(), address, bytes);
  }
  llvm::Value* advance(llvm::Value* address, std::size_t bytes) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), address, bytes);
  }
  llvm::Value* in_frame(std::size_t bytes) {
    llvm::BasicBlock& entry = function_.getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    llvm::AllocaInst* room = at_entry.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
    room->setAlignment(llvm::Align(64));
    return room;
  }

  // ---- Arguments. They are read where they are needed: there are too many to be kept in registers.

  llvm::Value* argument(llvm::Type* type, std::size_t offset) {
    return b_.CreateLoad(type, advance(arguments_, offset));
  }

  llvm::Value* column_count() { return argument(b_.getInt64Ty(), offsetof(LoopArguments, columns)); }
  llvm::Value* is_aligned(llvm::Value* address) {
    llvm::Value* low_bits = b_.CreateAnd(b_.CreatePtrToInt(address, b_.getInt64Ty()), i64(register_bytes_ - 1));
    return b_.CreateICmpEQ(low_bits, i64(0));
  }
  llvm::Value* is_streaming() {
    return b_.CreateICmpNE(argument(b_.getInt8Ty(), offsetof(LoopArguments, streaming)), b_.getInt8(0));
  }
  // An element of one of the lists with an entry for each array.
  llvm::Value* listed(llvm::Type* type, std::size_t offset, int array) {
    return b_.CreateLoad(type, advance(argument(b_.getPtrTy(), offset), 8 * index(array)));
  }

  bool counts(int array) const { return loop_.arrays[index(array)].counts; }
  // Numbers are counted in the dtype of their array, modulo what that wraps at.
  llvm::Type* count_type(int array) { return one_.type_of(loop_.arrays[index(array)].dtype); }
  llvm::Value* count_at(int array, llvm::Value* address) {
    llvm::Value* count = b_.CreateSub(b_.CreatePtrToInt(address, b_.getInt64Ty()), i64(kFirstCount));
    return b_.CreateTrunc(count, count_type(array));
  }

  llvm::Value* base_of(int array) { return listed(b_.getPtrTy(), offsetof(LoopArguments, bases), array); }

  void open_carried() {
    for (int array = 0; array < static_cast<int>(loop_.arrays.size()); ++array) {
      const LoopArray& declared = loop_.arrays[index(array)];
      if (declared.carried_by < 0) continue;
      one_.next_columns();
      carried_.push_back({array, declared.carried_by, one_.load(declared.dtype, base_of(array))});
    }
  }

  // The element of an array in column 0 of the present row.
  llvm::Value* row_of(int array) {
    llvm::Value* stride = listed(b_.getInt64Ty(), offsetof(LoopArguments, row_strides), array);
    return advance(base_of(array), b_.CreateMul(row_, stride));
  }

  // Bytes from a column to the next.
  llvm::Value* step_of(int array) {
    const LoopArray& declared = loop_.arrays[index(array)];
    if (declared.access == Access::kDense) return i64(bytes_of(declared.dtype));
    return listed(b_.getInt64Ty(), offsetof(LoopArguments, column_strides), array);
  }

  // ---- Nodes.

  Dtype dtype_of_operand(const Phase& phase, const scalar::Node& node) {
    const int first = node.operands[0];
    return first < 0 ? node.dtype : phase.nodes[index(first)].dtype;
  }

  // A node that is no input, of the values of the nodes before it.
  Value emit_node(CoreEmitter& core, const Phase& phase, const scalar::Node& node, const std::vector<Value>& values) {
    if (node.core == scalar::Core::kConstant) return core.constant(node.dtype, node.bits);
    std::array<Value, 3> in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (node.operands[i] >= 0) in[i] = values[index(node.operands[i])];
    }
    return core.apply(node.core, node.dtype, dtype_of_operand(phase, node), in, node.operands[0]);
  }

  bool is_uniform_input(const LoopInput& input) {
    if (input.kind == LoopInput::Kind::kArray) return loop_.arrays[index(input.index)].access == Access::kUniform;
    return input.kind == LoopInput::Kind::kScalar;
  }

  Value uniform_input(const LoopInput& input) {
    if (input.kind == LoopInput::Kind::kScalar) return scalars_[index(input.index)];
    for (const Carried& carried : carried_) {
      if (carried.read == input.index) return carried.now;
    }
    if (counts(input.index)) return {count_at(input.index, row_of(input.index)), nullptr};
    return one_.load(loop_.arrays[index(input.index)].dtype, row_of(input.index));
  }

  // The nodes that are the same in all columns, as single elements; the others are left out.
  std::vector<Value> emit_uniform(const Phase& phase, const std::vector<bool>& is_uniform) {
    std::vector<std::vector<Value>> alone(1, std::vector<Value>(phase.nodes.size()));
    std::vector<Value>& values = alone[0];
    one_.next_columns();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const scalar::Node& node = phase.nodes[i];
      if (!is_uniform[i]) continue;
      if (iterates(node.core)) {
        emit_iteration(node, i, alone);
      } else {
        values[i] = node.core == scalar::Core::kInput ? uniform_input(phase.inputs[node.bits])
                                                      : emit_node(one_, phase, node, values);
      }
    }
    return std::move(values);
  }

  // ---- Iterations (`iterate` of scalar/expr.h).

  static bool iterates(scalar::Core core) {
    return core == scalar::Core::kCarried || core == scalar::Core::kNext || core == scalar::Core::kRepeat ||
           core == scalar::Core::kLast;
  }

  // Node `id`, for all vectors: they make their trips together.
  void emit_iteration(const scalar::Node& node, std::size_t id, std::vector<std::vector<Value>>& vectors) {
    if (node.core == scalar::Core::kCarried && trip_ == nullptr) {
      before_trips_ = b_.GetInsertBlock();
      trip_ = new_block("trip");
      b_.CreateBr(trip_);
      b_.SetInsertPoint(trip_);
    }
    llvm::Value* goes_on = nullptr;
    for (std::vector<Value>& values : vectors) {
      llvm::Value* const operand = values[index(node.operands[0])].re;
      values[id] = {operand, nullptr};
      if (node.core == scalar::Core::kCarried) {
        llvm::PHINode* const phi = b_.CreatePHI(operand->getType(), 2);
        phi->addIncoming(operand, before_trips_);
        values[id].re = phi;
      } else if (node.core == scalar::Core::kNext) {
        next_trip_.emplace_back(llvm::cast<llvm::PHINode>(operand), values[index(node.operands[1])].re);
      } else if (node.core == scalar::Core::kRepeat) {
        goes_on = goes_on == nullptr ? operand : b_.CreateOr(goes_on, operand);
      }
    }
    if (node.core != scalar::Core::kRepeat) return;
    if (goes_on->getType()->isVectorTy()) goes_on = b_.CreateOrReduce(goes_on);
    for (const auto& [phi, next] : next_trip_) phi->addIncoming(next, b_.GetInsertBlock());
    llvm::BasicBlock* const after = new_block("trips_done");
    b_.CreateCondBr(goes_on, trip_, after);
    b_.SetInsertPoint(after);
    trip_ = nullptr;
    next_trip_.clear();
  }

  void leave_unless(Value holds, llvm::BasicBlock* done) {
    llvm::Value* condition = holds.re;
    if (condition->getType()->isVectorTy()) condition = b_.CreateExtractElement(condition, i64(0));
    llvm::BasicBlock* const next = new_block("goes_on");
    b_.CreateCondBr(condition, next, done);
    b_.SetInsertPoint(next);
  }

  Carried* carried_to(int array) {
    const auto found = std::find_if(carried_.begin(), carried_.end(),
                                    [&](const Carried& carried) { return carried.written == array; });
    return found == carried_.end() ? nullptr : &*found;
  }

  void emit_once(const Phase& phase) {
    const std::vector<Value> values = emit_uniform(phase, std::vector<bool>(phase.nodes.size(), true));
    for (const LoopResult& result : phase.results) {
      const Value value = values[index(result.node)];
      if (result.kind == LoopResult::Kind::kScalar) {
        scalars_[index(result.index)] = value;
      } else if (Carried* const carried = carried_to(result.index)) {
        carried->next = value;
      } else {
        one_.store(loop_.arrays[index(result.index)].dtype, value, row_of(result.index));
      }
    }
  }

  // ---- Phases over columns.

  void emit_columns(const Phase& phase) {
    const Blocking blocking = blocking_of(phase, register_bytes_);
    Columns columns{phase, blocking, {blocking.vectors, CoreEmitter(b_, blocking.lanes, helpers_)}};
    find_uses(columns);
    find_uniform(columns);
    find_rare(columns);
    find_reductions(columns);
    emit_segments(columns);
    for (const Reduction& reduction : columns.reductions) {
      scalars_[index(reduction.result->index)] = {finish(reduction), nullptr};
    }
  }

  void find_uses(Columns& columns) {
    const auto add = [&](int array, bool written) {
      const auto is_it = [&](const Use& use) { return use.array == array && use.written == written; };
      if (loop_.arrays[index(array)].access == Access::kUniform) return;
      if (std::none_of(columns.uses.begin(), columns.uses.end(), is_it)) columns.uses.push_back({array, written});
    };
    for (const LoopInput& input : columns.phase.inputs) {
      if (input.kind == LoopInput::Kind::kArray) add(input.index, false);
    }
    for (const LoopResult& result : columns.phase.results) {
      if (result.kind == LoopResult::Kind::kArray) add(result.index, true);
    }

    // All buffers together are to fit the first-level cache.
    std::size_t column_bytes = 1;
    for (const Use& use : columns.uses) {
      const LoopArray& array = loop_.arrays[index(use.array)];
      if (array.counts) continue;
      column_bytes += bytes_of(array.dtype);
      columns.is_strided |= array.access == Access::kStrided;
    }
    columns.longest = 256;
    while (columns.longest > 64 && static_cast<std::size_t>(columns.longest) * column_bytes > kBufferBytes) {
      columns.longest /= 2;
    }
    for (Use& use : columns.uses) {
      if (counts(use.array)) continue;
      const auto length = static_cast<std::size_t>(columns.is_strided ? columns.longest : columns.blocking.alignment);
      use.buffer = in_frame(length * bytes_of(loop_.arrays[index(use.array)].dtype));
    }
  }

  void find_uniform(Columns& columns) {
    const Phase& phase = columns.phase;
    for (const scalar::Node& node : phase.nodes) {
      bool is_uniform = node.core != scalar::Core::kInput || is_uniform_input(phase.inputs[node.bits]);
      is_uniform = is_uniform && node.core != scalar::Core::kCarried;  // What replaces it may not be.
      for (const int operand : node.operands) is_uniform &= operand < 0 || columns.is_uniform[index(operand)];
      columns.is_uniform.push_back(is_uniform);
    }
    columns.uniform_values = emit_uniform(phase, columns.is_uniform);
    for (Value& value : columns.uniform_values) {
      if (value.re != nullptr) value = columns.core().splat(value);
    }
  }

  // ---- Rare values.
  //
  // The exact reduction modulo pi/2 calls a function. Where a select takes its result for some arguments only, it and
  // all that nothing else needs is computed just if some lane takes it.

  static bool is_called(scalar::Core core) {
    return core == scalar::Core::kPio2Quadrant || core == scalar::Core::kPio2Remainder ||
           core == scalar::Core::kPio2RemainderLow;
  }

  // A select whose third operand is rare.
  bool selects_rare(const Columns& columns, const scalar::Node& node) {
    return node.core == scalar::Core::kSelect && columns.is_rare[index(node.operands[2])];
  }

  void find_rare(Columns& columns) {
    const std::vector<scalar::Node>& nodes = columns.phase.nodes;
    std::vector<bool> needs_call;
    for (const scalar::Node& node : nodes) {
      bool needs = is_called(node.core);
      for (const int operand : node.operands) needs = needs || (operand >= 0 && needs_call[index(operand)]);
      needs_call.push_back(needs && !iterates(node.core));  // Iterations are where they stand.
    }
    // From users to operands: a node is rare until a use is found that is not.
    columns.is_rare.assign(nodes.size(), true);
    for (const LoopResult& result : columns.phase.results) columns.is_rare[index(result.node)] = false;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      if (nodes[i].core == scalar::Core::kInput || iterates(nodes[i].core)) columns.is_rare[i] = false;
      if (columns.is_rare[i]) continue;
      for (std::size_t k = 0; k < nodes[i].operands.size(); ++k) {
        const int operand = nodes[i].operands[k];
        if (operand < 0) continue;
        const bool may_be_rare = nodes[i].core == scalar::Core::kSelect && k == 2 && !is_complex_type(nodes[i].dtype);
        if (!may_be_rare || !needs_call[index(operand)]) columns.is_rare[index(operand)] = false;
      }
    }
  }

  // A select, of which the second operand is known: the other one is computed where a lane takes it.
  Value emit_rare(Columns& columns, CoreEmitter& core, const scalar::Node& node, const std::vector<Value>& values) {
    const Value usual = values[index(node.operands[1])];
    llvm::Value* is_usual = values[index(node.operands[0])].re;
    llvm::BasicBlock* here = b_.GetInsertBlock();
    llvm::BasicBlock* rare = new_block("rare");
    llvm::BasicBlock* next = new_block("usual");
    llvm::MDBuilder hints(b_.getContext());
    b_.CreateCondBr(b_.CreateAndReduce(is_usual), next, rare, hints.createBranchWeights(1000, 1));

    b_.SetInsertPoint(rare);
    // Other selects may need the same nodes: each computes them for itself.
    core.next_columns();
    std::vector<Value> all = values;
    const Value mixed = {b_.CreateSelect(is_usual, usual.re, emit_needed(columns, core, node.operands[2], all).re),
                         nullptr};
    core.next_columns();
    llvm::BasicBlock* mixed_end = b_.GetInsertBlock();
    b_.CreateBr(next);

    b_.SetInsertPoint(next);
    llvm::PHINode* phi = b_.CreatePHI(usual.re->getType(), 2);
    phi->addIncoming(usual.re, here);
    phi->addIncoming(mixed.re, mixed_end);
    return {phi, nullptr};
  }

  // A node, and before it the rare ones that it needs.
  Value emit_needed(Columns& columns, CoreEmitter& core, int id, std::vector<Value>& values) {
    Value& value = values[index(id)];
    if (value.re != nullptr) return value;
    const scalar::Node& node = columns.phase.nodes[index(id)];
    for (const int operand : node.operands) {
      if (operand >= 0) emit_needed(columns, core, operand, values);
    }
    return value = emit_node(core, columns.phase, node, values);
  }

  // ---- Reductions.

  static scalar::Core core_of(ReduceKind kind) {
    switch (kind) {
      case ReduceKind::kSum:
        return scalar::Core::kAdd;
      case ReduceKind::kProd:
        return scalar::Core::kMul;
      case ReduceKind::kMax:
        return scalar::Core::kMax;
      case ReduceKind::kMin:
        return scalar::Core::kMin;
      case ReduceKind::kAnd:
        return scalar::Core::kAnd;
      case ReduceKind::kOr:
        break;
    }
    return scalar::Core::kOr;
  }

  // Of bool, sums are or, and products and.
  static scalar::Core core_of(ReduceKind kind, Dtype dtype) {
    if (dtype == Dtype::kBool && kind == ReduceKind::kSum) return scalar::Core::kOr;
    if (dtype == Dtype::kBool && kind == ReduceKind::kProd) return scalar::Core::kAnd;
    return core_of(kind);
  }

  static llvm::Constant* neutral_element(ReduceKind kind, Dtype dtype, llvm::Type* type) {
    const bool is_float = is_float_type(dtype);
    const double infinity = std::numeric_limits<double>::infinity();
    const unsigned bits = type->getScalarSizeInBits();
    const auto integer = [&](const llvm::APInt& value) { return llvm::ConstantInt::get(type, value); };
    const bool is_signed = is_signed_integer(dtype);
    switch (kind) {
      case ReduceKind::kProd:
        return is_float ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
      case ReduceKind::kMax:
        if (is_float) return llvm::ConstantFP::get(type, -infinity);
        return integer(is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
      case ReduceKind::kMin:
        if (is_float) return llvm::ConstantFP::get(type, infinity);
        if (dtype == Dtype::kBool) return llvm::ConstantInt::get(type, 1);
        return integer(is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
      case ReduceKind::kAnd:
        return dtype == Dtype::kBool ? llvm::ConstantInt::get(type, 1) : llvm::Constant::getAllOnesValue(type);
      case ReduceKind::kSum:
      case ReduceKind::kOr:
        break;
    }
    return llvm::Constant::getNullValue(type);
  }

  void find_reductions(Columns& columns) {
    const CoreEmitter& core = columns.core();
    for (const LoopResult& result : columns.phase.results) {
      if (result.kind != LoopResult::Kind::kReduce) continue;
      Reduction reduction{&result, columns.phase.nodes[index(result.node)].dtype, result.reduction};
      reduction.is_negated = reduction.kind == ReduceKind::kMax && is_float_type(reduction.dtype);
      if (reduction.is_negated) reduction.kind = ReduceKind::kMin;
      reduction.type = reduction.dtype == Dtype::kBool ? core.integer(8) : core.type_of(reduction.dtype);
      reduction.neutral = neutral_element(reduction.kind, reduction.dtype, reduction.type);
      reduction.lanes.assign(static_cast<std::size_t>(kLanes) / core.lanes(), reduction.neutral);
      reduction.masks = in_frame(static_cast<std::size_t>(kLanes) * reduction.type->getScalarSizeInBits() / 8);
      columns.reductions.push_back(std::move(reduction));
    }
  }

  llvm::Value* combine(CoreEmitter& core, const Reduction& reduction, llvm::Value* a, llvm::Value* b) {
    const scalar::Core operation = core_of(reduction.kind, reduction.dtype);
    // Bytes of bool: their and, or, min and max are those of the bits.
    const Dtype dtype = reduction.dtype == Dtype::kBool ? Dtype::kU8 : reduction.dtype;
    return core.apply(operation, dtype, dtype, {Value{a, nullptr}, Value{b, nullptr}, Value{}}, -1).re;
  }

  // Writes which lanes take part in a segment of `count` columns. Only the last may have fewer than all.
  void store_masks(Columns& columns, llvm::Value* count) {
    for (Reduction& reduction : columns.reductions) {
      const unsigned lanes = columns.blocking.lanes;
      llvm::Value* taking_part =
          b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, i64(kLanes)), b_.getInt32Ty());
      const unsigned bits = reduction.type->getScalarSizeInBits();
      for (unsigned first = 0; first < kLanes; first += lanes) {
        std::vector<llvm::Constant*> numbers;
        for (unsigned i = 0; i < lanes; ++i) numbers.push_back(b_.getInt32(first + i));
        llvm::Value* mask =
            b_.CreateICmpULT(llvm::ConstantVector::get(numbers), b_.CreateVectorSplat(lanes, taking_part));
        llvm::Value* wide = b_.CreateSExt(mask, llvm::FixedVectorType::get(b_.getIntNTy(bits), lanes));
        b_.CreateAlignedStore(wide, advance(reduction.masks, first * bits / 8), llvm::Align(1));
      }
    }
  }

  // `value` where the mask is set, the neutral element elsewhere.
  llvm::Value* masked(const Reduction& reduction, llvm::Value* value, llvm::Value* lane) {
    const unsigned bytes = reduction.type->getScalarSizeInBits() / 8;
    auto* bits = llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(reduction.type));
    llvm::Value* address = advance(reduction.masks, b_.CreateMul(lane, i64(bytes)));
    llvm::Value* mask = b_.CreateAlignedLoad(bits, address, llvm::Align(bytes));
    llvm::Value* kept = b_.CreateAnd(b_.CreateBitCast(value, bits), mask);
    if (!reduction.neutral->isNullValue()) {
      kept = b_.CreateOr(kept, b_.CreateAnd(b_.CreateBitCast(reduction.neutral, bits), b_.CreateNot(mask)));
    }
    return b_.CreateBitCast(kept, reduction.type);
  }

  // A value as the lanes of its reduction hold it.
  llvm::Value* element_of(const Reduction& reduction, llvm::Value* value) {
    if (reduction.dtype == Dtype::kBool) return b_.CreateZExt(value, reduction.type);
    return reduction.is_negated ? b_.CreateFNeg(value) : value;
  }

  // Lane i takes in lane i + n/2, until one is left.
  llvm::Value* finish(const Reduction& reduction) {
    std::vector<llvm::Value*> lanes = reduction.lanes;
    auto width = static_cast<unsigned>(kLanes / static_cast<std::int64_t>(lanes.size()));
    CoreEmitter core(b_, width, helpers_);
    while (lanes.size() > 1) {
      const std::size_t half = lanes.size() / 2;
      for (std::size_t i = 0; i < half; ++i) lanes[i] = combine(core, reduction, lanes[i], lanes[i + half]);
      lanes.resize(half);
    }
    llvm::Value* left = lanes[0];
    for (; width > 1; width /= 2) {
      const auto part = [&](unsigned first) -> llvm::Value* {
        if (width == 2) return b_.CreateExtractElement(left, std::uint64_t{first});
        std::vector<int> indices;
        for (unsigned i = 0; i < width / 2; ++i) indices.push_back(static_cast<int>(first + i));
        return b_.CreateShuffleVector(left, indices);
      };
      CoreEmitter narrow(b_, width / 2, helpers_);
      llvm::Value* low = part(0);
      left = combine(narrow, reduction, low, part(width / 2));
    }
    if (reduction.is_negated) return b_.CreateFNeg(left);
    return reduction.dtype == Dtype::kBool ? b_.CreateTrunc(left, b_.getInt1Ty()) : left;
  }

  // ---- Segments and blocks.

  // New phis for the lanes of all reductions; `from` is where the present values come from.
  std::vector<llvm::PHINode*> open_lanes(Columns& columns, llvm::BasicBlock* from) {
    std::vector<llvm::PHINode*> phis;
    for (Reduction& reduction : columns.reductions) {
      for (llvm::Value*& lanes : reduction.lanes) {
        llvm::PHINode* phi = b_.CreatePHI(reduction.type, 2);
        phi->addIncoming(lanes, from);
        phis.push_back(phi);
        lanes = phi;
      }
    }
    return phis;
  }

  // The present values go round the loop of the phis.
  void close_lanes(Columns& columns, const std::vector<llvm::PHINode*>& phis) {
    std::size_t next = 0;
    for (const Reduction& reduction : columns.reductions) {
      for (llvm::Value* lanes : reduction.lanes) phis[next++]->addIncoming(lanes, b_.GetInsertBlock());
    }
  }

  void set_lanes(Columns& columns, const std::vector<llvm::PHINode*>& phis) {
    std::size_t next = 0;
    for (Reduction& reduction : columns.reductions) {
      for (llvm::Value*& lanes : reduction.lanes) lanes = phis[next++];
    }
  }

  // Columns of a segment at most.
  llvm::Value* longest(const Columns& columns) {
    return i64(columns.is_strided ? columns.longest : std::numeric_limits<std::int64_t>::max());
  }

  void emit_segments(Columns& columns) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* head = new_block("segment");
    llvm::BasicBlock* body = new_block("segment_body");
    llvm::BasicBlock* done = new_block("phase_done");
    b_.CreateBr(head);

    b_.SetInsertPoint(head);
    llvm::PHINode* begin = b_.CreatePHI(b_.getInt64Ty(), 2);
    begin->addIncoming(i64(0), before);
    const std::vector<llvm::PHINode*> lanes = open_lanes(columns, before);
    llvm::Value* left = b_.CreateSub(column_count(), begin);
    b_.CreateCondBr(b_.CreateICmpSGT(left, i64(0)), body, done);

    b_.SetInsertPoint(body);
    llvm::Value* most = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, longest(columns));
    llvm::Value* is_rest = b_.CreateICmpULT(most, i64(columns.blocking.alignment));
    llvm::Value* whole = b_.CreateAnd(most, i64(-std::int64_t{columns.blocking.alignment}));
    llvm::Value* count = b_.CreateSelect(is_rest, most, whole);
    columns.is_rest = is_rest;
    open_segment(columns, begin, count);
    emit_blocks(columns, count);
    close_segment(columns, count);
    begin->addIncoming(b_.CreateAdd(begin, count), b_.GetInsertBlock());
    close_lanes(columns, lanes);
    b_.CreateBr(head);

    b_.SetInsertPoint(done);
    set_lanes(columns, lanes);
  }

  // Emits what `emit` does for the case that `condition` holds. Returns the block where that ends.
  template <class Emit>
  llvm::BasicBlock* emit_if(llvm::Value* condition, Emit emit) {
    llvm::BasicBlock* then = new_block("then");
    llvm::BasicBlock* next = new_block("next");
    b_.CreateCondBr(condition, then, next);
    b_.SetInsertPoint(then);
    emit();
    llvm::BasicBlock* end = b_.GetInsertBlock();
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
    return end;
  }

  template <class Then, class Else>
  void emit_either(llvm::Value* condition, Then emit_then, Else emit_else) {
    llvm::BasicBlock* otherwise = new_block("else");
    llvm::BasicBlock* next = new_block("either");
    llvm::BasicBlock* then = new_block("then");
    b_.CreateCondBr(condition, then, otherwise);
    b_.SetInsertPoint(then);
    emit_then();
    b_.CreateBr(next);
    b_.SetInsertPoint(otherwise);
    emit_else();
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  }

  void call_helper(std::size_t offset, std::initializer_list<llvm::Value*> arguments) {
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : arguments) types.push_back(argument->getType());
    llvm::Value* address = b_.CreateLoad(b_.getPtrTy(), advance(helpers_, offset));
    b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), types, false), address, std::vector<llvm::Value*>(arguments));
  }

  void gather(const Columns& columns, const Use& use, llvm::Value* count) {
    call_helper(offsetof(JitHelpers, gather), {use.buffer, use.target, step_of(use.array), i64(bytes_of(dtype_of(use))),
                                               count, i64(columns.blocking.alignment)});
  }

  void scatter(const Use& use, llvm::Value* count) {
    call_helper(offsetof(JitHelpers, scatter),
                {use.target, step_of(use.array), use.buffer, i64(bytes_of(dtype_of(use))), count});
  }

  Dtype dtype_of(const Use& use) const { return loop_.arrays[index(use.array)].dtype; }
  bool is_dense(const Use& use) const { return loop_.arrays[index(use.array)].access == Access::kDense; }

  void find_temporaries(Columns& columns, llvm::Value* begin) {
    columns.temporaries.clear();
    const auto find = [&](int number) {
      if (columns.temporaries.count(number) != 0) return;
      // scratch_stride of loop.h.
      llvm::Value* padded = b_.CreateAnd(b_.CreateAdd(column_count(), i64(127)), i64(-128));
      llvm::Value* start = b_.CreateMul(padded, i64(16 * std::int64_t{number}));
      llvm::Value* offset = b_.CreateMul(begin, i64(bytes_of(loop_.temporaries[index(number)])));
      llvm::Value* scratch = argument(b_.getPtrTy(), offsetof(LoopArguments, scratch));
      columns.temporaries[number] = advance(advance(scratch, start), offset);
    };
    for (const LoopInput& input : columns.phase.inputs) {
      if (input.kind == LoopInput::Kind::kTemporary) find(input.index);
    }
    for (const LoopResult& result : columns.phase.results) {
      if (result.kind == LoopResult::Kind::kTemporary) find(result.index);
    }
  }

  void open_segment(Columns& columns, llvm::Value* begin, llvm::Value* count) {
    store_masks(columns, count);
    find_temporaries(columns, begin);
    columns.streams = b_.CreateAnd(is_streaming(), b_.CreateNot(columns.is_rest));
    for (Use& use : columns.uses) {
      use.target = advance(row_of(use.array), b_.CreateMul(begin, step_of(use.array)));
      use.address = use.buffer;
      if (counts(use.array)) {
        llvm::Value* step = b_.CreateTrunc(step_of(use.array), count_type(use.array));
        use.counts = columns.core().sequence(count_at(use.array, use.target), step);
        llvm::Value* ahead = b_.CreateMul(step, llvm::ConstantInt::get(step->getType(), columns.blocking.lanes));
        use.ahead = columns.core().splat({ahead, nullptr}).re;
      } else if (is_dense(use)) {
        use.address = b_.CreateSelect(columns.is_rest, use.buffer, use.target);
        if (use.written) columns.streams = b_.CreateAnd(columns.streams, is_aligned(use.target));
      } else if (!use.written) {
        gather(columns, use, count);
      }
    }
    copy_rest(columns, false, count);
  }

  void close_segment(Columns& columns, llvm::Value* count) {
    for (const Use& use : columns.uses) {
      if (use.written && !is_dense(use)) scatter(use, count);
    }
    copy_rest(columns, true, count);
  }

  // Dense arrays to or from their buffers, if less than a block is left.
  void copy_rest(const Columns& columns, bool written, llvm::Value* count) {
    const auto is_copied = [&](const Use& use) { return use.written == written && is_dense(use); };
    if (std::none_of(columns.uses.begin(), columns.uses.end(), is_copied)) return;
    emit_if(columns.is_rest, [&] {
      for (const Use& use : columns.uses) {
        if (is_copied(use)) written ? scatter(use, count) : gather(columns, use, count);
      }
    });
  }

  // The columns of the present segment, `count` of them.
  void emit_blocks(Columns& columns, llvm::Value* count) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* block = new_block("columns");
    llvm::BasicBlock* done = new_block("columns_done");
    b_.CreateBr(block);

    b_.SetInsertPoint(block);
    llvm::PHINode* column = b_.CreatePHI(b_.getInt64Ty(), 2);
    column->addIncoming(i64(0), before);
    const std::vector<llvm::PHINode*> lanes = open_lanes(columns, before);
    const std::vector<llvm::PHINode*> numbers = open_counts(columns, before);
    emit_vectors(columns, column);
    // Each iteration finds the lanes that are its own in front. A segment goes round all of them.
    for (Reduction& reduction : columns.reductions) {
      std::rotate(reduction.lanes.begin(), reduction.lanes.begin() + columns.blocking.vectors, reduction.lanes.end());
    }
    llvm::Value* next = b_.CreateAdd(column, i64(columns.blocking.step()));
    column->addIncoming(next, b_.GetInsertBlock());
    close_lanes(columns, lanes);
    close_counts(columns, numbers);
    llvm::Value* end = count;
    if (!columns.reductions.empty()) end = b_.CreateAnd(b_.CreateAdd(count, i64(kLanes - 1)), i64(-kLanes));
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), block, done);
    b_.SetInsertPoint(done);
  }

  // The numbers of arrays that count go from vector to vector: an addition is all that they take.
  std::vector<llvm::PHINode*> open_counts(Columns& columns, llvm::BasicBlock* from) {
    std::vector<llvm::PHINode*> phis;
    for (Use& use : columns.uses) {
      if (!counts(use.array)) continue;
      llvm::PHINode* phi = b_.CreatePHI(use.counts->getType(), 2);
      phi->addIncoming(use.counts, from);
      phis.push_back(phi);
      use.counts = phi;
    }
    return phis;
  }

  void close_counts(Columns& columns, const std::vector<llvm::PHINode*>& phis) {
    std::size_t next = 0;
    for (const Use& use : columns.uses) {
      if (counts(use.array)) phis[next++]->addIncoming(use.counts, b_.GetInsertBlock());
    }
  }

  // All vectors of a block, node by node: the processor finds work in one while it waits for another.
  void emit_vectors(Columns& columns, llvm::Value* column) {
    const Phase& phase = columns.phase;
    std::vector<std::vector<Value>> values(columns.blocking.vectors, columns.uniform_values);
    for (CoreEmitter& core : columns.cores) core.next_columns();
    prefetch(columns, column);
    for (std::size_t i = 0; i < phase.nodes.size(); ++i) {
      if (columns.is_uniform[i] || columns.is_rare[i]) continue;
      if (iterates(phase.nodes[i].core)) {
        emit_iteration(phase.nodes[i], i, values);
        continue;
      }
      for (unsigned vector = 0; vector < columns.blocking.vectors; ++vector) {
        values[vector][i] = emit_in_vector(columns, vector, column, phase.nodes[i], values[vector]);
      }
    }
    store_results(columns, column, values);
    accumulate_all(columns, column, values);
  }

  // Asks for the lines of dense arrays that a block some way ahead reads. The processor's own prefetching stops where a
  // page ends, and asks too late where operations are few: on a Xeon with AVX-512 a sigmoid over 64 MiB takes half the
  // time with this, and in the caches it takes no longer.
  void prefetch(const Columns& columns, llvm::Value* column) {
    for (const Use& use : columns.uses) {
      if (use.written || !is_dense(use)) continue;
      const unsigned size = bytes_of(dtype_of(use));
      llvm::Value* block = advance(advance(use.address, b_.CreateMul(column, i64(size))), kAhead);
      for (unsigned at = 0; at < columns.blocking.step() * size; at += kLine) {
        b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                           {advance(block, at), b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
      }
    }
  }

  void store_results(Columns& columns, llvm::Value* column, const std::vector<std::vector<Value>>& values) {
    using Kind = LoopResult::Kind;
    const auto is_dense = [&](const LoopResult& result) {
      return result.kind == Kind::kArray && loop_.arrays[index(result.index)].access == Access::kDense;
    };
    const auto store_those = [&](auto&& is_meant, bool streaming) {
      for (const LoopResult& result : columns.phase.results) {
        if (!is_meant(result)) continue;
        const Dtype dtype = columns.phase.nodes[index(result.node)].dtype;
        for (unsigned vector = 0; vector < columns.blocking.vectors; ++vector) {
          const Value value = values[vector][index(result.node)];
          llvm::Value* target = result.kind == Kind::kArray ? array_at(columns, vector, column, result.index, true)
                                                            : temporary_at(columns, vector, column, result.index);
          streaming ? columns.core().stream(dtype, value, target, register_bytes_)
                    : columns.core().store(dtype, value, target);
        }
      }
    };
    store_those([&](const LoopResult& result) { return result.kind != Kind::kReduce && !is_dense(result); }, false);
    if (std::none_of(columns.phase.results.begin(), columns.phase.results.end(), is_dense)) return;
    emit_either(
        columns.streams, [&] { store_those(is_dense, true); }, [&] { store_those(is_dense, false); });
  }

  // Reduces the values of a block. Lanes that take no part are masked in the last segment.
  void accumulate_all(Columns& columns, llvm::Value* column, const std::vector<std::vector<Value>>& values) {
    if (columns.reductions.empty()) return;
    std::vector<llvm::Value*> elements;
    for (const Reduction& reduction : columns.reductions) {
      for (const std::vector<Value>& of_vector : values) {
        elements.push_back(element_of(reduction, of_vector[index(reduction.result->node)].re));
      }
    }
    llvm::BasicBlock* here = b_.GetInsertBlock();
    std::vector<llvm::Value*> masked_elements;
    llvm::BasicBlock* masked_end = emit_if(columns.is_rest, [&] {
      llvm::Value* lane = columns.blocking.step() == kLanes ? i64(0) : b_.CreateAnd(column, i64(kLanes - 1));
      std::size_t next = 0;
      for (const Reduction& reduction : columns.reductions) {
        for (unsigned vector = 0; vector < columns.blocking.vectors; ++vector) {
          llvm::Value* own = b_.CreateAdd(lane, i64(vector * columns.blocking.lanes));
          masked_elements.push_back(masked(reduction, elements[next++], own));
        }
      }
    });
    for (std::size_t i = 0; i < elements.size(); ++i) {
      llvm::PHINode* element = b_.CreatePHI(elements[i]->getType(), 2);
      element->addIncoming(elements[i], here);
      element->addIncoming(masked_elements[i], masked_end);
      elements[i] = element;
    }
    std::size_t next = 0;
    for (Reduction& reduction : columns.reductions) {
      for (unsigned vector = 0; vector < columns.blocking.vectors; ++vector) {
        llvm::Value*& lanes = reduction.lanes[vector];
        lanes = combine(columns.core(), reduction, lanes, elements[next++]);
      }
    }
  }

  Value emit_in_vector(Columns& columns, unsigned vector, llvm::Value* column, const scalar::Node& node,
                       const std::vector<Value>& values) {
    CoreEmitter& core = columns.cores[vector];
    if (selects_rare(columns, node)) return emit_rare(columns, core, node, values);
    if (node.core != scalar::Core::kInput) return emit_node(core, columns.phase, node, values);
    const LoopInput& input = columns.phase.inputs[node.bits];
    const bool is_array = input.kind == LoopInput::Kind::kArray;
    if (is_array && counts(input.index)) return counted(columns, input.index);
    return core.load(node.dtype, is_array ? array_at(columns, vector, column, input.index, false)
                                          : temporary_at(columns, vector, column, input.index));
  }

  static std::vector<Use>::const_iterator use_of(const Columns& columns, int array, bool written) {
    return std::find_if(columns.uses.begin(), columns.uses.end(),
                        [&](const Use& candidate) { return candidate.array == array && candidate.written == written; });
  }

  // The numbers of the next vector: a phase has one node for them, which is emitted once for each vector, in order.
  Value counted(Columns& columns, int array) {
    const auto use = std::find_if(columns.uses.begin(), columns.uses.end(),
                                  [&](const Use& candidate) { return candidate.array == array; });
    const Value numbers{use->counts, nullptr};
    use->counts = b_.CreateAdd(use->counts, use->ahead);
    return numbers;
  }

  // Where a vector of the present block lies in an array.
  llvm::Value* array_at(const Columns& columns, unsigned vector, llvm::Value* column, int array, bool written) {
    const auto use = use_of(columns, array, written);
    return vector_at(columns, vector, column, use->address, bytes_of(dtype_of(*use)));
  }
  llvm::Value* temporary_at(const Columns& columns, unsigned vector, llvm::Value* column, int number) {
    return vector_at(columns, vector, column, columns.temporaries.at(number),
                     bytes_of(loop_.temporaries[index(number)]));
  }
  llvm::Value* vector_at(const Columns& columns, unsigned vector, llvm::Value* column, llvm::Value* address,
                         unsigned size) {
    return advance(advance(address, b_.CreateMul(column, i64(size))),
                   std::size_t{vector} * columns.blocking.lanes * size);
  }

  static constexpr std::size_t kBufferBytes = 16 << 10;
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kAhead = 2 << 10;

  const Loop& loop_;
  llvm::Function& function_;
  unsigned register_bytes_;
  llvm::IRBuilder<> b_;
  llvm::Value* arguments_;
  llvm::Value* helpers_;
  CoreEmitter one_;             // For what is the same in all columns.
  llvm::Value* row_ = nullptr;  // The number of the present row.
  std::vector<Value> scalars_;  // By number, as far as they are known.
  std::vector<Carried> carried_ = {};
  // Of the iteration that is emitted: where its trips begin, what comes before, and what is carried to the next one.
  llvm::BasicBlock* trip_ = nullptr;
  llvm::BasicBlock* before_trips_ = nullptr;
  std::vector<std::pair<llvm::PHINode*, llvm::Value*>> next_trip_ = {};
};

}  // namespace shoal::cpu::jit
