// What the examples of several processes share: texts as Python prints them, and results that do not depend on how the
// devices are divided.
#pragma once

#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "notebook.h"

namespace examples {

/// Prints, in process 0, what all processes together have of a result: the same line however the devices are divided
/// among processes.
inline void print_whole(const std::string& name, const shoal::Array& result) {
  const shoal::Array whole = result.is_fully_addressable() ? shoal::multihost::process_allgather(result, true)
                                                           : shoal::multihost::to_host(result);
  if (shoal::process_index() == 0) std::cout << "all of " << name << ": " << shoal::repr(whole) << '\n';
}

/// "[a, b]".
template <class List, class TextOf>
std::string list_text(const List& list, TextOf text_of) {
  return "[" + join(list, text_of) + "]";
}

/// The elements of an array as nested lists: "[[0.0, 1.0], [2.0, 3.0]]".
inline std::string nested_text(const shoal::Array& array) {
  if (array.ndim() > 0) return list_text(array, nested_text);
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", array.item<double>());
  return text;
}

/// The parts of an array that devices of this process have, as `text_of` writes them.
template <class TextOf>
std::string shards_text(const shoal::Array& array, TextOf text_of) {
  return list_text(array.addressable_shards(), [&](const shoal::Shard& shard) { return text_of(shard.data); });
}

/// A grid of devices as NumPy prints it: rows in lines, which end before column 75.
inline std::string grid_text(const std::vector<std::vector<shoal::Device>>& grid) {
  constexpr std::size_t kColumns = 75;
  std::string text;
  for (const auto& row : grid) {
    std::string line = text.empty() ? "[[" : "\n [";
    std::size_t width = 2;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string device = shoal::to_string(row[i]);
      const bool is_new = i > 0 && width + 1 + device.size() >= kColumns;
      line += i == 0 ? device : (is_new ? "\n  " : " ") + device;
      width = (is_new || i == 0 ? 2 : width + 1) + device.size();
    }
    text += line + "]";
  }
  return text + "]";
}

/// Runs a program of several processes, and tells an error that it does not handle.
template <class Program>
int run_job(Program&& program) {
  try {
    shoal::distributed::initialize();
    program();
    std::cout << std::flush;
    shoal::distributed::shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

}  // namespace examples
