#include "comm/transport/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "base/env.h"
#include "comm/transport/socket_io.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// Addresses of either family, as the system's calls want them.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address own_address(int family, std::uint16_t port, Reach reach) {
  Address address;
  if (family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = reach == Reach::kHost ? in6addr_loopback : in6addr_any;
    address.size = sizeof(v6);
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(reach == Reach::kHost ? INADDR_LOOPBACK : INADDR_ANY);
    address.size = sizeof(v4);
  }
  return address;
}

// At all addresses of both families where the host has IPv6.
Socket listening_socket(int family, std::uint16_t port, Reach reach) {
  Socket listener([&] { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!listener) return {};
  const int no = 0;
  if (family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  Address address = own_address(family, port, reach);
  if (bind(listener.get(), address.get(), address.size) != 0 || listen(listener.get(), SOMAXCONN) != 0) return {};
  return listener;
}

std::uint16_t port_of(int socket) {
  Address address;
  address.size = sizeof(address.storage);
  getsockname(socket, address.get(), &address.size);
  return ntohs(address.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(address.storage).sin_port);
}

}  // namespace

PortRange port_range_from_env() {
  constexpr const char* kVariable = "SHOAL_PORT_RANGE";
  const std::optional<std::string> text = env_text(kVariable);
  if (!text) return {};
  PortRange range;
  const char* end = text->data() + text->size();
  auto [at, error] = std::from_chars(text->data(), end, range.first);
  range.last = range.first;
  if (error == std::errc() && at != end && *at == '-')
    std::tie(at, error) = [&] {
      const auto parsed = std::from_chars(at + 1, end, range.last);
      return std::pair(parsed.ptr, parsed.ec);
    }();
  if (error != std::errc() || at != end || range.first == 0 || range.last < range.first) {
    throw InvalidArgument(fmt::format(
        "{}: \"{}\" is no range of ports: two numbers from 1 to 65535, as 4000-4100, or one", kVariable, *text));
  }
  return range;
}

TcpListener listen_on_tcp(const PortRange& ports, Reach reach) {
  struct Way {
    int family;
    const char* address;
  };
  // A socket for all addresses of IPv6 takes IPv4, too; one of a loopback address takes no other.
  constexpr std::array<Way, 2> kAll = {{{AF_INET6, ""}, {AF_INET, ""}}};
  constexpr std::array<Way, 2> kLoopback = {{{AF_INET, "127.0.0.1"}, {AF_INET6, "::1"}}};
  for (int port = ports.first; port <= ports.last; ++port) {
    for (const Way& way : reach == Reach::kHost ? kLoopback : kAll) {
      Socket listener = listening_socket(way.family, static_cast<std::uint16_t>(port), reach);
      if (!listener) continue;
      const std::uint16_t found = port_of(listener.get());
      return {std::move(listener), found, way.address};
    }
  }
  const std::string what = ports.first == 0 ? "any port" : fmt::format("a port of {}-{}", ports.first, ports.last);
  throw InvalidState(fmt::format("sockets: cannot listen on {}: {}; SHOAL_PORT_RANGE=first-last allows others", what,
                                 std::strerror(errno)));
}

std::vector<std::string> host_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw InvalidState(fmt::format("sockets: getifaddrs: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::string> found;
  std::vector<std::string> loopback;
  std::set<std::string> names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    names.insert(entry->ifa_name);
    if (!interface.empty() && interface != entry->ifa_name) continue;
    // Link-local addresses mean something else on each host.
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr)) {
      continue;
    }
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : found).emplace_back(text.data());
  }
  if (found.empty()) found = loopback;
  if (found.empty() && !interface.empty()) {
    throw InvalidArgument(
        fmt::format("SHOAL_SOCKET_INTERFACE: there is no interface \"{}\" with an address; there are {}", interface,
                    fmt::join(names, ", ")));
  }
  return found;
}

Socket connect_tcp(const std::string& address, std::uint16_t port, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list); error != 0) {
    throw ProcessFailed(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  Socket made([&] { return socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!made) throw ProcessFailed(std::strerror(errno));
  if (connect(made.get(), list->ai_addr, list->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) throw ProcessFailed(std::strerror(errno));
    wait_ready(made.get(), POLLOUT, deadline);
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) throw ProcessFailed(std::strerror(error));
  }
  return made;
}

}  // namespace shoal
