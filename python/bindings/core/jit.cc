// jit and pmap: functions that are traced, compiled and kept; and what they are lowered and compiled to.
#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <variant>

#include "bindings/core/call.h"
#include "bindings/core/flag.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/jit_impl.h"
#include "shoal/export.h"

namespace shoal::python {
namespace {

using JitCachePtr = std::shared_ptr<detail::JitCache>;
using PmapCachePtr = std::shared_ptr<detail::PmapCache>;

// What partition specs without a mesh are in the options of jit: for each mesh that is set in a call, another cache.
struct PerMesh {
  nb::object in_shardings;
  nb::object out_shardings;
  JitOptions options;  // Without those.
  SourceLocation where;
  std::vector<std::pair<Mesh, JitCachePtr>> caches = {};

  JitCachePtr cache() {
    const Mesh mesh = get_mesh();
    for (const auto& [known, cache] : caches) {
      if (known == mesh) return cache;
    }
    options.in_shardings = sharding_tree(in_shardings, options.name + ": in_shardings");
    options.out_shardings = sharding_tree(out_shardings, options.name + ": out_shardings");
    return caches.emplace_back(mesh, detail::make_jit_cache(options, where)).second;
  }
};

// A jitted or mapped function.
struct Cached {
  Callee callee;
  std::variant<JitCachePtr, PmapCachePtr> fixed;
  std::shared_ptr<PerMesh> per_mesh = {};
  bool may_be_disabled = false;

  // A copy: another thread may clear it.
  std::variant<JitCachePtr, PmapCachePtr> cache() const {
    if (per_mesh != nullptr) return per_mesh->cache();
    return fixed;
  }
};

PyObject* leak_check = nullptr;  // Called after each call, with the function's name. Guarded by the GIL.
bool is_disabled = false;        // By jax_disable_jit. Guarded by the GIL.

nb::object call(const Cached& cached, nb::handle args, nb::handle kwargs) {
  if (is_disabled && cached.may_be_disabled) {
    const nb::object result = nb::steal(PyObject_Call(cached.callee.function.ptr(), args.ptr(), kwargs.ptr()));
    if (!result.is_valid()) rethrow_python_error();
    return result;
  }
  const PythonCall python_call(cached.callee, args, kwargs);
  const SourceLocation where = user_line();
  detail::Exemplar exemplar;
  const auto held = cached.cache();
  detail::CallResults results = unlocked([&] {
    return std::visit([&](const auto& cache) { return detail::call_cached(*cache, python_call, exemplar, where); },
                      held);
  });
  if (leak_check != nullptr && Trace::current() == nullptr) {
    const nb::handle check = leak_check;
    check(cached.callee.name.c_str());
  }
  const auto& tree = *std::any_cast<const std::shared_ptr<const PyTree>&>(*exemplar);
  if (tree.is_leaf() && !tree.is_float0()) return nb::cast(std::move(results[0]));
  std::vector<nb::object> objects;
  objects.reserve(results.size());
  for (Array& result : results) objects.push_back(nb::cast(std::move(result)));
  return tree.unflatten(objects);
}

// ---- Lowered and compiled functions.

struct Lowered {
  std::shared_ptr<detail::LoweredImpl> impl;
  PyTree arguments;  // ((args...), {kwargs...})
  std::string name;
  const detail::LoweredImpl& lowered() const { return *impl; }
};
// A function that is traced, which is all that lowering does.
struct Traced {
  Lowered function;
  const detail::LoweredImpl& lowered() const { return *function.impl; }
};
struct Compiled {
  std::shared_ptr<detail::CompiledImpl> impl;
  PyTree arguments;
  std::string name;
  Callee callee;  // Without a function: what a call of it is made of.
  const detail::LoweredImpl& lowered() const { return detail::lowered_of(*impl); }
};

Lowered lower(const Cached& cached, nb::args args, nb::kwargs kwargs) {
  const PythonCall python_call(cached.callee, args, kwargs, true);
  const SourceLocation where = user_line();
  // Static arguments are no part of the tree.
  nb::list positional;
  nb::dict named;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!cached.callee.is_static(i)) positional.append(args[i]);
  }
  for (const auto& [name, value] : kwargs) {
    if (!cached.callee.is_static(nb::cast<std::string>(name))) named[name] = value;
  }
  std::vector<nb::object> leaves;
  PyTree arguments = PyTree::flatten(nb::make_tuple(nb::tuple(positional), named), leaves);
  const auto held = cached.cache();
  auto impl = unlocked([&] {
    const detail::CallArguments flat = python_call.flatten();
    return std::visit(
        [&](const auto& cache) { return detail::lower_cached(cache, flat, python_call.function(), where); }, held);
  });
  return {std::move(impl), std::move(arguments), cached.callee.name};
}

nb::object structure(const std::any& exemplar) {
  return nb::cast(*std::any_cast<const std::shared_ptr<const PyTree>&>(exemplar));
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
  const auto held = cached.cache();
  const std::vector<Array> types = unlocked([&] {
    const detail::CallArguments flat = python_call.flatten();
    return std::visit(
        [&](const auto& cache) { return detail::eval_cached(cache, flat, python_call.function(), exemplar, where); },
        held);
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

// A function that is stored and called by others. Its trees are those of the package (export.py).
struct ExportedFunction {
  std::shared_ptr<const detail::ExportedImpl> impl;
  const detail::ExportedFacts& facts() const { return detail::facts_of(*impl); }

  std::vector<Array> call(nb::handle leaves) const {
    detail::CallArguments arguments{.leaves = {}, .tree = facts().in_tree};
    const std::vector<std::string> paths = arguments.tree.leaf_paths();
    for (nb::handle leaf : leaves) {
      arguments.leaves.push_back(
          to_array(leaf, fmt::format("{}: argument {}", facts().name, paths.at(arguments.leaves.size()))));
    }
    const SourceLocation where = user_line();
    std::any exemplar;
    return unlocked([&] { return detail::call_exported(*impl, arguments, exemplar, where); });
  }
};

// Shape, dtype, whether it is weakly typed, and how Explicit axes split it, if any do.
nb::list type_list(const std::vector<Array>& types) {
  nb::list list;
  for (const Array& array : types) {
    const Type& type = detail::impl_of(array).type;
    const nb::object split = type.explicit_axes ? to_object(type_sharding(array)) : nb::none();
    list.append(nb::make_tuple(to_tuple(type.shape), dtype_object(type.dtype), type.weak, split));
  }
  return list;
}

nb::list sharding_list(const std::vector<std::optional<Sharding>>& shardings) {
  nb::list list;
  for (const std::optional<Sharding>& sharding : shardings) list.append(sharding ? to_object(*sharding) : nb::none());
  return list;
}

// What a traced, a lowered and a compiled function tell of their arguments.
template <class T>
void bind_arguments(nb::class_<T>& c) {
  c.def_prop_ro("_in_types", [](const T& f) {
     nb::list types;
     for (const auto& [type, donated] : detail::lowered_arguments(f.lowered(), user_line())) {
       types.append(nb::make_tuple(ShapeDtypeStruct::like(type), donated));
     }
     return types;
   }).def_prop_ro("donate_argnums", [](const T& f) {
    nb::list numbers;
    std::size_t i = 0;
    for (const auto& [type, donated] : detail::lowered_arguments(f.lowered(), user_line())) {
      if (donated) numbers.append(i);
      ++i;
    }
    return nb::tuple(numbers);
  });
}

nb::object lowered_info(const detail::LoweredImpl& lowered) {
  std::any exemplar;
  const std::vector<Array> types = detail::lowered_out_info(lowered, exemplar);
  return types_object(exemplar, types);
}
nb::object lowered_structure(const detail::LoweredImpl& lowered) {
  std::any exemplar;
  static_cast<void>(detail::lowered_out_info(lowered, exemplar));
  return structure(exemplar);
}

std::size_t cache_size(const Cached& cached) {
  if (cached.per_mesh == nullptr) {
    return std::visit([](const auto& cache) { return detail::program_count(*cache); }, cached.fixed);
  }
  std::size_t size = 0;
  for (const auto& [mesh, cache] : cached.per_mesh->caches) size += detail::program_count(*cache);
  return size;
}
void clear_cache(Cached& cached) {
  if (cached.per_mesh == nullptr) {
    std::visit([](const auto& cache) { unlocked([&] { detail::give_up_programs(*cache); }); }, cached.fixed);
  } else {
    cached.per_mesh->caches.clear();
  }
}

Callee callee_of(nb::object function, std::string name, std::vector<std::int64_t> argnums,
                 std::vector<std::string> argnames) {
  return {std::move(function), std::move(name), std::move(argnums), std::move(argnames)};
}

// There are none: what XLA's choose does not exist here, or is decided by the library.
void check_compiler_options(nb::handle options, std::string_view function) {
  if (options.is_none()) return;
  if (!PyDict_Check(options.ptr())) {
    type_error(fmt::format("{}: compiler_options must be a dict or None, got {}", function, type_text(options)));
  }
  if (PyDict_Size(options.ptr()) == 0) return;
  runtime_error(fmt::format("{}: no such compiler_options: {}; there are none, so that only {{}} and None are allowed",
                            function, nb::cast<std::string>(nb::repr(options))));
}

}  // namespace

void bind_jit(nb::module_& m) {
  nb::class_<ShapeDtypeStruct>(m, "ShapeDtypeStruct", "What is known of an array that does not exist.")
      .def(
          "__init__",
          [](ShapeDtypeStruct* self, nb::handle shape, nb::handle dtype_object, nb::handle where, Flag weak) {
            if (dtype_object.is_none()) value_error("ShapeDtypeStruct: dtype must be specified.");
            new (self) ShapeDtypeStruct{.shape = dims(shape, "ShapeDtypeStruct: shape"),
                                        .dtype = dtype(dtype_object),
                                        .sharding = maybe_sharding(where, "ShapeDtypeStruct: sharding"),
                                        .weak_type = weak};
          },
          "shape"_a, "dtype"_a.none(), nb::kw_only(), "sharding"_a = nb::none(), "weak_type"_a = false)
      .def(
          "update",
          [](nb::object self, nb::kwargs changes) {
            nb::dict fields;
            for (const char* name : {"shape", "dtype", "sharding", "weak_type"}) fields[name] = self.attr(name);
            for (const auto& [name, value] : changes) fields[name] = value;
            return self.type()(**fields);
          },
          "kwargs"_a, "The same with some of shape, dtype, sharding and weak_type changed.")
      .def_prop_ro("shape", [](const ShapeDtypeStruct& s) { return to_tuple(s.shape); })
      .def_prop_ro("dtype", [](const ShapeDtypeStruct& s) { return dtype_object(s.dtype); })
      .def_prop_ro("ndim", [](const ShapeDtypeStruct& s) { return s.shape.size(); })
      .def_prop_ro("size", [](const ShapeDtypeStruct& s) { return num_elements(s.shape); })
      .def_ro("weak_type", &ShapeDtypeStruct::weak_type)
      .def_prop_ro("sharding",
                   [](const ShapeDtypeStruct& s) { return s.sharding ? to_object(*s.sharding) : nb::none(); })
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
      .def(
          "trace",
          [](const Cached& cached, nb::args args, nb::kwargs kwargs) { return Traced{lower(cached, args, kwargs)}; },
          "args"_a, "kwargs"_a, "The function traced for arguments like these.")
      .def("eval_shape", &eval_shape, "args"_a, "kwargs"_a, "The types of its results for arguments like these.")
      .def_prop_ro("_is_pmap", [](const Cached& cached) { return std::holds_alternative<PmapCachePtr>(cached.fixed); })
      .def("_cache_size", &cache_size, "For how many kinds of arguments it has been compiled.")
      .def("clear_cache", &clear_cache, "Gives up the programs that calls have compiled.");

  m.def(
      "_set_leak_check",
      [](nb::object check) {
        PyObject* const before = std::exchange(leak_check, check.is_none() ? nullptr : check.release().ptr());
        Py_XDECREF(before);
      },
      "check"_a.none());
  m.def("_disable_jit", [](bool disable) { is_disabled = disable; });
  m.def(
      "_jit",
      [](nb::object function, std::string name, nb::handle in_shardings, nb::handle out_shardings,
         std::vector<std::int64_t> static_argnums, std::vector<std::string> static_argnames,
         std::vector<int> donate_argnums, std::vector<std::string> donate_argnames, nb::handle compiler_options,
         nb::handle memory_budget) {
        check_compiler_options(compiler_options, name);
        JitOptions options{.donate_argnums = std::move(donate_argnums),
                           .donate_argnames = std::move(donate_argnames),
                           .name = name,
                           .memory_budget = maybe_integer(memory_budget, "jit: memory_budget")};
        Cached made{callee_of(std::move(function), name, std::move(static_argnums), std::move(static_argnames)),
                    JitCachePtr()};
        made.may_be_disabled = true;
        if (has_bare_specs(in_shardings) || has_bare_specs(out_shardings)) {
          made.per_mesh = std::make_shared<PerMesh>(
              PerMesh{nb::borrow(in_shardings), nb::borrow(out_shardings), std::move(options), user_line()});
        } else {
          options.in_shardings = sharding_tree(in_shardings, name + ": in_shardings");
          options.out_shardings = sharding_tree(out_shardings, name + ": out_shardings");
          made.fixed = detail::make_jit_cache(options, user_line());
        }
        return made;
      },
      "function"_a, "name"_a, "in_shardings"_a.none(), "out_shardings"_a.none(), "static_argnums"_a,
      "static_argnames"_a, "donate_argnums"_a, "donate_argnames"_a = std::vector<std::string>(),
      "compiler_options"_a = nb::none(), "memory_budget"_a = nb::none());

  m.def(
      "_pmap",
      [](nb::object function, std::string name, std::string axis_name, nb::handle in_axes, nb::handle out_axes,
         std::vector<std::int64_t> static_argnums, nb::handle axis_size, nb::handle devices,
         std::vector<int> donate_argnums) {
        PmapOptions options{.axis_name = std::move(axis_name),
                            .in_axes = axis_tree(in_axes, "pmap: in_axes"),
                            .out_axes = axis_tree(out_axes, "pmap: out_axes"),
                            .axis_size = maybe_integer(axis_size, "pmap: axis_size"),
                            .donate_argnums = std::move(donate_argnums)};
        if (!devices.is_none()) options.devices = device_list(devices, "pmap: devices");
        return Cached{callee_of(std::move(function), std::move(name), std::move(static_argnums), {}),
                      detail::make_pmap_cache(options, user_line())};
      },
      "function"_a, "name"_a, "axis_name"_a, "in_axes"_a.none(), "out_axes"_a.none(), "static_argnums"_a,
      "axis_size"_a.none(), "devices"_a.none(), "donate_argnums"_a);
  m.def(
      "clear_caches", [] { unlocked(&shoal::clear_caches); },
      "Gives up all programs that calls have compiled: the next calls trace and compile again.");

  nb::class_<Traced> traced(m, "Traced", "A function whose operations are known, for arguments of one kind.");
  bind_arguments(traced);
  traced
      .def(
          "lower",
          [](const Traced& traced, nb::handle platforms) {
            if (!platforms.is_none()) {
              for (nb::handle platform : platforms) check_backend(platform);
            }
            return traced.function;
          },
          nb::kw_only(), "lowering_platforms"_a = nb::none(), "What can be compiled.")
      .def_prop_ro("fun_name", [](const Traced& traced) { return traced.function.name; })
      .def_prop_ro("_eqns",
                   [](const Traced& traced) {
                     nb::list eqns;
                     for (const Eqn& eqn : traced.lowered().traced->graph.eqns) {
                       eqns.append(nb::make_tuple(std::string(eqn.op->name), to_string(eqn.where)));
                     }
                     return eqns;
                   })
      .def_prop_ro("in_tree", [](const Traced& traced) { return traced.function.arguments; })
      .def_prop_ro("out_tree", [](const Traced& traced) { return lowered_structure(traced.lowered()); })
      .def_prop_ro("out_info", [](const Traced& traced) { return lowered_info(traced.lowered()); })
      .def("__str__", [](const Traced& traced) { return detail::lowered_text(traced.lowered()); });

  nb::class_<ExportedFunction>(m, "_ExportedFunction", "A function that is stored and called by others.")
      .def("call", &ExportedFunction::call, "leaves"_a)
      .def(
          "serialize",
          [](const ExportedFunction& exported, const nb::bytes& note) {
            const std::string bytes =
                detail::serialize_exported(*exported.impl, {note.c_str(), note.size()}, user_line());
            return nb::bytes(bytes.data(), bytes.size());
          },
          "note"_a)
      .def_prop_ro("name", [](const ExportedFunction& exported) { return exported.facts().name; })
      .def_prop_ro("note",
                   [](const ExportedFunction& exported) {
                     const std::string& note = exported.facts().note;
                     return nb::bytes(note.data(), note.size());
                   })
      .def_prop_ro("num_devices", [](const ExportedFunction& exported) { return exported.facts().num_devices; })
      .def_prop_ro("has_rules", [](const ExportedFunction& exported) { return exported.facts().has_rules; })
      .def_prop_ro("in_types", [](const ExportedFunction& exported) { return type_list(exported.facts().in_types); })
      .def_prop_ro("out_types", [](const ExportedFunction& exported) { return type_list(exported.facts().out_types); })
      .def_prop_ro("in_shardings",
                   [](const ExportedFunction& exported) { return sharding_list(exported.facts().in_shardings); })
      .def_prop_ro("out_shardings",
                   [](const ExportedFunction& exported) { return sharding_list(exported.facts().out_shardings); })
      .def("__str__", [](const ExportedFunction& exported) { return detail::exported_text(*exported.impl); });
  m.def(
      "_export",
      [](const Traced& traced) {
        const SourceLocation where = user_line();
        return ExportedFunction{unlocked([&] { return detail::export_lowered(traced.lowered(), where); })};
      },
      "traced"_a);
  m.def(
      "_load_exported",
      [](const nb::bytes& bytes) {
        const std::string_view view(bytes.c_str(), bytes.size());
        const SourceLocation where = user_line();
        return ExportedFunction{unlocked([&] { return detail::load_exported(view, where); })};
      },
      "bytes"_a);

  nb::class_<Lowered> lowered(m, "Lowered", "A traced function, ready to be compiled.");
  bind_arguments(lowered);
  lowered
      .def(
          "as_text",
          [](const Lowered& lowered, nb::handle dialect, Flag debug_info) {
            static_cast<void>(dialect);
            static_cast<void>(debug_info);
            return detail::lowered_text(*lowered.impl);
          },
          "dialect"_a = nb::none(), nb::kw_only(), "debug_info"_a = false, "The traced graph.")
      .def(
          "compile",
          [](const Lowered& lowered, nb::handle compiler_options, nb::handle devices) {
            check_compiler_options(compiler_options, "compile");
            const SourceLocation where = user_line();
            std::vector<Device> list;
            if (!devices.is_none()) list = device_list(devices, "compile: device_assignment");
            return Compiled{unlocked([&] { return detail::compile_lowered(*lowered.impl, std::move(list), where); }),
                            lowered.arguments, lowered.name, callee_of({}, lowered.name, {}, {})};
          },
          "compiler_options"_a = nb::none(), nb::kw_only(), "device_assignment"_a = nb::none(),
          "The program for the devices that the arguments' shardings name, or for these.")
      .def_prop_ro("in_tree", [](const Lowered& lowered) { return lowered.arguments; })
      .def_prop_ro("out_info", [](const Lowered& lowered) { return lowered_info(*lowered.impl); })
      .def_prop_ro("out_tree", [](const Lowered& lowered) { return lowered_structure(*lowered.impl); })
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

  nb::class_<Compiled> compiled(m, "Compiled", "A compiled program for arguments of one kind.");
  bind_arguments(compiled);
  compiled.def("__call__", &call_compiled)
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
      .def(
          "explain_memory", [](const Compiled& c) { return detail::explain_memory_of(*c.impl); },
          "What a run takes of memory: each value that is held when most is, who needs it next, and the outputs.")
      .def("memory_analysis", [](const Compiled& c) { return detail::compiled_memory(*c.impl); })
      .def_prop_ro("input_shardings", [](const Compiled& c) { return shardings_object(c, true); })
      .def_prop_ro("output_shardings", [](const Compiled& c) { return shardings_object(c, false); })
      .def_prop_ro("in_tree", [](const Compiled& c) { return c.arguments; })
      .def_prop_ro("out_tree",
                   [](const Compiled& c) {
                     std::any exemplar;
                     static_cast<void>(detail::compiled_out_info(*c.impl, exemplar));
                     return structure(exemplar);
                   })
      .def_prop_ro("out_info", [](const Compiled& c) {
        std::any exemplar;
        const std::vector<Array> types = detail::compiled_out_info(*c.impl, exemplar);
        return types_object(exemplar, types);
      });
}

}  // namespace shoal::python
