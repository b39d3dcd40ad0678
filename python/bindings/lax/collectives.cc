// The collectives of shoal.lax, each of a tree of arrays.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings/core/tree.h"
#include "bindings/lax/lax.h"

namespace shoal::python {
namespace {

AxisName axis_of(nb::handle x, std::string_view function) { return {names(x, fmt::format("{}: axis_name", function))}; }

lax::AxisIndexGroups groups_of(nb::handle x, std::string_view function) {
  lax::AxisIndexGroups groups;
  if (x.is_none()) return groups;
  const std::string what = fmt::format("{}: axis_index_groups", function);
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0) {
    type_error(fmt::format("{} must be a list of lists of positions, got {}", what, type_text(x)));
  }
  for (nb::handle item : x) {
    const Dims group = dim_list(item, what);
    groups.emplace_back(group.begin(), group.end());
  }
  if (groups.empty()) value_error(what + " must have each of the positions exactly once, but it is empty");
  return groups;
}

// f(), in which a dimension that the array does not have is a ValueError, as in jax.lax.
template <class F>
auto on_dimensions(const F& f) {
  try {
    return f();
  } catch (const OutOfRange& e) {
    throw InvalidArgument(e.what());
  }
}

// The tree with f of each of its arrays.
template <class F>
nb::object map_arrays(nb::handle x, std::string_view function, const F& f) {
  const ArrayTree given = array_tree(x, function);
  const SourceLocation where = user_line();
  std::vector<Array> results;
  unlocked([&] {
    for (const Array& leaf : given.leaves) results.push_back(f(Operand(leaf, where)));
  });
  return tree_object(given.tree, results);
}

// Whether a tree is made of Python's numbers alone, none of which is traced.
bool has_only_numbers(const std::vector<nb::object>& leaves) {
  return !leaves.empty() && std::all_of(leaves.begin(), leaves.end(), [](const nb::object& leaf) {
    PyObject* p = leaf.ptr();
    return PyLong_Check(p) || PyFloat_CheckExact(p) || PyComplex_CheckExact(p);
  });
}

// The tree with f(number) at each leaf, if it has only numbers; they stay numbers, as the size of an axis, psum(1,
// axis), has to.
template <class F>
nb::object map_numbers(nb::handle x, const F& f) {
  std::vector<nb::object> leaves;
  const PyTree tree = PyTree::flatten(x, leaves);
  if (!has_only_numbers(leaves)) return {};
  for (nb::object& leaf : leaves) leaf = f(leaf);
  return tree.unflatten(leaves);
}

// The number of devices that reduce together; 0 if groups differ, or if there are no such axes.
std::int64_t team_size(const AxisName& axis, const lax::AxisIndexGroups& groups) {
  if (!groups.empty()) {
    const bool even =
        std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return g.size() == groups[0].size(); });
    return even ? static_cast<std::int64_t>(groups[0].size()) : 0;
  }
  try {
    return lax::axis_size(axis, user_line());
  } catch (const InvalidArgument&) {
    return 0;  // The reduction says what is wrong in its own name.
  }
}

enum class Constant : std::uint8_t { kTimes, kSame, kArray };

using Reduction = Array (*)(const Operand&, const AxisName&, const lax::GroupOptions&);

template <Reduction reduction>
void bind_reduction(nb::module_& m, const char* name, Constant constant, const char* doc) {
  m.def(
      name,
      [name, constant](nb::handle x, nb::handle axis_name, nb::handle axis_index_groups) -> nb::object {
        const AxisName axis = axis_of(axis_name, name);
        if (axis.names().empty()) return nb::borrow(x);
        const lax::GroupOptions options{.axis_index_groups = groups_of(axis_index_groups, name)};
        if (constant != Constant::kArray) {
          if (const std::int64_t size = team_size(axis, options.axis_index_groups); size > 0) {
            nb::object numbers = map_numbers(x, [&](const nb::object& number) {
              if (constant == Constant::kTimes) return number * nb::int_(size);
              return number * nb::int_(size) / nb::int_(size);
            });
            if (numbers.is_valid()) return numbers;
          }
        }
        return map_arrays(x, name, [&](const Operand& leaf) { return reduction(leaf, axis, options); });
      },
      "x"_a.none(), "axis_name"_a, nb::kw_only(), "axis_index_groups"_a = nb::none(), doc);
}

lax::Permutation permutation_of(nb::handle perm) {
  if (!PyList_Check(perm.ptr()) && !PyTuple_Check(perm.ptr())) {
    type_error(fmt::format("ppermute: perm must be a list or a tuple of pairs (source, destination), got {}",
                           type_text(perm)));
  }
  lax::Permutation pairs;
  for (nb::handle item : perm) {
    const Dims pair = dim_list(item, "ppermute: a pair of perm");
    if (pair.size() != 2) {
      value_error(fmt::format("ppermute: perm must consist of pairs (source, destination), got {}", to_string(pair)));
    }
    pairs.emplace_back(pair[0], pair[1]);
  }
  return pairs;
}

nb::object all_gather(const char* name, nb::handle x, nb::handle axis_name, lax::AllGatherOptions options,
                      std::string_view to) {
  const AxisName axis = axis_of(axis_name, name);
  if (axis.names().empty()) return nb::borrow(x);
  return map_arrays(x, name, [&](const Operand& leaf) {
    return on_dimensions([&] {
      if (to == "reduced") return lax::all_gather_reduced(leaf, axis, options);
      return to == "invarying" ? lax::all_gather_invariant(leaf, axis, options) : lax::all_gather(leaf, axis, options);
    });
  });
}

void bind_gathers(nb::module_& m) {
  m.def(
      "all_gather",
      [](nb::handle x, nb::handle axis_name, nb::handle axis_index_groups, nb::handle axis, Flag tiled,
         const std::string& to) {
        if (to != "varying" && to != "invarying" && to != "reduced") {
          value_error(fmt::format("all_gather: to must be 'varying', 'invarying' or 'reduced', got '{}'", to));
        }
        return all_gather("all_gather", x, axis_name,
                          {.axis = integer(axis, "all_gather: axis"),
                           .tiled = tiled,
                           .axis_index_groups = groups_of(axis_index_groups, "all_gather")},
                          to);
      },
      "x"_a.none(), "axis_name"_a, nb::kw_only(), "axis_index_groups"_a = nb::none(), "axis"_a = 0, "tiled"_a = false,
      "to"_a = "varying", "What the devices along the axes hold, together.");
  m.def(
      "all_gather_invariant",
      [](nb::handle x, nb::handle axis_name, nb::handle axis, Flag tiled) {
        return all_gather("all_gather_invariant", x, axis_name,
                          {.axis = integer(axis, "all_gather_invariant: axis"), .tiled = tiled}, "invarying");
      },
      "x"_a.none(), "axis_name"_a, nb::kw_only(), "axis"_a = 0, "tiled"_a = false,
      "What the devices along the axes hold, together, and known to be the same on all of them.");
  m.def(
      "psum_scatter",
      [](nb::handle x, nb::handle axis_name, nb::handle scatter_dimension, nb::handle axis_index_groups, Flag tiled) {
        const AxisName axis = axis_of(axis_name, "psum_scatter");
        const lax::PsumScatterOptions options{
            .scatter_dimension = integer(scatter_dimension, "psum_scatter: scatter_dimension"),
            .tiled = tiled,
            .axis_index_groups = groups_of(axis_index_groups, "psum_scatter")};
        return map_arrays(x, "psum_scatter", [&](const Operand& leaf) {
          return on_dimensions([&] { return lax::psum_scatter(leaf, axis, options); });
        });
      },
      "x"_a.none(), "axis_name"_a, nb::kw_only(), "scatter_dimension"_a = 0, "axis_index_groups"_a = nb::none(),
      "tiled"_a = false, "The device's piece of the sum over the devices along the axes.");
}

void bind_exchanges(nb::module_& m) {
  m.def(
      "all_to_all",
      [](nb::handle x, nb::handle axis_name, nb::handle split_axis, nb::handle concat_axis,
         nb::handle axis_index_groups, Flag tiled) {
        const AxisName axis = axis_of(axis_name, "all_to_all");
        const lax::AllToAllOptions options{.split_axis = integer(split_axis, "all_to_all: split_axis"),
                                           .concat_axis = integer(concat_axis, "all_to_all: concat_axis"),
                                           .tiled = tiled,
                                           .axis_index_groups = groups_of(axis_index_groups, "all_to_all")};
        return map_arrays(x, "all_to_all", [&](const Operand& leaf) {
          return on_dimensions([&] { return lax::all_to_all(leaf, axis, options); });
        });
      },
      "x"_a.none(), "axis_name"_a, "split_axis"_a, "concat_axis"_a, nb::kw_only(), "axis_index_groups"_a = nb::none(),
      "tiled"_a = false,
      "Sends a piece of x, cut along split_axis, to each device, and joins what comes along concat_axis.");
  m.def(
      "ragged_all_to_all",
      [](nb::handle sent, nb::handle output, nb::handle input_offsets, nb::handle send_sizes, nb::handle output_offsets,
         nb::handle recv_sizes, nb::handle axis_name, nb::handle axis_index_groups) {
        const char* name = "ragged_all_to_all";
        const Operand from = operand(sent, name, "operand");
        const Operand to = operand(output, name, "output");
        const lax::RaggedSlices slices{.input_offsets = operand(input_offsets, name, "input_offsets"),
                                       .send_sizes = operand(send_sizes, name, "send_sizes"),
                                       .output_offsets = operand(output_offsets, name, "output_offsets"),
                                       .recv_sizes = operand(recv_sizes, name, "recv_sizes")};
        const AxisName axis = axis_of(axis_name, name);
        const lax::GroupOptions options{.axis_index_groups = groups_of(axis_index_groups, name)};
        return unlocked([&] { return lax::ragged_all_to_all(from, to, slices, axis, options); });
      },
      "operand"_a, "output"_a, "input_offsets"_a, "send_sizes"_a, "output_offsets"_a, "recv_sizes"_a, nb::kw_only(),
      "axis_name"_a, "axis_index_groups"_a = nb::none(),
      "Writes slices of rows of the devices' operands, of any sizes, into the outputs of others.");
  m.def(
      "ppermute",
      [](nb::handle x, nb::handle axis_name, nb::handle perm) {
        const AxisName axis = axis_of(axis_name, "ppermute");
        const lax::Permutation pairs = permutation_of(perm);
        return map_arrays(x, "ppermute", [&](const Operand& leaf) { return lax::ppermute(leaf, axis, pairs); });
      },
      "x"_a.none(), "axis_name"_a, "perm"_a,
      "Sends x from the first to the second device of each pair; zeros where nothing is received.");
  m.def(
      "pshuffle",
      [](nb::handle x, nb::handle axis_name, nb::handle perm) {
        const AxisName axis = axis_of(axis_name, "pshuffle");
        const Dims positions = dim_list(perm, "pshuffle: perm");
        const std::vector<int> sources(positions.begin(), positions.end());
        return map_arrays(x, "pshuffle", [&](const Operand& leaf) { return lax::pshuffle(leaf, axis, sources); });
      },
      "x"_a.none(), "axis_name"_a, "perm"_a, "The x of the device at perm[i], for the device at i.");
  m.def(
      "pswapaxes",
      [](nb::handle x, nb::handle axis_name, nb::handle axis, nb::handle axis_index_groups) {
        const AxisName mapped = axis_of(axis_name, "pswapaxes");
        const std::int64_t dim = integer(axis, "pswapaxes: axis");
        const lax::GroupOptions options{.axis_index_groups = groups_of(axis_index_groups, "pswapaxes")};
        return map_arrays(x, "pswapaxes", [&](const Operand& leaf) {
          return on_dimensions([&] { return lax::pswapaxes(leaf, mapped, dim, options); });
        });
      },
      "x"_a.none(), "axis_name"_a, "axis"_a, nb::kw_only(), "axis_index_groups"_a = nb::none(),
      "A dimension of x and the devices along the axes change places.");
  m.def(
      "pbroadcast",
      [](nb::handle x, nb::handle axis_name, nb::handle source) {
        const AxisName axis = axis_of(axis_name, "pbroadcast");
        const std::int64_t position = integer(source, "pbroadcast: source");
        return map_arrays(x, "pbroadcast", [&](const Operand& leaf) { return lax::pbroadcast(leaf, axis, position); });
      },
      "x"_a.none(), "axis_name"_a, "source"_a, "The x of one device, for all.");
}

}  // namespace

void bind_lax_collectives(nb::module_& m) {
  bind_reduction<&lax::psum>(m, "psum", Constant::kTimes,
                             "The sum over the devices along the axes; n times the number of Python's numbers.");
  bind_reduction<&lax::pmean>(m, "pmean", Constant::kSame, "The mean over the devices along the axes.");
  bind_reduction<&lax::pmax>(m, "pmax", Constant::kArray, "The greatest over the devices along the axes.");
  bind_reduction<&lax::pmin>(m, "pmin", Constant::kArray, "The least over the devices along the axes.");
  bind_gathers(m);
  bind_exchanges(m);
  m.def(
      "axis_index", [](nb::handle axis_name) { return lax::axis_index(axis_of(axis_name, "axis_index"), user_line()); },
      "axis_name"_a, "The device's position along the axes.");
  m.def(
      "axis_size", [](nb::handle axis_name) { return lax::axis_size(axis_of(axis_name, "axis_size"), user_line()); },
      "axis_name"_a, "The number of devices along the axes.");
  m.def(
      "pvary",
      [](nb::handle x, nb::handle axis_name) {
        const AxisName axis = axis_of(axis_name, "pvary");
        if (axis.names().empty()) return nb::borrow(x);
        return map_arrays(x, "pvary", [&](const Operand& leaf) { return lax::pvary(leaf, axis); });
      },
      "x"_a.none(), "axis_name"_a, "The tree, taken to vary over the axes.");
  m.def(
      "pcast",
      [](nb::handle x, nb::handle axis_name, const std::string& to) {
        const AxisName axis = axis_of(axis_name, "pcast");
        if (axis.names().empty()) return nb::borrow(x);
        return map_arrays(x, "pcast", [&](const Operand& leaf) { return lax::pcast(leaf, axis, to); });
      },
      "x"_a.none(), "axis_name"_a, nb::kw_only(), "to"_a,
      "The tree with another type: taken to vary over the axes, or to be summands.");
}

}  // namespace shoal::python
