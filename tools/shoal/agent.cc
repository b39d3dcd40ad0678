#include "agent.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>

#include "agent_frames.h"
#include "event_loop.h"
#include "guardian.h"
#include "local_host.h"
#include "output.h"

namespace shoal::tool {

namespace {

constexpr auto kPatienceWhenAbandoned = std::chrono::seconds(2);

class Agent {
 public:
  Agent() : host_(loop_, guardian_, events()) {}

  int run() {
    loop_.on_signals({SIGCHLD}, [this](int) { host_.reap(); });
    // ssh tells of its end by the end of standard input, and some by a signal, too.
    loop_.on_signals({SIGHUP, SIGINT, SIGTERM}, [this](int) { abandon(); });
    set_nonblocking(STDIN_FILENO);
    loop_.watch(STDIN_FILENO, EPOLLIN, [this] { read_input(); });
    put(fmt::format("{}{}\n", kGreeting, SHOAL_VERSION));
    loop_.run();
    return 0;
  }

 private:
  HostEvents events() {
    return {.on_start = [this](int process, int pid) { put(encode_frame(FrameType::kStarted, process, pid)); },
            .on_output =
                [this](int process, Stream stream, std::string_view bytes) {
                  const FrameType type = stream == Stream::kOutput ? FrameType::kOutput : FrameType::kErrors;
                  put(encode_frame(type, process, 0, bytes));
                },
            .on_exit = [this](int process, int status) { put(encode_frame(FrameType::kExit, process, status)); },
            .on_end =
                [this] {
                  put(encode_frame(FrameType::kEnd, 0, 0));
                  loop_.stop();
                },
            .on_failure = [this](const std::string& text, int exit_code) { fail(text, exit_code); }};
  }

  void put(const std::string& bytes) {
    if (!is_abandoned_ && !write_all(STDOUT_FILENO, bytes)) abandon();
  }

  void fail(const std::string& text, int exit_code) {
    put(encode_frame(FrameType::kFailure, 0, exit_code, text));
    loop_.stop();
  }

  /// Nobody is there any more for whom to run the processes.
  void abandon() {
    if (is_abandoned_) return;
    is_abandoned_ = true;
    loop_.unwatch(STDIN_FILENO);
    if (!has_started_) return loop_.stop();
    host_.signal(SIGTERM);
    loop_.after(kPatienceWhenAbandoned, [this] { host_.signal(SIGKILL); });
  }

  void read_input() {
    std::array<char, 1 << 16> bytes;
    const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return abandon();
    frames_.append({bytes.data(), static_cast<std::size_t>(count)});
    try {
      while (const auto frame = frames_.next()) handle(*frame);
    } catch (const std::exception& error) {
      fail(error.what(), 1);
    }
  }

  void handle(const Frame& frame) {
    if (frame.type == FrameType::kJob) {
      job_ = decode_job(frame.bytes);
      if (frame.value != 0) port_ = std::make_unique<ReservedPort>("0.0.0.0");
      put(encode_frame(FrameType::kReady, 0, port_ ? port_->number() : 0));
    } else if (frame.type == FrameType::kStart) {
      job_.coordinator_address = frame.bytes;
      has_started_ = true;
      host_.start(job_, false);
    } else if (frame.type == FrameType::kSignal) {
      host_.signal(frame.value);
    }
  }

  Guardian guardian_;  // first, since it forks
  EventLoop loop_;
  LocalHost host_;
  FrameReader frames_;
  HostJob job_;
  std::unique_ptr<ReservedPort> port_;
  bool has_started_ = false;
  bool is_abandoned_ = false;
};

}  // namespace

int run_agent() { return Agent().run(); }

}  // namespace shoal::tool
