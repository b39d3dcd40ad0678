#include "distributed/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <sstream>
#include <system_error>

#include "shoal/error.h"

namespace shoal::distributed {
namespace {

const sockaddr* as_sockaddr(const Endpoint& endpoint) { return reinterpret_cast<const sockaddr*>(&endpoint.storage); }

void set_option(int socket, int level, int name, int value) {
  // What the system does not know is no harm: heartbeats notice everything, only later.
  ::setsockopt(socket, level, name, &value, sizeof(value));
}

Address to_address(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, ntohs(v4.sin_port)};
  }
  if (storage.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return {text, ntohs(v6.sin6_port)};
}

Socket listen_on(const Endpoint& endpoint, const Address& address) {
  Socket socket([&] { return ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (endpoint.family() == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!socket || ::bind(socket.get(), as_sockaddr(endpoint), endpoint.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    std::string remedy;
    if (error == EADDRINUSE) remedy = "; another program, or a job that has not ended, uses the port: choose another";
    if (error == EADDRNOTAVAIL) {
      remedy =
          "; this machine does not have the address: process 0 must run where coordinator_address leads, or be "
          "given coordinator_bind_address";
    }
    throw DistributedError(fmt::format("distributed::initialize: the coordinator cannot listen at {}: {}{}",
                                       to_string(address), error_text(error), remedy));
  }
  return socket;
}

}  // namespace

Address parse_address(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    const bool is_plain = host.find(':') == std::string_view::npos;
    if (error == std::errc() && end == digits.data() + digits.size() && !host.empty() && (bracketed || is_plain)) {
      return {std::string(host), port};
    }
  }
  throw InvalidArgument(
      fmt::format("distributed::initialize: {} is \"{}\"; allowed: host:port or [IPv6]:port, such as "
                  "node1:8476",
                  what, text));
}

std::string to_string(const Address& address) {
  if (address.host.empty()) return fmt::format("port {}", address.port);
  if (address.host.find(':') != std::string::npos) return fmt::format("[{}]:{}", address.host, address.port);
  return fmt::format("{}:{}", address.host, address.port);
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

std::vector<Endpoint> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<Endpoint> endpoints;
  std::string failures;
  std::istringstream hosts(address.host);
  for (std::string host; std::getline(hosts, host, ',');) {
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
    if (error != 0) {
      failures += fmt::format("{}the host name \"{}\" cannot be resolved: {}", failures.empty() ? "" : "; ", host,
                              error == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(error));
      continue;
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
      Endpoint endpoint;
      endpoint.size = info->ai_addrlen;
      std::memcpy(&endpoint.storage, info->ai_addr, info->ai_addrlen);
      endpoints.push_back(endpoint);
    }
  }
  if (endpoints.empty()) throw DistributedError(failures);
  return endpoints;
}

Socket listen_at(const Address& address) {
  if (!address.host.empty()) return listen_on(resolve(address).front(), address);
  Endpoint all;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(all.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  v6.sin6_addr = in6addr_any;
  all.size = sizeof(sockaddr_in6);
  const Socket probe([] { return ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  if (probe) return listen_on(all, address);
  all = {};  // A kernel without IPv6.
  auto& v4 = reinterpret_cast<sockaddr_in&>(all.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  all.size = sizeof(sockaddr_in);
  return listen_on(all, address);
}

Socket connect_to(const Endpoint& to, std::chrono::steady_clock::time_point deadline, std::string& why) {
  Socket socket([&] { return ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  int error = 0;
  if (!socket || ::connect(socket.get(), as_sockaddr(to), to.size) != 0) error = errno;
  if (error == EINPROGRESS) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{socket.get(), POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    socklen_t size = sizeof(error);
    if (ready <= 0) {
      error = ready == 0 ? ETIMEDOUT : errno;
    } else {
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    const std::string host = to_address(to.storage).host;
    // Debian's list of hosts makes a host's own name 127.0.1.1; who copies it to other hosts misleads them.
    const bool is_misleading = is_loopback(host) && host != "127.0.0.1" && host != "::1";
    why = fmt::format("{}{}: {}", host, is_misleading ? " (this host itself)" : "", error_text(error));
    return {};
  }
  // Where nobody listens, a port that the system chose for this end can be the one that was asked for.
  if (local_address(socket.get()) == remote_address(socket.get())) {
    why = error_text(ECONNREFUSED);
    return {};
  }
  return socket;
}

void set_control_options(int socket, std::chrono::milliseconds timeout) {
  const auto seconds = static_cast<int>(std::clamp<std::int64_t>(timeout.count() / 4000, 1, 3600));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(std::clamp<std::int64_t>(timeout.count(), 1, 1 << 30)));
}

Address remote_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return to_address(storage);
}

Address local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return to_address(storage);
}

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace shoal::distributed
