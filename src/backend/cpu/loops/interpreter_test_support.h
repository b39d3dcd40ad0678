// For tests of the tiers: fused loops evaluated slowly and obviously, on arrays with random contents.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/loops/loop.h"
#include "core/dispatch.h"
#include "ops/reduction.h"
#include "ops/scalar/core_ops.h"
#include "ops/scalar/interpret.h"
#include "shoal/error.h"

namespace shoal::cpu {

using Random = std::mt19937_64;

// ---- The reference.

/// One step of a reduction, by the core operations.
template <scalar::core_ops::Real T>
T reduced(ReduceKind kind, T a, T b) {
  namespace ops = scalar::core_ops;
  switch (kind) {
    case ReduceKind::kSum:
      if constexpr (std::same_as<T, bool>) return a || b;
      if constexpr (!std::same_as<T, bool>) return ops::add(a, b);
    case ReduceKind::kProd:
      if constexpr (std::same_as<T, bool>) return a && b;
      if constexpr (!std::same_as<T, bool>) return ops::mul(a, b);
    case ReduceKind::kMax:
      return ops::max(a, b);
    case ReduceKind::kMin:
      return ops::min(a, b);
    case ReduceKind::kAnd:
      if constexpr (std::integral<T>) return ops::bit_and(a, b);
      break;
    case ReduceKind::kOr:
      if constexpr (std::integral<T>) return ops::bit_or(a, b);
      break;
  }
  throw InternalError("no such reduction");
}

/// A column of a row, reduced as loop.h says.
inline std::vector<std::byte> reduce_plainly(ReduceKind kind, Dtype dtype, const std::byte* column, std::int64_t n) {
  std::vector<std::byte> result(size_of(dtype));
  with_element_type(dtype, [&]<class T>(T) {
    if constexpr (scalar::core_ops::Real<T>) {
      T lanes[kLanes];
      std::fill_n(lanes, kLanes, T(neutral_element<CombineType<T>>(kind)));
      for (std::int64_t j = 0; j < n; ++j) {
        T value;
        std::memcpy(&value, column + static_cast<std::size_t>(j) * sizeof(T), sizeof(T));
        lanes[j % kLanes] = reduced(kind, lanes[j % kLanes], value);
      }
      for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (std::int64_t i = 0; i < half; ++i) lanes[i] = reduced(kind, lanes[i], lanes[i + half]);
      }
      std::memcpy(result.data(), lanes, sizeof(T));
    }
  });
  return result;
}

/// Runs `loop`, node by node, by the reference interpreter of scalar bodies.
inline void run_plainly(const Loop& loop, const LoopArguments& arguments) {
  std::vector<std::vector<std::byte>> temporaries(loop.temporaries.size());
  std::vector<std::vector<std::byte>> scalars(loop.scalars.size());
  for (std::int64_t row = 0; row < arguments.rows; ++row) {
    for (const Phase& phase : loop.phases) {
      const std::int64_t n = phase.once ? 1 : arguments.columns;
      const auto element = [&](int index, std::int64_t column) {
        const auto i = static_cast<std::size_t>(index);
        const std::int64_t step = loop.arrays[i].access == Access::kUniform ? 0
                                  : loop.arrays[i].access == Access::kDense
                                      ? static_cast<std::int64_t>(size_of(loop.arrays[i].dtype))
                                      : arguments.column_strides[i];
        return arguments.bases[i] + row * arguments.row_strides[i] + column * step;
      };

      std::vector<std::vector<std::byte>> columns;
      std::vector<const void*> inputs;
      std::vector<std::int64_t> strides;
      for (const LoopInput& input : phase.inputs) {
        const auto i = static_cast<std::size_t>(input.index);
        std::vector<std::byte>& column = columns.emplace_back();
        if (input.kind == LoopInput::Kind::kArray) {
          const std::size_t size = size_of(loop.arrays[i].dtype);
          column.resize(static_cast<std::size_t>(n) * size);
          for (std::int64_t j = 0; j < n; ++j) {
            const std::byte* at = element(input.index, j);
            const std::int64_t count = loop.arrays[i].counts ? count_at(at) : 0;
            std::memcpy(column.data() + static_cast<std::size_t>(j) * size,
                        loop.arrays[i].counts ? reinterpret_cast<const std::byte*>(&count) : at, size);
          }
        } else {
          column = input.kind == LoopInput::Kind::kTemporary ? temporaries[i] : scalars[i];
        }
        inputs.push_back(column.data());
        strides.push_back(input.kind == LoopInput::Kind::kScalar ? 0 : 1);
      }

      std::vector<std::vector<std::byte>> values;  // Of the results, before any is written.
      for (const LoopResult& result : phase.results) {
        const scalar::Body body = {phase.nodes, static_cast<int>(inputs.size()), result.node};
        values.emplace_back(static_cast<std::size_t>(n) * size_of(body.dtype()));
        scalar::interpret(body, inputs, strides, values.back().data(), n);
      }
      for (std::size_t r = 0; r < phase.results.size(); ++r) {
        const LoopResult& result = phase.results[r];
        const auto i = static_cast<std::size_t>(result.index);
        const Dtype dtype = phase.nodes[static_cast<std::size_t>(result.node)].dtype;
        switch (result.kind) {
          case LoopResult::Kind::kArray:
            for (std::int64_t j = 0; j < n; ++j) {
              std::memcpy(element(result.index, j), values[r].data() + static_cast<std::size_t>(j) * size_of(dtype),
                          size_of(dtype));
            }
            break;
          case LoopResult::Kind::kTemporary:
            temporaries[i] = values[r];
            break;
          case LoopResult::Kind::kScalar:
            scalars[i] = values[r];
            break;
          case LoopResult::Kind::kReduce:
            scalars[i] = reduce_plainly(result.reduction, dtype, values[r].data(), n);
            break;
        }
      }
    }
  }
}

// ---- Arrays.

/// Values at which operations tend to go wrong.
template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::same_as<T, bool>) {
    return {false, true};
  } else if constexpr (std::integral<T>) {
    return {T(0),
            T(1),
            T(2),
            T(3),
            T(7),
            T(8),
            T(31),
            T(32),
            T(63),
            T(64),
            T(-1),
            T(-2),
            T(-7),
            Limits::lowest(),
            T(Limits::lowest() + 1),
            Limits::max(),
            T(Limits::max() - 1),
            T(Limits::max() / 2)};
  } else if constexpr (std::floating_point<T>) {
    const T infinity = Limits::infinity();
    std::vector<T> values = {T(0),
                             T(0.5),
                             T(1),
                             T(1.5),
                             T(2.5),
                             T(3),
                             T(0.75),
                             T(1e-3),
                             T(100.25),
                             T(127.5),
                             T(255.5),
                             T(32768),
                             T(65504),
                             T(65519),
                             T(65520),
                             T(2147483647.0),
                             T(2147483648.0),
                             T(4294967296.0),
                             T(9223372036854775807.0),
                             T(18446744073709551616.0),
                             T(1e10),
                             T(1e30),
                             T(6e-8),
                             T(5.9e-8),
                             T(2.9e-8),
                             T(6.2e-5),
                             Limits::min(),
                             Limits::denorm_min(),
                             T(3 * Limits::denorm_min()),
                             Limits::max(),
                             Limits::epsilon(),
                             infinity,
                             Limits::quiet_NaN()};
    const std::size_t count = values.size();
    for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
    return values;
  } else if constexpr (kIsComplexElement<T>) {
    using Part = typename T::value_type;
    return {T(0, 0), T(1, -2), T(-Part(0), 3), T(std::numeric_limits<Part>::quiet_NaN(), -1)};
  } else {
    std::vector<T> values;
    for (const float value : special_values<float>()) values.push_back(T(value));
    return values;
  }
}

/// A value of a distribution that has special values, numbers of moderate size, and random bits.
template <class T>
T random_value(Random& random) {
  static const std::vector<T> special = special_values<T>();
  const std::uint64_t choice = random() % 4;
  if (choice == 0 || std::same_as<T, bool>) return special[random() % special.size()];
  if constexpr (kIsComplexElement<T>) {
    using Part = typename T::value_type;
    const Part re = random_value<Part>(random);
    return T(re, random_value<Part>(random));
  } else if constexpr (!std::same_as<T, bool>) {
    const std::uint64_t bits = random();
    if (choice == 1) return std::bit_cast<T>(static_cast<scalar::core_ops::Bits<T>>(bits));
    if constexpr (std::integral<T>) return static_cast<T>(bits % 41 - 20);
    if constexpr (!std::integral<T>) return T(static_cast<float>(static_cast<std::int64_t>(bits % 4001) - 2000) / 64);
  }
  return T{};
}

/// Whether two elements are equal bit for bit, or NaN both.
template <class T>
bool same_element(T a, T b) {
  if constexpr (kIsComplexElement<T>) {
    return same_element(a.real(), b.real()) && same_element(a.imag(), b.imag());
  } else if constexpr (scalar::core_ops::Floating<T>) {
    using Number = scalar::core_ops::Compute<T>;
    const bool is_nan = std::isnan(static_cast<Number>(a));
    if (is_nan || std::isnan(static_cast<Number>(b))) return is_nan && std::isnan(static_cast<Number>(b));
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  } else {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  }
}

/// Memory for the arrays of a loop. Elements are as little aligned as they may be, and there is room between those of
/// strided arrays and around all of them.
class LoopArrays {
 public:
  LoopArrays(const Loop& loop, std::int64_t rows, std::int64_t columns, Random& random)
      : loop_(&loop), rows_(rows), columns_(columns) {
    for (const LoopArray& array : loop.arrays) {
      const auto size = static_cast<std::int64_t>(size_of(array.dtype));
      std::int64_t column_stride = array.access == Access::kStrided ? 2 * size : size;
      if (array.access == Access::kStrided && random() % 2 == 0) column_stride = -3 * size;
      const std::int64_t span = array.access == Access::kUniform ? 1 : columns * std::abs(column_stride / size) + 1;
      const std::int64_t before = 3 + (column_stride < 0 ? span : 0);
      strides_.push_back(column_stride);
      row_strides_.push_back((span + 1) * size);
      starts_.push_back(before * size);
      std::vector<std::byte>& bytes = bytes_.emplace_back();
      with_element_type(array.dtype, [&]<class T>(T) {
        const std::int64_t elements = before + (span + 1) * std::max<std::int64_t>(rows, 1) + 40;
        for (std::int64_t i = 0; i < elements; ++i) {
          const T value = random_value<T>(random);
          const auto* first = reinterpret_cast<const std::byte*>(&value);
          bytes.insert(bytes.end(), first, first + sizeof(T));
        }
      });
    }
  }

  void set(std::size_t array, std::span<const std::byte> elements) {
    std::memcpy(bytes_[array].data() + starts_[array], elements.data(), elements.size());
  }

  /// Gives `array` the strides of `other`, in whose memory it is to be.
  void make_alike(std::size_t array, std::size_t other) {
    strides_[array] = strides_[other];
    row_strides_[array] = row_strides_[other];
  }

  /// f(arguments). `place_of` says which array's memory each array has: its own, but for those that share.
  template <class F>
  void run(F f, const std::vector<std::size_t>& place_of = {}) {
    std::vector<std::byte*> bases;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::size_t place = place_of.empty() ? i : place_of[i];
      bases.push_back(bytes_[place].data() + starts_[place]);
    }
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> scratch(scratch_bytes(*loop_, columns_) / sizeof(Line));
    f(LoopArguments{.bases = bases.data(),
                    .row_strides = row_strides_.data(),
                    .column_strides = strides_.data(),
                    .rows = rows_,
                    .columns = columns_,
                    .scratch = reinterpret_cast<std::byte*>(scratch.data())});
  }

  /// "array 2, element 17", where the arrays differ; "" if they do not.
  std::string difference(const LoopArrays& other) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes_[i] == other.bytes_[i]) continue;
      const Dtype dtype = loop_->arrays[i].dtype;
      const std::size_t count = bytes_[i].size() / size_of(dtype);
      for (std::size_t j = 0; j < count; ++j) {
        const bool is_same = with_element_type(dtype, [&]<class T>(T) {
          T a;
          T b;
          std::memcpy(&a, bytes_[i].data() + j * sizeof(T), sizeof(T));
          std::memcpy(&b, other.bytes_[i].data() + j * sizeof(T), sizeof(T));
          return same_element(a, b);
        });
        if (is_same) continue;
        const std::int64_t start = starts_[i] / static_cast<std::int64_t>(size_of(dtype));
        return "array " + std::to_string(i) + ", element " + std::to_string(static_cast<std::int64_t>(j) - start);
      }
    }
    return "";
  }

 private:
  const Loop* loop_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::int64_t> starts_;  // Of row 0, column 0, in bytes.
  std::vector<std::int64_t> strides_;
  std::vector<std::int64_t> row_strides_;
};

// ---- Loops.

/// The core operations with their operands' dtypes, wherever they are defined.
struct CoreCase {
  scalar::Core core;
  Dtype result;
  std::vector<Dtype> operands;
};

inline std::vector<CoreCase> all_core_cases() {
  using scalar::Core;
  std::vector<CoreCase> cases;
  for (int c = static_cast<int>(Core::kAdd); c < scalar::kNumCores; ++c) {
    const auto core = static_cast<Core>(c);
    for (int d = 0; d < kNumDtypes; ++d) {
      const auto dtype = static_cast<Dtype>(d);
      const bool is_real = !is_complex(dtype);
      const bool is_float = is_floating(dtype);
      const bool is_number = is_float || is_integer(dtype);
      const bool is_whole_float = dtype == Dtype::kF32 || dtype == Dtype::kF64;
      const std::vector<Dtype> operands(static_cast<std::size_t>(scalar::arity_of(core)), dtype);
      const auto add = [&](bool is_defined, Dtype result) {
        if (is_defined) cases.push_back({core, result, operands});
      };
      switch (core) {
        case Core::kInput:
        case Core::kConstant:
          break;
        case Core::kAdd:
        case Core::kSub:
        case Core::kMul:
        case Core::kDiv:
        case Core::kRem:
        case Core::kNeg:
        case Core::kAbs:
          add(is_number, dtype);
          break;
        case Core::kMin:
        case Core::kMax:
          add(is_real, dtype);
          break;
        case Core::kFma:
        case Core::kSqrt:
        case Core::kFloor:
        case Core::kRint:
        case Core::kTrunc:
          add(is_float, dtype);
          break;
        case Core::kLt:
        case Core::kLe:
        case Core::kEq:
          add(is_real, Dtype::kBool);
          break;
        case Core::kAnd:
        case Core::kOr:
        case Core::kXor:
        case Core::kNot:
          add(is_real && !is_float, dtype);
          break;
        case Core::kShl:
        case Core::kShr:
        case Core::kRotate:
          add(is_integer(dtype), dtype);
          break;
        case Core::kSelect:
          if (is_real) cases.push_back({core, dtype, {Dtype::kBool, dtype, dtype}});
          break;
        case Core::kConvert:
        case Core::kBitcast:
          for (int t = 0; t < kNumDtypes; ++t) {
            const auto to = static_cast<Dtype>(t);
            const bool fits = core == Core::kConvert ||
                              (size_of(to) == size_of(dtype) && to != Dtype::kBool && dtype != Dtype::kBool);
            add(is_real && !is_complex(to) && fits, to);
          }
          break;
        case Core::kReal:
        case Core::kImag:
          add(!is_real, real_dtype(dtype));
          break;
        case Core::kMakeComplex:
          add(is_whole_float, dtype == Dtype::kF32 ? Dtype::kC64 : Dtype::kC128);
          break;
        case Core::kPio2Quadrant:
          add(is_whole_float, Dtype::kI32);
          break;
        case Core::kPio2Remainder:
        case Core::kPio2RemainderLow:
          add(is_whole_float, Dtype::kF64);
          break;
        case Core::kCarried:
        case Core::kNext:
        case Core::kRepeat:
        case Core::kLast:
          break;  // Nothing alone: random loops have iterations.
      }
    }
  }
  return cases;
}

/// One phase that applies the operation to arrays, and writes the result to another, the last one.
inline Loop loop_of(const CoreCase& core_case, Access access = Access::kDense) {
  Loop loop;
  Phase phase;
  scalar::Node apply = {.core = core_case.core, .dtype = core_case.result};
  for (std::size_t i = 0; i < core_case.operands.size(); ++i) {
    loop.arrays.push_back({.dtype = core_case.operands[i], .access = access});
    phase.inputs.push_back({.kind = LoopInput::Kind::kArray, .index = static_cast<int>(i)});
    phase.nodes.push_back({.core = scalar::Core::kInput, .dtype = core_case.operands[i], .bits = i});
    apply.operands[i] = static_cast<int>(i);
  }
  phase.nodes.push_back(apply);
  const auto arity = static_cast<int>(core_case.operands.size());
  loop.arrays.push_back(
      {.dtype = core_case.result, .access = access == Access::kUniform ? Access::kDense : access, .written = true});
  phase.results = {{.kind = LoopResult::Kind::kArray, .index = arity, .node = arity}};
  loop.phases = {phase};
  return loop;
}

/// A loop with several phases, and as many kinds of inputs, nodes and results as come.
class RandomLoop {
 public:
  explicit RandomLoop(Random& random) : random_(random), cases_(all_core_cases()) {}

  Loop make() {
    const int num_inputs = pick(1, 4);
    for (int i = 0; i < num_inputs; ++i) {
      loop_.arrays.push_back({.dtype = any_dtype(), .access = static_cast<Access>(pick(0, 2))});
    }
    for (int left = pick(1, 4); left > 0; --left) add_phase(pick(0, 3) == 0);
    return std::move(loop_);
  }

 private:
  int pick(int first, int last) {
    return first + static_cast<int>(random_() % static_cast<std::uint64_t>(last - first + 1));
  }
  Dtype any_dtype() { return static_cast<Dtype>(pick(0, kNumDtypes - 1)); }

  void add_input(Phase& phase, LoopInput input, Dtype dtype) {
    phase.nodes.push_back({.core = scalar::Core::kInput, .dtype = dtype, .bits = phase.inputs.size()});
    phase.inputs.push_back(input);
  }

  int operand(Phase& phase, Dtype dtype) {
    std::vector<int> fitting;
    for (std::size_t i = 0; i < phase.nodes.size(); ++i) {
      if (phase.nodes[i].dtype == dtype) fitting.push_back(static_cast<int>(i));
    }
    if (!fitting.empty() && pick(0, 7) != 0) return fitting[random_() % fitting.size()];
    scalar::Node constant = {.core = scalar::Core::kConstant, .dtype = dtype};
    with_element_type(dtype, [&]<class T>(T) {
      const T value = random_value<T>(random_);
      if constexpr (scalar::core_ops::Real<T>) constant.bits = std::bit_cast<scalar::core_ops::Bits<T>>(value);
    });
    if (is_complex(dtype)) return -1;
    phase.nodes.push_back(constant);
    return static_cast<int>(phase.nodes.size()) - 1;
  }

  void add_phase(bool once) {
    Phase phase;
    phase.once = once;
    for (std::size_t i = 0; i < loop_.arrays.size(); ++i) {
      const LoopArray& array = loop_.arrays[i];
      if (!once || array.access == Access::kUniform) {
        add_input(phase, {LoopInput::Kind::kArray, static_cast<int>(i)}, array.dtype);
      }
    }
    for (std::size_t i = 0; i < loop_.temporaries.size() && !once; ++i) {
      add_input(phase, {LoopInput::Kind::kTemporary, static_cast<int>(i)}, loop_.temporaries[i]);
    }
    for (std::size_t i = 0; i < loop_.scalars.size(); ++i) {
      add_input(phase, {LoopInput::Kind::kScalar, static_cast<int>(i)}, loop_.scalars[i]);
    }
    for (int left = pick(1, 25); left > 0; --left) {
      const CoreCase& chosen = cases_[random_() % cases_.size()];
      scalar::Node node = {.core = chosen.core, .dtype = chosen.result};
      bool is_complete = true;
      for (std::size_t i = 0; i < chosen.operands.size(); ++i) {
        node.operands[i] = operand(phase, chosen.operands[i]);
        is_complete &= node.operands[i] >= 0;
      }
      if (is_complete) phase.nodes.push_back(node);
    }
    if (phase.nodes.empty()) operand(phase, Dtype::kF32);
    for (int left = pick(1, 4); left > 0; --left) add_result(phase);
    loop_.phases.push_back(std::move(phase));
  }

  void add_result(Phase& phase) {
    LoopResult result;
    result.node = pick(0, static_cast<int>(phase.nodes.size()) - 1);
    const Dtype dtype = phase.nodes[static_cast<std::size_t>(result.node)].dtype;
    const int kind = pick(0, 2);
    if (kind == 0) {
      result.kind = LoopResult::Kind::kArray;
      result.index = static_cast<int>(loop_.arrays.size());
      const Access access = phase.once ? Access::kUniform : pick(0, 1) == 0 ? Access::kDense : Access::kStrided;
      loop_.arrays.push_back({.dtype = dtype, .access = access, .written = true});
    } else if (phase.once || (kind == 1 && !is_complex(dtype))) {
      result.kind = phase.once ? LoopResult::Kind::kScalar : LoopResult::Kind::kReduce;
      result.index = static_cast<int>(loop_.scalars.size());
      const bool has_bits = dtype == Dtype::kBool || is_integer(dtype);
      result.reduction = static_cast<ReduceKind>(pick(0, has_bits ? 5 : 3));
      loop_.scalars.push_back(dtype);
    } else {
      result.kind = LoopResult::Kind::kTemporary;
      result.index = static_cast<int>(loop_.temporaries.size());
      loop_.temporaries.push_back(dtype);
    }
    phase.results.push_back(result);
  }

  Random& random_;
  std::vector<CoreCase> cases_;
  Loop loop_;
};

}  // namespace shoal::cpu
