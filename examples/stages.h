// The program that docs/architecture.md follows through every stage of the compiler.
#pragma once

#include <shoal/shoal.h>

#include <string>
#include <utility>
#include <vector>

namespace stages {

using namespace shoal;

/// Each stage by its name, with the text of the graph after it. Needs eight devices.
inline std::vector<std::pair<std::string, std::string>> all() {
  Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  Array input = device_put(ones({4, 8}), NamedSharding(mesh, P("x", "y")));
  Array weights = device_put(ones({8, 4}), NamedSharding(mesh, P("y", none)));

  auto product = jit([](Array a, Array w) { return matmul(a, w); }, {.name = "product"});
  auto layer = jit([&](Array a, Array w) { return 2 * product(a, w); },
                   {.out_shardings = NamedSharding(mesh, P("x", "y")), .name = "layer"});
  auto compiled = layer.lower(input, weights).compile();

  std::vector<std::pair<std::string, std::string>> texts;
  for (const char* stage : {"traced", "simplified", "placed", "propagated", "partitioned"}) {
    texts.emplace_back(stage, compiled.as_text(stage));
  }
  return texts;
}

}  // namespace stages
