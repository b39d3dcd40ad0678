// One step of the heat equation on a square plate whose edge is kept at zero, with a tile of it on each device.
#pragma once

#include <shoal/shoal.h>

#include <string>

namespace examples {

using shoal::Array;
using shoal::Mesh;
using shoal::range;
namespace lax = shoal::lax;

constexpr double kRate = 0.2;  // Of heat that goes to each neighbour in a step; stable up to 0.25.

// The x of the device before this one along an axis of the mesh. The first device gets zeros: the edge of the plate.
inline Array from_before(const Array& x, const std::string& axis) {
  lax::Permutation pairs;
  for (int i = 0; i + 1 < lax::axis_size(axis); ++i) pairs.emplace_back(i, i + 1);
  return lax::ppermute(x, axis, pairs);
}

// The same of the device after this one; the last device gets zeros.
inline Array from_after(const Array& x, const std::string& axis) {
  lax::Permutation pairs;
  for (int i = 0; i + 1 < lax::axis_size(axis); ++i) pairs.emplace_back(i + 1, i);
  return lax::ppermute(x, axis, pairs);
}

// One step of a tile. A device sends one message to each neighbour, and gets one from it.
inline Array step(const Array& tile) {
  const Array above = from_before(tile[{range(-1), range()}], "row");
  const Array below = from_after(tile[{range(0, 1), range()}], "row");
  const Array left = from_before(tile[{range(), range(-1)}], "column");
  const Array right = from_after(tile[{range(), range(0, 1)}], "column");
  // The tile in a frame of what came. These updates write in place, since nobody else holds the framed tile; so all the
  // memory of the loop is this one copy.
  Array framed = shoal::pad(tile, {{1, 1}, {1, 1}});
  framed = lax::dynamic_update_slice(framed, above, {0, 1});
  framed = lax::dynamic_update_slice(framed, below, {-1, 1});
  framed = lax::dynamic_update_slice(framed, left, {1, 0});
  framed = lax::dynamic_update_slice(framed, right, {1, -1});
  // The slices are not copied: one loop over the tile reads the five points, and writes where the tile was.
  // Each has a name, so that they are taken, and differentiated, in this order by every compiler.
  const auto in = range(1, -1);
  const Array here = framed[{in, in}];
  const Array from_above = framed[{range(0, -2), in}];
  const Array from_below = framed[{range(2), in}];
  const Array from_left = framed[{in, range(0, -2)}];
  const Array from_right = framed[{in, range(2)}];
  const Array around = from_above + from_below + from_left + from_right;
  return here + kRate * (around - 4 * here);
}

// As many rows as columns of devices, or as near as that.
inline Mesh mesh_of_all_devices() {
  const int count = shoal::device_count();
  int rows = 1;
  for (int i = 1; i * i <= count; ++i) {
    if (count % i == 0) rows = i;
  }
  return shoal::make_mesh({rows, count / rows}, {"row", "column"});
}

}  // namespace examples
