// A thread that moves bytes over sockets while those who use them compute.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"

namespace shoal {

/// May be used from any thread. Threads that wait for a socket move its bytes themselves, which is quicker; so one that
/// was in use a moment ago is left to them.
class SocketLoop {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    /// What a ready socket leads to. Returns the events of epoll to wait for next, or kLater.
    virtual std::uint32_t on_ready() = 0;
    static constexpr std::uint32_t kLater = ~std::uint32_t{0};
  };

  SocketLoop();
  /// All clients have been removed.
  ~SocketLoop();
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  /// Takes a client, and calls it from now on when one of the events it has asked for is there: none at first. Returns
  /// its number.
  std::uint64_t add(int socket, Client& client);
  /// Does not return while the client is being called.
  void remove(std::uint64_t number, int socket);
  /// Waits for these events from now on, instead of those before, until on_ready() is called.
  void await(std::uint64_t number, int socket, std::uint32_t events) const;

 private:
  void run();
  void call(std::uint64_t number);

  static constexpr std::chrono::milliseconds kMoment{1};

  struct Entry {
    int socket;
    Client* client;
  };

  FileDescriptor epoll_;
  FileDescriptor stop_;
  std::mutex mutex_;  // Held while clients are called. Guards what follows.
  std::map<std::uint64_t, Entry> clients_;
  std::uint64_t next_number_ = 1;
  std::vector<std::uint64_t> later_;
  std::thread thread_;
};

}  // namespace shoal
