// Open MPI's side of the comparison: jobs of several processes, which mpirun starts with a request each.
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

}  // namespace
}  // namespace shoal::compare

int main(int argc, char** argv) {
  using namespace shoal::compare;
  return serve({{"nothing", [](const Json&) { return Json(); }},
                {"job_start", start},
                {"job_barrier", barrier},
                {"job_psum", psum}},
               argc, argv);
}
