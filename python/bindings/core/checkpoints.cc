#include "bindings/core/checkpoints.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings/core/call.h"
#include "bindings/core/interruptible.h"
#include "shoal/checkpoints.h"

namespace shoal::python {
namespace {

// Waits for its thread without the GIL, which functions of Python need that make the arrays it writes.
struct HeldManager {
  std::shared_ptr<checkpoints::Manager> manager;  // A wait that Ctrl-C has ended has it, too.

  explicit HeldManager(std::shared_ptr<checkpoints::Manager> made) : manager(std::move(made)) {}
  HeldManager(const HeldManager&) = delete;
  HeldManager& operator=(const HeldManager&) = delete;
  ~HeldManager() {
    const nb::gil_scoped_release release;
    manager.reset();
  }
};

// A leaf that is no array yet, unless that would take some of its bits.
LeafMaker exact_leaf(std::string_view function) {
  return [function](nb::handle leaf, const TreeDef& tree, std::size_t number) {
    if (nb::hasattr(leaf, "dtype")) {
      const nb::object given = leaf.attr("dtype");
      const Dtype kept = dtype(given);
      if (nb::cast<std::size_t>(given.attr("itemsize")) != size_of(kept)) {
        type_error(
            fmt::format("{}: the leaf {} is an array of NumPy of {}, of which {} would be kept: convert it, or turn on "
                        "jax_enable_x64",
                        function, tree.leaf_paths()[number], nb::cast<std::string>(nb::str(given)), name_of(kept)));
      }
    }
    return to_array(leaf, function);
  };
}

// A tree of arrays under the names of its parts.
ArrayTree saved_tree(nb::handle tree, std::string_view function) {
  ArrayTree given = array_tree(tree, function, exact_leaf(function));
  given.def = named_def(tree, given.tree);
  return given;
}

// A tree of arrays, and of types that stand for them.
ArrayTree tree_like(nb::handle like, std::string_view function) {
  ArrayTree result;
  std::vector<nb::object> leaves;
  result.tree = PyTree::flatten(like, leaves);
  result.def = named_def(like, result.tree);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (const Array* array = array_of(leaves[i])) {
      result.leaves.push_back(*array);
    } else if (nb::isinstance<ShapeDtypeStruct>(leaves[i])) {
      result.leaves.emplace_back(nb::cast<ShapeDtypeStruct>(leaves[i]), user_line());
    } else if (is_array_like(leaves[i])) {
      result.leaves.push_back(exact_leaf(function)(leaves[i], result.def, i));
    } else {
      type_error(fmt::format("{}: a leaf{}{} must be an array, a number or a ShapeDtypeStruct, got {}", function,
                             result.tree.is_leaf() ? "" : " at ", result.def.leaf_paths()[i], type_text(leaves[i])));
    }
  }
  return result;
}

nb::tuple info_of(const checkpoints::StoredArrayInfo& array) {
  return nb::make_tuple(array.path, dtype_object(array.dtype), to_tuple(array.shape), array.bytes, array.sharding,
                        array.boxes);
}

std::vector<nb::object> infos_of(const std::vector<checkpoints::StoredArrayInfo>& arrays) {
  std::vector<nb::object> infos;
  for (const checkpoints::StoredArrayInfo& array : arrays) infos.push_back(info_of(array));
  return infos;
}

}  // namespace

void bind_checkpoints(nb::module_& m) {
  using checkpoints::Manager;
  using checkpoints::RestoreOptions;
  nb::class_<HeldManager>(m, "_CheckpointManager")
      .def(
          "__init__",
          [](HeldManager* self, const std::string& directory, std::optional<std::int64_t> keep_last, bool skips,
             bool overwrite, double timeout) {
            const checkpoints::ManagerOptions options{
                .keep_last = keep_last,
                .when_busy = skips ? checkpoints::WhenBusy::kSkip : checkpoints::WhenBusy::kWait,
                .overwrite = overwrite,
                .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000))};
            new (self) HeldManager(std::make_shared<Manager>(directory, options, user_line()));
          },
          "directory"_a, "keep_last"_a.none(), "skips"_a, "overwrite"_a, "timeout"_a)
      .def(
          "save",
          [](HeldManager& self, std::int64_t step, nb::handle tree, const std::string& metadata) {
            ArrayTree given = saved_tree(tree, "checkpoints.Manager.save");
            const SourceLocation where = user_line();
            return unlocked([&] {
              return self.manager->save_leaves(step, std::move(given.leaves), std::move(given.def),
                                               {.metadata = metadata}, where);
            });
          },
          "step"_a, "tree"_a.none(), "metadata"_a)
      .def(
          "restore",
          [](HeldManager& self, nb::handle like, std::optional<std::int64_t> step, bool partial) {
            const ArrayTree given = tree_like(like, "checkpoints.Manager.restore");
            const SourceLocation where = user_line();
            return tree_object(given.tree, unlocked([&] {
                                 return self.manager->restore_leaves(given.leaves, given.def,
                                                                     {.step = step, .partial = partial}, where);
                               }));
          },
          "like"_a.none(), "step"_a.none(), "partial"_a)
      .def("all_steps",
           [](HeldManager& self) {
             const SourceLocation where = user_line();
             return unlocked([&] { return self.manager->all_steps(where); });
           })
      .def("latest_step",
           [](HeldManager& self) {
             const SourceLocation where = user_line();
             return unlocked([&] { return self.manager->latest_step(where); });
           })
      .def(
          "metadata",
          [](HeldManager& self, std::optional<std::int64_t> step) {
            const SourceLocation where = user_line();
            return unlocked([&] { return self.manager->metadata(step, where); });
          },
          "step"_a.none())
      .def("wait", [](HeldManager& self) {
        const SourceLocation where = user_line();
        interruptible([manager = self.manager, where] { manager->wait(where); });
      });
  m.def(
      "_checkpoint_save",
      [](const std::string& directory, std::int64_t step, nb::handle tree, const std::string& metadata) {
        ArrayTree given = saved_tree(tree, "checkpoints.save");
        const SourceLocation where = user_line();
        unlocked([&] {
          checkpoints::detail::save_leaves(directory, step, std::move(given.leaves), std::move(given.def),
                                           {.metadata = metadata}, where);
        });
      },
      "directory"_a, "step"_a, "tree"_a.none(), "metadata"_a);
  m.def(
      "_checkpoint_restore",
      [](const std::string& directory, nb::handle like, std::optional<std::int64_t> step, bool partial) {
        const ArrayTree given = tree_like(like, "checkpoints.restore");
        const SourceLocation where = user_line();
        return tree_object(given.tree, unlocked([&] {
                             return checkpoints::detail::restore_leaves(directory, given.leaves, given.def,
                                                                        {.step = step, .partial = partial}, where);
                           }));
      },
      "directory"_a, "like"_a.none(), "step"_a.none(), "partial"_a);
  m.def(
      "_checkpoint_steps", [](const std::string& directory) { return checkpoints::steps(directory, user_line()); },
      "directory"_a);
  m.def(
      "_checkpoint_describe",
      [](const std::string& directory, std::optional<std::int64_t> step) {
        const checkpoints::CheckpointInfo info = checkpoints::describe(directory, step, user_line());
        return nb::make_tuple(info.folder.string(), info.step, info.metadata, info.processes, info.bytes,
                              infos_of(info.arrays));
      },
      "directory"_a, "step"_a.none());
  m.def(
      "_checkpoint_verify",
      [](const std::string& directory, std::optional<std::int64_t> step) {
        const SourceLocation where = user_line();
        unlocked([&] { checkpoints::verify(directory, step, where); });
      },
      "directory"_a, "step"_a.none());
  m.def(
      "_checkpoint_export",
      [](const std::string& directory, const std::string& file, std::optional<std::int64_t> step, nb::handle name) {
        checkpoints::ExportOptions options{.step = step, .name = {}};
        if (!name.is_none()) {
          options.name = [held = Held(name)](const std::string& path) {
            const nb::gil_scoped_acquire gil;
            return nb::cast<std::string>(held.get()(path));
          };
        }
        const SourceLocation where = user_line();
        unlocked([&] { checkpoints::export_safetensors(directory, file, options, where); });
      },
      "directory"_a, "file"_a, "step"_a.none(), "name"_a.none());
  m.def(
      "_save_safetensors",
      [](const std::string& file, const std::map<std::string, nb::object>& arrays,
         const std::map<std::string, std::string>& metadata) {
        std::map<std::string, Array> given;
        for (const auto& [name, array] : arrays) {
          const ArrayTree leaf =
              array_tree(array, "checkpoints.save_safetensors", exact_leaf("checkpoints.save_safetensors"));
          if (!leaf.tree.is_leaf()) type_error("checkpoints.save_safetensors: needs a dict of arrays");
          given[name] = leaf.leaves[0];
        }
        const SourceLocation where = user_line();
        unlocked([&] { checkpoints::save_safetensors(file, given, metadata, where); });
      },
      "file"_a, "arrays"_a, "metadata"_a);
  m.def(
      "_describe_safetensors",
      [](const std::string& path) { return infos_of(checkpoints::describe_safetensors(path, user_line())); }, "path"_a);
  m.def(
      "_load_safetensors",
      [](const std::string& path, nb::handle like, const std::map<std::string, std::string>& names, bool partial) {
        const SourceLocation where = user_line();
        if (like.is_none()) {
          nb::dict arrays;
          for (auto& [name, array] : unlocked([&] { return checkpoints::load_safetensors(path, where); })) {
            arrays[name.c_str()] = nb::cast(array);
          }
          return nb::object(std::move(arrays));
        }
        const ArrayTree given = tree_like(like, "checkpoints.load_safetensors");
        return tree_object(given.tree, unlocked([&] {
                             return checkpoints::detail::load_leaves(path, given.leaves, given.def,
                                                                     {.names = names, .partial = partial}, where);
                           }));
      },
      "path"_a, "like"_a.none(), "names"_a, "partial"_a);
  m.def("_dotted_name", &checkpoints::dotted_name, "path"_a);
}

}  // namespace shoal::python
