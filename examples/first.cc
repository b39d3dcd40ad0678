// A first program: an array on eight devices, a function that follows it there, and a sum over all of them.
#include <shoal/shoal.h>

#include <iostream>

using namespace shoal;

int main() {
  set_num_cpu_devices(8);  // Eight virtual devices on this computer.
  Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  Array a = device_put(arange(32.0f).reshape(4, 8), NamedSharding(mesh, P("x", "y")));

  auto f = jit([](Array x) { return 2 * sin(x) + 1; });  // Partitioned automatically.
  Array b = f(a);                                        // b.sharding() == a.sharding()

  auto total = shard_map(
      [](Array x) {
        return lax::psum(x.sum(), {"x", "y"});
      },
      {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P()});
  std::cout << b << "\ntotal " << total(b) << '\n';
  debug::visualize_array_sharding(b);
}
