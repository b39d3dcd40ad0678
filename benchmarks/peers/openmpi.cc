// What Open MPI takes, between two processes: `mpirun -n 2 openmpi_peer round_trip 4096`. channel_bench runs it.
//
// `round_trip` sends bytes there and back; `all_reduce` sums floats in place. Prints the seconds that one takes: the
// median of ten groups of repetitions.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string work = argv[1];
  const int count = std::atoi(argv[2]) / static_cast<int>(sizeof(float));
  std::vector<float> data(static_cast<std::size_t>(count), 0.0F);
  const auto once = [&] {
    if (work == "all_reduce") {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (rank == 0) {
      MPI_Send(data.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(data.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(data.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
  };
  constexpr int kGroups = 10;
  const int repeats = std::clamp((8 << 20) / std::max(count, 1), 2, 200);
  for (int i = 0; i < repeats; ++i) once();
  std::vector<double> times;
  for (int group = 0; group < kGroups; ++group) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < repeats; ++i) once();
    times.push_back((MPI_Wtime() - begin) / repeats);
  }
  std::sort(times.begin(), times.end());
  if (rank == 0) std::printf("%.9f\n", times[kGroups / 2]);
  MPI_Finalize();
  return 0;
}
