// The sum of an array that is spread over eight devices. Built outside Shoal's tree, with CMake or
//   c++ sum.cc $(pkg-config --cflags --libs shoal) -o sum
#include <shoal/shoal.h>

#include <iostream>

using namespace shoal;

int main() {
  set_num_cpu_devices(8);
  const Mesh mesh = make_mesh({8}, {"i"});
  const Array x = device_put(arange(8.0f), NamedSharding(mesh, P("i")));
  const auto total = jit([](const Array& a) { return a.sum(); });
  std::cout << "the sum is " << total(x) << " on " << x.devices().size() << " devices\n";
}
