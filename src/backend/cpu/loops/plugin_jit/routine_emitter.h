// A routine as an LLVM function: values are SSA values, blocks are basic blocks.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cpu/loops/jit_api.h"
#include "backend/cpu/loops/plugin_jit/core_emitter.h"

namespace shoal::cpu::jit {

class RoutineEmitter {
 public:
  /// Emits to `function`, which has the type of JitFunction.
  RoutineEmitter(const Routine& routine, llvm::Function& function)
      : routine_(routine),
        function_(function),
        b_(function.getContext()),
        arguments_(function.getArg(0)),
        helpers_(function.getArg(1)),
        one_(b_, 1, helpers_),
        values_(routine.values.size()) {}

  void emit() {
    b_.SetInsertPoint(new_block("entry"));
    left_ = i64(kStepsAtOnce);
    for (std::size_t array = 0; array < routine_.arrays.size(); ++array) {
      bases_.push_back(listed(b_.getPtrTy(), offsetof(LoopArguments, bases), array));
    }
    for (const Routine::Constant& constant : routine_.constants) {
      values_[index(constant.value)] = one_.constant(dtype_of(constant.value), constant.bits);
    }
    emit(routine_.block);
    b_.CreateRetVoid();
  }

 private:
  // Steps of loops within a trip of the outermost one, after which it is asked whether to leave.
  static constexpr std::int64_t kStepsAtOnce = 1 << 18;

  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  llvm::BasicBlock* new_block(const char* name) {
    return llvm::BasicBlock::Create(function_.getContext(), name, &function_);
  }
  llvm::Value* i64(std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Value* advance(llvm::Value* address, llvm::Value* bytes) {
    return b_.CreateGEP(b_.getInt8Ty(), address, bytes);
  }
  llvm::Value* argument(llvm::Type* type, std::size_t offset) {
    return b_.CreateLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), arguments_, offset));
  }
  // An element of one of the lists with an entry for each array.
  llvm::Value* listed(llvm::Type* type, std::size_t offset, std::size_t array) {
    llvm::Value* list = argument(b_.getPtrTy(), offset);
    return b_.CreateLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), list, 8 * array));
  }
  Dtype dtype_of(int value) const { return routine_.values[index(value)]; }

  // ---- Steps.

  void emit(const Routine::Block& block) {
    for (const Routine::Step& step : block.steps) {
      std::visit([&](const auto& one) { emit(one); }, step);
    }
  }

  void emit(const Routine::Operation& step) {
    std::array<Value, 3> in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (step.node.operands[i] >= 0) in[i] = values_[index(step.node.operands[i])];
    }
    const int first = step.node.operands[0];
    values_[index(step.value)] = one_.apply(step.node.core, step.node.dtype, dtype_of(first), in, first);
  }

  llvm::Value* element(int array, int at) {
    llvm::Value* const base = bases_[index(array)];
    if (at < 0) return base;
    llvm::Type* const element = llvm::ArrayType::get(b_.getInt8Ty(), bytes_of(routine_.arrays[index(array)].dtype));
    return b_.CreateGEP(element, base, values_[index(at)].re);
  }

  void emit(const Routine::Load& step) {
    values_[index(step.value)] = one_.load(dtype_of(step.value), element(step.array, step.index));
  }

  void emit(const Routine::Store& step) {
    llvm::BasicBlock* next = nullptr;
    if (step.condition >= 0) {
      llvm::BasicBlock* const inside = new_block("store");
      next = new_block("stored");
      b_.CreateCondBr(values_[index(step.condition)].re, inside, next);
      b_.SetInsertPoint(inside);
    }
    one_.store(dtype_of(step.stored), values_[index(step.stored)], element(step.array, step.index));
    if (next == nullptr) return;
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  }

  // The values that several blocks give, one for each of them.
  struct Joined {
    std::vector<Value> values;
    std::vector<llvm::PHINode*> phis = {};

    static llvm::PHINode* phi_of(llvm::IRBuilder<>& b, llvm::Value*& part) {
      llvm::PHINode* const phi = b.CreatePHI(part->getType(), 2);
      part = phi;
      return phi;
    }
    // At the beginning of a block; the values say of what types they are.
    Joined(llvm::IRBuilder<>& b, std::vector<Value> like) : values(std::move(like)) {
      for (Value& value : values) {
        phis.push_back(phi_of(b, value.re));
        if (value.im != nullptr) phis.push_back(phi_of(b, value.im));
      }
    }
    void add(const std::vector<Value>& given, llvm::BasicBlock* from) {
      std::size_t next = 0;
      for (const Value& value : given) {
        phis[next++]->addIncoming(value.re, from);
        if (value.im != nullptr) phis[next++]->addIncoming(value.im, from);
      }
    }
  };

  std::vector<Value> those(const std::vector<int>& numbers) const {
    std::vector<Value> result;
    for (const int number : numbers) result.push_back(values_[index(number)]);
    return result;
  }
  void set(const std::vector<int>& numbers, const std::vector<Value>& values) {
    for (std::size_t k = 0; k < numbers.size(); ++k) values_[index(numbers[k])] = values[k];
  }

  void emit(const Routine::Branch& step) {
    llvm::Value* const way = values_[index(step.index)].re;
    std::vector<llvm::BasicBlock*> begins;
    for (std::size_t i = 0; i < step.ways.size(); ++i) begins.push_back(new_block("way"));
    llvm::BasicBlock* const next = new_block("joined");
    choose(way, begins);
    llvm::Value* const left = left_;
    std::vector<std::vector<Value>> given;
    std::vector<llvm::BasicBlock*> ends;
    for (std::size_t i = 0; i < step.ways.size(); ++i) {
      b_.SetInsertPoint(begins[i]);
      one_.next_columns();  // What another way has computed is not there.
      left_ = left;
      emit(step.ways[i]);
      given.push_back(those(step.ways[i].results));
      given.back().push_back({left_, nullptr});
      ends.push_back(b_.GetInsertBlock());
      b_.CreateBr(next);
    }
    b_.SetInsertPoint(next);
    one_.next_columns();
    Joined joined(b_, given[0]);
    for (std::size_t i = 0; i < given.size(); ++i) joined.add(given[i], ends[i]);
    left_ = joined.values.back().re;
    set(step.values, joined.values);
  }

  // To the block that the number says, or the nearest there is, by halves.
  void choose(llvm::Value* number, const std::vector<llvm::BasicBlock*>& blocks) {
    std::vector<std::pair<std::size_t, std::size_t>> open = {{0, blocks.size()}};
    std::vector<llvm::BasicBlock*> at = {b_.GetInsertBlock()};
    while (!open.empty()) {
      const auto [begin, end] = open.back();
      b_.SetInsertPoint(at.back());
      open.pop_back();
      at.pop_back();
      if (end - begin == 1) {
        b_.CreateBr(blocks[begin]);
        continue;
      }
      const std::size_t middle = begin + (end - begin) / 2;
      const auto block_of = [&](std::size_t from, std::size_t to) {
        if (to - from == 1) return blocks[from];
        open.emplace_back(from, to);
        at.push_back(new_block("choose"));
        return at.back();
      };
      llvm::BasicBlock* const low = block_of(begin, middle);
      llvm::BasicBlock* const high = block_of(middle, end);
      b_.CreateCondBr(b_.CreateICmpSLT(number, b_.getInt32(static_cast<std::uint32_t>(middle))), low, high);
    }
  }

  void emit(const Routine::Repeat& step) {
    const bool is_outermost = step.trips == Routine::Repeat::kRows;
    llvm::BasicBlock* const before = b_.GetInsertBlock();
    llvm::BasicBlock* const head = new_block("trip");
    llvm::BasicBlock* const body = new_block("body");
    llvm::BasicBlock* const done = new_block("trips_done");
    std::vector<Value> initial = those(step.initial);
    initial.push_back({i64(0), nullptr});
    initial.push_back({left_, nullptr});
    llvm::Value* most = nullptr;
    if (is_outermost) most = argument(b_.getInt64Ty(), offsetof(LoopArguments, rows));
    if (step.trips >= 0) most = values_[index(step.trips)].re;
    const std::vector<llvm::Value*> resting = bases_;
    std::vector<llvm::Value*> strides(bases_.size());
    for (std::size_t array = 0; is_outermost && array < bases_.size(); ++array) {
      if (!routine_.arrays[array].moves) continue;
      strides[array] = listed(b_.getInt64Ty(), offsetof(LoopArguments, row_strides), array);
    }
    b_.CreateBr(head);

    b_.SetInsertPoint(head);
    one_.next_columns();
    Joined joined(b_, initial);
    joined.add(initial, before);
    const std::size_t count = step.values.size();
    set(step.values, joined.values);
    llvm::Value* const trip = joined.values[count].re;
    values_[index(step.trip)] = {trip, nullptr};
    left_ = joined.values[count + 1].re;
    std::vector<std::pair<llvm::Value*, llvm::BasicBlock*>> left_at_end;
    const auto leave_unless = [&](llvm::Value* condition, llvm::BasicBlock* next) {
      left_at_end.emplace_back(left_, b_.GetInsertBlock());
      b_.CreateCondBr(condition, next, done);
      b_.SetInsertPoint(next);
    };
    if (most != nullptr) leave_unless(b_.CreateICmpSLT(trip, most), step.asks() ? new_block("question") : body);
    for (std::size_t array = 0; array < bases_.size(); ++array) {
      if (strides[array] != nullptr) bases_[array] = advance(resting[array], b_.CreateMul(trip, strides[array]));
    }
    if (step.asks()) {
      emit(step.blocks.front());
      leave_unless(values_[index(step.blocks.front().results[0])].re, body);
    } else if (most == nullptr) {
      b_.CreateBr(body);
      b_.SetInsertPoint(body);
    }
    emit(step.blocks.back());
    if (!is_outermost) ask_from_time_to_time(steps_of_trip(step));
    std::vector<Value> next = those(step.blocks.back().results);
    next.push_back({b_.CreateAdd(trip, i64(1)), nullptr});
    next.push_back({left_, nullptr});
    joined.add(next, b_.GetInsertBlock());
    b_.CreateBr(head);

    b_.SetInsertPoint(done);
    one_.next_columns();
    bases_ = resting;
    llvm::PHINode* const left = b_.CreatePHI(b_.getInt64Ty(), 2);
    for (const auto& [value, block] : left_at_end) left->addIncoming(value, block);
    left_ = left;
    if (is_outermost) b_.CreateStore(trip, argument(b_.getPtrTy(), offsetof(LoopArguments, rows_done)));
  }

  // After so many steps.
  void ask_from_time_to_time(int steps) {
    llvm::BasicBlock* const here = b_.GetInsertBlock();
    llvm::BasicBlock* const ask = new_block("ask");
    llvm::BasicBlock* const end = new_block("end");
    llvm::BasicBlock* const next = new_block("next");
    llvm::Value* const less = b_.CreateSub(left_, i64(steps));
    llvm::MDBuilder hints(b_.getContext());
    const auto trips = static_cast<std::uint32_t>(std::max<std::int64_t>(1, kStepsAtOnce / steps));
    b_.CreateCondBr(b_.CreateICmpSGT(less, i64(0)), next, ask, hints.createBranchWeights(trips, 1));

    b_.SetInsertPoint(ask);
    llvm::Value* const address =
        b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getInt8Ty(), helpers_, offsetof(JitHelpers, is_to_end)));
    llvm::Type* const pointer = b_.getPtrTy();
    llvm::Value* const answer =
        b_.CreateCall(llvm::FunctionType::get(b_.getInt64Ty(), {pointer}, false), address, {arguments_});
    b_.CreateCondBr(b_.CreateICmpEQ(answer, i64(0)), next, end);

    b_.SetInsertPoint(end);
    b_.CreateRetVoid();

    b_.SetInsertPoint(next);
    llvm::PHINode* const left = b_.CreatePHI(b_.getInt64Ty(), 2);
    left->addIncoming(less, here);
    left->addIncoming(i64(kStepsAtOnce), ask);
    left_ = left;
  }

  const Routine& routine_;
  llvm::Function& function_;
  llvm::IRBuilder<> b_;
  llvm::Value* arguments_;
  llvm::Value* helpers_;
  CoreEmitter one_;
  std::vector<Value> values_;             // By number, as far as they are known.
  std::vector<llvm::Value*> bases_ = {};  // Where each array lies, in the present trip.
  llvm::Value* left_ = nullptr;           // How many steps of inner loops are left until it is asked whether to leave.
};

}  // namespace shoal::cpu::jit
