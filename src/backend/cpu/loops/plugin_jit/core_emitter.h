// Core operations (ops/scalar/core_ops.h) as LLVM IR, on vectors with an element per column or on single elements.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "backend/cpu/loops/jit_api.h"
#include "ops/scalar/expr.h"
#include "shoal/dtype.h"

namespace shoal::cpu::jit {

/// The value of a node. bool is i1; f16 and bf16 are held as the f32 of the same value; only complex values have `im`.
struct Value {
  llvm::Value* re = nullptr;
  llvm::Value* im = nullptr;
};

inline bool is_half_type(Dtype dtype) { return dtype == Dtype::kF16 || dtype == Dtype::kBF16; }
inline bool is_complex_type(Dtype dtype) { return dtype == Dtype::kC64 || dtype == Dtype::kC128; }
inline bool is_float_type(Dtype dtype) { return dtype >= Dtype::kF16 && dtype <= Dtype::kF64; }
inline bool is_integer_type(Dtype dtype) { return dtype >= Dtype::kI8 && dtype <= Dtype::kU64; }
inline bool is_signed_integer(Dtype dtype) { return dtype >= Dtype::kI8 && dtype <= Dtype::kI64; }

/// Bytes of an element in memory.
inline unsigned bytes_of(Dtype dtype) {
  constexpr std::array<unsigned, kNumDtypes> kBytes = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kBytes[static_cast<std::size_t>(dtype)];
}
/// The dtype of real and imaginary part; of others, itself.
inline Dtype part_of(Dtype dtype) {
  if (dtype == Dtype::kC64) return Dtype::kF32;
  return dtype == Dtype::kC128 ? Dtype::kF64 : dtype;
}

class CoreEmitter {
 public:
  /// Emits at the builder's insertion point. One lane means plain elements in place of vectors. `helpers` points to
  /// the JitHelpers.
  CoreEmitter(llvm::IRBuilder<>& builder, unsigned lanes, llvm::Value* helpers)
      : b_(builder), lanes_(lanes), helpers_(helpers) {}

  unsigned lanes() const { return lanes_; }

  llvm::Type* vector_of(llvm::Type* element) const {
    return lanes_ == 1 ? element : llvm::FixedVectorType::get(element, lanes_);
  }
  llvm::Type* integer(unsigned bits) const { return vector_of(b_.getIntNTy(bits)); }
  /// How values of a dtype, not complex, are held.
  llvm::Type* type_of(Dtype dtype) const {
    if (dtype == Dtype::kBool) return integer(1);
    if (dtype == Dtype::kF64) return vector_of(b_.getDoubleTy());
    return is_float_type(dtype) ? vector_of(b_.getFloatTy()) : integer(8 * bytes_of(dtype));
  }

  /// The elements from `address` on.
  Value load(Dtype dtype, llvm::Value* address) const {
    if (!is_complex_type(dtype)) return {from_storage(dtype, load_plain(storage_type(dtype), dtype, address)), nullptr};
    const Dtype part = part_of(dtype);
    llvm::Type* element = part == Dtype::kF32 ? b_.getFloatTy() : b_.getDoubleTy();
    llvm::Value* both = load_plain(llvm::FixedVectorType::get(element, 2 * lanes_), part, address);
    return {every_second(both, 0), every_second(both, 1)};
  }

  void store(Dtype dtype, Value value, llvm::Value* address) const {
    b_.CreateAlignedStore(stored(dtype, value), address, llvm::Align(bytes_of(part_of(dtype))));
  }

  /// Past the caches. The address is a multiple of `alignment`.
  void stream(Dtype dtype, Value value, llvm::Value* address, unsigned alignment) const {
    llvm::Value* plain = stored(dtype, value);
    const auto bytes = static_cast<unsigned>(plain->getType()->getPrimitiveSizeInBits() / 8);
    llvm::StoreInst* store = b_.CreateAlignedStore(plain, address, llvm::Align(std::min(bytes, alignment)));
    if (bytes < 16) return;  // The processor has no such store.
    llvm::Metadata* const one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), one));
  }

  /// One element in all lanes.
  Value splat(Value value) const {
    if (lanes_ == 1) return value;
    return {b_.CreateVectorSplat(lanes_, value.re), value.im ? b_.CreateVectorSplat(lanes_, value.im) : nullptr};
  }

  /// `first`, `first` + `step`, `first` + 2 * `step` and so on in the lanes; both are integers of one type.
  llvm::Value* sequence(llvm::Value* first, llvm::Value* step) const {
    if (lanes_ == 1) return first;
    std::vector<llvm::Constant*> numbers;
    for (unsigned lane = 0; lane < lanes_; ++lane) numbers.push_back(llvm::ConstantInt::get(step->getType(), lane));
    llvm::Value* ahead = b_.CreateMul(b_.CreateVectorSplat(lanes_, step), llvm::ConstantVector::get(numbers));
    return b_.CreateAdd(b_.CreateVectorSplat(lanes_, first), ahead);
  }

  Value constant(Dtype dtype, std::uint64_t bits) const {
    using llvm::APFloat;
    using llvm::APInt;
    llvm::Type* type = type_of(dtype);
    const auto number = [&](const llvm::fltSemantics& format, unsigned width) {
      APFloat value(format, APInt(64, bits).trunc(width));
      bool loses = false;
      if (width == 16) value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
      return Value{llvm::ConstantFP::get(type, value), nullptr};
    };
    switch (dtype) {
      case Dtype::kF16:
        return number(APFloat::IEEEhalf(), 16);
      case Dtype::kBF16:
        return number(APFloat::BFloat(), 16);
      case Dtype::kF32:
        return number(APFloat::IEEEsingle(), 32);
      case Dtype::kF64:
        return number(APFloat::IEEEdouble(), 64);
      default: {
        const unsigned width = type->getScalarSizeInBits();
        return {llvm::ConstantInt::get(type, APInt(64, bits).trunc(width)), nullptr};
      }
    }
  }

  /// Any operation but inputs and constants. `from` is the dtype of the first operand, `id` names it: the three
  /// operations on one reduction modulo pi/2 share their work.
  Value apply(scalar::Core core, Dtype dtype, Dtype from, const std::array<Value, 3>& in, int id) {
    using scalar::Core;
    llvm::Value* a = in[0].re;
    llvm::Value* b = in[1].re;
    switch (core) {
      case Core::kSelect:
        return {b_.CreateSelect(a, b, in[2].re), in[1].im ? b_.CreateSelect(a, in[1].im, in[2].im) : nullptr};
      case Core::kConvert:
        return {convert(dtype, from, a), nullptr};
      case Core::kBitcast:
        return {bitcast(dtype, from, a), nullptr};
      case Core::kReal:
        return {a, nullptr};
      case Core::kImag:
        return {in[0].im, nullptr};
      case Core::kMakeComplex:
        return {a, b};
      case Core::kLt:
      case Core::kLe:
      case Core::kEq:
        return {compare(core, from, a, b), nullptr};
      case Core::kPio2Quadrant:
        return {reduced(from, a, id)[0], nullptr};
      case Core::kPio2Remainder:
        return {reduced(from, a, id)[1], nullptr};
      case Core::kPio2RemainderLow:
        return {reduced(from, a, id)[2], nullptr};
      default:
        if (dtype == Dtype::kBool) return {logical(core, a, b), nullptr};
        if (is_integer_type(dtype)) return {arithmetic(core, dtype, a, b), nullptr};
        return {round(dtype, floating(core, dtype, a, b, in[2].re)), nullptr};
    }
  }

  /// Forgets the reductions modulo pi/2: the next ones are of other columns.
  void next_columns() { reduced_.clear(); }

 private:
  using Triple = std::array<llvm::Value*, 3>;

  // ---- Memory.

  llvm::Type* storage_type(Dtype dtype) const {
    if (dtype == Dtype::kBool) return integer(8);
    return is_half_type(dtype) ? integer(16) : type_of(dtype);
  }

  llvm::Value* load_plain(llvm::Type* type, Dtype dtype, llvm::Value* address) const {
    return b_.CreateAlignedLoad(type, address, llvm::Align(bytes_of(dtype)));
  }

  llvm::Value* from_storage(Dtype dtype, llvm::Value* value) const {
    switch (dtype) {
      case Dtype::kBool:
        return b_.CreateICmpNE(value, zero(integer(8)));
      case Dtype::kF16:
        return b_.CreateFPExt(b_.CreateBitCast(value, vector_of(b_.getHalfTy())), type_of(dtype));
      case Dtype::kBF16:
        return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(value, integer(32)), 16), type_of(dtype));
      default:
        return value;
    }
  }

  llvm::Value* to_storage(Dtype dtype, llvm::Value* value) const {
    switch (dtype) {
      case Dtype::kBool:
        return b_.CreateZExt(value, integer(8));
      case Dtype::kF16:
        return b_.CreateBitCast(b_.CreateFPTrunc(value, vector_of(b_.getHalfTy())), integer(16));
      case Dtype::kBF16:
        return b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(value, integer(32)), 16), integer(16));
      default:
        return value;
    }
  }

  llvm::Value* stored(Dtype dtype, Value value) const {
    return is_complex_type(dtype) ? interleave(value) : to_storage(dtype, value.re);
  }

  llvm::Value* every_second(llvm::Value* both, int first) const {
    if (lanes_ == 1) return b_.CreateExtractElement(both, static_cast<std::uint64_t>(first));
    std::vector<int> indices;
    for (int i = 0; i < static_cast<int>(lanes_); ++i) indices.push_back(2 * i + first);
    return b_.CreateShuffleVector(both, indices);
  }

  llvm::Value* interleave(Value value) const {
    if (lanes_ == 1) {
      llvm::Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(value.re->getType(), 2));
      pair = b_.CreateInsertElement(pair, value.re, std::uint64_t{0});
      return b_.CreateInsertElement(pair, value.im, std::uint64_t{1});
    }
    std::vector<int> indices;
    for (int i = 0; i < static_cast<int>(lanes_); ++i) {
      indices.push_back(i);
      indices.push_back(i + static_cast<int>(lanes_));
    }
    return b_.CreateShuffleVector(value.re, value.im, indices);
  }

  // ---- Arithmetic.

  llvm::Value* zero(llvm::Type* type) const { return llvm::Constant::getNullValue(type); }
  llvm::Value* number(llvm::Type* type, double value) const { return llvm::ConstantFP::get(type, value); }
  llvm::Value* number(llvm::Type* type, std::int64_t value) const {
    return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
  }
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* a) const { return b_.CreateUnaryIntrinsic(id, a); }
  llvm::Value* binary(llvm::Intrinsic::ID id, llvm::Value* a, llvm::Value* b) const {
    return b_.CreateBinaryIntrinsic(id, a, b);
  }

  llvm::Value* compare(scalar::Core core, Dtype dtype, llvm::Value* a, llvm::Value* b) const {
    using scalar::Core;
    using P = llvm::CmpInst::Predicate;
    if (is_float_type(dtype)) {
      return b_.CreateFCmp(core == Core::kLt ? P::FCMP_OLT : core == Core::kLe ? P::FCMP_OLE : P::FCMP_OEQ, a, b);
    }
    if (core == Core::kEq) return b_.CreateICmpEQ(a, b);
    if (is_signed_integer(dtype)) return b_.CreateICmp(core == Core::kLt ? P::ICMP_SLT : P::ICMP_SLE, a, b);
    return b_.CreateICmp(core == Core::kLt ? P::ICMP_ULT : P::ICMP_ULE, a, b);
  }

  llvm::Value* logical(scalar::Core core, llvm::Value* a, llvm::Value* b) const {
    using scalar::Core;
    switch (core) {
      case Core::kAnd:
      case Core::kMin:
        return b_.CreateAnd(a, b);
      case Core::kOr:
      case Core::kMax:
        return b_.CreateOr(a, b);
      case Core::kXor:
        return b_.CreateXor(a, b);
      case Core::kNot:
        return b_.CreateNot(a);
      default:
        throw std::invalid_argument("no such operation on bool");
    }
  }

  llvm::Value* arithmetic(scalar::Core core, Dtype dtype, llvm::Value* a, llvm::Value* b) const {
    using scalar::Core;
    namespace intrinsic = llvm::Intrinsic;
    const bool is_signed = is_signed_integer(dtype);
    switch (core) {
      case Core::kAdd:
        return b_.CreateAdd(a, b);
      case Core::kSub:
        return b_.CreateSub(a, b);
      case Core::kMul:
        return b_.CreateMul(a, b);
      case Core::kDiv:
        return divide(dtype, a, b);
      case Core::kRem:
        return remainder(dtype, a, b);
      case Core::kNeg:
        return b_.CreateNeg(a);
      case Core::kAbs:
        return is_signed ? binary(intrinsic::abs, a, b_.getFalse()) : a;
      case Core::kMin:
        return binary(is_signed ? intrinsic::smin : intrinsic::umin, a, b);
      case Core::kMax:
        return binary(is_signed ? intrinsic::smax : intrinsic::umax, a, b);
      case Core::kAnd:
        return b_.CreateAnd(a, b);
      case Core::kOr:
        return b_.CreateOr(a, b);
      case Core::kXor:
        return b_.CreateXor(a, b);
      case Core::kNot:
        return b_.CreateNot(a);
      case Core::kShl:
      case Core::kShr:
        return shift(core, is_signed, a, b);
      case Core::kRotate:
        return b_.CreateIntrinsic(intrinsic::fshl, {a->getType()}, {a, a, b});
      default:
        throw std::invalid_argument("no such operation on integers");
    }
  }

  // Counts beyond the width are cut to it before LLVM sees them: it defines no such shift.
  llvm::Value* shift(scalar::Core core, bool is_signed, llvm::Value* a, llvm::Value* count) const {
    llvm::Type* type = a->getType();
    llvm::Value* last = number(type, std::int64_t{type->getScalarSizeInBits()} - 1);
    llvm::Value* in_range = b_.CreateICmpULE(count, last);
    llvm::Value* cut = b_.CreateSelect(in_range, count, last);
    if (core == scalar::Core::kShr && is_signed) return b_.CreateAShr(a, cut);
    llvm::Value* shifted = core == scalar::Core::kShl ? b_.CreateShl(a, cut) : b_.CreateLShr(a, cut);
    return b_.CreateSelect(in_range, shifted, zero(type));
  }

  // A divisor by which the processor, and LLVM, can divide: 0 and -1 are 1.
  llvm::Value* safe_divisor(bool is_signed, llvm::Value* b) const {
    llvm::Value* one = number(b->getType(), std::int64_t{1});
    llvm::Value* safe = b_.CreateSelect(b_.CreateICmpEQ(b, zero(b->getType())), one, b);
    if (!is_signed) return safe;
    return b_.CreateSelect(b_.CreateICmpEQ(b, number(b->getType(), std::int64_t{-1})), one, safe);
  }

  // There is no division of integer vectors. Floats that hold more bits than the dividend a have quotients that
  // truncate to those of the integers: a/b is at least 1/b off the next integer, and rounding errs by less than that.
  llvm::Value* quotient(Dtype dtype, llvm::Value* a, llvm::Value* safe) const {
    const bool is_signed = is_signed_integer(dtype);
    const unsigned bytes = bytes_of(dtype);
    if (lanes_ == 1 || bytes == 8 || llvm::isa<llvm::Constant>(safe)) {
      return is_signed ? b_.CreateSDiv(a, safe) : b_.CreateUDiv(a, safe);
    }
    llvm::Type* type = vector_of(bytes == 4 ? b_.getDoubleTy() : b_.getFloatTy());
    const auto to_float = [&](llvm::Value* x) {
      return is_signed ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type);
    };
    llvm::Value* exact = b_.CreateFDiv(to_float(a), to_float(safe));
    return is_signed ? b_.CreateFPToSI(exact, a->getType()) : b_.CreateFPToUI(exact, a->getType());
  }

  llvm::Value* divide(Dtype dtype, llvm::Value* a, llvm::Value* b) const {
    llvm::Type* type = a->getType();
    const bool is_signed = is_signed_integer(dtype);
    llvm::Value* minus_one = llvm::Constant::getAllOnesValue(type);
    llvm::Value* result = quotient(dtype, a, safe_divisor(is_signed, b));
    if (is_signed) result = b_.CreateSelect(b_.CreateICmpEQ(b, minus_one), b_.CreateNeg(a), result);
    return b_.CreateSelect(b_.CreateICmpEQ(b, zero(type)), minus_one, result);
  }

  llvm::Value* remainder(Dtype dtype, llvm::Value* a, llvm::Value* b) const {
    llvm::Value* safe = safe_divisor(is_signed_integer(dtype), b);
    llvm::Value* left = b_.CreateSub(a, b_.CreateMul(quotient(dtype, a, safe), safe));  // 0 where b is -1.
    return b_.CreateSelect(b_.CreateICmpEQ(b, zero(a->getType())), a, left);
  }

  llvm::Value* floating(scalar::Core core, Dtype dtype, llvm::Value* a, llvm::Value* b, llvm::Value* c) const {
    using scalar::Core;
    namespace intrinsic = llvm::Intrinsic;
    switch (core) {
      case Core::kAdd:
        return b_.CreateFAdd(a, b);
      case Core::kSub:
        return b_.CreateFSub(a, b);
      case Core::kMul:
        return b_.CreateFMul(a, b);
      case Core::kDiv:
        return b_.CreateFDiv(a, b);
      case Core::kRem:
        return fmod(dtype, a, b);
      case Core::kNeg:
        return b_.CreateFNeg(a);
      case Core::kAbs:
        return unary(intrinsic::fabs, a);
      case Core::kMin:
        return minimum(a, b);
      case Core::kMax:
        return binary(intrinsic::maximum, a, b);
      case Core::kFma:
        return b_.CreateIntrinsic(intrinsic::fma, {a->getType()}, {a, b, c});
      case Core::kSqrt:
        return unary(intrinsic::sqrt, a);
      case Core::kFloor:
        return unary(intrinsic::floor, a);
      case Core::kRint:
        return unary(intrinsic::roundeven, a);
      case Core::kTrunc:
        return unary(intrinsic::trunc, a);
      default:
        throw std::invalid_argument("no such operation on floats");
    }
  }

  // The processor's minimum is its second operand if either is NaN, or if they are equal, as zeros of both signs are.
  // Both orders together hold the NaN, or the sign.
  llvm::Value* minimum(llvm::Value* a, llvm::Value* b) const {
    const auto smaller = [&](llvm::Value* x, llvm::Value* y) { return b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y); };
    llvm::Type* bits = integer(a->getType()->getScalarSizeInBits());
    llvm::Value* first = b_.CreateBitCast(smaller(a, b), bits);
    return b_.CreateBitCast(b_.CreateOr(first, b_.CreateBitCast(smaller(b, a), bits)), a->getType());
  }

  // ---- Rounding and conversion.

  // An f32 rounded to a smaller dtype, as f32; other dtypes are what they are.
  llvm::Value* round(Dtype dtype, llvm::Value* value) const {
    if (dtype == Dtype::kF16) return b_.CreateFPExt(b_.CreateFPTrunc(value, vector_of(b_.getHalfTy())), type_of(dtype));
    if (dtype != Dtype::kBF16) return value;
    llvm::Type* type = integer(32);
    llvm::Value* word = b_.CreateBitCast(value, type);
    llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(word, 16), number(type, std::int64_t{1}));
    llvm::Value* rounded = b_.CreateAdd(b_.CreateAdd(word, number(type, std::int64_t{0x7fff})), odd);
    llvm::Value* quiet = b_.CreateOr(word, number(type, std::int64_t{0x400000}));
    rounded = b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, rounded);
    return b_.CreateBitCast(b_.CreateAnd(rounded, number(type, std::int64_t{-0x10000})), value->getType());
  }

  // core_ops::round_to_odd of an f64.
  llvm::Value* round_to_odd(llvm::Value* value) const {
    llvm::Value* nearest = b_.CreateFPTrunc(value, type_of(Dtype::kF32));
    llvm::Value* back = b_.CreateFPExt(nearest, value->getType());
    llvm::Value* bits = b_.CreateBitCast(nearest, integer(32));
    llvm::Value* one = number(bits->getType(), std::int64_t{1});
    llvm::Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(bits, one), zero(bits->getType()));
    llvm::Value* is_exact = b_.CreateFCmpUEQ(back, value);  // Or NaN.
    llvm::Value* infinity = number(nearest->getType(), std::numeric_limits<double>::infinity());
    llvm::Value* is_infinite = b_.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs, nearest), infinity);
    llvm::Value* is_too_large =
        b_.CreateFCmpOGT(unary(llvm::Intrinsic::fabs, back), unary(llvm::Intrinsic::fabs, value));
    llvm::Value* neighbour = b_.CreateSelect(is_too_large, b_.CreateSub(bits, one), b_.CreateAdd(bits, one));
    llvm::Value* stays = b_.CreateOr(b_.CreateOr(is_odd, is_exact), is_infinite);
    return b_.CreateBitCast(b_.CreateSelect(stays, bits, neighbour), nearest->getType());
  }

  // A 64-bit integer as f64, such that rounding it to f32 or less is as rounding the integer. Where f64 would round,
  // the low bits are one bit, which says whether any is set.
  llvm::Value* sticky_double(bool is_signed, llvm::Value* value) const {
    llvm::Type* type = value->getType();
    llvm::Value* magnitude = is_signed ? binary(llvm::Intrinsic::abs, value, b_.getFalse()) : value;
    llvm::Value* low = b_.CreateAnd(magnitude, number(type, std::int64_t{0xfff}));
    llvm::Value* any = b_.CreateZExt(b_.CreateICmpNE(low, zero(type)), type);
    llvm::Value* folded = b_.CreateShl(b_.CreateOr(b_.CreateLShr(magnitude, 12), any), 12);
    llvm::Value* is_large = b_.CreateICmpUGE(magnitude, number(type, std::int64_t{1} << 53));
    llvm::Value* result = b_.CreateUIToFP(b_.CreateSelect(is_large, folded, magnitude), type_of(Dtype::kF64));
    if (!is_signed) return result;
    return b_.CreateSelect(b_.CreateICmpSLT(value, zero(type)), b_.CreateFNeg(result), result);
  }

  llvm::Value* to_half(Dtype to, Dtype from, llvm::Value* value) const {
    if (is_half_type(from) || from == Dtype::kF32) return round(to, value);
    if (from == Dtype::kF64) return round(to, round_to_odd(value));
    const bool is_signed = is_signed_integer(from);
    const unsigned bytes = bytes_of(from);
    if (bytes == 8) return round(to, round_to_odd(sticky_double(is_signed, value)));
    const Dtype exact = bytes == 4 ? Dtype::kF64 : Dtype::kF32;
    return to_half(to, exact, convert(exact, from, value));
  }

  llvm::Value* convert(Dtype to, Dtype from, llvm::Value* value) const {
    llvm::Type* type = type_of(to);
    if (to == from) return value;
    if (to == Dtype::kBool) {
      return is_float_type(from) ? b_.CreateFCmpUNE(value, zero(value->getType()))
                                 : b_.CreateICmpNE(value, zero(value->getType()));
    }
    if (from == Dtype::kBool) {
      return is_float_type(to) ? b_.CreateUIToFP(value, type) : b_.CreateZExt(value, type);
    }
    if (is_half_type(to)) return to_half(to, from, value);
    if (is_float_type(from) && is_float_type(to)) return b_.CreateFPCast(value, type);
    if (is_float_type(from)) return saturate(to, from, value);
    if (is_float_type(to)) {
      return is_signed_integer(from) ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
    }
    return b_.CreateIntCast(value, type, is_signed_integer(from));
  }

  // core_ops::saturate. LLVM has it as one operation, but on x86 takes vectors of most kinds apart for it.
  llvm::Value* saturate(Dtype to, Dtype from, llvm::Value* value) const {
    using llvm::APInt;
    llvm::Type* type = type_of(to);
    const bool is_signed = is_signed_integer(to);
    const unsigned bits = 8 * bytes_of(to);
    const unsigned precision = from == Dtype::kF64 ? 53 : 24;
    const llvm::Triple triple(b_.GetInsertBlock()->getModule()->getTargetTriple());
    const bool is_f32_to_i32 = to == Dtype::kI32 && precision == 24;
    if (!triple.isX86() || lanes_ == 1 || (bits > precision && !is_f32_to_i32)) {
      const auto id = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
      return b_.CreateIntrinsic(id, {type, value->getType()}, {value});
    }

    const double beyond = std::ldexp(1.0, static_cast<int>(is_signed ? bits - 1 : bits));
    llvm::Value* lowest = number(value->getType(), is_signed ? -beyond : 0.0);
    llvm::Value* in_range = b_.CreateSelect(b_.CreateFCmpOGT(value, lowest), value, lowest);
    llvm::Value* result = nullptr;
    if (is_f32_to_i32) {  // The highest is no f32.
      llvm::Value* is_below = b_.CreateFCmpOLT(in_range, number(value->getType(), beyond));
      in_range = b_.CreateSelect(is_below, in_range, zero(value->getType()));
      llvm::Value* highest = llvm::ConstantInt::get(type, APInt::getSignedMaxValue(bits));
      result = b_.CreateSelect(is_below, b_.CreateFPToSI(in_range, type), highest);
    } else {
      llvm::Value* highest = number(value->getType(), beyond - 1);
      in_range = b_.CreateSelect(b_.CreateFCmpOLT(in_range, highest), in_range, highest);
      const bool fits_i32 = bits < 32 || is_signed;
      llvm::Value* wide = fits_i32 ? b_.CreateFPToSI(in_range, integer(32)) : b_.CreateFPToUI(in_range, integer(32));
      result = b_.CreateTrunc(wide, type);
    }
    return b_.CreateSelect(b_.CreateFCmpORD(value, value), result, zero(type));
  }

  llvm::Value* bitcast(Dtype to, Dtype from, llvm::Value* value) const {
    return from_storage(to, b_.CreateBitCast(to_storage(from, value), storage_type(to)));
  }

  // ---- Calls of C++, on vectors in memory.

  // Room for a vector, in the frame of the function.
  llvm::Value* slot(llvm::Type* type) const {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    llvm::AllocaInst* room = at_entry.CreateAlloca(type);
    room->setAlignment(llvm::Align(64));
    return room;
  }

  llvm::Value* in_memory(llvm::Value* value) const {
    llvm::Value* room = slot(value->getType());
    b_.CreateStore(value, room);
    return room;
  }

  void call(std::size_t helper_offset, std::vector<llvm::Value*> arguments) const {
    arguments.push_back(b_.getInt64(lanes_));
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : arguments) types.push_back(argument->getType());
    llvm::Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), helpers_, helper_offset);
    b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), types, false), b_.CreateLoad(b_.getPtrTy(), address),
                  arguments);
  }

  llvm::Value* fmod(Dtype dtype, llvm::Value* a, llvm::Value* b) const {
    llvm::Value* result = slot(a->getType());
    const bool is_f64 = dtype == Dtype::kF64;
    call(is_f64 ? offsetof(JitHelpers, fmod_f64) : offsetof(JitHelpers, fmod_f32),
         {in_memory(a), in_memory(b), result});
    return b_.CreateLoad(a->getType(), result);
  }

  // Quadrant, remainder and low remainder of the node `id`. Arguments up to pi/4 in magnitude are their own remainders;
  // if all lanes are such, nothing is called.
  const Triple& reduced(Dtype from, llvm::Value* value, int id) {
    const auto found = reduced_.find(id);
    if (found != reduced_.end()) return found->second;

    const bool is_f64 = from == Dtype::kF64;
    llvm::Type* f64 = type_of(Dtype::kF64);
    llvm::Type* i32 = integer(32);
    // Of floats, the largest below pi/4.
    llvm::Value* limit = number(value->getType(), is_f64 ? 0x1.921fb54442d18p-1 : 0x1.921fb4p-1);
    llvm::Value* is_large = b_.CreateFCmpUGT(unary(llvm::Intrinsic::fabs, value), limit);
    llvm::Value* x = is_f64 ? value : b_.CreateFPExt(value, f64);

    llvm::BasicBlock* here = b_.GetInsertBlock();
    llvm::Function* function = here->getParent();
    auto* slow = llvm::BasicBlock::Create(b_.getContext(), "pio2", function);
    auto* next = llvm::BasicBlock::Create(b_.getContext(), "pio2_done", function);
    b_.CreateCondBr(lanes_ == 1 ? is_large : b_.CreateOrReduce(is_large), slow, next);

    b_.SetInsertPoint(slow);
    const Triple slots = {slot(i32), slot(f64), slot(f64)};
    call(offsetof(JitHelpers, reduce_pio2), {in_memory(x), slots[0], slots[1], slots[2]});
    const Triple called = {b_.CreateLoad(i32, slots[0]), b_.CreateLoad(f64, slots[1]), b_.CreateLoad(f64, slots[2])};
    b_.CreateBr(next);

    b_.SetInsertPoint(next);
    const Triple trivial = {zero(i32), x, zero(f64)};
    Triple result;
    for (std::size_t i = 0; i < 3; ++i) {
      llvm::PHINode* phi = b_.CreatePHI(trivial[i]->getType(), 2);
      phi->addIncoming(trivial[i], here);
      phi->addIncoming(called[i], slow);
      result[i] = phi;
    }
    return reduced_.emplace(id, result).first->second;
  }

  llvm::IRBuilder<>& b_;
  unsigned lanes_;
  llvm::Value* helpers_;
  std::map<int, Triple> reduced_;  // By the operand's node.
};

}  // namespace shoal::cpu::jit
