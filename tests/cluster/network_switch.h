// A network switch in this process, between hosts that are network namespaces. It can lose frames, delay them, and cut
// hosts off; this is for kernels without netem.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace shoal::cluster {

class NetworkSwitch {
 public:
  /// Makes the interface eth0 in the network namespace of each of these processes. Throws std::system_error.
  explicit NetworkSwitch(const std::vector<pid_t>& hosts);
  ~NetworkSwitch();
  NetworkSwitch(const NetworkSwitch&) = delete;
  NetworkSwitch& operator=(const NetworkSwitch&) = delete;

  /// Of each frame, from now on.
  void set_delay(std::chrono::microseconds delay) { delay_ = delay.count(); }
  /// The part of all frames that is lost; which ones is the same in each run, but for the order in which they come.
  void set_loss(double part) { loss_ = part; }
  /// The number of frames that were lost.
  long num_lost() const { return num_lost_; }
  /// The bytes of all frames that came so far.
  long num_bytes() const { return num_bytes_; }

 private:
  void run();

  std::vector<int> ports_;
  int stop_ = -1;
  std::atomic<long> delay_ = 0;
  std::atomic<double> loss_ = 0;
  std::atomic<long> num_lost_ = 0;
  std::atomic<long> num_bytes_ = 0;
  std::thread thread_;
};

}  // namespace shoal::cluster
