// The tutorial: parallel programs on a mesh of devices, in 31 cells. Its text is in tutorial_cells.h.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tutorial_cells.h"

int main() {
  try {
    if (std::getenv("SHOAL_NUM_CPU_DEVICES") == nullptr) shoal::set_num_cpu_devices(8);
    examples::run_tutorial(std::cout);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
