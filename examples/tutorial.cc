// The tutorial: parallel programs on a mesh of devices, in 31 cells. Its text is in tutorial_cells.h. With --markdown
// it writes docs/tutorial.md.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>

#include "tutorial_cells.h"

int main(int argc, char** argv) {
  using examples::Notebook;
  try {
    if (std::getenv("SHOAL_NUM_CPU_DEVICES") == nullptr) shoal::set_num_cpu_devices(8);
    if (argc > 1 && std::string_view(argv[1]) == "--markdown") {
      std::cout << "# Tutorial\n\nWritten by `build/release/bin/tutorial --markdown` from `examples/tutorial_cells.h`. "
                   "Every cell was run.\n";
      examples::run_tutorial(std::cout, Notebook::Style::kMarkdown);
    } else {
      examples::run_tutorial(std::cout);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
