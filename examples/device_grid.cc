// The devices of all processes as a grid, with a row for each process. A diagonal matrix is split over all of them, and
// then gathered over the processes, so that each process has all of it, split over its own devices.
//
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/device_grid
#include <map>

#include "processes.h"

namespace {

using namespace shoal;

void print_shards(const Array& array) {
  for (const Shard& shard : array.addressable_shards()) std::cout << "shard\n " << shard.data << '\n';
}

void device_grid() {
  std::map<int, std::vector<Device>> by_process;
  for (const Device& device : devices()) by_process[device.process_index].push_back(device);
  std::vector<std::vector<Device>> grid;
  for (const auto& [process, row] : by_process) grid.push_back(row);

  std::cout << "Rank " << process_index() << '\n';
  std::cout << "Local devices " << local_device_count() << '\n';
  std::cout << "Global devices " << device_count() << '\n';
  std::cout << "World size " << process_count() << '\n';
  std::cout << "Device grid\n" << examples::grid_text(grid) << '\n';

  const Mesh mesh = make_mesh({process_count(), local_device_count()}, {"x", "y"});
  Array a = device_put(diag(arange(1, device_count() + 1).astype(float32)), NamedSharding(mesh, P(none, {"x", "y"})));
  print_shards(a);
  std::cout << a.sharding() << ' ' << a.addressable_shards()[0] << '\n';

  // Gather over the processes.
  a = with_sharding_constraint(a, NamedSharding(mesh, P(none, "y")));
  print_shards(a);
  std::cout << a.sharding() << '\n';
  std::cout << examples::list_text(a.addressable_shards(), [](const Shard& shard) {
    return "(" + std::to_string(shard.device.id) + ", " + to_string(shard.index) + ", " +
           std::to_string(shard.replica_id) + ")";
  }) << '\n';
  std::cout << a << '\n';
  debug::visualize_array_sharding(a, {.use_color = false});
  examples::print_whole("the matrix", a);
}

}  // namespace

int main() { return examples::run_job(device_grid); }
