// A small GPT that learns to write as a book does, byte by byte, on a mesh of devices.
//
//   tools/data.sh                                          # puts a book into build/data
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/gpt --mesh data=2,model=4 --strategy tp
//   SHOAL_NUM_CPU_DEVICES=8 build/release/bin/gpt --mesh data=8 --strategy fsdp --out /tmp/gpt
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/gpt --mesh data=2,model=4 --strategy ring
//   shoal run -n 2 --devices-per-process 4 --restarts 3 -- build/release/bin/gpt --checkpoint /tmp/gpt
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
#include <optional>
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
  std::int64_t experts = 0;       // Of each layer; 0: one for all tokens.
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
  std::string checkpoint;     // A folder to save to, and to go on from.
  std::int64_t save_every = 100;
  std::string out;
};

// ---- The model: weights, those of all layers stacked, and a function of them.

// Members are in the order of their names, as Python's dicts are: the norm of all gradients is then the same sum.
struct Layer {
  Array down, norm1, norm2, out, qkv;
  std::optional<Array> router;  // If there are experts.
  Array up;
};
struct Gpt {
  Array embed;
  Layer layers;
  Array norm;
};
[[maybe_unused]] auto shoal_tree(Layer& l) {
  return fields(field("down", l.down), field("norm1", l.norm1), field("norm2", l.norm2), field("out", l.out),
                field("qkv", l.qkv), field("router", l.router), field("up", l.up));
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
  const auto of_each = [&](std::int64_t in, std::int64_t out) {
    return s.experts > 0 ? Shape{s.layers, s.experts, in, out} : Shape{s.layers, in, out};
  };
  std::optional<Array> router;
  if (s.experts > 0) router = 0.02 * random::normal(random::fold_in(key, 5), {s.layers, s.width, s.experts});
  const double less = 1 / std::sqrt(2.0 * static_cast<double>(s.layers));
  return {normal(0, {kBytes, s.width}),
          {.down = normal(4, of_each(4 * s.width, s.width), less),
           .norm1 = ones({s.layers, s.width}),
           .norm2 = ones({s.layers, s.width}),
           .out = normal(2, {s.layers, s.heads, features, s.width}, less),
           .qkv = normal(1, {s.layers, s.width, 3, s.heads, features}),
           .router = router,
           .up = normal(3, of_each(s.width, 4 * s.width))},
          ones({s.width})};
}

using Attention = std::function<Array(const Array& q, const Array& k, const Array& v)>;
using Experts = std::function<Array(const Array& parts, const Array& up, const Array& down)>;

Array causal(const Array& q, const Array& k, const Array& v) {
  return nn::dot_product_attention(q, k, v, {.is_causal = true});
}

// What each expert makes of its part, [experts, batch, places, width].
Array experts_here(const Array& parts, const Array& up, const Array& down) {
  return einsum("ebch,ehw->ebcw", nn::gelu(einsum("ebcw,ewh->ebch", parts, up)), down);
}

// What layers do in ways of their own, by strategy.
struct Parallel {
  Attention attend = causal;
  std::function<Array(const Array&)> constrain = [](const Array& x) { return x; };
  Experts experts = experts_here;
};

// What a layer, or all of them, give: x, and how unevenly tokens chose their experts, for each sequence; 1 is even.
struct Made {
  Array x;
  std::optional<Array> uneven;
};

// Each token goes to one of the experts (Fedus, Zoph and Shazeer 2021, "Switch Transformers"), which has places for
// some tokens of each sequence; the others go past it.
Made mixture(const Array& x, const Layer& layer, const Experts& experts) {
  const std::int64_t tokens = x.shape()[1];
  const std::int64_t count = layer.router->shape().back();
  const auto places =
      static_cast<std::int64_t>(std::ceil(1.25 * static_cast<double>(tokens) / static_cast<double>(count)));
  const Array chances = nn::softmax(nn::dense(x, *layer.router));
  const Array chosen = nn::one_hot(argmax(chances, {.axis = -1}), count);
  const Array place = (lax::cumsum(chosen, 1) * chosen).sum(-1).astype(int32) - 1;
  const Array goes = expand_dims(chosen, -1) * expand_dims(nn::one_hot(place, places), 2);
  const Array made = experts(einsum("btec,btw->ebcw", goes, x), layer.up, layer.down);
  const Array chance = expand_dims(chances.max(-1), Dims{-2, -1});
  return {einsum("btec,ebcw->btw", goes * chance, made),
          static_cast<float>(count) * (chosen.mean(1) * chances.mean(1)).sum(-1)};
}

// A layer of x [batch, T, width].
Made block(const Array& x, const Layer& layer, const Array& positions, const Attention& attend,
           const Experts& experts = experts_here) {
  const Array qkv = nn::dense(nn::rms_norm(x, {.scale = layer.norm1}), layer.qkv);
  const auto part = [&](std::int64_t i) { return qkv[{range(), range(), i}]; };
  const Array seen =
      attend(nn::rotary_embedding(part(0), positions), nn::rotary_embedding(part(1), positions), part(2));
  const Array y = x + tensordot(seen, layer.out, 2);
  const Array normed = nn::rms_norm(y, {.scale = layer.norm2});
  if (layer.router) {
    const Made made = mixture(normed, layer, experts);
    return {y + made.x, made.uneven};
  }
  return {y + nn::dense(nn::gelu(nn::dense(normed, layer.up)), layer.down), {}};
}

Array logits_of(const Gpt& gpt, const Array& x) { return matmul(nn::rms_norm(x, {.scale = gpt.norm}), gpt.embed.T()); }

// How all layers of a stack run.
using Runner = std::function<Made(const Layer& stack, const Array& x, const Array& positions)>;

Runner one_after_the_other(const Parallel& parallel = {}) {
  return [=](const Layer& stack, const Array& x, const Array& positions) -> Made {
    const auto one = [&](const Array& y, const Layer& layer) {
      const Made made = block(parallel.constrain(y), layer, positions, parallel.attend, parallel.experts);
      return std::pair(made.x, made.uneven);
    };
    const auto [y, uneven] = lax::scan(one, parallel.constrain(x), stack);
    return {y, uneven};
  };
}

// Tokens [batch, T + 1] are inputs, and what should come next.
Array inputs_of(const Array& tokens) { return tokens[{range(), range(0, -1)}]; }

Array cross_entropy(const Gpt& gpt, const Array& x, const Array& tokens) {
  return nn::softmax_cross_entropy_with_integer_labels(logits_of(gpt, x), tokens[{range(), range(1)}]).mean(-1);
}

// The loss of each sequence of tokens [batch, T + 1].
Array losses_of(const Gpt& gpt, const Array& tokens, const Runner& run) {
  const Made made = run(gpt.layers, nn::embed(gpt.embed, inputs_of(tokens)), arange(tokens.shape()[1] - 1));
  const Array losses = cross_entropy(gpt, made.x, tokens);
  return made.uneven ? losses + 0.01 * made.uneven->sum(0) : losses;
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

// ---- Experts over devices (Lepikhin et al. 2020, "GShard"): each device has some of the experts, to which the tokens
// of all devices go, and come back.

Experts experts_over_devices(const Mesh& mesh) {
  const auto there_and_back = [](const Array& parts, const Array& up, const Array& down) {
    const Array mine = lax::all_to_all(parts, "data", {.split_axis = 0, .concat_axis = 1, .tiled = true});
    return lax::all_to_all(experts_here(mine, up, down), "data", {.split_axis = 1, .concat_axis = 0, .tiled = true});
  };
  const PartitionSpec rows = P(none, "data");
  return shard_map(there_and_back, {.mesh = mesh, .in_specs = {rows, P("data"), P("data")}, .out_specs = rows});
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
      const Array done = one_after_the_other()(stack, where(equal(stage, 0), first, arrived), positions).x;
      return std::pair(lax::ppermute(done, "model", on), done);
    };
    const Array done = lax::scan(tick, zeros_like(parts[0]), arange(microbatches + size - 1)).second;
    // What the last device has made, for all.
    const Array mine = lax::slice_in_dim(done, size - 1, microbatches + size - 1);
    return reshape(lax::psum(where(equal(stage, size - 1), mine, 0), "model"), x.shape());
  };
  const auto mapped = shard_map(run, {.mesh = mesh, .in_specs = {P("model"), rows, P()}, .out_specs = rows});
  return [=](const Layer& stack, const Array& x, const Array& positions) -> Made {
    return {mapped(stack, x, positions), {}};
  };
}

// ---- A pipeline that keeps less ("1F1B"; Narayanan et al. 2019, "PipeDream", and 2021): a device goes forward with
// one microbatch and back with another by turns. GPipe keeps the activations of all microbatches. Here a stage keeps
// what came to it of fewer than 2 stages microbatches, and its layers' activations of one, as it computes them again on
// its way back.
//
// At time t stage s goes forward with microbatch t - s, and back with t - (2 stages - 2 - s): the last stage goes back
// with a microbatch as soon as it has got it, and each message is used at the time after it was sent.

using LossAndGradients = std::function<std::pair<Array, Gpt>(const Gpt&, const Array& tokens, const Array& mask)>;

LossAndGradients one_forward_one_backward(const Mesh& mesh, bool has_data, std::int64_t microbatches) {
  const AxisName axes = has_data ? AxisName{"data", "model"} : AxisName("model");
  // Each device has its own: gradients are added up at the end, and not at each time.
  const auto varying = [=](const auto& tree) { return lax::pvary(tree, axes); };
  const auto over_data = [=](const auto& tree) { return has_data ? lax::psum(tree, "data") : tree; };
  const auto run = [=](const Gpt& whole, const Array& all_tokens, const Array& all_mask) {
    const int size = static_cast<int>(lax::axis_size("model"));
    const Array stage = lax::axis_index("model");
    const Array is_last = equal(stage, size - 1);
    const Array count = over_data(all_mask.sum());
    const Gpt gpt = varying(whole);
    const Array parts = varying(all_tokens).reshape(microbatches, -1, all_tokens.shape()[1]);
    const Array masks = varying(all_mask).reshape(microbatches, -1);
    const Array positions = arange(all_tokens.shape()[1] - 1);
    const auto part_of = [&](const Array& x, const Array& i) { return lax::dynamic_index_in_dim(x, i, 0, false); };

    // What the next stage gets, and the part in the loss, if this is the last one.
    const auto stage_of = [&](const Gpt& g, const Array& arrived, const Array& tokens, const Array& mask) {
      const Array in = where(equal(stage, 0), nn::embed(g.embed, inputs_of(tokens)), arrived);
      const Array x = one_after_the_other()(g.layers, in, positions).x;
      const Array losses = where(logical_and(mask, is_last), cross_entropy(g, x, tokens), 0);
      return std::pair(x, losses.sum() / count);
    };

    lax::Permutation on, back;
    for (int i = 0; i + 1 < size; ++i) {
      on.emplace_back(i, i + 1);
      back.emplace_back(i + 1, i);
    }
    struct Carry {
      Array kept, arrived, arrived_back;
      Gpt gradients;
      Array loss;
    };
    const std::int64_t kept_count = 2 * size - 1;
    const auto at_time = [&](const Carry& before, const Array& t) {
      const Array goes_to = t - stage;
      const Array tokens = part_of(parts, clip(goes_to, 0, microbatches - 1));
      const Array sent = stage_of(gpt, before.arrived, tokens, masks[0]).first;
      const Array kept =
          lax::dynamic_update_index_in_dim(before.kept, before.arrived, remainder(goes_to, kept_count), 0);

      const Array goes_back = t - (2 * size - 2 - stage);
      const Array is_there = logical_and(greater_equal(goes_back, 0), less(goes_back, microbatches));
      const Array place = clip(goes_back, 0, microbatches - 1);
      const auto of_part = [&](const Gpt& g, const Array& x) {
        return stage_of(g, x, part_of(parts, place), part_of(masks, place));
      };
      const auto [made, pull] = vjp(of_part, gpt, part_of(kept, remainder(goes_back, kept_count)));
      // The last stage has nothing that came back. Where there is no microbatch, gradients are zeros.
      const Array of_x = where(logical_and(is_there, logical_not(is_last)), before.arrived_back, 0);
      const auto [more, sent_back] = pull(std::pair(of_x, is_there.astype(float32)));

      const Carry after{kept, lax::ppermute(sent, "model", on), lax::ppermute(sent_back, "model", back),
                        tree::map([](const Array& a, const Array& b) { return a + b; }, before.gradients, more),
                        before.loss + where(is_there, made.second, 0)};
      return std::pair(after, std::tuple<>());
    };
    const Array one = varying(zeros({parts.shape()[1], positions.shape()[0], gpt.embed.shape()[1]}));
    const Carry first{varying(zeros({kept_count, one.shape()[0], one.shape()[1], one.shape()[2]})), one, one,
                      tree::map([](const Array& x) { return zeros_like(x); }, gpt), varying(zeros({}))};
    const Carry last = lax::scan(at_time, first, arange(microbatches + 2 * size - 2)).first;
    const Gpt& g = last.gradients;
    return std::pair(lax::psum(last.loss, axes),
                     Gpt{lax::psum(g.embed, axes), over_data(g.layers), lax::psum(g.norm, axes)});
  };
  const PartitionSpec rows = has_data ? P("data") : P();
  const SpecTree of_gpt = {P(), P("model"), P()};
  return shard_map(run, {.mesh = mesh, .in_specs = {of_gpt, rows, rows}, .out_specs = {P(), of_gpt}});
}

// ---- Strategies: where each weight lies, and how layers run.

const std::map<std::string, PartitionSpec> kOfStages = {{".layers.norm1", P("model")}, {".layers.qkv", P("model")},
                                                        {".layers.out", P("model")},   {".layers.norm2", P("model")},
                                                        {".layers.up", P("model")},    {".layers.down", P("model")}};
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
    {"experts", {{".layers.up", P(none, "data")}, {".layers.down", P(none, "data")}}},
    {"pipeline", kOfStages},
    {"1f1b", kOfStages}};

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
                              .constrain = [=](const Array& x) { return lax::with_sharding_constraint(x, split); },
                              .experts = s.strategy == "experts" ? experts_over_devices(mesh) : experts_here});
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
      const Array y = block(x, of_layer.first, positions, attend).x;
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

LossAndGradients loss_and_gradients_of(const Settings& s, const Mesh& mesh) {
  if (s.strategy == "1f1b") return one_forward_one_backward(mesh, has_axis(mesh, "data"), s.microbatches);
  const Runner run = runner_of(s, mesh);
  return [=](const Gpt& gpt, const Array& tokens, const Array& mask) {
    return value_and_grad([&](const Gpt& g) { return nn::masked_mean(losses_of(g, tokens, run), mask); })(gpt);
  };
}

auto train_step(const Settings& s, const optimizers::GradientTransformation& optimizer, const Mesh& mesh) {
  const LossAndGradients loss_and_gradients = loss_and_gradients_of(s, mesh);
  return [=](const Gpt& gpt, const optimizers::State& state, const Array& tokens, const Array& mask) -> Stepped {
    const auto [loss, gradients] = loss_and_gradients(gpt, tokens, mask);
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

// What a step computes, in floating-point operations (Chowdhery et al. 2022, "PaLM", appendix B): six for each weight
// and token, and attention's. A token meets one expert. What is computed again does not count.
double model_flops(const Settings& s, const Gpt& gpt) {
  double weights = 0;
  for (const Array& w : tree::flatten(gpt)) weights += static_cast<double>(w.size());
  if (s.experts > 1) {
    const auto of_experts = static_cast<double>(gpt.layers.up.size() + gpt.layers.down.size());
    weights -= of_experts * (1 - 1 / static_cast<double>(s.experts));
  }
  const auto tokens = static_cast<double>(s.batch * s.length);
  return tokens * (6 * weights + 12 * static_cast<double>(s.layers * s.width * s.length));
}

// What all processes together reach in products of large matrices, in operations a second.
double best_flops() {
  constexpr std::int64_t kSize = 1024;
  const Array a = random::normal(random::key(0), {kSize, kSize});
  const auto product = jit([](const Array& x) { return matmul(x, x); });
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    product(a).block_until_ready();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 2.0 * kSize * kSize * kSize / best * process_count();
}

// What a run goes on from.
struct Saved {
  Gpt gpt;
  optimizers::State state;
  Array position;  // In the data: epoch and batch.
};

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

  std::int64_t begin_at = 0;
  std::optional<checkpoints::Manager> manager;
  if (!s.checkpoint.empty()) manager.emplace(s.checkpoint, checkpoints::ManagerOptions{.keep_last = 2});
  const auto saved = [&] {
    const data::Position at = loader.position();
    return Saved{gpt, state, array(std::vector<std::int32_t>{static_cast<int>(at.epoch), static_cast<int>(at.batch)})};
  };
  if (const auto latest = manager ? manager->latest_step() : std::nullopt) {
    const Saved from = manager->restore(saved());
    gpt = from.gpt;
    state = from.state;
    const std::vector<std::int32_t> at = from.position.to_vector<std::int32_t>();
    loader.seek({.epoch = at[0], .batch = at[1]});
    begin_at = *latest + 1;
  }

  const bool speaks = process_index() == 0;
  RunLog log("GPT of " + std::to_string(s.layers) + " layers, " + s.strategy);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double first = 0;
  profiler::StepTimer timer;
  std::int64_t told = begin_at;
  for (std::int64_t i = begin_at; i < s.steps; ++i) {
    const auto batch = loader.next();
    Array loss;
    std::tie(gpt, state, loss) = step(std::move(gpt), std::move(state), batch.data, batch.mask);
    if (manager && (i + 1) % s.save_every == 0) manager->save(i, saved());
    if (i == begin_at) {
      loss.block_until_ready();
      first = seconds();
    }
    if ((i + 1) % std::max<std::int64_t>(s.steps / 50, 1) != 0) continue;
    const double value = loss.item<double>();
    const double speed = static_cast<double>(s.batch * s.length * (i - begin_at)) / std::max(seconds() - first, 1e-9);
    const profiler::TimeSplit spent = timer.lap();
    const auto steps = static_cast<double>(i + 1 - std::exchange(told, i + 1));
    log.add(i + 1, {{"loss", value},
                    {"bytes_per_second", speed},
                    {"total (seconds)", spent.total / steps},
                    {"compute (seconds)", spent.compute / steps},
                    {"exchange (seconds)", spent.exchange / steps},
                    {"waiting (seconds)", spent.waiting / steps}});
    if (!speaks) continue;
    const double done = static_cast<double>(i + 1) / static_cast<double>(s.steps);
    std::printf("\r%s step %4ld  loss %.4f  %8.0f bytes/s", progress_bar(done).c_str(), static_cast<long>(i + 1), value,
                speed);
    std::fflush(stdout);
  }
  if (manager) manager->wait();
  if (begin_at < s.steps) {
    const double each = (seconds() - first) / static_cast<double>(std::max<std::int64_t>(s.steps - begin_at - 1, 1));
    const double reached = model_flops(s, gpt) / std::max(each, 1e-9);
    const double best = best_flops();
    if (speaks) {
      std::printf(
          "\nthe first step took %.2f s, the others %.4f s each: %.1f Gflop/s of the model, %.0f%% of what "
          "products of matrices reach\n",
          first, each, reached / 1e9, 100 * reached / best);
    }
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
      ->check(CLI::IsMember({"dp", "fsdp", "tp", "ring", "experts", "pipeline", "1f1b"}))
      ->capture_default_str();
  for (const auto& [name, number, what] :
       {std::tuple("--microbatches", &s.microbatches, "of a device's rows, in a pipeline"),
        std::tuple("--layers", &s.layers, ""), std::tuple("--width", &s.width, ""), std::tuple("--heads", &s.heads, ""),
        std::tuple("--length", &s.length, "bytes of a sequence"),
        std::tuple("--batch", &s.batch, "sequences of all devices together"), std::tuple("--steps", &s.steps, "")}) {
    app.add_option(name, *number, what)->check(CLI::PositiveNumber)->capture_default_str();
  }
  app.add_option("--experts", s.experts, "of each layer; 0: one for all tokens")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rate", s.rate)->capture_default_str();
  app.add_option("--seed", s.seed)->capture_default_str();
  app.add_option("--data", s.data)->capture_default_str();
  app.add_option("--sample", s.sample, "how many bytes to write at the end")->capture_default_str();
  app.add_option("--checkpoint", s.checkpoint, "a folder to save to, and to go on from");
  app.add_option("--save-every", s.save_every, "steps between checkpoints")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--out", s.out, "writes OUT.csv, OUT.svg and OUT.html");
  app.final_callback([&] {
    if (s.experts > 0 && s.strategy != "dp" && s.strategy != "fsdp" && s.strategy != "experts") {
      throw CLI::ValidationError("--experts", "go with --strategy dp, fsdp or experts");
    }
    if (s.strategy == "experts" && s.experts == 0) {
      throw CLI::ValidationError("--strategy", "experts needs --experts, a multiple of the devices along data");
    }
  });
  CLI11_PARSE(app, argc, argv);
  return examples::run_job([&] { train(s); });
}
