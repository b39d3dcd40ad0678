// Many processes that run one program.
//
// Every process calls initialize() before it uses a device. Process 0 runs the coordination service, with which all
// keep a connection: they meet there, learn of each other's end, and exchange small texts. A process that dies, leaves
// early or reports an error is known to all within two seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/error.h"

namespace shoal::distributed {

/// What is not given comes from the environment variable named, else from the launcher that started the process.
struct InitializeOptions {
  /// "host:port" or "[IPv6]:port" of process 0, as all others reach it. SHOAL_COORDINATOR_ADDRESS.
  std::optional<std::string> coordinator_address = {};
  /// Of the job, 1 or more. SHOAL_NUM_PROCESSES.
  std::optional<int> num_processes = {};
  /// Of this process, from 0 on; each once in the job. SHOAL_PROCESS_ID.
  std::optional<int> process_id = {};
  /// Which of this process's devices it uses; default: all. SHOAL_LOCAL_DEVICE_IDS, such as 0,2.
  std::optional<std::vector<int>> local_device_ids = {};
  /// Where process 0 listens, if not at all its addresses, or at loopback if coordinator_address names that.
  /// SHOAL_COORDINATOR_BIND_ADDRESS.
  std::optional<std::string> coordinator_bind_address = {};
  /// The launcher to ask, by its name, or "deactivate". Default: the innermost one that is found.
  /// SHOAL_CLUSTER_DETECTION_METHOD.
  std::optional<std::string> cluster_detection_method = {};
  /// How long processes wait for each other to join; default 300 s. SHOAL_INITIALIZATION_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> initialization_timeout = {};
  /// A process that is silent for so long counts as failed; default 100 s. One that dies is noticed at once.
  /// SHOAL_HEARTBEAT_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> heartbeat_timeout = {};
  /// How long shutdown() waits for the others; default 300 s. SHOAL_SHUTDOWN_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> shutdown_timeout = {};
  /// Does without a secret where the launcher gives none, in all processes alike: whoever reaches the coordinator can
  /// join the job, and harm it. Default: no. SHOAL_INSECURE, 1 or 0.
  std::optional<bool> insecure = {};
};

/// Joins the job, and returns when all of its processes have joined. Without options, variables and launcher the job is
/// this process alone, and nothing else happens.
///
/// All processes must share a secret of 16 bytes or more: the file that SHOAL_SECRET_FILE names, else SHOAL_SECRET,
/// else one that process 0 makes and tells by its launcher (PMIx, PMI) or by MUNGE (Slurm), else ~/.shoal/secret with
/// mode 0600. If there is none of these and coordinator_address is a loopback address, as localhost, it is one that is
/// made for all such jobs of the user, and kept in ~/.shoal/local_secret. It is never sent in clear by Shoal. What is
/// sent is authenticated, and not encrypted.
///
/// Throws InvalidState if it was called before, or if devices are in use already; InvalidArgument for values that are
/// not allowed, or contradict those of other processes; DeadlineExceeded, naming who is missing, if not all have joined
/// in time, or if no coordinator was found; DistributedError if the processes do not fit together.
void initialize(const InitializeOptions& options = {}, SourceLocation where = SourceLocation::current());

/// Leaves the job, when all processes do. initialize() cannot be called again. A process that ends without this call
/// leaves by itself: its exit waits for the others, unless its exit code tells of a failure.
/// Throws InvalidState if initialize() was not called, or shutdown() was before; DeadlineExceeded, naming who did not
/// come, after shutdown_timeout; ProcessFailed if meanwhile a process fails, or turns out to wait for this one;
/// Disagreement if processes did not launch the same programs; and what made launches fail, if nothing has thrown that
/// yet. The process has left then, too.
void shutdown(SourceLocation where = SourceLocation::current());

/// Between initialize() and shutdown().
bool is_initialized() noexcept;

/// Small texts for all processes of the job, and meeting points. Its functions may be called by any thread, and throw
/// DeadlineExceeded, ProcessFailed where a process fails meanwhile, and DistributedError where the coordinator is gone.
/// Keys are paths: "a/b" lies in the directory "a". Values are bytes, 16 MiB at most.
class Client {
 public:
  /// Sets the value of a key. Throws InvalidState if it has one, and `allow_overwrite` is false.
  void key_value_set(std::string_view key, std::string_view value, bool allow_overwrite = false);
  /// The value of a key, as soon as it has one.
  std::string blocking_key_value_get(std::string_view key, std::chrono::milliseconds timeout);
  /// The value of a key, if it has one.
  std::optional<std::string> key_value_try_get(std::string_view key);
  /// Adds to the value of a key, a decimal integer, or 0 if it has none. Returns the sum.
  std::int64_t key_value_increment(std::string_view key, std::int64_t increment = 1);
  /// What lies in a directory, at any depth, sorted by key.
  std::vector<std::pair<std::string, std::string>> key_value_dir_get(std::string_view directory);
  /// Removes a key, and what lies in the directory of that name.
  void key_value_delete(std::string_view key);

  /// Returns when all of these processes have called it with this id; empty: all of the job. An id may be used again
  /// when all have passed. Throws InvalidArgument if processes disagree on who is to come.
  void wait_at_barrier(std::string_view id, std::chrono::milliseconds timeout,
                       const std::vector<int>& process_ids = {});
  /// Those of these processes that live, by process id, with a number that a restarted process would not have; empty:
  /// of all. It is a meeting of those that live, so that all get the same answer.
  std::map<int, std::uint64_t> get_live_nodes(const std::vector<int>& process_ids,
                                              std::chrono::milliseconds timeout = std::chrono::seconds(60));

  /// How requests are sent.
  class Transport;
  explicit Client(std::shared_ptr<Transport> transport);

 private:
  std::shared_ptr<Transport> transport_;
};

/// That of this process. Throws InvalidState outside initialize() and shutdown(), and in a child made by fork().
Client& client();

}  // namespace shoal::distributed
