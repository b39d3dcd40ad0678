// Handwritten digits, read by a small net that a grid of devices trains with two pmaps, one in the other.
//
//   tools/data.sh                                          # puts the digits into build/data
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/nested_pmap --grid 4,2
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/nested_pmap --grid 4,2
//
// The outer pmap divides the images among the rows of the grid, the inner one the hidden units among its columns: a
// device has some of the images, and some of the net. Collectives name the axis that they go along. What is printed is
// the same for each grid, but for roundings.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "processes.h"

namespace {

using namespace shoal;

constexpr std::int64_t kHeldOut = 6;  // Every sixth of the 1,797 digits is held out.
constexpr std::int64_t kPixels = 64;
constexpr std::int64_t kHidden = 128;

struct Settings {
  std::vector<std::int64_t> grid = {4, 2};  // Rows and columns of devices.
  std::int64_t epochs = 30;
  std::int64_t batch = 128;  // Images of all rows together.
  double rate = 3e-3;
  std::uint64_t seed = 0;
  std::string data = "build/data/digits.csv";
};

struct Net {
  Array in, in_bias, out, out_bias;
};

// Images for each row of the grid, [rows, images, pixels], their labels, and which of them count.
struct Images {
  Array pixels, labels, mask;
};

// A part of the hidden units for each column, in front. All of them have the bias of the digits.
Net init(const Array& key, std::int64_t columns) {
  const Array keys = random::split(key, 2);
  const nn::initializers::VarianceScalingOptions he{.scale = 2};
  const Array inwards = nn::initializers::variance_scaling(keys[0], {kPixels, kHidden}, he);
  const Array outwards = nn::initializers::variance_scaling(keys[1], {kHidden, 10}, he);
  return {moveaxis(inwards.reshape(kPixels, columns, -1), 1, 0), zeros({columns, kHidden / columns}),
          outwards.reshape(columns, -1, 10), zeros({columns, 10})};
}

// What a device makes of the images of its row: its part of the units, added up along the row.
Array logits_of(const Net& net, const Array& pixels) {
  const Array units = nn::relu(nn::dense(pixels, net.in, net.in_bias));
  return lax::psum(matmul(units, net.out), "columns") + net.out_bias;
}

using Stepped = std::tuple<Net, optimizers::State, Array>;

auto trainer(const optimizers::GradientTransformation& optimizer) {
  const auto step = [=](const Net& net, const optimizers::State& state, const Images& images) -> Stepped {
    const auto loss_of = [&](const Net& n) {
      const Array losses = nn::softmax_cross_entropy_with_integer_labels(logits_of(n, images.pixels), images.labels);
      const Array total = lax::psum(where(images.mask, losses, 0).sum(), "rows");
      return total / lax::psum(images.mask.sum(), "rows");
    };
    auto [loss, gradients] = value_and_grad(loss_of)(net);
    // Each device differentiates the sum of what all see: the loss once for every row, whose mean undoes it, and once
    // for every column. A bias that each column has for itself is seen by this one alone.
    gradients = lax::pmean(gradients, "rows");
    const auto columns = static_cast<float>(lax::axis_size("columns"));
    for (Array* g : {&gradients.in, &gradients.in_bias, &gradients.out}) *g = *g / columns;
    const auto [updates, next] = optimizer.update(gradients, state, net);
    return {optimizers::apply_updates(net, updates), next, lax::pmean(loss, "columns")};
  };
  // The axes of the inner pmap are those of what a row of devices has: parameters by columns, images that all share.
  const auto of_row = pmap(step, {.axis_name = "columns", .in_axes = {0, 0, none}, .out_axes = {0, 0, none}});
  return pmap(of_row, {.axis_name = "rows", .in_axes = {none, none, 0}, .out_axes = none});
}

auto accuracy() {
  const auto of_device = [](const Net& net, const Images& images) {
    const Array read = argmax(logits_of(net, images.pixels), {.axis = -1});
    const Array right = logical_and(images.mask, equal(read, images.labels));
    return lax::pmean(lax::psum(right.sum(), "rows") / lax::psum(images.mask.sum(), "rows"), "columns");
  };
  const auto of_row = pmap(of_device, {.axis_name = "columns", .in_axes = {0, none}, .out_axes = none});
  return pmap(of_row, {.axis_name = "rows", .in_axes = {none, 0}, .out_axes = none});
}

struct Digits {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

Digits read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("nested_pmap: cannot read " + path + "; tools/data.sh gets it");
  Digits digits;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::vector<float> row;
    for (std::string number; std::getline(numbers, number, ',');) row.push_back(std::stof(number));
    if (row.size() != kPixels + 1) throw std::runtime_error("nested_pmap: " + path + " has a line of another length");
    digits.labels.push_back(static_cast<std::int32_t>(row.back()));
    for (std::size_t i = 0; i < kPixels; ++i) digits.pixels.push_back(row[i] / 16);
  }
  return digits;
}

// Some of the digits for each row of the grid, filled up. A process passes what its own rows of devices take.
Images by_rows(const Digits& digits, const std::vector<std::int64_t>& chosen, std::int64_t rows) {
  const auto count = static_cast<std::int64_t>(chosen.size());
  const std::int64_t each = (count + rows - 1) / rows;
  const std::int64_t mine = rows / process_count();
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < mine * each; ++i) {
    const std::int64_t place = process_index() * mine * each + i;
    const std::int64_t digit = chosen[static_cast<std::size_t>(std::min(place, count - 1))];
    const auto first = digits.pixels.begin() + digit * kPixels;
    pixels.insert(pixels.end(), first, first + kPixels);
    labels.push_back(digits.labels[static_cast<std::size_t>(digit)]);
    mask.push_back(place < count ? 1 : 0);
  }
  return {array(pixels).reshape(mine, each, kPixels), array(labels).reshape(mine, each),
          array(mask).reshape(mine, each).astype(bool_)};
}

void train(const Settings& s) {
  const std::int64_t rows = s.grid[0];
  const std::int64_t columns = s.grid[1];
  const bool speaks = process_index() == 0;
  const Digits digits = read_digits(s.data);
  std::vector<std::int64_t> seen;
  std::vector<std::int64_t> unseen;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(digits.labels.size()); ++i) {
    (i % kHeldOut == 0 ? unseen : seen).push_back(i);
  }
  const auto count = static_cast<std::int64_t>(seen.size());
  const std::int64_t steps = (count + s.batch - 1) / s.batch;

  const auto optimizer =
      optimizers::adamw(optimizers::cosine_decay_schedule(s.rate, s.epochs * steps), {.weight_decay = 1e-3});
  Net net = init(random::key(s.seed), columns);
  // Each column has the state of an optimizer of its own; they count alike.
  optimizers::State state = vmap([&](const Net& n) { return optimizer.init(n); })(net);
  const auto step = trainer(optimizer);
  for (std::int64_t epoch = 0; epoch < s.epochs; ++epoch) {
    const data::KeyedPermutation order(s.seed, static_cast<std::uint64_t>(epoch), count);
    double sum = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      std::vector<std::int64_t> chosen;
      for (std::int64_t j = i * s.batch; j < std::min((i + 1) * s.batch, count); ++j) {
        chosen.push_back(seen[static_cast<std::size_t>(order(j))]);
      }
      Array loss;
      std::tie(net, state, loss) = step(net, state, by_rows(digits, chosen, rows));
      sum += loss.item<double>();
    }
    if (speaks && (epoch + 1) % std::max<std::int64_t>(s.epochs / 6, 1) == 0) {
      std::printf("epoch %3ld  loss %.6f\n", static_cast<long>(epoch + 1), sum / static_cast<double>(steps));
    }
  }
  const double right = accuracy()(net, by_rows(digits, unseen, rows)).item<double>();
  if (speaks) {
    std::printf("of %ld digits that they never saw %ld x %ld devices read %.2f%%\n", static_cast<long>(unseen.size()),
                static_cast<long>(rows), static_cast<long>(columns), 100 * right);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small net to read digits by nested pmaps.");
  app.add_option("--grid", settings.grid, "rows and columns of devices; columns divide 128")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", settings.batch, "images of all rows together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rate", settings.rate)->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
  app.add_option("--data", settings.data)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return examples::run_job([&] { train(settings); });
}
