// Addresses and sockets of control connections.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"

namespace shoal::distributed {

/// A host, by name or number, and a port. Where it is not known which of a host's addresses leads to it, all are named
/// with commas between them.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

/// From "host:port" or "[IPv6]:port". Throws InvalidArgument, naming `what`, for any other text.
Address parse_address(std::string_view text, std::string_view what);
std::string to_string(const Address& address);

/// Whether this is written as an address of the machine's own loopback: "localhost", 127.x.y.z or ::1. Other names do
/// not count, even where the machine's list of hosts makes them 127.0.1.1: elsewhere they mean something else.
bool is_loopback(const std::string& host);

/// A numeric address with its port, as the system calls take it.
struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
};

/// What the names of a host stand for, in their order. Throws DistributedError, naming them, if they stand for nothing.
std::vector<Endpoint> resolve(const Address& address);

/// Listens at this address; an empty host stands for all addresses of the machine, of IPv6 and IPv4, and port 0 for a
/// free port. Throws DistributedError if the port is taken, or the address is not one of this machine.
Socket listen_at(const Address& address);

/// A connection that does not block, made before the deadline; none if nobody listens, and `why` says so.
Socket connect_to(const Endpoint& to, std::chrono::steady_clock::time_point deadline, std::string& why);

/// Small messages leave at once, and a host that does not answer for `timeout` ends the connection.
void set_control_options(int socket, std::chrono::milliseconds timeout);

/// The other end of a connection, and this one; empty if it is gone. IPv4 within IPv6 is written as IPv4.
Address remote_address(int socket);
Address local_address(int socket);

/// What errno means.
std::string error_text(int error);

}  // namespace shoal::distributed
