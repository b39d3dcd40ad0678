// lax::gather and lax::scatter in full generality: windows of an array at starting positions.
//
// Every element of a window is an item of its own here, with its own position: the start plus its place in the window.
// Only dimensions without starting positions are taken whole.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::lax {
namespace {

bool contains(const Dims& dims, std::size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
}

// The user's dimension numbers, and what the user calls them.
struct WindowNumbers {
  const Dims& window;   // Dimensions of the result or updates that are a window's.
  const Dims& dropped;  // Dimensions of the array without one there.
  const Dims& started;  // Dimensions of the array that have starting positions.
  const Dims& array_batch;
  const Dims& index_batch;
  std::string_view window_name;
  std::string_view dropped_name;
  std::string_view started_name;
};

// Windows of an array, as items. Their dimensions: those of the indices, those of windows that have starts, and those
// that are taken whole.
struct Windows {
  Shape outer;  // The indices' dimensions.
  ItemDims dims;
  std::vector<Array> positions;  // Of each item.
  std::optional<Array> inside;   // Whether a window lies in the array, in the shape `outer`; nothing to tell if none.
  Shape items;
  Shape full_items;  // With those of extent 1 that the user's windows lack, and no indices address.
  Dims order;        // Of the user's dimensions: which of the items' dimensions each is.
};

void check_dims(std::string_view name, const Dims& dims, std::size_t rank) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool inside = dims[i] >= 0 && static_cast<std::size_t>(dims[i]) < rank;
    if (inside && std::count(dims.begin(), dims.end(), dims[i]) == 1) continue;
    throw misuse<InvalidArgument>("{} {} must be distinct dimensions below {}", name, to_string(dims), rank);
  }
}

void check_numbers(const WindowNumbers& numbers, const Array& array, const Array& indices, const Dims& sizes) {
  const std::size_t rank = array.ndim();
  if (indices.ndim() == 0)
    throw misuse<InvalidArgument>("the indices need a last dimension, that of the starting positions");
  check_dims(numbers.dropped_name, numbers.dropped, rank);
  check_dims(numbers.started_name, numbers.started, rank);
  check_dims("operand_batching_dims", numbers.array_batch, rank);
  check_dims("the batching dimensions of the indices", numbers.index_batch, indices.ndim() - 1);
  if (static_cast<std::size_t>(indices.shape().back()) != numbers.started.size()) {
    throw misuse<InvalidArgument>("the last dimension of the indices {} must have the extent {}, the number of {}",
                                  type_of(indices), numbers.started.size(), numbers.started_name);
  }
  if (numbers.array_batch.size() != numbers.index_batch.size()) {
    throw misuse<InvalidArgument>("operand and indices must have as many batching dimensions");
  }
  if (sizes.size() != rank) {
    throw misuse<InvalidArgument>("the window sizes {} must have one entry for each dimension of {}", to_string(sizes),
                                  type_of(array));
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const bool single = contains(numbers.dropped, d) || contains(numbers.array_batch, d);
    if (contains(numbers.array_batch, d) && (contains(numbers.dropped, d) || contains(numbers.started, d))) {
      throw misuse<InvalidArgument>("dimension {} is a batching dimension, and can be no other", d);
    }
    if (sizes[d] < 0 || sizes[d] > array.shape()[d] || (single && sizes[d] > 1)) {
      throw misuse<InvalidArgument>("the window size {} does not fit dimension {} of {}{}", sizes[d], d, type_of(array),
                                    single ? ", which the windows lack" : "");
    }
  }
  const std::size_t windows = rank - numbers.dropped.size() - numbers.array_batch.size();
  if (numbers.window.size() != windows || !std::is_sorted(numbers.window.begin(), numbers.window.end())) {
    throw misuse<InvalidArgument>(
        "{} {} must name, in ascending order, one dimension for each of the {} that windows have", numbers.window_name,
        to_string(numbers.window), windows);
  }
  check_dims(numbers.window_name, numbers.window, windows + indices.ndim() - 1);
}

// Component k of the indices.
Array component(const Array& indices, std::size_t k) {
  std::vector<IndexEntry> index = {IndexEntry(ellipsis), IndexEntry(static_cast<std::int64_t>(k))};
  return indices.at(std::move(index)).get();
}

Windows windows_of(const WindowNumbers& numbers, const Array& array, const Array& indices, const Dims& sizes,
                   IndexMode mode) {
  check_numbers(numbers, array, indices, sizes);
  Windows made;
  made.outer.assign(indices.shape().begin(), indices.shape().end() - 1);
  made.items = made.outer;
  made.dims = {.dims = numbers.started, .array_batch = numbers.array_batch, .index_batch = numbers.index_batch};
  const std::size_t outer = made.outer.size();
  const auto in_window = [&](std::size_t d) {
    return !contains(numbers.dropped, d) && !contains(numbers.array_batch, d);
  };
  // Where the dimensions of windows come among the items': those with starts first.
  std::vector<std::int64_t> place(array.ndim(), -1);
  for (const bool started : {true, false}) {
    for (std::size_t d = 0; d < array.ndim(); ++d) {
      if (!in_window(d) || contains(numbers.started, d) != started) continue;
      place[d] = static_cast<std::int64_t>(made.items.size());
      made.items.push_back(sizes[d]);
    }
  }
  std::size_t next_outer = 0;
  std::size_t next_window = 0;
  for (std::size_t r = 0; r < made.items.size(); ++r) {
    if (!contains(numbers.window, r)) {
      made.order.push_back(static_cast<std::int64_t>(next_outer++));
      continue;
    }
    while (place[next_window] < 0) ++next_window;
    made.order.push_back(place[next_window++]);
  }
  Shape placed(made.outer);  // What has a position: not the dimensions taken whole.
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (in_window(d) && contains(numbers.started, d)) placed.push_back(sizes[d]);
  }
  made.full_items = placed;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (!contains(numbers.started, d) && !contains(numbers.array_batch, d)) made.full_items.push_back(sizes[d]);
  }
  Dims leading(outer);
  std::iota(leading.begin(), leading.end(), 0);
  for (std::size_t k = 0; k < numbers.started.size(); ++k) {
    const auto d = static_cast<std::size_t>(numbers.started[k]);
    const std::int64_t last = array.shape()[d] - sizes[d];
    Array start = resolved_positions(component(indices, k), last + 1, mode, false);
    if (mode == IndexMode::kFill) {
      const Array fits = bitwise_and(greater_equal(start, 0), less_equal(start, last));
      made.inside = made.inside ? bitwise_and(*made.inside, fits) : fits;
    }
    start = spread(start, placed, leading);
    if (place[d] >= 0) {
      const Array steps = counted(sizes[d], array);
      start = add(start, spread(steps, placed, {place[d]}));
    }
    made.positions.push_back(start);
  }
  return made;
}

// Dimensions without starting positions, of which windows take the first elements.
Array from_the_front(const Array& array, const Dims& started, const Dims& batch, const Dims& sizes) {
  std::vector<IndexEntry> index;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const bool whole = contains(started, d) || contains(batch, d);
    index.emplace_back(whole ? Range{} : range(0, sizes[d]));
  }
  return array.at(std::move(index)).get();
}

WindowNumbers numbers_of(const ScatterDimensionNumbers& dims) {
  return {.window = dims.update_window_dims,
          .dropped = dims.inserted_window_dims,
          .started = dims.scatter_dims_to_operand_dims,
          .array_batch = dims.operand_batching_dims,
          .index_batch = dims.scatter_indices_batching_dims,
          .window_name = "update_window_dims",
          .dropped_name = "inserted_window_dims",
          .started_name = "scatter_dims_to_operand_dims"};
}

struct Scattered {
  Array array;
  Array items;
  Windows windows;
};

// The updates as items, and where they go: positions behind the end for those that are dropped.
Scattered scattered(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                    const ScatterDimensionNumbers& dims, IndexMode mode) {
  const Array array = to_array(x);
  const Array values = fitting(array, updates);
  const Array indices = to_array(scatter_indices);
  const WindowNumbers numbers = numbers_of(dims);
  Dims sizes(array.ndim(), 1);
  std::size_t next = 0;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    if (contains(dims.inserted_window_dims, d) || contains(dims.operand_batching_dims, d)) continue;
    if (next == dims.update_window_dims.size()) break;
    const std::int64_t r = dims.update_window_dims[next++];
    if (r >= 0 && static_cast<std::size_t>(r) < values.ndim()) sizes[d] = values.shape()[static_cast<std::size_t>(r)];
  }
  Windows windows = windows_of(numbers, array, indices, sizes, mode);
  Shape shape;
  for (const std::int64_t place : windows.order) shape.push_back(windows.items[static_cast<std::size_t>(place)]);
  if (values.shape() != shape) {
    throw misuse<InvalidArgument>("updates {} must have shape {}, that of the windows at the indices {}",
                                  type_of(values), to_string(shape), type_of(indices));
  }
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const bool free = !contains(dims.scatter_dims_to_operand_dims, d) && !contains(dims.operand_batching_dims, d);
    if (free && sizes[d] != array.shape()[d]) {
      throw misuse<Unsupported>(
          "windows take {} of dimension {} of {}, which has no starting position; give it one, or let them take the "
          "whole of it",
          sizes[d], d, type_of(array));
    }
  }
  if (windows.inside) {
    Dims leading(windows.outer.size());
    std::iota(leading.begin(), leading.end(), 0);
    for (std::size_t k = 0; k < windows.positions.size(); ++k) {
      const std::int64_t end = array.shape()[static_cast<std::size_t>(windows.dims.dims[k])];
      Array& positions = windows.positions[k];
      positions = where(spread(*windows.inside, positions.shape(), leading), positions, end);
    }
  }
  Dims perm(windows.order.size());
  for (std::size_t r = 0; r < perm.size(); ++r) {
    perm[static_cast<std::size_t>(windows.order[r])] = static_cast<std::int64_t>(r);
  }
  const Array items = shoal::reshape(transpose(values, perm), windows.full_items);
  return {array, items, std::move(windows)};
}

Array scatter_and(std::string_view kind, Array (*combine)(const Operand&, const Operand&), const Operand& x,
                  const Operand& scatter_indices, const Operand& updates, const ScatterDimensionNumbers& dims,
                  const UpdateOptions& options) {
  const Scattered made = scattered(x, scatter_indices, updates, dims, options.mode);
  const Array change = reduced_items(kind, made.array.shape(), made.items, made.windows.positions, made.windows.dims);
  return combine(made.array, change);
}

}  // namespace

Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& dims,
             const Dims& slice_sizes, const GetOptions& options) {
  const Caller caller("gather", x.where());
  const Array array = to_array(x);
  const WindowNumbers numbers{.window = dims.offset_dims,
                              .dropped = dims.collapsed_slice_dims,
                              .started = dims.start_index_map,
                              .array_batch = dims.operand_batching_dims,
                              .index_batch = dims.start_indices_batching_dims,
                              .window_name = "offset_dims",
                              .dropped_name = "collapsed_slice_dims",
                              .started_name = "start_index_map"};
  const Windows windows = windows_of(numbers, array, to_array(start_indices), slice_sizes, options.mode);
  const Array front = from_the_front(array, dims.start_index_map, dims.operand_batching_dims, slice_sizes);
  Array items = items_at(front, windows.positions, windows.dims, {});
  items = shoal::reshape(items, windows.items);
  if (windows.inside) {
    Dims leading(windows.outer.size());
    std::iota(leading.begin(), leading.end(), 0);
    const Operand fill = options.fill_value ? *options.fill_value : default_fill(array.dtype());
    items = where(spread(*windows.inside, items.shape(), leading), items, fitting(array, fill));
  }
  return transpose(items, windows.order);
}

Array scatter(const Operand& x, const Operand& scatter_indices, const Operand& updates,
              const ScatterDimensionNumbers& dims, const UpdateOptions& options) {
  const Caller caller("scatter", x.where());
  const Scattered made = scattered(x, scatter_indices, updates, dims, options.mode);
  return with_items(made.array, made.items, made.windows.positions, made.windows.dims);
}

Array scatter_add(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options) {
  const Caller caller("scatter_add", x.where());
  return scatter_and("sum", add, x, scatter_indices, updates, dims, options);
}
Array scatter_mul(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options) {
  const Caller caller("scatter_mul", x.where());
  return scatter_and("prod", multiply, x, scatter_indices, updates, dims, options);
}
Array scatter_min(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options) {
  const Caller caller("scatter_min", x.where());
  return scatter_and("min", minimum, x, scatter_indices, updates, dims, options);
}
Array scatter_max(const Operand& x, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dims, const UpdateOptions& options) {
  const Caller caller("scatter_max", x.where());
  return scatter_and("max", maximum, x, scatter_indices, updates, dims, options);
}

}  // namespace shoal::lax
