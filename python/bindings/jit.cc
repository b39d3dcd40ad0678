// jit and pmap: functions that are traced, compiled and kept; and what they are lowered and compiled to.
#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <variant>

#include "call.h"
#include "flag.h"

namespace shoal::python {
namespace {

using JitCachePtr = std::shared_ptr<detail::JitCache>;
using PmapCachePtr = std::shared_ptr<detail::PmapCache>;

// A jitted or mapped function.
struct Cached {
  Callee callee;
  std::variant<JitCachePtr, PmapCachePtr> cache;
};

nb::object call(const Cached& cached, nb::handle args, nb::handle kwargs) {
  const PythonCall python_call(cached.callee, args, kwargs);
  const SourceLocation where = user_line();
  detail::Exemplar exemplar;
  detail::CallResults results = unlocked([&] {
    return std::visit([&](const auto& cache) { return detail::call_cached(*cache, python_call, exemplar, where); },
                      cached.cache);
  });
  const auto& tree = *std::any_cast<const std::shared_ptr<const PyTree>&>(*exemplar);
  if (tree.is_leaf()) return nb::cast(std::move(results[0]));
  std::vector<nb::object> objects;
  objects.reserve(results.size());
  for (Array& result : results) objects.push_back(nb::cast(std::move(result)));
  return tree.unflatten(objects);
}

// ---- Lowered and compiled functions.

struct Lowered {
  std::shared_ptr<detail::LoweredImpl> impl;
  PyTree arguments;  // ((args...), {kwargs...})
};
struct Compiled {
  std::shared_ptr<detail::CompiledImpl> impl;
  PyTree arguments;
  std::string name;
  Callee callee;  // Without a function: what a call of it is made of.
};

Lowered lower(const Cached& cached, nb::args args, nb::kwargs kwargs) {
  const PythonCall python_call(cached.callee, args, kwargs, true);
  const SourceLocation where = user_line();
  std::vector<nb::object> leaves;
  PyTree arguments = PyTree::flatten(nb::make_tuple(args, kwargs), leaves);
  auto impl = unlocked([&] {
    const detail::CallArguments flat = python_call.flatten();
    return std::visit(
        [&](const auto& cache) { return detail::lower_cached(cache, flat, python_call.function(), where); },
        cached.cache);
  });
  return {std::move(impl), std::move(arguments)};
}

// Types of results as a tree.
nb::object types_object(const std::any& exemplar, const std::vector<Array>& types) {
  const auto& tree = *std::any_cast<const std::shared_ptr<const PyTree>&>(exemplar);
  std::vector<nb::object> objects;
  for (const Array& type : types) objects.push_back(nb::cast(ShapeDtypeStruct::like(type)));
  return tree.unflatten(objects);
}

nb::object eval_shape(const Cached& cached, nb::args args, nb::kwargs kwargs) {
  const PythonCall python_call(cached.callee, args, kwargs, true);
  const SourceLocation where = user_line();
  std::any exemplar;
  const std::vector<Array> types = unlocked([&] {
    const detail::CallArguments flat = python_call.flatten();
    return std::visit(
        [&](const auto& cache) { return detail::eval_cached(cache, flat, python_call.function(), exemplar, where); },
        cached.cache);
  });
  return types_object(exemplar, types);
}

nb::object call_compiled(const Compiled& compiled, nb::args args, nb::kwargs kwargs) {
  const PythonCall python_call(compiled.callee, args, kwargs);
  const SourceLocation where = user_line();
  detail::Exemplar exemplar;
  detail::CallResults results =
      unlocked([&] { return detail::call_compiled(*compiled.impl, python_call, exemplar, where); });
  return result_object(*exemplar, {results.begin(), results.end()});
}

nb::object shardings_object(const Compiled& compiled, bool of_inputs) {
  const std::vector<Sharding> shardings = detail::compiled_shardings(*compiled.impl, of_inputs);
  std::vector<nb::object> objects;
  for (const Sharding& sharding : shardings) objects.push_back(to_object(sharding));
  if (of_inputs) return compiled.arguments.unflatten(objects);
  std::any exemplar;
  static_cast<void>(detail::compiled_out_info(*compiled.impl, exemplar));
  return std::any_cast<const std::shared_ptr<const PyTree>&>(exemplar)->unflatten(objects);
}

Callee callee_of(nb::object function, std::string name, std::vector<std::int64_t> argnums,
                 std::vector<std::string> argnames) {
  return {std::move(function), std::move(name), std::move(argnums), std::move(argnames)};
}

AxisTree axis_tree(nb::handle x, std::string_view what) {
  const auto is_leaf = [](nb::handle leaf) { return leaf.is_none() || PyLong_Check(leaf.ptr()); };
  return prefix_of<std::optional<std::int64_t>>(
      x, is_leaf, [&](nb::handle leaf) -> std::optional<std::int64_t> { return maybe_integer(leaf, what); });
}

}  // namespace

void bind_jit(nb::module_& m) {
  nb::class_<ShapeDtypeStruct>(m, "ShapeDtypeStruct", "What is known of an array that does not exist.")
      .def(
          "__init__",
          [](ShapeDtypeStruct* self, nb::handle shape, nb::handle dtype_object, nb::handle where, Flag weak) {
            new (self) ShapeDtypeStruct{.shape = dims(shape, "ShapeDtypeStruct: shape"),
                                        .dtype = dtype(dtype_object),
                                        .sharding = maybe_sharding(where, "ShapeDtypeStruct: sharding"),
                                        .weak_type = weak};
          },
          "shape"_a, "dtype"_a, nb::kw_only(), "sharding"_a = nb::none(), "weak_type"_a = false)
      .def_prop_ro("shape", [](const ShapeDtypeStruct& s) { return to_tuple(s.shape); })
      .def_prop_ro("dtype", [](const ShapeDtypeStruct& s) { return dtype_object(s.dtype); })
      .def_prop_ro("ndim", [](const ShapeDtypeStruct& s) { return s.shape.size(); })
      .def_prop_ro("size", [](const ShapeDtypeStruct& s) { return num_elements(s.shape); })
      .def_ro("weak_type", &ShapeDtypeStruct::weak_type)
      .def_prop_ro("sharding",
                   [](const ShapeDtypeStruct& s) { return s.sharding ? to_object(*s.sharding) : nb::none(); })
      .def(
          "update",
          [](nb::object self, nb::kwargs changes) {
            nb::dict values;
            for (const char* name : {"shape", "dtype", "sharding", "weak_type"}) values[name] = self.attr(name);
            for (const auto& [name, value] : changes) values[name] = value;
            return self.type()(**values);
          },
          "changes"_a, "The same with another shape, dtype, sharding or weak_type.")
      .def_static(
          "like", [](nb::handle x) { return ShapeDtypeStruct::like(to_array(x, "ShapeDtypeStruct.like")); }, "x"_a,
          "What is known of this array.")
      .def("__len__",
           [](const ShapeDtypeStruct& s) {
             if (s.shape.empty()) type_error("len() of unsized object");
             return s.shape[0];
           })
      .def(
          "__eq__",
          [](const ShapeDtypeStruct& a, nb::handle b) {
            return nb::isinstance<ShapeDtypeStruct>(b) && a == nb::cast<ShapeDtypeStruct>(b);
          },
          nb::is_operator())
      .def("__hash__",
           [](const ShapeDtypeStruct& s) {
             return static_cast<std::int64_t>(nb::hash(nb::make_tuple(to_tuple(s.shape), static_cast<int>(s.dtype))));
           })
      .def("__repr__", [](const ShapeDtypeStruct& s) { return to_string(s); });
  m.def("_type_struct", [](const Array& a) { return ShapeDtypeStruct::like(a); });

  nb::class_<Cached>(m, "_CachedFunction", nb::type_slots(FunctionSlots<Cached, call>::slots), nb::dynamic_attr(),
                     nb::is_weak_referenceable(), "A function that is traced and compiled for each kind of arguments.")
      .def("lower", &lower, "args"_a, "kwargs"_a, "Traces the function for arguments like these without running it.")
      .def("eval_shape", &eval_shape, "args"_a, "kwargs"_a, "The types of its results for arguments like these.");

  m.def(
      "_jit",
      [](nb::object function, std::string name, nb::handle in_shardings, nb::handle out_shardings,
         std::vector<std::int64_t> static_argnums, std::vector<std::string> static_argnames,
         std::vector<int> donate_argnums) {
        JitOptions options{.in_shardings = sharding_tree(in_shardings, name + ": in_shardings"),
                           .out_shardings = sharding_tree(out_shardings, name + ": out_shardings"),
                           .donate_argnums = std::move(donate_argnums),
                           .name = name};
        return Cached{callee_of(std::move(function), name, std::move(static_argnums), std::move(static_argnames)),
                      detail::make_jit_cache(options, user_line())};
      },
      "function"_a, "name"_a, "in_shardings"_a.none(), "out_shardings"_a.none(), "static_argnums"_a,
      "static_argnames"_a, "donate_argnums"_a);

  m.def(
      "_pmap",
      [](nb::object function, std::string name, std::string axis_name, nb::handle in_axes, nb::handle out_axes,
         std::vector<std::int64_t> static_argnums, nb::handle axis_size, nb::handle devices) {
        PmapOptions options{.axis_name = std::move(axis_name),
                            .in_axes = axis_tree(in_axes, "pmap: in_axes"),
                            .out_axes = axis_tree(out_axes, "pmap: out_axes"),
                            .axis_size = maybe_integer(axis_size, "pmap: axis_size")};
        if (!devices.is_none()) options.devices = device_list(devices, "pmap: devices");
        return Cached{callee_of(std::move(function), std::move(name), std::move(static_argnums), {}),
                      detail::make_pmap_cache(options, user_line())};
      },
      "function"_a, "name"_a, "axis_name"_a, "in_axes"_a.none(), "out_axes"_a.none(), "static_argnums"_a,
      "axis_size"_a.none(), "devices"_a.none());

  nb::class_<Lowered>(m, "Lowered", "A traced function.")
      .def(
          "as_text",
          [](const Lowered& lowered, nb::handle dialect) {
            static_cast<void>(dialect);
            return detail::lowered_text(*lowered.impl);
          },
          "dialect"_a = nb::none(), "The traced graph.")
      .def(
          "compile",
          [](const Lowered& lowered, nb::handle) {
            const SourceLocation where = user_line();
            return Compiled{unlocked([&] { return detail::compile_lowered(*lowered.impl, {}, where); }),
                            lowered.arguments, "compiled", callee_of({}, "compiled", {}, {})};
          },
          "compiler_options"_a = nb::none(), "The program for the devices that the arguments' shardings name.")
      .def_prop_ro("in_tree", [](const Lowered& lowered) { return lowered.arguments; })
      .def_prop_ro("out_info",
                   [](const Lowered& lowered) {
                     std::any exemplar;
                     const std::vector<Array> types = detail::lowered_out_info(*lowered.impl, exemplar);
                     return types_object(exemplar, types);
                   })
      .def_prop_ro("out_tree",
                   [](const Lowered& lowered) {
                     std::any exemplar;
                     static_cast<void>(detail::lowered_out_info(*lowered.impl, exemplar));
                     return *std::any_cast<const std::shared_ptr<const PyTree>&>(exemplar);
                   })
      .def("cost_analysis", [](const Lowered& lowered) {
        const CostAnalysis cost = detail::compiled_cost(*detail::compile_lowered(*lowered.impl, {}, user_line()));
        return std::map<std::string, double>{{"flops", cost.flops}, {"bytes accessed", cost.bytes_accessed}};
      });

  nb::class_<MemoryAnalysis>(m, "CompiledMemoryStats", "The memory that a program needs on one device, in bytes.")
      .def_ro("argument_size_in_bytes", &MemoryAnalysis::argument_size)
      .def_ro("output_size_in_bytes", &MemoryAnalysis::output_size)
      .def_ro("alias_size_in_bytes", &MemoryAnalysis::alias_size)
      .def_ro("temp_size_in_bytes", &MemoryAnalysis::temp_size)
      .def_prop_ro("generated_code_size_in_bytes", [](const MemoryAnalysis&) { return 0; })
      .def("__repr__", [](const MemoryAnalysis& m) {
        return fmt::format(
            "CompiledMemoryStats(argument_size_in_bytes={}, output_size_in_bytes={}, "
            "alias_size_in_bytes={}, temp_size_in_bytes={})",
            m.argument_size, m.output_size, m.alias_size, m.temp_size);
      });

  nb::class_<Compiled>(m, "Compiled", "A compiled program for arguments of one kind.")
      .def("__call__", &call_compiled)
      .def(
          "as_text", [](const Compiled& c, const std::string& stage) { return detail::compiled_text(*c.impl, stage); },
          "stage"_a = "partitioned", "The graph after a stage.")
      .def(
          "explain",
          [](const Compiled& c, std::int64_t threshold) { return detail::explain_compiled(*c.impl, threshold); },
          "threshold"_a = 1 << 20, "What each line of the program became.")
      .def("cost_analysis",
           [](const Compiled& c) {
             const CostAnalysis cost = detail::compiled_cost(*c.impl);
             return std::map<std::string, double>{{"flops", cost.flops},
                                                  {"bytes accessed", cost.bytes_accessed},
                                                  {"bytes exchanged", cost.bytes_exchanged}};
           })
      .def("memory_analysis", [](const Compiled& c) { return detail::compiled_memory(*c.impl); })
      .def_prop_ro("input_shardings", [](const Compiled& c) { return shardings_object(c, true); })
      .def_prop_ro("output_shardings", [](const Compiled& c) { return shardings_object(c, false); })
      .def_prop_ro("in_tree", [](const Compiled& c) { return c.arguments; })
      .def_prop_ro("out_info", [](const Compiled& c) {
        std::any exemplar;
        const std::vector<Array> types = detail::compiled_out_info(*c.impl, exemplar);
        return types_object(exemplar, types);
      });
}

}  // namespace shoal::python
