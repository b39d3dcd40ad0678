#include "host_job.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor.h"

namespace shoal::tool {

std::vector<std::string> environment_of(const HostJob& job, int local_index) {
  std::vector<std::string> environment = {
      fmt::format("SHOAL_RUN_PROCESS_ID={}", job.first_process + local_index),
      fmt::format("SHOAL_RUN_NUM_PROCESSES={}", job.num_processes),
      fmt::format("SHOAL_RUN_LOCAL_INDEX={}", local_index),
      fmt::format("SHOAL_RUN_LOCAL_COUNT={}", job.local_count),
      fmt::format("SHOAL_RUN_COORDINATOR_ADDRESS={}", job.coordinator_address),
      fmt::format("SHOAL_RUN_JOB_ID={}", job.id),
      fmt::format("SHOAL_SECRET={}", job.secret),
  };
  environment.insert(environment.end(), job.environment.begin(), job.environment.end());
  return environment;
}

ReservedPort::ReservedPort(const std::string& address) {
  socket_ = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  const int yes = 1;
  checked(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setsockopt");
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &place.sin_addr);
  socklen_t size = sizeof place;
  checked(bind(socket_, reinterpret_cast<sockaddr*>(&place), size), "bind");
  checked(getsockname(socket_, reinterpret_cast<sockaddr*>(&place), &size), "getsockname");
  number_ = ntohs(place.sin_port);
}

ReservedPort::~ReservedPort() { close(socket_); }

}  // namespace shoal::tool
