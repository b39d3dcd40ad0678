#include "distributed/munge.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/env.h"
#include "base/shared_library.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

// What is used of libmunge 2, declared as munge.h of MUNGE 0.5 does.
enum Status { kMungeSuccess = 0, kExpired = 15, kRewound = 16, kReplayed = 17 };
enum Option { kTimeToLive = 4, kSocket = 8, kUid = 9 };
constexpr int kLongestTime = -1;

struct MungeLibrary {
  void* (*create)() = nullptr;
  void (*destroy)(void* context) = nullptr;
  int (*set)(void* context, int option, ...) = nullptr;
  const char* (*error)(void* context) = nullptr;
  int (*encode)(char** credential, void* context, const void* bytes, int size) = nullptr;
  int (*decode)(const char* credential, void* context, void** bytes, int* size, uid_t* uid, gid_t* gid) = nullptr;
};

const MungeLibrary* library() {
  static const std::optional<MungeLibrary> loaded = []() -> std::optional<MungeLibrary> {
    const SharedLibrary file({"libmunge.so.2"});
    MungeLibrary all;
    const bool is_whole = file.find("munge_ctx_create", all.create) && file.find("munge_ctx_destroy", all.destroy) &&
                          file.find("munge_ctx_set", all.set) && file.find("munge_ctx_strerror", all.error) &&
                          file.find("munge_encode", all.encode) && file.find("munge_decode", all.decode);
    return is_whole ? std::optional(all) : std::nullopt;
  }();
  return loaded ? &*loaded : nullptr;
}

// What a credential is made with and opened with.
class Context {
 public:
  Context() : library_(distributed::library()) {
    if (library_ == nullptr) throw DistributedError("munge: libmunge.so.2 cannot be loaded; install libmunge2");
    context_.reset(library_->create());
    if (const auto socket = env_text("SHOAL_MUNGE_SOCKET")) library_->set(context_.get(), kSocket, socket->c_str());
  }

  std::string encode(const Key& key) {
    library_->set(context_.get(), kUid, static_cast<int>(geteuid()));
    // The key is proved by tags, so an old credential is as good as a new one.
    library_->set(context_.get(), kTimeToLive, kLongestTime);
    char* text = nullptr;
    const int status = library_->encode(&text, context_.get(), key.data(), static_cast<int>(key.size()));
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    if (status != kMungeSuccess) throw failure("make");
    return text;
  }

  Key decode(const std::string& credential) {
    void* bytes = nullptr;
    int size = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    const int status = library_->decode(credential.c_str(), context_.get(), &bytes, &size, &uid, &gid);
    const std::unique_ptr<void, decltype(&std::free)> owner(bytes, &std::free);
    // All processes of a host open the same one, and after a reset once more.
    if (status != kMungeSuccess && status != kExpired && status != kRewound && status != kReplayed)
      throw failure("open");
    if (uid != geteuid()) {
      throw DistributedError(
          fmt::format("munge: the coordinator's credential is of user {}, and this process runs as {}: another user's "
                      "program listens there",
                      uid, geteuid()));
    }
    Key key = {};
    if (static_cast<std::size_t>(size) != key.size()) throw DistributedError("munge: the credential holds no key");
    std::copy_n(static_cast<const unsigned char*>(bytes), key.size(), key.begin());
    return key;
  }

 private:
  DistributedError failure(const char* what) const {
    const char* const text = library_->error(context_.get());
    return DistributedError(fmt::format(
        "munge: the daemon does not {} a credential: {}; it must run on every host with the same key, or set "
        "SHOAL_SECRET",
        what, text == nullptr ? "unknown error" : text));
  }

  struct Destroy {
    void operator()(void* context) const { distributed::library()->destroy(context); }
  };
  const MungeLibrary* library_;
  std::unique_ptr<void, Destroy> context_;
};

}  // namespace

bool has_munge() {
  if (library() == nullptr) return false;
  try {
    Context().encode(Key{});
    return true;
  } catch (const DistributedError&) {
    return false;
  }
}

std::string seal_by_munge(const Key& key) { return Context().encode(key); }

Key open_by_munge(const std::string& credential) { return Context().decode(credential); }

}  // namespace shoal::distributed
