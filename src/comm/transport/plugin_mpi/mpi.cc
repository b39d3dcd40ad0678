// The plugin `mpi`: Open MPI.
#include <mpi.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/plugin.h"
#include "comm/transport/mpi_api.h"

namespace shoal {
namespace {

using Request = MpiApi::Request;
using Message = MpiApi::Message;

MPI_Comm communicator = MPI_COMM_NULL;
bool initialised_here = false;

const char* describe(int error) {
  thread_local std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int size = 0;
  if (MPI_Error_string(error, text.data(), &size) != MPI_SUCCESS) return "an error without a text";
  return text.data();
}

const char* start(int* rank) {
  static std::string why;
  // A program that is linked with another MPI has functions of the same names.
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> library{};
  int size = 0;
  MPI_Get_library_version(library.data(), &size);
  if (std::strncmp(library.data(), "Open MPI", 8) != 0) {
    why = "the program uses another MPI: " + std::string(library.data()) + "; Shoal was built for Open MPI";
    return why.c_str();
  }
  int yes = 0;
  MPI_Finalized(&yes);
  if (yes != 0) return "the program has finalised MPI already";
  MPI_Initialized(&yes);
  int level = MPI_THREAD_SINGLE;
  if (yes != 0) {
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    initialised_here = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  if (level < MPI_THREAD_MULTIPLE) {
    return initialised_here ? "this MPI has no MPI_THREAD_MULTIPLE"
                            : "the program has initialised MPI without MPI_THREAD_MULTIPLE; call "
                              "MPI_Init_thread with it, or leave that to Shoal";
  }
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return nullptr;
}

// Messages of the program itself, and of others that use MPI in it, are not taken for Shoal's.
const char* connect(const int* ranks, int count) {
  constexpr int kTag = 20'001;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group ours = MPI_GROUP_NULL;
  int error = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (error == MPI_SUCCESS) error = MPI_Group_incl(world, count, ranks, &ours);
  if (error == MPI_SUCCESS) error = MPI_Comm_create_group(MPI_COMM_WORLD, ours, kTag, &communicator);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  if (ours != MPI_GROUP_NULL) MPI_Group_free(&ours);
  if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
  return error == MPI_SUCCESS ? nullptr : describe(error);
}

bool is_over() {
  int yes = 0;
  MPI_Finalized(&yes);
  return yes != 0;
}

bool is_running() {
  int yes = 0;
  MPI_Initialized(&yes);
  return yes != 0 && !is_over();
}

void finish() {
  if (is_over()) return;
  if (communicator != MPI_COMM_NULL) MPI_Comm_free(&communicator);
  if (initialised_here) MPI_Finalize();
}

int send(const void* data, std::size_t bytes, int to, int tag, Request* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int error = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, communicator, &made);
  request->handle = std::bit_cast<std::uint64_t>(made);
  return error;
}

int probe(int from, int tag, bool* is_there, Message* message, std::size_t* bytes) {
  int flag = 0;
  int count = 0;
  MPI_Status status;
  MPI_Message found = MPI_MESSAGE_NULL;
  const int error = MPI_Improbe(from, tag, communicator, &flag, &found, &status);
  *is_there = error == MPI_SUCCESS && flag != 0;
  if (!*is_there) return error;
  message->handle = std::bit_cast<std::uint64_t>(found);
  MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = static_cast<std::size_t>(count);
  return MPI_SUCCESS;
}

int receive_probed(const Message* message, void* data, std::size_t bytes, Request* request) {
  auto found = std::bit_cast<MPI_Message>(message->handle);
  MPI_Request made = MPI_REQUEST_NULL;
  const int error = MPI_Imrecv(data, static_cast<int>(bytes), MPI_BYTE, &found, &made);
  request->handle = std::bit_cast<std::uint64_t>(made);
  return error;
}

int receive(void* data, std::size_t bytes, int from, int tag, Request* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int error = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, communicator, &made);
  request->handle = std::bit_cast<std::uint64_t>(made);
  return error;
}

int test(Request* request, bool* is_done) {
  auto known = std::bit_cast<MPI_Request>(request->handle);
  int flag = 0;
  const int error = MPI_Test(&known, &flag, MPI_STATUS_IGNORE);
  request->handle = std::bit_cast<std::uint64_t>(known);
  *is_done = flag != 0;
  return error;
}

}  // namespace

SHOAL_PLUGIN(mpi, MpiApi) {
  static const MpiApi api{start, connect,        finish,  is_running, is_over, send,
                          probe, receive_probed, receive, test,       describe};
  return &api;
}

}  // namespace shoal
