// The cells of the tutorial. Read it from top to bottom: each cell uses what those before it have defined.
//
// It is a header so that a test can run it, too: the outputs are compared with those of the same tutorial in JAX.
#pragma once

#include <shoal/shoal.h>

#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "notebook.h"
#include "tutorial_data.h"

namespace examples {

/// Runs every cell on the first eight devices and writes its title, source and output.
inline void run_tutorial(std::ostream& out, Notebook::Style style = Notebook::Style::kText) {
  using namespace shoal;
  Notebook notebook(out, style);

  notebook.section("Data on devices");
  // A Shoal program is written once, for whole arrays, and runs on many devices. Which device holds which part of an
  // array is said by the array's sharding; everything else follows from it.

  notebook.cell("The devices of this job");
  out << devices() << '\n';

  notebook.cell("A new array lies on one device");
  Array arr = arange(32.0).reshape(4, 8);
  out << "{" << join(arr.devices(), [](const Device& device) { return to_string(device); }) << "}\n";

  notebook.cell("Every array has a sharding");
  out << arr.sharding() << '\n';

  notebook.cell("A sharding can be drawn");
  debug::visualize_array_sharding(arr, {.use_color = false, .out = &out});

  notebook.cell("A mesh names the axes of a grid of devices; a spec says which axis splits which dimension");
  Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  NamedSharding sharding(mesh, P("x", "y"));
  out << sharding << '\n';
  out << mesh.axis_types() << '\n';
  out << mesh << '\n';

  notebook.cell("device_put moves an array there");
  Array arr_sharded = device_put(arr, sharding);
  out << arr_sharded << '\n';
  debug::visualize_array_sharding(arr_sharded, {.use_color = false, .out = &out});

  notebook.cell("It is still one array");
  out << repr(arr_sharded) << '\n';

  notebook.cell("Its shards: device, part of the array, number of the replica, shape");
  auto describe = [](const Shard& shard) {
    return "(" + to_string(shard.device) + ", " + to_string(shard.index) + ", " + std::to_string(shard.replica_id) +
           ", " + to_string(shard.data.shape()) + ")";
  };
  out << "[" << join(arr_sharded.addressable_shards(), describe) << "]\n";

  notebook.cell("A sharding also says in which memory of its devices an array lies");
  NamedSharding s_host(mesh, P("x", "y"), {.memory_kind = "pinned_host"});
  NamedSharding s_dev = s_host.with_memory_kind("device");
  Array arr_host = device_put(arr, s_host);
  Array arr_dev = device_put(arr, s_dev);
  out << arr_host.sharding().memory_kind() << '\n';
  out << arr_dev.sharding().memory_kind() << '\n';
  out << arr_host.sharding() << ' ' << arr_host.addressable_shards()[0] << '\n';
  auto quoted_kind = [](const Memory& memory) { return "'" + std::string(memory.kind.name()) + "'"; };
  out << "[" << join(devices()[0].addressable_memories(), quoted_kind) << "] " << devices()[0].default_memory() << '\n';

  notebook.section("1. Automatic parallelism: jit");
  // A function given to jit is traced once for each kind of arguments, and compiled. Computation follows data: it is
  // split as its arguments are, and the compiler adds the communication.

  notebook.cell("An elementwise function leaves the sharding as it is");
  auto f_elementwise = jit([](Array v) { return 2 * sin(v) + 1; });
  Array result = f_elementwise(arr_sharded);
  out << "shardings match: " << (result.sharding() == arr_sharded.sharding() ? "True" : "False") << '\n';
  out << result << '\n';

  notebook.cell("A sum over the dimension split by x: devices that differ in x alone hold the same result");
  auto f_contract = jit([](Array v) { return v.sum({.axis = 0}); });
  result = f_contract(arr_sharded);
  debug::visualize_array_sharding(result, {.use_color = false, .out = &out});
  out << result << '\n' << result.sharding() << '\n';

  notebook.cell("out_shardings says where results shall lie: here, from host memory to the device's");
  auto to_device = jit([](Array v) { return v; }, {.out_shardings = s_dev});
  Array out_dev = to_device(arr_host);
  out << out_dev << '\n';
  out << out_dev.sharding().memory_kind() << '\n';

  notebook.cell("And back");
  auto to_host = jit([](Array v) { return v; }, {.out_shardings = s_host});
  Array out_host = to_host(arr_dev);
  out << out_host << '\n';
  out << out_host.sharding().memory_kind() << '\n';

  notebook.section("2. Semi-automatic parallelism: constraints");
  // Where the compiler's choice is not what you want, fix the sharding of any value inside a jitted function. The rest
  // is still up to the compiler.

  notebook.cell("The same sum, to be split over x instead of y");
  auto f_contract_2 = jit([mesh](Array v) {
    Array total = v.sum({.axis = 0});
    return lax::with_sharding_constraint(total, NamedSharding(mesh, P("x")));
  });
  result = f_contract_2(arr_sharded);
  debug::visualize_array_sharding(result, {.use_color = false, .out = &out});
  out << result << '\n' << result.sharding() << '\n';

  notebook.cell("The axes of a mesh are Auto unless it is told otherwise; said outright, nothing changes");
  Mesh mesh_auto = make_mesh({2, 4}, {"x", "y"}, {.axis_types = {AxisType::kAuto, AxisType::kAuto}});
  Array arr_auto = device_put(arr, NamedSharding(mesh_auto, P("x", "y")));
  auto f_contract_2a = jit([mesh_auto](Array v) {
    return lax::with_sharding_constraint(v.sum({.axis = 0}), NamedSharding(mesh_auto, P("x")));
  });
  result = f_contract_2a(arr_auto);
  debug::visualize_array_sharding(result, {.use_color = false, .out = &out});
  out << result << ' ' << result.sharding() << '\n';
  result = f_contract(arr_auto);
  debug::visualize_array_sharding(result, {.use_color = false, .out = &out});
  out << result << ' ' << result.sharding() << '\n';
  out << "auto mesh: " << mesh_auto << ' ' << NamedSharding(mesh_auto, P("x", "y")) << '\n';

  notebook.section("3. Manual parallelism: shard_map");
  // A function given to shard_map is written for one device. It sees that device's shards, as in_specs cuts them, and
  // its results are put together as out_specs says. It communicates where it says so, and nowhere else.

  notebook.cell("A function is mapped over the shards of an array");
  mesh = make_mesh({8}, {"x"});
  auto f_elementwise_sharded = shard_map(f_elementwise, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  arr = arange(32);
  out << repr(f_elementwise_sharded(arr)) << '\n';

  notebook.cell("The same in one expression");
  out << repr(shard_map(f_elementwise, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(arr)) << '\n';

  notebook.cell("What a device sees. Outside jit the function runs at once, and its values can be printed");
  auto twice = [&out](Array x) {
    out << "device local shape: x.shape=" << x.shape() << '\n';
    out << x << ' ' << type_of(x) << '\n';  // {V:x}: the value varies along x.
    return x * 2;
  };
  Array x = arange(32);
  out << "global shape: x.shape=" << x.shape() << '\n';
  Array y = shard_map(twice, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(x);
  out << y << '\n' << y.sharding() << '\n';

  notebook.cell("A sum inside is the sum of a shard");
  auto sum_of_shard = [](Array shard) { return sum(shard, {.keepdims = true}); };
  out << repr(shard_map(sum_of_shard, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(x)) << '\n';

  notebook.cell("psum adds over the devices along an axis. The result is the same on all: P() names no axis");
  auto sum_of_all = [](Array shard) {
    Array sum_in_shard = shard.sum();
    return lax::psum(sum_in_shard, "x");
  };
  out << repr(shard_map(sum_of_all, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()})(x)) << '\n';

  notebook.cell("Pitfall: without psum the sums differ, and P() would be wrong");
  try {
    auto sum_in_shard = [](Array shard) { return shard.sum(); };
    shard_map(sum_in_shard, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()})(x);
  } catch (const InvalidArgument& error) {
    out << "InvalidArgument: " << error.what() << '\n';
  }

  notebook.cell("Pitfall: 30 elements cannot be cut into 8 equal shards");
  try {
    auto double_shard = [](Array shard) { return shard * 2; };
    shard_map(double_shard, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(arange(30));
  } catch (const IndivisibleError& error) {
    out << "IndivisibleError: " << error.what() << '\n';
  }

  notebook.cell("Pitfall: neither can device_put");
  try {
    device_put(arange(30), NamedSharding(mesh, P("x")));
  } catch (const IndivisibleError& error) {
    out << "IndivisibleError: " << error.what() << '\n';
  }

  notebook.section("One layer in all three ways");
  // The layer of a neural network, and its parallel forms. All give the same numbers, up to the rounding of the last
  // digit: a sum that is split over devices is added in another order.

  notebook.cell("The layer, written for whole arrays");
  auto layer = jit([](Array in, Array w, Array b) { return nn::sigmoid(matmul(in, w) + b); });

  notebook.cell("On one device");
  x = array(kX, {.dtype = float32});
  Array weights = array(kWeights, {.dtype = float32}).reshape(32, 4);
  Array bias = array(kBias, {.dtype = float32});
  out << repr(layer(x, weights, bias)) << '\n';

  notebook.cell("Automatic: split the dimension that the product sums over, and call the same function");
  mesh = make_mesh({8}, {"x"});
  sharding = NamedSharding(mesh, P("x"));
  Array x_sharded = device_put(x, sharding);
  Array weights_sharded = device_put(weights, sharding);
  out << repr(layer(x_sharded, weights_sharded, bias)) << '\n';

  notebook.cell("The same on a mesh that is said to be Auto; the result is whole on every device");
  Mesh mesh_a = make_mesh({8}, {"x"}, {.axis_types = {AxisType::kAuto}});
  NamedSharding sharding_a(mesh_a, P("x"));
  x_sharded = device_put(x, sharding_a);
  weights_sharded = device_put(weights, sharding_a);
  result = layer(x_sharded, weights_sharded, bias);
  out << result.sharding() << '\n';
  out << repr(result) << '\n';

  notebook.cell("Semi-automatic: the function splits its arguments, which are passed whole");
  auto layer_auto = jit([layer, sharding](Array in, Array w, Array b) {
    in = lax::with_sharding_constraint(in, sharding);
    w = lax::with_sharding_constraint(w, sharding);
    return layer(in, w, b);
  });
  out << repr(layer_auto(x, weights, bias)) << '\n';

  notebook.cell("The same on the Auto mesh");
  auto layer_auto_a = jit([layer, sharding_a](Array in, Array w, Array b) {
    in = lax::with_sharding_constraint(in, sharding_a);
    w = lax::with_sharding_constraint(w, sharding_a);
    return layer(in, w, b);
  });
  out << repr(layer_auto_a(x, weights, bias)) << '\n';

  notebook.cell("Manual: every device multiplies its part, and psum adds the products");
  auto layer_sharded =
      jit(shard_map([](Array in, Array w, Array b) { return nn::sigmoid(lax::psum(matmul(in, w), "x") + b); },
                    {.mesh = mesh, .in_specs = {P("x"), P("x", none), P(none)}, .out_specs = P(none)}));
  out << repr(layer_sharded(x, weights, bias)) << '\n';

  notebook.cell("For comparison: the layer in double precision, in plain C++");
  std::vector<double> reference;
  for (std::size_t j = 0; j < kBias.size(); ++j) {
    double z = kBias[j];
    for (std::size_t i = 0; i < kX.size(); ++i) z += kX[i] * kWeights[i * kBias.size() + j];
    reference.push_back(1 / (1 + std::exp(-z)));
  }
  out << "array([" << join(reference, eight_decimals) << "])\n";
}

}  // namespace examples
