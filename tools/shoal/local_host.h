// The processes of a job on this host.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "event_loop.h"
#include "guardian.h"
#include "host_job.h"
#include "spawn.h"

namespace shoal::tool {

/// The owner's loop calls reap() at SIGCHLD.
class LocalHost final : public Host {
 public:
  LocalHost(EventLoop& loop, Guardian& guardian, HostEvents events);
  ~LocalHost() override;

  /// Starts the processes. Process 0 gets this one's standard input if `pass_input` says so, the others get none.
  void start(const HostJob& job, bool pass_input);
  void signal(int number) override;
  bool restart(int process) override;
  /// Takes notice of processes that have ended.
  void reap();

 private:
  struct Process {
    int id = 0;
    Spawned spawned;
    bool is_running = true;
  };

  void watch(Process& process, Stream stream);
  bool read_from(Process& process, Stream stream);
  void start_to_end();
  void end();
  Descriptor& stream_of(Process& process, Stream stream) const;

  EventLoop& loop_;
  Guardian& guardian_;
  HostEvents events_;
  HostJob job_;
  std::vector<Process> processes_;
  bool is_ending_ = false;
  bool has_ended_ = false;
};

}  // namespace shoal::tool
