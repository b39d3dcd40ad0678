// Handwritten digits, read by two small nets that all devices train together, in three ways that give one loss.
//
//   tools/data.sh                                          # puts the digits into build/data
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/digits
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/digits --model conv --strategy shard_map --out /tmp/digits
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/digits --strategy jit
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "processes.h"

namespace {

using namespace shoal;
namespace init = nn::initializers;

constexpr std::int64_t kHeldOut = 6;  // Every sixth of the 1,797 digits is held out.

struct Settings {
  std::string model = "mlp";
  std::string strategy = "all";
  std::int64_t epochs = 30;
  std::int64_t batch = 128;  // Rows of all devices together.
  double rate = 3e-3;
  std::uint64_t seed = 0;
  std::string data = "build/data/digits.csv";
  std::string out;
};

// ---- Two models: a tree of parameters by name, and a function from images [rows, 8, 8, 1] to logits [rows, 10].

using Params = std::map<std::string, Array>;

struct Model {
  std::function<Params(const Array& key)> init;
  std::function<Array(const Params& params, const Array& images)> logits;
};

const init::VarianceScalingOptions kHe{.scale = 2};  // He et al. 2015, for what goes into relu.

const Model kMlp{[](const Array& key) -> Params {
                   const Array keys = random::split(key);
                   return {{"hidden.kernel", init::variance_scaling(keys[0], {64, 128}, kHe)},
                           {"hidden.bias", zeros({128})},
                           {"out.kernel", init::variance_scaling(keys[1], {128, 10}, kHe)},
                           {"out.bias", zeros({10})}};
                 },
                 [](const Params& p, const Array& images) {
                   const Array x = images.reshape(images.shape()[0], -1);
                   const Array hidden = nn::relu(nn::dense(x, p.at("hidden.kernel"), p.at("hidden.bias")));
                   return nn::dense(hidden, p.at("out.kernel"), p.at("out.bias"));
                 }};

const Model kConv{
    [](const Array& key) -> Params {
      const Array keys = random::split(key, 3);
      return {{"conv1.kernel", init::variance_scaling(keys[0], {3, 3, 1, 16}, kHe)},  {"conv1.bias", zeros({16})},
              {"conv2.kernel", init::variance_scaling(keys[1], {3, 3, 16, 32}, kHe)}, {"conv2.bias", zeros({32})},
              {"out.kernel", init::variance_scaling(keys[2], {2 * 2 * 32, 10}, kHe)}, {"out.bias", zeros({10})}};
    },
    [](const Params& p, const Array& images) {
      Array x = images;
      for (const std::string name : {"conv1", "conv2"}) {
        x = nn::relu(nn::conv(x, p.at(name + ".kernel"), p.at(name + ".bias")));
        x = nn::max_pool(x, {2, 2}, {.strides = {2, 2}});
      }
      return nn::dense(x.reshape(x.shape()[0], -1), p.at("out.kernel"), p.at("out.bias"));
    }};

// ---- Three ways to train with the rows of a batch on all devices. `mask` says which rows count: the last batch of an
// epoch is filled up.

struct Rows {
  Array image;
  Array label;
};
using Stepped = std::tuple<Params, optimizers::State, Array>;
using Step = std::function<Stepped(Params, optimizers::State, const Rows& batch, const Array& mask)>;
using Transformation = optimizers::GradientTransformation;

Array losses_of(const Model& model, const Params& params, const Rows& batch) {
  return nn::softmax_cross_entropy_with_integer_labels(model.logits(params, batch.image), batch.label);
}

Stepped updated(const Transformation& optimizer, const Params& params, const optimizers::State& state,
                const Array& loss, const Params& gradients) {
  const auto [updates, next] = optimizer.update(gradients, state, params);
  return {optimizers::apply_updates(params, updates), next, loss};
}

// The program of one device, on arrays that are split: the compiler adds the sum over devices.
Step by_jit(const Model& model, const Transformation& optimizer, const Mesh&) {
  return jit(
      [=](const Params& params, const optimizers::State& state, const Rows& batch, const Array& mask) {
        const auto loss_of = [&](const Params& p) { return nn::masked_mean(losses_of(model, p, batch), mask); };
        const auto [loss, gradients] = value_and_grad(loss_of)(params);
        return updated(optimizer, params, state, loss, gradients);
      },
      {.donate_argnums = {0, 1}});
}

// The mean over the rows of all devices, seen by one of them.
Array shared_loss(const Model& model, const Params& params, const Rows& batch, const Array& mask) {
  const Array total = where(mask, losses_of(model, params, batch), 0).sum();
  return lax::psum(total, "data") / lax::psum(mask.sum(), "data");
}

// The program of each device, with its sums written down. Gradients of what all devices share are summed.
Step by_shard_map(const Model& model, const Transformation& optimizer, const Mesh& mesh) {
  const auto step = [=](const Params& params, const optimizers::State& state, const Rows& batch, const Array& mask) {
    const auto loss_of = [&](const Params& p) { return shared_loss(model, p, batch, mask); };
    const auto [loss, gradients] = value_and_grad(loss_of)(params);
    return updated(optimizer, params, state, loss, gradients);
  };
  return jit(shard_map(step, {.mesh = mesh, .in_specs = {P(), P(), P("data"), P("data")}, .out_specs = P()}),
             {.donate_argnums = {0, 1}});
}

// The same by pmap, whose devices each differentiate a sum that all share: the mean of that is the gradient. A process
// passes the rows of its own devices.
Step by_pmap(const Model& model, const Transformation& optimizer, const Mesh& mesh) {
  const auto step = [=](const Params& params, const optimizers::State& state, const Rows& batch, const Array& mask) {
    const auto loss_of = [&](const Params& p) { return shared_loss(model, p, batch, mask); };
    const auto [loss, gradients] = value_and_grad(loss_of)(params);
    return updated(optimizer, params, state, loss, lax::pmean(gradients, "data"));
  };
  const auto mapped = pmap(step, {.axis_name = "data", .in_axes = {none, none, 0, 0}, .out_axes = none});
  return [=](const Params& params, const optimizers::State& state, const Rows& batch, const Array& mask) mutable {
    const auto [rows, counted] = multihost::global_array_to_host_local_array(std::pair(batch, mask), mesh, P("data"));
    const auto by_device = [](const Array& x) {
      Shape shape = x.shape();
      shape[0] /= local_device_count();
      shape.insert(shape.begin(), local_device_count());
      return reshape(x, shape);
    };
    return mapped(params, state, tree::map(by_device, rows), by_device(counted));
  };
}

const std::vector<std::pair<std::string, Step (*)(const Model&, const Transformation&, const Mesh&)>> kStrategies = {
    {"jit", by_jit}, {"shard_map", by_shard_map}, {"pmap", by_pmap}};

// ---- The program.

struct Digits {
  std::vector<float> points;         // 64 for each,
  std::vector<std::int32_t> labels;  // and what it is.

  Rows rows(const std::vector<std::int64_t>& examples) const {
    std::vector<float> images;
    std::vector<std::int32_t> names;
    for (const std::int64_t example : examples) {
      images.insert(images.end(), points.begin() + example * 64, points.begin() + (example + 1) * 64);
      names.push_back(labels[static_cast<std::size_t>(example)]);
    }
    return {array(images).reshape(-1, 8, 8, 1), array(names)};
  }
};

Digits read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("digits: cannot read " + path + "; tools/data.sh gets it");
  Digits digits;
  std::vector<float> row;
  for (float number = 0; file >> number; file.ignore(1, ',')) {
    row.push_back(number);
    if (row.size() < 65) continue;
    for (std::size_t i = 0; i < 64; ++i) digits.points.push_back(row[i] / 16);
    digits.labels.push_back(static_cast<std::int32_t>(row.back()));
    row.clear();
  }
  return digits;
}

double train(const Settings& settings, const std::string& strategy, const Digits& digits, const Mesh& mesh,
             RunLog& log) {
  const Model& model = settings.model == "conv" ? kConv : kMlp;
  std::vector<std::int64_t> seen;
  std::vector<std::int64_t> unseen;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(digits.labels.size()); ++i) {
    (i % kHeldOut == 0 ? unseen : seen).push_back(i);
  }
  const auto count = static_cast<std::int64_t>(seen.size());
  data::DataLoader loader(count, settings.batch,
                          [&](std::vector<std::int64_t> examples) {
                            for (std::int64_t& example : examples) example = seen[static_cast<std::size_t>(example)];
                            return digits.rows(examples);
                          },
                          NamedSharding(mesh, P("data")), {.seed = settings.seed});
  const std::int64_t steps = loader.batches_per_epoch();
  const Transformation optimizer = optimizers::adamw(
      optimizers::cosine_decay_schedule(settings.rate, settings.epochs * steps), {.weight_decay = 1e-3});
  const NamedSharding everywhere(mesh, P());
  Params params = device_put(model.init(random::key(settings.seed)), everywhere);
  optimizers::State state = device_put(optimizer.init(params), everywhere);
  const auto find = [&](const auto& named) { return named.first == strategy; };
  const Step step = std::find_if(kStrategies.begin(), kStrategies.end(), find)->second(model, optimizer, mesh);
  const bool speaks = process_index() == 0;
  const auto begin = std::chrono::steady_clock::now();
  double mean = 0;
  for (std::int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    std::vector<Array> losses;
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto batch = loader.next();
      Array loss;
      std::tie(params, state, loss) = step(std::move(params), std::move(state), batch.data, batch.mask);
      losses.push_back(loss);
    }
    mean = 0;
    for (const Array& loss : losses) mean += loss.item<double>();
    mean /= static_cast<double>(steps);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    log.add(epoch, {{"loss_" + strategy, mean}});
    if (!speaks) continue;
    std::printf("\r%-9s %s epoch %3ld  loss %.6f  %8.0f digits/s", strategy.c_str(),
                progress_bar(static_cast<double>(epoch) / static_cast<double>(settings.epochs)).c_str(),
                static_cast<long>(epoch), mean, static_cast<double>(count * epoch) / taken.count());
    std::fflush(stdout);
  }
  const auto right = jit([&](const Params& p, const Rows& rows) {
    return equal(argmax(model.logits(p, rows.image), {.axis = -1}), rows.label).mean();
  });
  const double accuracy = right(params, digits.rows(unseen)).item<double>();
  if (speaks) {
    std::printf("\n%9s of %ld digits that it never saw it reads %.2f%%\n", "", static_cast<long>(unseen.size()),
                100 * accuracy);
  }
  return mean;
}

void digits(const Settings& settings) {
  const Mesh mesh = make_mesh({device_count()}, {"data"});
  const Digits digits = read_digits(settings.data);
  RunLog log("digits, " + settings.model);
  std::vector<double> losses;
  for (const auto& [name, make] : kStrategies) {
    if (settings.strategy == "all" || settings.strategy == name) {
      losses.push_back(train(settings, name, digits, mesh, log));
    }
  }
  if (process_index() != 0) return;
  const auto [least, greatest] = std::minmax_element(losses.begin(), losses.end());
  if (losses.size() > 1) std::printf("the last losses differ by %.1e\n", *greatest - *least);
  if (settings.out.empty()) return;
  for (const char* ending : {".csv", ".svg", ".html"}) log.save(settings.out + ending);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small net to read digits, on all devices.");
  app.add_option("--model", settings.model)->check(CLI::IsMember({"mlp", "conv"}))->capture_default_str();
  app.add_option("--strategy", settings.strategy)
      ->check(CLI::IsMember({"jit", "shard_map", "pmap", "all"}))
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", settings.batch, "rows of all devices together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rate", settings.rate)->capture_default_str();
  app.add_option("--seed", settings.seed)->capture_default_str();
  app.add_option("--data", settings.data)->capture_default_str();
  app.add_option("--out", settings.out, "writes OUT.csv, OUT.svg and OUT.html");
  CLI11_PARSE(app, argc, argv);
  return examples::run_job([&] { digits(settings); });
}
