#include "distributed/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/env.h"
#include "base/file_descriptor.h"
#include "base/safe_file.h"
#include "distributed/net.h"
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

// What is wrong with who owns a file or may read it; empty: nothing. If it was named, it may also be root's, readable
// for a group, as clusters give secrets to programs, or a pipe.
std::string objection_to(const struct stat& status, const std::string& path, bool was_named) {
  if (!S_ISREG(status.st_mode) && !(was_named && S_ISFIFO(status.st_mode))) return "is no regular file";
  const bool is_roots = was_named && status.st_uid == 0;
  if (status.st_uid != ::geteuid() && !is_roots) {
    return fmt::format("belongs to user {}, and this process runs as user {}; each user needs a file of his own",
                       status.st_uid, ::geteuid());
  }
  if ((status.st_mode & (is_roots ? 037U : 077U)) != 0) {
    return fmt::format("has mode {:04o}, so that others may read it; run chmod 600 {}", status.st_mode & 0777U, path);
  }
  return "";
}

// The text of a file with a secret; nullopt if there is no file. All checks are of what was opened, and not of what
// else may have that name by now.
std::optional<std::string> read_secret_file(const std::string& path, bool was_named) {
  constexpr std::size_t kMost = std::size_t{1} << 16;
  const int careful = was_named ? 0 : O_NOFOLLOW | O_NONBLOCK;  // Kubernetes gives files as links.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | careful));
  if (!file && errno == ENOENT && !was_named) return std::nullopt;
  if (!file) throw InvalidArgument(fmt::format("the secret cannot be read from {}: {}", path, error_text(errno)));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw InvalidArgument(fmt::format("the secret cannot be read from {}: {}", path, error_text(errno)));
  }
  if (const std::string objection = objection_to(status, path, was_named); !objection.empty()) {
    throw InvalidArgument(fmt::format("the secret in {} {}", path, objection));
  }
  std::string text(kMost, '\0');
  std::size_t size = 0;
  while (size < kMost) {
    const ssize_t count = ::read(file.get(), text.data() + size, kMost - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InvalidArgument(fmt::format("the secret cannot be read from {}: {}", path, error_text(errno)));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

// Makes the file, unless it is there: whole at once, so that nobody reads a part of it. What goes wrong; empty:
// nothing.
std::string make_secret_file(const std::string& path) {
  const std::string part = fmt::format("{}.{}", path, random_number());
  try {
    write_file(part, random_secret() + "\n", 0600);
  } catch (const std::system_error& error) {
    ::unlink(part.c_str());
    return error.what();
  }
  const int error = ::link(part.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(part.c_str());
  return error == 0 || error == EEXIST ? "" : fmt::format("\"{}\": {}", path, error_text(error));
}

// Makes a folder, unless it is there. What goes wrong; empty: nothing.
std::string make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return "";
  return fmt::format("\"{}\": {}", path, error_text(errno));
}

// The same in /tmp, where others may have made it. Once it is this user's, nobody else can put another in its place.
std::string make_folder_in_tmp(const std::string& path) {
  std::string obstacle = make_folder(path);
  struct stat status {};
  if (!obstacle.empty() || ::lstat(path.c_str(), &status) != 0) return obstacle;
  if (S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 022U) == 0) return "";
  return fmt::format("\"{}\" is no folder that user {} alone can write", path, ::geteuid());
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
    return make_secret(*read_secret_file(*path, true), fmt::format("SHOAL_SECRET_FILE={}", *path));
  }
  if (const auto text = env_text("SHOAL_SECRET")) return make_secret(*text, "SHOAL_SECRET");
  return std::nullopt;
}

std::optional<Secret> secret_of_user() {
  const std::string path = home_folder() + "/.shoal/secret";
  const auto text = read_secret_file(path, false);
  return text ? std::optional(make_secret(*text, path)) : std::nullopt;
}

Secret local_secret() {
  std::string obstacles;
  const auto secret_in = [&](const std::string& folder, std::string obstacle) -> std::optional<Secret> {
    const std::string path = folder + "/local_secret";
    if (obstacle.empty() && ::access(path.c_str(), F_OK) != 0) obstacle = make_secret_file(path);
    if (obstacle.empty()) {
      if (const auto text = read_secret_file(path, false)) return make_secret(*text, path);
      obstacle = fmt::format("\"{}\" was removed", path);
    }
    obstacles += (obstacles.empty() ? "" : "; ") + obstacle;
    return std::nullopt;
  };
  const std::string in_home = home_folder() + "/.shoal";
  if (auto secret = secret_in(in_home, make_folder(in_home))) return *secret;
  const std::string in_tmp = fmt::format("/tmp/shoal-{}", ::geteuid());
  if (auto secret = secret_in(in_tmp, make_folder_in_tmp(in_tmp))) return *secret;
  throw InvalidArgument(
      fmt::format("distributed::initialize: the processes of a job share a secret, which cannot be kept: {}; set "
                  "SHOAL_SECRET or SHOAL_SECRET_FILE, or SHOAL_INSECURE=1 to let every user of this host join",
                  obstacles));
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
