// The tour of transformations, in 12 cells. Its text is in transformation_cells.h.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "transformation_cells.h"

int main() {
  try {
    if (std::getenv("SHOAL_NUM_CPU_DEVICES") == nullptr) shoal::set_num_cpu_devices(8);
    examples::run_transformations(std::cout);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
