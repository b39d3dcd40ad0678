// ScaLAPACK's layout of a matrix: Blackford et al., "ScaLAPACK users' guide", 1997, chapter 4.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/linalg_operands.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/solvers.h"

namespace shoal::linalg {
namespace {

// Of descriptors of dense matrices.
constexpr std::int64_t kDense = 1;
// Lines and columns of tiles in a picture.
constexpr std::int64_t kPictured = 24;

std::vector<std::string> axes_of(const PartitionSpec& spec, std::size_t dim) {
  const std::vector<PartitionEntry>& entries = spec.entries();
  return dim < entries.size() ? entries[dim].axes() : std::vector<std::string>();
}

std::int64_t devices_along(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::int64_t devices = 1;
  for (const auto& [name, size] : mesh.shape()) {
    if (std::ranges::find(axes, name) != axes.end()) devices *= size;
  }
  return devices;
}

// A dimension whose tiles lie in the order of their owners, or in that of the matrix.
Array dealt(const Array& x, std::size_t dim, std::int64_t tile, std::int64_t outer, std::int64_t inner) {
  Shape split = x.shape();
  split[dim] = outer;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(dim) + 1, {inner, tile});
  const auto at = static_cast<std::int64_t>(dim);
  return reshape(swapaxes(reshape(x, split), at, at + 1), x.shape());
}

}  // namespace

BlockCyclic::BlockCyclic(std::int64_t rows, std::int64_t columns, std::int64_t row_tile, std::int64_t column_tile,
                         Mesh mesh, PartitionSpec spec, std::source_location where)
    : sharding_(std::move(mesh), std::move(spec), {}, where),
      rows_{rows, row_tile, devices_along(sharding_.mesh(), axes_of(sharding_.spec(), 0))},
      columns_{columns, column_tile, devices_along(sharding_.mesh(), axes_of(sharding_.spec(), 1))} {
  const Caller caller("BlockCyclic", where);
  if (sharding_.spec().entries().size() > 2) {
    throw misuse<InvalidArgument>("the spec {} has more than the two dimensions of a matrix",
                                  to_string(sharding_.spec()));
  }
  if (rows < 0 || columns < 0) {
    throw misuse<InvalidArgument>("a matrix of {} × {} does not exist; extents are at least 0", rows, columns);
  }
  if (row_tile < 1 || column_tile < 1) {
    throw misuse<InvalidArgument>("tiles are {} × {}; they must have at least a row and a column", row_tile,
                                  column_tile);
  }
}

BlockCyclic BlockCyclic::from_descriptor(std::span<const std::int64_t> descriptor, Mesh mesh, PartitionSpec spec,
                                         std::source_location where) {
  const Caller caller("BlockCyclic::from_descriptor", where);
  if (descriptor.size() != 9 || descriptor[0] != kDense || descriptor[6] != 0 || descriptor[7] != 0) {
    throw misuse<InvalidArgument>(
        "the descriptor ({}) must have 9 numbers: 1, for a dense matrix, the context, rows, columns, rows and columns "
        "of "
        "a tile, 0 and 0 for the device of the first tile, and the local rows",
        fmt::join(descriptor, ", "));
  }
  BlockCyclic layout(descriptor[2], descriptor[3], descriptor[4], descriptor[5], std::move(mesh), std::move(spec),
                     where);
  // No device has more rows than the first.
  const BlockCyclic::Dim& dim = layout.rows_;
  const std::int64_t whole = dim.extent / (dim.tile * dim.devices) * dim.tile;
  const std::int64_t least = whole + std::min(dim.tile, dim.extent % (dim.tile * dim.devices));
  if (descriptor[8] < std::max<std::int64_t>(1, least)) {
    throw misuse<InvalidArgument>("the descriptor says {} local rows; there are {}", descriptor[8],
                                  std::max<std::int64_t>(1, least));
  }
  return layout;
}

std::array<std::int64_t, 9> BlockCyclic::descriptor(std::int64_t context) const {
  return {kDense,    context,    rows(),
          columns(), rows_.tile, columns_.tile,
          0,         0,          std::max<std::int64_t>(1, padded_rows() / rows_.devices)};
}

std::pair<std::int64_t, std::int64_t> BlockCyclic::owner(std::int64_t row, std::int64_t column,
                                                         std::source_location where) const {
  if (row < 0 || row >= rows() || column < 0 || column >= columns()) {
    const Caller caller("BlockCyclic::owner", where);
    throw misuse<OutOfRange>("({}, {}) is no place of a matrix of {} × {}", row, column, rows(), columns());
  }
  return {row / rows_.tile % rows_.devices, column / columns_.tile % columns_.devices};
}

std::string BlockCyclic::picture() const {
  const auto tiles = [](const Dim& dim) { return (dim.extent + dim.tile - 1) / dim.tile; };
  const std::int64_t down = std::min(tiles(rows_), kPictured);
  const std::int64_t across = std::min(tiles(columns_), kPictured);
  std::string text = fmt::format("{} × {} in tiles of {} × {} over {} × {} devices\n", rows(), columns(), rows_.tile,
                                 columns_.tile, rows_.devices, columns_.devices);
  const auto width = fmt::formatted_size("{}", rows_.devices * columns_.devices - 1);
  for (std::int64_t i = 0; i < down; ++i) {
    for (std::int64_t j = 0; j < across; ++j) {
      text +=
          fmt::format("{:>{}}", i % rows_.devices * columns_.devices + j % columns_.devices, width + (j > 0 ? 1 : 0));
    }
    text += across < tiles(columns_) ? " …\n" : "\n";
  }
  if (down < tiles(rows_)) text += "…\n";
  return text;
}

Array to_block_cyclic(const Operand& a, const BlockCyclic& layout) {
  const Caller caller("to_block_cyclic", a.where());
  const Array matrix = to_array(a);
  if (matrix.shape() != Shape{layout.rows(), layout.columns()}) {
    throw misuse<InvalidArgument>("the matrix {} must be the layout's, of {} × {}", type_of(matrix), layout.rows(),
                                  layout.columns());
  }
  const auto& [down, across] = std::pair(layout.rows_, layout.columns_);
  Array x = lax::pad(matrix, zeros({}, {.dtype = matrix.dtype()}),
                     {{0, down.padded() - down.extent, 0}, {0, across.padded() - across.extent, 0}});
  x = dealt(x, 0, down.tile, down.rounds(), down.devices);
  x = dealt(x, 1, across.tile, across.rounds(), across.devices);
  return lax::with_sharding_constraint(x, layout.sharding());
}

Array from_block_cyclic(const Operand& x, const BlockCyclic& layout) {
  const Caller caller("from_block_cyclic", x.where());
  Array matrix = to_array(x);
  if (matrix.shape() != Shape{layout.padded_rows(), layout.padded_columns()}) {
    throw misuse<InvalidArgument>("{} must have the extents of all local matrices, {} × {}", type_of(matrix),
                                  layout.padded_rows(), layout.padded_columns());
  }
  const auto& [down, across] = std::pair(layout.rows_, layout.columns_);
  matrix = dealt(matrix, 0, down.tile, down.devices, down.rounds());
  matrix = dealt(matrix, 1, across.tile, across.devices, across.rounds());
  matrix = lax::slice(matrix, {0, 0}, {down.extent, across.extent});
  if (down.extent % down.devices != 0 || across.extent % across.devices != 0) return matrix;
  return lax::with_sharding_constraint(matrix, layout.sharding());
}

bool verify_cyclic(const Operand& x, const Operand& a, const BlockCyclic& layout) {
  const Caller caller("verify_cyclic", x.where());
  const Array matrix = to_array(a);
  const Array held = from_block_cyclic(x, layout);
  if (matrix.shape() != held.shape() || matrix.dtype() != held.dtype()) {
    throw misuse<InvalidArgument>("the matrix {} must have the dtype of {}, and the extents of the layout, {} × {}",
                                  type_of(matrix), type_of(to_array(x)), layout.rows(), layout.columns());
  }
  const Array same = logical_or(held == matrix, logical_and(isnan(held), isnan(matrix)));
  return all(same).item<bool>();
}

}  // namespace shoal::linalg
