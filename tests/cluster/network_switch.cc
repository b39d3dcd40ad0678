#include "network_switch.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <system_error>

namespace shoal::cluster {

namespace {

using Clock = std::chrono::steady_clock;

int checked(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

// The end of a new eth0 in the network namespace of a process. Called by a thread that may move there.
int make_port(pid_t host) {
  const int space = checked(open(("/proc/" + std::to_string(host) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC), "ns");
  checked(setns(space, CLONE_NEWNET), "setns");
  close(space);
  const int port = checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strcpy(request.ifr_name, "eth0");
  checked(ioctl(port, TUNSETIFF, &request), "TUNSETIFF");
  return port;
}

struct Frame {
  Clock::time_point due;
  std::size_t to;
  std::string bytes;
};

}  // namespace

NetworkSwitch::NetworkSwitch(const std::vector<pid_t>& hosts) : stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::exception_ptr failure;
  std::thread([&] {  // This one stays where it is.
    try {
      for (const pid_t host : hosts) ports_.push_back(make_port(host));
    } catch (...) {
      failure = std::current_exception();
    }
  })
      .join();
  if (failure) std::rethrow_exception(failure);
  thread_ = std::thread([this] { run(); });
}

NetworkSwitch::~NetworkSwitch() {
  eventfd_write(stop_, 1);
  thread_.join();
  for (const int port : ports_) close(port);
  close(stop_);
}

void NetworkSwitch::run() {
  std::map<std::string, std::size_t> ports_by_address;
  std::deque<Frame> frames;
  std::mt19937 random(1);
  std::uniform_real_distribution<> chance(0, 1);
  std::array<char, 1 << 16> bytes;
  std::vector<pollfd> entries{{stop_, POLLIN, 0}};
  for (const int port : ports_) entries.push_back({port, POLLIN, 0});
  while (entries[0].revents == 0) {
    timespec most{1, 0};
    if (!frames.empty()) {
      const auto left = std::max(frames.front().due - Clock::now(), Clock::duration::zero());
      most = {0, std::chrono::nanoseconds(left).count()};
    }
    ppoll(entries.data(), entries.size(), &most, nullptr);
    for (std::size_t from = 0; from < ports_.size(); ++from) {
      ssize_t size = 0;
      while (entries[from + 1].revents != 0 && (size = read(ports_[from], bytes.data(), bytes.size())) >= 12) {
        const std::string frame(bytes.data(), static_cast<std::size_t>(size));
        num_bytes_ += size;
        ports_by_address[frame.substr(6, 6)] = from;
        const auto known = ports_by_address.find(frame.substr(0, 6));
        for (std::size_t to = 0; to < ports_.size(); ++to) {
          if (to == from || (known != ports_by_address.end() && known->second != to)) continue;
          if (chance(random) < loss_) {
            ++num_lost_;
          } else {
            frames.push_back({Clock::now() + std::chrono::microseconds(delay_), to, frame});
          }
        }
      }
    }
    for (; !frames.empty() && frames.front().due <= Clock::now(); frames.pop_front()) {
      // A full queue loses frames, as that of any switch.
      const std::string& frame = frames.front().bytes;
      if (write(ports_[frames.front().to], frame.data(), frame.size()) < 0) ++num_lost_;
    }
  }
}

}  // namespace shoal::cluster
