// Open MPI's side of the comparison: jobs of several processes, which mpirun starts with a request each. channel_bench
// asks it as well.
#include <mpi.h>

#include <functional>

#include "../serve.h"

namespace shoal::compare {
namespace {

int processes() {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

Json in_job(const std::function<Json()>& work) {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Json result = work();
  MPI_Finalize();
  return rank == 0 ? result : Json();
}

bool agree(bool goes_on) {
  int value = goes_on ? 1 : 0;
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return value != 0;
}

Json start(const Json&) {
  const double begin = seconds_now();
  return in_job([&] { return Json{{"seconds", seconds_now() - begin}}; });
}

Json barrier(const Json& request) {
  return in_job([&] {
    return measure_together(
        request, [] { MPI_Barrier(MPI_COMM_WORLD); }, agree);
  });
}

// In place, which is its best; the scaling as in the other sides, in the same pass over the array.
Json psum(const Json& request) {
  return in_job([&] {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const auto count = request.at("bytes").get<std::int64_t>() / 4;
    std::vector<float> y(static_cast<std::size_t>(count));
    const auto fill = [&] {
      for (std::int64_t i = 0; i < count; ++i) y[static_cast<std::size_t>(i)] = number(rank * count + i);
    };
    const float share = 1.0F / static_cast<float>(processes());
    const auto calls = [&] {
      MPI_Allreduce(MPI_IN_PLACE, y.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      for (float& element : y) element *= share;
    };
    fill();
    calls();
    Json result{{"sample", sample(y)}};
    fill();
    result.update(measure_together(request, calls, agree));
    return result;
  });
}

// Bytes to the other process and back.
Json round_trip(const Json& request) {
  return in_job([&] {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<char> data(request.at("bytes").get<std::size_t>());
    const int count = static_cast<int>(data.size());
    const auto send = [&] { MPI_Send(data.data(), count, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD); };
    const auto receive = [&] {
      MPI_Recv(data.data(), count, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    const auto there_and_back = [&] {
      if (rank == 0) send();
      receive();
      if (rank != 0) send();
    };
    return measure_together(request, there_and_back, agree);
  });
}

// The sum alone, in place.
Json all_reduce(const Json& request) {
  return in_job([&] {
    std::vector<float> data(request.at("bytes").get<std::size_t>() / sizeof(float));
    const auto sum = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    return measure_together(request, sum, agree);
  });
}

}  // namespace
}  // namespace shoal::compare

int main(int argc, char** argv) {
  using namespace shoal::compare;
  return serve({{"nothing", [](const Json&) { return Json(); }},
                {"job_start", start},
                {"job_barrier", barrier},
                {"job_psum", psum},
                {"job_round_trip", round_trip},
                {"job_all_reduce", all_reduce}},
               argc, argv);
}
