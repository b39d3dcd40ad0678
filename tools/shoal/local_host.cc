#include "local_host.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace shoal::tool {

namespace {

// How long what processes leave behind may take to end after SIGTERM.
constexpr auto kPatienceWithRemains = std::chrono::milliseconds(500);

// What Linux lets a pipe hold unless told otherwise, 1 MiB at most, in pieces of read_from().
constexpr int kMostPiecesOfPipe = 16;

bool group_exists(pid_t group) { return kill(-group, 0) == 0; }

}  // namespace

LocalHost::LocalHost(EventLoop& loop, Guardian& guardian, HostEvents events)
    : loop_(loop), guardian_(guardian), events_(std::move(events)) {}

LocalHost::~LocalHost() {
  for (Process& process : processes_) {
    loop_.unwatch(process.spawned.output.get());
    loop_.unwatch(process.spawned.errors.get());
  }
}

void LocalHost::start(const HostJob& job, bool pass_input) {
  job_ = job;
  processes_.reserve(static_cast<std::size_t>(job.local_count));
  for (int index = 0; index < job.local_count; ++index) {
    const int id = job.first_process + index;
    SpawnOptions options = {job.arguments, environment_of(job, index), job.folder};
    if (id == 0 && pass_input) options.input = SpawnOptions::Input::kInherited;
    try {
      processes_.push_back({id, spawn(options)});
    } catch (const std::system_error& error) {
      // As shells have it: not found, or not to be run.
      const int exit_code = error.code() == std::errc::no_such_file_or_directory ? 127 : 126;
      for (const Process& process : processes_) kill(-process.spawned.pid, SIGKILL);
      events_.on_failure(error.what(), exit_code);
      return;
    }
    guardian_.add(processes_.back().spawned.pid);
    events_.on_start(id, processes_.back().spawned.pid);
  }
  for (Process& process : processes_) {
    watch(process, Stream::kOutput);
    watch(process, Stream::kErrors);
  }
}

Descriptor& LocalHost::stream_of(Process& process, Stream stream) const {
  return stream == Stream::kOutput ? process.spawned.output : process.spawned.errors;
}

void LocalHost::watch(Process& process, Stream stream) {
  const int descriptor = stream_of(process, stream).get();
  set_nonblocking(descriptor);
  loop_.watch(descriptor, EPOLLIN, [this, &process, stream] { read_from(process, stream); });
}

/// Passes on what has been printed, a piece of it. False if there was nothing.
bool LocalHost::read_from(Process& process, Stream stream) {
  Descriptor& descriptor = stream_of(process, stream);
  if (!descriptor.is_open()) return false;
  std::array<char, 1 << 16> bytes;
  const ssize_t count = read(descriptor.get(), bytes.data(), bytes.size());
  if (count > 0) {
    events_.on_output(process.id, stream, {bytes.data(), static_cast<std::size_t>(count)});
    return true;
  }
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    loop_.unwatch(descriptor.get());
    descriptor.close();
    if (is_ending_) end();
  }
  return false;
}

void LocalHost::signal(int number) {
  for (const Process& process : processes_) {
    if (process.is_running) kill(-process.spawned.pid, number);
  }
}

bool LocalHost::restart(int id) {
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p.id == id; });
  if (found == processes_.end() || found->is_running || is_ending_) return false;
  Process& process = *found;
  // What it has left in its group is of no use to the new one.
  kill(-process.spawned.pid, SIGKILL);
  guardian_.remove(process.spawned.pid);
  for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
    if (!stream_of(process, stream).is_open()) continue;
    loop_.unwatch(stream_of(process, stream).get());
    stream_of(process, stream).close();
  }
  try {
    process.spawned = spawn({job_.arguments, environment_of(job_, id - job_.first_process), job_.folder});
  } catch (const std::system_error&) {
    return false;
  }
  process.is_running = true;
  guardian_.add(process.spawned.pid);
  events_.on_start(id, process.spawned.pid);
  watch(process, Stream::kOutput);
  watch(process, Stream::kErrors);
  return true;
}

void LocalHost::reap() {
  for (Process& process : processes_) {
    int status = 0;
    if (!process.is_running || waitpid(process.spawned.pid, &status, WNOHANG) != process.spawned.pid) continue;
    process.is_running = false;
    // All that it has printed, which a pipe holds, comes before its end. Its children may go on printing.
    for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
      for (int pieces = kMostPiecesOfPipe; pieces > 0 && read_from(process, stream); --pieces) {
      }
    }
    events_.on_exit(process.id, status);
  }
  const bool all = std::none_of(processes_.begin(), processes_.end(), [](const auto& p) { return p.is_running; });
  if (all && !is_ending_) start_to_end();
}

/// The processes have ended. What they have left in their groups is asked to end, and then killed. As long as there is
/// some it holds the pipes, in which last output may be, too.
void LocalHost::start_to_end() {
  is_ending_ = true;
  for (const Process& process : processes_) {
    if (group_exists(process.spawned.pid)) kill(-process.spawned.pid, SIGTERM);
  }
  loop_.after(kPatienceWithRemains, [this] {
    if (has_ended_) return;
    for (const Process& process : processes_) kill(-process.spawned.pid, SIGKILL);
    // What has left its group may hold a pipe for ever.
    loop_.after(kPatienceWithRemains, [this] {
      for (Process& process : processes_) {
        for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
          loop_.unwatch(stream_of(process, stream).get());
          stream_of(process, stream).close();
        }
      }
      end();
    });
  });
  end();
}

void LocalHost::end() {
  const bool is_silent = std::none_of(processes_.begin(), processes_.end(), [](const Process& process) {
    return process.spawned.output.is_open() || process.spawned.errors.is_open();
  });
  if (!is_silent || has_ended_) return;
  has_ended_ = true;
  for (const Process& process : processes_) {
    kill(-process.spawned.pid, SIGKILL);
    guardian_.remove(process.spawned.pid);
  }
  events_.on_end();
}

}  // namespace shoal::tool
