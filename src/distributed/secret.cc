#include "distributed/secret.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/check.h"
#include "base/env.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

void start_sodium() {
  static const bool started = sodium_init() >= 0;
  SHOAL_CHECK(started, "libsodium finds no source of random bytes");
}

// The length before each part keeps ("ab", "c") apart from ("a", "bc").
template <std::size_t N>
std::array<unsigned char, N> keyed_hash(const Key& key, std::initializer_list<std::string_view> parts) {
  start_sodium();
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), N);
  for (const std::string_view part : parts) {
    const std::uint64_t size = part.size();
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof(size));
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  std::array<unsigned char, N> hash;
  crypto_generichash_final(&state, hash.data(), N);
  return hash;
}

std::string read_secret_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw InvalidArgument(fmt::format("the secret cannot be read from {}", path));
  return text;
}

std::string home_folder() {
  if (const auto home = env_text("HOME")) return *home;
  const passwd* user = getpwuid(getuid());
  return user == nullptr ? "" : user->pw_dir;
}

}  // namespace

Secret make_secret(std::string_view text, std::string source) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  text = begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  if (text.size() < kMinSecretBytes) {
    throw InvalidArgument(fmt::format("the secret of {} has {} bytes, and needs {} or more; make one by: {}", source,
                                      text.size(), kMinSecretBytes, kHowToMakeSecret));
  }
  return {.key = derive_key(Key{}, {"shoal secret", text}), .source = std::move(source)};
}

std::optional<Secret> given_secret() {
  if (const auto path = env_text("SHOAL_SECRET_FILE")) {
    return make_secret(read_secret_file(*path), fmt::format("SHOAL_SECRET_FILE={}", *path));
  }
  if (const auto text = env_text("SHOAL_SECRET")) return make_secret(*text, "SHOAL_SECRET");
  return std::nullopt;
}

std::optional<Secret> secret_of_user() {
  const std::string path = home_folder() + "/.shoal/secret";
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if ((status.st_mode & 077U) != 0) {
    throw InvalidArgument(fmt::format("the secret in {} has mode {:04o}, so that others may read it; run chmod 600 {}",
                                      path, status.st_mode & 0777U, path));
  }
  return make_secret(read_secret_file(path), path);
}

Key derive_key(const Key& key, std::initializer_list<std::string_view> parts) {
  return keyed_hash<std::tuple_size_v<Key>>(key, parts);
}

Tag keyed_tag(const Key& key, std::initializer_list<std::string_view> parts) {
  return keyed_hash<std::tuple_size_v<Tag>>(key, parts);
}

bool equal_tags(const Tag& a, const Tag& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

Nonce random_nonce() {
  start_sodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string random_secret() {
  std::string text;
  for (const unsigned char byte : random_nonce()) text += fmt::format("{:02x}", byte);
  return text;
}

std::uint64_t random_number() {
  start_sodium();
  std::uint64_t number = 0;
  while (number == 0) randombytes_buf(&number, sizeof(number));
  return number;
}

std::string_view as_text(const std::array<unsigned char, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace shoal::distributed
