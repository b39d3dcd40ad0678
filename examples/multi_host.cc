// A language model on several hosts, from the first line to the last: what each process does by itself, what all do
// together, and how they end at the same time.
//
//   tools/data.sh                                          # puts a book into build/data
//   SHOAL_NUM_CPU_DEVICES=4 build/release/bin/multi_host
//   shoal run -n 2 --devices-per-process 2 -- build/release/bin/multi_host
//
// The model predicts a byte from the ones before it: an embedding, one layer of attention, and one of hidden units. All
// layouts of four devices print the same. examples/gpt.cc has more layers, a loader and checkpoints.
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace shoal;

constexpr std::int64_t kBytes = 256;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kLength = 64;

struct Settings {
  std::int64_t steps = 100;
  std::int64_t batch = 16;  // Sequences of all hosts together.
  std::string data = "build/data/jargon.txt";
};

struct Model {
  Array down, embed, out, qkv, up;
};

Model init(const Array& key) {
  const Array keys = random::split(key, 5);
  const auto normal = [&](int i, const Shape& shape) {
    return random::normal(keys[i], shape) * std::pow(static_cast<double>(shape[0]), -0.5);
  };
  return {.down = normal(4, {4 * kWidth, kWidth}),
          .embed = 0.02 * random::normal(keys[0], {kBytes, kWidth}),
          .out = normal(2, {kWidth, kWidth}),
          .qkv = normal(1, {kWidth, 3, kHeads, kWidth / kHeads}),
          .up = normal(3, {kWidth, 4 * kWidth})};
}

// The mean over tokens [sequences, kLength + 1] of how surprising each byte was.
Array loss_of(const Model& model, const Array& tokens) {
  Array x = nn::embed(model.embed, tokens[{range(), range(0, -1)}]);
  const Array qkv = moveaxis(nn::dense(nn::rms_norm(x), model.qkv), 2, 0);
  const Array places = arange(kLength);
  const Array seen = nn::dot_product_attention(nn::rotary_embedding(qkv[0], places),
                                               nn::rotary_embedding(qkv[1], places), qkv[2], {.is_causal = true});
  x = x + matmul(reshape(seen, x.shape()), model.out);
  x = x + matmul(nn::gelu(matmul(nn::rms_norm(x), model.up)), model.down);
  const Array logits = matmul(nn::rms_norm(x), model.embed.T());
  return nn::softmax_cross_entropy_with_integer_labels(logits, tokens[{range(), range(1)}]).mean();
}

std::vector<std::int32_t> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("multi_host: cannot read " + path + "; tools/data.sh gets it");
  std::vector<std::int32_t> text;
  for (auto c = std::istreambuf_iterator<char>(file); c != std::istreambuf_iterator<char>(); ++c) {
    text.push_back(static_cast<unsigned char>(*c));
  }
  return text;
}

void train(const Settings& settings) {
  // 1. The processes find each other. Where a launcher started them (shoal run, mpirun, Slurm) there is nothing to say.
  distributed::initialize();
  const int host = process_index();
  const int hosts = process_count();
  const Mesh mesh = make_mesh({device_count()}, {"data"});

  // 2. The first state is one process's: it may have read it from a file. All others get its bits.
  const auto optimizer = optimizers::adamw(3e-3);
  Model model = multihost::broadcast_one_to_all(init(random::key(host == 0 ? 0 : 1 + host)));
  multihost::assert_equal(model, "the first weights");
  const NamedSharding everywhere(mesh, P());
  model = device_put(model, everywhere);
  optimizers::State state = device_put(optimizer.init(model), everywhere);

  // 3. Each process reads its own part of each batch. What it has is a part of one array that lies over all devices.
  const std::vector<std::int32_t> text = read_text(settings.data);
  const std::int64_t mine = settings.batch / hosts;
  const data::KeyedPermutation order(0, 0, (static_cast<std::int64_t>(text.size()) - 1) / kLength);
  const auto batch_of = [&](std::int64_t step) {
    const std::int64_t first = step * settings.batch + host * mine;
    std::vector<std::int32_t> local;
    for (std::int64_t i = first; i < first + mine; ++i) {
      const auto begin = text.begin() + order(i % order.size()) * kLength;
      local.insert(local.end(), begin, begin + kLength + 1);
    }
    return multihost::host_local_array_to_global_array(array(local).reshape(mine, kLength + 1), mesh, P("data"));
  };

  // 4. All processes call one program, in the same order and equally often.
  using Stepped = std::tuple<Model, optimizers::State, Array>;
  const auto step = jit([&](const Model& m, const optimizers::State& before, const Array& tokens) -> Stepped {
    const auto [loss, gradients] = value_and_grad([&](const Model& x) { return loss_of(x, tokens); })(m);
    const auto [updates, after] = optimizer.update(gradients, before, m);
    return {optimizers::apply_updates(m, updates), after, loss};
  });
  for (std::int64_t i = 0; i < settings.steps; ++i) {
    Array loss;
    std::tie(model, state, loss) = step(model, state, batch_of(i));
    if ((i + 1) % std::max<std::int64_t>(settings.steps / 5, 1) != 0) continue;
    const double value = loss.item<double>();
    if (host == 0) std::printf("step %4ld  loss %.4f\n", static_cast<long>(i + 1), value);
  }

  // 5. What is spread over the hosts comes together in each of them: here the surprise at each of the last sequences.
  const auto surprises = jit([](const Model& m, const Array& tokens) {
    return vmap([&](const Array& row) { return loss_of(m, expand_dims(row, 0)); })(tokens);
  });
  const Array each = multihost::process_allgather(surprises(model, batch_of(settings.steps)), true);
  std::uint32_t bits = 0;
  for (const Array& w : tree::flatten(multihost::process_allgather(model, true))) {
    bits += lax::bitcast_convert_type(w, uint32).sum().item<std::uint32_t>();
  }
  if (host == 0) {
    std::printf("the next %ld sequences: %.4f on the mean, %.4f to %.4f\n", static_cast<long>(each.size()),
                each.mean().item<double>(), each.min().item<double>(), each.max().item<double>());
    std::printf("sum of the bits of all weights %u\n", bits);
  }

  // 6. Nobody leaves before all are done.
  multihost::sync_global_devices("the end");
  distributed::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small language model on several hosts.");
  app.add_option("--steps", settings.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", settings.batch, "sequences of all hosts together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--data", settings.data)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    train(settings);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
