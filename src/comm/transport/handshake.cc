#include "comm/transport/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/transport/socket_io.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr std::uint64_t kHelloMagic = 0x316b'6c61'7465'6573;  // Changes with what is said.

using Bytes = std::array<unsigned char, 32>;

struct Hello {
  std::uint64_t magic;
  std::int32_t from;
  std::int32_t to;
  Bytes random;
};

struct Challenge {
  Bytes random;
  Bytes proof;
};

template <class T>
void send(int socket, const T& value, Clock::time_point deadline) {
  send_all(socket, std::as_bytes(std::span(&value, 1)), deadline);
}

template <class T>
T receive(int socket, Clock::time_point deadline) {
  T value;
  receive_all(socket, std::as_writable_bytes(std::span(&value, 1)), deadline);
  return value;
}

void start_sodium() { SHOAL_CHECK(sodium_init() >= 0, "libsodium starts"); }

Bytes random_bytes() {
  Bytes bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

// What only who knows the key can say of a conversation. `side` keeps the proof of one from serving the other.
Bytes proof_of(const JobKey& key, std::string_view side, const Hello& hello, const Bytes& random) {
  crypto_generichash_state state;
  Bytes proof;
  crypto_generichash_init(&state, key.bytes().data(), key.bytes().size(), proof.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(side.data()), side.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&hello), sizeof(hello));
  crypto_generichash_update(&state, random.data(), random.size());
  crypto_generichash_final(&state, proof.data(), proof.size());
  return proof;
}

bool same(const Bytes& a, const Bytes& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace

JobKey::JobKey(std::string_view secret) {
  start_sodium();
  crypto_generichash(bytes_.data(), bytes_.size(), reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                     nullptr, 0);
}

std::string random_name(std::size_t bytes) {
  start_sodium();
  std::vector<unsigned char> random(bytes);
  randombytes_buf(random.data(), random.size());
  std::string name;
  for (const unsigned char byte : random) name += fmt::format("{:02x}", byte);
  return name;
}

bool greet(int socket, const JobKey& key, int me, int peer, Clock::time_point deadline) {
  const Hello hello{kHelloMagic, me, peer, random_bytes()};
  send(socket, hello, deadline);
  const auto challenge = receive<Challenge>(socket, deadline);
  if (!same(challenge.proof, proof_of(key, "responder", hello, challenge.random))) {
    throw ProcessFailed("it does not know this job's key: another job listens there");
  }
  send(socket, proof_of(key, "initiator", hello, challenge.random), deadline);
  return receive<std::uint8_t>(socket, deadline) != 0;
}

int receive_greeting(int socket, const JobKey& key, int me, Clock::time_point deadline) {
  const auto hello = receive<Hello>(socket, deadline);
  if (hello.magic != kHelloMagic) throw ProcessFailed("what connects is no process of this version of Shoal");
  if (hello.to != me || hello.from == me || hello.from < 0) {
    throw ProcessFailed(fmt::format("process {} looks for process {} here", hello.from, hello.to));
  }
  Challenge challenge{random_bytes(), {}};
  challenge.proof = proof_of(key, "responder", hello, challenge.random);
  send(socket, challenge, deadline);
  if (!same(receive<Bytes>(socket, deadline), proof_of(key, "initiator", hello, challenge.random))) {
    throw ProcessFailed(fmt::format("what calls itself process {} does not know this job's key", hello.from));
  }
  return hello.from;
}

void answer_greeting(int socket, bool taken, Clock::time_point deadline) {
  send(socket, static_cast<std::uint8_t>(taken ? 1 : 0), deadline);
}

}  // namespace shoal
