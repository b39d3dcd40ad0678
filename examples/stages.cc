// Prints a small program as it is after each stage of the compiler.
#include "stages.h"

#include <iostream>

int main() {
  shoal::set_num_cpu_devices(8);
  for (const auto& [stage, text] : stages::all()) std::cout << "### " << stage << "\n\n```\n" << text << "\n```\n\n";
}
