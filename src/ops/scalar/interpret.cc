#include "ops/scalar/interpret.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "core/dispatch.h"
#include "ops/scalar/core_ops.h"

// A core operation as a function object that can be called with exactly the types it is defined on.
#define SHOAL_CORE_OP(name) \
  [](auto... operands) -> decltype(core_ops::name(operands...)) { return core_ops::name(operands...); }

namespace shoal::scalar {
namespace {

// Calls f with the function of an operation whose operands are all of one type, and whose result follows from that.
template <class F>
auto with_operation(Core core, F&& f) {
  switch (core) {
    case Core::kAdd:
      return f(SHOAL_CORE_OP(add));
    case Core::kSub:
      return f(SHOAL_CORE_OP(sub));
    case Core::kMul:
      return f(SHOAL_CORE_OP(mul));
    case Core::kDiv:
      return f(SHOAL_CORE_OP(div));
    case Core::kRem:
      return f(SHOAL_CORE_OP(rem));
    case Core::kNeg:
      return f(SHOAL_CORE_OP(neg));
    case Core::kAbs:
      return f(SHOAL_CORE_OP(abs));
    case Core::kMin:
      return f(SHOAL_CORE_OP(min));
    case Core::kMax:
      return f(SHOAL_CORE_OP(max));
    case Core::kFma:
      return f(SHOAL_CORE_OP(fma));
    case Core::kSqrt:
      return f(SHOAL_CORE_OP(sqrt));
    case Core::kFloor:
      return f(SHOAL_CORE_OP(floor));
    case Core::kRint:
      return f(SHOAL_CORE_OP(rint));
    case Core::kTrunc:
      return f(SHOAL_CORE_OP(trunc));
    case Core::kLt:
      return f(SHOAL_CORE_OP(lt));
    case Core::kLe:
      return f(SHOAL_CORE_OP(le));
    case Core::kEq:
      return f(SHOAL_CORE_OP(eq));
    case Core::kAnd:
      return f(SHOAL_CORE_OP(bit_and));
    case Core::kOr:
      return f(SHOAL_CORE_OP(bit_or));
    case Core::kXor:
      return f(SHOAL_CORE_OP(bit_xor));
    case Core::kNot:
      return f(SHOAL_CORE_OP(bit_not));
    case Core::kShl:
      return f(SHOAL_CORE_OP(shl));
    case Core::kShr:
      return f(SHOAL_CORE_OP(shr));
    case Core::kRotate:
      return f(SHOAL_CORE_OP(rotate));
    case Core::kReal:
      return f(SHOAL_CORE_OP(real));
    case Core::kImag:
      return f(SHOAL_CORE_OP(imag));
    case Core::kMakeComplex:
      return f(SHOAL_CORE_OP(make_complex));
    case Core::kPio2Quadrant:
      return f(SHOAL_CORE_OP(pio2_quadrant));
    case Core::kPio2Remainder:
      return f(SHOAL_CORE_OP(pio2_remainder));
    case Core::kPio2RemainderLow:
      return f(SHOAL_CORE_OP(pio2_remainder_low));
    default:
      throw InternalError("no operation on elements of one dtype");
  }
}

// Elements evaluated together, node by node: enough to hide the cost of finding the code of a node.
constexpr std::int64_t kBlock = 256;

// The values of all nodes for one block of elements, a column per node.
class Evaluation {
 public:
  Evaluation(const Body& body, std::span<const void* const> inputs, std::span<const std::int64_t> input_strides,
             std::int64_t block)
      : body_(body), inputs_(inputs), input_strides_(input_strides) {
    std::size_t end = 0;
    for (const Node& node : body.nodes) {
      offsets_.push_back(end);
      end += (size_of(node.dtype) * static_cast<std::size_t>(block) + 15) / 16 * 16;
    }
    columns_.resize(end);
    count_ = block;
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      if (body.nodes[i].core == Core::kConstant) fill(static_cast<int>(i), &body.nodes[i].bits);
    }
  }

  // Evaluates every node for `count` elements from `first` on; count is at most the block.
  void run(std::int64_t first, std::int64_t count) {
    first_ = first;
    count_ = count;
    int trip = 0;  // Where the present iteration goes back to.
    for (int i = 0; i < static_cast<int>(body_.nodes.size()); ++i) {
      evaluate(i);
      if (node(i).core == Core::kCarried) trip = i;
      if (node(i).core != Core::kRepeat) continue;
      const bool* const goes_on = column<bool>(node(i).operands[0]);
      if (std::any_of(goes_on, goes_on + count_, [](bool value) { return value; })) i = trip;
    }
  }

  const std::byte* result() const { return column<std::byte>(body_.result); }

 private:
  const Node& node(int id) const { return body_.nodes[static_cast<std::size_t>(id)]; }

  template <class T>
  T* column(int id) {
    return reinterpret_cast<T*>(columns_.data() + offsets_[static_cast<std::size_t>(id)]);
  }
  template <class T>
  const T* column(int id) const {
    return reinterpret_cast<const T*>(columns_.data() + offsets_[static_cast<std::size_t>(id)]);
  }

  void copy(int from, int to) {
    std::memcpy(column<std::byte>(to), column<std::byte>(from),
                static_cast<std::size_t>(count_) * size_of(node(to).dtype));
  }

  // Sets all elements of a column to one value; representations are little-endian.
  void fill(int id, const void* value) {
    const std::size_t size = size_of(node(id).dtype);
    for (std::int64_t i = 0; i < count_; ++i) {
      std::memcpy(column<std::byte>(id) + static_cast<std::size_t>(i) * size, value, size);
    }
  }

  void load_input(int id) {
    const auto number = static_cast<std::size_t>(node(id).bits);
    const std::size_t size = size_of(node(id).dtype);
    const auto* data = static_cast<const std::byte*>(inputs_[number]);
    if (input_strides_[number] == 0) return fill(id, data);
    std::memcpy(column<std::byte>(id), data + static_cast<std::size_t>(first_) * size,
                static_cast<std::size_t>(count_) * size);
  }

  // Applies an operation to operands of type T, element by element.
  template <class T, class Op>
  void map(int id, Op op) {
    const std::array<int, 3>& operands = node(id).operands;
    if constexpr (std::is_invocable_v<Op, T>) {
      using Result = std::invoke_result_t<Op, T>;
      for (std::int64_t i = 0; i < count_; ++i) column<Result>(id)[i] = op(column<T>(operands[0])[i]);
    } else if constexpr (std::is_invocable_v<Op, T, T>) {
      using Result = std::invoke_result_t<Op, T, T>;
      for (std::int64_t i = 0; i < count_; ++i) {
        column<Result>(id)[i] = op(column<T>(operands[0])[i], column<T>(operands[1])[i]);
      }
    } else if constexpr (std::is_invocable_v<Op, T, T, T>) {
      using Result = std::invoke_result_t<Op, T, T, T>;
      for (std::int64_t i = 0; i < count_; ++i) {
        column<Result>(id)[i] = op(column<T>(operands[0])[i], column<T>(operands[1])[i], column<T>(operands[2])[i]);
      }
    } else {
      SHOAL_CHECK(false, "a body applies an operation to a dtype on which it is not defined");
    }
  }

  // The same for the dtype that the first operand has.
  template <class Op>
  void map(int id, Op op) {
    with_element_type(node(node(id).operands[0]).dtype, [&]<class T>(T) { map<T>(id, op); });
  }

  void select(int id) {
    const auto [predicate, if_true, if_false] = node(id).operands;
    with_element_type(node(id).dtype, [&]<class T>(T) {
      for (std::int64_t i = 0; i < count_; ++i) {
        column<T>(id)[i] = core_ops::select(column<bool>(predicate)[i], column<T>(if_true)[i], column<T>(if_false)[i]);
      }
    });
  }

  void convert(int id) {
    with_element_type(node(id).dtype, [&]<class To>(To) {
      map(id, [](auto value) -> decltype(core_ops::convert<To>(value)) { return core_ops::convert<To>(value); });
    });
  }

  void evaluate(int id) {
    switch (node(id).core) {
      case Core::kInput:
        return load_input(id);
      case Core::kConstant:
        return;  // Filled in once, by the constructor.
      case Core::kSelect:
        return select(id);
      case Core::kConvert:
        return convert(id);
      case Core::kBitcast:
        std::memcpy(column<std::byte>(id), column<std::byte>(node(id).operands[0]),
                    static_cast<std::size_t>(count_) * size_of(node(id).dtype));
        return;
      case Core::kCarried:
      case Core::kLast:
        return copy(node(id).operands[0], id);
      case Core::kNext:
        return copy(node(id).operands[1], node(id).operands[0]);
      case Core::kRepeat:
        return;
      default:
        return with_operation(node(id).core, [&](auto op) { map(id, op); });
    }
  }

  const Body& body_;
  std::span<const void* const> inputs_;
  std::span<const std::int64_t> input_strides_;
  std::vector<std::byte> columns_;
  std::vector<std::size_t> offsets_;  // Of the columns, by node.
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

void interpret(const Body& body, std::span<const void* const> inputs, std::span<const std::int64_t> input_strides,
               void* output, std::int64_t n) {
  SHOAL_CHECK(inputs.size() == static_cast<std::size_t>(body.num_inputs) && input_strides.size() == inputs.size(),
              "the inputs do not fit the body");
  const std::size_t result_size = size_of(body.dtype());
  Evaluation evaluation(body, inputs, input_strides, std::min(n, kBlock));
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t count = std::min(n - first, kBlock);
    evaluation.run(first, count);
    std::memcpy(static_cast<std::byte*>(output) + static_cast<std::size_t>(first) * result_size, evaluation.result(),
                static_cast<std::size_t>(count) * result_size);
  }
}

namespace {

template <class T>
const T& element(const void* operand) {
  return *static_cast<const T*>(operand);
}

// A core operation on operands that are all of type T; nullptr if it is not defined on that.
template <class T, class Op>
ElementFunction element_function_on(Op) {
  if constexpr (std::is_invocable_v<Op, T>) {
    return [](const void* const* in, void* result) {
      *static_cast<std::invoke_result_t<Op, T>*>(result) = Op()(element<T>(in[0]));
    };
  } else if constexpr (std::is_invocable_v<Op, T, T>) {
    return [](const void* const* in, void* result) {
      *static_cast<std::invoke_result_t<Op, T, T>*>(result) = Op()(element<T>(in[0]), element<T>(in[1]));
    };
  } else if constexpr (std::is_invocable_v<Op, T, T, T>) {
    return [](const void* const* in, void* result) {
      *static_cast<std::invoke_result_t<Op, T, T, T>*>(result) =
          Op()(element<T>(in[0]), element<T>(in[1]), element<T>(in[2]));
    };
  } else {
    return nullptr;
  }
}

template <class Op>
ElementFunction element_function_from(Dtype from, Op op) {
  return with_element_type(from, [op]<class T>(T) { return element_function_on<T>(op); });
}

ElementFunction copy_of(std::size_t size) {
  switch (size) {
    case 1:
      return [](const void* const* in, void* result) { std::memcpy(result, in[0], 1); };
    case 2:
      return [](const void* const* in, void* result) { std::memcpy(result, in[0], 2); };
    case 4:
      return [](const void* const* in, void* result) { std::memcpy(result, in[0], 4); };
    case 8:
      return [](const void* const* in, void* result) { std::memcpy(result, in[0], 8); };
    default:
      return [](const void* const* in, void* result) { std::memmove(result, in[0], 16); };
  }
}

}  // namespace

ElementFunction element_function(Core core, Dtype result, Dtype from) {
  switch (core) {
    case Core::kSelect:
      return with_element_type(result, []<class T>(T) -> ElementFunction {
        return [](const void* const* in, void* to) {
          *static_cast<T*>(to) = core_ops::select(element<bool>(in[0]), element<T>(in[1]), element<T>(in[2]));
        };
      });
    case Core::kConvert:
      return with_element_type(result, [from]<class To>(To) {
        return element_function_from(
            from, [](auto value) -> decltype(core_ops::convert<To>(value)) { return core_ops::convert<To>(value); });
      });
    case Core::kBitcast:
      return copy_of(size_of(result));
    case Core::kInput:
    case Core::kConstant:
    case Core::kCarried:
    case Core::kNext:
    case Core::kRepeat:
    case Core::kLast:
      return nullptr;
    default:
      return with_operation(core, [from](auto op) { return element_function_from(from, op); });
  }
}

}  // namespace shoal::scalar
