#include "checkpoints/restoring.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/misuse.h"
#include "checkpoints/extents.h"
#include "checkpoints/folder.h"
#include "comm/record/communicator.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/default_put.h"
#include "shoal/default_device.h"

namespace shoal::checkpoints {
namespace {

constexpr std::chrono::milliseconds kPatience = std::chrono::hours(1);
// How many paths a message names.
constexpr std::size_t kMostNamed = 5;

Place place_of(Dtype dtype, const Shape& shape, bool weak, const Sharding& sharding, bool committed,
               std::vector<Target>& targets) {
  shoal::detail::check_put_target(sharding);
  const Type type{.dtype = dtype, .shape = shape, .weak = weak, .memory = {}, .varying = {}};
  Place place{.kind = kind_of(type, sharding, committed), .shards = {}};
  const Grid& grid = *place.kind->layout.grid;
  const Placement& placement = place.kind->layout.placement;
  place.shards = ShardSet::make(place.kind->layout.grid, placement.varying());
  AddressSpace& space = host_space(sharding.memory_kind());
  for (std::size_t shard = 0; shard < place.shards.shards.size(); ++shard) {
    const bool is_held = grid.is_local() || grid.held(place.shards.varying).has(static_cast<std::int64_t>(shard));
    if (!is_held) continue;
    Box box = Box::of(grid, shape, placement, place.shards.position_of(shard));
    Buffer buffer(space, dtype, box.extents);
    if (buffer.size_bytes() > 0) targets.push_back({std::move(box), static_cast<std::byte*>(buffer.mutable_data())});
    place.shards.shards[shard] = std::move(buffer);
  }
  return place;
}

}  // namespace

Place place_like(const Array& like, const std::string& path, std::vector<Target>& targets) {
  const shoal::detail::ArrayImpl& impl = shoal::detail::impl_of(like, path);
  if (impl.is_tracer()) shoal::detail::refuse_tracer(impl, path);
  const bool is_type = impl.is_type_only();
  const std::optional<Sharding> where = is_type ? impl.abstract->would_lie : shoal::detail::sharding_of(like);
  const Sharding sharding = where ? *where : SingleDeviceSharding(default_device());
  if (const NamedSharding* named = sharding.named(); named != nullptr && !named->spec().unreduced().empty()) {
    throw misuse<InvalidArgument>("{} lies as {}, which leaves sums unreduced; a checkpoint has whole values", path,
                                  to_string(sharding));
  }
  Place place = place_of(like.dtype(), like.shape(), like.weak_type(), sharding,
                         is_type ? where.has_value() : impl.is_committed(), targets);
  place.is_unplaced = !where;
  return place;
}

Array array_at(Place place) {
  Digest lineage = {};
  if (const Grid& grid = *place.kind->layout.grid; !grid.is_local()) {
    lineage = Communicator::of(grid.processes()).new_origin(Caller::function_or("restore"));
  }
  Array array = shoal::detail::Access::make(ready_array(std::move(place.kind), std::move(place.shards), lineage));
  return place.is_unplaced ? shoal::detail::at_default_place(array) : array;
}

namespace {

std::string some_of(const std::vector<std::string>& names) {
  const std::size_t count = std::min(names.size(), kMostNamed);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     names.size() > count ? fmt::format(" and {} more", names.size() - count) : "");
}

// The arrays of a source that leaves of a tree are to be, by these names. `what` the source is is for messages.
class Match {
 public:
  Match(const Source& source, const std::map<std::string, std::string>& others, std::string what)
      : others_(others), what_(std::move(what)) {
    for (const StoredArray& array : source.index().arrays) arrays_[array.path] = &array;
  }

  // `paths` are those of the tree, and `names` those of the source for them.
  std::vector<const StoredArray*> find(const std::vector<Array>& like, const std::vector<std::string>& paths,
                                       const std::vector<std::string>& names, bool partial) const {
    std::vector<const StoredArray*> found;
    std::vector<std::string> missing;
    std::set<std::string_view> used;
    for (std::size_t i = 0; i < like.size(); ++i) {
      const auto entry = arrays_.find(names[i]);
      if (entry == arrays_.end()) {
        check_known(paths[i], names[i]);
        missing.push_back(said(paths[i], names[i]));
        continue;
      }
      check_type(like[i], paths[i], names[i], *entry->second);
      found.push_back(entry->second);
      used.insert(names[i]);
    }
    std::vector<std::string> left;
    for (const auto& [name, array] : arrays_) {
      if (!used.contains(name)) left.push_back(name);
    }
    std::ranges::sort(left);
    if (!missing.empty()) {
      throw misuse<InvalidArgument>("{} does not have {}, which the given tree has{}", what_, some_of(missing),
                                    left.empty() ? "" : fmt::format("; it has {} besides", some_of(left)));
    }
    if (!left.empty() && !partial) {
      throw misuse<InvalidArgument>(
          "{} has {}, which the given tree does not have; with the option `partial` they are left out", what_,
          some_of(left));
    }
    return found;
  }

 private:
  static std::string said(const std::string& path, const std::string& name) {
    return path == name ? path : fmt::format("{} (as {})", path, in_quotes(name));
  }

  void check_known(const std::string& path, const std::string& name) const {
    const auto other = others_.find(name);
    if (other == others_.end()) return;
    throw misuse<Unsupported>("{} is {} in {}, a dtype that Shoal has not", said(path, name), other->second, what_);
  }

  void check_type(const Array& like, const std::string& path, const std::string& name, const StoredArray& array) const {
    if (array.shape != like.shape()) {
      throw misuse<InvalidArgument>("{} has shape {} in {}, but {} in the given tree", said(path, name),
                                    to_string(array.shape), what_, to_string(like.shape()));
    }
    if (array.dtype != like.dtype()) {
      throw misuse<TypeMismatch>("{} has dtype {} in {}, but {} in the given tree", said(path, name),
                                 name_of(array.dtype), what_, name_of(like.dtype()));
    }
  }

  std::unordered_map<std::string, const StoredArray*> arrays_;
  const std::map<std::string, std::string>& others_;
  std::string what_;
};

// Reads arrays as those of a tree lie.
std::vector<Place> read_places(const Source& source, const std::vector<const StoredArray*>& arrays,
                               const std::vector<Array>& like, const std::vector<std::string>& paths) {
  std::vector<Place> places;
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < like.size(); ++i) {
    wanted.push_back({arrays[i], {}});
    places.push_back(place_like(like[i], paths[i], wanted.back().targets));
  }
  source.read(wanted, process_count() == 1);
  return places;
}

std::vector<Array> arrays_at(std::vector<Place> places) {
  std::vector<Array> arrays;
  for (Place& place : places) arrays.push_back(array_at(std::move(place)));
  return arrays;
}

std::unique_ptr<Source> open_latest(const Path& directory, std::optional<std::int64_t> step) {
  return open_checkpoint(folder_of(directory, step_or_latest(directory, step)));
}

StoredArrayInfo info_of(const StoredArray& array) {
  return {.path = array.path,
          .dtype = array.dtype,
          .shape = array.shape,
          .bytes = array.bytes(),
          .sharding = array.sharding,
          .boxes = static_cast<std::int64_t>(array.boxes.size())};
}

const std::map<std::string, std::string> kNoOthers;

}  // namespace

std::vector<std::string> paths_of(const TreeDef& tree) {
  std::vector<std::string> paths = tree.leaf_paths();
  for (std::string& path : paths) {
    if (path.empty()) path = "array";
  }
  return paths;
}

Meetings& calls() {
  static Meetings meetings("shoal/checkpoints/calls");
  return meetings;
}

std::vector<Array> restore_leaves_from(const Path& directory, const std::vector<Array>& like, const TreeDef& tree,
                                       const RestoreOptions& options, std::chrono::milliseconds timeout) {
  const std::vector<std::string> paths = paths_of(tree);
  Meeting meeting = calls().next(timeout);
  std::unique_ptr<Source> source;
  std::vector<Place> places;
  // Process 0 says which checkpoint it is, so that all read the same.
  const std::string chosen = meeting.from_first("checkpoint", [&] {
    source = open_latest(directory, options.step);
    return fmt::format("{} {}", source->index().step, source->index().run);
  });
  meeting.all("read", [&] {
    const std::size_t space = chosen.find(' ');
    if (source == nullptr) source = open_checkpoint(folder_of(directory, std::stoll(chosen.substr(0, space))));
    if (source->index().run != chosen.substr(space + 1)) {
      throw misuse<CheckpointError>("\"{}\" changes while it is read: process 0 found one of run {}, and here is {}",
                                    folder_of(directory, source->index().step).string(), chosen.substr(space + 1),
                                    source->index().run);
    }
    const std::string what = fmt::format("the checkpoint \"{}\"", folder_of(directory, source->index().step).string());
    places =
        read_places(*source, Match(*source, kNoOthers, what).find(like, paths, paths, options.partial), like, paths);
  });
  meeting.finish();
  return arrays_at(std::move(places));
}

// ---- The public functions.

std::vector<std::int64_t> steps(const std::filesystem::path& directory, SourceLocation where) {
  const Caller caller("checkpoints::steps", where);
  return steps_in(directory);
}

CheckpointInfo describe(const std::filesystem::path& directory, std::optional<std::int64_t> step,
                        SourceLocation where) {
  const Caller caller("checkpoints::describe", where);
  const Path folder = folder_of(directory, step_or_latest(directory, step));
  const Index index = parse_index(read_text(folder / kIndexName), folder / kIndexName);
  CheckpointInfo info{.folder = folder,
                      .step = index.step,
                      .metadata = index.metadata,
                      .processes = static_cast<std::int64_t>(index.files.size())};
  for (const StoredArray& array : index.arrays) {
    info.bytes += array.bytes();
    info.arrays.push_back(info_of(array));
  }
  return info;
}

void verify(const std::filesystem::path& directory, std::optional<std::int64_t> step, SourceLocation where) {
  const Caller caller("checkpoints::verify", where);
  open_latest(directory, step)->verify();
}

std::vector<StoredArrayInfo> describe_safetensors(const std::filesystem::path& path, SourceLocation where) {
  const Caller caller("checkpoints::describe_safetensors", where);
  std::map<std::string, std::string> others;
  std::vector<StoredArrayInfo> infos;
  const std::unique_ptr<Source> source = open_safetensors(path, others);
  for (const StoredArray& array : source->index().arrays) infos.push_back(info_of(array));
  return infos;
}

std::map<std::string, Array> load_safetensors(const std::filesystem::path& path, SourceLocation where) {
  const Caller caller("checkpoints::load_safetensors", where);
  std::map<std::string, std::string> others;
  const std::unique_ptr<Source> source = open_safetensors(path, others);
  if (!others.empty()) {
    throw misuse<Unsupported>("{} is {} in \"{}\", a dtype that Shoal has not", in_quotes(others.begin()->first),
                              others.begin()->second, path.string());
  }
  std::vector<Place> places;
  std::vector<Wanted> wanted;
  for (const StoredArray& array : source->index().arrays) {
    wanted.push_back({&array, {}});
    places.push_back(place_of(array.dtype, array.shape, false, SingleDeviceSharding(default_device()), false,
                              wanted.back().targets));
    places.back().is_unplaced = true;
  }
  source->read(wanted, process_count() == 1);
  std::map<std::string, Array> arrays;
  for (std::size_t i = 0; i < places.size(); ++i) arrays[wanted[i].array->path] = array_at(std::move(places[i]));
  return arrays;
}

namespace detail {

std::vector<Array> restore_leaves(const std::filesystem::path& directory, const std::vector<Array>& like,
                                  const TreeDef& tree, const RestoreOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::restore", where);
  return restore_leaves_from(directory, like, tree, options, kPatience);
}

std::vector<Array> load_leaves(const std::filesystem::path& path, const std::vector<Array>& like, const TreeDef& tree,
                               const LoadOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::load_safetensors", where);
  const std::vector<std::string> paths = paths_of(tree);
  std::vector<std::string> names;
  for (const auto& [given, name] : options.names) {
    if (std::ranges::find(paths, given) == paths.end()) {
      throw misuse<InvalidArgument>("names has {}, which is no path of the given tree; its first is {}",
                                    in_quotes(given), paths.empty() ? "missing" : in_quotes(paths.front()));
    }
  }
  for (const std::string& array : paths) {
    const auto given = options.names.find(array);
    names.push_back(given != options.names.end() ? given->second : dotted_name(array));
  }
  Meeting meeting = calls().next(kPatience);
  std::vector<Place> places;
  meeting.all("load", [&] {
    std::map<std::string, std::string> others;
    const std::unique_ptr<Source> source = open_safetensors(path, others);
    const std::string what = fmt::format("\"{}\"", path.string());
    places = read_places(*source, Match(*source, others, what).find(like, paths, names, options.partial), like, paths);
  });
  meeting.finish();
  return arrays_at(std::move(places));
}

}  // namespace detail

std::string dotted_name(const std::string& path) {
  // "['a'][0].b" has keys in brackets, of which those that are texts have quotes, and names after dots.
  std::string name;
  std::size_t i = 0;
  while (i < path.size()) {
    std::string key;
    if (path[i] == '[') {
      const bool has_quotes = i + 1 < path.size() && (path[i + 1] == '\'' || path[i + 1] == '"');
      const std::string close = has_quotes ? std::string{path[i + 1], ']'} : "]";
      const std::size_t begin = i + (has_quotes ? 2 : 1);
      const std::size_t end = std::min(path.find(close, begin), path.size());
      key = path.substr(begin, end - begin);
      i = std::min(end + close.size(), path.size());
    } else {
      const std::size_t begin = path[i] == '.' ? i + 1 : i;
      const std::size_t end = std::min(path.find_first_of(".[", begin), path.size());
      key = path.substr(begin, end - begin);
      i = std::max(end, begin);
    }
    if (!name.empty() && !key.empty()) name += '.';
    name += key;
  }
  return name;
}

}  // namespace shoal::checkpoints
