// Listening and connecting by TCP, over IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/socket.h"
#include "comm/transport/channel.h"

namespace shoal {

/// Where a process listens.
struct TcpListener {
  Socket socket;
  std::uint16_t port;
  std::string address;  ///< The one address at which it listens; empty: all.
};

/// Who is to reach a listener.
enum class Reach : std::uint8_t {
  kHost,      ///< Processes of this host: it listens at a loopback address alone.
  kAllHosts,  ///< It listens at all addresses of this host.
};

/// Ports from `first` to `last`, both included; zeros leave the choice to the system.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

/// That of SHOAL_PORT_RANGE, as "4000-4100" or "4000". Throws InvalidArgument if it is malformed.
PortRange port_range_from_env();

/// Listens on the first port of the range that is free. Throws InvalidState if none is.
TcpListener listen_on_tcp(const PortRange& ports, Reach reach);

/// The addresses of this host's interfaces that are up, as numbers; those of the loopback interface only if there are
/// no others. `interface` names one interface, or is empty. Throws InvalidArgument if that has none, naming those there
/// are.
std::vector<std::string> host_addresses(const std::string& interface);

/// Connects to an address, which is a number. Throws ProcessFailed with the system's reason, DeadlineExceeded.
Socket connect_tcp(const std::string& address, std::uint16_t port, Clock::time_point deadline);

}  // namespace shoal
