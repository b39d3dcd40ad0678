#include "sharding/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

constexpr double kBaseHeight = 10;   // Lines of a 2-d picture at scale 1.
constexpr double kCellAspect = 2.5;  // Height of a character cell over its width.
constexpr double kMaxScale = 100;
constexpr std::size_t kFrame = 2;  // Columns and lines that the box's own lines or a coloured rim add to a tile.

// ---- Geometry: how large each tile wants to be.

// One shard: its label between blank margins. It wants the sum of its parts and may be drawn narrower.
struct Tile {
  std::string label;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t width() const { return left + label.size() + right; }
};

struct TileGrid {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t top = 0;  // Blank lines above and below every label.
  std::size_t bottom = 0;
  std::vector<Tile> tiles;  // Row-major.

  const Tile& at(std::size_t row, std::size_t col) const { return tiles[row * cols + col]; }
};

// Blank cells before and after content, centred in a total that includes the frame; the odd one comes after.
std::pair<std::size_t, std::size_t> margins(std::size_t total, std::size_t content) {
  const std::size_t blank = total > content + kFrame ? total - content - kFrame : 0;
  return {blank / 2, blank - blank / 2};
}

std::string_view label_of(Platform platform) { return platform == Platform::kCpu ? "CPU" : "GPU"; }

// "CPU 0,4" for each piece of the array, in row-major order of the pieces.
std::vector<std::string> labels_of(const Sharding& sharding, const Dims& pieces) {
  std::vector<std::set<std::int64_t>> holders(static_cast<std::size_t>(num_elements(pieces)));
  const Dims strides = row_major_strides(pieces);
  // Of an array with one element for each piece, a shard's start is its piece.
  for (const auto& [device, index] : sharding.devices_indices_map(pieces)) {
    std::int64_t piece = 0;
    for (std::size_t dim = 0; dim < index.size(); ++dim) piece += index[dim].start.value_or(0) * strides[dim];
    holders[static_cast<std::size_t>(piece)].insert(device.id);
  }
  const std::string_view platform = label_of(sharding.device_list().front().platform);
  std::vector<std::string> labels;
  labels.reserve(holders.size());
  for (const auto& ids : holders) labels.push_back(fmt::format("{} {}", platform, fmt::join(ids, ",")));
  return labels;
}

// Width of a tile that is as wide as its share of the array's proportions, within the limits.
std::size_t tile_width(const Shape& shape, std::int64_t cols, const PictureOptions& options) {
  const double rows_extent = static_cast<double>(std::max<std::int64_t>(shape[0], 1));
  const double cols_extent = shape.size() == 2 ? static_cast<double>(shape[1]) : 1.0;
  const double picture_width = std::trunc(std::trunc(kBaseHeight * options.scale) * (cols_extent / rows_extent));
  const double width = std::trunc(1.0 / static_cast<double>(cols) * picture_width * kCellAspect);
  return static_cast<std::size_t>(
      std::min(std::max(width, static_cast<double>(options.min_width)), static_cast<double>(options.max_width)));
}

std::size_t tile_height(const Shape& shape, std::int64_t rows, const PictureOptions& options) {
  if (shape.size() == 1) return 1;
  return static_cast<std::size_t>(1.0 / static_cast<double>(rows) * std::trunc(kBaseHeight * options.scale));
}

TileGrid tile_grid(const Shape& shape, const Sharding& sharding, const Dims& pieces, const PictureOptions& options) {
  const std::int64_t rows = shape.size() == 2 ? pieces.front() : 1;
  const std::int64_t cols = pieces.back();
  TileGrid grid;
  grid.rows = static_cast<std::size_t>(rows);
  grid.cols = static_cast<std::size_t>(cols);
  const std::size_t rim = options.use_color ? kFrame / 2 : 0;
  std::tie(grid.top, grid.bottom) = margins(tile_height(shape, rows, options), 0);
  grid.top += rim;
  grid.bottom += rim;
  for (std::string& label : labels_of(sharding, pieces)) {
    const auto [left, right] = margins(tile_width(shape, cols, options), label.size());
    grid.tiles.push_back({.label = std::move(label), .left = left + rim, .right = right + rim});
  }
  return grid;
}

// ---- Columns: how wide each is where the terminal does not permit what the tiles want.

// Takes `excess` columns from the widest ones, at most `most` from each, as evenly as whole numbers permit.
void shrink_widest(std::vector<std::size_t>& widths, std::size_t widest, std::size_t most, std::size_t excess) {
  auto sharers = std::ranges::count(widths, widest);
  for (std::size_t& width : widths) {
    if (width != widest) continue;
    // Halves go to the even neighbour, the rounding mode of floating point.
    const double share = std::nearbyint(static_cast<double>(excess) / static_cast<double>(sharers--));
    const std::size_t taken = std::min(most, static_cast<std::size_t>(share));
    width -= taken;
    excess -= taken;
  }
}

// The widest columns shrink first, to the width of the next widest, until all fit.
void fit_columns(std::vector<std::size_t>& widths, std::size_t available) {
  while (true) {
    const std::size_t total = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
    if (total <= available) return;
    const std::size_t widest = std::ranges::max(widths);
    std::size_t next = 0;
    for (std::size_t width : widths) next = width == widest ? next : std::max(next, width);
    shrink_widest(widths, widest, std::min(total - available, widest - next), total - available);
  }
}

std::vector<std::size_t> column_widths(const TileGrid& grid, std::size_t available) {
  std::vector<std::size_t> widths(grid.cols, 0);
  for (std::size_t row = 0; row < grid.rows; ++row) {
    for (std::size_t col = 0; col < grid.cols; ++col) {
      widths[col] = std::max(widths[col], std::min(grid.at(row, col).width(), available));
    }
  }
  fit_columns(widths, available);
  return widths;
}

// ---- Text of one tile. A line is a sequence of UTF-8 characters of one column each.

struct Line {
  std::string text;
  std::size_t width = 0;

  void append(std::string_view character, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) text += character;
    width += count;
  }
  void append(std::string_view ascii) {
    text += ascii;
    width += ascii.size();
  }
  void append(const Line& other) {
    text += other.text;
    width += other.width;
  }
};

// A word cut to a width; blanks at its end go first, and what is lost is shown as "…".
Line clipped(std::string_view word, std::size_t width) {
  while (word.size() > width && word.ends_with(' ')) word.remove_suffix(1);
  Line line;
  const bool fits = word.size() <= width;
  line.append(fits ? word : word.substr(0, width - 1));
  if (!fits) line.append("…", 1);
  return line;
}

// The label in one line, or in two where it is wider than `width`: the platform and the ids.
std::vector<Line> label_lines(std::string_view label, std::size_t width) {
  if (width == 0) return {};
  if (label.size() <= width) return {clipped(label, width)};
  const std::size_t ids = label.find(' ') + 1;
  return {clipped(label.substr(0, ids), width), clipped(label.substr(ids), width)};
}

// The lines of a tile, each exactly `width` wide; none where it has no width.
std::vector<Line> tile_lines(const TileGrid& grid, const Tile& tile, std::size_t width) {
  if (width == 0) return {};
  Line blank;
  blank.append(" ", width);
  std::vector<Line> lines(grid.top, blank);
  const std::size_t inner = width > tile.left + tile.right ? width - tile.left - tile.right : 0;
  const std::size_t indent = inner > tile.label.size() ? (inner - tile.label.size()) / 2 : 0;
  for (const Line& text : label_lines(tile.label, inner)) {
    Line line;
    line.append(" ", tile.left + indent);
    line.append(text);
    line.append(" ", width - line.width);
    lines.push_back(std::move(line));
  }
  lines.insert(lines.end(), grid.bottom, blank);
  return lines;
}

// The tiles of one row, all with the number of lines of the tallest; at least one.
std::vector<std::vector<Line>> row_lines(const TileGrid& grid, std::size_t row,
                                         const std::vector<std::size_t>& widths) {
  std::vector<std::vector<Line>> tiles;
  std::size_t height = 1;
  for (std::size_t col = 0; col < grid.cols; ++col) {
    tiles.push_back(tile_lines(grid, grid.at(row, col), widths[col]));
    height = std::max(height, tiles.back().size());
  }
  for (std::size_t col = 0; col < grid.cols; ++col) {
    Line blank;
    blank.append(" ", widths[col]);
    tiles[col].resize(height, blank);
  }
  return tiles;
}

// ---- The two styles.

// The characters of a horizontal line: "┌─┬┐".
struct Rule {
  std::string_view left, line, joint, right;
};

Line rule_line(const Rule& rule, const std::vector<std::size_t>& widths) {
  Line line;
  for (std::size_t col = 0; col < widths.size(); ++col) {
    line.append(col == 0 ? rule.left : rule.joint, 1);
    line.append(rule.line, widths[col]);
  }
  line.append(rule.right, 1);
  return line;
}

// The first `width` characters: where not even the lines of the boxes fit, the picture is cut.
std::string cut(const Line& line, std::size_t width) {
  if (line.width <= width) return line.text;
  std::size_t end = 0;
  for (std::size_t characters = 0; end < line.text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(line.text[end]) & 0xC0U) != 0x80U;
    if (starts_character && characters++ == width) break;
  }
  return line.text.substr(0, end);
}

std::string draw_boxes(const TileGrid& grid, std::size_t max_width) {
  const std::size_t borders = grid.cols + 1;
  const auto widths = column_widths(grid, max_width > borders ? max_width - borders : 0);
  std::vector<Line> lines = {rule_line({"┌", "─", "┬", "┐"}, widths)};
  for (std::size_t row = 0; row < grid.rows; ++row) {
    if (row > 0) lines.push_back(rule_line({"├", "─", "┼", "┤"}, widths));
    const auto tiles = row_lines(grid, row, widths);
    for (std::size_t i = 0; i < tiles.front().size(); ++i) {
      Line line;
      for (const auto& tile : tiles) {
        line.append("│", 1);
        line.append(tile[i]);
      }
      line.append("│", 1);
      lines.push_back(std::move(line));
    }
  }
  lines.push_back(rule_line({"└", "─", "┴", "┘"}, widths));
  std::string out;
  for (const Line& line : lines) out += cut(line, max_width) + '\n';
  return out;
}

// Background of a tile. Hues a golden angle apart differ between any few successive tiles; the rows take turns in
// brightness, so that tiles above each other differ as well.
std::array<int, 3> tile_color(std::size_t row, std::size_t tile) {
  constexpr double kGoldenAngle = 0.381966;  // Of a full turn.
  const double turn = 6.0 * std::fmod(0.58 + kGoldenAngle * static_cast<double>(tile), 1.0);
  const double value = row % 2 == 0 ? 150.0 : 225.0;
  constexpr double kSaturation = 0.55;
  std::array<int, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double phase = std::fmod(turn + std::array{5.0, 3.0, 1.0}[i], 6.0);
    const double shade = std::clamp(std::min(phase, 4.0 - phase), 0.0, 1.0);
    rgb[i] = static_cast<int>(value * (1.0 - kSaturation * shade));
  }
  return rgb;
}

// Whether black text contrasts more than white.
bool is_bright(const std::array<int, 3>& rgb) { return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] > 140 * 1000; }

// The escape sequence of a tile, with black or white text.
std::string color_escape(std::size_t row, std::size_t tile) {
  const auto [red, green, blue] = tile_color(row, tile);
  return fmt::format("\x1b[{};48;2;{};{};{}m", is_bright({red, green, blue}) ? "38;2;0;0;0" : "38;2;255;255;255", red,
                     green, blue);
}

std::string draw_colors(const TileGrid& grid, std::size_t max_width) {
  const auto widths = column_widths(grid, max_width);
  std::string out;
  for (std::size_t row = 0; row < grid.rows; ++row) {
    const auto tiles = row_lines(grid, row, widths);
    for (std::size_t i = 0; i < tiles.front().size(); ++i) {
      for (std::size_t col = 0; col < grid.cols; ++col) {
        out += color_escape(row, row * grid.cols + col) + tiles[col][i].text + "\x1b[0m";
      }
      out += '\n';
    }
  }
  return out;
}

void check_options(const PictureOptions& options, const SourceLocation& where) {
  if (!(options.scale > 0 && options.scale <= kMaxScale)) {
    throw InvalidArgument(
        fmt::format("visualize_sharding: scale is {}; it must be above 0 and at most {}", options.scale, kMaxScale),
        where);
  }
  if (options.min_width < 0) {
    throw InvalidArgument(fmt::format("visualize_sharding: min_width is {}; it must be at least 0", options.min_width),
                          where);
  }
  if (options.max_width < 1) {
    throw InvalidArgument(fmt::format("visualize_sharding: max_width is {}; it must be at least 1", options.max_width),
                          where);
  }
}

void check_drawable(const Shape& shape, const Sharding& sharding, const SourceLocation& where) {
  if (shape.size() != 1 && shape.size() != 2) {
    throw InvalidArgument(
        fmt::format("visualize_sharding: shape {} has rank {}; only arrays of rank 1 and 2 can be drawn",
                    to_string(shape), shape.size()),
        where);
  }
  sharding.check_compatible(shape, "visualize_sharding", where);
}

// ---- Pictures of other kinds: tiles of equal size in pixels.

struct PixelTile {
  std::size_t row;
  std::size_t col;
  std::string label;
  std::string color;       // "#rrggbb"
  std::string text_color;  // Black or white.
};

struct PixelGrid {
  double tile_width;
  double tile_height;
  std::vector<PixelTile> tiles;  // Row-major.
  std::size_t rows;
  std::size_t cols;
};

// The longer side of the picture is kPictureSize pixels, but no tile is too small for a label.
PixelGrid pixel_grid(const Shape& shape, const Sharding& sharding, const SourceLocation& where) {
  constexpr double kPictureSize = 400;
  constexpr double kLeastWidth = 64;
  constexpr double kLeastHeight = 32;
  check_drawable(shape, sharding, where);
  const Dims pieces = sharding.num_pieces(shape.size(), where);
  const bool matrix = shape.size() == 2;
  const auto rows = static_cast<std::size_t>(matrix ? pieces.front() : 1);
  const auto cols = static_cast<std::size_t>(pieces.back());
  const double height = matrix ? static_cast<double>(std::max<std::int64_t>(shape[0], 1)) : 1;
  const double width = matrix ? static_cast<double>(std::max<std::int64_t>(shape[1], 1)) : height;
  const double pixel = kPictureSize / std::max(height, width);
  PixelGrid grid{.tile_width = std::max(std::round(width * pixel / static_cast<double>(cols)), kLeastWidth),
                 .tile_height = std::max(std::round(height * pixel / static_cast<double>(rows)), kLeastHeight),
                 .tiles = {},
                 .rows = rows,
                 .cols = cols};
  if (!matrix) grid.tile_height = kLeastHeight;
  std::size_t tile = 0;
  for (std::string& label : labels_of(sharding, pieces)) {
    const std::size_t row = tile / cols;
    const auto [red, green, blue] = tile_color(row, tile);
    grid.tiles.push_back({.row = row,
                          .col = tile % cols,
                          .label = std::move(label),
                          .color = fmt::format("#{:02x}{:02x}{:02x}", red, green, blue),
                          .text_color = is_bright({red, green, blue}) ? "black" : "white"});
    ++tile;
  }
  return grid;
}

}  // namespace

std::string sharding_picture(const Shape& shape, const Sharding& sharding, const PictureOptions& options,
                             std::source_location where) {
  check_drawable(shape, sharding, where);
  check_options(options, where);
  const TileGrid grid = tile_grid(shape, sharding, sharding.num_pieces(shape.size(), where), options);
  const auto max_width = static_cast<std::size_t>(options.max_width);
  return options.use_color ? draw_colors(grid, max_width) : draw_boxes(grid, max_width);
}

std::string svg_picture(const Shape& shape, const Sharding& sharding, std::source_location where) {
  const PixelGrid grid = pixel_grid(shape, sharding, where);
  const double width = grid.tile_width * static_cast<double>(grid.cols);
  const double height = grid.tile_height * static_cast<double>(grid.rows);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"14\">\n",
      width, height);
  for (const PixelTile& tile : grid.tiles) {
    const double x = grid.tile_width * static_cast<double>(tile.col);
    const double y = grid.tile_height * static_cast<double>(tile.row);
    svg += fmt::format("  <rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"black\"/>\n", x, y,
                       grid.tile_width, grid.tile_height, tile.color);
    svg += fmt::format(
        "  <text x=\"{}\" y=\"{}\" fill=\"{}\" text-anchor=\"middle\" dominant-baseline=\"middle\">{}</text>\n",
        x + grid.tile_width / 2, y + grid.tile_height / 2, tile.text_color, tile.label);
  }
  return svg + "</svg>\n";
}

std::string html_picture(const Shape& shape, const Sharding& sharding, std::source_location where) {
  const PixelGrid grid = pixel_grid(shape, sharding, where);
  std::string html = "<table style=\"border-collapse: collapse\">\n";
  for (const PixelTile& tile : grid.tiles) {
    if (tile.col == 0) html += "  <tr>\n";
    html += fmt::format(
        "    <td style=\"width: {}px; height: {}px; background: {}; color: {}; border: 1px solid black; text-align: "
        "center\">{}</td>\n",
        grid.tile_width, grid.tile_height, tile.color, tile.text_color, tile.label);
    if (tile.col + 1 == grid.cols) html += "  </tr>\n";
  }
  return html + "</table>\n";
}

}  // namespace shoal
