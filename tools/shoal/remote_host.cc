#include "remote_host.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/env.h"

namespace shoal::tool {

namespace {

// What a login shell may print before the agent's greeting.
constexpr std::size_t kMostBeforeGreeting = 1 << 20;

/// The command that runs another on a host: SHOAL_SSH, words with blanks between them, or ssh.
std::vector<std::string> ssh_command() {
  const auto words = env_text("SHOAL_SSH");
  // -x, -T: neither X11 nor a terminal, which would change bytes. A host that does not answer any more counts as lost.
  if (!words) return {"ssh", "-x", "-T", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"};
  std::istringstream stream(*words);
  std::vector<std::string> command;
  for (std::string word; stream >> word;) command.push_back(word);
  return command;
}

}  // namespace

RemoteHost::RemoteHost(EventLoop& loop, Guardian& guardian, HostEvents events, std::string name)
    : loop_(loop), guardian_(guardian), events_(std::move(events)), name_(std::move(name)) {}

RemoteHost::~RemoteHost() { finish(); }

void RemoteHost::connect(const HostJob& job, bool reserve_port, std::function<void(int)> on_ready) {
  job_ = encode_job(job);
  reserve_port_ = reserve_port;
  on_ready_ = std::move(on_ready);
  const std::string tool =
      env_text("SHOAL_REMOTE_TOOL").value_or(std::filesystem::read_symlink("/proc/self/exe").string());
  SpawnOptions options = {.arguments = ssh_command(), .input = SpawnOptions::Input::kPipe};
  options.arguments.push_back(name_);
  options.arguments.push_back(fmt::format("exec {} agent", shell_quoted(tool)));
  try {
    ssh_ = spawn(options);
  } catch (const std::system_error& error) {
    return give_up(error.what());
  }
  guardian_.add(ssh_.pid);
  for (const Descriptor* end : {&ssh_.input, &ssh_.output, &ssh_.errors}) set_nonblocking(end->get());
  loop_.watch(ssh_.output.get(), EPOLLIN, [this] { read_frames(); });
  loop_.watch(ssh_.errors.get(), EPOLLIN, [this] { read_errors(); });
}

void RemoteHost::start(const std::string& coordinator_address) {
  is_started_ = true;
  send(encode_frame(FrameType::kStart, 0, 0, coordinator_address));
}

void RemoteHost::signal(int number) {
  constexpr std::array kHarmless = {SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2};
  if (is_started_) {
    send(encode_frame(FrameType::kSignal, 0, number));
  } else if (std::find(kHarmless.begin(), kHarmless.end(), number) == kHarmless.end()) {
    give_up("nothing was started there yet");
  }
}

void RemoteHost::give_up(const std::string& why) {
  if (has_ended_) return;
  finish();
  events_.on_failure(fmt::format("host {}: {}", name_, why), 255);
}

void RemoteHost::send(const std::string& bytes) {
  if (has_ended_) return;
  to_send_ += bytes;
  write_pending();
}

void RemoteHost::write_pending() {
  while (!to_send_.empty()) {
    const ssize_t count = write(ssh_.input.get(), to_send_.data(), to_send_.size());
    if (count < 0) {
      // A broken pipe shows at the other end, too, with what ssh has to say about it.
      if (errno == EAGAIN) loop_.watch(ssh_.input.get(), EPOLLOUT, [this] { write_pending(); });
      return;
    }
    to_send_.erase(0, static_cast<std::size_t>(count));
  }
  loop_.unwatch(ssh_.input.get());
}

void RemoteHost::read_frames() {
  std::array<char, 1 << 16> bytes;
  const ssize_t count = read(ssh_.output.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    read_errors();
    return give_up(is_greeted_ ? "its connection has ended"
                               : fmt::format("`shoal agent` could not be started there. Is Shoal installed under the "
                                             "same path as here? SHOAL_REMOTE_TOOL names another"));
  }
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  if (is_greeted_) {
    frames_.append(text);
  } else if (!read_greeting(text)) {
    return;
  }
  try {
    while (!has_ended_) {
      const auto frame = frames_.next();
      if (!frame) break;
      handle(*frame);
    }
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

/// Looks for the agent's first line; then sends the job. True if frames may follow.
bool RemoteHost::read_greeting(std::string_view bytes) {
  greeting_ += bytes;
  const std::size_t start = greeting_.find(kGreeting);
  const std::size_t end = start == std::string::npos ? start : greeting_.find('\n', start);
  if (end == std::string::npos) {
    if (greeting_.size() > kMostBeforeGreeting) give_up("something else than `shoal agent` answers there");
    return false;
  }
  const std::string version = greeting_.substr(start + kGreeting.size(), end - start - kGreeting.size());
  if (version != SHOAL_VERSION) {
    give_up(fmt::format("Shoal {} is installed there, this is {}", version, SHOAL_VERSION));
    return false;
  }
  is_greeted_ = true;
  frames_.append(std::string_view(greeting_).substr(end + 1));
  send(encode_frame(FrameType::kJob, 0, reserve_port_ ? 1 : 0, job_));
  return true;
}

/// What ssh and the agent print to standard error goes on to ours.
void RemoteHost::read_errors() {
  std::array<char, 1 << 12> bytes;
  for (;;) {
    const ssize_t count = read(ssh_.errors.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) loop_.unwatch(ssh_.errors.get());
    if (count <= 0) return;
    fmt::print(stderr, "{}", std::string_view(bytes.data(), static_cast<std::size_t>(count)));
  }
}

void RemoteHost::handle(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kReady:
      is_ready_ = true;
      return on_ready_(frame.value);
    case FrameType::kStarted:
      return events_.on_start(frame.process, frame.value);
    case FrameType::kOutput:
      return events_.on_output(frame.process, Stream::kOutput, frame.bytes);
    case FrameType::kErrors:
      return events_.on_output(frame.process, Stream::kErrors, frame.bytes);
    case FrameType::kExit:
      return events_.on_exit(frame.process, frame.value);
    case FrameType::kEnd:
      finish();
      return events_.on_end();
    case FrameType::kFailure:
      finish();
      return events_.on_failure(fmt::format("host {}: {}", name_, frame.bytes), frame.value);
    default:
      return give_up("what came is not of this protocol");
  }
}

/// Ends the connection. That is the end of standard input for the agent, should it still be there.
void RemoteHost::finish() {
  if (has_ended_) return;
  has_ended_ = true;
  if (ssh_.pid == 0) return;
  for (Descriptor* end : {&ssh_.input, &ssh_.output, &ssh_.errors}) {
    loop_.unwatch(end->get());
    end->close();
  }
}

}  // namespace shoal::tool
