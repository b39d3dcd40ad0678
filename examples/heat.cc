// The heat equation on a square plate whose edge is kept at zero, with a tile of it on each device. Steps run in
// blocks: a block is one compiled program, a loop in which devices exchange the rows and columns where their tiles
// meet. Between blocks the program looks at the plate.
//
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/heat
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/heat 4096 20 50 plate.pgm
//
// The arguments are the points along each side, the blocks, the steps of a block, and the file for the final picture.
// Every layout of devices and processes gives the same bits.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numbers>
#include <stdexcept>

#include "heat_step.h"
#include "processes.h"

namespace {

using namespace shoal;
using examples::kRate;
using examples::mesh_of_all_devices;
using examples::step;

constexpr std::int64_t kRowsShown = 32;     // Of the picture in the terminal, where characters are
constexpr std::int64_t kColumnsShown = 64;  // twice as high as they are wide.

struct Settings {
  std::int64_t points = 512;
  std::int64_t blocks = 20;
  std::int64_t steps = 200;  // Of a block.
  std::string file = "heat.pgm";
};

// ---- The program of the devices: steps of heat_step.h.

// The function that runs `steps` steps of the whole plate. The plate is donated, so that it exists once.
auto block_of_steps(const Mesh& mesh, std::int64_t steps) {
  const auto of_tile = [=](Array tile) {
    return lax::fori_loop(
        0, steps, [](const Array&, const Array& before) { return step(before); }, tile);
  };
  const PartitionSpec tiles = P("row", "column");
  return jit(shard_map(of_tile, {.mesh = mesh, .in_specs = tiles, .out_specs = tiles}),
             {.donate_argnums = {0}, .name = "block_of_steps"});
}

// ---- What is known without it.

// A standing wave, with so many half waves along each side. A step multiplies all its points by one number.
struct Wave {
  int down;
  int across;
  float height;
};
constexpr Wave kWaves[] = {{1, 1, 1.0F}, {2, 3, 0.7F}, {5, 4, 0.5F}};

// The exact plate after a number of steps, which begins as the sum of the waves.
Array exact(std::int64_t points, std::int64_t steps) {
  const double angle = std::numbers::pi / static_cast<double>(points + 1);
  const auto sines = [&](int half_waves) {
    return sin(arange(1, points + 1).astype(float32) * static_cast<float>(half_waves * angle));
  };
  Array plate = zeros({points, points});
  for (const Wave& wave : kWaves) {
    const double change = std::pow(std::sin(wave.down * angle / 2), 2) + std::pow(std::sin(wave.across * angle / 2), 2);
    const double left = std::pow(1 - 4 * kRate * change, static_cast<double>(steps));
    plate = plate + static_cast<float>(wave.height * left) * outer(sines(wave.down), sines(wave.across));
  }
  return plate;
}

// ---- What the user sees.

// On a terminal the bar is drawn over itself; in a log each one has its line.
void show_progress(std::int64_t done, const Settings& settings, double seconds) {
  constexpr std::int64_t kWidth = 40;
  static const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const auto full = static_cast<std::size_t>(kWidth * done / settings.blocks);
  std::cerr << (is_terminal ? "\r[" : "[") << std::string(full, '#') << std::string(kWidth - full, '.') << "] "
            << done * settings.steps << " steps, " << 1e6 * seconds / static_cast<double>(settings.steps)
            << " us a step   " << (is_terminal && done < settings.blocks ? "" : "\n") << std::flush;
}

// The plate as brightness from 0 to `white`, as host data. It is computed where the plate is, and only bytes travel.
std::vector<std::uint8_t> brightness(const Array& plate, float white) {
  const auto scaled =
      jit([=](Array x) { return ((x - x.min()) * (white + 0.5F) / (x.max() - x.min())).astype(uint8); });
  return multihost::to_host(scaled(plate)).to_vector<std::uint8_t>();
}

void print_picture(const Array& plate) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const std::int64_t points = plate.shape()[0];
  const auto means = jit([=](Array x) {
    const Dims blocks{kRowsShown, points / kRowsShown, kColumnsShown, points / kColumnsShown};
    return x.reshape(blocks).mean({.axis = {1, 3}});
  });
  const std::vector<std::uint8_t> shades = brightness(means(plate), static_cast<float>(kShades.size() - 1));
  if (process_index() != 0) return;
  for (std::size_t i = 0; i < shades.size(); ++i) {
    std::cout << kShades[shades[i]] << ((i + 1) % kColumnsShown == 0 ? "\n" : "");
  }
}

// A portable graymap: a line of text, and a byte for each point.
void write_picture(const Array& plate, const std::string& path) {
  const std::vector<std::uint8_t> pixels = brightness(plate, 255);
  if (process_index() != 0) return;
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << plate.shape()[1] << ' ' << plate.shape()[0] << " 255\n";
  file.write(reinterpret_cast<const char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  file.close();
  if (!file) throw std::runtime_error("heat: cannot write " + path);
}

void heat(const Settings& settings) {
  const Mesh mesh = mesh_of_all_devices();
  const NamedSharding tiles(mesh, P("row", "column"));
  const auto exact_after = [&](std::int64_t steps) {  // Each device computes its own tile.
    return jit([=] { return exact(settings.points, steps); }, {.out_shardings = tiles, .name = "exact"})();
  };
  Array plate = exact_after(0);
  const auto block = block_of_steps(mesh, settings.steps).lower(plate).compile();

  const bool speaks = process_index() == 0;
  const MemoryAnalysis memory = block.memory_analysis();
  if (speaks) {
    std::cout << settings.points << " x " << settings.points << " points on " << mesh << '\n'
              << "each device: a tile of " << memory.argument_size << " bytes, " << memory.temp_size
              << " bytes more while a block runs, "
              << block.cost_analysis().bytes_exchanged / static_cast<double>(settings.steps)
              << " bytes sent in a step\n"
              << std::flush;
  }
  for (std::int64_t done = 1; done <= settings.blocks; ++done) {
    const auto start = std::chrono::steady_clock::now();
    plate = block(plate);
    plate.block_until_ready();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (speaks) show_progress(done, settings, taken.count());
  }

  print_picture(plate);
  write_picture(plate, settings.file);
  const Array error = abs(plate - exact_after(settings.blocks * settings.steps)).max();
  const Array bits = lax::bitcast_convert_type(plate, uint32).sum();  // Modulo 2^32, so in any order.
  if (speaks) std::cout << "largest error " << error << "\nsum of all bits " << bits << '\n';
}

Settings settings_of(int argc, char** argv) {
  Settings settings;
  const auto number = [&](int i, std::int64_t otherwise) { return i < argc ? std::atoll(argv[i]) : otherwise; };
  settings.points = number(1, settings.points);
  settings.blocks = number(2, settings.blocks);
  settings.steps = number(3, settings.steps);
  if (argc > 4) settings.file = argv[4];
  if (settings.points < 1 || settings.points % kColumnsShown != 0 || settings.blocks < 1 || settings.steps < 1) {
    throw std::invalid_argument("usage: heat [points [blocks [steps of a block [file]]]], points being a multiple of " +
                                std::to_string(kColumnsShown));
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_job([&] { heat(settings_of(argc, argv)); });
}
