// The connections of the coordination service: how they are accepted, read frame by frame, written and closed. Who is
// at the other end, and what the frames mean, is the affair of the service.
#pragma once

#define BOOST_ASIO_NO_DEPRECATED

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributed/net.h"
#include "distributed/protocol.h"

namespace shoal::distributed {

/// One connection, from accept to its end.
struct Connection {
  Connection(boost::asio::io_context& io, Socket accepted, int family);
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void close();

  Socket owner;
  boost::asio::generic::stream_protocol::socket socket;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  Address remote;
  std::string in, out;
  bool writing = false;  // A handler waits until the socket takes more of `out`.
  bool ending = false;   // Closed as soon as `out` is empty.
  std::optional<Nonce> nonce;
  Seals seals;
  int process = -1;  // -1: a stranger.
};
using ConnectionPtr = std::shared_ptr<Connection>;

/// Calls `f` after this time, unless the timer is used anew or cancelled before.
template <class F>
void after(boost::asio::steady_timer& timer, std::chrono::steady_clock::duration time, F f) {
  timer.expires_after(time);
  timer.async_wait([f = std::move(f)](boost::system::error_code error) {
    if (!error) f();
  });
}

/// All functions, and all events, are called by the thread that runs the context.
class Connections {
 public:
  struct Events {
    /// A frame has come. Throws Malformed if it does not belong there.
    std::function<void(const ConnectionPtr&, const FrameView&)> frame;
    /// What has come is no frame, or was Malformed, and why. Nothing more is read if the connection is closed.
    std::function<void(const ConnectionPtr&, const std::string& why)> malformed;
    /// The other side has ended the connection, or does not read what it is sent: to be dropped.
    std::function<void(const ConnectionPtr&, const std::string& why)> lost;
    /// The connection was dropped.
    std::function<void(const ConnectionPtr&)> dropped;
  };

  /// Accepts at `listener`. A host that does not answer for `timeout` ends its connection.
  Connections(boost::asio::io_context& io, Socket listener, std::chrono::milliseconds timeout, Events events);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  Address address() const { return local_address(listener_.get()); }
  /// Those that nobody has made a member's yet, the oldest first.
  const std::list<ConnectionPtr>& strangers() const { return strangers_; }

  /// From now on this is the connection of a process.
  void make_member(const ConnectionPtr& connection, int process);
  /// Sends a frame without waiting; nothing if the connection is null or closed.
  void send(const ConnectionPtr& connection, MessageType type, std::uint64_t seen, std::string_view body);
  /// Closes a connection, which may be null, when all that was to be sent has left.
  void end(const ConnectionPtr& connection);
  /// Closes a connection now, and forgets it.
  void drop(ConnectionPtr connection);
  /// Accepts no more.
  void stop_accepting();

 private:
  void accept();
  void admit_stranger(ConnectionPtr connection);
  void read(ConnectionPtr connection);
  void take_frames(const ConnectionPtr& connection);
  void flush(const ConnectionPtr& connection);

  boost::asio::io_context& io_;
  const std::chrono::milliseconds timeout_;
  const Events events_;
  std::list<ConnectionPtr> strangers_;
  Socket listener_;
  boost::asio::posix::stream_descriptor acceptor_;
  boost::asio::steady_timer accept_timer_;
  std::array<char, std::size_t{64} << 10> scratch_;
  bool stopping_ = false;
  bool told_full_ = false;
};

}  // namespace shoal::distributed
