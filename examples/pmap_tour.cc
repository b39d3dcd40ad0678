// The tour of pmap, in 21 cells. Its text is in pmap_cells.h.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "pmap_cells.h"

int main() {
  try {
    if (std::getenv("SHOAL_NUM_CPU_DEVICES") == nullptr) shoal::set_num_cpu_devices(8);
    examples::run_pmap_tour(std::cout);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
