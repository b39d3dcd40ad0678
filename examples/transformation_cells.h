// The cells of the tour of transformations. Read it from top to bottom: each cell uses what those before it have
// defined.
//
// It is a header so that a test can run it, too: the outputs are compared with those of the same cells in JAX 0.4, the
// last to have pmaps inside each other (tools/record_transformation_cells.py).
#pragma once

#include <shoal/shoal.h>

#include <ostream>
#include <utility>

#include "notebook.h"

namespace examples {

/// Runs every cell on the first eight devices and writes its title, source and output.
inline void run_transformations(std::ostream& out) {
  using namespace shoal;
  Notebook notebook(out);

  notebook.section("Derivatives");
  // grad takes a function that returns a scalar, and gives the function that returns its gradient.

  notebook.cell("A gradient");
  out << repr(grad([](Array x) { return sum(power(x, 3)); })(arange(4.0))) << '\n';

  notebook.cell("Outside of jit values are there: the program's own `if` works, and derivatives nest");
  auto slope = [](Array x) { return x.item<float>() > 2 ? x * x : x; };
  auto fourth = [](Array x) { return power(x, 4); };
  out << grad(slope)(3.0) << ' ' << grad(slope)(1.0) << ' ' << grad(grad(fourth))(2.0) << '\n';

  notebook.cell("The loss of a model and its gradient, a tree like the parameters");
  struct Params {
    Array w, b;
  };
  Array x = arange(16.0).reshape(8, 2) / 8;
  Array y = matmul(x, array({1.0F, -2.0F})) + 0.5;
  auto predict = [](const Params& q, const Array& in) { return matmul(in, q.w) + q.b; };
  auto loss = [&](const Params& q, const Array& in, const Array& to) { return mean(square(predict(q, in) - to)); };
  Params p{.w = zeros({2}), .b = zeros({})};
  auto [value, gradient] = value_and_grad(loss)(p, x, y);
  out << value << ' ' << gradient.w << ' ' << gradient.b << '\n';

  notebook.cell("Three steps of training");
  auto step = jit([&](const Params& q, const Array& in, const Array& to) {
    return tree::map([](const Array& old, const Array& g) { return old - 0.25 * g; }, q, grad(loss)(q, in, to));
  });
  for (int i = 0; i < 3; ++i) p = step(p, x, y);
  out << loss(p, x, y) << ' ' << p.w << ' ' << p.b << '\n';

  notebook.section("Many at once");
  // vmap takes a function of one example, and gives that of all of them.

  notebook.cell("The dot product of each pair of rows");
  out << repr(vmap([](Array a, Array b) { return sum(a * b); })(x, 2 * x)) << '\n';

  notebook.cell("The gradient of each example: in_axes none passes the parameters whole");
  auto each = vmap(grad(loss), {.in_axes = {none, 0, 0}})(p, x, y);
  out << each.w.shape() << ' ' << each.b << '\n';

  notebook.cell("A Hessian: how the gradient changes along each direction");
  auto curved = [](Array v) { return sum(power(v, 3)) + v[0] * v[1]; };
  auto along = [&](Array t) { return jvp(grad(curved), std::tuple(arange(3.0)), std::tuple(t)).second; };
  out << repr(vmap(along)(eye(3))) << '\n';

  notebook.section("Over devices");
  // Transformations go in any order, and through everything that spreads over devices.

  notebook.cell("Data over eight devices: the sum over them comes by itself, and a gradient lies as its argument");
  Mesh mesh = make_mesh({8}, {"x"});
  NamedSharding rows(mesh, P("x"));
  Array sx = device_put(x, rows), sy = device_put(y, rows);
  Array by_data = jit(grad<1>(loss))(p, sx, sy);
  out << jit(grad(loss))(p, sx, sy).w << ' ' << by_data.sharding().named()->spec() << '\n';

  notebook.cell("Through shard_map and the collectives in it");
  auto share = [&](Array in, Array to) { return lax::pmean(loss(p, in, to), "x"); };
  auto whole = shard_map(share, {.mesh = mesh, .in_specs = {P("x"), P("x")}, .out_specs = P()});
  Array of_rows = grad([&](Array v) { return whole(v, sy); })(sx);
  out << whole(sx, sy) << ' ' << lax::slice_in_dim(of_rows, 0, 2) << '\n';

  notebook.cell("Through pmaps inside each other, which exchange along both axes");
  auto normalise = [](Array v) { return v / lax::psum(v, {"rows", "cols"}); };
  auto nested = pmap(pmap(normalise, {.axis_name = "cols"}), {.axis_name = "rows"});
  Array weights = arange(8.0).reshape(4, 2);
  out << repr(grad([&](Array v) { return sum(weights * nested(v)); })(weights + 4.5)) << '\n';

  notebook.cell("A step of training in pmaps inside each other: the mean of the gradients over hosts and devices");
  auto train = [](Array old, Array in, Array to) {
    Array g = grad([&](Array w) { return mean(square(matmul(in, w) - to)); })(old);
    return old - 0.25 * lax::pmean(g, {"hosts", "devices"});
  };
  PmapOptions inner{.axis_name = "devices", .in_axes = {none, 0, 0}};
  PmapOptions outer{.axis_name = "hosts", .in_axes = {none, 0, 0}};
  Array w = pmap(pmap(train, inner), outer)(zeros({2}), x.reshape(4, 2, 1, 2), y.reshape(4, 2, 1));
  Array same = all(equal(w, w[0][0]));
  out << w.shape() << ' ' << w[0][0] << ' ' << same << '\n';

  notebook.cell("A derivative in a vmap in a pmap: collectives over places and devices at once");
  auto sine = [](Array v) { return sin(v) * lax::psum(v, {"i", "j"}); };
  auto places = pmap(vmap(grad(sine), {.axis_name = "j"}), {.axis_name = "i"});
  out << repr(places(arange(8.0).reshape(4, 2) / 4)) << '\n';
}

}  // namespace examples
