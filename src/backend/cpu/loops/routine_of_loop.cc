#include "backend/cpu/loops/routine_of_loop.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "backend/cpu/loops/loop_shape.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/view.h"
#include "base/function_ref.h"
#include "core/dispatch.h"
#include "ir/bodies.h"
#include "ops/elementwise.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

using scalar::Core;
using scalar::Node;

// Bodies that do more are worth a kernel for each equation, and would take long to compile.
constexpr std::size_t kMostRoutineSteps = 1024;
// Ways of a branch that take no more are computed all, and one is selected: a branch that the processor does not
// foresee takes as long.
constexpr int kCheapWays = 20;

// What a value of a graph is in the routine: an element, whatever its rank; elements in memory; or positions.
struct Known {
  int value = -1;  // Of an element.

  // Of an array in memory: where its elements are, how far those of each dimension are apart, and whose turn it is:
  // what writes to the array makes a new version, and no other is there any more.
  int array = -1;
  int version = 0;
  int offset = -1;  // A value, or -1 for 0.
  Dims strides = {};

  bool counts = false;  // Elements are their positions, along the only dimension.

  bool is_element() const { return value >= 0; }
  bool is_memory() const { return array >= 0; }
};
using Knowns = std::vector<Known>;

struct IntegerRange {
  std::int64_t low;
  std::int64_t high;
};

// Of an integer dtype, as far as i64 goes.
IntegerRange range_of(Dtype dtype) {
  return with_element_type(dtype, []<class T>(T) -> IntegerRange {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>) {
      if constexpr (sizeof(T) < sizeof(std::uint64_t) || std::is_signed_v<T>) {
        return {static_cast<std::int64_t>(Limits::lowest()), static_cast<std::int64_t>(Limits::max())};
      }
    }
    return {std::numeric_limits<std::int64_t>::lowest(), std::numeric_limits<std::int64_t>::max()};
  });
}

// Writes steps into blocks, of which the last one that was opened is written to.
class RoutineBuilder {
 public:
  RoutineBuilder() { open(); }

  int new_value(Dtype dtype) {
    routine_.values.push_back(dtype);
    made_.push_back({.core = Core::kInput, .dtype = dtype});
    return static_cast<int>(routine_.values.size()) - 1;
  }
  Dtype dtype_of(int value) const { return routine_.values[static_cast<std::size_t>(value)]; }
  Dtype dtype_of_array(int array) const { return routine_.arrays[static_cast<std::size_t>(array)].dtype; }

  int constant(Dtype dtype, std::uint64_t bits) {
    const auto is_it = [&](const Routine::Constant& one) { return one.bits == bits && dtype_of(one.value) == dtype; };
    const auto found = std::ranges::find_if(routine_.constants, is_it);
    if (found != routine_.constants.end()) return found->value;
    routine_.constants.push_back({.value = new_value(dtype), .bits = bits});
    made_.back() = {.core = Core::kConstant, .dtype = dtype, .bits = bits};
    return routine_.constants.back().value;
  }
  int i64(std::int64_t value) { return constant(Dtype::kI64, static_cast<std::uint64_t>(value)); }
  const Node& made(int value) const { return made_[static_cast<std::size_t>(value)]; }

  // Equal operations are shared with the blocks around.
  int apply(Core core, Dtype dtype, int a, int b = -1, int c = -1) {
    const Node node{.core = core, .dtype = dtype, .operands = {a, b, c}, .bits = 0};
    for (const Open& block : open_) {
      for (const auto& [known, value] : block.known) {
        if (known == node) return value;
      }
    }
    const int value = new_value(dtype);
    made_.back() = node;
    open_.back().known.emplace_back(node, value);
    add(Routine::Operation{.value = value, .node = node});
    return value;
  }

  void add(Routine::Step step) {
    steps_ += times_;
    ++count_;
    open_.back().block.steps.push_back(std::move(step));
  }

  // Between which numbers an integer is, whatever the data: as far as its operations say.
  IntegerRange range_of(int value, int depth = 8) const {
    const Node& node = made(value);
    const IntegerRange any = cpu::range_of(node.dtype);
    const auto of = [&](int operand) { return range_of(node.operands[static_cast<std::size_t>(operand)], depth - 1); };
    if (depth == 0) return any;
    switch (node.core) {
      case Core::kConstant:
        return constant_range(node);
      case Core::kMin:
        return {std::min(of(0).low, of(1).low), std::min(of(0).high, of(1).high)};
      case Core::kMax:
        return {std::max(of(0).low, of(1).low), std::max(of(0).high, of(1).high)};
      case Core::kSelect:
        return {std::min(of(1).low, of(2).low), std::max(of(1).high, of(2).high)};
      case Core::kConvert: {
        if (!is_integer(dtype_of(node.operands[0]))) return any;
        const IntegerRange from = of(0);
        return from.low >= any.low && from.high <= any.high && dtype_of(node.operands[0]) != Dtype::kU64 ? from : any;
      }
      default:
        return any;
    }
  }

  void open() { open_.emplace_back(); }
  Routine::Block close() {
    Routine::Block block = std::move(open_.back().block);
    open_.pop_back();
    return block;
  }

  // Steps that are added run so often in a trip.
  template <class F>
  auto in_trips(double trips, F&& write) {
    const double before = std::exchange(times_, times_ * trips);
    auto result = write();
    times_ = before;
    return result;
  }

  // The steps of a block that was closed, as if they had been added here.
  void take_over(Routine::Block block) {
    for (Routine::Step& step : block.steps) {
      if (const auto* const made = std::get_if<Routine::Operation>(&step)) {
        open_.back().known.emplace_back(made->node, made->value);
      }
      open_.back().block.steps.push_back(std::move(step));
    }
  }

  int add_array(Dtype dtype, bool moves) {
    routine_.arrays.push_back({.dtype = dtype, .moves = moves});
    return static_cast<int>(routine_.arrays.size()) - 1;
  }

  std::size_t count() const { return count_; }
  double steps() const { return steps_; }
  Routine take() {
    routine_.block = close();
    return std::move(routine_);
  }

 private:
  static IntegerRange constant_range(const Node& node) {
    return with_element_type(node.dtype, [&]<class T>(T) -> IntegerRange {
      if constexpr (std::is_integral_v<T>) {
        T number{};
        std::memcpy(&number, &node.bits, sizeof number);
        const auto low = static_cast<std::int64_t>(number);
        if (std::is_signed_v<T> || low >= 0) return {low, low};
      }
      return cpu::range_of(node.dtype);
    });
  }

  struct Open {
    Routine::Block block;
    std::vector<std::pair<Node, int>> known;
  };
  Routine routine_ = {};
  std::vector<Node> made_ = {};  // By value, how it is; an input where that is not by an operation.
  std::vector<Open> open_;
  double times_ = 1;
  double steps_ = 0;
  std::size_t count_ = 0;
};

class RoutineWriter {
 public:
  RoutineWriter(const Graph& body, const Graph* condition, std::size_t carries)
      : body_(body), condition_(condition), carries_(carries), uses_(count_uses(body)) {
    if (condition != nullptr) uses_of_condition_ = count_uses(*condition);
  }

  std::optional<RoutinePlan> write() {
    Knowns carried;
    for (std::size_t k = 0; k < carries_; ++k) {
      const std::optional<Known> argument = argument_of(k);
      if (!argument) return std::nullopt;
      carried.push_back(*argument);
    }
    const auto add_others = [&](int, Knowns& arguments) {
      for (std::size_t i = carries_; i < body_.inputs.size(); ++i) {
        const std::optional<Known> argument = is_used(i) ? argument_of(i) : Known();
        if (!argument) return false;
        arguments.push_back(*argument);
      }
      return true;
    };
    const std::optional<Knowns> results =
        go_round({.condition = condition_, .body = &body_, .trips = Routine::Repeat::kRows}, std::move(carried),
                 add_others, [&](std::size_t k, const Known& yield) { return store_yield(k, yield); });
    if (!results) return std::nullopt;
    for (std::size_t k = 0; k < carries_; ++k) {
      const Known& result = (*results)[k];
      if (result.is_element()) build_.add(Routine::Store{array_of(k, false), -1, result.value, -1});
    }
    if (operands_.size() > kMostArrays || build_.count() > kMostRoutineSteps) return std::nullopt;
    RoutinePlan plan{
        .routine = {}, .operands = std::move(operands_), .steps = build_.steps(), .goes_on_freely = goes_on_freely_};
    plan.routine = build_.take();
    return plan;
  }

 private:
  using Scope = std::unordered_map<ValueId, Known>;

  // ---- Arguments and yields.

  bool is_used(std::size_t argument) const {
    return uses_[slot(body_.inputs[argument])] != 0 ||
           (condition_ != nullptr && uses_of_condition_[slot(condition_->inputs[argument])] != 0);
  }

  // The array of an argument of the body, or of a yield, which is numbered after them.
  int array_of(std::size_t operand, bool moves) {
    const auto found = std::ranges::find(operands_, operand);
    if (found != operands_.end()) return static_cast<int>(found - operands_.begin());
    const std::size_t inputs = body_.inputs.size();
    const ValueId id = operand < inputs ? body_.inputs[operand] : body_.outputs[operand - inputs + carries_];
    operands_.push_back(operand);
    versions_.push_back(0);
    return build_.add_array(body_.type(id).dtype, moves);
  }

  // Nothing if it is no array of a routine.
  std::optional<Known> argument_of(std::size_t i) {
    const Type& type = body_.type(body_.inputs[i]);
    const std::int64_t elements = num_elements(type.shape);
    if (elements == 0 || is_key(type.dtype)) return std::nullopt;
    const int array = array_of(i, i >= carries_);
    if (elements == 1) return Known{.value = load(array, -1)};
    return Known{.array = array, .version = version(array), .strides = row_major_strides(type.shape)};
  }

  bool store_yield(std::size_t k, const Known& yield) {
    const ValueId id = body_.outputs[k];
    if (!yield.is_element() || num_elements(body_.type(id).shape) != 1) return false;
    build_.add(Routine::Store{array_of(body_.inputs.size() + k - carries_, true), -1, yield.value, -1});
    return true;
  }

  // ---- Equations.

  // What a graph makes of its arguments.
  std::optional<Knowns> results_of(const Graph& graph, const Knowns& arguments) {
    Scope scope;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) scope[graph.inputs[i]] = arguments[i];
    for (const Eqn& eqn : graph.eqns) {
      if (build_.count() > kMostRoutineSteps) return std::nullopt;
      Knowns operands;
      for (const ValueId id : eqn.inputs) operands.push_back(scope[id]);
      const bool even = std::ranges::all_of(eqn.outputs, [&](ValueId id) { return has_even_shards(graph, id); });
      std::optional<Knowns> results = even ? results_of(graph, eqn, operands) : std::nullopt;
      if (!results) return std::nullopt;
      for (std::size_t k = 0; k < eqn.outputs.size(); ++k) scope[eqn.outputs[k]] = std::move((*results)[k]);
    }
    Knowns results;
    for (const ValueId id : graph.outputs) results.push_back(scope[id]);
    return results;
  }

  std::optional<Knowns> results_of(const Graph& graph, const Eqn& eqn, const Knowns& operands) {
    const auto bodies = bodies_of(eqn);
    if (eqn.op->op_class == OpClass::kControl) {
      const Control control = eqn.op->control(eqn.attrs);
      if (control.loops) return loop(graph, eqn, control, operands);
      if (control.first_argument == 0) return results_of(*bodies[0], operands);
      return branch(eqn, operands);
    }
    if (eqn.op->op_class != OpClass::kCompute || bodies.size() > 1) return std::nullopt;
    if (bodies.size() == 1) return results_of(*bodies[0], operands);
    if (eqn.outputs.size() != 1 || is_key(graph.type(eqn.outputs[0]).dtype)) return std::nullopt;
    std::optional<Known> result = result_of(graph, eqn, operands);
    if (!result) return std::nullopt;
    return Knowns{std::move(*result)};
  }

  struct Case {
    const Graph& graph;
    const Eqn& eqn;
    const Knowns& operands;

    const Type& type_of_operand(std::size_t i) const { return graph.type(eqn.inputs[i]); }
    const Type& type() const { return graph.type(eqn.outputs[0]); }
    bool gives_element() const { return num_elements(type().shape) == 1; }
    // Whether a shard of the operand has all positions that there are, and some.
    bool is_whole(std::size_t i) const {
      const Value& value = graph.value(eqn.inputs[i]);
      return (!value.global || value.global->shape == value.type.shape) && num_elements(value.type.shape) != 0;
    }
    // Whether those from `first` on are elements.
    bool are_elements(std::size_t first) const {
      return std::all_of(operands.begin() + static_cast<std::ptrdiff_t>(first), operands.end(),
                         [](const Known& operand) { return operand.is_element(); });
    }
  };

  std::optional<Known> result_of(const Graph& graph, const Eqn& eqn, const Knowns& operands) {
    struct Row {
      std::string_view op;
      std::optional<Known> (RoutineWriter::*write)(const Case&);
    };
    static constexpr std::array kRows = {
        Row{"gather", &RoutineWriter::gather},
        Row{"scatter", &RoutineWriter::scatter},
        Row{"scatter_combine", &RoutineWriter::scatter_combine},
        Row{"dynamic_slice", &RoutineWriter::dynamic_slice},
        Row{"dynamic_update_slice", &RoutineWriter::dynamic_update_slice},
    };
    const Case given{graph, eqn, operands};
    const auto* const row = std::ranges::find(kRows, eqn.op->name, &Row::op);
    if (row != kRows.end()) return (this->*row->write)(given);
    if (is_constant(eqn)) return constant_of(given);
    if (eqn.op->counts) return positions(given);
    if (eqn.op->elementwise != nullptr) return elementwise(given);
    if (operands.size() != 1) return std::nullopt;
    return operands[0].is_element() ? same_element(given) : seen(given);
  }

  std::optional<Known> constant_of(const Case& given) {
    if (!given.gives_element()) return std::nullopt;
    const auto& value = given.eqn.attrs.get<Scalar>("value");
    const Dtype part = is_complex(value.dtype) ? real_dtype(value.dtype) : value.dtype;
    const auto bits_at = [&](std::size_t offset) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, value.bytes.data() + offset, size_of(part));
      return bits;
    };
    const int first = build_.constant(part, bits_at(0));
    if (part == value.dtype) return Known{.value = first};
    return Known{
        .value = build_.apply(Core::kMakeComplex, value.dtype, first, build_.constant(part, bits_at(size_of(part))))};
  }

  std::optional<Known> positions(const Case& given) {
    const Value& value = given.graph.value(given.eqn.outputs[0]);
    const bool is_whole = !value.global || value.global->shape == value.type.shape;
    if (!is_whole || value.type.shape.size() != 1 || !is_integer(value.type.dtype)) return std::nullopt;
    if (given.gives_element()) return Known{.value = build_.constant(value.type.dtype, 0)};
    return Known{.counts = true};
  }

  std::optional<Known> elementwise(const Case& given) {
    if (!given.gives_element() || !given.are_elements(0)) return std::nullopt;
    std::vector<Dtype> dtypes;
    for (std::size_t i = 0; i < given.operands.size(); ++i) {
      dtypes.push_back(given.type_of_operand(i).dtype);
      if (is_key(dtypes.back())) return std::nullopt;
    }
    const scalar::Body& body = body_of(*given.eqn.op, dtypes, given.type().dtype);
    std::vector<int> values;
    for (const Node& node : body.nodes) {
      const auto operand = [&](std::size_t i) {
        return node.operands[i] < 0 ? -1 : values[static_cast<std::size_t>(node.operands[i])];
      };
      switch (node.core) {
        case Core::kInput:
          values.push_back(given.operands[static_cast<std::size_t>(node.bits)].value);
          break;
        case Core::kConstant:
          values.push_back(build_.constant(node.dtype, node.bits));
          break;
        case Core::kCarried:
        case Core::kNext:
        case Core::kRepeat:
        case Core::kLast:
          return std::nullopt;
        default:
          values.push_back(build_.apply(node.core, node.dtype, operand(0), operand(1), operand(2)));
      }
    }
    return Known{.value = values[static_cast<std::size_t>(body.result)]};
  }

  // An element in another shape, or its bits as those of another dtype.
  std::optional<Known> same_element(const Case& given) {
    const Eqn& eqn = given.eqn;
    const Dtype from = given.type_of_operand(0).dtype;
    const Dtype to = given.type().dtype;
    const bool is_moved = is_view(given.graph, eqn) || moves_elements(*eqn.op) || eqn.op->keeps_order;
    if (!is_moved || !given.gives_element() || size_of(from) != size_of(to)) return std::nullopt;
    if (from == to) return given.operands[0];
    if (!is_view(given.graph, eqn)) return std::nullopt;
    return Known{.value = build_.apply(Core::kBitcast, to, given.operands[0].value)};
  }

  // An array through an op that says where elements lie.
  std::optional<Known> seen(const Case& given) {
    const Known& operand = given.operands[0];
    const Type& type = given.type();
    const Shape& shape = given.type_of_operand(0).shape;
    if (!operand.is_memory() || !given.is_whole(0) || type.dtype != given.type_of_operand(0).dtype) {
      return std::nullopt;
    }
    Known result = operand;
    if (is_view(given.graph, given.eqn)) {
      const View view = view_through(given.graph, given.eqn, View::of(given.eqn.inputs[0], shape.size()));
      std::int64_t start = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) start += view.starts[d] * operand.strides[d];
      result.offset = sum(operand.offset, start == 0 ? -1 : build_.i64(start));
      result.strides.clear();
      for (const int d : view.dims) {
        const auto at = static_cast<std::size_t>(d);
        result.strides.push_back(d < 0 ? 0 : operand.strides[at] * view.steps[at]);
      }
    } else if (given.eqn.op->keeps_order && operand.strides == row_major_strides(shape)) {
      result.strides = row_major_strides(type.shape);
    } else {
      return std::nullopt;
    }
    return given.gives_element() ? element_at(result, -1) : result;
  }

  // ---- Elements of arrays.

  int version(int array) const { return versions_[static_cast<std::size_t>(array)]; }

  int load(int array, int index) {
    const int value = build_.new_value(build_.dtype_of_array(array));
    build_.add(Routine::Load{value, array, index});
    return value;
  }

  // -1 stands for 0 in what follows.
  int sum(int a, int b) {
    if (a < 0 || b < 0) return std::max(a, b);
    return build_.apply(Core::kAdd, Dtype::kI64, a, b);
  }
  int scaled(int position, std::int64_t stride) {
    if (position < 0 || stride == 0) return -1;
    return stride == 1 ? position : build_.apply(Core::kMul, Dtype::kI64, position, build_.i64(stride));
  }
  int as_i64(int value) {
    return build_.dtype_of(value) == Dtype::kI64 ? value : build_.apply(Core::kConvert, Dtype::kI64, value);
  }

  std::optional<Known> element_at(const Known& array, int offset) {
    if (array.is_element()) return array;
    if (!array.is_memory() || array.version != version(array.array)) return std::nullopt;
    return Known{.value = load(array.array, sum(array.offset, offset))};
  }

  // The array with another element there, if the condition holds or there is none.
  std::optional<Known> with_element(const Known& array, int offset, int element, int condition) {
    if (array.is_element()) {
      if (condition < 0) return Known{.value = element};
      return Known{.value = build_.apply(Core::kSelect, build_.dtype_of(element), condition, element, array.value)};
    }
    const bool is_here = array.is_memory() && array.version == version(array.array);
    if (!is_here || operands_[static_cast<std::size_t>(array.array)] >= carries_) return std::nullopt;
    build_.add(Routine::Store{array.array, sum(array.offset, offset), element, condition});
    Known result = array;
    result.version = new_version(array.array);
    return result;
  }

  int new_version(int array) { return versions_[static_cast<std::size_t>(array)] = ++last_version_; }

  // Where an item lies that indices name, and whether that is inside: a bool, or -1 if it always is.
  struct Item {
    int offset = -1;
    int inside = -1;
  };

  // Of ops of ops/gather.cc whose array has the type, with the operands from `first` on as indices.
  Item item_of(const Case& given, const Known& array, const Shape& shape, std::size_t first) {
    const Dims& dims = given.eqn.attrs.get<Dims>("dims");
    Item item;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      const auto d = static_cast<std::size_t>(dims[k]);
      const int position = as_i64(given.operands[first + k].value);
      if (!array.is_element()) item.offset = sum(item.offset, scaled(position, array.strides[d]));
      if (is_position(given.operands[first + k].value, shape[d])) continue;
      // Negative ones are large.
      const int number = build_.apply(Core::kBitcast, Dtype::kU64, position);
      const int is_below =
          build_.apply(Core::kLt, bool_, number, build_.constant(Dtype::kU64, static_cast<std::uint64_t>(shape[d])));
      item.inside = item.inside < 0 ? is_below : build_.apply(Core::kAnd, bool_, item.inside, is_below);
    }
    return item;
  }

  // The element of an item; where it is outside, that at the beginning.
  std::optional<Known> element_of(const Known& array, const Item& item) {
    int offset = item.offset;
    if (item.inside >= 0 && offset >= 0) {
      offset = build_.apply(Core::kSelect, Dtype::kI64, item.inside, offset, build_.i64(0));
    }
    return element_at(array, offset);
  }

  std::optional<Known> gather(const Case& given) {
    const Known& array = given.operands[0];
    if (!given.gives_element() || !given.is_whole(0) || !given.are_elements(1)) return std::nullopt;
    const Dtype dtype = given.type_of_operand(0).dtype;
    const Item item = item_of(given, array, given.type_of_operand(0).shape, 1);
    const std::optional<Known> element = element_of(array, item);
    if (!element) return std::nullopt;
    int value = element->value;
    if (item.inside >= 0) value = build_.apply(Core::kSelect, dtype, item.inside, value, nothing_of(dtype));
    return converted(value, given.type().dtype);
  }

  // What ops that reach into arrays give where there is nothing.
  int nothing_of(Dtype dtype) {
    const auto part_of = [&](Dtype part) {
      return with_element_type(part, [&]<class T>(T) {
        const T element = shoal::nothing<T>();
        std::uint64_t bits = 0;
        std::memcpy(&bits, &element, std::min(sizeof bits, sizeof element));
        return build_.constant(part, bits);
      });
    };
    if (!is_complex(dtype)) return part_of(dtype);
    const int part = part_of(real_dtype(dtype));
    return build_.apply(Core::kMakeComplex, dtype, part, part);
  }

  // Partial results of small floats are kept in f32.
  std::optional<Known> converted(int value, Dtype dtype) {
    if (build_.dtype_of(value) == dtype) return Known{.value = value};
    if (is_complex(dtype)) return std::nullopt;
    return Known{.value = build_.apply(Core::kConvert, dtype, value)};
  }

  std::optional<Known> scatter(const Case& given) {
    if (!given.is_whole(0) || !given.are_elements(1)) return std::nullopt;
    const Known& array = given.operands[0];
    const Item item = item_of(given, array, given.type().shape, 2);
    return with_element(array, item.offset, given.operands[1].value, item.inside);
  }

  std::optional<Known> scatter_combine(const Case& given) {
    if (!given.is_whole(0) || !given.are_elements(1)) return std::nullopt;
    const Known& array = given.operands[0];
    const Item item = item_of(given, array, given.type().shape, 2);
    const std::optional<Known> before = element_of(array, item);
    if (!before) return std::nullopt;
    const int after = combined(parse_reduce_kind(given.eqn.attrs.get<std::string>("kind")), given.type().dtype,
                               before->value, given.operands[1].value);
    return after < 0 ? std::nullopt : with_element(array, item.offset, after, item.inside);
  }

  // -1 if that is no operation of routines.
  int combined(ReduceKind kind, Dtype dtype, int a, int b) {
    const bool is_bool = dtype == Dtype::kBool;
    if (is_complex(dtype)) {
      if (kind != ReduceKind::kSum) return -1;
      const Dtype part = real_dtype(dtype);
      const auto sum_of = [&](Core core) {
        return build_.apply(Core::kAdd, part, build_.apply(core, part, a), build_.apply(core, part, b));
      };
      return build_.apply(Core::kMakeComplex, dtype, sum_of(Core::kReal), sum_of(Core::kImag));
    }
    switch (kind) {
      case ReduceKind::kSum:
        return build_.apply(is_bool ? Core::kOr : Core::kAdd, dtype, a, b);
      case ReduceKind::kProd:
        return build_.apply(is_bool ? Core::kAnd : Core::kMul, dtype, a, b);
      case ReduceKind::kMax:
        return build_.apply(Core::kMax, dtype, a, b);
      case ReduceKind::kMin:
        return build_.apply(Core::kMin, dtype, a, b);
      default:
        return -1;
    }
  }

  // The offset of a window in an array, which lies inside wherever it should begin.
  int offset_of_window(const Case& given, const Shape& window, std::size_t first) {
    const Known& array = given.operands[0];
    const Shape& shape = given.type_of_operand(0).shape;
    int offset = -1;
    for (std::size_t d = 0; d < shape.size() && !array.is_element(); ++d) {
      const std::int64_t last = shape[d] - window[d];
      if (last == 0) continue;
      int start = given.operands[first + d].value;
      if (build_.dtype_of(start) == Dtype::kU64) {
        start = build_.apply(Core::kMin, Dtype::kU64, start,
                             build_.constant(Dtype::kU64, static_cast<std::uint64_t>(last)));
      }
      start = build_.apply(Core::kMax, Dtype::kI64, as_i64(start), build_.i64(0));
      start = build_.apply(Core::kMin, Dtype::kI64, start, build_.i64(last));
      offset = sum(offset, scaled(start, array.strides[d]));
    }
    return offset;
  }

  std::optional<Known> dynamic_slice(const Case& given) {
    const Known& array = given.operands[0];
    if (!given.is_whole(0) || !given.are_elements(1) || num_elements(given.type().shape) == 0) return std::nullopt;
    const int offset = offset_of_window(given, given.type().shape, 1);
    if (given.gives_element()) {
      const std::optional<Known> element = element_at(array, offset);
      return element ? converted(element->value, given.type().dtype) : std::nullopt;
    }
    if (!array.is_memory() || given.type().dtype != given.type_of_operand(0).dtype) return std::nullopt;
    Known result = array;
    result.offset = sum(array.offset, offset);
    return result;
  }

  std::optional<Known> dynamic_update_slice(const Case& given) {
    if (!given.is_whole(0) || !given.are_elements(1)) return std::nullopt;
    const int offset = offset_of_window(given, given.type_of_operand(1).shape, 2);
    return with_element(given.operands[0], offset, given.operands[1].value, -1);
  }

  // Whether an integer is at least 0 and less than `extent`, whatever the data.
  bool is_position(int value, std::int64_t extent) const {
    const auto [low, high] = build_.range_of(value);
    return low >= 0 && high < extent;
  }

  // ---- Branches.

  std::optional<Knowns> branch(const Eqn& eqn, const Knowns& operands) {
    if (!operands[0].is_element()) return std::nullopt;
    const int index = operands[0].value;
    const Knowns arguments(operands.begin() + 1, operands.end());
    const std::vector<int> before = versions_;
    std::vector<Routine::Block> ways;
    std::vector<Knowns> results;
    std::vector<std::vector<int>> after;
    for (const Graph* const body : bodies_of(eqn)) {
      versions_ = before;
      build_.open();
      std::optional<Knowns> given = results_of(*body, arguments);
      ways.push_back(build_.close());
      if (!given) return std::nullopt;
      results.push_back(std::move(*given));
      after.push_back(versions_);
    }
    versions_ = before;
    for (std::size_t array = 0; array < versions_.size(); ++array) {
      const auto writes = [&](const std::vector<int>& one) { return one[array] != before[array]; };
      if (std::ranges::any_of(after, writes)) new_version(static_cast<int>(array));
    }
    Knowns joined;
    std::vector<std::size_t> differ;  // Elements that ways do not have in common.
    for (std::size_t k = 0; k < eqn.outputs.size(); ++k) {
      const Known& first = results[0][k];
      joined.push_back(first);
      if (first.is_element()) {
        const auto is_it = [&](const Knowns& one) { return one[k].value == first.value; };
        if (!std::ranges::all_of(results, is_it)) differ.push_back(k);
        if (!std::ranges::all_of(results, [&](const Knowns& one) { return one[k].is_element(); })) return std::nullopt;
        continue;
      }
      for (std::size_t way = 0; way < results.size(); ++way) {
        if (!lies_where(results[way][k], first)) return std::nullopt;
        if (results[way][k].version != after[way][static_cast<std::size_t>(first.array)]) return std::nullopt;
      }
      joined[k].version = version(first.array);
    }
    for (std::size_t way = 0; way < ways.size(); ++way) {
      for (const std::size_t k : differ) ways[way].results.push_back(results[way][k].value);
    }
    const std::vector<int> values = joined_values(index, std::move(ways));
    for (std::size_t i = 0; i < differ.size(); ++i) joined[differ[i]] = Known{.value = values[i]};
    return joined;
  }

  static bool lies_where(const Known& a, const Known& b) {
    return a.is_memory() && a.array == b.array && a.offset == b.offset && a.strides == b.strides;
  }

  // What the way gives that the index says.
  std::vector<int> joined_values(int index, std::vector<Routine::Block> ways) {
    int cost = 0;
    for (const Routine::Block& way : ways) {
      for (const Routine::Step& step : way.steps) cost += cost_of(step);
    }
    const std::vector<int> last = ways.back().results;
    std::vector<int> values;
    if (cost > kCheapWays) {
      for (const int value : last) values.push_back(build_.new_value(build_.dtype_of(value)));
      build_.add(Routine::Branch{.index = index, .values = values, .ways = std::move(ways)});
      return values;
    }
    values = last;
    for (const Routine::Block& way : ways) build_.take_over(way);
    for (std::size_t way = ways.size() - 1; way-- > 0;) {
      const int is_it = build_.apply(Core::kLe, bool_, index, build_.constant(int32, way));
      for (std::size_t k = 0; k < values.size(); ++k) {
        const int value = ways[way].results[k];
        if (value == values[k]) continue;
        values[k] = build_.apply(Core::kSelect, build_.dtype_of(value), is_it, value, values[k]);
      }
    }
    return values;
  }

  // In operations like an addition.
  int cost_of(const Routine::Step& step) const {
    const auto* const operation = std::get_if<Routine::Operation>(&step);
    if (operation == nullptr) return kCheapWays + 1;
    switch (operation->node.core) {
      case Core::kDiv:
      case Core::kRem:
        return is_integer(operation->node.dtype) && build_.made(operation->node.operands[1]).core == Core::kConstant
                   ? 3
                   : 12;
      case Core::kSqrt:
        return 12;
      case Core::kPio2Quadrant:
      case Core::kPio2Remainder:
      case Core::kPio2RemainderLow:
        return kCheapWays + 1;
      default:
        return 1;
    }
  }

  // ---- Loops.

  struct Round {
    const Graph* condition = nullptr;
    const Graph* body = nullptr;
    int trips = Routine::Repeat::kAnyNumber;
  };

  // A loop with these carries. `add_others` adds the other arguments of a trip, and `take` takes yields that are no
  // carries, by their numbers. Gives what is carried at the end.
  std::optional<Knowns> go_round(const Round& round, Knowns carried,
                                 FunctionRef<bool(int trip, Knowns& arguments)> add_others,
                                 FunctionRef<bool(std::size_t k, const Known& yield)> take) {
    Routine::Repeat repeat{
        .values = {}, .initial = {}, .trip = build_.new_value(Dtype::kI64), .trips = round.trips, .blocks = {}};
    for (Known& carry : carried) {
      if (carry.is_element()) {
        repeat.initial.push_back(carry.value);
        carry.value = repeat.values.emplace_back(build_.new_value(build_.dtype_of(carry.value)));
      } else if (carry.is_memory() && carry.version == version(carry.array)) {
        carry.version = new_version(carry.array);  // What has it in the loop but no carry has it from before.
      } else {
        return std::nullopt;
      }
    }
    if (round.condition != nullptr) {
      build_.open();
      Knowns arguments = carried;
      if (!add_others(repeat.trip, arguments)) return std::nullopt;
      const std::vector<int> at_start = versions_;
      const std::optional<Knowns> answer = results_of(*round.condition, arguments);
      if (!answer || !(*answer)[0].is_element() || versions_ != at_start) return std::nullopt;
      repeat.blocks.push_back(build_.close());
      repeat.blocks.back().results = {(*answer)[0].value};
    }
    build_.open();
    Knowns arguments = carried;
    if (!add_others(repeat.trip, arguments)) return std::nullopt;
    const std::vector<int> at_start = versions_;
    const std::optional<Knowns> yields = results_of(*round.body, arguments);
    if (!yields) return std::nullopt;
    for (std::size_t k = carried.size(); k < yields->size(); ++k) {
      if (!take(k, (*yields)[k])) return std::nullopt;
    }
    std::vector<int> next;
    std::vector<bool> is_carried(versions_.size(), false);
    for (std::size_t k = 0; k < carried.size(); ++k) {
      const Known& yield = (*yields)[k];
      if (carried[k].is_element()) {
        if (!yield.is_element()) return std::nullopt;
        next.push_back(yield.value);
        continue;
      }
      if (!lies_where(yield, carried[k]) || yield.version != version(yield.array)) return std::nullopt;
      is_carried[static_cast<std::size_t>(yield.array)] = true;
      carried[k].version = yield.version;
    }
    // What is written to in a trip is not there in the next one as it was.
    for (std::size_t array = 0; array < at_start.size(); ++array) {
      if (!is_carried[array] && versions_[array] != at_start[array]) return std::nullopt;
    }
    repeat.blocks.push_back(build_.close());
    repeat.blocks.back().results = std::move(next);
    build_.add(std::move(repeat));
    return carried;
  }

  std::optional<Knowns> loop(const Graph& graph, const Eqn& eqn, const Control& control, const Knowns& operands) {
    if (eqn.outputs.size() != control.carries) return std::nullopt;
    const auto bodies = bodies_of(eqn);
    Round round{.condition = control.asks ? bodies.front() : nullptr, .body = bodies.back()};
    if (control.trips) round.trips = build_.i64(*control.trips);
    goes_on_freely_ = goes_on_freely_ || !control.trips;
    const auto add_others = [&](int trip, Knowns& arguments) {
      for (std::size_t i = control.carries; i < operands.size(); ++i) {
        const std::optional<Known> argument =
            control.is_slice(i) ? slice_of(graph.type(eqn.inputs[i]), operands[i], index_of(control, trip))
                                : operands[i];
        if (!argument) return false;
        arguments.push_back(*argument);
      }
      return true;
    };
    return build_.in_trips(control.weight(), [&] {
      return go_round(round, Knowns(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(control.carries)),
                      add_others, [](std::size_t, const Known&) { return false; });
    });
  }

  int index_of(const Control& control, int trip) {
    if (!control.reverse) return trip;
    return build_.apply(Core::kSub, Dtype::kI64, build_.i64(*control.trips - 1), trip);
  }

  // That of a trip.
  std::optional<Known> slice_of(const Type& type, const Known& operand, int index) {
    if (operand.is_element()) return operand;
    if (operand.counts) return Known{.value = build_.apply(Core::kConvert, type.dtype, index)};
    if (!operand.is_memory()) return std::nullopt;
    Known slice = operand;
    slice.offset = sum(operand.offset, scaled(index, operand.strides[0]));
    slice.strides.erase(slice.strides.begin());
    return num_elements(type.shape) == type.shape[0] ? element_at(slice, -1) : slice;
  }

  const Graph& body_;
  const Graph* condition_;
  std::size_t carries_;
  std::vector<int> uses_;
  std::vector<int> uses_of_condition_ = {};
  RoutineBuilder build_;
  std::vector<std::size_t> operands_ = {};  // Of each array, as RoutinePlan says.
  std::vector<int> versions_ = {};          // Of each array, that which is there.
  int last_version_ = 0;
  bool goes_on_freely_ = false;
};

}  // namespace

std::optional<RoutinePlan> routine_of_loop(const Graph& body, const Graph* condition, std::size_t carries) {
  return RoutineWriter(body, condition, carries).write();
}

}  // namespace shoal::cpu
