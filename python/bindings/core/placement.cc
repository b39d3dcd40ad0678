// Where arrays lie: device_put and its kin, constraints, and arrays made of parts.
#include <fmt/format.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/vector.h>

#include "base/caller.h"
#include "bindings/core/call.h"
#include "bindings/core/memory.h"
#include "frontend/array/default_put.h"
#include "frontend/array/tree_prefix.h"
#include "runtime/lane.h"
#include "runtime/transfer_guard.h"
#include "shoal/explicit_axes.h"

namespace shoal::python {
namespace {

// Whether devices shall hold summands.
bool is_summed(const std::optional<Sharding>& sharding) {
  return sharding && sharding->named() != nullptr && !sharding->named()->spec().unreduced().empty();
}

// The tree with all arrays moved. Elements of NumPy come to where they shall lie at once, so that they are copied no
// more than once, and before this returns.
nb::object put_tree(nb::handle x, const std::optional<ShardingTree>& shardings, const Prefix<bool>& donated,
                    const Prefix<std::optional<bool>>& may_alias) {
  const SourceLocation where = user_line();
  std::vector<bool> donates;
  std::vector<std::optional<bool>> aliases;
  std::optional<std::vector<std::optional<Sharding>>> wanted;
  const auto find_wanted = [&](const TreeDef& tree) {
    if (wanted) return;
    const Caller caller("device_put", where);
    wanted = shardings ? apply_prefix(*shardings, tree, "the sharding")
                       : std::vector<std::optional<Sharding>>(tree.num_leaves());
    donates = apply_prefix(donated, tree, "donate");
    aliases = apply_prefix(may_alias, tree, "may_alias");
  };
  std::vector<std::size_t> placed;
  const ArrayTree given = array_tree(x, "device_put", [&](nb::handle leaf, const TreeDef& tree, std::size_t number) {
    find_wanted(tree);
    if (!is_of_numpy(leaf)) return to_array(leaf, "device_put");
    std::optional<Sharding>& sharding = (*wanted)[number];
    if (sharding && nb::hasattr(leaf, "shape")) {
      const std::string what = "device_put: argument 0" + tree.leaf_paths()[number];
      sharding->check_compatible(dims(nb::object(leaf.attr("shape")), what), what, where);
    }
    const std::optional<bool> alias = aliases[number];
    const Sharing sharing = !alias ? Sharing::kAligned : *alias ? Sharing::kAlways : Sharing::kNever;
    if (is_summed(sharding)) return from_numpy(leaf, "device_put", where, sharing);
    placed.push_back(number);
    return from_numpy(leaf, "device_put", where, sharing, std::exchange(sharding, std::nullopt));
  });
  find_wanted(given.def);
  // Summands are made, and added up, by reshard.
  std::vector<Array> leaves = given.leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    std::optional<Sharding>& sharding = (*wanted)[i];
    if (!sharding || sharding->named() == nullptr) continue;
    if (!is_summed(sharding) && type_sharding(leaves[i]).spec().unreduced().empty()) continue;
    leaves[i] = unlocked([&] { return reshard(Operand(leaves[i], where), *sharding->named()); });
    sharding.reset();
  }
  // What is given away is so when all the rest has moved.
  std::vector<Array> moved = std::move(leaves);
  for (const bool donate : {false, true}) {
    for (const bool alias : {false, true}) {
      const DevicePutOptions options{.donate = donate, .may_alias = alias};
      std::vector<std::optional<Sharding>> to(moved.size());
      for (std::size_t i = 0; i < moved.size(); ++i) {
        if (donates[i] == donate && aliases[i].value_or(true) == alias) to[i] = (*wanted)[i];
      }
      if (std::ranges::none_of(to, [](const auto& one) { return one.has_value(); })) continue;
      moved = unlocked([&] { return detail::put_leaves(moved, given.def, to, options, where); });
    }
  }
  if (shardings) return tree_object(given.tree, moved);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (moved[i].is_tracer() || moved[i].committed() || std::ranges::binary_search(placed, i)) continue;
    moved[i] = unlocked([&] { return device_put(Operand(moved[i], where)); });
  }
  return tree_object(given.tree, moved);
}

// The tree with all arrays in a memory of the devices where they lie.
nb::object put_in_memory(nb::handle x, const MemoryKind& memory) {
  const ExplicitTransfers asked;
  const ArrayTree given = array_tree(x, "device_put");
  const SourceLocation where = user_line();
  std::vector<Array> moved;
  for (const Array& leaf : given.leaves) {
    moved.push_back(unlocked([&] { return detail::put_in_memory({leaf, where}, memory); }));
  }
  return tree_object(given.tree, moved);
}

}  // namespace

void bind_placement(nb::module_& m) {
  m.def(
      "device_put",
      [](nb::handle x, nb::handle device, nb::handle src, nb::handle donate, nb::handle may_alias) {
        static_cast<void>(src);
        const auto is_flag = [](nb::handle leaf) { return leaf.is_none() || PyBool_Check(leaf.ptr()); };
        const auto flag = [](nb::handle leaf) { return PyObject_IsTrue(leaf.ptr()) != 0; };
        const auto donates = prefix_of<bool>(donate, is_flag, flag);
        const auto aliases = prefix_of<std::optional<bool>>(
            may_alias, is_flag, [&](nb::handle leaf) { return leaf.is_none() ? std::optional<bool>() : flag(leaf); });
        std::optional<ShardingTree> shardings;
        if (nb::hasattr(device, "_memory_kind")) return put_in_memory(x, memory_kind(device.attr("_memory_kind")));
        if (!device.is_none()) shardings = sharding_tree(device, "device_put: device");
        const ExplicitTransfers asked;
        return put_tree(x, shardings, donates, aliases);
      },
      "x"_a.none(), "device"_a = nb::none(), nb::kw_only(), "src"_a = nb::none(), "donate"_a = false,
      "may_alias"_a = nb::none(),
      "The tree with all arrays moved to a device or sharding, or to a tree of them. donate and may_alias are flags "
      "for all, or trees of these.");
  m.def(
      "device_get",
      [](nb::handle x) {
        const ExplicitTransfers asked;
        std::vector<nb::object> leaves;
        const PyTree tree = PyTree::flatten(x, leaves);
        std::vector<nb::object> fetched;
        for (const nb::object& leaf : leaves) {
          const Array* const array = array_of(leaf);
          const bool is_numbers = array != nullptr && !is_key(array->dtype());
          fetched.push_back(is_numbers ? nb::object(leaf.attr("__array__")()) : leaf);
        }
        return tree.unflatten(fetched);
      },
      "x"_a.none(), "The tree with each array as one of NumPy; keys stay what they are.");
  m.def(
      "block_until_ready",
      [](nb::handle x) {
        std::vector<nb::object> leaves;
        PyTree::flatten(x, leaves);
        for (const nb::object& leaf : leaves) {
          if (const Array* array = array_of(leaf)) wait_for(*array);
        }
        return nb::borrow(x);
      },
      "x"_a.none(), "The tree, when all its arrays are there.");
  m.def(
      "with_sharding_constraint",
      [](nb::handle x, nb::handle shardings) {
        const ArrayTree given = array_tree(x, "with_sharding_constraint");
        const SourceLocation where = user_line();
        const ShardingTree wanted = sharding_tree(shardings, "with_sharding_constraint: shardings");
        return tree_object(given.tree,
                           unlocked([&] { return detail::constrain_leaves(given.leaves, given.def, wanted, where); }));
      },
      "x"_a.none(), "shardings"_a.none(), "The tree, whose arrays shall lie as these shardings say.");
  m.def(
      "reshard",
      [](nb::handle x, nb::handle where_to) {
        const ArrayTree given = array_tree(x, "reshard");
        const SourceLocation where = user_line();
        std::vector<Array> moved;
        const Sharding wanted = sharding(where_to, "reshard: out_shardings");
        if (wanted.named() == nullptr) type_error("reshard: out_shardings must be a NamedSharding or a PartitionSpec");
        for (const Array& leaf : given.leaves) {
          moved.push_back(unlocked([&] { return reshard(Operand(leaf, where), *wanted.named()); }));
        }
        return tree_object(given.tree, moved);
      },
      "xs"_a.none(), "out_shardings"_a, "The tree split as the sharding says, along Explicit axes too.");
  m.def(
      "shard_alike",
      [](nb::handle x, nb::handle y) {
        const ArrayTree first = array_tree(x, "shard_alike");
        const ArrayTree second = array_tree(y, "shard_alike");
        const auto alike = detail::alike_leaves({first.leaves, second.leaves}, {first.def, second.def}, user_line());
        return nb::make_tuple(tree_object(first.tree, alike[0]), tree_object(second.tree, alike[1]));
      },
      "x"_a.none(), "y"_a.none(), "Both trees, arrays of which shall lie as their partners.");

  m.def(
      "make_array_from_callback",
      [](nb::handle shape, nb::handle sharding_object, nb::callable data, nb::handle dtype_object) {
        const SourceLocation where = user_line();
        const auto part = [&](const ShardIndex& index) {
          nb::gil_scoped_acquire gil;
          const nb::object made = data(to_object(index));
          return array_of_any(made, std::nullopt, Sharing::kAligned);
        };
        const MakeArrayOptions options{.dtype = maybe_dtype(dtype_object)};
        const Sharding wanted = sharding(sharding_object, "make_array_from_callback: sharding");
        const Shape whole = dims(shape, "make_array_from_callback: shape");
        return unlocked([&] { return make_array_from_callback(whole, wanted, part, options, where); });
      },
      "shape"_a, "sharding"_a, "data_callback"_a, "dtype"_a = nb::none(),
      "An array whose shards are what the callback returns for their indices.");
  m.def(
      "make_array_from_single_device_arrays",
      [](nb::handle shape, nb::handle sharding_object, nb::handle list, nb::handle dtype_object) {
        const SourceLocation where = user_line();
        if (!PyList_Check(list.ptr()) && !PyTuple_Check(list.ptr())) {
          type_error(
              fmt::format("make_array_from_single_device_arrays: arrays must be a list or a tuple of arrays, got {}",
                          type_text(list)));
        }
        std::vector<Array> arrays;
        for (nb::handle item : list) {
          const Array* array = array_of(item);
          if (array == nullptr) {
            type_error(
                fmt::format("make_array_from_single_device_arrays: arrays[{}] must be an array that lies on a "
                            "device, got {}; put it there by device_put",
                            arrays.size(), type_text(item)));
          }
          arrays.push_back(*array);
        }
        const MakeArrayOptions options{.dtype = maybe_dtype(dtype_object)};
        const Sharding wanted = sharding(sharding_object, "make_array_from_single_device_arrays: sharding");
        const Shape whole = dims(shape, "make_array_from_single_device_arrays: shape");
        return unlocked([&] { return make_array_from_single_device_arrays(whole, wanted, arrays, options, where); });
      },
      "shape"_a, "sharding"_a, "arrays"_a, nb::kw_only(), "dtype"_a = nb::none(),
      "An array put together from arrays of one device each.");
  m.def(
      "make_array_from_process_local_data",
      [](nb::handle sharding_object, nb::handle data, nb::handle shape) {
        std::optional<Shape> whole;
        if (!shape.is_none()) whole = dims(shape, "make_array_from_process_local_data: global_shape");
        const std::optional<Shape>& global = whole;
        const ShardingTree shardings = sharding_tree(sharding_object, "make_array_from_process_local_data: sharding");
        constexpr std::string_view kName = "make_array_from_process_local_data";
        const ArrayTree given = array_tree(data, kName, [&](nb::handle leaf, const TreeDef&, std::size_t) {
          return is_of_numpy(leaf) ? from_numpy(leaf, kName, user_line(), Sharing::kAligned) : to_array(leaf, kName);
        });
        const SourceLocation where = user_line();
        if (shardings.leaf() == nullptr || !*shardings.leaf()) {
          type_error("make_array_from_process_local_data: sharding must be a Sharding");
        }
        std::vector<Array> made;
        for (const Array& leaf : given.leaves) {
          made.push_back(unlocked(
              [&] { return make_array_from_process_local_data(**shardings.leaf(), Operand(leaf, where), global); }));
        }
        return tree_object(given.tree, made);
      },
      "sharding"_a, "local_data"_a, "global_shape"_a = nb::none(),
      "An array put together from the data that each process has.");
  m.def("_effects_barrier", [] {
    while (!unlocked([] { return Lane::shared().drain_for(std::chrono::milliseconds(100)); })) {
      if (PyErr_CheckSignals() != 0) {
        Lane::give_up_loops();
        throw nb::python_error();
      }
    }
  });
  m.def("_interrupt", [] { Lane::interrupt(); });
}

}  // namespace shoal::python
