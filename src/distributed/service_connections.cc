#include "distributed/service_connections.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/log.h"

namespace shoal::distributed {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Connections that have not joined. If there are more, the oldest gives way.
constexpr std::size_t kMaxStrangers = 1024;
// What a member may leave unread. The messages to it are small, so it has stopped reading long before.
constexpr std::size_t kMaxBacklog = std::size_t{256} << 20;

}  // namespace

Connection::Connection(asio::io_context& io, Socket accepted, int family)
    : owner(std::move(accepted)), socket(io, asio::generic::stream_protocol(family, 0), owner.get()) {}

void Connection::close() {
  if (!socket.is_open()) return;
  error_code ignored;
  socket.release(ignored);
  owner.close();
}

Connections::Connections(asio::io_context& io, Socket listener, std::chrono::milliseconds timeout, Events events)
    : io_(io),
      timeout_(timeout),
      events_(std::move(events)),
      listener_(std::move(listener)),
      acceptor_(io, listener_.get()),
      accept_timer_(io) {
  accept();
}

Connections::~Connections() {
  acceptor_.release();  // The listener closes it.
}

void Connections::make_member(const ConnectionPtr& connection, int process) {
  strangers_.remove(connection);
  connection->process = process;
}

void Connections::stop_accepting() {
  stopping_ = true;
  acceptor_.cancel();
}

void Connections::accept() {
  acceptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (error || stopping_) return;
    Endpoint from;
    from.size = sizeof(from.storage);
    Socket accepted([&] {
      return ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                       SOCK_CLOEXEC | SOCK_NONBLOCK);
    });
    if (accepted) {
      admit_stranger(std::make_shared<Connection>(io_, std::move(accepted), from.family()));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      if (!std::exchange(told_full_, true)) {
        log_warning(fmt::format("the coordination service cannot accept connections: {}; processes wait until it can",
                                error_text(errno)));
      }
      return after(accept_timer_, std::chrono::milliseconds(100), [this] { accept(); });
    }
    accept();
  });
}

void Connections::admit_stranger(ConnectionPtr connection) {
  connection->socket.non_blocking(true);
  connection->remote = remote_address(connection->socket.native_handle());
  set_control_options(connection->socket.native_handle(), timeout_);
  strangers_.push_back(connection);
  if (strangers_.size() > kMaxStrangers) drop(strangers_.front());
  read(std::move(connection));
}

void Connections::read(ConnectionPtr connection) {
  auto& socket = connection->socket;
  socket.async_wait(asio::socket_base::wait_read, [this, connection = std::move(connection)](error_code error) {
    if (!connection->socket.is_open()) return;
    // Strangers send little, and take little memory.
    const std::size_t limit = connection->process < 0 ? kMaxUntrustedBody : scratch_.size();
    const std::size_t size = error ? 0 : connection->socket.read_some(asio::buffer(scratch_, limit), error);
    if (error == asio::error::would_block || error == asio::error::interrupted) return read(connection);
    if (error || size == 0) return events_.lost(connection, error ? error.message() : "it was closed");
    if (!connection->ending) {
      connection->in.append(scratch_.data(), size);
      take_frames(connection);
    }
    if (connection->socket.is_open()) read(connection);
  });
}

void Connections::take_frames(const ConnectionPtr& connection) {
  std::size_t begin = 0;
  try {
    while (connection->socket.is_open() && !connection->ending) {
      const std::size_t limit = connection->process < 0 ? kMaxUntrustedBody : kMaxBody;
      const FrameView frame = parse_frame(std::string_view(connection->in).substr(begin), limit);
      if (frame.size == 0) break;
      begin += frame.size;
      events_.frame(connection, frame);
    }
  } catch (const Malformed& error) {
    events_.malformed(connection, error.what());
  }
  connection->in.erase(0, begin);
}

void Connections::send(const ConnectionPtr& connection, MessageType type, std::uint64_t seen, std::string_view body) {
  if (!connection || !connection->socket.is_open()) return;
  connection->out += connection->seals.to_client.frame(type, seen, body);
  if (connection->out.size() > kMaxBacklog) return events_.lost(connection, "it does not read what it is sent");
  if (!connection->writing) flush(connection);
}

void Connections::flush(const ConnectionPtr& connection) {
  error_code error;
  std::size_t sent = 0;
  while (sent < connection->out.size() && !error) {
    sent += connection->socket.write_some(asio::buffer(connection->out) + sent, error);
  }
  connection->out.erase(0, sent);
  if (error && error != asio::error::would_block && error != asio::error::interrupted) {
    connection->out.clear();  // The end of the connection is seen where it is read.
  }
  if (connection->out.empty()) {
    if (connection->ending) drop(connection);
    return;
  }
  connection->writing = true;
  connection->socket.async_wait(asio::socket_base::wait_write, [this, connection](error_code failure) {
    connection->writing = false;
    if (!failure && connection->socket.is_open()) flush(connection);
  });
}

void Connections::end(const ConnectionPtr& connection) {
  if (!connection) return;
  connection->ending = true;
  if (!connection->writing) flush(connection);
}

void Connections::drop(ConnectionPtr connection) {
  connection->close();
  strangers_.remove(connection);
  events_.dropped(connection);
}

}  // namespace shoal::distributed
