#include "sharding/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "sharding/test_support.h"

namespace shoal {
namespace {

using test_support::grid;
using test_support::message_of;

// A picture on lines of its own, so that the expected ones can stand in the source as they look.
std::string drawn(const Shape& shape, const Sharding& sharding, const PictureOptions& options = {}) {
  return "\n" + sharding_picture(shape, sharding, options);
}

// ---- The pictures that JAX prints for the same shardings.

TEST(ShardingPicture, OneDevice) {
  EXPECT_EQ(drawn({4, 8}, SingleDeviceSharding(Device{.id = 0})), R"(
┌────────────────────────────────────────────────┐
│                                                │
│                                                │
│                                                │
│                                                │
│                     CPU 0                      │
│                                                │
│                                                │
│                                                │
│                                                │
└────────────────────────────────────────────────┘
)");
}

TEST(ShardingPicture, TwoByFour) {
  EXPECT_EQ(drawn({4, 8}, NamedSharding(grid({2, 4}), P("x", "y"))), R"(
┌──────────┬──────────┬──────────┬──────────┐
│          │          │          │          │
│  CPU 0   │  CPU 1   │  CPU 2   │  CPU 3   │
│          │          │          │          │
│          │          │          │          │
├──────────┼──────────┼──────────┼──────────┤
│          │          │          │          │
│  CPU 4   │  CPU 5   │  CPU 6   │  CPU 7   │
│          │          │          │          │
│          │          │          │          │
└──────────┴──────────┴──────────┴──────────┘
)");
}

TEST(ShardingPicture, VectorReplicatedOverRows) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}), P("y"))), R"(
┌───────┬───────┬───────┬───────┐
│CPU 0,4│CPU 1,5│CPU 2,6│CPU 3,7│
└───────┴───────┴───────┴───────┘
)");
}

TEST(ShardingPicture, VectorReplicatedOverColumns) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}), P("x"))), R"(
┌───────────┬───────────┐
│CPU 0,1,2,3│CPU 4,5,6,7│
└───────────┴───────────┘
)");
}

TEST(ShardingPicture, Vector) {
  EXPECT_EQ(drawn({32}, NamedSharding(grid({8}), P("x"))), R"(
┌───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┐
│ CPU 0 │ CPU 1 │ CPU 2 │ CPU 3 │ CPU 4 │ CPU 5 │ CPU 6 │ CPU 7 │
└───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘
)");
}

TEST(ShardingPicture, VectorOnOneDevice) {
  EXPECT_EQ(drawn({5}, SingleDeviceSharding(Device{.id = 3})), R"(
┌───────┐
│ CPU 3 │
└───────┘
)");
}

TEST(ShardingPicture, FourByTwo) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({4, 2}), P("x", "y"))), R"(
┌──────────┬──────────┐
│  CPU 0   │  CPU 1   │
├──────────┼──────────┤
│  CPU 2   │  CPU 3   │
├──────────┼──────────┤
│  CPU 4   │  CPU 5   │
├──────────┼──────────┤
│  CPU 6   │  CPU 7   │
└──────────┴──────────┘
)");
}

TEST(ShardingPicture, Transposed) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({4, 2}), P("y", "x"))), R"(
┌───────┬───────┬───────┬───────┐
│       │       │       │       │
│ CPU 0 │ CPU 2 │ CPU 4 │ CPU 6 │
│       │       │       │       │
│       │       │       │       │
├───────┼───────┼───────┼───────┤
│       │       │       │       │
│ CPU 1 │ CPU 3 │ CPU 5 │ CPU 7 │
│       │       │       │       │
│       │       │       │       │
└───────┴───────┴───────┴───────┘
)");
}

TEST(ShardingPicture, RowsOnly) {
  EXPECT_EQ(drawn({8, 2}, NamedSharding(grid({2, 4}), P("x"))), R"(
┌───────────┐
│           │
│CPU 0,1,2,3│
│           │
│           │
├───────────┤
│           │
│CPU 4,5,6,7│
│           │
│           │
└───────────┘
)");
}

TEST(ShardingPicture, Cube) {
  EXPECT_EQ(drawn({4, 16}, NamedSharding(grid({2, 2, 2}), P({"x", "y"}, "z"))), R"(
┌──────────────────────────────────────┬───────────────────────────────────────┐
│                                      │                                       │
├──────────────────────────────────────┼───────────────────────────────────────┤
│                                      │                                       │
├──────────────────────────────────────┼───────────────────────────────────────┤
│                                      │                                       │
├──────────────────────────────────────┼───────────────────────────────────────┤
│                                      │                                       │
└──────────────────────────────────────┴───────────────────────────────────────┘
)");
}

TEST(ShardingPicture, CubePartlyReplicated) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({2, 2, 2}), P("z", "x"))), R"(
┌──────────┬──────────┐
│          │          │
│ CPU 0,2  │ CPU 4,6  │
│          │          │
│          │          │
├──────────┼──────────┤
│          │          │
│ CPU 1,3  │ CPU 5,7  │
│          │          │
│          │          │
└──────────┴──────────┘
)");
}

TEST(ShardingPicture, Replicated) {
  EXPECT_EQ(drawn({4, 8}, NamedSharding(grid({8}), P())), R"(
┌────────────────────────────────────────────────┐
│                                                │
│                                                │
│                                                │
│                                                │
│              CPU 0,1,2,3,4,5,6,7               │
│                                                │
│                                                │
│                                                │
│                                                │
└────────────────────────────────────────────────┘
)");
}

TEST(ShardingPicture, Permuted) {
  EXPECT_EQ(drawn({4, 8}, NamedSharding(grid({2, 4}, {7, 3, 1, 5, 0, 2, 6, 4}), P("x", "y"))), R"(
┌──────────┬──────────┬──────────┬──────────┐
│          │          │          │          │
│  CPU 7   │  CPU 3   │  CPU 1   │  CPU 5   │
│          │          │          │          │
│          │          │          │          │
├──────────┼──────────┼──────────┼──────────┤
│          │          │          │          │
│  CPU 0   │  CPU 2   │  CPU 6   │  CPU 4   │
│          │          │          │          │
│          │          │          │          │
└──────────┴──────────┴──────────┴──────────┘
)");
}

TEST(ShardingPicture, PermutedReplicated) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}, {7, 3, 1, 5, 0, 2, 6, 4}), P("y"))), R"(
┌───────┬───────┬───────┬───────┐
│CPU 0,7│CPU 2,3│CPU 1,6│CPU 4,5│
└───────┴───────┴───────┴───────┘
)");
}

TEST(ShardingPicture, AxesMinorFirst) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}), P({"y", "x"}))), R"(
┌───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┐
│ CPU 0 │ CPU 4 │ CPU 1 │ CPU 5 │ CPU 2 │ CPU 6 │ CPU 3 │ CPU 7 │
└───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘
)");
}

TEST(ShardingPicture, Wide) {
  EXPECT_EQ(drawn({2, 400}, NamedSharding(grid({2, 2}), P("x", "y"))), R"(
┌───────────────────────────────────────┬──────────────────────────────────────┐
│                                       │                                      │
│                                       │                                      │
│                                       │                                      │
├───────────────────────────────────────┼──────────────────────────────────────┤
│                                       │                                      │
│                                       │                                      │
│                                       │                                      │
└───────────────────────────────────────┴──────────────────────────────────────┘
)");
}

TEST(ShardingPicture, Tall) {
  EXPECT_EQ(drawn({400, 2}, NamedSharding(grid({8}), P("x"))), R"(
┌───────┐
│ CPU 0 │
├───────┤
│ CPU 1 │
├───────┤
│ CPU 2 │
├───────┤
│ CPU 3 │
├───────┤
│ CPU 4 │
├───────┤
│ CPU 5 │
├───────┤
│ CPU 6 │
├───────┤
│ CPU 7 │
└───────┘
)");
}

TEST(ShardingPicture, HalfScale) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({2, 2}), P("x", "y")), {.scale = 0.5}), R"(
┌───────┬───────┐
│ CPU 0 │ CPU 1 │
├───────┼───────┤
│ CPU 2 │ CPU 3 │
└───────┴───────┘
)");
}

TEST(ShardingPicture, DoubleScale) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({2, 2}), P("x", "y")), {.scale = 2.0, .max_width = 60}), R"(
┌───────────────────────┬───────────────────────┐
│                       │                       │
│                       │                       │
│                       │                       │
│                       │                       │
│         CPU 0         │         CPU 1         │
│                       │                       │
│                       │                       │
│                       │                       │
│                       │                       │
├───────────────────────┼───────────────────────┤
│                       │                       │
│                       │                       │
│                       │                       │
│                       │                       │
│         CPU 2         │         CPU 3         │
│                       │                       │
│                       │                       │
│                       │                       │
│                       │                       │
└───────────────────────┴───────────────────────┘
)");
}

TEST(ShardingPicture, MinWidth) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({4}), P("x")), {.min_width = 12}), R"(
┌──────────┬──────────┬──────────┬──────────┐
│  CPU 0   │  CPU 1   │  CPU 2   │  CPU 3   │
└──────────┴──────────┴──────────┴──────────┘
)");
}

TEST(ShardingPicture, NoMinWidth) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({8}), P(none, "x")), {.min_width = 0}), R"(
┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
│CPU 0│CPU 1│CPU 2│CPU 3│CPU 4│CPU 5│CPU 6│CPU 7│
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
│     │     │     │     │     │     │     │     │
└─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
)");
}

TEST(ShardingPicture, MaxWidth) {
  EXPECT_EQ(drawn({2, 400}, NamedSharding(grid({2, 2}), P("x", "y")), {.max_width = 30}), R"(
┌─────────────┬──────────────┐
│             │              │
│             │              │
│             │              │
├─────────────┼──────────────┤
│             │              │
│             │              │
│             │              │
└─────────────┴──────────────┘
)");
}

TEST(ShardingPicture, UnevenColumns) {
  EXPECT_EQ(drawn({32}, NamedSharding(grid({8}), P("x")), {.max_width = 60}), R"(
┌──────┬──────┬───────┬──────┬───────┬──────┬───────┬──────┐
│ CPU  │ CPU  │ CPU 2 │ CPU  │ CPU 4 │ CPU  │ CPU 6 │ CPU  │
│ 0    │ 1    │       │ 3    │       │ 5    │       │ 7    │
└──────┴──────┴───────┴──────┴───────┴──────┴───────┴──────┘
)");
}

TEST(ShardingPicture, BrokenLabels) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}), P("y")), {.max_width = 28}), R"(
┌──────┬──────┬─────┬──────┐
│CPU   │CPU   │CPU  │CPU   │
│0,4   │1,5   │2,6  │3,7   │
└──────┴──────┴─────┴──────┘
)");
}

TEST(ShardingPicture, ClippedLabels) {
  EXPECT_EQ(drawn({8}, NamedSharding(grid({2, 4}), P("x")), {.max_width = 16}), R"(
┌───────┬──────┐
│CPU    │CPU   │
│0,1,2,3│4,5,6…│
└───────┴──────┘
)");
}

TEST(ShardingPicture, LostLabels) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({8}), P(none, "x")), {.scale = 0.3, .max_width = 12}), R"(
┌┬┬─┬┬─┬┬─┬┐
│││ ││ ││ ││
└┴┴─┴┴─┴┴─┴┘
)");
}

TEST(ShardingPicture, CutBoxes) {
  EXPECT_EQ(drawn({8, 8}, NamedSharding(grid({8}), P(none, "x")), {.scale = 0.3, .max_width = 5}), R"(
┌┬┬┬┬
│││││
└┴┴┴┴
)");
}

// ---- What JAX does not draw.

TEST(ShardingPicture, DimensionsWithoutElements) {
  EXPECT_EQ(drawn({0}, NamedSharding(grid({2}), P("x"))), R"(
┌──────────┬──────────┐
│  CPU 0   │  CPU 1   │
└──────────┴──────────┘
)");
  EXPECT_EQ(drawn({0, 4}, NamedSharding(grid({2}), P("x")), {.scale = 0.4, .max_width = 20}), R"(
┌──────────────────┐
│      CPU 0       │
├──────────────────┤
│      CPU 1       │
└──────────────────┘
)");
}

TEST(ShardingPicture, GpusAreNamedAsSuch) {
  EXPECT_EQ(drawn({4}, SingleDeviceSharding(Device{.id = 0, .platform = Platform::kCuda})), R"(
┌───────┐
│ GPU 0 │
└───────┘
)");
}

TEST(ShardingPicture, LargeIdsWidenTheirColumn) {
  EXPECT_EQ(drawn({4}, NamedSharding(grid({2}, {0, 131072}), P("x"))), R"(
┌───────┬──────────┐
│ CPU 0 │CPU 131072│
└───────┴──────────┘
)");
}

// ---- Colours.

// The text without escape sequences, which are collected in order.
std::string without_escapes(const std::string& text, std::vector<std::string>& escapes) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    const std::size_t end = text.find('m', i);
    escapes.push_back(text.substr(i, end - i + 1));
    i = end;
  }
  return plain;
}

TEST(ShardingPicture, ColoredTilesTakeTheRoomOfBoxes) {
  std::vector<std::string> escapes;
  const std::string picture =
      sharding_picture({8, 8}, NamedSharding(grid({2, 2}), P("x", "y")), {.use_color = true, .scale = 0.4});
  EXPECT_EQ(without_escapes(picture, escapes),
            "                  \n"
            "  CPU 0    CPU 1  \n"
            "                  \n"
            "                  \n"
            "  CPU 2    CPU 3  \n"
            "                  \n");
  ASSERT_EQ(escapes.size(), 24U);
  for (std::size_t i = 1; i < escapes.size(); i += 2) EXPECT_EQ(escapes[i], "\x1b[0m");
  // A tile keeps its colour from line to line, and no two tiles share one.
  const std::set<std::string> colors = {escapes[0], escapes[2], escapes[12], escapes[14]};
  EXPECT_EQ(colors.size(), 4U);
  EXPECT_EQ(escapes[4], escapes[0]);
  EXPECT_EQ(escapes[22], escapes[14]);
}

TEST(ShardingPicture, ColorsOfNeighboursDifferAndTextIsReadable) {
  constexpr std::size_t kSide = 12;
  std::vector<std::string> escapes;
  without_escapes(sharding_picture({kSide, kSide}, NamedSharding(grid({kSide, kSide}), P("x", "y")),
                                   {.use_color = true, .max_width = 200}),
                  escapes);
  // Each tile is three lines high; the first of each row of tiles is looked at.
  ASSERT_EQ(escapes.size(), 2 * 3 * kSide * kSide);
  struct Color {
    int text, red, green, blue;
  };
  std::vector<Color> colors;
  for (std::size_t row = 0; row < kSide; ++row) {
    for (std::size_t col = 0; col < kSide; ++col) {
      std::istringstream in(escapes[2 * (3 * row * kSide + col)].substr(2));
      std::vector<int> numbers;
      for (std::string number; std::getline(in, number, ';');) numbers.push_back(std::stoi(number));
      ASSERT_EQ(numbers.size(), 10U);
      colors.push_back({numbers[2], numbers[7], numbers[8], numbers[9]});
    }
  }
  const auto distance = [](const Color& a, const Color& b) {
    return std::abs(a.red - b.red) + std::abs(a.green - b.green) + std::abs(a.blue - b.blue);
  };
  for (std::size_t i = 0; i < colors.size(); ++i) {
    const Color& color = colors[i];
    EXPECT_GT(distance(color, {.text = 0, .red = color.text, .green = color.text, .blue = color.text}), 200) << i;
    EXPECT_TRUE(i % kSide == 0 || distance(color, colors[i - 1]) > 60) << i;
    EXPECT_TRUE(i < kSide || distance(color, colors[i - kSide]) > 60) << i;
  }
}

TEST(ShardingPicture, ColoredTilesObeyTheMaximalWidth) {
  std::vector<std::string> escapes;
  std::istringstream picture(without_escapes(
      sharding_picture({2, 400}, NamedSharding(grid({2, 4}), P("x", "y")), {.use_color = true, .max_width = 31}),
      escapes));
  for (std::string line; std::getline(picture, line);) EXPECT_EQ(line, std::string(31, ' '));
}

// ---- Errors.

TEST(ShardingPictureError, Rank) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              sharding_picture({2, 3, 4}, NamedSharding(grid({2}), P("x")));
            }),
            "visualize_sharding: shape (2, 3, 4) has rank 3; only arrays of rank 1 and 2 can be drawn");
  EXPECT_EQ(message_of<InvalidArgument>([] { sharding_picture({}, NamedSharding(grid({2}), P())); }),
            "visualize_sharding: shape () has rank 0; only arrays of rank 1 and 2 can be drawn");
}

TEST(ShardingPictureError, Options) {
  const Sharding sharding = NamedSharding(grid({2}), P("x"));
  const auto message = [&](const PictureOptions& options) {
    return message_of<InvalidArgument>([&] { sharding_picture({4}, sharding, options); });
  };
  EXPECT_EQ(message({.scale = 0}), "visualize_sharding: scale is 0; it must be above 0 and at most 100");
  EXPECT_EQ(message({.scale = 101}), "visualize_sharding: scale is 101; it must be above 0 and at most 100");
  EXPECT_EQ(message({.scale = std::numeric_limits<double>::quiet_NaN()}),
            "visualize_sharding: scale is nan; it must be above 0 and at most 100");
  EXPECT_EQ(message({.min_width = -1}), "visualize_sharding: min_width is -1; it must be at least 0");
  EXPECT_EQ(message({.max_width = 0}), "visualize_sharding: max_width is 0; it must be at least 1");
}

TEST(ShardingPictureError, ShapeThatTheShardingCannotHold) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { sharding_picture({4}, NamedSharding(grid({2}), P(none, "x"))); }),
      "visualize_sharding: spec P(None, 'x') of length 2 does not fit an array of rank 1; a spec may have at most "
      "one entry for each dimension");
  EXPECT_EQ(
      message_of<IndivisibleError>([] { sharding_picture({5}, NamedSharding(grid({2}), P("x"))); }),
      "visualize_sharding: dimension 0 of shape (5,) has size 5, which is not a multiple of 2, the number of pieces "
      "that spec P('x',) asks for over mesh axes ('x': 2)");
  EXPECT_NE(message_of<InvalidArgument>([] {
              sharding_picture({4}, NamedSharding(grid({2}), P(unconstrained)));
            }).find("unconstrained"),
            std::string::npos);
}

// ---- SVG and HTML.

TEST(SvgPicture, OfAMatrix) {
  EXPECT_EQ(svg_picture({4, 8}, NamedSharding(grid({2, 4}), P("x"))),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"200\" viewBox=\"0 0 400 200\" "
            "font-family=\"sans-serif\" font-size=\"14\">\n"
            "  <rect x=\"0\" y=\"0\" width=\"400\" height=\"100\" fill=\"#436e96\" stroke=\"black\"/>\n"
            "  <text x=\"200\" y=\"50\" fill=\"white\" text-anchor=\"middle\" dominant-baseline=\"middle\">"
            "CPU 0,1,2,3</text>\n"
            "  <rect x=\"0\" y=\"100\" width=\"400\" height=\"100\" fill=\"#e16581\" stroke=\"black\"/>\n"
            "  <text x=\"200\" y=\"150\" fill=\"black\" text-anchor=\"middle\" dominant-baseline=\"middle\">"
            "CPU 4,5,6,7</text>\n"
            "</svg>\n");
}

TEST(HtmlPicture, OfAVector) {
  EXPECT_EQ(html_picture({8}, NamedSharding(grid({2, 4}), P("x"))),
            "<table style=\"border-collapse: collapse\">\n"
            "  <tr>\n"
            "    <td style=\"width: 200px; height: 32px; background: #436e96; color: white; border: 1px solid black; "
            "text-align: center\">CPU 0,1,2,3</td>\n"
            "    <td style=\"width: 200px; height: 32px; background: #964356; color: white; border: 1px solid black; "
            "text-align: center\">CPU 4,5,6,7</td>\n"
            "  </tr>\n"
            "</table>\n");
}

// A row of the table for each row of shards, and no tile too small for its label.
TEST(HtmlPicture, OfManyShards) {
  const std::string html = html_picture({8, 800}, NamedSharding(grid({2, 4}), P("x", "y")));
  EXPECT_EQ(std::count(html.begin(), html.end(), '\n'), 2 + 2 * 2 + 8);
  EXPECT_THAT(html, testing::HasSubstr("width: 100px; height: 32px"));
}

}  // namespace
}  // namespace shoal
