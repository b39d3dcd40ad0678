// Everything that processes do together, in the order of the guide to many processes: sums over all devices, global
// arrays, the functions of multihost, exchanges, and the mistakes that are told in all processes.
//
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/multi_process
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "processes.h"
#include "tutorial_data.h"

namespace {

using namespace shoal;
using examples::list_text;
using examples::nested_text;
using examples::print_whole;
using examples::shards_text;

std::string repr_of(const Array& array) { return repr(array); }

// Prints a result, or what is thrown instead.
template <class F>
void show(const std::string& name, F&& text_of_result) {
  std::string text;
  try {
    text = text_of_result();
  } catch (const InvalidArgument& error) {
    text = std::string("InvalidArgument: ") + error.what();
  } catch (const InvalidState& error) {
    text = std::string("InvalidState: ") + error.what();
  }
  std::cout << '[' << name << "] " << text << '\n';
}

// ---- pmap: each process passes the slices of its own devices.

void pmaps() {
  const auto sum = pmap([](Array x) { return lax::psum(x, "i"); }, {.axis_name = "i"});
  const Array xs = ones({local_device_count()});
  const Array r = sum(xs);
  show("pmap psum", [&] { return repr(r); });
  show("pmap psum details", [&] {
    return "(" + to_string(r.shape()) + ", " + (r.is_fully_addressable() ? "True" : "False") + ", " +
           to_string(r.sharding()) + ", " + shards_text(r, repr_of) + ")";
  });
  const Array position = pmap([](Array x) { return x * 0 + lax::axis_index("i"); }, {.axis_name = "i"})(xs);
  show("pmap axis_index shards", [&] { return shards_text(position, repr_of); });
  print_whole("pmap psum", r);
  print_whole("pmap axis_index", position);
  if (local_device_count() < 2) return;
  // Rows of two devices: processes have as many rows as they have pairs.
  const auto normalised = [](Array x) { return x / lax::psum(x, {"rows", "cols"}) + lax::psum(x, "cols"); };
  const auto nested = pmap(pmap(normalised, {.axis_name = "cols"}), {.axis_name = "rows"});
  const int rows = local_device_count() / 2;
  const Array numbers = arange(2.0F * static_cast<float>(rows)) + 2.0F * static_cast<float>(rows * process_index());
  print_whole("pmap in pmap", nested(numbers.reshape(rows, 2)));
}

// ---- Global arrays.

void global_arrays(const Mesh& mesh, const NamedSharding& split) {
  std::cout << mesh << ' ' << list_text(mesh.devices(), [](const Device& device) { return std::to_string(device.id); })
            << '\n';
  const Array x = device_put(arange(2.0F * static_cast<float>(device_count())), split);
  const auto total = jit(
      shard_map([](Array a) { return lax::psum(a.sum(), "x"); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}));
  show("shard_map psum", [&] {
    const Array sum = total(x);
    return "(" + repr(sum) + ", " + (sum.is_fully_replicated() ? "True" : "False") + ", " + shards_text(x, repr_of) +
           ")";
  });
  print_whole("shard_map psum", total(x).reshape({1}));
  show("jit sum of global", [&] { return repr(jit([](Array a) { return a.sum(); })(x)); });
  show("np.asarray of non-addressable", [&] { return nested_text(Array(x.to_vector<float>()[0])); });
  show("print of non-addressable", [&] { return "'" + str(x) + "'"; });
  const auto mine = static_cast<float>(process_index());
  show("device_put different values", [&] { return shards_text(device_put(full({16}, mine), split), repr_of); });
  show("device_put different values replicated",
       [&] { return repr(device_put(full({4}, mine), NamedSharding(mesh, P()))); });
  show("make_array_from_process_local_data", [&] {
    const Array a = make_array_from_process_local_data(split, full({2 * local_device_count()}, mine));
    return "(" + to_string(a.shape()) + ", " + shards_text(a, repr_of) + ")";
  });
  const Array called = make_array_from_callback({16}, split, [](const ShardIndex& index) {
    return arange(16.0F)[range(index[0].start.value_or(0), index[0].stop.value_or(16))];
  });
  show("make_array_from_callback", [&] { return shards_text(called, repr_of); });
  print_whole("make_array_from_callback", called);
}

// ---- multihost.

void multihost_functions(const Mesh& mesh, const NamedSharding& split) {
  const int p = process_index();
  const auto mine = static_cast<float>(p);
  const Array pair = array(std::vector<std::int32_t>{p, 10 * p});
  show("broadcast_one_to_all", [&] { return repr(multihost::broadcast_one_to_all(arange(4) + 10 * p)); });
  show("broadcast_one_to_all is_source=last", [&] {
    const std::map<std::string, Array> given{{"a", Array(mine)}, {"b", array(std::vector<std::int32_t>{p, p})}};
    const auto got = multihost::broadcast_one_to_all(given, p == process_count() - 1);
    return "{'a': " + repr(got.at("a")) + ", 'b': " + repr(got.at("b")) + "}";
  });
  show("sync_global_devices", [&] {
    multihost::sync_global_devices("b1");
    return "ok";
  });
  show("sync_global_devices mismatched name", [&] {
    multihost::sync_global_devices("b" + std::to_string(p));
    return "ok";
  });
  show("process_allgather np", [&] { return repr(multihost::process_allgather(pair)); });
  show("process_allgather scalar", [&] { return repr(multihost::process_allgather(mine)); });
  show("process_allgather tiled", [&] { return repr(multihost::process_allgather(pair, true)); });
  const Array global = device_put(arange(16.0F), split);
  show("process_allgather global tiled", [&] { return repr(multihost::process_allgather(global, true)); });
  show("process_allgather global untiled", [&] { return repr(multihost::process_allgather(global)); });
  show("to_host", [&] { return repr(multihost::to_host(global, {.chunk_bytes = 12})); });
  show("assert_equal ok", [&] {
    multihost::assert_equal(arange(3));
    return "ok";
  });
  show("assert_equal differ", [&] {
    multihost::assert_equal(arange(3) + p, "values differ");
    return "ok";
  });
  show("host_local_to_global P(x)", [&] {
    const int rows = 2 * local_device_count();
    const Array host = arange(2.0F * static_cast<float>(rows)).reshape(rows, 2) + 100 * mine;
    const Array g = multihost::host_local_array_to_global_array(host, mesh, P("x"));
    const Array l = multihost::global_array_to_host_local_array(g, mesh, P("x"));
    return "(" + to_string(g.shape()) + ", " + to_string(g.sharding()) + ", " + shards_text(g, nested_text) + ", " +
           nested_text(l) + ", " + to_string(l.shape()) + ", " + to_string(l.sharding()) + ")";
  });
  show("host_local_to_global P()", [&] {
    const Array g = multihost::host_local_array_to_global_array(arange(3.0F), mesh, P());
    const Array l = multihost::global_array_to_host_local_array(g * 2, mesh, P());
    return "(" + to_string(g.shape()) + ", " + repr(g) + ", " + repr(l) + ")";
  });
  show("reached_preemption_sync_point", [&] {
    multihost::PreemptionWatch watch;
    int step = 0;
    multihost::sync_global_devices("watching");
    if (p == process_count() - 1) watch.notify();
    while (!multihost::reached_preemption_sync_point(step)) ++step;
    const Array steps = multihost::process_allgather(step);
    return std::string((steps == steps[0]).all().item<bool>() ? "all at one step" : "at different steps");
  });
  show("live_devices", [&] {
    std::string text;
    multihost::live_devices(devices(), [&](const std::vector<Device>& live) { text = std::to_string(live.size()); });
    return text;
  });
}

// ---- Exchanges.

// The first two shards that this process has.
std::string first_two(const Array& array) {
  std::vector<Shard> shards = array.addressable_shards();
  shards.resize(std::min<std::size_t>(shards.size(), 2));
  return list_text(shards, [](const Shard& shard) { return nested_text(shard.data); });
}

void exchanges(const Mesh& mesh, const NamedSharding& split) {
  const Mesh grid = make_mesh({process_count(), local_device_count()}, {"x", "y"});
  const Array a = device_put(arange(32.0F).reshape(4, 8), NamedSharding(grid, P("x", "y")));
  const std::vector<PartitionSpec> specs{P("y", "x"), P(none, {"x", "y"}), P("y"), P(none, "y"), P()};
  const auto resharded = [&](const PartitionSpec& spec) {
    return jit([&](Array v) { return with_sharding_constraint(v, NamedSharding(grid, spec)); })(a);
  };
  if (local_device_count() <= 4) {  // Else a dimension of 4 cannot be split along y.
    show("reshard", [&] {
      return list_text(specs, [&](const PartitionSpec& spec) {
        return "(" + to_string(spec) + ", " + first_two(resharded(spec)) + ")";
      });
    });
    show("reshard device_put global->global",
         [&] { return first_two(device_put(a, NamedSharding(grid, P("y", "x")))); });
  }
  print_whole("reshard", resharded(P(none, {"x", "y"})));

  const int n = device_count();
  const Array x = device_put(arange(static_cast<float>(n * n)), split);
  std::vector<std::pair<int, int>> ring;
  for (int i = 0; i < n; ++i) ring.emplace_back(i, (i + 1) % n);
  const auto all = [&](Array v) {
    return std::tuple{lax::all_gather(v, "x").sum(0), lax::psum_scatter(v, "x", {.tiled = true}),
                      lax::all_to_all(v, "x", {.split_axis = 0, .concat_axis = 0, .tiled = true}),
                      lax::ppermute(v, "x", ring), lax::pmax(v, "x")};
  };
  const auto results = jit(shard_map(all, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}))(x);
  const auto list = std::apply([](const auto&... each) { return std::vector<Array>{each...}; }, results);
  show("collectives first two local shards", [&] { return list_text(list, first_two); });
  for (const Array& result : list) print_whole("a collective", result);

  const Array inputs = array(kX, {.dtype = float32});
  const Array weights = array(kWeights, {.dtype = float32}).reshape(32, 4);
  const Array bias = array(kBias, {.dtype = float32});
  const auto layer = jit([](Array v, Array w, Array b) { return nn::sigmoid(matmul(v, w) + b); });
  const Array activations = layer(device_put(inputs, split), device_put(weights, split), bias);
  show("seed004 layer on multi-process mesh", [&] { return repr(activations); });
  print_whole("a layer", activations);

  show("jit with local (single-device) arrays", [] { return repr(jit([](Array v) { return v + 1; })(ones({3}))); });
  show("jit mixing global and local",
       [&] { return repr(jit([](Array v, Array w) { return v + w; })(device_put(arange(16.0F), split), ones({16}))); });
  show("device_put to other process's device", [] { return repr(device_put(ones({3}), devices()[0])); });
}

void multi_process() {
  std::cout << process_index() << ' ' << process_count() << ' ' << device_count() << ' ' << local_device_count()
            << '\n';
  std::cout << devices() << '\n' << local_devices() << '\n';
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  const NamedSharding split(mesh, P("x"));
  pmaps();
  global_arrays(mesh, split);
  multihost_functions(mesh, split);
  exchanges(mesh, split);
  std::cout << "DONE\n";
}

}  // namespace

int main() { return examples::run_job(multi_process); }
