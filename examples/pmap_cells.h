// The cells of the tour of pmap. Read it from top to bottom: each cell uses what those before it have defined.
//
// It is a header so that a test can run it, too: the outputs are compared with those of the same cells in JAX. pmaps
// inside each other are compared with JAX 0.4, the last to have them.
#pragma once

#include <shoal/shoal.h>

#include <initializer_list>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "notebook.h"

namespace examples {

/// Runs every cell on the first eight devices and writes its title, source and output.
inline void run_pmap_tour(std::ostream& out) {
  using namespace shoal;
  Notebook notebook(out);

  notebook.section("pmap: one slice on each device");
  // pmap calls a function once for each slice of its arguments, every call on a device of its own. It is shard_map over
  // a mesh with one axis, which it names itself.

  notebook.cell("The devices of this job");
  out << "[" << join(devices(), [](const Device& device) { return to_string(device); }) << "]\n";

  notebook.cell("A function is called on x[0], x[1], …");
  out << repr(pmap([](Array x) { return power(x, 2); })(arange(8))) << '\n';

  notebook.cell("Calls communicate along the axis that axis_name names; the result is an ordinary array");
  Array r = pmap([](Array x) { return x / lax::psum(x, "i"); }, {.axis_name = "i"})(arange(8.0));
  out << r << '\n';
  out << r.sharding() << " {" << join(r.devices(), [](const Device& device) { return to_string(device); }) << "}\n";
  out << repr(r) << '\n';

  notebook.section("pmaps inside each other");
  // Each pmap takes one axis of a common mesh, the outermost the most major. The innermost function may communicate
  // along any of them, and along several at once.

  notebook.cell("Rows and columns: x over the sum of its row, of its column, and of all");
  auto normalise = [](Array x) {
    Array row_normed = x / lax::psum(x, "rows");
    Array col_normed = x / lax::psum(x, "cols");
    Array doubly_normed = x / lax::psum(x, {"rows", "cols"});
    return std::tuple{row_normed, col_normed, doubly_normed};
  };
  auto f = pmap(pmap(normalise, {.axis_name = "cols"}), {.axis_name = "rows"});
  Array x = arange(8.0).reshape(4, 2);
  auto [row_normed, col_normed, doubly_normed] = f(x);
  out << row_normed.sum(0) << '\n' << col_normed.sum(1) << '\n' << doubly_normed.sum({.axis = {0, 1}}) << '\n';
  out << row_normed << ' ' << col_normed << ' ' << doubly_normed << '\n';

  notebook.cell("The same in one expression");
  auto texts = [](std::initializer_list<Array> arrays) {
    return "(" + join(arrays, [](const Array& array) { return repr(array); }) + ")";
  };
  auto [by_row, by_col, by_all] =
      pmap(pmap(normalise, {.axis_name = "cols"}), {.axis_name = "rows"})(arange(8.0).reshape(4, 2));
  out << texts({by_row, by_col, by_all}) << '\n';

  notebook.cell("A vmap inside of pmap: one axis of devices, and one of places on each, in the same collectives");
  auto sums = [](Array one) {
    Array place = lax::axis_index("i") * 10 + lax::axis_index("j");
    return std::tuple{lax::psum(one, "i"), lax::psum(one, "j"), lax::psum(one, {"i", "j"}), place};
  };
  auto [over_i, over_j, over_both, places] =
      pmap(vmap(sums, {.axis_name = "j"}), {.axis_name = "i"})(arange(8.0).reshape(4, 2));
  out << texts({over_i, over_j, over_both, places}) << '\n';

  notebook.cell("With shard_map: the mesh and its axes are written down");
  Mesh mesh = make_mesh({4, 2}, {"rows", "cols"});
  auto h = shard_map(
      [&](Array shard) {
        Array position = lax::axis_index("rows") * 10 + lax::axis_index("cols") + 0 * shard.astype(int32);
        return std::tuple_cat(normalise(shard), std::tuple{position});
      },
      {.mesh = mesh, .in_specs = P("rows", "cols"), .out_specs = P("rows", "cols")});
  auto [s_rows, s_cols, s_all, positions] = h(arange(8.0).reshape(4, 2));
  out << s_rows << '\n' << s_cols << '\n' << s_all << '\n' << positions << '\n';
  debug::visualize_array_sharding(s_rows, {.use_color = false, .out = &out});
  out << s_rows.sharding() << '\n';

  notebook.section("Which dimension is mapped");

  notebook.cell("in_axes none passes an argument whole to every call");
  auto add = [](Array a, Array b) { return a + b; };
  out << repr(pmap(add, {.in_axes = {0, none}})(arange(8.0), 5.0)) << '\n';

  notebook.cell("out_axes says where the results are stacked");
  auto same = [](Array a) { return a; };
  out << pmap(same, {.out_axes = 1})(arange(16.0).reshape(8, 2)).shape() << '\n';

  notebook.cell("Pitfall: every slice needs a device");
  try {
    pmap(same)(arange(9.0));
  } catch (const InvalidArgument& error) {
    out << "InvalidArgument: " << error.what() << '\n';
  }

  notebook.cell("Fewer slices than devices are no problem");
  auto twice = [](Array a) { return a * 2; };
  out << repr(pmap(twice)(arange(4.0))) << '\n';

  notebook.cell("Pitfall: mapped dimensions must be of one size");
  try {
    pmap(add)(arange(4.0), arange(8.0));
  } catch (const InvalidArgument& error) {
    out << "InvalidArgument: " << error.what() << '\n';
  }

  notebook.cell("Where the slices of a result lie");
  r = pmap(twice)(arange(16.0).reshape(8, 2));
  out << r.sharding() << '\n' << r.addressable_shards()[3] << '\n' << repr(r[3]) << '\n';

  notebook.section("Collectives");

  notebook.cell("The greatest, the least, the mean, and who I am");
  auto [greatest, least, mean, index] = pmap(
      [](Array a) {
        return std::tuple{lax::pmax(a, "i"), lax::pmin(a, "i"), lax::pmean(a, "i"), lax::axis_index("i")};
      },
      {.axis_name = "i"})(arange(8.0));
  out << texts({greatest, least, mean, index}) << '\n';

  notebook.cell("ppermute sends to the next device, in a ring");
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < 8; ++i) ring.emplace_back(i, (i + 1) % 8);
  out << repr(pmap([&](Array a) { return lax::ppermute(a, "i", ring); }, {.axis_name = "i"})(arange(8.0))) << '\n';

  notebook.cell("Who receives nothing gets zeros");
  ring.pop_back();
  out << repr(pmap([&](Array a) { return lax::ppermute(a, "i", ring); }, {.axis_name = "i"})(arange(1.0, 9.0))) << '\n';

  notebook.cell("all_gather: every device gets all slices");
  out << pmap([](Array a) { return lax::all_gather(a, "i"); }, {.axis_name = "i"})(arange(8.0)).shape() << '\n';

  notebook.cell("all_to_all: devices and a dimension change places");
  out << repr(pmap([](Array a) { return lax::all_to_all(a, "i", {.split_axis = 0, .concat_axis = 0}); },
                   {.axis_name = "i"})(arange(64).reshape(8, 8)))
      << '\n';

  notebook.cell("psum_scatter: every device gets its part of the sum");
  out << repr(pmap([](Array a) { return lax::psum_scatter(a, "i"); }, {.axis_name = "i"})(arange(64.0).reshape(8, 8)))
      << '\n';

  notebook.cell("Sums within groups of devices");
  auto group_sums = [](Array a) { return lax::psum(a, "i", {.axis_index_groups = {{0, 1, 2, 3}, {4, 5, 6, 7}}}); };
  out << repr(pmap(group_sums, {.axis_name = "i"})(arange(8.0))) << '\n';

  notebook.cell("Pitfall: an axis that no pmap binds");
  try {
    pmap([](Array a) { return lax::psum(a, "k"); }, {.axis_name = "i"})(arange(8.0));
  } catch (const UnboundAxisError& error) {
    out << "UnboundAxisError: " << error.what() << '\n';
  }
}

}  // namespace examples
