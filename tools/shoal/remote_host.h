// The processes of a job on another host, where an agent runs them.
#pragma once

#include <functional>
#include <string>

#include "agent_frames.h"
#include "event_loop.h"
#include "guardian.h"
#include "host_job.h"
#include "spawn.h"

namespace shoal::tool {

/// Starts `shoal agent` there over ssh, and gives it the job on its standard input. Nothing of it is in any argument.
class RemoteHost final : public Host {
 public:
  /// `on_ready` is called once the agent waits for start(), with the port that it has reserved if it was to reserve
  /// one.
  RemoteHost(EventLoop& loop, Guardian& guardian, HostEvents events, std::string name);
  ~RemoteHost() override;

  void connect(const HostJob& job, bool reserve_port, std::function<void(int port)> on_ready);
  void start(const std::string& coordinator_address);
  void signal(int number) override;
  const std::string& name() const { return name_; }
  bool is_ready() const { return is_ready_; }

  /// Gives the host up, if it has not ended.
  void give_up(const std::string& why);

 private:
  void send(const std::string& bytes);
  void write_pending();
  void read_frames();
  void read_errors();
  bool read_greeting(std::string_view bytes);
  void handle(const Frame& frame);
  void finish();

  EventLoop& loop_;
  Guardian& guardian_;
  HostEvents events_;
  std::string name_;
  std::function<void(int)> on_ready_;
  std::string job_;
  bool reserve_port_ = false;
  Spawned ssh_;
  std::string to_send_;
  std::string greeting_;
  FrameReader frames_;
  bool is_greeted_ = false;
  bool is_ready_ = false;
  bool is_started_ = false;
  bool has_ended_ = false;
};

}  // namespace shoal::tool
