#include "backend/cpu/windows/convolution_plan.h"

#include <algorithm>

#include "backend/cpu/products/tiling.h"

namespace shoal::cpu {
namespace {

// The copy of what a unit reads stays in the second level of the cache, or where it is read by few lines at a time, in
// the third.
constexpr std::int64_t kGridBytes = 512 << 10;
constexpr std::int64_t kGridBytesOfResults = 2 << 20;
// A band is at least so many times what neighbouring bands read both.
constexpr std::int64_t kLeastBand = 4;
// Rows for which it pays to read the packed operand once more.
constexpr std::int64_t kRowsOfUnit = 48;
// From these numbers of multiplications on there are 2, 4, 8 and 16 tiles.
constexpr double kWorkOfTiles[] = {1 << 20, 1 << 23, 1 << 26, 1 << 30};
// Parts of what is summed.
constexpr std::int64_t kPart = 4096;
constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kMostSplitResults = 1 << 18;

struct Costs {
  const ConvolutionLoops& loops;

  // Cycles of a panel for each index: two products, or two elements read, in a cycle. Vectors of the array cross lines
  // of the cache.
  double of_panel(std::int64_t rows, std::int64_t vectors, bool of_array) const {
    const auto r = static_cast<double>(rows);
    const auto v = static_cast<double>(vectors);
    return std::max(r * v / 2, of_array ? v + r / 2 : (v + r) / 2);
  }
  double of_panels(std::int64_t rows, std::int64_t columns, bool of_array) const {
    const std::int64_t vectors = divide_up(columns, loops.lanes);
    // Vectors of results are spread over panels evenly.
    const std::int64_t panels = divide_up(vectors, loops.vectors);
    const std::int64_t whole =
        of_array ? vectors / loops.vectors : panels - (panels * divide_up(vectors, panels) - vectors);
    const std::int64_t width = of_array ? loops.vectors : divide_up(vectors, panels);
    const std::int64_t rest_width = of_array ? vectors % loops.vectors : width - 1;
    const auto of_rows = [&](std::int64_t n) {
      return static_cast<double>(whole) * of_panel(n, width, of_array) +
             (panels == whole ? 0.0 : static_cast<double>(panels - whole) * of_panel(n, rest_width, of_array));
    };
    const std::int64_t rest = rows % loops.rows;
    return static_cast<double>(rows / loops.rows) * of_rows(loops.rows) + (rest == 0 ? 0.0 : of_rows(rest));
  }
};

// Places of the first phases that vectors run over at once, those between rows of the grid among them.
std::int64_t flat_places(const ConvolutionPlan& plan, std::size_t flat, std::int64_t first_places) {
  std::int64_t length = 1;
  std::int64_t stride = 1;
  for (std::size_t d = plan.dims.size(); d-- > plan.dims.size() - flat;) {
    const std::int64_t places = d == 0 ? first_places : plan.dims[d].most_places();
    length += (places - 1) * stride;
    stride *= places + plan.dims[d].reach;
  }
  return length;
}

// Elements of the grid of an image and a feature, with so many places of the first dimension.
std::int64_t grid_of(const ConvolutionPlan& plan, std::int64_t first_places) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < plan.dims.size(); ++d) {
    const WindowDim& dim = plan.dims[d];
    elements *= ((d == 0 ? first_places : dim.most_places()) + dim.reach) *
                std::max<std::int64_t>(1, static_cast<std::int64_t>(dim.lines.size()));
  }
  return elements;
}

// What vectors are made of, and of how many dimensions they run over.
void choose_vectors(ConvolutionPlan& plan, const Costs& costs) {
  const std::int64_t band = std::max<std::int64_t>(1, plan.dims[0].most_places());
  std::int64_t rows = plan.batch;
  for (const WindowDim& dim : plan.dims) rows *= dim.most_places();
  double sums = 1;  // The products of an element.
  for (const WindowDim& dim : plan.dims) sums *= static_cast<double>(dim.window) / static_cast<double>(dim.period);
  sums = std::max(1.0, sums * static_cast<double>(plan.features));
  // Sums in vectors of results are transposed when they are stored: so many cycles for each.
  constexpr double kTranspose = 2;
  double least = costs.of_panels(rows, plan.results, false) +
                 kTranspose * static_cast<double>(rows) * static_cast<double>(plan.results) / sums;
  plan.vectors_of_places = false;
  std::int64_t runs = rows;
  for (std::size_t flat = 1; flat <= plan.dims.size(); ++flat) {
    runs /= std::max<std::int64_t>(1, plan.dims[plan.dims.size() - flat].most_places());
    const double cost = static_cast<double>(runs) * costs.of_panels(plan.results, flat_places(plan, flat, band), true);
    if (cost < least) {
      least = cost;
      plan.vectors_of_places = true;
      plan.flat = flat;
    }
  }
}

void cut_in_units(ConvolutionPlan& plan, std::int64_t sum_size, double wanted) {
  const WindowDim& first = plan.dims[0];
  const std::int64_t most = std::max<std::int64_t>(1, first.most_places());
  const std::int64_t bytes_of_image = plan.features * grid_of(plan, most) * sum_size;
  if (bytes_of_image <= kGridBytes) {
    plan.band = most;
  } else {
    const std::int64_t of_row = std::max<std::int64_t>(1, bytes_of_image / (most + first.reach));
    plan.band = std::clamp<std::int64_t>(kGridBytes / of_row - first.reach, 1, most);
    plan.band = std::min(most, std::max(plan.band, kLeastBand * first.reach / first.step));
    plan.band = divide_up(most, divide_up(most, plan.band));
  }
  // Few images are cut further, if that leaves bands long enough.
  const double units = static_cast<double>(plan.batch * plan.groups * divide_up(most, plan.band));
  if (units < wanted) {
    const auto more = static_cast<std::int64_t>(wanted / units);
    const std::int64_t least = std::max<std::int64_t>({1, 2 * first.reach, plan.dims.size() > 1 ? 1 : 64});
    plan.band =
        std::clamp(divide_up(plan.band, std::max<std::int64_t>(1, more)), std::min(least, plan.band), plan.band);
  }
  if (!plan.vectors_of_places) {
    std::int64_t rows = plan.band;
    for (std::size_t d = 1; d < plan.dims.size(); ++d) rows *= plan.dims[d].most_places();
    const std::int64_t grid = std::max<std::int64_t>(1, plan.features * grid_of(plan, plan.band) * sum_size);
    const std::int64_t fits =
        std::max(divide_up(kRowsOfUnit, std::max<std::int64_t>(1, rows)), kGridBytesOfResults / grid);
    plan.images = std::clamp<std::int64_t>(fits, 1, std::max<std::int64_t>(1, plan.batch));
  }
  plan.image_blocks = divide_up(plan.batch, plan.images);
  plan.bands = divide_up(most, plan.band);
  plan.units = plan.image_blocks * plan.bands * plan.groups;
}

void cut_in_tiles(ConvolutionPlan& plan, std::int64_t sums, const Costs& costs, double wanted) {
  const std::int64_t unit_results = plan.vectors_of_places ? costs.loops.rows : costs.loops.lanes;
  const auto packed = static_cast<double>(plan.results) * static_cast<double>(plan.window * plan.features);
  const double grids =
      static_cast<double>(plan.units) * static_cast<double>(plan.images * plan.features * grid_of(plan, plan.band));
  // Each tile packs its part of one operand and copies its part of the other.
  double least = 0;
  for (std::int64_t by = 1; by <= 16; by *= 2) {
    const std::int64_t results = divide_up(divide_up(plan.results, by), unit_results) * unit_results;
    const std::int64_t result_tiles = divide_up(plan.results, results);
    if (by > 1 && results < 2 * unit_results) break;
    const auto unit_tiles =
        std::clamp<std::int64_t>(divide_up(static_cast<std::int64_t>(wanted), result_tiles), 1, plan.units);
    double cost = static_cast<double>(unit_tiles) * packed / static_cast<double>(plan.groups > 1 ? unit_tiles : 1) +
                  static_cast<double>(result_tiles) * grids;
    // Cores that have nothing to do cost more than what is packed.
    if (static_cast<double>(unit_tiles * result_tiles) < wanted) {
      cost += static_cast<double>(plan.batch * plan.places) * static_cast<double>(plan.results) *
              static_cast<double>(sums) / 16;
    }
    if (by > 1 && cost >= least) continue;
    least = cost;
    plan.result_tiles = result_tiles;
    plan.results_of_tile = results;
    plan.units_of_tile = divide_up(plan.units, unit_tiles);
    plan.unit_tiles = divide_up(plan.units, plan.units_of_tile);
  }
  plan.tiles = plan.unit_tiles * plan.result_tiles;
}

// Long sums of few results, of one phase: each tile computes a part of them.
bool cut_in_parts(ConvolutionPlan& plan, std::int64_t sum_size, double wanted) {
  std::int64_t taps = 1;
  for (const WindowDim& dim : plan.dims) {
    if (dim.phases.size() != 1) return false;
    taps *= static_cast<std::int64_t>(dim.phases[0].taps.size());
  }
  const std::int64_t sums = taps * plan.features;
  const std::int64_t elements = plan.batch * plan.groups * plan.results * plan.places;
  const std::int64_t size = part_size(sums, taps);
  if (sums <= size || elements > kMostSplitResults || elements > sums * plan.results / 4) return false;
  const std::int64_t parts = divide_up(sums, size);
  if (static_cast<double>(parts) < wanted) return false;
  plan.part_tiles = parts;
  plan.band = std::max<std::int64_t>(1, plan.dims[0].most_places());
  const std::int64_t grid = std::max<std::int64_t>(1, grid_of(plan, plan.band) * sum_size * divide_up(size, taps));
  plan.images = plan.vectors_of_places ? 1
                                       : std::clamp<std::int64_t>(kGridBytesOfResults / grid,
                                                                  std::min<std::int64_t>(8, plan.batch), plan.batch);
  plan.image_blocks = divide_up(plan.batch, plan.images);
  plan.bands = 1;
  plan.units = plan.image_blocks * plan.groups;
  plan.units_of_tile = plan.units;
  plan.results_of_tile = plan.results;
  plan.tiles = parts;
  return true;
}

}  // namespace

std::int64_t part_size(std::int64_t count, std::int64_t taps) {
  std::int64_t size = std::max(kPart, divide_up(count, kMostParts));
  if (taps <= 2 * kPart) size = std::max<std::int64_t>(1, size / std::max<std::int64_t>(1, taps)) * taps;
  return std::max<std::int64_t>(1, size);
}

ConvolutionPlan plan_convolution(const Attrs& attrs, const ProductTypes& types, const Shape& lhs, const Shape& rhs,
                                 const Shape& out, const Dims& low) {
  const Dims& strides = attrs.get<Dims>("strides");
  const Dims& base = attrs.get<Dims>("base_dilation");
  const Dims& dilation = attrs.get<Dims>("window_dilation");
  ConvolutionPlan plan;
  plan.lhs_shape = lhs;
  plan.rhs_shape = rhs;
  plan.out_shape = out;
  plan.low = low;
  if (num_elements(out) == 0) return plan;
  plan.batch = lhs[0];
  plan.features = rhs[1];
  plan.groups = plan.features == 0 ? 1 : lhs[1] / plan.features;
  plan.results = out[1] / plan.groups;
  for (std::size_t d = 0; d + 2 < lhs.size(); ++d) {
    plan.dims.push_back(window_dim(lhs[d + 2], rhs[d + 2], out[d + 2], {strides[d], low[d], base[d], dilation[d]}));
  }
  if (plan.dims.empty()) plan.dims.push_back(window_dim(1, 1, 1, {}));
  plan.places = plan.window = 1;
  for (const WindowDim& dim : plan.dims) {
    plan.places *= dim.places;
    plan.window *= dim.window;
  }
  const Costs costs{convolution_loops(types.arithmetic)};
  choose_vectors(plan, costs);
  double phases = 1;
  for (const WindowDim& dim : plan.dims) phases *= static_cast<double>(dim.period);
  const double work = static_cast<double>(plan.batch * plan.groups * plan.results * plan.places) *
                      static_cast<double>(plan.features * plan.window) / phases;
  double wanted = 1;
  for (const double least : kWorkOfTiles) wanted *= work >= least ? 2 : 1;
  if (wanted > 1 && cut_in_parts(plan, types.sum_size(), wanted)) return plan;
  cut_in_units(plan, types.sum_size(), wanted);
  cut_in_tiles(plan, plan.features * plan.window, costs, wanted);
  return plan;
}

}  // namespace shoal::cpu
