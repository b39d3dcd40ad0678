#include "distributed/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "distributed/control.h"
#include "distributed/protocol.h"
#include "shoal/error.h"
#include "shoal/log.h"

namespace shoal::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// Warnings are expected here, and kept.
class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      log_ += std::string(text) + "\n";
    });
  }
  ~ServiceTest() override { set_log_sink(nullptr); }

  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  static ServiceOptions service_options(int num_processes) {
    return {.version = "1",
            .job = "job",
            .num_processes = num_processes,
            .host_identity = "host 0",
            .heartbeat_timeout = 3s};
  }
  static std::unique_ptr<Control> join(const Address& service, int process, int num_processes,
                                       std::optional<Secret> secret = std::nullopt) {
    const std::string host = std::to_string(process);
    return std::make_unique<Control>(ControlOptions{.coordinator = service,
                                                    .join = {.version = "1",
                                                             .job = "job",
                                                             .num_processes = num_processes,
                                                             .me = {.process = process,
                                                                    .host = host,
                                                                    .host_identity = "host " + host,
                                                                    .pid = 1,
                                                                    .address = "",
                                                                    .incarnation = random_number(),
                                                                    .card = ""},
                                                             .timeout = 5s},
                                                    .secret = std::move(secret)});
  }
  static ControlEvents no_events() {
    return {[](const std::vector<Fault>&) {}, [](int) {}, [] { return std::string(); },
            [](const std::vector<int>&) { return std::string(); }};
  }

 private:
  std::mutex mutex_;
  std::string log_;
};

Socket connect(const Address& address) {
  std::string why;
  Socket socket = connect_to(resolve(address).front(), Clock::now() + 5s, why);
  EXPECT_TRUE(socket) << why;
  return socket;
}

/// All that comes until the other side closes, or the time is over; then `open` is true.
std::string read_all(const Socket& socket, bool& open, std::chrono::milliseconds timeout = 5s) {
  const auto deadline = Clock::now() + timeout;
  std::string text;
  open = true;
  while (Clock::now() < deadline) {
    pollfd waiting{socket.get(), POLLIN, 0};
    ::poll(&waiting, 1, 10);
    std::array<char, 4096> buffer;
    const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0) text.append(buffer.data(), static_cast<std::size_t>(size));
    open = size != 0 && (size > 0 || errno == EAGAIN || errno == EINTR);
    if (!open) break;
  }
  return text;
}

void write_all(const Socket& socket, std::string_view bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

TEST_F(ServiceTest, StrangersAreRefusedAndNothingElseIsDisturbed) {
  ServiceOptions options = service_options(2);
  options.handshake_timeout = 1s;
  Service service(listen_at({"127.0.0.1", 0}), options);
  const Address address = service.address();
  std::vector<std::unique_ptr<Control>> controls(2);
  std::thread other([&] { controls[1] = join(address, 1, 2); });
  controls[0] = join(address, 0, 2);
  other.join();
  for (auto& control : controls) control->run(no_events());
  Client client(std::shared_ptr<Client::Transport>(std::move(controls[0])));

  bool open = false;
  const Socket browser = connect(address);
  write_all(browser, "GET / HTTP/1.1\r\nHost: me\r\n\r\n");
  EXPECT_THAT(read_all(browser, open), HasSubstr("not the frames of Shoal"));
  EXPECT_FALSE(open);

  const Socket oversized = connect(address);
  std::string header = Seal().frame(MessageType::kHello, 0, "");
  header[8] = header[9] = header[10] = '\xff';  // The length.
  write_all(oversized, header);
  EXPECT_THAT(read_all(oversized, open), HasSubstr("16777215 bytes, where 16384 are allowed"));
  EXPECT_FALSE(open);

  const Socket future = connect(address);
  std::string other_version = Seal().frame(MessageType::kHello, 0, "");
  other_version[4] = 99;
  write_all(future, other_version);
  EXPECT_THAT(read_all(future, open), HasSubstr("version 99 of the protocol"));
  EXPECT_FALSE(open);

  const Socket impatient = connect(address);  // Begins with a request.
  write_all(impatient,
            Seal().frame(MessageType::kRequest, 0, encode(Request{.kind = RequestKind::kDelete, .key = "k"})));
  EXPECT_THAT(read_all(impatient, open), HasSubstr("begins with a hello"));

  const Socket slow = connect(address);  // Says half a hello, then nothing.
  write_all(slow, Seal().frame(MessageType::kHello, 0, encode(Hello{})).substr(0, 50));
  const auto start = Clock::now();
  EXPECT_THAT(read_all(slow, open), HasSubstr("has not joined in time"));
  EXPECT_FALSE(open);
  EXPECT_LT(Clock::now() - start, 3s);

  // Random bytes, behind a valid beginning and without.
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = i % 2 == 0 ? Seal().frame(MessageType::kHello, 0, encode(Hello{})) : "";
    std::string noise(random() % 300, ' ');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 4 == 0) noise = Seal().frame(MessageType::kJoin, 0, noise);
    const Socket socket = connect(address);
    ::send(socket.get(), (bytes + noise).data(), bytes.size() + noise.size(), MSG_NOSIGNAL);
  }
  client.key_value_set("k", "v");
  EXPECT_EQ(client.blocking_key_value_get("k", 1s), "v");
  EXPECT_THAT(log(), HasSubstr("refused a connection from 127.0.0.1"));
}

TEST_F(ServiceTest, ManyStrangersTakeTurns) {
  Service service(listen_at({"127.0.0.1", 0}), service_options(1));
  std::vector<Socket> strangers;
  for (int i = 0; i < 1100; ++i) strangers.push_back(connect(service.address()));
  bool open = false;
  read_all(strangers.front(), open);
  EXPECT_FALSE(open);
  const auto control = join(service.address(), 0, 1);  // Who says something is served all the same.
  EXPECT_EQ(control->started().members.size(), 1U);
}

TEST_F(ServiceTest, SecretsProveBothSides) {
  const Secret secret = make_secret("a secret of 24 letters..", "test");
  const Secret other = make_secret("another of 24 letters...", "test");
  ServiceOptions options = service_options(1);
  options.secret = secret;
  Service service(listen_at({"127.0.0.1", 0}), options);
  EXPECT_THROW(join(service.address(), 0, 1, other), InvalidArgument);
  EXPECT_THROW(join(service.address(), 0, 1), InvalidArgument);
  auto control = join(service.address(), 0, 1, secret);
  control->run(no_events());
  Client client(std::shared_ptr<Client::Transport>(std::move(control)));
  client.key_value_set("k", "v");
  EXPECT_EQ(client.key_value_try_get("k"), "v");

  // One who has seen a join cannot join with it: the nonce is another.
  const Socket replay = connect(service.address());
  Seals seals = make_seals(secret.key, Nonce{}, Nonce{});
  write_all(replay, Seal().frame(MessageType::kHello, 0, encode(Hello{})) +
                        seals.to_service.frame(MessageType::kJoin, 0, encode(Join())));
  bool open = false;
  EXPECT_THAT(read_all(replay, open), HasSubstr("another secret"));

  // A service that does not know the secret is not believed.
  Service impostor(listen_at({"127.0.0.1", 0}), service_options(1));
  EXPECT_THROW(join(impostor.address(), 0, 1, secret), InvalidArgument);
}

/// Passes bytes on between one client at a time and the service, and can reset both connections.
class Relay {
 public:
  explicit Relay(Address to) : to_(std::move(to)), listener_(listen_at({"127.0.0.1", 0})), thread_([this] { run(); }) {}
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  Address address() const { return local_address(listener_.get()); }
  void reset() { reset_ = true; }
  void refuse() { refuse_ = true; }  ///< Later connections.
  int connections() const { return connections_; }

 private:
  void run() {
    while (!stop_) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 5) <= 0) continue;
      Socket client([&] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
      if (!client || refuse_) continue;
      ++connections_;
      const Socket server = connect(to_);
      pass(client, server);
    }
  }
  void pass(const Socket& client, const Socket& server) {
    while (!stop_) {
      if (reset_.exchange(false)) {
        const linger abort{1, 0};
        for (const Socket* socket : {&client, &server}) {
          ::setsockopt(socket->get(), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
        }
        return;
      }
      std::array<pollfd, 2> waiting{{{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}}};
      ::poll(waiting.data(), 2, 5);
      for (const auto& [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
        std::array<char, 4096> buffer;
        const ssize_t size = ::recv(from->get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (size == 0) return;
        for (ssize_t sent = 0; sent < size;) {
          const ssize_t some =
              ::send(to->get(), buffer.data() + sent, static_cast<std::size_t>(size - sent), MSG_NOSIGNAL);
          if (some > 0) sent += some;
          if (some < 0 && errno != EAGAIN) return;
        }
      }
    }
  }

  Address to_;
  Socket listener_;
  std::atomic<bool> stop_ = false, reset_ = false, refuse_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

TEST_F(ServiceTest, AResetBetweenHostsLosesAndRepeatsNothing) {
  ServiceOptions options = service_options(2);
  options.secret = make_secret("a secret of 24 letters..", "test");
  Service service(listen_at({"127.0.0.1", 0}), options);
  Relay relay(service.address());
  std::vector<std::unique_ptr<Control>> controls(2);
  std::thread other([&] { controls[1] = join(relay.address(), 1, 2, options.secret); });
  controls[0] = join(service.address(), 0, 2, options.secret);
  other.join();
  std::atomic<int> faults = 0;
  for (auto& control : controls) {
    ControlEvents events = no_events();
    events.faults = [&](const std::vector<Fault>&) { ++faults; };
    control->run(events);
  }
  Client near(std::shared_ptr<Client::Transport>(std::move(controls[0])));
  Client far(std::shared_ptr<Client::Transport>(std::move(controls[1])));
  auto waits = std::async(std::launch::async, [&] {
    for (int i = 0; i < 20; ++i) far.wait_at_barrier("b", 10s);
  });
  for (int i = 0; i < 20; ++i) {
    relay.reset();
    for (int j = 1; j <= 10; ++j) {
      ASSERT_EQ(far.key_value_increment("n"), 10 * i + j);  // Neither lost nor done twice.
    }
    near.wait_at_barrier("b", 10s);
  }
  waits.get();
  EXPECT_GE(relay.connections(), 10);
  EXPECT_EQ(faults, 0);
}

TEST_F(ServiceTest, WhoDoesNotComeBackAfterAResetIsDead) {
  Service service(listen_at({"127.0.0.1", 0}), service_options(2));
  Relay relay(service.address());
  std::vector<std::shared_ptr<Control>> controls(2);
  std::thread other([&] { controls[1] = join(relay.address(), 1, 2); });
  controls[0] = join(service.address(), 0, 2);
  other.join();
  std::mutex mutex;
  std::vector<std::vector<Fault>> faults(2);
  for (std::size_t i = 0; i < 2; ++i) {
    ControlEvents events = no_events();
    events.faults = [&, i](const std::vector<Fault>& told) {
      const std::lock_guard lock(mutex);
      faults[i] = told;
    };
    events.last_done = [] { return std::string("psum at a.cc:7"); };
    controls[i]->run(events);
  }
  std::this_thread::sleep_for(400ms);  // For a heartbeat.
  relay.refuse();
  relay.reset();
  std::this_thread::sleep_for(1900ms);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(faults[0].size(), 1U);
  EXPECT_EQ(faults[0][0].kind, FaultKind::kDeath);
  EXPECT_EQ(faults[0][0].process, 1);
  EXPECT_THAT(describe(faults[0][0]), HasSubstr("; what it did last: psum at a.cc:7"));
  ASSERT_EQ(faults[1].size(), 1U);
  EXPECT_EQ(faults[1][0].process, 0);
  EXPECT_THAT(faults[1][0].text, HasSubstr("coordinates the job, died: the connection to it ended"));
}

TEST_F(ServiceTest, ServesManyClients) {
  constexpr int kNum = 200;
  ServiceOptions options = service_options(kNum);
  options.heartbeat_timeout = 20s;  // So many threads may wait for a core.
  Service service(listen_at({"127.0.0.1", 0}), options);
  std::vector<std::thread> threads;
  std::atomic<int> met = 0;
  for (int i = 0; i < kNum; ++i) {
    threads.emplace_back([&, i] {
      auto control = join(service.address(), i, kNum);
      control->run(no_events());
      Client client(std::shared_ptr<Client::Transport>(std::move(control)));
      client.wait_at_barrier("all", 20s);
      ++met;
      client.wait_at_barrier("end", 20s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, kNum);
}

}  // namespace
}  // namespace shoal::distributed
