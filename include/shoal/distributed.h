// Many processes that run one program.
//
// Every process calls initialize() before it uses a device. Process 0 runs the coordination service, to which all keep
// a connection: through it they wait for each other, learn when one of them ends, and exchange small texts. A process
// that dies, leaves early or reports an error is known to all within two seconds.
//
// @param key The key.
// @param value The value.
// @param allow_overwrite Whether the key may have a value already.
// @param timeout How long it waits.
// @param increment What is added.
// @param directory The directory.
// @param id The name of the barrier.
// @param process_ids The numbers of the processes; all when empty.
// @param transport How requests are sent.
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

/// Values that are not set come from the environment variable named, or else from the launcher that started the
/// process.
struct InitializeOptions {
  /// "host:port" or "[IPv6]:port" of process 0, as all others reach it. SHOAL_COORDINATOR_ADDRESS.
  std::optional<std::string> coordinator_address = {};
  /// The number of processes of the job, 1 or more. SHOAL_NUM_PROCESSES.
  std::optional<int> num_processes = {};
  /// The number of this process, counted from 0; no other process of the job has it. SHOAL_PROCESS_ID.
  std::optional<int> process_id = {};
  /// Which of this process's devices it uses; default: all. SHOAL_LOCAL_DEVICE_IDS, such as 0,2.
  std::optional<std::vector<int>> local_device_ids = {};
  /// The address at which process 0 listens. Default: all of its addresses, or loopback if coordinator_address is that.
  /// SHOAL_COORDINATOR_BIND_ADDRESS.
  std::optional<std::string> coordinator_bind_address = {};
  /// The launcher to ask, by its name, or "deactivate". Default: the innermost one that is found.
  /// SHOAL_CLUSTER_DETECTION_METHOD.
  std::optional<std::string> cluster_detection_method = {};
  /// How long processes wait for each other to join; default 300 s. SHOAL_INITIALIZATION_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> initialization_timeout = {};
  /// A process that is silent for this long counts as failed; default 100 s. One that dies is noticed at once.
  /// SHOAL_HEARTBEAT_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> heartbeat_timeout = {};
  /// How long shutdown() waits for the others; default 300 s. SHOAL_SHUTDOWN_TIMEOUT, in seconds.
  std::optional<std::chrono::milliseconds> shutdown_timeout = {};
  /// Joins without a secret if neither the variables nor the launcher provide one, and does not look into ~/.shoal; set
  /// it in all processes. Anyone who can reach the coordinator can then join the job and harm it. Default: no.
  /// SHOAL_INSECURE, 1 or 0.
  std::optional<bool> insecure = {};
};

/// Joins the job, and returns when all of its processes have joined. Without options, variables and launcher the job is
/// this process alone, and nothing else happens.
///
/// All processes must share a secret of 16 bytes or more: the file that SHOAL_SECRET_FILE names, else SHOAL_SECRET,
/// else one that process 0 makes and passes on through its launcher (PMIx, PMI) or MUNGE (Slurm), else ~/.shoal/secret
/// with mode 0600. If there is none of these and coordinator_address is a loopback address, such as localhost, a secret
/// is made for all such jobs of the user, and kept in ~/.shoal/local_secret. Shoal never sends a secret in clear.
/// Messages are authenticated, but not encrypted.
///
/// Throws InvalidState if it was called before, or if devices are in use already; InvalidArgument for values that are
/// not allowed, or that contradict those of other processes; DeadlineExceeded, naming who is missing, if not all
/// processes have joined in time, or if no coordinator was found; DistributedError if the processes do not fit
/// together.
void initialize(const InitializeOptions& options = {}, SourceLocation where = SourceLocation::current());

/// Leaves the job, once all processes do. initialize() cannot be called again. A process that ends without this call
/// leaves by itself: its exit waits for the others, unless its exit code indicates a failure. Throws InvalidState if
/// initialize() was not called, or if shutdown() was called before; DeadlineExceeded, naming who did not come, after
/// shutdown_timeout; ProcessFailed if a process fails meanwhile, or turns out to wait for this one; Disagreement if
/// processes did not launch the same programs; and the error that made launches fail, if nothing has thrown it yet.
/// Even then the process has left.
void shutdown(SourceLocation where = SourceLocation::current());

/// Between initialize() and shutdown().
bool is_initialized() noexcept;

/// Small texts that all processes of the job share, and barriers. The functions may be called from any thread, and
/// throw DeadlineExceeded, ProcessFailed if a process fails meanwhile, and DistributedError if the coordinator is gone.
/// Keys are paths: "a/b" lies in the directory "a". Values are bytes, 16 MiB at most.
class Client {
 public:
  /// Sets the value of a key. Throws InvalidState if it has one, and `allow_overwrite` is false.
  void key_value_set(std::string_view key, std::string_view value, bool allow_overwrite = false);
  /// The value of a key, as soon as it has one.
  std::string blocking_key_value_get(std::string_view key, std::chrono::milliseconds timeout);
  /// The value of a key, if it has one.
  std::optional<std::string> key_value_try_get(std::string_view key);
  /// Adds to the value of a key, which is a decimal integer; without a value it counts as 0. Returns the sum.
  std::int64_t key_value_increment(std::string_view key, std::int64_t increment = 1);
  /// The keys and values in a directory, at any depth, sorted by key.
  std::vector<std::pair<std::string, std::string>> key_value_dir_get(std::string_view directory);
  /// Removes a key, and all keys in the directory of that name.
  void key_value_delete(std::string_view key);

  /// Returns when all of these processes (empty: all of the job) have called it with this id. An id may be used again
  /// when all have passed. Throws InvalidArgument if processes disagree on who takes part.
  void wait_at_barrier(std::string_view id, std::chrono::milliseconds timeout,
                       const std::vector<int>& process_ids = {});
  /// Those of the given processes (empty: all) that are alive, by process id, each with a number that a restarted
  /// process would not have. The live processes wait for each other, so that all get the same answer.
  std::map<int, std::uint64_t> get_live_nodes(const std::vector<int>& process_ids,
                                              std::chrono::milliseconds timeout = std::chrono::seconds(60));

  /// How requests are sent.
  class Transport;
  explicit Client(std::shared_ptr<Transport> transport);

 private:
  std::shared_ptr<Transport> transport_;
};

/// The client of this process. Throws InvalidState outside initialize() and shutdown(), and in a child made by fork().
Client& client();

}  // namespace shoal::distributed
