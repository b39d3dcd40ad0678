// A small GPT that learns to write as a book does, byte by byte, on a mesh of devices.
//
//   tools/data.sh                                          # puts a book into build/data
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/gpt --mesh data=2,model=4 --strategy tp
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/gpt --mesh data=8 --strategy fsdp --out /tmp/gpt
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/gpt --mesh data=2,model=4 --strategy ring
//
// A strategy says how weights and activations are split. The losses are those of one device, but for roundings.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "processes.h"

namespace {

using namespace shoal;

constexpr std::int64_t kBytes = 256;
constexpr float kInfinity = 1e30F;

struct Settings {
  std::string mesh;  // Axes and their sizes; default: all devices along "data".
  std::string strategy = "dp";
  std::int64_t microbatches = 4;  // Of a device's rows, in a pipeline.
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 8;
  std::int64_t length = 128;  // Bytes of a sequence,
  std::int64_t batch = 16;    // and sequences of all devices together.
  std::int64_t steps = 300;
  double rate = 2e-3;
  std::uint64_t seed = 0;
  std::string data = "build/data/jargon.txt";
  std::int64_t sample = 300;  // Bytes to write at the end.
  std::string out;
};

// ---- The model: weights, those of all layers stacked, and a function of them.

struct Layer {
  Array norm1, qkv, out, norm2, up, down;
};
struct Gpt {
  Array embed;
  Layer layers;
  Array norm;
};
[[maybe_unused]] auto shoal_tree(Layer& l) {
  return fields(field("norm1", l.norm1), field("qkv", l.qkv), field("out", l.out), field("norm2", l.norm2),
                field("up", l.up), field("down", l.down));
}
[[maybe_unused]] auto shoal_tree(Gpt& g) {
  return fields(field("embed", g.embed), field("layers", g.layers), field("norm", g.norm));
}

// Weights as GPT-2 has them: normal numbers, less for what is added to the residual stream.
Gpt init(const Array& key, const Settings& s) {
  const Array keys = random::split(key, 5);
  const std::int64_t features = s.width / s.heads;
  const auto normal = [&](int i, const Shape& shape, double scale = 1) {
    return 0.02 * scale * random::normal(keys[i], shape);
  };
  const double less = 1 / std::sqrt(2.0 * static_cast<double>(s.layers));
  return {normal(0, {kBytes, s.width}),
          {ones({s.layers, s.width}), normal(1, {s.layers, s.width, 3, s.heads, features}),
           normal(2, {s.layers, s.heads, features, s.width}, less), ones({s.layers, s.width}),
           normal(3, {s.layers, s.width, 4 * s.width}), normal(4, {s.layers, 4 * s.width, s.width}, less)},
          ones({s.width})};
}

using Attention = std::function<Array(const Array& q, const Array& k, const Array& v)>;

// A layer of x [batch, T, width].
Array block(const Array& x, const Layer& layer, const Array& positions, const Attention& attend) {
  const Array qkv = nn::dense(nn::rms_norm(x, {.scale = layer.norm1}), layer.qkv);
  const auto part = [&](std::int64_t i) { return qkv[{range(), range(), i}]; };
  const Array seen =
      attend(nn::rotary_embedding(part(0), positions), nn::rotary_embedding(part(1), positions), part(2));
  const Array y = x + tensordot(seen, layer.out, 2);
  const Array hidden = nn::gelu(nn::dense(nn::rms_norm(y, {.scale = layer.norm2}), layer.up));
  return y + nn::dense(hidden, layer.down);
}

Array logits_of(const Gpt& gpt, const Array& x) { return matmul(nn::rms_norm(x, {.scale = gpt.norm}), gpt.embed.T()); }

Array causal(const Array& q, const Array& k, const Array& v) {
  return nn::dot_product_attention(q, k, v, {.is_causal = true});
}

// How all layers of a stack run.
using Runner = std::function<Array(const Layer& stack, const Array& x, const Array& positions)>;

struct Parallel {
  Attention attend = causal;
  std::function<Array(const Array&)> constrain = [](const Array& x) { return x; };
};

Runner one_after_the_other(const Parallel& parallel = {}) {
  return [=](const Layer& stack, const Array& x, const Array& positions) {
    const auto one = [&](const Array& y, const Layer& layer) {
      return std::pair(block(parallel.constrain(y), layer, positions, parallel.attend), Array(0));
    };
    return lax::scan(one, parallel.constrain(x), stack).first;
  };
}

// Logits [batch, T, kBytes] of tokens [batch, T].
Array forward(const Gpt& gpt, const Array& tokens, const Runner& run) {
  return logits_of(gpt, run(gpt.layers, nn::embed(gpt.embed, tokens), arange(tokens.shape()[1])));
}

// ---- Ring attention (Liu, Zaharia and Abbeel 2023): each device has a part of the sequence, and sees the keys and
// values of the others one after the other, as they go round.

Attention ring_attention(const Mesh& mesh, const PartitionSpec& rows) {
  const auto attend = [](const Array& q, const Array& k, const Array& v) {
    const std::int64_t size = lax::axis_size("model");
    const Array mine = lax::axis_index("model");
    const std::int64_t tokens = q.shape()[1];
    const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[3]));
    const Array place = arange(tokens);
    lax::Permutation on;
    for (int i = 0; i < static_cast<int>(size); ++i) on.emplace_back(i, (i + 1) % static_cast<int>(size));
    struct Seen {
      Array k, v, most, total, sum;
    };
    const auto step = [&](const Array& i, const Seen& before) -> Seen {
      const Array theirs = (mine - i + size) % size;  // Whose keys these are.
      const Array scores = scale * einsum("bqhd,bkhd->bhqk", q, before.k);
      const Array is_seen = less_equal(theirs * tokens + expand_dims(place, 0), mine * tokens + expand_dims(place, 1));
      const Array some = where(is_seen, scores, -kInfinity);
      // The softmax of all keys so far: what there was is scaled to the new maximum.
      const Array most = maximum(before.most, some.max(-1));
      const Array weights = where(is_seen, exp(some - expand_dims(most, -1)), 0);
      const Array fade = exp(before.most - most);
      const auto next = [&](const Array& a) { return lax::ppermute(a, "model", on); };
      return {next(before.k), next(before.v), most, before.total * fade + weights.sum(-1),
              before.sum * expand_dims(moveaxis(fade, 1, 2), -1) + einsum("bhqk,bkhd->bqhd", weights, before.v)};
    };
    const Array of_query = moveaxis(q.max(-1), 1, 2);
    const Seen first{k, v, full_like(of_query, -kInfinity), zeros_like(of_query), zeros_like(q)};
    const Seen last = lax::fori_loop(0, size, step, first);
    return last.sum / expand_dims(moveaxis(last.total, 1, 2), -1);
  };
  return shard_map(attend, {.mesh = mesh, .in_specs = {rows, rows, rows}, .out_specs = rows});
}

// ---- A pipeline (Huang et al. 2019, "GPipe"): each device has some of the layers, and microbatches go from one to the
// next. While the first device has the third microbatch, the second one has the second.

Runner pipeline(const Mesh& mesh, const PartitionSpec& rows, std::int64_t microbatches) {
  const auto run = [=](const Layer& stack, const Array& x, const Array& positions) {
    const int size = static_cast<int>(lax::axis_size("model"));
    const Array stage = lax::axis_index("model");
    Shape split = x.shape();
    split[0] /= microbatches;
    split.insert(split.begin(), microbatches);
    const Array parts = lax::pcast(reshape(x, split), "model", "varying");
    lax::Permutation on;
    for (int i = 0; i + 1 < size; ++i) on.emplace_back(i, i + 1);
    const auto tick = [&](const Array& arrived, const Array& t) {
      const Array first = lax::dynamic_index_in_dim(parts, minimum(t, microbatches - 1), 0, false);
      const Array done = one_after_the_other()(stack, where(equal(stage, 0), first, arrived), positions);
      return std::pair(lax::ppermute(done, "model", on), done);
    };
    const Array done = lax::scan(tick, zeros_like(parts[0]), arange(microbatches + size - 1)).second;
    // What the last device has made, for all.
    const Array mine = lax::slice_in_dim(done, size - 1, microbatches + size - 1);
    return reshape(lax::psum(where(equal(stage, size - 1), mine, 0), "model"), x.shape());
  };
  return shard_map(run, {.mesh = mesh, .in_specs = {P("model"), rows, P()}, .out_specs = rows});
}

// ---- Strategies: where each weight lies, and how layers run.

const std::map<std::string, std::map<std::string, PartitionSpec>> kSpecs = {
    {"dp", {}},
    // Each weight is split, and whole only while its layer runs (Rajbhandari et al. 2020, "ZeRO").
    {"fsdp",
     {{".embed", P(none, "data")},
      {".layers.qkv", P(none, "data")},
      {".layers.out", P(none, none, none, "data")},
      {".layers.up", P(none, "data")},
      {".layers.down", P(none, none, "data")}}},
    // Heads and hidden features are split (Shoeybi et al. 2019, "Megatron-LM").
    {"tp",
     {{".layers.qkv", P(none, none, none, "model")},
      {".layers.out", P(none, "model")},
      {".layers.up", P(none, none, "model")},
      {".layers.down", P(none, "model")}}},
    {"ring", {}},
    {"pipeline",
     {{".layers.norm1", P("model")},
      {".layers.qkv", P("model")},
      {".layers.out", P("model")},
      {".layers.norm2", P("model")},
      {".layers.up", P("model")},
      {".layers.down", P("model")}}}};

Gpt placed(const Gpt& gpt, const std::string& strategy, const Mesh& mesh) {
  TreeDef def;
  std::vector<Array> leaves = tree::flatten(gpt, &def);
  const std::vector<std::string> paths = def.leaf_paths();
  const auto& specs = kSpecs.at(strategy);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto found = specs.find(paths[i]);
    leaves[i] = device_put(leaves[i], NamedSharding(mesh, found == specs.end() ? P() : found->second));
  }
  Gpt moved = gpt;
  tree::assign(moved, leaves);
  return moved;
}

bool has_axis(const Mesh& mesh, const std::string& name) {
  return std::find(mesh.axis_names().begin(), mesh.axis_names().end(), name) != mesh.axis_names().end();
}

Runner runner_of(const Settings& s, const Mesh& mesh) {
  const bool has_data = has_axis(mesh, "data");
  if (s.strategy == "pipeline") return pipeline(mesh, has_data ? P("data") : P(), s.microbatches);
  // Activations are split by rows, so that split weights are gathered, and not activations.
  const bool is_ring = s.strategy == "ring";
  const PartitionSpec rows(std::vector<PartitionEntry>{has_data ? PartitionEntry("data") : PartitionEntry(none),
                                                       is_ring ? PartitionEntry("model") : PartitionEntry(none)});
  const NamedSharding split(mesh, rows);
  return one_after_the_other({.attend = is_ring ? ring_attention(mesh, rows) : causal,
                              .constrain = [=](const Array& x) { return lax::with_sharding_constraint(x, split); }});
}

// ---- Sampling, with a cache of keys and values: a token costs its own row.

Array sample(const Gpt& gpt, const Array& prompt, const Array& key, const Settings& s) {
  const std::int64_t capacity = prompt.shape()[0] + s.sample;
  const auto stacked = [&](const Array& a) {
    Shape shape = a.shape();
    shape.insert(shape.begin(), s.layers);
    return broadcast_to(a, shape);
  };
  const nn::KeyValueCache empty = tree::map(stacked, nn::key_value_cache(1, capacity, s.heads, s.width / s.heads));
  const auto feed = [&](const nn::KeyValueCache& caches, const Array& tokens, const Array& first) {
    const Array positions = first + arange(tokens.shape()[1]);
    const auto one = [&](const Array& x, const std::pair<Layer, nn::KeyValueCache>& of_layer) {
      nn::KeyValueCache filled;
      const auto attend = [&](const Array& q, const Array& k, const Array& v) {
        filled = nn::extend(of_layer.second, k, v);
        return nn::cached_attention(q, filled);
      };
      const Array y = block(x, of_layer.first, positions, attend);
      return std::pair(y, filled);
    };
    const auto [x, next] = lax::scan(one, nn::embed(gpt.embed, tokens), std::pair(gpt.layers, caches));
    return std::pair(next, logits_of(gpt, x[0][-1]));
  };
  struct State {
    nn::KeyValueCache caches;
    Array logits, place;
  };
  const auto step = [&](const State& before, const Array& of_token) {
    const Array token = random::categorical(of_token, before.logits / 0.8);
    const auto [caches, logits] = feed(before.caches, token.reshape(1, 1), before.place);
    return std::pair(State{caches, logits, before.place + 1}, token);
  };
  const auto [caches, logits] = feed(empty, expand_dims(prompt, 0), Array(0));
  const State first{caches, logits, Array(static_cast<std::int32_t>(prompt.shape()[0]))};
  return lax::scan(step, first, random::split(key, s.sample)).second;
}

// ---- The program.

using Stepped = std::tuple<Gpt, optimizers::State, Array>;

auto train_step(const Settings& s, const optimizers::GradientTransformation& optimizer, const Mesh& mesh) {
  const Runner run = runner_of(s, mesh);
  const std::int64_t length = s.length;
  return [=](const Gpt& gpt, const optimizers::State& state, const Array& tokens, const Array& mask) -> Stepped {
    const auto loss_of = [&](const Gpt& g) {
      const Array inputs = lax::slice_in_dim(tokens, 0, length, 1, 1);
      const Array targets = lax::slice_in_dim(tokens, 1, length + 1, 1, 1);
      const Array losses = nn::softmax_cross_entropy_with_integer_labels(forward(g, inputs, run), targets);
      return nn::masked_mean(losses.mean(-1), mask);
    };
    const auto [loss, gradients] = value_and_grad(loss_of)(gpt);
    const auto [updates, next] = optimizer.update(gradients, state, gpt);
    return {optimizers::apply_updates(gpt, updates), next, loss};
  };
}

Mesh parse_mesh(const std::string& text) {
  if (text.empty()) return make_mesh({device_count()}, {"data"});
  Shape sizes;
  std::vector<std::string> names;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("gpt: --mesh is as data=2,model=4, not " + text);
    names.push_back(part.substr(0, equals));
    sizes.push_back(std::stoll(part.substr(equals + 1)));
  }
  return make_mesh(sizes, names);
}

std::vector<std::int32_t> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("gpt: cannot read " + path + "; tools/data.sh gets it");
  std::vector<std::int32_t> text;
  for (auto c = std::istreambuf_iterator<char>(file); c != std::istreambuf_iterator<char>(); ++c) {
    text.push_back(static_cast<unsigned char>(*c));
  }
  return text;
}

void train(const Settings& s) {
  const Mesh mesh = parse_mesh(s.mesh);
  const std::vector<std::int32_t> text = read_text(s.data);
  const auto read = [&](const std::vector<std::int64_t>& examples) {
    std::vector<std::int32_t> tokens;
    for (const std::int64_t example : examples) {
      const auto begin = text.begin() + example * s.length;
      tokens.insert(tokens.end(), begin, begin + s.length + 1);
    }
    return array(tokens).reshape(-1, s.length + 1);
  };
  const std::int64_t examples = (static_cast<std::int64_t>(text.size()) - 1) / s.length;
  const NamedSharding rows(mesh, has_axis(mesh, "data") ? P("data") : P());
  data::DataLoader loader(examples, s.batch, read, rows, {.seed = s.seed});
  const auto optimizer = optimizers::chain(
      {optimizers::clip_by_global_norm(1),
       optimizers::adamw(optimizers::warmup_cosine_decay_schedule(0, s.rate, s.steps / 10, s.steps),
                         {.b2 = 0.95, .weight_decay = 0.1, .mask = [](const std::string&, const Array& p) {
                            return p.ndim() > 2;
                          }})});
  Gpt gpt = placed(init(random::key(s.seed), s), s.strategy, mesh);
  const NamedSharding everywhere(mesh, P());
  // Moments lie as their weights do, and counts everywhere.
  optimizers::State state =
      tree::map([&](const Array& x) { return x.ndim() == 0 ? device_put(x, everywhere) : x; }, optimizer.init(gpt));
  const auto step = jit(train_step(s, optimizer, mesh), {.donate_argnums = {0, 1}});

  const bool speaks = process_index() == 0;
  RunLog log("GPT of " + std::to_string(s.layers) + " layers, " + s.strategy);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double first = 0;
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto batch = loader.next();
    Array loss;
    std::tie(gpt, state, loss) = step(std::move(gpt), std::move(state), batch.data, batch.mask);
    if (i == 0) {
      loss.block_until_ready();
      first = seconds();
    }
    if ((i + 1) % std::max<std::int64_t>(s.steps / 50, 1) != 0) continue;
    const double value = loss.item<double>();
    const double speed = static_cast<double>(s.batch * s.length * i) / std::max(seconds() - first, 1e-9);
    log.add(i + 1, {{"loss", value}, {"bytes_per_second", speed}});
    if (!speaks) continue;
    const double done = static_cast<double>(i + 1) / static_cast<double>(s.steps);
    std::printf("\r%s step %4ld  loss %.4f  %8.0f bytes/s", progress_bar(done).c_str(), static_cast<long>(i + 1), value,
                speed);
    std::fflush(stdout);
  }
  if (speaks) {
    std::printf("\nthe first step took %.2f s, the others %.4f s each\n", first,
                (seconds() - first) / static_cast<double>(std::max<std::int64_t>(s.steps - 1, 1)));
  }
  if (s.sample > 0) {
    const std::string prompt = "hacker: n. ";
    const std::vector<std::int32_t> bytes(prompt.begin(), prompt.end());
    const auto write = jit([&](const Gpt& g, const Array& p, const Array& key) { return sample(g, p, key, s); });
    const Array tokens = write(device_put(gpt, everywhere), array(bytes), random::key(s.seed + 1));
    std::string written = prompt;
    for (const std::int32_t c : tokens.to_vector<std::int32_t>()) written += c < 128 ? static_cast<char>(c) : '?';
    if (speaks) std::printf("%s\n", written.c_str());
  }
  if (!speaks || s.out.empty()) return;
  std::ostringstream where;
  where << "qkv " << gpt.layers.qkv.sharding() << "\nup " << gpt.layers.up.sharding() << '\n';
  log.describe("Where weights lie", where.str());
  for (const char* ending : {".csv", ".svg", ".html"}) log.save(s.out + ending);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Trains a small GPT on the bytes of a text.");
  app.add_option("--mesh", s.mesh, "axes and their sizes, as data=2,model=4; default: data=all devices");
  app.add_option("--strategy", s.strategy)
      ->check(CLI::IsMember({"dp", "fsdp", "tp", "ring", "pipeline"}))
      ->capture_default_str();
  for (const auto& [name, number, what] :
       {std::tuple("--microbatches", &s.microbatches, "of a device's rows, in a pipeline"),
        std::tuple("--layers", &s.layers, ""), std::tuple("--width", &s.width, ""), std::tuple("--heads", &s.heads, ""),
        std::tuple("--length", &s.length, "bytes of a sequence"),
        std::tuple("--batch", &s.batch, "sequences of all devices together"), std::tuple("--steps", &s.steps, "")}) {
    app.add_option(name, *number, what)->check(CLI::PositiveNumber)->capture_default_str();
  }
  app.add_option("--rate", s.rate)->capture_default_str();
  app.add_option("--seed", s.seed)->capture_default_str();
  app.add_option("--data", s.data)->capture_default_str();
  app.add_option("--sample", s.sample, "how many bytes to write at the end")->capture_default_str();
  app.add_option("--out", s.out, "writes OUT.csv, OUT.svg and OUT.html");
  CLI11_PARSE(app, argc, argv);
  return examples::run_job([&] { train(s); });
}
