#include "shoal/custom_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ir/rule_text.h"
#include "ops/table.h"
#include "spmd/stages.h"

namespace shoal {
namespace detail {
namespace {

std::string types_text(const std::vector<std::string>& types) {
  return types.empty() ? "nothing" : fmt::format("{}", fmt::join(types, ", "));
}

// What counts of the types of operands and results.
std::vector<std::string> texts_of(std::span<const Type> types) {
  std::vector<std::string> texts;
  for (const Type& type : types) texts.push_back(to_string(Type{.dtype = type.dtype, .shape = type.shape}));
  return texts;
}

std::vector<Shape> shapes_of(std::span<const Type> types) {
  std::vector<Shape> shapes;
  for (const Type& type : types) shapes.push_back(type.shape);
  return shapes;
}

// A type without what the function of an op does not see: how the value is split, and over what it varies.
std::vector<Type> plain(std::span<const Type> types) {
  std::vector<Type> result(types.begin(), types.end());
  for (Type& type : result) {
    type.varying = {};
    type.explicit_axes.reset();
  }
  return result;
}

struct TracedShard {
  std::vector<Type> operands;
  GraphPtr graph;
  std::any exemplar;

  std::vector<Type> results() const { return graph->types(graph->outputs); }
};

// A function on shards, for arguments of one structure.
class ShardFunction {
 public:
  ShardFunction(std::string name, TracedFunction function) : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const { return name_; }

  std::shared_ptr<const TracedShard> trace(std::span<const Type> operands) {
    const std::vector<Type> types = plain(operands);
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find_if(traced_, [&](const auto& one) { return one->operands == types; });
      if (found != traced_.end()) return *found;
    }
    auto traced = std::make_shared<const TracedShard>(trace_anew(types));
    const std::lock_guard lock(mutex_);
    return traced_.emplace_back(std::move(traced));
  }

 private:
  TracedShard trace_anew(const std::vector<Type>& operands) const {
    const Trace::Pause outside;  // The function sees one device, whatever the trace at hand binds.
    const auto trace = Trace::begin(Trace::Kind::kJit, name_);
    TracedResult result;
    Graph graph = trace_graph(trace, [&] {
      std::vector<Array> tracers;
      for (const Type& type : operands) tracers.push_back(trace->add_input(type));
      {
        const Caller::Pause pause;
        result = function_(tracers);
      }
      check_values(result.leaves, result.tree, "result");
      return std::move(result.leaves);
    });
    if (!trace->captures().empty()) {
      throw misuse<InvalidArgument>(
          "the function of a custom op uses the array {} from outside, of which it would need a shard; pass it as "
          "an operand",
          to_string(impl_of(trace->captures()[0]).type));
    }
    Compilation simplified{.graph = std::move(graph)};
    run_stages(simplified, "inline_calls", "dce");
    for (const Eqn& eqn : simplified.graph->eqns) {
      const bool places =
          eqn.op->op_class == OpClass::kConstraint || eqn.op->op_class == OpClass::kRegion || eqn.op->when_compiled;
      if (!places) continue;
      throw InvalidArgument(
          fmt::format("{}: the function of a custom op computes a shard on one device, so that there is nothing for {} "
                      "to say of how values lie",
                      name_, eqn.op->name),
          eqn.where);
    }
    return {.operands = operands, .graph = simplified.graph.kept(), .exemplar = result.exemplar};
  }

  std::string name_;
  TracedFunction function_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const TracedShard>> traced_;
};

// The types that the user declares of the results.
std::vector<Type> declared(const CustomOpOptions& options, std::span<const Type> operands) {
  std::vector<ShapeDtypeStruct> given;
  for (const Type& type : operands) given.push_back({.shape = type.shape, .dtype = type.dtype});
  std::vector<Type> types;
  const std::vector<ShapeDtypeStruct> wanted = [&] {
    const Caller::Pause pause;
    return options.results(given);
  }();
  for (const ShapeDtypeStruct& type : wanted) {
    check_extents(type.shape);
    types.push_back({.dtype = type.dtype, .shape = type.shape});
  }
  return types;
}

}  // namespace

class CustomOpImpl {
 public:
  CustomOpImpl(CustomOpOptions options, SourceLocation where)
      : options_(std::move(options)), where_(where), rule_(options_.rule, options_.name, where) {}

  const CustomOpOptions& options() const { return options_; }
  SourceLocation where() const { return where_; }
  void set_kernel(Callback callback) { kernel_ = CallbackAttr::of(std::move(callback)); }
  const CallbackAttr& kernel() const { return kernel_; }

  struct Function {
    TreeDef tree;
    std::vector<StaticValue> statics;
    std::shared_ptr<ShardFunction> shards;
    CallbackAttr attr;
  };

  // The function for arguments of this structure.
  Function function_for(const CallArguments& arguments, const std::function<TracedFunction()>& make_function) {
    const std::lock_guard lock(mutex_);
    for (const Function& known : functions_) {
      if (known.tree == arguments.tree && known.statics == arguments.statics) return known;
    }
    auto shards = std::make_shared<ShardFunction>(options_.name, make_function());
    const auto on_shards = [shards, rule = options_.rule](std::span<const Type> operands, std::span<const Type> results,
                                                          SourceLocation where) {
      const Caller caller(shards->name(), where);
      const auto traced = shards->trace(operands);
      const std::vector<std::string> have = texts_of(traced->results());
      const std::vector<std::string> want = texts_of(results);
      if (have == want) return traced->graph;
      throw misuse<TypeMismatch>("for shards {} the function gives {}, but by the rule \"{}\" it should give {}",
                                 types_text(texts_of(operands)), types_text(have), rule, types_text(want));
    };
    functions_.push_back({.tree = arguments.tree,
                          .statics = arguments.statics,
                          .shards = shards,
                          .attr = CallbackAttr::of({.on_shards = on_shards})});
    return functions_.back();
  }

  std::vector<Array> apply(std::string_view op, const CallbackAttr& function, const std::vector<Array>& operands,
                           const std::vector<Type>& results) const {
    std::vector<Type> types;
    for (const Array& operand : operands) types.push_back(impl_of(operand).type);
    rule_.for_shapes(shapes_of(types), shapes_of(results), options_.name, Caller::line());
    for (const Type& type : results) {
      const bool rounds = type.dtype == float16 || type.dtype == bfloat16;
      if (!rounds || !rule_.has_reduction()) continue;
      throw misuse<InvalidArgument>(
          "shards give partial sums, which would be rounded in the result {}; compute it in float32, and convert "
          "the sum",
          to_string(type));
    }
    return bind(
        op_named(op),
        {{"function", function}, {"name", options_.name}, {"results", texts_of(results)}, {"rule", options_.rule}},
        operands);
  }

 private:
  CustomOpOptions options_;
  SourceLocation where_;
  RuleText rule_;
  CallbackAttr kernel_;
  std::mutex mutex_;
  std::vector<Function> functions_;
};

std::shared_ptr<CustomOpImpl> make_custom_op(CustomOpOptions options, SourceLocation where) {
  return std::make_shared<CustomOpImpl>(std::move(options), where);
}

std::vector<Array> call_custom_op(CustomOpImpl& op, const CallArguments& arguments,
                                  const std::function<TracedFunction()>& make_function, std::any& exemplar,
                                  MaybeLocation where) {
  const Caller caller(op.options().name, where.value_or(op.where()));
  check_values(arguments.leaves, arguments.tree, "argument ");
  const CustomOpImpl::Function function = op.function_for(arguments, make_function);
  std::vector<Type> operands;
  for (const Array& leaf : arguments.leaves) operands.push_back(impl_of(leaf).type);
  const auto whole = function.shards->trace(operands);
  const std::vector<Type> results = whole->results();
  if (op.options().results) {
    const std::vector<std::string> want = texts_of(declared(op.options(), operands));
    if (want != texts_of(results)) {
      throw misuse<TypeMismatch>("for {} the function gives {}, but its results are declared as {}",
                                 types_text(texts_of(operands)), types_text(texts_of(results)), types_text(want));
    }
  }
  exemplar = whole->exemplar;
  return op.apply("custom_op", function.attr, arguments.leaves, results);
}

}  // namespace detail

std::vector<Array> CustomKernel::operator()(const std::vector<Operand>& operands, SourceLocation where) const {
  const Caller caller(impl_->options().name, where);
  std::vector<Array> arrays;
  std::vector<Type> types;
  for (const Operand& operand : operands) {
    arrays.push_back(to_array(operand));
    types.push_back(detail::impl_of(arrays.back()).type);
  }
  return impl_->apply("custom_kernel", impl_->kernel(), arrays, detail::declared(impl_->options(), types));
}

CustomKernel custom_kernel(CustomOpOptions options, KernelFunction kernel, SourceLocation where) {
  const std::string name = options.name;
  const Caller caller(name, where);
  if (!options.results) {
    throw misuse<InvalidArgument>("a kernel needs `results`, the types of what it writes for given operands");
  }
  if (!kernel) throw misuse<InvalidArgument>("the kernel is an empty function");
  auto impl = detail::make_custom_op(std::move(options), where);
  const auto on_views = [kernel = std::move(kernel)](std::span<const TensorView> operands,
                                                     std::span<const TensorView> results) {
    std::vector<OperandView> given;
    std::vector<ResultView> wanted;
    for (const TensorView& view : operands) {
      given.push_back({view.dtype, view.shape, static_cast<const std::byte*>(view.data)});
    }
    for (const TensorView& view : results) {
      wanted.push_back({view.dtype, view.shape, static_cast<std::byte*>(view.data)});
    }
    const Caller::Pause pause;
    kernel(given, wanted);
  };
  impl->set_kernel({.on_views = on_views});
  return CustomKernel(std::move(impl));
}

}  // namespace shoal
