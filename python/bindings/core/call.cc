#include "bindings/core/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shoal::python {
namespace {

constexpr char kPythonCalls = 0;  // Its address is the type of all these calls.

// A static argument. Its hash is taken when it is passed, with the GIL.
class Static {
 public:
  Static(nb::handle value, std::size_t hash) : value_(value), hash_(hash) {}
  std::size_t hash() const { return hash_; }
  friend bool operator==(const Static& a, const Static& b) {
    if (a.hash_ != b.hash_) return false;
    if (a.value_.get().is(b.value_.get())) return true;
    nb::gil_scoped_acquire gil;
    return nb::borrow(a.value_.get()).type().is(b.value_.get().type()) &&
           nb::borrow(a.value_.get()).equal(b.value_.get());
  }

 private:
  Held value_;
  std::size_t hash_;
};

// The arguments of a call as the function takes them, with the leaves left out.
struct Template {
  struct Argument {
    Held fixed;  // Of a static one.
    PyTree tree;
    std::string keyword;  // Of a keyword argument.
    bool is_static = false;
  };
  Held function;
  std::string name;
  std::string_view hint;  // What is added where it returns what is no array.
  std::vector<Argument> arguments;
};

// The array that goes in the place of one of float0.
Array in_place_of(nb::handle float0) {
  return zeros(dims(float0.attr("shape"), "shape"), {.dtype = bool_}, user_line());
}

// Whether an object has shape and dtype, as ShapedArray, and is no array.
bool is_other_type(nb::handle x) {
  return !is_array_like(x) && !nb::isinstance<ShapeDtypeStruct>(x) && nb::hasattr(x, "shape") &&
         nb::hasattr(x, "dtype");
}
nb::object as_type_struct(nb::handle x) {
  return nb::borrow(nb::type<ShapeDtypeStruct>())(x.attr("shape"), x.attr("dtype"),
                                                  "weak_type"_a = nb::getattr(x, "weak_type", nb::bool_(false)));
}

bool is_sharding_leaf(nb::handle x) {
  return x.is_none() || nb::isinstance<NamedSharding>(x) || nb::isinstance<SingleDeviceSharding>(x) ||
         nb::isinstance<PartitionSpec>(x) || nb::isinstance<Device>(x) || nb::hasattr(x, "_sharding_of_rows");
}

std::vector<nb::object> sorted_names(nb::handle kwargs) {
  std::vector<nb::object> names;
  if (!kwargs.is_valid()) return names;
  const nb::object keys = nb::steal(PyDict_Keys(kwargs.ptr()));
  if (PyList_Sort(keys.ptr()) != 0) throw nb::python_error();
  for (nb::handle key : keys) names.push_back(nb::borrow(key));
  return names;
}

}  // namespace

bool Callee::is_static(std::size_t position) const {
  return std::ranges::find(static_argnums, static_cast<std::int64_t>(position)) != static_argnums.end();
}
bool Callee::is_static(std::string_view keyword) const {
  return std::ranges::find(static_argnames, keyword) != static_argnames.end();
}

PythonCall::PythonCall(const Callee& callee, nb::handle args, nb::handle kwargs, bool types_allowed)
    : callee_(callee), args_(args), kwargs_(kwargs) {
  key_.type = &kPythonCalls;
  std::vector<nb::handle> leaves;
  const bool any_static = !callee.static_argnums.empty() || !callee.static_argnames.empty();
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args.ptr()));
  for (std::size_t i = 0; i < count; ++i) {
    const nb::handle argument = PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i));
    if (any_static && callee.is_static(i)) {
      key_.structure.push_back('#');
      add_static(argument, fmt::format("argument {}", i));
    } else {
      append_structure(argument, key_.structure, leaves, held_);
    }
  }
  if (kwargs.is_valid()) {
    for (const nb::object& name : sorted_names(kwargs)) {
      const nb::handle argument = PyDict_GetItem(kwargs.ptr(), name.ptr());
      const auto text = nb::cast<std::string>(name);
      key_.structure.append("=").append(text).push_back('\0');
      if (any_static && callee.is_static(text)) {
        key_.structure.push_back('#');
        add_static(argument, fmt::format("argument '{}'", text));
      } else {
        append_structure(argument, key_.structure, leaves, held_);
      }
    }
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (types_allowed && is_other_type(leaves[i])) {
      held_.push_back(as_type_struct(leaves[i]));
      leaves[i] = held_.back();
    }
    if (types_allowed && nb::isinstance<ShapeDtypeStruct>(leaves[i])) {
      key_.leaves.push_back(&made_.emplace_back(nb::cast<ShapeDtypeStruct>(leaves[i]), user_line()));
    } else {
      key_.leaves.push_back(&array_at(leaves[i], i));
    }
  }
  // An array of float0 holds nothing but its shape: an array of bool goes in its place, and is none to the function.
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_float0(leaves[i])) key_.structure.append("0").append(std::to_string(i));
  }
  // What a cache of programs depends on besides the library's view of the structure.
  key_.statics.emplace_back(key_.structure);
}

const Array& PythonCall::array_at(nb::handle leaf, std::size_t number) {
  if (const Array* array = array_of(leaf)) return *array;
  if (is_float0(leaf)) return made_.emplace_back(in_place_of(leaf));
  if (!is_array_like(leaf)) {
    if (nb::isinstance<ShapeDtypeStruct>(leaf)) {
      type_error(fmt::format("{}: a ShapeDtypeStruct is no argument of a call; only lower and eval_shape take one",
                             callee_.name));
    }
    if (!callee_.arguments.empty()) refuse_operand(leaf, number);
    std::string path = std::to_string(number);
    try {
      path = flatten().tree.leaf_paths().at(number);
    } catch (const std::exception&) {
      path = fmt::format("leaf {}", number);
    }
    type_error(
        fmt::format("Cannot interpret value of type {} as an abstract array; it does not have a dtype attribute: {}: "
                    "argument {} is "
                    "neither an array nor a number. Pass it as a static argument (static_argnums, static_argnames)",
                    type_text(leaf), callee_.name, path));
  }
  return made_.emplace_back(to_array(leaf, callee_.name, "argument"));
}

// A leaf of what a function that is an argument of another is called with.
void PythonCall::refuse_operand(nb::handle leaf, std::size_t number) const {
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args_.ptr()));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<nb::object> leaves;
    const TreeDef tree = PyTree::flatten(PyTuple_GET_ITEM(args_.ptr(), static_cast<Py_ssize_t>(i)), leaves).to_def();
    if (number >= leaves.size()) {
      number -= leaves.size();
      continue;
    }
    const std::size_t last = callee_.arguments.size() - 1;
    std::string name = callee_.arguments[std::min(i, last)];
    if (count > callee_.arguments.size() && i >= last) name += fmt::format("[{}]", i - last);
    type_error(fmt::format("{}: {}{} is of type {}, which is not a valid JAX type; it must be an array or a number",
                           callee_.name, name, tree.leaf_paths()[number], type_text(leaf)));
  }
}

void PythonCall::add_static(nb::handle value, std::string_view what) {
  const Py_hash_t hash = PyObject_Hash(value.ptr());
  if (hash == -1) {
    PyErr_Clear();
    value_error(
        fmt::format("Non-hashable static arguments are used in a jit function: {}: {} of type {} with value {} "
                    "is unhashable. It will cause an error when it's looked up; pass a tuple, or a class with "
                    "__hash__ and __eq__",
                    callee_.name, what, type_text(value), nb::cast<std::string>(nb::repr(value))));
  }
  key_.statics.emplace_back(Static(value, static_cast<std::size_t>(hash)));
}

detail::CallArguments PythonCall::flatten() const {
  nb::gil_scoped_acquire gil;
  detail::CallArguments flat;
  for (const Array* leaf : key_.leaves) flat.leaves.push_back(*leaf);
  flat.tree.kind = "tuple";
  const auto add = [&](std::string key, nb::handle argument) {
    std::vector<nb::object> leaves;
    flat.tree.children.emplace_back(std::move(key), PyTree::flatten(argument, leaves).to_def());
  };
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args_.ptr()));
  for (std::size_t i = 0; i < count; ++i) {
    if (!callee_.is_static(i)) add(detail::index_text(i), PyTuple_GET_ITEM(args_.ptr(), static_cast<Py_ssize_t>(i)));
  }
  for (const nb::object& name : sorted_names(kwargs_)) {
    const auto text = nb::cast<std::string>(name);
    if (!callee_.is_static(text)) add("['" + text + "']", PyDict_GetItem(kwargs_.ptr(), name.ptr()));
  }
  flat.statics = key_.statics;
  return flat;
}

detail::TracedFunction PythonCall::function() const {
  nb::gil_scoped_acquire gil;
  auto plan = std::make_shared<Template>();
  plan->function = Held(callee_.function);
  plan->name = callee_.role.empty() ? callee_.name : fmt::format("{} of {}", callee_.role, callee_.name);
  if (!callee_.role.empty()) plan->hint = "; it may return trees of arrays and numbers";
  const auto add = [&](nb::handle argument, std::string keyword, bool is_static) {
    Template::Argument& made = plan->arguments.emplace_back();
    made.keyword = std::move(keyword);
    made.is_static = is_static;
    std::vector<nb::object> leaves;
    if (is_static) {
      made.fixed = Held(argument);
    } else {
      made.tree = PyTree::flatten(argument, leaves);
      made.tree.mark_float0(leaves);
    }
  };
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args_.ptr()));
  for (std::size_t i = 0; i < count; ++i) {
    add(PyTuple_GET_ITEM(args_.ptr(), static_cast<Py_ssize_t>(i)), {}, callee_.is_static(i));
  }
  for (const nb::object& name : sorted_names(kwargs_)) {
    const auto text = nb::cast<std::string>(name);
    add(PyDict_GetItem(kwargs_.ptr(), name.ptr()), text, callee_.is_static(text));
  }
  return [plan](const std::vector<Array>& leaves) {
    nb::gil_scoped_acquire held;
    std::vector<nb::object> objects;
    objects.reserve(leaves.size());
    for (const Array& leaf : leaves) objects.push_back(nb::cast(leaf));
    std::size_t next = 0;
    nb::list positional;
    nb::dict keywords;
    for (const Template::Argument& argument : plan->arguments) {
      const nb::object value =
          argument.is_static ? nb::borrow(argument.fixed.get()) : argument.tree.unflatten(objects, next);
      if (argument.keyword.empty()) {
        positional.append(value);
      } else {
        keywords[argument.keyword.c_str()] = value;
      }
    }
    objects.clear();
    const nb::tuple arguments(positional);
    const nb::object result = nb::steal(PyObject_Call(plan->function.get().ptr(), arguments.ptr(), keywords.ptr()));
    if (!result.is_valid()) rethrow_python_error();
    return traced_result(result, plan->name, plan->hint);
  };
}

detail::TracedResult traced_result(nb::handle result, const std::string& name, std::string_view hint) {
  detail::TracedResult traced;
  std::vector<nb::object> leaves;
  auto tree = std::make_shared<PyTree>(PyTree::flatten(result, leaves));
  tree->mark_float0(leaves);
  traced.tree = tree->to_def();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_float0(leaves[i])) {
      traced.leaves.push_back(in_place_of(leaves[i]));
      continue;
    }
    if (!is_array_like(leaves[i])) {
      type_error(
          fmt::format("function {} returned a value of type {} at output component {}, which is not a valid JAX type{}",
                      name, type_text(leaves[i]), traced.tree.leaf_paths()[i], hint));
    }
    traced.leaves.push_back(to_array(leaves[i], name, "result"));
  }
  traced.exemplar = std::shared_ptr<const PyTree>(std::move(tree));
  return traced;
}

nb::object result_object(const std::any& exemplar, std::vector<Array> leaves) {
  const auto& tree = *std::any_cast<const std::shared_ptr<const PyTree>&>(exemplar);
  if (tree.is_leaf() && !tree.is_float0()) return nb::cast(std::move(leaves[0]));
  return tree_object(tree, leaves);
}

ShardingTree sharding_tree(nb::handle x, std::string_view what) {
  return prefix_of<std::optional<Sharding>>(x, is_sharding_leaf, [&](nb::handle leaf) -> std::optional<Sharding> {
    const nb::object given = sharding_of_format(leaf);
    if (given.is_none()) return std::nullopt;
    return constraint(given, what);
  });
}

bool has_bare_specs(nb::handle x) {
  bool found = false;
  static_cast<void>(prefix_of<bool>(x, is_sharding_leaf, [&](nb::handle leaf) {
    found = found || nb::isinstance<PartitionSpec>(leaf);
    return found;
  }));
  return found;
}

SpecTree spec_tree(nb::handle x, std::string_view what) {
  const auto is_leaf = [](nb::handle leaf) { return leaf.is_none() || nb::isinstance<PartitionSpec>(leaf); };
  return prefix_of<PartitionSpec>(
      x, is_leaf, [&](nb::handle leaf) { return leaf.is_none() ? PartitionSpec() : partition_spec(leaf, what); });
}

}  // namespace shoal::python
