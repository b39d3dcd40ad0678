// The secret that the processes of a job share, and what is made of it. Keyed hashes are BLAKE2b of libsodium.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::distributed {

using Key = std::array<unsigned char, 32>;
using Nonce = std::array<unsigned char, 32>;
using Tag = std::array<unsigned char, 16>;

struct Secret {
  Key key = {};           ///< Of the secret's bytes.
  std::string source;     ///< Where it was found, for messages.
  bool by_munge = false;  ///< Process 0 has made the key, and the others get it by munge (munge.h).
};

inline constexpr std::size_t kMinSecretBytes = 16;

/// How to make a secret, for messages.
inline constexpr std::string_view kHowToMakeSecret =
    "mkdir -p ~/.shoal && (umask 077; head -c 32 /dev/urandom | base64 > ~/.shoal/secret), the same file on every host";

/// From the file that SHOAL_SECRET_FILE names, or SHOAL_SECRET. Spaces and line ends around it do not count. The file
/// is one of this user, which nobody else may read or write, or of root, which a group may read at most. Throws
/// InvalidArgument if it is not, cannot be read, or is shorter than kMinSecretBytes.
std::optional<Secret> given_secret();

/// From ~/.shoal/secret, a file of this user, which nobody else may read, and no link; nullopt if there is none. Throws
/// InvalidArgument as given_secret().
std::optional<Secret> secret_of_user();

/// That of all processes of this user on this host, which the first one makes: from ~/.shoal/local_secret, or where the
/// home cannot be written, /tmp/shoal-UID/local_secret. Throws InvalidArgument if neither can be, or as
/// secret_of_user().
Secret local_secret();

/// The secret that is this text. Throws InvalidArgument, naming `source`, if it is too short.
Secret make_secret(std::string_view text, std::string source);

/// A key for a purpose, which tells nothing of `key`. The parts are texts of any length.
Key derive_key(const Key& key, std::initializer_list<std::string_view> parts);

/// A message's tag under a key, and the comparison that takes the same time for all tags.
Tag keyed_tag(const Key& key, std::initializer_list<std::string_view> parts);
bool equal_tags(const Tag& a, const Tag& b);

Nonce random_nonce();
/// 32 random bytes as hexadecimal digits.
std::string random_secret();
/// Not 0.
std::uint64_t random_number();

std::string_view as_text(const std::array<unsigned char, 32>& bytes);

}  // namespace shoal::distributed
