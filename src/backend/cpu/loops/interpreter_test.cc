#include "backend/cpu/loops/interpreter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cpu/loops/interpreter_test_support.h"
#include "backend/cpu/machine/simd_dispatch.h"
#include "ops/scalar/math.h"
#include "shoal/error.h"

namespace shoal::cpu {
namespace {

using scalar::Core;
using scalar::Expr;

// Runs f with the primitives of every instruction set that the machine has.
template <class F>
void for_each_target(F f) {
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    limit_simd_level(level);
    if (simd_level() != level) continue;
    SCOPED_TRACE(fmt::format("level {}", static_cast<int>(level)));
    f();
  }
  limit_simd_level(SimdLevel::kAvx512);
}

// Runs the loop both ways on equal arrays.
void expect_as_reference(const Loop& loop, LoopArrays arrays, const std::string& what,
                         const std::vector<std::size_t>& place_of = {}) {
  LoopArrays want = arrays;
  want.run([&](const LoopArguments& arguments) { run_plainly(loop, arguments); }, place_of);
  const std::unique_ptr<LoopRunner> runner = interpret_loop(loop);
  arrays.run([&](const LoopArguments& arguments) { runner->run(arguments); }, place_of);
  EXPECT_EQ(arrays.difference(want), "") << what;
}

std::string describe(const CoreCase& core_case) {
  std::string text(scalar::name_of(core_case.core));
  for (const Dtype dtype : core_case.operands) text += fmt::format(" {}", short_name_of(dtype));
  return text + fmt::format(" -> {}", short_name_of(core_case.result));
}

// All pairs of special values; the third operand, if there is one, is random.
void set_pairs(LoopArrays& arrays, const CoreCase& core_case) {
  if (core_case.operands.size() < 2) return;
  with_element_type(core_case.operands[1], [&]<class T>(T) {
    const std::vector<T> special = special_values<T>();
    std::vector<T> first;
    std::vector<T> second;
    if constexpr (!std::same_as<T, bool>) {
      for (const T a : special) {
        for (const T b : special) {
          first.push_back(a);
          second.push_back(b);
        }
      }
      const std::size_t operand = core_case.core == Core::kSelect ? 1 : 0;
      arrays.set(operand, std::as_bytes(std::span(first)));
      arrays.set(operand + 1, std::as_bytes(std::span(second)));
    }
  });
}

TEST(Interpreter, ComputesEveryCoreOperationAsTheReference) {
  for_each_target([] {
    Random random(1);
    for (const CoreCase& core_case : all_core_cases()) {
      const Loop loop = loop_of(core_case);
      LoopArrays arrays(loop, 1, core_case.operands.size() == 1 ? 700 : 4700, random);
      set_pairs(arrays, core_case);
      expect_as_reference(loop, arrays, describe(core_case));
    }
  });
}

TEST(Interpreter, StopsAtTheLastColumn) {
  Random random(2);
  for (const Dtype dtype : {Dtype::kI8, Dtype::kBF16, Dtype::kF16, Dtype::kF32, Dtype::kF64}) {
    for (const Core core : {Core::kNeg, Core::kAdd, Core::kRem}) {
      for (const Access access : {Access::kUniform, Access::kDense, Access::kStrided}) {
        const auto arity = static_cast<std::size_t>(scalar::arity_of(core));
        const CoreCase core_case = {core, dtype, std::vector<Dtype>(arity, dtype)};
        const Loop loop = loop_of(core_case, access);
        for (std::int64_t columns = 0; columns <= 70; ++columns) {
          expect_as_reference(loop, LoopArrays(loop, 3, columns, random),
                              fmt::format("{}, {} columns", describe(core_case), columns));
        }
      }
    }
  }
}

TEST(Interpreter, CopiesComplexValues) {
  Random random(3);
  for (const Dtype dtype : {Dtype::kC64, Dtype::kC128}) {
    for (const Access access : {Access::kUniform, Access::kDense, Access::kStrided}) {
      const Loop loop = loop_of({Core::kBitcast, dtype, {dtype}}, access);
      for (const std::int64_t columns : {1, 31, 33, 1000}) {
        expect_as_reference(loop, LoopArrays(loop, 2, columns, random), fmt::format("{} columns", columns));
      }
    }
  }
}

TEST(Interpreter, RunsRandomLoopsAsTheReference) {
  Random random(4);
  for (int i = 0; i < 600; ++i) {
    const Loop loop = RandomLoop(random).make();
    const auto rows = static_cast<std::int64_t>(random() % 4);
    const auto columns = static_cast<std::int64_t>(random() % (i % 4 == 0 ? 2000 : 100));
    expect_as_reference(loop, LoopArrays(loop, rows, columns, random),
                        fmt::format("loop {}, {} rows of {} columns", i, rows, columns));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Interpreter, RunsRandomLoopsAlikeOnAllInstructionSets) {
  for_each_target([] {
    Random random(5);
    for (int i = 0; i < 60; ++i) {
      const Loop loop = RandomLoop(random).make();
      expect_as_reference(loop, LoopArrays(loop, 2, 200, random), fmt::format("loop {}", i));
      if (testing::Test::HasFailure()) return;
    }
  });
}

// Reduces one array to the output, for every row.
Loop reduction(ReduceKind kind, Dtype dtype) {
  Loop loop;
  loop.arrays = {{.dtype = dtype}, {.dtype = dtype, .access = Access::kUniform, .written = true}};
  loop.scalars = {dtype};
  loop.phases.resize(2);
  loop.phases[0].nodes = {{.core = Core::kInput, .dtype = dtype}};
  loop.phases[0].inputs = {{LoopInput::Kind::kArray, 0}};
  loop.phases[0].results = {{LoopResult::Kind::kReduce, 0, 0, kind}};
  loop.phases[1].once = true;
  loop.phases[1].nodes = {{.core = Core::kInput, .dtype = dtype}};
  loop.phases[1].inputs = {{LoopInput::Kind::kScalar, 0}};
  loop.phases[1].results = {{LoopResult::Kind::kArray, 1, 0}};
  return loop;
}

TEST(Interpreter, ReducesInVirtualLanes) {
  for_each_target([] {
    Random random(6);
    for (int d = 0; d < kNumDtypes; ++d) {
      const auto dtype = static_cast<Dtype>(d);
      for (int k = 0; k < 6; ++k) {
        const auto kind = static_cast<ReduceKind>(k);
        const bool has_bits = dtype == Dtype::kBool || is_integer(dtype);
        if (is_complex(dtype) || (!has_bits && k > static_cast<int>(ReduceKind::kMin))) continue;
        const Loop loop = reduction(kind, dtype);
        for (const std::int64_t columns : {0, 1, 2, 31, 32, 33, 64, 95, 500, 3000}) {
          expect_as_reference(loop, LoopArrays(loop, 2, columns, random),
                              fmt::format("{} of {} {}", name_of(kind), columns, short_name_of(dtype)));
        }
      }
    }
  });
}

// The sum of numbers whose sum depends on the order.
TEST(Interpreter, SumsInTheOrderOfTheLanes) {
  const Loop loop = reduction(ReduceKind::kSum, Dtype::kF32);
  std::vector<float> x(100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0F / static_cast<float>(i + 1);
  std::vector<float> lanes(kLanes, 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) lanes[i % kLanes] += x[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  float got = 0;
  std::byte* bases[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&got)};
  const std::int64_t strides[] = {0, 0};
  interpret_loop(loop)->run({bases, strides, strides, 1, static_cast<std::int64_t>(x.size()), nullptr});
  EXPECT_EQ(got, lanes[0]);
}

// Whether a body computes on a dense array what the reference does.
TEST(Interpreter, ComputesFunctions) {
  Random random(7);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kF16}) {
    for (Expr (*function)(Expr) :
         {scalar::exp, scalar::log, scalar::sin, scalar::logistic, scalar::erf, scalar::tanh}) {
      const scalar::Body body = scalar::make_body({dtype}, [&](auto in) { return function(in[0]); });
      Loop loop;
      loop.arrays = {{.dtype = dtype}, {.dtype = dtype, .written = true}};
      loop.phases.resize(1);
      loop.phases[0].nodes = body.nodes;
      loop.phases[0].inputs = {{LoopInput::Kind::kArray, 0}};
      loop.phases[0].results = {{LoopResult::Kind::kArray, 1, body.result}};
      expect_as_reference(loop, LoopArrays(loop, 2, 1100, random), std::string(short_name_of(dtype)));
    }
  }
}

// Chunks of arguments that are all small, all moderate, or neither.
TEST(Interpreter, ReducesArgumentsOfAllSizes) {
  for_each_target([] {
    Random random(10);
    for (const CoreCase& core_case : all_core_cases()) {
      if (core_case.core < Core::kPio2Quadrant) continue;
      const Loop loop = loop_of(core_case);
      LoopArrays arrays(loop, 1, 6000, random);
      const auto fill = [&]<class T>(T) {
        constexpr double kPio4 = 0x1.921fb54442d18p-1;
        std::vector<T> x(6000);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double unit = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
          const double near = std::copysign(kPio4 * static_cast<double>(random() % 1000), unit);
          const double sizes[] = {unit * kPio4, unit * 8, unit * 0x1p30, near, unit * 0x1p40};
          const std::size_t largest = i / 100 % 5;
          x[i] = static_cast<T>(sizes[random() % (largest + 1)]);
        }
        arrays.set(0, std::as_bytes(std::span(x)));
      };
      if (core_case.operands[0] == Dtype::kF32) fill(float{});
      if (core_case.operands[0] == Dtype::kF64) fill(double{});
      expect_as_reference(loop, arrays, describe(core_case));
    }
  });
}

// Operations that follow each other on one value may be done by one primitive.
TEST(Interpreter, JoinsOperationsWithoutChangingBits) {
  for_each_target([] {
    Random random(9);
    for (int i = 0; i < 300; ++i) {
      const Dtype dtype = i % 2 == 0 ? Dtype::kF32 : Dtype::kF64;
      Loop loop;
      loop.arrays = {{.dtype = dtype}, {.dtype = dtype}, {.dtype = dtype, .written = true}};
      loop.phases.resize(1);
      Phase& phase = loop.phases[0];
      phase.inputs = {{LoopInput::Kind::kArray, 0}, {LoopInput::Kind::kArray, 1}};
      phase.nodes = {{.core = Core::kInput, .dtype = dtype, .bits = 0},
                     {.core = Core::kInput, .dtype = dtype, .bits = 1}};
      for (const double value : {0.5, -3.0, 1.25}) {
        const auto bits = dtype == Dtype::kF32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                               : std::bit_cast<std::uint64_t>(value);
        phase.nodes.push_back({.core = Core::kConstant, .dtype = dtype, .bits = bits});
      }
      const int x = static_cast<int>(random() % 2);
      for (int left = 12; left > 0; --left) {
        const int last = static_cast<int>(phase.nodes.size()) - 1;
        const auto any = [&] { return static_cast<int>(random() % phase.nodes.size()); };
        const Core core = std::array{Core::kAdd, Core::kSub, Core::kMul, Core::kFma, Core::kFma}[random() % 5];
        scalar::Node node = {.core = core, .dtype = dtype, .operands = {last, any(), -1}};
        if (core == Core::kFma)
          node.operands = {last, random() % 8 == 0 ? any() : x, 2 + static_cast<int>(random() % 3)};
        if (random() % 4 == 0) std::swap(node.operands[0], node.operands[1]);
        phase.nodes.push_back(node);
      }
      phase.results = {{LoopResult::Kind::kArray, 2, static_cast<int>(phase.nodes.size()) - 1}};
      expect_as_reference(loop, LoopArrays(loop, 1, 300, random), fmt::format("loop {}", i));
    }
  });
}

// Outputs in the memory of inputs that are still needed: (x, y) = (y, x), and x = x + y with y = x - y.
TEST(Interpreter, MayWriteOverWhatItReads) {
  Random random(8);
  for (const bool swaps : {true, false}) {
    for (const Access access : {Access::kDense, Access::kStrided}) {
      Loop loop;
      loop.arrays = {{.dtype = Dtype::kF32, .access = access},
                     {.dtype = Dtype::kF32, .access = access},
                     {.dtype = Dtype::kF32, .access = access, .written = true},
                     {.dtype = Dtype::kF32, .access = access, .written = true}};
      loop.phases.resize(1);
      Phase& phase = loop.phases[0];
      phase.inputs = {{LoopInput::Kind::kArray, 0}, {LoopInput::Kind::kArray, 1}};
      phase.nodes = {{.core = Core::kInput, .dtype = Dtype::kF32, .bits = 0},
                     {.core = Core::kInput, .dtype = Dtype::kF32, .bits = 1},
                     {.core = Core::kAdd, .dtype = Dtype::kF32, .operands = {0, 1, -1}},
                     {.core = Core::kSub, .dtype = Dtype::kF32, .operands = {0, 1, -1}}};
      phase.results = {{LoopResult::Kind::kArray, 2, swaps ? 1 : 2}, {LoopResult::Kind::kArray, 3, swaps ? 0 : 3}};
      for (const std::int64_t columns : {5, 32, 40, 2000}) {
        LoopArrays arrays(loop, 2, columns, random);
        arrays.make_alike(2, 0);
        arrays.make_alike(3, 1);
        expect_as_reference(loop, arrays, fmt::format("{} columns", columns), {0, 1, 0, 1});
      }
    }
  }
}

TEST(Interpreter, RefusesWhatIsNotDefined) {
  EXPECT_THROW(interpret_loop(loop_of({Core::kSqrt, Dtype::kI32, {Dtype::kI32}})), InternalError);
  EXPECT_THROW(interpret_loop(loop_of({Core::kAdd, Dtype::kC64, {Dtype::kC64, Dtype::kC64}})), InternalError);
}

}  // namespace
}  // namespace shoal::cpu
