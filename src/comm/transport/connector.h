// Makes the channels of a process to its peers.
//
// Each process listens, and publishes a card that says where. Whoever first needs a channel connects: by shared memory
// if that shows that both are on one host, else by TCP. If two processes connect to each other at the same time, the
// connection of the one with the lower number stays.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "comm/transport/channel.h"
#include "comm/transport/handshake.h"
#include "comm/transport/shared_memory_channel.h"
#include "comm/transport/socket_channel.h"
#include "comm/transport/socket_loop.h"
#include "comm/transport/tcp.h"

namespace shoal {

struct ConnectorOptions {
  SharedMemoryOptions shared_memory = {};
  SocketOptions sockets = {};
  /// Where the peers are. If all are on this host, no other can even try to connect.
  Reach reach = Reach::kAllHosts;
  /// Where peers on other hosts, if there are any, reach this process, as the address by which it reached a common
  /// service; numbers, not names. Empty: the addresses of all network interfaces.
  std::vector<std::string> addresses = {};
  /// How long a connection may take that a peer has begun.
  std::chrono::milliseconds greeting_timeout{10'000};
  /// How many may be under way of which it is not known yet who has begun them. The next ones wait until one is known,
  /// or has taken longer than the patience with it, and is closed.
  std::size_t strangers = 64;
  std::chrono::milliseconds patience{1000};
};

/// May be used from any thread, but for the channels.
class Connector {
 public:
  /// Listens, as process number `process` of the job with this key. SHOAL_TRANSPORT=shm or socket forces how to
  /// connect; with mpi there is no connection to make. Throws InvalidArgument if a variable is malformed, InvalidState
  /// if the system does not let it listen.
  Connector(int process, JobKey key, const ConnectorOptions& options = {});
  /// Closes all channels.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// What peers need to know to connect to this process: text.
  const std::string& card() const { return card_; }

  /// The channel to a peer, which has published `card`; made by the first call on either side. It lives as long as the
  /// connector. Of the peer's addresses, `likely` is tried first if it is one of them. Throws ProcessFailed if the peer
  /// is not there or is not the one of the card, or DeadlineExceeded; either names the peer, and what was tried.
  Channel& channel(int peer, const std::string& card, Clock::time_point deadline, const std::string& likely = {});

 private:
  /// The way to a peer.
  struct Link {
    std::unique_ptr<Channel> channel;
    bool connecting = false;  // This process is,
    bool accepting = false;   // or the peer.
  };
  /// A connection that a peer has begun.
  struct Greeting {
    Socket socket;
    Clock::time_point begin = Clock::now();
    std::thread thread;
    bool is_stranger = true;  // It has not proved yet what it is.
    bool over = false;
  };

  void listen_for_peers();
  bool make_room(std::unique_lock<std::mutex>& lock);
  void accept_from(int listener);
  void answer(Greeting& greeting);
  std::unique_ptr<Channel> connect_to(int peer, const std::string& card, Clock::time_point deadline,
                                      const std::string& likely);
  std::unique_ptr<Channel> make_channel(int peer, Socket socket, Clock::time_point deadline);

  const int process_;
  const JobKey key_;
  const ConnectorOptions options_;
  bool may_share_memory_ = true;
  bool may_use_sockets_ = true;
  std::string boot_;  // Tells hosts apart, and one before and after it started anew.
  std::string card_;
  FileDescriptor stop_;  // Readable when the connector ends.
  std::vector<Socket> listeners_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::unique_ptr<SocketLoop> loop_;  // Made when the first channel needs it.
  std::map<int, Link> links_;
  std::list<Greeting> greetings_;
  bool stopping_ = false;
  std::thread listening_;  // The last: it uses all others.
};

}  // namespace shoal
