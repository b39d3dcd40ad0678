#include "comm/transport/connector.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/env.h"
#include "base/resources.h"
#include "comm/transport/socket_io.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr int kVersion = 1;

// The address of a Unix socket that has no file: gone with its process.
struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Socket listen_on_unix(const std::string& name) {
  Socket listener([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  const UnixAddress address(name);
  if (!listener || bind(listener.get(), address.get(), address.size) != 0 || listen(listener.get(), SOMAXCONN) != 0) {
    throw InvalidState(fmt::format("shared memory: cannot listen on a Unix socket: {}", std::strerror(errno)));
  }
  return listener;
}

int family_of(int socket) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof(family);
  getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

// Memory is shared with processes of the same user only.
void check_user(int unix_socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
    throw ProcessFailed(fmt::format("it runs as user {}, and this process as {}", peer.uid, geteuid()));
  }
}

// The connection, or why there is none.
Socket connect_unix(const std::string& name, Clock::time_point deadline) {
  Socket socket_([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
  const UnixAddress address(name);
  // As long as a listener has no room in its queue it waits.
  const auto left = std::chrono::microseconds(std::chrono::milliseconds(std::max(milliseconds_until(deadline), 1)));
  const timeval most{left.count() / 1'000'000, left.count() % 1'000'000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  if (!socket_ || connect(socket_.get(), address.get(), address.size) != 0) {
    if (errno == EAGAIN) throw DeadlineExceeded("the peer did not answer in time");
    throw ProcessFailed(std::strerror(errno));
  }
  check_user(socket_.get());
  return socket_;
}

void take_no_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

Connector::Connector(int process, JobKey key, const ConnectorOptions& options)
    : process_(process), key_(key), options_(options), boot_(machine_identity()) {
  const std::optional<std::string> transport = env_choice("SHOAL_TRANSPORT", {"shm", "socket", "mpi"});
  may_share_memory_ = !transport || transport == "shm";
  may_use_sockets_ = !transport || transport == "socket";
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  nlohmann::json card{{"version", kVersion}, {"boot", boot_}};
  if (may_share_memory_) {
    const std::string name = "shoal-" + random_name(16);
    listeners_.push_back(listen_on_unix(name));
    card["unix"] = name;
  }
  if (may_use_sockets_) {
    TcpListener listener = listen_on_tcp(port_range_from_env(), options_.reach);
    card["port"] = listener.port;
    const std::optional<std::string> interface = env_text("SHOAL_SOCKET_INTERFACE");
    if (!listener.address.empty()) {
      card["addresses"] = {listener.address};
    } else if (options_.addresses.empty() || interface) {
      card["addresses"] = host_addresses(interface.value_or(""));
    } else {
      card["addresses"] = options_.addresses;
    }
    listeners_.push_back(std::move(listener.socket));
  }
  card_ = card.dump();
  listening_ = std::thread([this] { listen_for_peers(); });
}

Connector::~Connector() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Greeting& greeting : greetings_) shutdown(greeting.socket.get(), SHUT_RDWR);
  }
  changed_.notify_all();
  eventfd_write(stop_.get(), 1);
  listening_.join();
  for (Greeting& greeting : greetings_) greeting.thread.join();
}

void Connector::listen_for_peers() {
  take_no_signals();
  std::vector<pollfd> entries{{stop_.get(), POLLIN, 0}};
  for (const Socket& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
  while (true) {
    const bool ready = poll(entries.data(), entries.size(), -1) > 0;
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    if (!ready) continue;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents != 0 && make_room(lock)) accept_from(entries[i].fd);
    }
  }
}

/// Returns when there is room for one more stranger; meanwhile those who connect wait in the system's queue. False when
/// the connector ends.
bool Connector::make_room(std::unique_lock<std::mutex>& lock) {
  while (!stopping_) {
    // Those that are over have let go of all but their threads, which end at once.
    std::erase_if(greetings_, [](Greeting& greeting) {
      if (greeting.over) greeting.thread.join();
      return greeting.over;
    });
    const auto is_stranger = [](const Greeting& greeting) { return greeting.is_stranger; };
    const auto count = std::count_if(greetings_.begin(), greetings_.end(), is_stranger);
    if (static_cast<std::size_t>(count) < options_.strangers) return true;
    Greeting& oldest = *std::find_if(greetings_.begin(), greetings_.end(), is_stranger);
    if (Clock::now() < oldest.begin + options_.patience) {
      changed_.wait_until(lock, oldest.begin + options_.patience);
    } else {
      shutdown(oldest.socket.get(), SHUT_RDWR);
      oldest.is_stranger = false;  // Its thread ends it.
    }
  }
  return false;
}

/// Has a thread of its own talk to who connects: it may be slow. The caller holds mutex_.
void Connector::accept_from(int listener) {
  Socket socket_([&] { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); });
  if (!socket_) return;
  Greeting& greeting = greetings_.emplace_back();
  greeting.socket = std::move(socket_);
  try {
    greeting.thread = std::thread([this, &greeting] {
      take_no_signals();
      answer(greeting);
    });
  } catch (const std::system_error&) {
    greetings_.pop_back();  // The peer sees that it is closed, and says so.
  }
}

void Connector::answer(Greeting& greeting) {
  Link* link = nullptr;
  std::unique_ptr<Channel> channel;
  try {
    const Clock::time_point deadline = Clock::now() + options_.greeting_timeout;
    if (family_of(greeting.socket.get()) == AF_UNIX) check_user(greeting.socket.get());
    const int peer = receive_greeting(greeting.socket.get(), key_, process_, deadline);
    {
      const std::lock_guard lock(mutex_);
      greeting.is_stranger = false;
      changed_.notify_all();
      Link& found = links_[peer];
      const bool stays_with_mine = found.connecting && process_ < peer;
      if (found.channel == nullptr && !found.accepting && !stays_with_mine) {
        link = &found;
        link->accepting = true;
      }
    }
    answer_greeting(greeting.socket.get(), link != nullptr, deadline);
    if (link != nullptr) {
      Socket socket_;
      {
        const std::lock_guard lock(mutex_);
        socket_ = std::move(greeting.socket);
      }
      channel = make_channel(peer, std::move(socket_), deadline);
    }
  } catch (const std::exception&) {
    // The peer has the same failure, or is none. Whoever waits here connects by itself.
  }
  const std::lock_guard lock(mutex_);
  greeting.socket.close();
  greeting.over = true;
  changed_.notify_all();
  if (link == nullptr) return;
  link->accepting = false;
  if (link->channel == nullptr) link->channel = std::move(channel);
}

Channel& Connector::channel(int peer, const std::string& card, Clock::time_point deadline, const std::string& likely) {
  SHOAL_CHECK(peer != process_, "a channel leads to another process");
  std::unique_lock lock(mutex_);
  Link& link = links_[peer];
  while (link.channel == nullptr) {
    if (Clock::now() >= deadline) {
      throw DeadlineExceeded(fmt::format("channel to process {}: it has not answered in time", peer));
    }
    if (link.connecting || link.accepting) {
      changed_.wait_until(lock, deadline);
      continue;
    }
    link.connecting = true;
    lock.unlock();
    std::unique_ptr<Channel> made;
    std::exception_ptr failure;
    try {
      made = connect_to(peer, card, deadline, likely);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    link.connecting = false;
    changed_.notify_all();
    if (made != nullptr && link.channel == nullptr) link.channel = std::move(made);
    if (failure != nullptr && link.channel == nullptr && !link.accepting) std::rethrow_exception(failure);
    // The peer does not take the connection while it connects itself, or has just failed to.
    if (link.channel == nullptr && !link.accepting) changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return *link.channel;
}

/// The channel, or null if the peer is connecting, too, and its connection stays.
std::unique_ptr<Channel> Connector::connect_to(int peer, const std::string& card, Clock::time_point deadline,
                                               const std::string& likely) {
  const nlohmann::json found = nlohmann::json::parse(card, nullptr, false);
  if (!found.is_object() || found.value("version", 0) != kVersion) {
    throw ProcessFailed(fmt::format("channel to process {}: it runs another version of Shoal", peer));
  }
  std::vector<std::string> tried;
  bool was_late = false;
  const auto attempt = [&](const std::string& way, Clock::time_point until,
                           auto&& connect) -> std::optional<std::unique_ptr<Channel>> {
    try {
      Socket socket = connect();
      if (!greet(socket.get(), key_, process_, peer, until)) return nullptr;
      return make_channel(peer, std::move(socket), until);
    } catch (const DeadlineExceeded& error) {
      was_late = true;
      tried.push_back(fmt::format("{}: {}", way, error.what()));
    } catch (const std::exception& error) {
      tried.push_back(fmt::format("{}: {}", way, error.what()));
    }
    return std::nullopt;
  };
  if (!may_share_memory_ || !found.contains("unix")) {
    tried.emplace_back("shared memory: turned off by SHOAL_TRANSPORT");
  } else if (found.value("boot", "") != boot_) {
    tried.emplace_back("shared memory: it is on another host");
  } else if (auto made =
                 attempt("shared memory", deadline, [&] { return connect_unix(found.value("unix", ""), deadline); })) {
    return std::move(*made);
  }
  if (!may_use_sockets_ || !found.contains("port")) {
    tried.emplace_back("sockets: turned off by SHOAL_TRANSPORT");
  } else {
    auto addresses = found.value("addresses", std::vector<std::string>());
    std::stable_partition(addresses.begin(), addresses.end(), [&](const auto& address) { return address == likely; });
    const auto port = found.value("port", std::uint16_t{0});
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      // One that does not answer leaves time for the next.
      const auto until = Clock::now() + (deadline - Clock::now()) / static_cast<int>(addresses.size() - i);
      const auto connect = [&] { return connect_tcp(addresses[i], port, until); };
      if (auto made = attempt(fmt::format("{} port {}", addresses[i], port), until, connect)) return std::move(*made);
    }
  }
  const std::string text = fmt::format("channel to process {}: cannot connect: {}", peer, fmt::join(tried, "; "));
  if (was_late) throw DeadlineExceeded(text);
  throw ProcessFailed(text);
}

/// Of a connection to a peer that has proved what it is.
std::unique_ptr<Channel> Connector::make_channel(int peer, Socket socket, Clock::time_point deadline) {
  if (family_of(socket.get()) == AF_UNIX) {
    return std::make_unique<SharedMemoryChannel>(peer, std::move(socket), SharedHeap::shared(), HostAllocator::shared(),
                                                 deadline, options_.shared_memory);
  }
  {
    const std::lock_guard lock(mutex_);
    if (loop_ == nullptr) loop_ = std::make_unique<SocketLoop>();
  }
  return std::make_unique<SocketChannel>(peer, std::move(socket), *loop_, options_.sockets);
}

}  // namespace shoal
