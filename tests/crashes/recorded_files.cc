#include "recorded_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

namespace shoal::crashes {
namespace {

struct Recorder {
  std::mutex mutex;
  std::string root;  // Empty: nothing is recorded.
  std::vector<FileEvent> events;
  std::function<int(const FileEvent&)> error_of;

  static Recorder& get() {
    static auto& recorder = *new Recorder;
    return recorder;
  }
};

std::string path_of(int directory, const char* name) {
  if (name[0] == '/') return name;
  const std::string base = directory == AT_FDCWD
                               ? std::filesystem::current_path().string()
                               : std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory)).string();
  return (std::filesystem::path(base) / name).lexically_normal();
}
std::string path_of(int file) {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), none);
}

bool is_recorded(const std::string& path) {
  Recorder& recorder = Recorder::get();
  const std::lock_guard lock(recorder.mutex);
  return !recorder.root.empty() && path.starts_with(recorder.root);
}

// Calls the system, unless it is to fail, and notes what was done.
template <class F>
auto recording(FileEvent event, F&& call) -> decltype(call()) {
  if (!is_recorded(event.path)) return call();
  Recorder& recorder = Recorder::get();
  std::function<int(const FileEvent&)> error_of;
  {
    const std::lock_guard lock(recorder.mutex);
    error_of = recorder.error_of;
  }
  if (error_of) {
    if (const int error = error_of(event); error != 0) {
      errno = error;
      return -1;
    }
  }
  const auto result = call();
  if (result < 0) return result;
  const int kept = errno;
  if (event.kind == FileEvent::Kind::kWrite) event.data.resize(static_cast<std::size_t>(result));
  const std::lock_guard lock(recorder.mutex);
  recorder.events.push_back(std::move(event));
  errno = kept;
  return result;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void record_below(const std::filesystem::path& folder) {
  Recorder& recorder = Recorder::get();
  const std::lock_guard lock(recorder.mutex);
  recorder.root = folder;
  recorder.events.clear();
}

std::vector<FileEvent> recorded() {
  Recorder& recorder = Recorder::get();
  const std::lock_guard lock(recorder.mutex);
  recorder.root.clear();
  recorder.error_of = {};
  return std::move(recorder.events);
}

void mark(const std::string& name) {
  Recorder& recorder = Recorder::get();
  const std::lock_guard lock(recorder.mutex);
  recorder.events.push_back({.kind = FileEvent::Kind::kMark, .other = name});
}

void fail_calls(std::function<int(const FileEvent&)> error_of) {
  Recorder& recorder = Recorder::get();
  const std::lock_guard lock(recorder.mutex);
  recorder.error_of = std::move(error_of);
}

// ---- A disk.

namespace {

struct Node {
  bool is_folder = false;
  std::string data;                                    // Of a file, as programs see it,
  std::string synced;                                  // and as it is on disk.
  std::map<std::string, std::shared_ptr<Node>> names;  // Of a folder, the same.
  std::map<std::string, std::shared_ptr<Node>> on_disk;
};
using NodePtr = std::shared_ptr<Node>;

// A change of a name in a folder.
struct Change {
  NodePtr folder;
  std::string name;
  NodePtr node;  // Null: removed.
};

class Disk {
 public:
  explicit Disk(std::string root) : root_path_(std::move(root)) { root_->is_folder = true; }

  void apply(const FileEvent& event) {
    using Kind = FileEvent::Kind;
    switch (event.kind) {
      case Kind::kMakeFolder:
      case Kind::kMakeFile: {
        auto node = std::make_shared<Node>();
        node->is_folder = event.kind == Kind::kMakeFolder;
        change(event.path, node);
        break;
      }
      case Kind::kWrite: {
        std::string& data = find(event.path)->data;
        const auto offset = static_cast<std::size_t>(event.offset);
        if (data.size() < offset + event.data.size()) data.resize(offset + event.data.size(), '\0');
        data.replace(offset, event.data.size(), event.data);
        break;
      }
      case Kind::kSync: {
        const NodePtr node = find(event.path);
        node->synced = node->data;
        node->on_disk = node->names;
        std::erase_if(changes_, [&](const std::vector<Change>& one) { return one.front().folder == node; });
        break;
      }
      case Kind::kRename: {
        const NodePtr node = find(event.path);
        apply_changes(
            {{parent(event.path), name(event.path), nullptr}, {parent(event.other), name(event.other), node}});
        break;
      }
      case Kind::kExchange: {
        const NodePtr one = find(event.path);
        const NodePtr two = find(event.other);
        apply_changes({{parent(event.path), name(event.path), two}, {parent(event.other), name(event.other), one}});
        break;
      }
      case Kind::kRemove:
        change(event.path, nullptr);
        break;
      case Kind::kMark:
        break;
    }
  }

  void stop(Unsynced unsynced) {
    std::size_t kept = 0;
    if (unsynced == Unsynced::kKept) kept = changes_.size();
    if (unsynced == Unsynced::kSomeKept) kept = (changes_.size() + 1) / 2;
    for (std::size_t i = 0; i < kept; ++i) {
      for (const Change& one : changes_[i]) {
        if (one.node == nullptr) {
          one.folder->on_disk.erase(one.name);
        } else {
          one.folder->on_disk[one.name] = one.node;
        }
      }
    }
  }

  void write(const std::filesystem::path& folder) const { write(*root_, folder); }

 private:
  static std::string name(const std::string& path) { return std::filesystem::path(path).filename(); }
  NodePtr parent(const std::string& path) { return find(std::filesystem::path(path).parent_path()); }

  NodePtr find(const std::filesystem::path& path) {
    NodePtr node = root_;
    const std::filesystem::path below = path.lexically_relative(root_path_);
    if (below == ".") return node;
    for (const auto& part : below) {
      const auto found = node->names.find(part);
      if (found == node->names.end()) throw std::runtime_error("no such file was recorded: " + path.string());
      node = found->second;
    }
    return node;
  }

  void change(const std::string& path, NodePtr node) { apply_changes({{parent(path), name(path), std::move(node)}}); }
  void apply_changes(std::vector<Change> together) {
    for (const Change& one : together) {
      if (one.node == nullptr) {
        one.folder->names.erase(one.name);
      } else {
        one.folder->names[one.name] = one.node;
      }
    }
    changes_.push_back(std::move(together));
  }

  static void write(const Node& node, const std::filesystem::path& path) {
    if (!node.is_folder) {
      std::ofstream(path, std::ios::binary) << node.synced;
      return;
    }
    std::filesystem::create_directories(path);
    for (const auto& [name, child] : node.on_disk) write(*child, path / name);
  }

  std::string root_path_;
  NodePtr root_ = std::make_shared<Node>();
  std::vector<std::vector<Change>> changes_;  // Of names, that are not on disk yet; those of one call are together.
};

}  // namespace

void replay(const std::vector<FileEvent>& events, std::size_t count, Unsynced unsynced,
            const std::filesystem::path& root, const std::filesystem::path& folder) {
  Disk disk(root);
  for (std::size_t i = 0; i < count; ++i) disk.apply(events[i]);
  disk.stop(unsynced);
  disk.write(folder);
}

// ---- The calls.

namespace {

int recorded_open(int directory, const char* name, int flags, mode_t mode, const char* symbol) {
  const std::string path = path_of(directory, name);
  const auto call = [&] {
    if (std::string(symbol) == "open") return next<int(const char*, int, ...)>(symbol)(name, flags, mode);
    return next<int(int, const char*, int, ...)>(symbol)(directory, name, flags, mode);
  };
  struct stat status {};
  if ((flags & O_CREAT) == 0 || ::lstat(path.c_str(), &status) == 0) return call();
  return recording({.kind = FileEvent::Kind::kMakeFile, .path = path}, call);
}

}  // namespace
}  // namespace shoal::crashes

using shoal::crashes::FileEvent;
using Kind = shoal::crashes::FileEvent::Kind;

extern "C" {

int open(const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return shoal::crashes::recorded_open(AT_FDCWD, name, flags, mode, "open");
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  const std::string path = shoal::crashes::path_of(file);
  return shoal::crashes::recording({.kind = Kind::kWrite,
                                    .path = path,
                                    .offset = offset,
                                    .data = std::string(static_cast<const char*>(data), bytes)},
                                   [&] {
                                     return shoal::crashes::next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(
                                         file, data, bytes, offset);
                                   });
}

int fsync(int file) {
  return shoal::crashes::recording({.kind = Kind::kSync, .path = shoal::crashes::path_of(file)},
                                   [&] { return shoal::crashes::next<int(int)>("fsync")(file); });
}

int mkdir(const char* name, mode_t mode) noexcept {
  return shoal::crashes::recording({.kind = Kind::kMakeFolder, .path = shoal::crashes::path_of(AT_FDCWD, name)},
                                   [&] { return shoal::crashes::next<int(const char*, mode_t)>("mkdir")(name, mode); });
}

int rename(const char* from, const char* to) noexcept {
  return shoal::crashes::recording(
      {.kind = Kind::kRename,
       .path = shoal::crashes::path_of(AT_FDCWD, from),
       .other = shoal::crashes::path_of(AT_FDCWD, to)},
      [&] { return shoal::crashes::next<int(const char*, const char*)>("rename")(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return shoal::crashes::recording({.kind = (flags & RENAME_EXCHANGE) != 0 ? Kind::kExchange : Kind::kRename,
                                    .path = shoal::crashes::path_of(from_folder, from),
                                    .other = shoal::crashes::path_of(to_folder, to)},
                                   [&] {
                                     return shoal::crashes::next<int(int, const char*, int, const char*, unsigned)>(
                                         "renameat2")(from_folder, from, to_folder, to, flags);
                                   });
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  return shoal::crashes::recording({.kind = Kind::kRemove, .path = shoal::crashes::path_of(folder, name)}, [&] {
    return shoal::crashes::next<int(int, const char*, int)>("unlinkat")(folder, name, flags);
  });
}

int rmdir(const char* name) noexcept {
  return shoal::crashes::recording({.kind = Kind::kRemove, .path = shoal::crashes::path_of(AT_FDCWD, name)},
                                   [&] { return shoal::crashes::next<int(const char*)>("rmdir")(name); });
}

int unlink(const char* name) noexcept {
  return shoal::crashes::recording({.kind = Kind::kRemove, .path = shoal::crashes::path_of(AT_FDCWD, name)},
                                   [&] { return shoal::crashes::next<int(const char*)>("unlink")(name); });
}

int remove(const char* name) noexcept {
  return shoal::crashes::recording({.kind = Kind::kRemove, .path = shoal::crashes::path_of(AT_FDCWD, name)},
                                   [&] { return shoal::crashes::next<int(const char*)>("remove")(name); });
}

}  // extern "C"
