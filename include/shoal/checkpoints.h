// Checkpoints: trees of arrays in files, from which a job goes on where it stopped, on any mesh and any number of
// processes.
//
//   checkpoints::Manager manager("run", {.keep_last = 3});
//   TrainState state = initial();                                   // Any tree of arrays.
//   if (manager.latest_step()) state = manager.restore(state);      // Lies as `state` lies.
//   for (…) {
//     state = step(state, batch);
//     if (i % 100 == 0) manager.save(i, state);                     // Returns at once; a thread writes.
//   }
//   manager.wait();
//
// A checkpoint is a folder "step_00000100" with one safetensors file per process and an index.json. It gets that name
// only once all processes have written and synced everything, so that a folder with such a name is complete. In a job
// of several processes all of them call these functions in the same order, and the folder is one that all see. Arrays
// on devices of one process alone are assumed to be the same in all processes.
//
// @param directory The directory of the checkpoints.
// @param step The number of the step; the last one if none is given.
// @param tree A tree of arrays.
// @param like A tree of arrays or of types, like the one that was saved: how arrays shall lie.
// @param file The file.
// @param path The file.
// @param leaves The arrays, and their paths.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal::checkpoints {

/// A checkpoint cannot be written (a full disk, a folder that vanished), is not there, or is damaged (Python: OSError).
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// What happens to a save while another one is being written.
enum class WhenBusy : std::uint8_t {
  kWait,  ///< It waits until that is done.
  kSkip,  ///< It is left out.
};

struct ManagerOptions {
  /// How many checkpoints are kept. When one more is complete, those of the lowest steps are removed, but never the one
  /// that was just written. Default: all.
  std::optional<std::int64_t> keep_last = {};
  WhenBusy when_busy = WhenBusy::kWait;  ///< What a save does while another is written.
  /// Whether a save may replace a checkpoint of the same step. The old one stays until the new one is complete.
  bool overwrite = false;
  /// How long processes wait for each other while a checkpoint is written.
  std::chrono::milliseconds timeout = std::chrono::hours(1);
};

struct SaveOptions {
  /// The rest of the state, as JSON: the position in the data, names, plain numbers.
  std::string metadata = "{}";
};

struct RestoreOptions {
  std::optional<std::int64_t> step = {};  ///< Default: the latest.
  /// Whether the tree may lack arrays that the checkpoint has.
  bool partial = false;
};

/// An array of a checkpoint or of a safetensors file.
struct StoredArrayInfo {
  std::string path;  ///< In its tree, as "['layers'][0].w"; in a file of other tools, its name.
  Dtype dtype = float32;
  Shape shape;
  std::int64_t bytes = 0;
  std::string sharding = {};  ///< Its sharding when it was saved, as JSON; empty if that is not known.
  std::int64_t boxes = 0;     ///< The number of parts in which it is stored.
};

struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::string metadata;  ///< JSON.
  std::int64_t processes = 0;
  std::int64_t bytes = 0;  ///< Of all arrays together.
  std::vector<StoredArrayInfo> arrays = {};
};

namespace detail {

std::vector<Array> restore_leaves(const std::filesystem::path& directory, const std::vector<Array>& like,
                                  const TreeDef& tree, const RestoreOptions& options, SourceLocation where);
void save_leaves(const std::filesystem::path& directory, std::int64_t step, std::vector<Array> leaves, TreeDef tree,
                 const SaveOptions& options, SourceLocation where);

template <class Tree, class F>
Tree restored(const Tree& like, F&& restore) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(like, &def);
  Tree result = like;
  tree::assign(result, restore(leaves, def));
  return result;
}

}  // namespace detail

/// The checkpoints of one folder, which is made if it does not exist. Functions may be called by one thread at a time.
/// The destructor waits for what is being written; an error that nothing has thrown yet becomes a warning.
class Manager {
 public:
  /// Throws InvalidArgument for keep_last < 1.
  explicit Manager(std::filesystem::path directory, const ManagerOptions& options = {},
                   SourceLocation where = SourceLocation::current());
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// Saves the arrays of a tree as the checkpoint of this step, in the background, with their present elements, even if
  /// a later call deletes them or has them donated. Waits only for an earlier save that is not done (WhenBusy), or if
  /// holding the arrays could exceed the memory limit, of which it warns. Returns false if the save was left out.
  ///
  /// Throws the error of an earlier save, if nothing has thrown it yet, and then does not save; InvalidArgument for a
  /// negative step, for metadata that is not JSON, and for an array that is still to be summed over devices
  /// (unreduced); and InvalidState for arrays without elements: tracers, types, deleted ones. What is found while
  /// writing is thrown by a later call: InvalidArgument for a step that has a checkpoint already, unless `overwrite` is
  /// set, and for two arrays with one path.
  template <class Tree>
  bool save(std::int64_t step, const Tree& tree, const SaveOptions& options = {},
            SourceLocation where = SourceLocation::current()) {
    TreeDef def;
    std::vector<Array> leaves = tree::flatten(tree, &def);
    return save_leaves(step, std::move(leaves), std::move(def), options, where);
  }

  /// The tree of a checkpoint, with arrays placed like those of `like`: if need be, on other devices, meshes and
  /// numbers of processes than those that saved it. Types without elements (ShapeDtypeStruct) can stand for arrays;
  /// those without a sharding go to the default device. Each process reads what its devices hold, and verifies what it
  /// reads. Waits for a save that is being written.
  ///
  /// Throws CheckpointError if there is no such checkpoint, or if it is damaged, naming array and file;
  /// InvalidArgument, naming the path, where shapes differ, or the trees do; TypeMismatch where dtypes do. In a job all
  /// processes throw where one does.
  template <class Tree>
  Tree restore(const Tree& like, const RestoreOptions& options = {}, SourceLocation where = SourceLocation::current()) {
    return detail::restored(like, [&](const std::vector<Array>& leaves, const TreeDef& def) {
      return restore_leaves(leaves, def, options, where);
    });
  }

  /// The steps that have a checkpoint, ascending. Waits as restore() does.
  std::vector<std::int64_t> all_steps(SourceLocation where = SourceLocation::current());
  /// The highest step that has a checkpoint; nullopt if there is none. Waits as restore() does.
  std::optional<std::int64_t> latest_step(SourceLocation where = SourceLocation::current());
  /// The metadata of a checkpoint, or of the latest. Throws CheckpointError if there is none.
  std::string metadata(std::optional<std::int64_t> step = {}, SourceLocation where = SourceLocation::current());

  /// Returns when everything that was saved is complete and on disk. Throws the error that made a save fail.
  void wait(SourceLocation where = SourceLocation::current());

  const std::filesystem::path& directory() const;

  bool save_leaves(std::int64_t step, std::vector<Array> leaves, TreeDef tree, const SaveOptions& options,
                   SourceLocation where);
  std::vector<Array> restore_leaves(const std::vector<Array>& like, const TreeDef& tree, const RestoreOptions& options,
                                    SourceLocation where);

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

/// Saves a tree, and returns when it is on disk. Throws as Manager::save and Manager::wait.
template <class Tree>
void save(const std::filesystem::path& directory, std::int64_t step, const Tree& tree, const SaveOptions& options = {},
          SourceLocation where = SourceLocation::current()) {
  TreeDef def;
  std::vector<Array> leaves = tree::flatten(tree, &def);
  detail::save_leaves(directory, step, std::move(leaves), std::move(def), options, where);
}

/// As Manager::restore.
template <class Tree>
Tree restore(const std::filesystem::path& directory, const Tree& like, const RestoreOptions& options = {},
             SourceLocation where = SourceLocation::current()) {
  return detail::restored(like, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::restore_leaves(directory, leaves, def, options, where);
  });
}

// ---- The contents of a folder. These functions look for themselves, without the other processes of a job.

/// The steps that have a checkpoint in this folder, ascending; none if there is no such folder.
std::vector<std::int64_t> steps(const std::filesystem::path& directory,
                                SourceLocation where = SourceLocation::current());

/// What a checkpoint holds, by default the latest. Throws CheckpointError if there is none, or if its index is damaged.
CheckpointInfo describe(const std::filesystem::path& directory, std::optional<std::int64_t> step = {},
                        SourceLocation where = SourceLocation::current());

/// Reads a whole checkpoint, by default the latest, and compares it with its checksums. Throws CheckpointError, naming
/// array and file, if something is missing or damaged.
void verify(const std::filesystem::path& directory, std::optional<std::int64_t> step = {},
            SourceLocation where = SourceLocation::current());

// ---- Safetensors files, as other tools write and read them.

/// The name that other tools would give to a path: "layers.0.w" for "['layers'][0].w".
std::string dotted_name(const std::string& path);

struct ExportOptions {
  std::optional<std::int64_t> step = {};  ///< Default: the latest.
  /// The names of arrays in the file, by their paths. Default: dotted_name.
  std::function<std::string(const std::string& path)> name = {};
};

/// Writes the arrays of a checkpoint, each whole, to one safetensors file, in bounded memory. Keys of random numbers
/// are stored as u32, and complex128 as f64, with one more dimension. Throws CheckpointError as verify(), and
/// InvalidArgument if two arrays have one name.
void export_safetensors(const std::filesystem::path& directory, const std::filesystem::path& file,
                        const ExportOptions& options = {}, SourceLocation where = SourceLocation::current());

/// Writes arrays of this process to a safetensors file, under the keys of the map.
/// @param arrays The arrays, by their names.
/// @param metadata Texts that are written, too, by their names.
void save_safetensors(const std::filesystem::path& file, const std::map<std::string, Array>& arrays,
                      const std::map<std::string, std::string>& metadata = {},
                      SourceLocation where = SourceLocation::current());

/// What is in a safetensors file, in the files of a "….safetensors.index.json", or in a folder that has such an index
/// or a single such file.
std::vector<StoredArrayInfo> describe_safetensors(const std::filesystem::path& path,
                                                  SourceLocation where = SourceLocation::current());

/// All arrays of such files, whole, on the default device, by name. Throws CheckpointError for other files, and
/// Unsupported, naming the array, for dtypes that Shoal does not have (f8, f4).
std::map<std::string, Array> load_safetensors(const std::filesystem::path& path,
                                              SourceLocation where = SourceLocation::current());

struct LoadOptions {
  /// The names of arrays in the file, by the paths of the tree; for others the name is dotted_name of the path.
  std::map<std::string, std::string> names = {};
  /// Whether the file may have arrays that the tree lacks.
  bool partial = false;
};

namespace detail {
std::vector<Array> load_leaves(const std::filesystem::path& path, const std::vector<Array>& like, const TreeDef& tree,
                               const LoadOptions& options, SourceLocation where);
}  // namespace detail

/// The arrays of such files as a tree, placed like those of `like`; see Manager::restore. Each process reads what its
/// devices hold.
template <class Tree>
Tree load_safetensors(const std::filesystem::path& path, const Tree& like, const LoadOptions& options = {},
                      SourceLocation where = SourceLocation::current()) {
  return detail::restored(like, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::load_leaves(path, leaves, def, options, where);
  });
}

}  // namespace shoal::checkpoints
