// Finds where a plate was heated, from how warm it is in the end: heat.cc differentiated.
//
// Sources heat a plate while 500 steps run, which also radiates, more the warmer it is. Only the final plate is known.
// Gradient descent looks for the sources that would have led there, and its gradient goes back through all steps, for
// which it needs the plate at each. The program keeps a few of these, and computes those between them again (Griewank
// and Walther 2000, "revolve").
//
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/heat_source
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/heat_source --points 256 --checkpoints 20
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>

#include "heat_step.h"
#include "processes.h"

namespace {

using namespace shoal;

struct Settings {
  std::int64_t points = 128;  // Along each side.
  std::int64_t steps = 500;
  std::int64_t checkpoints = 30;  // Plates that are kept; 0: those of all steps.
  std::int64_t iterations = 200;
  std::string out;
};

// What is to be found: where sources are, as parts of the sides, how wide, and how strong.
struct Source {
  float down, across, width, strength;
};
constexpr Source kSources[] = {{0.3F, 0.6F, 0.06F, 1.0F}, {0.7F, 0.25F, 0.09F, 0.6F}};

constexpr double kRadiation = 0.05;  // What a plate of warmth 1 loses in a step.

Array sources(std::int64_t points) {
  const Array place = (arange(points) + 1).astype(float32) / (points + 1);
  Array plate = zeros({points, points});
  for (const Source& source : kSources) {
    const auto bell = [&](float middle) { return exp(-square((place - middle) / source.width)); };
    plate = plate + source.strength * outer(bell(source.down), bell(source.across));
  }
  return plate;
}

// The final plate for given sources. It begins cold, and a step brings each point its share of their heat.
auto heated(const Mesh& mesh, const Settings& s) {
  const auto of_tile = [steps = s.steps, checkpoints = s.checkpoints](const Array& source) {
    const auto warmer = [&](const Array&, const Array& tile) {
      const Array spread = examples::step(tile);
      const Array lost = kRadiation * square(square(tile));
      return spread - lost + source / steps;
    };
    lax::ForiOptions options;
    if (checkpoints > 0) options.max_checkpoints = checkpoints;
    return lax::fori_loop(0, steps, warmer, zeros_like(source), options);
  };
  const PartitionSpec tiles = P("row", "column");
  return shard_map(of_tile, {.mesh = mesh, .in_specs = tiles, .out_specs = tiles});
}

void find(const Settings& s) {
  const Mesh mesh = examples::mesh_of_all_devices();
  const NamedSharding tiles(mesh, P("row", "column"));
  const auto heat = heated(mesh, s);
  const Array wanted = jit([&] { return sources(s.points); }, {.out_shardings = tiles})();
  const Array seen = jit(heat)(wanted);
  const auto loss_of = [=](const Array& source) {
    const Array misfit = square(heat(source) - seen).mean();
    return misfit / square(seen).mean();
  };

  const auto optimizer = optimizers::adam(optimizers::cosine_decay_schedule(0.2, s.iterations));
  Array found = zeros_like(wanted);
  optimizers::State state = optimizer.init(found);
  using Descended = std::tuple<Array, optimizers::State, Array>;
  const auto descend = jit([=](const Array& source, const optimizers::State& before) -> Descended {
                         const auto [loss, slope] = value_and_grad(loss_of)(source);
                         const auto [updates, after] = optimizer.update(slope, before, source);
                         return {optimizers::apply_updates(source, updates), after, loss};
                       })
                           .lower(found, state)
                           .compile();

  const bool speaks = process_index() == 0;
  if (speaks) {
    std::cout << s.steps << " steps of " << s.points << " x " << s.points << " points on " << mesh << "; "
              << std::flush;
    std::printf("%.1f MB of each device hold what is kept on the way\n",
                static_cast<double>(descend.memory_analysis().temp_size) / 1e6);
  }
  RunLog log("The source of a plate's heat");
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 1; i <= s.iterations; ++i) {
    Array loss;
    std::tie(found, state, loss) = descend(found, state);
    if (i % std::max<std::int64_t>(s.iterations / 50, 1) != 0) continue;
    const double value = loss.item<double>();
    log.add(i, {{"loss", value}});
    if (!speaks) continue;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    std::printf("\r%s iteration %4ld  misfit %.3e  %.4f s each",
                progress_bar(static_cast<double>(i) / static_cast<double>(s.iterations)).c_str(), static_cast<long>(i),
                value, taken.count() / static_cast<double>(i));
    std::fflush(stdout);
  }
  const double error = sqrt(square(found - wanted).mean() / square(wanted).mean()).item<double>();
  const auto strongest = argmax(found).item<std::int64_t>();
  if (!speaks) return;
  const auto part = [&](std::int64_t i) { return static_cast<double>(i + 1) / static_cast<double>(s.points + 1); };
  std::printf("\nthe strongest source is at %.2f, %.2f; sources are found to %.1f%%\n", part(strongest / s.points),
              part(strongest % s.points), 100 * error);
  if (s.out.empty()) return;
  for (const char* ending : {".csv", ".svg", ".html"}) log.save(s.out + ending);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Finds the sources of a plate's heat by gradient descent.");
  app.add_option("--points", s.points, "along each side; rows and columns of devices divide it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", s.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--checkpoints", s.checkpoints, "plates that are kept; 0: those of all steps")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--iterations", s.iterations, "of gradient descent")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--out", s.out, "writes OUT.csv, OUT.svg and OUT.html");
  CLI11_PARSE(app, argc, argv);
  return examples::run_job([&] { find(s); });
}
