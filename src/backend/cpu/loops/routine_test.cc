// Loops as routines: which are, and that both tiers give the same bits; control_flow_test.cc compares them with the
// reference back end.
#include "backend/cpu/loops/routine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/loops/compiler.h"
#include "backend/cpu/loops/routine_interpreter.h"
#include "backend/cpu/loops/routine_of_loop.h"
#include "core/dispatch.h"
#include "ops/table.h"

namespace shoal::cpu {
namespace {

using Bytes = std::vector<std::byte>;

std::optional<RoutinePlan> plan_of(const std::string& body, std::size_t carries, const std::string& condition = "") {
  const Graph graph = parse_graph(body, find_op);
  if (condition.empty()) return routine_of_loop(graph, nullptr, carries);
  const Graph question = parse_graph(condition, find_op);
  return routine_of_loop(graph, &question, carries);
}

// What a routine leaves in memory that began with small numbers, and the number of its trips.
struct Left {
  std::vector<Bytes> arrays;
  std::int64_t trips = 0;
  friend bool operator==(const Left&, const Left&) = default;
};

template <class T>
void fill(Bytes& bytes, std::mt19937& random) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    const auto number = static_cast<int>(random() % 23) - 4;
    T value;
    if constexpr (std::is_same_v<T, bool>) {
      value = number % 2 == 0;
    } else if constexpr (kIsComplexElement<T>) {
      value = T(static_cast<typename T::value_type>(number), 0.5F);
    } else {
      value = static_cast<T>(static_cast<float>(number));
    }
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

Left run(const LoopRunner& runner, const Graph& body, const RoutinePlan& plan, std::size_t carries,
         std::int64_t trips) {
  std::mt19937 random(1);
  Left left;
  std::vector<std::byte*> bases;
  std::vector<std::int64_t> strides;
  for (const std::size_t operand : plan.operands) {
    const std::size_t inputs = body.inputs.size();
    const ValueId id = operand < inputs ? body.inputs[operand] : body.outputs[operand - inputs + carries];
    const Type& type = body.type(id);
    const std::size_t bytes = static_cast<std::size_t>(num_elements(type.shape)) * size_of(type.dtype);
    const bool moves = operand >= carries;
    left.arrays.emplace_back(bytes * static_cast<std::size_t>(moves ? trips : 1));
    with_element_type(type.dtype, [&]<class T>(T) { fill<T>(left.arrays.back(), random); });
    strides.push_back(moves ? static_cast<std::int64_t>(bytes) : 0);
  }
  for (Bytes& array : left.arrays) bases.push_back(array.data());
  left.trips = trips;
  runner.run({.bases = bases.data(),
              .row_strides = strides.data(),
              .column_strides = nullptr,
              .rows = trips,
              .columns = 1,
              .scratch = nullptr,
              .rows_done = &left.trips});
  return left;
}

// Runs it by both tiers.
Left left_by(const std::string& body, std::size_t carries, std::int64_t trips, const std::string& condition = "") {
  const std::optional<RoutinePlan> plan = plan_of(body, carries, condition);
  if (!plan) {
    ADD_FAILURE() << "no routine: " << body;
    return {};
  }
  const Graph graph = parse_graph(body, find_op);
  Left left = run(*interpret_routine(plan->routine), graph, *plan, carries, trips);
  const LoopRunner* const compiled = compile_loop(plan->routine, When::kNow)->runner();
  if (compiled != nullptr) {
    EXPECT_EQ(run(*compiled, graph, *plan, carries, trips), left) << body;
  }
  return left;
}

template <class T>
std::vector<T> elements(const Bytes& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::string with(std::string text, std::string_view dtype) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$')) text.replace(at, 1, dtype);
  return text;
}

// A branch whose ways take little, and one whose ways take long.
TEST(Routine, Branches) {
  for (const std::string way :
       {"%1: $[] = add(%0, %0)",
        "%2: $[] = logistic(%0)\n %3: $[] = sqrt(%2)\n %4: $[] = exp(%3)\n %1: $[] = sin(%4)"}) {
    for (const std::string_view dtype : {"f32", "f64", "f16", "bf16"}) {
      const std::string body = R"(graph "body"(%0: i32[], %1: $[]) {
        %2: i32[] = full() {shape = (), value = i32(1)}
        %3: i32[] = add(%0, %2)
        %4: i32[] = full() {shape = (), value = i32(5)}
        %5: i32[] = remainder(%0, %4)
        %6: i32[] = subtract(%5, %2)
        %7: $[], %8: i32[] = switch(%6, %1, %0) {bodies = graphs(graph "a"(%0: $[], %2: i32[]) {
            %1: $[] = negative(%0)
            return %1, %2
          }, graph "b"(%0: $[], %5: i32[]) {
            )" + way + R"(
            return %1, %5
          }, graph "c"(%0: $[], %2: i32[]) {
            %1: $[] = cos(%0)
            return %1, %2
          })}
        return %3, %7, %7, %8
      })";
      const Left left = left_by(with(body, dtype), 2, 50);
      EXPECT_EQ(left.trips, 50);
    }
  }
}

// Items inside and outside, of arrays of each dtype.
TEST(Routine, ReadsAndWritesItems) {
  for (const std::string_view dtype :
       {"bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "c64", "c128"}) {
    for (const std::string_view index : {"i8", "i32", "i64", "u64"}) {
      std::string body = with(R"(graph "body"(%0: #[], %1: $[2,7], %2: $[7], %3: #[]) {
        %4: $[] = gather(%2, %0) {array_batch = (), dims = (0), index_batch = ()}
        %5: $[] = gather(%1, %3, %0) {array_batch = (), dims = (0, 1), index_batch = ()}
        %6: $[2,7] = scatter(%1, %4, %3, %3) {array_batch = (), dims = (0, 1), index_batch = ()}
        %7: $[2,7] = scatter_combine(%6, %5, %3, %0) {array_batch = (), dims = (0, 1), index_batch = (), kind = "sum"}
        %8: #[] = full() {shape = (), value = #(1)}
        %9: #[] = add(%0, %8)
        return %9, %7, %4, %5
      })",
                              dtype);
      for (std::size_t at = body.find('#'); at != std::string::npos; at = body.find('#')) body.replace(at, 1, index);
      left_by(body, 2, 20);
    }
  }
  for (const std::string_view kind : {"prod", "max", "min"}) {
    for (const std::string_view dtype : {"bool", "i8", "u64", "f16", "bf16", "f32", "f64"}) {
      left_by(with(R"(graph "body"(%0: $[7], %1: i32[], %2: $[]) {
        %3: $[7] = scatter_combine(%0, %2, %1) {array_batch = (), dims = (0), index_batch = (), kind = ")" +
                       std::string(kind) + R"("}
        return %3
      })",
                   dtype),
              1, 30);
    }
  }
}

TEST(Routine, Windows) {
  const Left left = left_by(R"(graph "body"(%0: i64[], %1: i32[3,4], %2: u64[], %3: i8[]) {
    %4: i32[1,4] = dynamic_slice(%1, %0, %3) {sizes = (1, 4)}
    %5: i32[4] = reshape(%4) {shape = (4)}
    %6: i32[1] = slice(%5) {limits = (3), starts = (2), strides = (1)}
    %7: i32[] = reshape(%6) {shape = ()}
    %8: i32[1] = dynamic_slice(%5, %2) {sizes = (1)}
    %9: i32[1,1] = reshape(%8) {shape = (1, 1)}
    %10: i32[3,4] = dynamic_update_slice(%1, %9, %2, %3)
    %11: i32[12] = reshape(%10) {shape = (12)}
    %12: i32[1] = dynamic_slice(%11, %3) {sizes = (1)}
    %13: i64[] = full() {shape = (), value = i64(1)}
    %14: i64[] = add(%0, %13)
    return %14, %10, %7, %12
  })",
                            2, 25);
  EXPECT_EQ(left.arrays.size(), 6U);
}

// Loops in loops: with slices in both orders, of positions too, and one that goes on as long as it likes.
TEST(Routine, LoopsWithinLoops) {
  const Left left = left_by(R"(graph "body"(%0: i32[], %1: i32[3], %2: i32[3,2], %3: i32[]) {
    %4: i32[3] = iota() {dim = 0, dtype = i32, shape = (3)}
    %5: i32[3], %6: i32[] = scan(%1, %0, %2, %4, %3) {bodies = graphs(graph "rows"(%0: i32[3], %1: i32[], %2: i32[2], %3: i32[], %4: i32[]) {
        %5: i32[] = scan(%1, %2) {bodies = graphs(graph "row"(%0: i32[], %1: i32[]) {
            %2: i32[] = full() {shape = (), value = i32(3)}
            %3: i32[] = multiply(%0, %2)
            %4: i32[] = add(%3, %1)
            return %4
          }), carries = 1, length = 2, reverse = false, slices = 1}
        %6: i32[3] = scatter_combine(%0, %5, %3) {array_batch = (), dims = (0), index_batch = (), kind = "sum"}
        %7: i32[] = add(%5, %4)
        return %6, %7
      }), carries = 2, length = 3, reverse = true, slices = 2}
    %7: i32[] = full() {shape = (), value = i32(1000)}
    %8: i32[], %9: i32[3] = while(%6, %5, %7) {bodies = graphs(graph "condition"(%0: i32[], %1: i32[3], %2: i32[]) {
        %3: bool[] = greater(%0, %2)
        return %3
      }, graph "halve"(%0: i32[], %1: i32[3], %2: i32[]) {
        %3: i32[] = full() {shape = (), value = i32(2)}
        %4: i32[] = divide(%0, %3)
        %5: i32[] = remainder(%0, %3)
        %6: i32[3] = scatter(%1, %4, %5) {array_batch = (), dims = (0), index_batch = ()}
        return %4, %6
      }), carries = 2}
    return %8, %9, %6
  })",
                            2, 9, R"(graph "condition"(%0: i32[], %1: i32[3], %2: i32[3,2], %3: i32[]) {
    %4: i32[] = full() {shape = (), value = i32(900)}
    %5: bool[] = less(%0, %4)
    return %5
  })");
  EXPECT_GT(left.trips, 0);
}

// Of no trips, what is carried is as it was.
TEST(Routine, OfNoTrips) {
  const std::string body = R"(graph "body"(%0: i32[], %1: f32[4]) {
    %2: f32[] = gather(%1, %0) {array_batch = (), dims = (0), index_batch = ()}
    %3: i32[] = convert(%2) {dtype = i32}
    return %3
  })";
  EXPECT_EQ(left_by(body, 1, 0).trips, 0);
}

// How often one trip of a routine that carries an i32 asks whether it is to end, if it is told so when it asks for the
// time `told`.
int times_asked(const LoopRunner& runner, int told) {
  std::int32_t carry = 0;
  auto* base = reinterpret_cast<std::byte*>(&carry);
  const std::int64_t stride = 0;
  std::int64_t trips = 1;
  int asked = 0;
  const auto tell = [&] { return ++asked == told; };
  const FunctionRef<bool()> is_to_end = tell;
  runner.run({.bases = &base,
              .row_strides = &stride,
              .column_strides = nullptr,
              .rows = 1,
              .columns = 1,
              .scratch = nullptr,
              .rows_done = &trips,
              .is_to_end = &is_to_end});
  return asked;
}

// The fewest times of both tiers.
int times_asked(const std::string& body, int told) {
  const std::optional<RoutinePlan> plan = plan_of(body, 1);
  if (!plan) {
    ADD_FAILURE() << "no routine: " << body;
    return 0;
  }
  const int interpreted = times_asked(*interpret_routine(plan->routine), told);
  const LoopRunner* const compiled = compile_loop(plan->routine, When::kNow)->runner();
  return compiled == nullptr ? interpreted : std::min(interpreted, times_asked(*compiled, told));
}

// A run that is told to end while a loop within a trip goes round.
TEST(Routine, EndsWhenItIsTold) {
  const std::string body = R"(graph "body"(%0: i32[]) {
    %1: i32[] = while(%0) {bodies = graphs(graph "condition"(%0: i32[]) {
        %1: bool[] = full() {shape = (), value = bool(true)}
        return %1
      }, graph "count"(%0: i32[]) {
        %1: i32[] = full() {shape = (), value = i32(1)}
        %2: i32[] = add(%0, %1)
        return %2
      }), carries = 1}
    return %1
  })";
  EXPECT_EQ(times_asked(body, 3), 3);
}

// Few trips that are long, and many of a loop that only asks whether to go on.
TEST(Routine, AsksAfterSoManySteps) {
  std::string steps;
  for (int i = 1; i <= 200; ++i) steps += fmt::format("%{}: i32[] = add(%{}, %0)\n", i, i - 1);
  EXPECT_GE(times_asked(R"(graph "body"(%0: i32[]) {
    %1: i32[] = scan(%0) {bodies = graphs(graph "trip"(%0: i32[]) {
        )" + steps + R"(
        return %200
      }), carries = 1, length = 8192, reverse = false, slices = 0}
    return %1
  })",
                        -1),
            5);
  EXPECT_GE(times_asked(R"(graph "body"(%0: i32[]) {
    %1: i32[] = scan(%0) {bodies = graphs(graph "trip"(%0: i32[]) {
        %1: i32[] = while(%0) {bodies = graphs(graph "condition"(%0: i32[]) {
            %1: i32[] = scan(%0) {bodies = graphs(graph "double"(%0: i32[]) {
                %1: i32[] = add(%0, %0)
                return %1
              }), carries = 1, length = 1000, reverse = false, slices = 0}
            %2: bool[] = less(%1, %0)
            return %2
          }, graph "same"(%0: i32[]) {
            return %0
          }), carries = 1}
        return %1
      }), carries = 1, length = 2000, reverse = false, slices = 0}
    return %1
  })",
                        -1),
            10);
}

// Arrays are written to where they lie: what needs one as it was is no routine.
TEST(Routine, ArraysThatAreNeededAsTheyWere) {
  const std::string written = "{array_batch = (), dims = (0), index_batch = ()}";
  const auto is_routine = [&](const std::string& equations, std::size_t carries) {
    std::string body = R"(graph "body"(%0: f32[4], %1: f32[4], %2: i32[], %3: f32[]) {
      )" + equations + "}";
    for (std::size_t at = body.find('@'); at != std::string::npos; at = body.find('@')) body.replace(at, 1, written);
    return plan_of(body, carries).has_value();
  };
  EXPECT_TRUE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ return %4, %1", 2));
  EXPECT_TRUE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ return %4", 1));
  // They change places.
  EXPECT_FALSE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ return %1, %4", 2));
  // One is read after it was written.
  EXPECT_FALSE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ %5: f32[] = gather(%0, %2) @ return %4, %1, %5", 2));
  EXPECT_TRUE(is_routine("%5: f32[] = gather(%0, %2) @ %4: f32[4] = scatter(%0, %3, %2) @ return %4, %1, %5", 2));
  // One is written that is no carry, or is not carried as it was written.
  EXPECT_FALSE(is_routine("%4: f32[4] = scatter(%1, %3, %2) @ %5: f32[] = gather(%4, %2) @ return %0, %5", 1));
  EXPECT_FALSE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ %5: f32[] = gather(%4, %2) @ return %0, %5", 1));
  // A whole array is stacked.
  EXPECT_FALSE(is_routine("%4: f32[4] = scatter(%0, %3, %2) @ return %4, %4", 1));
  // A branch writes to what the other one gives.
  const auto branches = [](const std::string& one, const std::string& other, const std::string& results) {
    return "%4: f32[4], %5: f32[] = switch(%2, %0, %2, %3) {bodies = graphs("
           "graph \"a\"(%0: f32[4], %1: i32[], %2: f32[]) {" +
           one + "}, graph \"b\"(%0: f32[4], %1: i32[], %2: f32[]) {" + other + "})} return " + results;
  };
  const std::string writes = "%3: f32[4] = scatter(%0, %2, %1) @ return %3, %2";
  EXPECT_TRUE(is_routine(branches(writes, "return %0, %2", "%4, %1, %5"), 2));
  EXPECT_FALSE(is_routine(branches(writes, "return %0, %2", "%0, %1, %5"), 2));
  EXPECT_FALSE(is_routine(branches("%3: f32[4] = scatter(%0, %2, %1) @ return %0, %2", "return %0, %2", "%4, %1"), 2));
}

}  // namespace
}  // namespace shoal::cpu
