#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/at_exit.h"
#include "base/env.h"
#include "base/log.h"
#include "base/misuse.h"
#include "base/safe_file.h"
#include "checkpoints/extents.h"
#include "checkpoints/folder.h"
#include "checkpoints/meeting.h"
#include "checkpoints/restoring.h"
#include "checkpoints/writing.h"
#include "core/host_allocator.h"
#include "core/this_process.h"
#include "frontend/array/array_impl.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

constexpr std::string_view kSave = "checkpoints::Manager::save";
// For who writes to the folder now, as a job that was killed does until its last process is gone.
constexpr std::chrono::seconds kLockPatience{60};

std::string random_text() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// What all processes must agree on, besides the step.
Digest digest_of_types(const std::vector<Held>& arrays) {
  Digest digest = {};
  for (const Held& held : arrays) {
    const Type& type = held.array.type();
    const bool spans = !held.array.grid()->is_local();
    digest =
        digest_of(fmt::format("{} {}{}{}{}", held.path, name_of(type.dtype), to_string(type.shape),
                              type.weak ? "~" : "", spans ? to_string(*held.array.grid(), held.array.placement()) : ""),
                  digest);
  }
  return digest;
}

// Bytes of what this process holds of an array.
std::size_t bytes_held(const DeviceArray& array) {
  const Grid& grid = *array.grid();
  const AtomSet varying = array.placement().varying();
  const auto shards = static_cast<std::size_t>(
      grid.is_local() ? grid.size_of(varying) : static_cast<std::int64_t>(grid.held(varying).shards.size()));
  const Shape largest = local_shape(grid, array.type().shape, array.placement());
  return shards * static_cast<std::size_t>(num_elements(largest)) * size_of(array.type().dtype);
}

}  // namespace

// A thread writes one save after the other; there is never more than one that waits for it, as the next save() waits
// until it is done.
class Manager::Impl {
 public:
  Impl(std::filesystem::path directory, const ManagerOptions& options)
      : directory_(std::move(directory)),
        options_(options),
        name_(fmt::format("shoal/checkpoints/{}", next_number())),
        saves_(name_ + "/saves"),
        decisions_(name_ + "/decisions") {}

  ~Impl() {
    forget_live();
    if (!thread_.joinable()) return;
    if (getpid() != process_) {  // A child made by fork() has no such thread.
      thread_.detach();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
    warn_of_error();
  }

  const std::filesystem::path& directory() const { return directory_; }
  std::chrono::milliseconds timeout() const { return options_.timeout; }

  bool save(std::int64_t step, std::vector<Array> leaves, TreeDef tree, const SaveOptions& options) {
    throw_error();
    Job job{.step = step, .tree = std::move(tree), .where = Caller::line()};
    try {
      if (step < 0) throw misuse<InvalidArgument>("step is {}; it must not be negative", step);
      job.metadata = checked_json(options.metadata, "metadata");
      job.arrays = hold(leaves, job.tree);
    } catch (...) {
      if (Meeting(name_, 0, {}).is_alone()) throw;
      job.refused = std::current_exception();
    }
    leaves.clear();
    const bool may = may_begin(job);
    if (job.refused) {
      const std::exception_ptr refused = job.refused;
      if (may) submit(std::move(job));
      std::rethrow_exception(refused);
    }
    if (!may) return false;
    const bool must_wait = exceeds_memory(job);
    submit(std::move(job));
    if (must_wait) {
      finish();
      throw_error();
    }
    return true;
  }

  // Waits for the save that is being written.
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
  }

  void wait() {
    finish();
    throw_error();
  }

  void warn_of_error() noexcept {
    const std::lock_guard lock(mutex_);
    if (!error_) return;
    try {
      std::rethrow_exception(std::exchange(error_, nullptr));
    } catch (const std::exception& error) {
      log_warning(fmt::format("a checkpoint was not saved, and nobody asked: {}", error.what()));
    }
  }

 private:
  struct Job {
    std::int64_t step = 0;
    TreeDef tree;
    std::string metadata = {};
    std::vector<DeviceArray> arrays = {};
    SourceLocation where;
    std::uint64_t decision = 0;  // The number of the meeting in which it was decided on.
    // What is wrong with the arguments of this process. Others wait for it, and so their thread is told.
    std::exception_ptr refused = {};
  };

  static std::uint64_t next_number() {
    static distributed::SessionCounter number;
    return number.next();
  }

  // Those that have a thread. What they write is waited for when the process exits.
  struct Live {
    std::mutex mutex;
    std::unordered_set<Impl*> all;
    static Live& get() {
      static auto& live = *new Live;  // Never destroyed.
      return live;
    }
  };
  void note_live() {
    static std::once_flag once;
    std::call_once(once, [] {
      at_exit([] {
        Live& live = Live::get();
        const std::lock_guard lock(live.mutex);
        for (Impl* one : live.all) {
          one->finish();
          one->warn_of_error();
        }
      });
    });
    Live& live = Live::get();
    const std::lock_guard lock(live.mutex);
    live.all.insert(this);
  }
  void forget_live() {
    Live& live = Live::get();
    const std::lock_guard lock(live.mutex);
    live.all.erase(this);
  }

  void throw_error() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  // References to the elements, so that nobody changes or frees them.
  static std::vector<DeviceArray> hold(const std::vector<Array>& leaves, const TreeDef& tree) {
    std::vector<DeviceArray> arrays;
    arrays.reserve(leaves.size());
    const auto path = [&] { return paths_of(tree)[arrays.size()]; };
    for (const Array& leaf : leaves) {
      try {
        arrays.push_back(shoal::detail::concrete(leaf));
      } catch (const InvalidState&) {
        static_cast<void>(shoal::detail::concrete(leaf, path()));  // The same, with its path.
        throw;
      }
      if (arrays.back().placement().partial.empty()) continue;
      arrays.pop_back();
      throw misuse<InvalidArgument>("{} lies as {}, which leaves sums unreduced; save it whole", path(),
                                    to_string(leaf.sharding()));
    }
    return arrays;
  }

  // Whether to save now. Processes may be done with the save before at different times, so process 0 decides.
  bool may_begin(Job& job) {
    if (options_.when_busy == WhenBusy::kSkip) {
      Meeting decision = decisions_.next(options_.timeout);
      job.decision = decision.number();
      const std::string said = decision.from_first("save", [&] {
        const std::lock_guard lock(mutex_);
        return std::string(busy_ ? "no" : "yes");
      });
      if (said == "no") return false;
    }
    finish();
    throw_error();
    return true;
  }

  static bool exceeds_memory(const Job& job) {
    std::size_t held = 0;
    for (const DeviceArray& array : job.arrays) held += bytes_held(array);
    const HostAllocator& memory = HostAllocator::shared();
    if (memory.bytes_in_use() + held <= memory.limit()) return false;
    log_warning(fmt::format(
        "{}: waits until step {} is written, as {} MiB are held meanwhile, {} MiB are in use, and the limit is {} MiB "
        "(SHOAL_MEMORY_LIMIT)",
        kSave, job.step, held >> 20, memory.bytes_in_use() >> 20, memory.limit() >> 20));
    return true;
  }

  void submit(Job job) {
    if (!thread_.joinable()) {
      process_ = getpid();
      thread_ = std::thread([this] { work(); });
      note_live();
    }
    {
      const std::lock_guard lock(mutex_);
      job_ = std::move(job);
      busy_ = true;
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return job_ || closing_; });
      if (!job_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        write(*job_);
      } catch (...) {
        if (!job_->refused) error = std::current_exception();  // Else save() has thrown it.
      }
      lock.lock();
      job_.reset();
      error_ = error;
      busy_ = false;
      changed_.notify_all();
    }
  }

  // ---- In the thread.

  void write(const Job& job) {
    const Caller caller(kSave, job.where);
    std::vector<Held> arrays;
    const std::vector<std::string> paths = job.refused ? std::vector<std::string>() : paths_of(job.tree);
    for (std::size_t i = 0; i < paths.size(); ++i) arrays.push_back({paths[i], job.arrays[i]});
    check_paths(paths);

    Meeting meeting = saves_.next(options_.timeout);
    std::optional<FolderLock> lock;
    Path unfinished;
    const std::string begun = meeting.from_first("begun", [&] {
      if (job.refused) std::rethrow_exception(job.refused);
      make_folders(directory_);
      lock.emplace(directory_, std::min<std::chrono::milliseconds>(options_.timeout, kLockPatience));
      remove_leftovers(directory_);
      if (!options_.overwrite && exists(job.step)) {
        throw misuse<InvalidArgument>(
            "step {} has a checkpoint in \"{}\" already; the option `overwrite` lets another take its place", job.step,
            directory_.string());
      }
      const std::string run = random_text();
      unfinished = unfinished_folder_of(directory_, job.step, run);
      make_folder(unfinished);
      return fmt::format("{} {}", run, job.step);
    });
    const std::string run = begun.substr(0, begun.find(' '));
    unfinished = unfinished_folder_of(directory_, job.step, run);
    try {
      write_together(job, arrays, meeting, begun, run, unfinished);
    } catch (...) {
      if (meeting.is_first()) {
        std::error_code none;
        std::filesystem::remove_all(unfinished, none);
      }
      throw;
    }
    meeting.finish();
    for (; forgotten_ + 1 < job.decision; ++forgotten_) {
      Meeting(name_ + "/decisions", job.decision, {}).forget(forgotten_ + 1);
    }
  }

  void write_together(const Job& job, const std::vector<Held>& arrays, Meeting& meeting, const std::string& begun,
                      const std::string& run, const Path& unfinished) {
    const Digest digest = digest_of_types(arrays);
    const std::string types = fmt::format("{:016x}{:016x} ", digest[0], digest[1]);
    std::exception_ptr here;
    std::vector<std::string> reports;
    try {
      reports = meeting.to_first("written", [&] {
        try {
          if (job.refused) std::rethrow_exception(job.refused);
          check_begun(job, begun, unfinished, run);
          return types + bytes_of(write_portions(arrays, portions_of(arrays, this_process(), meeting.processes()),
                                                 unfinished, meeting.process(), job.step, run));
        } catch (...) {
          here = std::current_exception();
          throw;
        }
      });
    } catch (...) {
      if (meeting.is_alone()) throw;
      if (!here) here = std::current_exception();
    }
    try {
      meeting.from_first("committed", [&] {
        if (here) std::rethrow_exception(here);
        commit(job, arrays, reports, types, run, unfinished);
        return std::string();
      });
    } catch (...) {
      if (!here) throw;
    }
    if (here) std::rethrow_exception(here);
  }

  bool exists(std::int64_t step) const {
    std::error_code none;
    return std::filesystem::exists(folder_of(directory_, step), none);
  }

  static void check_paths(const std::vector<std::string>& paths) {
    std::unordered_set<std::string_view> seen;
    for (const std::string& path : paths) {
      if (!seen.insert(path).second) throw misuse<InvalidArgument>("two arrays have the path {}", path);
    }
  }

  void check_begun(const Job& job, const std::string& begun, const Path& unfinished, const std::string& run) const {
    const std::string step = begun.substr(run.size() + 1);
    if (step != std::to_string(job.step)) {
      throw misuse<InvalidArgument>("it saves step {} where process 0 saves step {}", job.step, step);
    }
    std::error_code none;
    if (!std::filesystem::is_directory(unfinished, none)) {
      throw misuse<CheckpointError>(
          "\"{}\", which process 0 has made, is not there; checkpoints go to a folder that all processes see",
          unfinished.string());
    }
  }

  // Process 0, when all have written and synced their files.
  void commit(const Job& job, const std::vector<Held>& arrays, const std::vector<std::string>& reports,
              const std::string& types, const std::string& run, const Path& unfinished) const {
    Index index{.step = job.step, .run = run, .metadata = job.metadata};
    for (const Held& held : arrays) {
      const Type& type = held.array.type();
      index.arrays.push_back({.path = held.path,
                              .dtype = type.dtype,
                              .shape = type.shape,
                              .weak = type.weak,
                              .sharding = sharding_text(held.array.sharding())});
    }
    for (std::size_t process = 0; process < reports.size(); ++process) {
      if (!reports[process].starts_with(types)) {
        throw misuse<InvalidArgument>(
            "process {} saves a tree of other paths, shapes, dtypes or shardings than process 0", process);
      }
      Written written = written_of(std::string_view(reports[process]).substr(types.size()));
      for (std::size_t i = 0; i < written.boxes.size(); ++i) {
        for (StoredBox& box : written.boxes[i]) {
          box.file = process;
          index.arrays[i].boxes.push_back(std::move(box));
        }
      }
      index.files.push_back(std::move(written.file));
    }
    for (const StoredArray& array : index.arrays) {
      std::int64_t covered = 0;
      for (const StoredBox& box : array.boxes) covered += num_elements(box.box.extents);
      if (covered == num_elements(array.shape)) continue;
      throw misuse<InvalidArgument>(
          "{}: processes have {} elements of an array of shape {}; all must hold the same part "
          "of what lies on devices of one process alone",
          array.path, covered, to_string(array.shape));
    }
    write_text(unfinished / kIndexName, to_text(index));
    sync_folder(unfinished);
    const bool replaces = exists(job.step);
    rename_synced(unfinished, folder_of(directory_, job.step), replaces);
    if (replaces) remove_folder(unfinished);  // The old one, by the name that the new one had.
    if (options_.keep_last) remove_old(directory_, job.step, *options_.keep_last, run);
    tell_launcher(job.step);
  }

  // `shoal run --restarts` starts a job again as long as it gets further.
  static void tell_launcher(std::int64_t step) {
    const auto file = env_text("SHOAL_RUN_PROGRESS");
    if (!file) return;
    try {
      write_file(*file, std::to_string(step));
    } catch (const std::system_error& error) {
      log_warning(fmt::format("shoal run cannot be told of a checkpoint: {}", error.what()));
    }
  }

  const std::filesystem::path directory_;
  const ManagerOptions options_;
  const std::string name_;  // Of what processes tell each other.
  Meetings saves_;
  Meetings decisions_;
  std::uint64_t forgotten_ = 0;  // The last decision that process 0 has removed.

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::optional<Job> job_;  // Not while the thread writes it: that reads it without the lock.
  bool busy_ = false;       // There is one.
  bool closing_ = false;
  std::exception_ptr error_;  // That nobody has got yet.
  std::thread thread_;
  pid_t process_ = 0;  // That has the thread.
};

Manager::Manager(std::filesystem::path directory, const ManagerOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::Manager", where);
  if (options.keep_last && *options.keep_last < 1) {
    throw misuse<InvalidArgument>("keep_last is {}; at least 1 must stay", *options.keep_last);
  }
  impl_ = std::make_shared<Impl>(std::move(directory), options);
}

Manager::~Manager() = default;

const std::filesystem::path& Manager::directory() const { return impl_->directory(); }

bool Manager::save_leaves(std::int64_t step, std::vector<Array> leaves, TreeDef tree, const SaveOptions& options,
                          SourceLocation where) {
  const Caller caller(kSave, where);
  return impl_->save(step, std::move(leaves), std::move(tree), options);
}

std::vector<Array> Manager::restore_leaves(const std::vector<Array>& like, const TreeDef& tree,
                                           const RestoreOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::Manager::restore", where);
  impl_->wait();
  return restore_leaves_from(impl_->directory(), like, tree, options, impl_->timeout());
}

namespace {

// What process 0 says of the folder. All tell it first that they are here, so that nothing of this is kept.
std::string said_of_folder(std::chrono::milliseconds timeout, const std::function<std::string()>& say) {
  Meeting meeting = calls().next(timeout);
  meeting.to_first("here", [] { return std::string(); });
  const std::string said = meeting.from_first("folder", say);
  meeting.finish();
  return said;
}

}  // namespace

std::vector<std::int64_t> Manager::all_steps(SourceLocation where) {
  const Caller caller("checkpoints::Manager::all_steps", where);
  impl_->wait();
  const std::string text = said_of_folder(impl_->timeout(), [&] {
    std::string steps;
    for (const std::int64_t step : steps_in(impl_->directory())) steps += fmt::format("{} ", step);
    return steps;
  });
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < text.size(); i = text.find(' ', i) + 1) steps.push_back(std::stoll(text.substr(i)));
  return steps;
}

std::optional<std::int64_t> Manager::latest_step(SourceLocation where) {
  const Caller caller("checkpoints::Manager::latest_step", where);
  const std::vector<std::int64_t> steps = all_steps(where);
  if (steps.empty()) return std::nullopt;
  return steps.back();
}

std::string Manager::metadata(std::optional<std::int64_t> step, SourceLocation where) {
  const Caller caller("checkpoints::Manager::metadata", where);
  impl_->wait();
  return said_of_folder(impl_->timeout(), [&] {
    const Path index = folder_of(impl_->directory(), step_or_latest(impl_->directory(), step)) / kIndexName;
    return parse_index(read_text(index), index).metadata;
  });
}

void Manager::wait(SourceLocation where) {
  const Caller caller("checkpoints::Manager::wait", where);
  impl_->wait();
}

namespace detail {

void save_leaves(const std::filesystem::path& directory, std::int64_t step, std::vector<Array> leaves, TreeDef tree,
                 const SaveOptions& options, SourceLocation where) {
  const Caller caller("checkpoints::save", where);
  Manager manager(directory, {}, where);
  manager.save_leaves(step, std::move(leaves), std::move(tree), options, where);
  manager.wait(where);
}

}  // namespace detail
}  // namespace shoal::checkpoints
