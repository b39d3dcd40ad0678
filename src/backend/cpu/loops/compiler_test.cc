#include "backend/cpu/loops/compiler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>
#include <thread>

#include "backend/cpu/loops/compiler_test_support.h"
#include "backend/cpu/loops/interpreter.h"
#include "ops/scalar/math.h"

namespace shoal::cpu {
namespace {

using scalar::Builder;
using scalar::Core;
using scalar::Expr;
using scalar::Node;

// Loops of most tests are compiled anew: what a file holds may be of an older compiler.
LoopCompiler& compiler() {
  static LoopCompiler instance(std::nullopt);
  return instance;
}

const LoopRunner& code_of(const Loop& loop) {
  const auto compiled = compiler().compile(loop, When::kNow);
  if (compiled->runner() == nullptr) throw std::runtime_error("the loop was not compiled");
  return *compiled->runner();
}

// Runs a loop compiled and plainly, on the same data.
void check(const Loop& loop, std::int64_t rows, std::int64_t columns, std::uint64_t seed, const std::string& what,
           bool streaming = false) {
  LoopData data(loop, rows, columns, seed);
  LoopData wanted(loop, rows, columns, seed);
  data.run(code_of(loop), streaming);
  run_plainly(loop, wanted);
  data.expect_same(wanted, what);
}

// ---- Every core operation.

bool is_real(Dtype dtype) { return !is_complex(dtype); }

// The operations on operands of one dtype, as nodes over the inputs 0, 1 and 2 of this dtype, and 3, a bool.
std::vector<Node> operations_on(Dtype dtype) {
  std::vector<Node> nodes;
  const auto add = [&](std::initializer_list<Core> cores, Dtype result) {
    for (const Core core : cores) {
      Node node{core, result};
      for (int i = 0; i < scalar::arity_of(core); ++i) node.operands[static_cast<std::size_t>(i)] = i;
      nodes.push_back(node);
    }
  };
  if (is_integer(dtype) || is_floating(dtype)) {
    add({Core::kAdd, Core::kSub, Core::kMul, Core::kDiv, Core::kRem, Core::kNeg, Core::kAbs}, dtype);
  }
  if (is_floating(dtype)) add({Core::kFma, Core::kSqrt, Core::kFloor, Core::kRint, Core::kTrunc}, dtype);
  if (is_real(dtype)) {
    add({Core::kMin, Core::kMax}, dtype);
    add({Core::kLt, Core::kLe, Core::kEq}, Dtype::kBool);
  }
  if (is_integer(dtype) || dtype == Dtype::kBool) add({Core::kAnd, Core::kOr, Core::kXor, Core::kNot}, dtype);
  if (is_integer(dtype)) add({Core::kShl, Core::kShr, Core::kRotate}, dtype);
  if (dtype == Dtype::kF32 || dtype == Dtype::kF64) {
    add({Core::kPio2Quadrant}, Dtype::kI32);
    add({Core::kPio2Remainder, Core::kPio2RemainderLow}, Dtype::kF64);
    add({Core::kMakeComplex}, dtype == Dtype::kF32 ? Dtype::kC64 : Dtype::kC128);
  }
  if (is_complex(dtype)) add({Core::kReal, Core::kImag}, real_dtype(dtype));
  for (int i = 0; i < kNumDtypes; ++i) {
    const auto to = static_cast<Dtype>(i);
    if (!is_real(dtype) || !is_real(to)) continue;
    add({Core::kConvert}, to);
    // Bits of numbers are not those of a bool.
    if (size_of(to) == size_of(dtype) && to != Dtype::kBool) add({Core::kBitcast}, to);
  }
  nodes.push_back({Core::kSelect, dtype, {3, 1, 2}});
  return nodes;
}

// All of them as one loop: over columns, or once per row.
Loop loop_of_operations(Dtype dtype, bool once) {
  Loop loop;
  Phase phase;
  phase.once = once;
  const Access access = once ? Access::kUniform : Access::kDense;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Dtype input = i == 3 ? Dtype::kBool : dtype;
    loop.arrays.push_back({input, access, false});
    phase.inputs.push_back({LoopInput::Kind::kArray, static_cast<int>(i)});
    phase.nodes.push_back({Core::kInput, input, {-1, -1, -1}, i});
  }
  for (const Node& node : operations_on(dtype)) {
    const int array = static_cast<int>(loop.arrays.size());
    loop.arrays.push_back({node.dtype, access, true});
    phase.results.push_back({LoopResult::Kind::kArray, array, static_cast<int>(phase.nodes.size())});
    phase.nodes.push_back(node);
  }
  loop.phases.push_back(std::move(phase));
  return loop;
}

class CompiledOps : public testing::TestWithParam<Dtype> {};

TEST_P(CompiledOps, GiveTheBitsOfTheReference) {
  const Loop loop = loop_of_operations(GetParam(), false);
  for (std::uint64_t seed = 0; seed < 3; ++seed) check(loop, 1, 4001, seed, "over columns");
}

TEST_P(CompiledOps, GiveTheBitsOfTheReferenceOnEveryPairOfSpecialValues) {
  const Loop loop = loop_of_operations(GetParam(), false);
  with_element_type(GetParam(), [&]<class T>(T) {
    const std::vector<T> special = special_values<T>();
    const auto n = static_cast<std::int64_t>(special.size());
    LoopData data(loop, n, n, 7);
    LoopData wanted(loop, n, n, 7);
    for (LoopData* each : {&data, &wanted}) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const T a = special[static_cast<std::size_t>(i)];
          const T b = special[static_cast<std::size_t>(j)];
          std::memcpy(each->at(0, i, j), &a, sizeof a);
          std::memcpy(each->at(1, i, j), &b, sizeof b);
        }
      }
    }
    data.run(code_of(loop));
    run_plainly(loop, wanted);
    data.expect_same(wanted, "special values");
  });
}

TEST_P(CompiledOps, GiveTheBitsOfTheReferenceOncePerRow) {
  check(loop_of_operations(GetParam(), true), 1000, 1, 11, "once per row");
}

std::vector<Dtype> all_dtypes() {
  std::vector<Dtype> dtypes;
  for (int i = 0; i < kNumDtypes; ++i) dtypes.push_back(static_cast<Dtype>(i));
  return dtypes;
}
INSTANTIATE_TEST_SUITE_P(Dtypes, CompiledOps, testing::ValuesIn(all_dtypes()),
                         [](const auto& test) { return std::string(short_name_of(test.param)); });

TEST(CompiledOps, DivideByConstants) {
  for (const Dtype dtype : {int8, uint16, int32, uint32, int64}) {
    for (const std::int64_t divisor : {0, 1, 3, 7, 100, -1, -3}) {
      const std::uint64_t bits = static_cast<std::uint64_t>(divisor) & (~std::uint64_t{0} >> (64 - 8 * size_of(dtype)));
      Loop loop;
      loop.arrays = {{dtype}, {dtype, Access::kDense, true}, {dtype, Access::kDense, true}};
      Phase phase;
      phase.inputs = {{LoopInput::Kind::kArray, 0}};
      phase.nodes = {{Core::kInput, dtype},
                     {Core::kConstant, dtype, {-1, -1, -1}, bits},
                     {Core::kDiv, dtype, {0, 1, -1}},
                     {Core::kRem, dtype, {0, 1, -1}}};
      phase.results = {{LoopResult::Kind::kArray, 1, 2}, {LoopResult::Kind::kArray, 2, 3}};
      loop.phases = {phase};
      check(loop, 1, 500, 23, "divided by " + std::to_string(divisor));
    }
  }
}

// ---- Access.

// Adds what the test needs to a phase; the nodes come from expressions over a builder.
class PhaseBuilder {
 public:
  explicit PhaseBuilder(Loop& loop) : loop_(loop) {}

  Expr array(int index) { return input(LoopInput::Kind::kArray, index, loop_.arrays[at(index)].dtype); }
  Expr temporary(int index) { return input(LoopInput::Kind::kTemporary, index, loop_.temporaries[at(index)]); }
  Expr scalar(int index) { return input(LoopInput::Kind::kScalar, index, loop_.scalars[at(index)]); }

  void store(Expr value, int array) { result(LoopResult::Kind::kArray, array, value); }
  void keep(Expr value, int temporary) { result(LoopResult::Kind::kTemporary, temporary, value); }
  void set(Expr value, int scalar) { result(LoopResult::Kind::kScalar, scalar, value); }
  void reduce(ReduceKind kind, Expr value, int scalar) { result(LoopResult::Kind::kReduce, scalar, value, kind); }

  void finish(bool once = false) {
    phase_.once = once;
    loop_.phases.push_back(std::move(phase_));
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  Expr input(LoopInput::Kind kind, int index, Dtype dtype) {
    phase_.inputs.push_back({kind, index});
    return copied(builder_.input(static_cast<int>(phase_.inputs.size()) - 1, dtype));
  }
  void result(LoopResult::Kind kind, int index, Expr value, ReduceKind reduction = ReduceKind::kSum) {
    phase_.results.push_back({kind, index, copied(value).id(), reduction});
  }
  // The nodes of the builder so far become those of the phase.
  Expr copied(Expr value) {
    for (int id = static_cast<int>(phase_.nodes.size()); id <= value.id(); ++id) {
      phase_.nodes.push_back(builder_.at(Expr(builder_, id)));
    }
    return value;
  }

  Loop& loop_;
  Phase phase_;
  Builder builder_;
};

// Elements of several sizes, and reductions of each.
Loop mixed_loop(Access access) {
  Loop loop;
  loop.arrays = {{float32, access},
                 {int8, access},
                 {float64, access},
                 {bool_, access},
                 {bfloat16, access},
                 {complex64, access},
                 {float32, access, true},
                 {float64, access, true},
                 {bfloat16, access, true},
                 {complex64, access, true},
                 {bool_, access, true},
                 {float32, Access::kUniform, true},
                 {int8, Access::kUniform, true},
                 {bool_, Access::kUniform, true}};
  loop.temporaries = {float64, int8};
  loop.scalars = {float32, int8, bool_};
  PhaseBuilder first(loop);
  const Expr a = first.array(0);
  const Expr b = first.array(1);
  const Expr c = first.array(2);
  const Expr d = first.array(3);
  const Expr e = first.array(4);
  const Expr f = first.array(5);
  first.store(select(d, a, convert(b, float32)), 6);
  first.keep(c + convert(a, float64), 0);
  first.keep(b * b, 1);
  first.store(e * e, 8);
  first.store(make_complex(imag(f), real(f) + a), 9);
  first.reduce(ReduceKind::kSum, a, 0);
  first.reduce(ReduceKind::kMax, b, 1);
  first.reduce(ReduceKind::kAnd, d, 2);
  first.finish();
  PhaseBuilder second(loop);
  second.store(second.temporary(0) * convert(second.scalar(0), float64), 7);
  second.store(second.temporary(1) < second.scalar(1), 10);
  second.finish();
  PhaseBuilder last(loop);
  last.store(last.scalar(0), 11);
  last.store(last.scalar(1), 12);
  last.store(last.scalar(2), 13);
  last.finish(true);
  return loop;
}

TEST(CompiledLoop, TakesRowsOfEveryLength) {
  for (const Access access : {Access::kDense, Access::kStrided}) {
    const Loop loop = mixed_loop(access);
    for (std::int64_t n = 0; n <= 70; ++n) check(loop, 3, n, static_cast<std::uint64_t>(n), "short rows");
    for (const std::int64_t n : {127, 128, 129, 1000, 1023, 1024, 1025, 3000}) check(loop, 2, n, 5, "long rows");
    check(loop, 0, 10, 5, "no rows");
  }
}

TEST(CompiledLoop, StreamsResultsPastTheCaches) {
  const Loop loop = mixed_loop(Access::kDense);
  for (const std::int64_t n : {0, 1, 31, 32, 33, 100, 1000, 1024, 1025, 5000}) check(loop, 3, n, 9, "streaming", true);
}

TEST(CompiledLoop, BroadcastsUniformArrays) {
  Loop loop;
  loop.arrays = {{float32, Access::kUniform},     {float32},
                 {complex128, Access::kUniform},  {float16, Access::kUniform},
                 {float32, Access::kDense, true}, {complex128, Access::kDense, true},
                 {float16, Access::kDense, true}};
  PhaseBuilder phase(loop);
  const Expr u = phase.array(0);
  const Expr x = phase.array(1);
  const Expr z = phase.array(2);
  const Expr h = phase.array(3);
  phase.store(scalar::exp(u) * x + scalar::sin(u), 4);
  phase.store(z, 5);
  phase.store(h * h, 6);
  phase.finish();
  for (const std::int64_t n : {1, 5, 32, 77}) check(loop, 9, n, 3, "uniform");
}

TEST(CompiledLoop, MayWriteOverWhatItReads) {
  Loop loop;
  loop.arrays = {{float32}, {float32, Access::kDense, true}};
  PhaseBuilder phase(loop);
  const Expr x = phase.array(0);
  phase.store(x * x + 1.0, 1);
  phase.finish();
  for (const bool streaming : {false, true}) {
    for (const std::int64_t n : {1, 7, 32, 45, 3001}) {
      std::vector<float> x_and_y(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < x_and_y.size(); ++i) x_and_y[i] = static_cast<float>(i);
      auto* const base = reinterpret_cast<std::byte*>(x_and_y.data());
      std::byte* const bases[] = {base, base};
      const std::int64_t strides[] = {0, 0};
      code_of(loop).run({bases, strides, strides, 1, n, nullptr, streaming});
      for (std::size_t i = 0; i < x_and_y.size(); ++i) {
        const auto value = static_cast<float>(i);
        ASSERT_EQ(x_and_y[i], value * value + 1);
      }
    }
  }
}

// ---- Reductions.

TEST(CompiledLoop, ReducesByTheRuleOfLanes) {
  for (const Dtype dtype : all_dtypes()) {
    if (is_complex(dtype)) continue;
    Loop loop;
    loop.arrays = {{dtype}};
    std::vector<ReduceKind> kinds = {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin};
    if (!is_floating(dtype)) kinds.insert(kinds.end(), {ReduceKind::kAnd, ReduceKind::kOr});
    PhaseBuilder phase(loop);
    const Expr x = phase.array(0);
    for (const ReduceKind kind : kinds) {
      loop.scalars.push_back(dtype);
      phase.reduce(kind, x, static_cast<int>(loop.scalars.size()) - 1);
    }
    phase.finish();
    PhaseBuilder last(loop);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      loop.arrays.push_back({dtype, Access::kUniform, true});
      last.store(last.scalar(static_cast<int>(i)), static_cast<int>(i) + 1);
    }
    last.finish(true);
    for (const std::int64_t n : {0, 1, 2, 16, 31, 32, 33, 63, 64, 65, 96, 100, 1000}) {
      LoopData data(loop, 20, n, 13);
      LoopData wanted(loop, 20, n, 13);
      // In half of the rows, numbers whose results are finite.
      for (LoopData* each : {&data, &wanted}) {
        for (std::int64_t i = 0; i < 10; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            with_element_type(dtype, [&]<class T>(T) {
              const T value = static_cast<T>(static_cast<float>((i * 37 + j * 101) % 97) / 64 + 0.25F);
              std::memcpy(each->at(0, i, j), static_cast<const void*>(&value), sizeof value);
            });
          }
        }
      }
      data.run(code_of(loop));
      run_plainly(loop, wanted);
      data.expect_same(wanted, std::string(name_of(dtype)));
    }
  }
}

// Softmax of rows, as the fusion makes it.
Loop softmax_loop() {
  Loop loop;
  loop.arrays = {{float32}, {float32, Access::kDense, true}};
  loop.temporaries = {float32};
  loop.scalars = {float32, float32};
  PhaseBuilder first(loop);
  first.reduce(ReduceKind::kMax, first.array(0), 0);
  first.finish();
  PhaseBuilder second(loop);
  const Expr x = second.array(0);
  const Expr e = scalar::exp(x - second.scalar(0));
  second.keep(e, 0);
  second.reduce(ReduceKind::kSum, e, 1);
  second.finish();
  PhaseBuilder third(loop);
  const Expr numerator = third.temporary(0);
  third.store(numerator / third.scalar(1), 1);
  third.finish();
  return loop;
}

TEST(CompiledLoop, RunsSoftmax) {
  const Loop loop = softmax_loop();
  for (const std::int64_t n : {1, 10, 32, 50, 64, 1000}) {
    check(loop, 5, n, 17, "softmax");
    check(loop, 5, n, 17, "softmax, streaming", true);
  }
}

// What goes from row to row in registers, or in memory: a running sum or parity, whose values are kept, too. In the row
// where a flag says so the loop ends.
TEST(CompiledLoop, CarriesScalarsFromRowToRow) {
  constexpr std::int64_t kRows = 37;
  for (int number = 0; number < kNumDtypes; ++number) {
    const auto dtype = static_cast<Dtype>(number);
    SCOPED_TRACE(name_of(dtype));
    Loop loop;
    loop.arrays = {{.dtype = dtype, .access = Access::kUniform, .carried_by = 2},
                   {.dtype = dtype, .access = Access::kUniform},
                   {.dtype = dtype, .access = Access::kUniform, .written = true},
                   {.dtype = dtype, .access = Access::kUniform, .written = true},
                   {.dtype = bool_, .access = Access::kUniform}};
    loop.scalars = {dtype, bool_};
    loop.goes_on = 1;
    PhaseBuilder first(loop);
    const Expr carry = first.array(0);
    const Expr x = first.array(1);
    const Expr flag = first.array(4);
    first.set(dtype == bool_ ? carry ^ x : scalar::add(carry, x), 0);
    first.set(flag, 1);
    first.finish(true);
    PhaseBuilder last(loop);
    last.store(last.scalar(0), 2);
    last.store(last.scalar(0), 3);
    last.finish(true);
    for (const std::int64_t trips : {kRows, std::int64_t{20}, std::int64_t{0}}) {
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      const auto run = [&](const LoopRunner& runner) {
        std::vector<Bytes> data = {element_bytes(1, dtype), element_bytes(kRows, dtype), element_bytes(kRows, dtype),
                                   Bytes(kRows + 1, std::byte{1})};
        data[3][static_cast<std::size_t>(trips)] = std::byte{0};
        with_element_type(dtype, [&]<class T>(T) {
          for (std::int64_t i = 0; i < kRows; ++i) {
            const T value = static_cast<T>(static_cast<float>(i % 7) * 0.75F);
            std::memcpy(data[1].data() + i * size, static_cast<const void*>(&value), sizeof value);
          }
        });
        const std::array<std::byte*, 5> bases = {data[0].data(), data[1].data(), data[0].data(), data[2].data(),
                                                 data[3].data()};
        const std::array<std::int64_t, 5> rows = {0, size, 0, size, 1};
        std::int64_t done = -1;
        runner.run({.bases = bases.data(),
                    .row_strides = rows.data(),
                    .column_strides = rows.data(),
                    .rows = kRows,
                    .columns = 1,
                    .scratch = nullptr,
                    .rows_done = &done});
        EXPECT_EQ(done, trips);
        return data;
      };
      const std::vector<Bytes> wanted = run(*interpret_loop(loop));
      EXPECT_EQ(run(code_of(loop)), wanted);
      if (trips == 0) {
        EXPECT_EQ(wanted[0], element_bytes(1, dtype));
        continue;
      }
      EXPECT_EQ(wanted[0], Bytes(wanted[2].begin() + (trips - 1) * size, wanted[2].begin() + trips * size));
      EXPECT_NE(wanted[2], element_bytes(kRows, dtype));
    }
  }
}

// ---- Random loops.

class RandomLoop {
 public:
  explicit RandomLoop(std::uint64_t seed) : random_(seed) {
    const int inputs = 1 + pick(4);
    for (int i = 0; i < inputs; ++i) loop_.arrays.push_back({any_dtype(), any_access()});
    const int phases = 1 + pick(4);
    for (int i = 0; i < phases; ++i) add_phase(pick(4) == 0);
  }

  const Loop& loop() const { return loop_; }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  Dtype any_dtype() { return static_cast<Dtype>(pick(kNumDtypes)); }
  Access any_access() { return static_cast<Access>(pick(3)); }

  void add_phase(bool once) {
    PhaseBuilder phase(loop_);
    std::vector<Expr> values;
    for (int i = 0; i < static_cast<int>(loop_.arrays.size()); ++i) {
      const LoopArray& array = loop_.arrays[static_cast<std::size_t>(i)];
      if (!array.written && (array.access == Access::kUniform || !once)) values.push_back(phase.array(i));
    }
    for (int i = 0; i < static_cast<int>(loop_.temporaries.size()) && !once; ++i) values.push_back(phase.temporary(i));
    for (int i = 0; i < static_cast<int>(loop_.scalars.size()); ++i) values.push_back(phase.scalar(i));
    if (values.empty()) return;

    const int operations = pick(12);
    for (int i = 0; i < operations; ++i) values.push_back(any_operation(values));
    const int results = 1 + pick(3);
    for (int i = 0; i < results; ++i) {
      const Expr value = values[values.size() - 1 - static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
      add_result(phase, value, once);
    }
    phase.finish(once);
  }

  Expr any_operation(const std::vector<Expr>& values) {
    const auto any = [&] { return values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))]; };
    Expr a = any();
    if (is_complex(a.dtype())) return pick(2) == 0 ? real(a) : imag(a);
    const Expr b = convert(is_complex(any().dtype()) ? a : any_real(values, a), a.dtype());
    const bool is_float = is_floating(a.dtype());
    const bool is_bool = a.dtype() == bool_;
    switch (pick(13)) {
      case 12:
        return a.dtype() == float32 || a.dtype() == float64 ? iterated(a, b) : convert(a, float64);
      case 0:
        return is_bool ? a & b : a + b;
      case 1:
        return is_bool ? a | b : a * b;
      case 2:
        return is_bool ? a ^ b : a / b;
      case 3:
        return min(a, b);
      case 4:
        return max(a, b);
      case 5:
        return a < b;
      case 6:
        return select(a == b, b, a);
      case 7:
        return convert(a, static_cast<Dtype>(pick(static_cast<int>(Dtype::kF64) + 1)));
      case 8:
        return is_float ? sqrt(abs(a)) : ~convert(a, int32);
      case 9:
        return is_float ? fma(a, b, a) : is_bool ? ~a : a - b;
      case 10:
        return a.dtype() == float32 || a.dtype() == float64 ? scalar::sin(a) : convert(a, float32);
      default:
        return a.dtype() == float32 || a.dtype() == float64 ? make_complex(a, b) : convert(a, float64);
    }
  }

  // Halves a, and adds 1 or b to it, until it is small: after a number of trips of its own in each column.
  static Expr iterated(Expr a, Expr b) {
    const Expr count = a.builder().constant(int32, 0);
    const auto goes_on = [](scalar::Iterated in) { return (in[2] < 9) & (abs(in[0]) > 2); };
    const auto next = [&](scalar::Iterated in) {
      return std::vector{fma(in[0], 0.5, in[1]), min(b, 1), in[2] + in[2].like(1)};
    };
    return scalar::iterate({a, a.like(1), count}, goes_on, next)[0] + b;
  }

  Expr any_real(const std::vector<Expr>& values, Expr otherwise) {
    const Expr value = values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
    return is_complex(value.dtype()) ? otherwise : value;
  }

  void add_result(PhaseBuilder& phase, Expr value, bool once) {
    const Dtype dtype = value.dtype();
    const int kind = pick(3);
    if (kind == 0 || (kind == 2 && !once && is_complex(dtype))) {
      const Access access = once ? Access::kUniform : pick(3) == 0 ? Access::kStrided : Access::kDense;
      loop_.arrays.push_back({dtype, access, true});
      phase.store(value, static_cast<int>(loop_.arrays.size()) - 1);
    } else if (kind == 1 && !once) {
      loop_.temporaries.push_back(dtype);
      phase.keep(value, static_cast<int>(loop_.temporaries.size()) - 1);
    } else {
      loop_.scalars.push_back(dtype);
      const int number = static_cast<int>(loop_.scalars.size()) - 1;
      const auto reduction = static_cast<ReduceKind>(pick(is_floating(dtype) ? 4 : 6));
      once ? phase.set(value, number) : phase.reduce(reduction, value, number);
    }
  }

  std::mt19937_64 random_;
  Loop loop_;
};

TEST(CompiledLoop, RunsRandomLoops) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const RandomLoop random(seed);
    if (random.loop().phases.empty()) continue;
    for (const std::int64_t n : {1, 40, 333}) {
      check(random.loop(), 2, n, seed, "random loop " + std::to_string(seed), seed % 3 == 0);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// ---- The compiler.

// x * factor: another loop for each factor.
Loop scaling_loop(double factor) {
  Loop loop;
  loop.arrays = {{float32}, {float32, Access::kDense, true}};
  PhaseBuilder phase(loop);
  const Expr x = phase.array(0);
  phase.store(x * factor, 1);
  phase.finish();
  return loop;
}

void expect_scales(const CompiledLoop& compiled, float factor) {
  ASSERT_NE(compiled.runner(), nullptr);
  std::vector<float> x = {1, 2, 3};
  auto* const base = reinterpret_cast<std::byte*>(x.data());
  std::byte* const bases[] = {base, base};
  const std::int64_t strides[] = {0, 0};
  compiled.runner()->run({bases, strides, strides, 1, 3, nullptr});
  EXPECT_EQ(x, (std::vector<float>{factor, 2 * factor, 3 * factor}));
}

TEST(LoopCompiler, CompilesEqualLoopsOnce) {
  LoopCompiler compiler(std::nullopt);
  const auto first = compiler.compile(scaling_loop(2), When::kNow);
  EXPECT_EQ(compiler.compile(scaling_loop(2), When::kNow), first);
  EXPECT_EQ(compiler.compile(scaling_loop(2), When::kInBackground), first);
  EXPECT_NE(compiler.compile(scaling_loop(3), When::kNow), first);
  expect_scales(*first, 2);
  EXPECT_EQ(compiler.counters().compiled, 2);
}

TEST(LoopCompiler, CompilesOnceForManyThreads) {
  LoopCompiler compiler(std::nullopt);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 4; ++i) {
        const auto when = (t + i) % 3 == 0 ? When::kInBackground : When::kNow;
        const auto compiled = compiler.compile(scaling_loop(i), when);
        if (when == When::kNow) expect_scales(*compiled, static_cast<float>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler.counters().compiled, 4);
}

TEST(LoopCompiler, CompilesInTheBackground) {
  LoopCompiler compiler(std::nullopt);
  const auto compiled = compiler.compile(scaling_loop(5), When::kInBackground);
  while (compiled->runner() == nullptr) std::this_thread::yield();
  expect_scales(*compiled, 5);
  // What waits is compiled at once for who cannot wait.
  for (int i = 6; i < 12; ++i) compiler.compile(scaling_loop(i), When::kInBackground);
  expect_scales(*compiler.compile(scaling_loop(11), When::kNow), 11);
}

TEST(LoopCompiler, StopsWhileLoopsWait) {
  std::shared_ptr<const CompiledLoop> last;
  {
    LoopCompiler compiler(std::nullopt);
    for (int i = 1; i < 50; ++i) last = compiler.compile(scaling_loop(i), When::kInBackground);
  }
  if (last->runner() != nullptr) expect_scales(*last, 49);
}

}  // namespace
}  // namespace shoal::cpu
