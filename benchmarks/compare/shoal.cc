// Shoal's side of the comparison. The other sides do the same works under the same names.
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "../gpt.h"
#include "serve.h"

namespace shoal::compare {
namespace {

using Function = Array (*)(Array);

Array add_one(Array x) { return x + 1; }
Array sigmoid(Array x) { return 0.5 * (tanh(0.5 * x) + 1); }
Array axpb(Array x) { return 2.5 * x + 1.25; }
Array two_sin(Array x) { return 2 * sin(x) + 1; }
Array total(Array x) { return sum(x); }
Array softmax(Array x) { return nn::softmax(x, -1); }
Array normalize(Array x) { return nn::standardize(x, -1); }

Function function_of(const Json& request) {
  static const std::map<std::string, Function> functions = {{"sigmoid", sigmoid}, {"axpb", axpb},
                                                            {"sin", two_sin},     {"sum", total},
                                                            {"softmax", softmax}, {"layer_norm", normalize}};
  return functions.at(request.at("function"));
}

// The mesh of a request: one device if it names none.
bool is_sharded(const Json& request) { return request.value("devices", 1) > 1; }
Mesh eight() { return make_mesh({8}, {"x"}); }

Array put(const std::vector<float>& elements, const Dims& shape, const Json& request, const PartitionSpec& spec) {
  const Array x = array(std::span<const float>(elements), shape);
  return is_sharded(request) ? device_put(x, NamedSharding(eight(), spec)) : device_put(x, devices()[0]);
}

Json sample_of(const Array& x) { return sample(x.astype(float32).to_vector<float>()); }

// Calls that take no time to speak of, each on the result of the one before.
template <class F>
Json measure_calls(const Json& request, F&& f, const Array& x) {
  constexpr int kBatch = 1000;
  Array y = f(x);
  Json result{{"sample", sample_of(y)}};
  result.update(measure(
      request,
      [&] {
        y = x;
        for (int i = 0; i < kBatch; ++i) y = f(y);
        y.block_until_ready();
      },
      kBatch));
  return result;
}

Json call(const Json& request) { return measure_calls(request, jit(add_one), put(numbers(8), {8}, request, P("x"))); }

Json call_psum(const Json& request) {
  const auto f = jit(shard_map([](Array x) { return lax::psum(x, "x") * 0.125 + 0 * x; },
                               {.mesh = eight(), .in_specs = P("x"), .out_specs = P("x")}));
  return measure_calls(request, f, put(numbers(8), {8}, request, P("x")));
}

Json eager(const Json& request) { return measure_calls(request, add_one, put(numbers(8), {8}, request, P("x"))); }

// Every call sees a shape that no call before had.
Json eager_new_shape(const Json& request) {
  static std::int64_t extent = 8;
  std::vector<double> times;
  Array y;
  for (int i = 0; i < 20; ++i) {
    ++extent;
    const Array x = put(numbers(extent), {extent}, request, P());
    x.block_until_ready();
    const double begin = seconds_now();
    y = x + 1;
    y.block_until_ready();
    times.push_back(seconds_now() - begin);
  }
  return {{"seconds", median(times)}};
}

template <class F>
Json measure_function(const Json& request, F&& run) {
  Json result{{"sample", sample_of(run())}};
  result.update(measure(request, [&] { run().block_until_ready(); }));
  return result;
}

// Of `mib` MiB, as rows of `columns` if that is given.
Json elementwise(const Json& request) {
  const std::int64_t count = request.at("mib").get<std::int64_t>() << 18;
  const std::int64_t columns = request.value("columns", std::int64_t{0});
  const Dims shape = columns > 0 ? Dims{count / columns, columns} : Dims{count};
  Array x = put(numbers(count), shape, request, P("x"));
  const Function function = function_of(request);
  if (!request.value("donated", false)) {
    const auto f = jit(function);
    return measure_function(request, [&] { return f(x); });
  }
  const auto f = jit(function, {.donate_argnums = {0}});
  x = f(x);
  Json result{{"sample", sample_of(x)}};
  result.update(measure(request, [&] {
    x = f(x);
    x.block_until_ready();
  }));
  return result;
}

Json matrix_product(const Json& request) {
  const std::int64_t n = request.at("n");
  const std::string split = request.value("split", "none");
  const Dtype dtype = request.value("dtype", "f32") == "bf16" ? bfloat16 : float32;
  const std::vector<float> elements = numbers(n * n);
  const Array a = put(elements, {n, n}, request, split == "contraction" ? P(none, "x") : P("x")).astype(dtype);
  const Array b = put(elements, {n, n}, request, split == "contraction" ? P("x") : P()).astype(dtype);
  const auto f = jit([](Array x, Array y) { return matmul(x, y); });
  return measure_function(request, [&] { return f(a, b); });
}

auto collective_over(const Mesh& mesh, const std::string& kind) {
  const auto body = [kind, size = static_cast<int>(mesh.size())](Array x) {
    if (kind == "psum") return lax::psum(x, "x");
    if (kind == "all_gather") return lax::all_gather(x, "x", {.tiled = true});
    if (kind == "psum_scatter") return lax::psum_scatter(x, "x", {.tiled = true});
    if (kind == "all_to_all") return lax::all_to_all(x, "x", {.tiled = true});
    std::vector<std::pair<int, int>> ring;
    for (int i = 0; i < size; ++i) ring.emplace_back(i, (i + 1) % size);
    return lax::ppermute(x, "x", ring);
  };
  const bool equal = kind == "psum" || kind == "all_gather";
  return shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = equal ? P() : P("x"), .check_vma = false});
}

// Over eight devices, `bytes` on each.
Json collective(const Json& request) {
  const std::int64_t count = request.at("bytes").get<std::int64_t>() / 4;
  const Mesh mesh = eight();
  const auto f = jit(collective_over(mesh, request.at("kind")));
  const Array x = device_put(array(numbers(8 * count)), NamedSharding(mesh, P("x")));
  return measure_function(request, [&] { return f(x); });
}

// 256 MiB of the host to all of eight devices; or, `from_device`, of an array that one of them holds.
Json replicate(const Json& request) {
  const std::vector<float> elements = numbers(std::int64_t{1} << 26);
  const Dims shape = {std::int64_t{1} << 26};
  const NamedSharding everywhere(eight(), P());
  device_put(zeros({64}), everywhere).block_until_ready();
  std::optional<Array> source;
  if (request.value("from_device", false)) source = array(std::span<const float>(elements), shape);
  const double before = memory().mib;
  reset_peak();
  const double begin = seconds_now();
  const Array y = device_put(source ? *source : array(std::span<const float>(elements), shape), everywhere);
  y.block_until_ready();
  const double seconds = seconds_now() - begin;
  return {{"seconds", seconds}, {"mib", memory().peak_mib - before}, {"sample", sample_of(y)}};
}

Json first_result(const Json& request) {
  const Array x = put(numbers(64), {64}, request, P("x"));
  return {{"sample", sample_of(jit([](Array v) { return v * 2 + 1; })(x))}};
}

// ---- GPT. Weights and tokens lie in a file, in the order of gpt.h, as little-endian f32 and i32.

struct Model {
  bench::Gpt gpt;
  Array tokens;
};

// A request's "mesh" holds the extents of the axes data, model, and one more over which nothing is split.
Model read_model(const Json& request) {
  std::ifstream file(request.at("file").get<std::string>(), std::ios::binary);
  const std::vector<int> extents = request.value("mesh", std::vector<int>{});
  Mesh mesh;
  if (extents.size() == 2) mesh = make_mesh({extents[0], extents[1]}, {"data", "model"});
  if (extents.size() == 3) mesh = make_mesh({extents[0], extents[1], extents[2]}, {"data", "model", "rest"});
  const auto place = [&](const Array& x, const PartitionSpec& spec) {
    return extents.empty() ? device_put(x, devices()[0]) : device_put(x, NamedSharding(mesh, spec));
  };
  const auto read = [&]<class T>(std::vector<T> elements) {
    file.read(reinterpret_cast<char*>(elements.data()), static_cast<std::streamsize>(elements.size() * sizeof(T)));
    if (!file) throw std::runtime_error("the file of weights ends too early");
    return elements;
  };
  Model model;
  model.gpt = bench::make_gpt([&](bench::GptKind, const Dims& shape, const PartitionSpec& spec) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return place(array(std::span<const float>(read(std::vector<float>(count))), shape), spec);
  });
  const auto tokens = read(std::vector<std::int32_t>(static_cast<std::size_t>(bench::kBatch * bench::kSequence)));
  model.tokens = place(array(std::span<const std::int32_t>(tokens), {bench::kBatch, bench::kSequence}), P("data"));
  return model;
}

Json gpt(const Json& request) {
  const double before = memory().mib;
  reset_peak();
  const Model model = read_model(request);
  const auto f = jit(bench::gpt_forward);
  Json result = measure_function(request, [&] { return f(model.gpt, model.tokens); });
  result["mib"] = memory().peak_mib - before;
  return result;
}

// ---- Compilation: the first call in a process, and what all compiling until steady speed takes.

// The time covered by events of category "compile", one inside another counted once, of all threads together.
double compile_seconds(const std::string& trace) {
  const Json file = Json::parse(std::ifstream(trace));
  std::map<int, std::vector<std::pair<double, double>>> spans;
  for (const Json& event : file.at("traceEvents")) {
    if (event.value("cat", "") != "compile") continue;
    const double begin = event.at("ts");
    spans[event.at("tid")].emplace_back(begin, begin + event.at("dur").get<double>());
  }
  double covered = 0;
  for (auto& [thread, list] : spans) {
    std::sort(list.begin(), list.end());
    double end = 0;
    for (const auto& [from, to] : list) {
      covered += std::max(0.0, to - std::max(from, end));
      end = std::max(end, to);
    }
  }
  return covered * 1e-6;
}

// The first call; with a "trace", all compiling until steady speed: what the trace shows of it, and at least what the
// first call took longer than later ones.
template <class F>
Json measure_first(const Json& request, F&& run) {
  const std::string trace = request.value("trace", "");
  if (!trace.empty()) profiler::start_trace(trace);
  const double begin = seconds_now();
  const Array y = run();
  y.block_until_ready();
  const double first = seconds_now() - begin;
  Json result{{"seconds", first}, {"sample", sample_of(y)}};
  if (trace.empty()) return result;
  const double steady = measure(request, [&] { run().block_until_ready(); }).at("least");
  profiler::stop_trace();  // What is compiled in the background is done by now.
  result["seconds"] = std::max(compile_seconds(trace), first - steady);
  return result;
}

Json compile(const Json& request) {
  if (request.at("function") == "gpt") {
    const Model model = read_model(request);
    const auto f = jit(bench::gpt_forward);
    return measure_first(request, [&] { return f(model.gpt, model.tokens); });
  }
  const Array x = put(numbers(1024), {1024}, request, P("x"));
  const auto f = jit(function_of(request));
  return measure_first(request, [&] { return f(x); });
}

// ---- Several processes, which `shoal run` started with a request each. The first one answers.

template <class F>
Json in_job(F&& work) {
  const double begin = seconds_now();
  distributed::initialize();
  const double seconds = seconds_now() - begin;
  Json result = work(seconds);
  const bool answers = process_index() == 0;
  distributed::shutdown();
  return answers ? result : Json();
}

bool agree(bool goes_on) { return multihost::broadcast_one_to_all(array(goes_on ? 1.0F : 0.0F)).item<float>() != 0; }

// This process's part of `count` numbers, over all devices.
Array put_over_job(const Mesh& mesh, std::int64_t count) {
  const std::vector<float> all = numbers(count);
  return device_put(array(std::span<const float>(all), {count}), NamedSharding(mesh, P("x")));
}

Json local_sample(const Array& x) { return sample(x.addressable_shards()[0].data.astype(float32).to_vector<float>()); }

Json job_start(const Json&) {
  return in_job([](double seconds) { return Json{{"seconds", seconds}}; });
}

Json job_barrier(const Json& request) {
  return in_job([&](double) {
    return measure_together(
        request, [] { multihost::sync_global_devices("barrier"); }, agree);
  });
}

// A loop of the host, in which each sum needs the one before.
Json job_psum(const Json& request) {
  return in_job([&](double) {
    const Mesh mesh = make_mesh({device_count()}, {"x"});
    const double share = 1.0 / device_count();
    const auto f = jit(shard_map([share](Array x) { return lax::pvary(lax::psum(x, "x") * share, "x"); },
                                 {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}));
    const Array x = put_over_job(mesh, device_count() * (request.at("bytes").get<std::int64_t>() / 4));
    Json result{{"sample", local_sample(f(x))}};
    Array y = x;
    result.update(measure_together(
        request,
        [&] {
          y = f(y);
          y.block_until_ready();
        },
        agree));
    return result;
  });
}

Json job_collective(const Json& request) {
  return in_job([&](double) {
    const auto count = static_cast<std::int64_t>(device_count());
    const Mesh mesh = make_mesh({device_count()}, {"x"});
    const auto f = jit(collective_over(mesh, request.at("kind")));
    const Array x = put_over_job(mesh, count * (request.at("bytes").get<std::int64_t>() / 4));
    Json result{{"sample", local_sample(f(x))}};
    result.update(measure_together(
        request, [&] { f(x).block_until_ready(); }, agree));
    return result;
  });
}

Json job_gpt(const Json& request) {
  return in_job([&](double) {
    const Model model = read_model(request);
    const auto f = jit(bench::gpt_forward);
    Json result{{"sample", local_sample(f(model.gpt, model.tokens))}};
    result.update(measure_together(
        request, [&] { f(model.gpt, model.tokens).block_until_ready(); }, agree));
    return result;
  });
}

}  // namespace
}  // namespace shoal::compare

int main(int argc, char** argv) {
  using namespace shoal::compare;
  return serve({{"first_result", first_result},
                {"call", call},
                {"call_psum", call_psum},
                {"eager", eager},
                {"eager_new_shape", eager_new_shape},
                {"elementwise", elementwise},
                {"matmul", matrix_product},
                {"collective", collective},
                {"replicate", replicate},
                {"gpt", gpt},
                {"compile", compile},
                {"nothing", [](const Json&) { return Json(); }},
                {"job_start", job_start},
                {"job_barrier", job_barrier},
                {"job_psum", job_psum},
                {"job_collective", job_collective},
                {"job_gpt", job_gpt}},
               argc, argv);
}
