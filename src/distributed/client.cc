#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "distributed/key_value_store.h"
#include "distributed/transport.h"
#include "shoal/distributed.h"

namespace shoal::distributed {
namespace {

// The board of a process that is alone. Whoever waits looks after the deadlines.
class LocalTransport : public Client::Transport {
 public:
  LocalTransport(int process, std::vector<Member> members)
      : process_(process), board_(std::move(members), [](const Fault&) {}) {}

  Reply call(Request request) override {
    std::unique_lock lock(mutex_);
    const auto reply = std::make_shared<std::optional<Reply>>();
    board_.handle(process_, request, std::chrono::steady_clock::now(), [this, reply](Reply answer) {
      *reply = std::move(answer);
      changed_.notify_all();
    });
    while (!*reply) {
      const auto deadline = board_.next_deadline();
      SHOAL_CHECK(deadline, "a request waits without a deadline");
      if (changed_.wait_until(lock, *deadline) == std::cv_status::timeout) {
        board_.expire(std::chrono::steady_clock::now());
      }
    }
    return std::move(**reply);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int process_;
  Board board_;
};

Request request_for(const char* call, RequestKind kind, std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw InvalidArgument(
        fmt::format("{}: the key or id has {} bytes; allowed: 1 to {}", call, key.size(), kMaxKeyBytes));
  }
  return {.kind = kind, .key = std::string(key)};
}

Reply checked(Reply reply) {
  throw_failure(reply.status, reply.text);
  return reply;
}

}  // namespace

std::shared_ptr<Client::Transport> make_local_transport(int process, std::vector<Member> members) {
  return std::make_shared<LocalTransport>(process, std::move(members));
}

void throw_failure(Status status, const std::string& text) {
  switch (status) {
    case Status::kOk:
      return;
    case Status::kInvalid:
      throw InvalidArgument(text);
    case Status::kState:
      throw InvalidState(text);
    case Status::kDeadline:
      throw DeadlineExceeded(text);
    case Status::kFailed:
      throw ProcessFailed(text);
    case Status::kDisagreed:
      throw DistributedError(text);
  }
}

Client::Client(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}

void Client::key_value_set(std::string_view key, std::string_view value, bool allow_overwrite) {
  Request request = request_for("key_value_set", RequestKind::kSet, key);
  if (value.size() > kMaxValueBytes) {
    throw InvalidArgument(fmt::format("key_value_set: the value of \"{}\" has {} bytes; allowed: {} at most", key,
                                      value.size(), kMaxValueBytes));
  }
  request.value = value;
  request.overwrite = allow_overwrite;
  checked(transport_->call(std::move(request)));
}

std::string Client::blocking_key_value_get(std::string_view key, std::chrono::milliseconds timeout) {
  Request request = request_for("blocking_key_value_get", RequestKind::kGet, key);
  request.timeout = timeout;
  return checked(transport_->call(std::move(request))).entries.at(0).second;
}

std::optional<std::string> Client::key_value_try_get(std::string_view key) {
  Reply reply = checked(transport_->call(request_for("key_value_try_get", RequestKind::kTryGet, key)));
  if (reply.entries.empty()) return std::nullopt;
  return std::move(reply.entries[0].second);
}

std::int64_t Client::key_value_increment(std::string_view key, std::int64_t increment) {
  Request request = request_for("key_value_increment", RequestKind::kIncrement, key);
  request.increment = increment;
  return checked(transport_->call(std::move(request))).number;
}

std::vector<std::pair<std::string, std::string>> Client::key_value_dir_get(std::string_view directory) {
  return checked(transport_->call(request_for("key_value_dir_get", RequestKind::kDirGet, directory))).entries;
}

void Client::key_value_delete(std::string_view key) {
  checked(transport_->call(request_for("key_value_delete", RequestKind::kDelete, key)));
}

void Client::wait_at_barrier(std::string_view id, std::chrono::milliseconds timeout,
                             const std::vector<int>& process_ids) {
  Request request = request_for("wait_at_barrier", RequestKind::kBarrier, id);
  request.timeout = timeout;
  request.processes = process_ids;
  checked(transport_->call(std::move(request)));
}

std::map<int, std::uint64_t> Client::get_live_nodes(const std::vector<int>& process_ids,
                                                    std::chrono::milliseconds timeout) {
  const Reply reply =
      checked(transport_->call({.kind = RequestKind::kLiveNodes, .timeout = timeout, .processes = process_ids}));
  return {reply.live.begin(), reply.live.end()};
}

}  // namespace shoal::distributed
