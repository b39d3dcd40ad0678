// What the plugin `mpi` offers: messages between the processes that an MPI launcher started. Shared with the plugin.
//
// It only carries bytes. Its processes are numbered as Shoal's, whatever their ranks are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

/// But for start(), connect() and finish(), the functions may be called from any number of threads at once. None of
/// them waits, but connect() and finish(), and start() if it initialises MPI: these wait for the other processes,
/// without a deadline.
struct MpiApi {
  static constexpr std::uint64_t kVersion = 1;

  /// What is under way: MPI's own handles.
  struct Request {
    std::uint64_t handle = 0;
  };
  struct Message {
    std::uint64_t handle = 0;
  };

  /// Initialises MPI, if the program has not, and gives this process's rank. Returns null, or why MPI cannot be used.
  const char* (*start)(int* rank);
  /// Called by the processes of these ranks, each of which is process number i if its rank is ranks[i]. Returns null,
  /// or why that failed.
  const char* (*connect)(const int* ranks, int count);
  /// Finalises MPI, if start() initialised it. All that was sent and received is over.
  void (*finish)();
  /// Whether MPI is initialised, and not finalised; and whether it was.
  bool (*is_running)();
  bool (*is_over)();

  // All that follow return 0, or an error of MPI, which describe() tells.

  /// Sends up to kMostBytes bytes, which stay as they are until the request is done.
  int (*send)(const void* data, std::size_t bytes, int to, int tag, Request* request);
  /// Whether a message with this tag is there that was not received; which it is, and how long.
  int (*probe)(int from, int tag, bool* is_there, Message* message, std::size_t* bytes);
  /// Receives that one.
  int (*receive_probed)(const Message* message, void* data, std::size_t bytes, Request* request);
  /// Receives the next message with this tag, which has so many bytes, up to kMostBytes.
  int (*receive)(void* data, std::size_t bytes, int from, int tag, Request* request);
  /// Whether a request is done, which ends it; and moves on what is under way.
  int (*test)(Request* request, bool* is_done);
  /// The text stays valid until the next call in this thread.
  const char* (*describe)(int error);

  /// MPI counts bytes by an int.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;
};

}  // namespace shoal
