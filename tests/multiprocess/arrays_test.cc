// Arrays that lie in several processes, in one of them, or in others.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::everywhere;
using multiprocess::kLayouts;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::rows;
using multiprocess::tell;
using multiprocess::told;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// ---- Devices, and work of one process.

void devices_and_local_work() {
  std::cout << "all: " << devices() << std::endl;
  std::cout << "own: " << local_devices() << " of process " << process_index() << std::endl;
  const Array a = arange(4) * (process_index() + 1);  // On the default device.
  std::cout << "eager: " << a << ' ' << a.sharding() << std::endl;
  std::cout << "jit: " << jit([](Array v) { return v.sum(); })(a) << std::endl;
  const Mesh mine = Mesh(local_devices(), {local_device_count()}, {"l"});
  const Array split = device_put(arange(8), NamedSharding(mine, P("l")));
  std::cout << "own mesh: " << jit([](Array v) { return v.sum() + process_index(); })(split) << std::endl;
}
const Registered kDevices("devices_and_local_work", devices_and_local_work);

TEST(ProcessArrays, WorkOfOneProcess) {
  const std::vector<Outcome> outcomes = multiprocess::run({"devices_and_local_work", {2, 1, 2}});
  const std::string all =
      "CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=131072), CpuDevice(id=262144), CpuDevice(id=262145)";
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "all"), "[" + all + "]");
  }
  EXPECT_EQ(told(outcomes[1], "own"), "[CpuDevice(id=131072)] of process 1");
  EXPECT_EQ(told(outcomes[1], "eager"),
            "[0 2 4 6] SingleDeviceSharding(device=CpuDevice(id=131072), memory_kind=device)");
  EXPECT_EQ(told(outcomes[2], "jit"), "18");
  EXPECT_EQ(told(outcomes[2], "own mesh"), "30");
}

// ---- Collectives: groups, dtypes, many operands.

void more_collectives() {
  const auto over = [&](const Array& x, const std::function<Array(Array)>& f) {
    return jit(shard_map(f, {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P("x")}))(device_put(x, rows()));
  };
  const auto print = [](const std::string& name, const Array& x) { print_bits(name, multihost::to_host(x)); };
  for (const Dtype dtype : {int32, float32, float16, uint8, bfloat16, int64, bool_}) {
    const Array x = (arange(128) * 7 % 11).astype(dtype).reshape(16, 8);
    print("all_gather", over(x, [](Array v) { return lax::all_gather(v, "x", {.axis = 1, .tiled = true}); }));
    print("all_to_all",
          over(x, [](Array v) { return lax::all_to_all(v, "x", {.split_axis = 1, .concat_axis = 0, .tiled = true}); }));
  }
  const std::vector<std::vector<int>> groups{{0, 5, 2, 7}, {1, 4, 3, 6}};
  print("groups", over(numbers({16, 3}), [&](Array v) { return lax::psum(v, "x", {.axis_index_groups = groups}); }));
  const Mesh grid = make_mesh({2, 2, 2}, {"a", "b", "c"});
  const auto sums = [](Array v) {
    return std::tuple{lax::psum(v, "a"), lax::psum(v, "b"), lax::psum(v, {"c", "a"}), lax::pmin(v, {"b", "c"})};
  };
  const auto f = jit(shard_map(sums, {.mesh = grid, .in_specs = P("a", "b", "c"), .out_specs = P("a", "b", "c")}));
  const auto results = f(device_put(numbers({4, 4, 6}), NamedSharding(grid, P("a", "b", "c"))));
  std::apply([&](const auto&... each) { (print("subset of axes", each), ...); }, results);
}
const Registered kMoreCollectives("more_collectives", more_collectives);

TEST(ProcessArrays, Collectives) { multiprocess::expect_same("more_collectives", kLayouts); }

// ---- Programs.

struct Pair {
  Array a;
  Array b;
};

void programs_over_all() {
  const auto print = [](const std::string& name, const Array& x) { print_bits(name, multihost::to_host(x)); };
  const Array x = device_put(numbers({16, 8}), rows());
  // Captured arrays, in functions and in their inner functions.
  const Array captured = device_put(numbers({8, 4}), NamedSharding(everywhere(), P(none)));
  const auto inner = jit([&](Array v) { return matmul(v, captured) + x[{range(), range(0, 4)}]; });
  print("captured", jit([&](Array v) { return inner(v) * 2; })(x));
  // Meshes whose devices are not in order.
  std::vector<Device> odd = devices();
  std::ranges::rotate(odd, odd.begin() + 3);
  const Mesh mesh(odd, {4, 2}, {"p", "q"});
  const Array y = device_put(numbers({8, 8}), NamedSharding(mesh, P("p", "q")));
  const Array z = device_put(numbers({8, 8}), NamedSharding(mesh, P("q", "p")));
  print("product", jit([](Array v, Array w) { return matmul(v, w) + v.sum(0); })(y, z));
  // Between meshes, and trees of them.
  const Pair moved = device_put(Pair{y, x}, {NamedSharding(everywhere(), P(none, "x")), NamedSharding(mesh, P("p"))});
  print("moved", moved.a);
  print("moved", moved.b);
  std::vector<Device> reversed = devices();
  std::ranges::reverse(reversed);
  print("reversed", device_put(moved.a, NamedSharding(Mesh(reversed, {8}, {"r"}), P("r"))));
  print("replicated", device_put(moved.a, NamedSharding(Mesh(reversed, {8}, {"r"}), P())));
  // Host data in a program over all: the same in all processes.
  print("host data", jit([](Array v, Array w) { return v + w; })(x, numbers({16, 8})));
  print("rows", x[{range(3, 13, 2)}]);
  print("iteration", *x.begin());
  // Compiled at the same time by several threads, run in one order.
  std::vector<std::thread> threads;
  std::vector<std::function<Array()>> ready(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const auto compiled = jit([i](Array v) { return v * (i + 1); }).lower(x).compile();
      ready[static_cast<std::size_t>(i)] = [compiled, &x] { return compiled(x); };
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& run : ready) print("compiled", run());
}
const Registered kPrograms("programs_over_all", programs_over_all);

TEST(ProcessArrays, ProgramsAndMeshes) { multiprocess::expect_same("programs_over_all", kLayouts); }

// ---- Making arrays.

void made_arrays() {
  const int p = process_index();
  const int local = local_device_count();
  const auto print = [](const std::string& name, const Array& x) {
    std::cout << name << ": " << to_string(x.shape()) << ' ' << multihost::to_host(x).reshape(-1) << std::endl;
  };
  print("rows", make_array_from_process_local_data(rows(), full({local, 2}, p)));
  const Mesh grid = make_mesh({2, 4}, {"x", "y"});
  // Every process has the whole of a dimension, or its part.
  const Array mine = arange(8).reshape(1, 8) + 10 * p;
  print("inferred", make_array_from_process_local_data(NamedSharding(grid, P("x")), mine));
  print("given", make_array_from_process_local_data(NamedSharding(grid, P("x")), arange(8).reshape(2, 4), Shape{2, 4}));
  tell("another shape", [&] {
    make_array_from_process_local_data(NamedSharding(grid, P("x")), full({3, 8}, p), Shape{4, 8});
  });
  std::vector<Array> parts;
  for (const Device& device : local_devices()) parts.push_back(device_put(full({1}, device.id), device));
  print("single devices", make_array_from_single_device_arrays({8}, rows(), parts));
  int calls = 0;
  const auto callback = [&](const ShardIndex& index) {
    ++calls;
    return arange(*index[0].start, *index[0].stop);
  };
  print("callback", make_array_from_callback({4}, NamedSharding(grid, P("y")), callback));
  std::cout << "calls: " << calls << std::endl;
}
const Registered kMadeArrays("made_arrays", made_arrays);

TEST(ProcessArrays, MadeOfTheDataOfEach) {
  for (const Outcome& outcome : multiprocess::run({"made_arrays", {4, 4}})) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "rows"), "(8, 2) [0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1]");
    EXPECT_EQ(told(outcome, "inferred"), "(2, 8) [ 0  1  2  3  4  5  6  7 10 11 12 13 14 15 16 17]");
    EXPECT_EQ(told(outcome, "given"), "(2, 4) [0 1 2 3 4 5 6 7]");
    EXPECT_THAT(told(outcome, "another shape"), AllOf(StartsWith("InvalidArgument"), HasSubstr("(2, 8)")));
    EXPECT_EQ(told(outcome, "single devices"), "(8,) [     0      1      2      3 131072 131073 131074 131075]");
    EXPECT_EQ(told(outcome, "callback"), "(4,) [0 1 2 3]");
    EXPECT_EQ(told(outcome, "calls"), "4") << "once for each distinct part that is here";
  }
}

// ---- Reading and printing.

void reading() {
  const Array x = device_put(arange(16), rows());
  std::cout << "print: " << x << ' ' << repr(x) << std::endl;
  std::cout << "shards: " << x.addressable_shards().size() << " of " << x.global_shards().size() << std::endl;
  std::cout << "first: " << x.addressable_shards()[0] << std::endl;
  std::cout << "other: " << x.global_shards()[static_cast<std::size_t>(process_index() == 0 ? 7 : 0)].data << std::endl;
  tell("read", [&] { x.to_vector<std::int32_t>(); });
  tell("item", [&] { x[3].item<int>(); });
  std::cout << "replicated: " << device_put(x, NamedSharding(everywhere(), P())) << std::endl;
  std::cout << "element: " << multihost::to_host(x[9]) << std::endl;
  // Each process has all of what is split within processes and equal in all.
  const Mesh grid = make_mesh({process_count(), local_device_count()}, {"p", "l"});
  std::cout << "all here: " << device_put(arange(8), NamedSharding(grid, P("l"))) << std::endl;
  std::ostringstream picture;
  debug::visualize_array_sharding(x, {.use_color = false, .out = &picture});
  std::cout << "picture: " << (picture.str().find("131072") != std::string::npos) << std::endl;
  std::cout << "sizes: " << x.nbytes() << ' ' << x.on_device_size_in_bytes() << ' ' << x.is_fully_addressable() << ' '
            << x.is_fully_replicated() << std::endl;
  x.delete_();
  tell("deleted", [&] { x.sum(); });
}
const Registered kReading("reading", reading);

TEST(ProcessArrays, ReadingAndPrinting) {
  const std::vector<Outcome> outcomes = multiprocess::run({"reading", {4, 4}});
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "print"), "Array(shape=(16,), dtype=int32) Array(shape=(16,), dtype=int32)");
    EXPECT_EQ(told(outcome, "shards"), "4 of 8");
    EXPECT_EQ(told(outcome, "other"), "<no value>");
    EXPECT_THAT(told(outcome, "read"),
                AllOf(StartsWith("InvalidState"), HasSubstr("process_allgather"), HasSubstr("addressable_shards")));
    EXPECT_EQ(told(outcome, "replicated"), "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15]");
    EXPECT_EQ(told(outcome, "element"), "9");
    EXPECT_EQ(told(outcome, "all here"), "[0 1 2 3 4 5 6 7]");
    EXPECT_EQ(told(outcome, "picture"), "1");
    EXPECT_EQ(told(outcome, "sizes"), "64 64 0 0");
    EXPECT_THAT(told(outcome, "deleted"), StartsWith("InvalidState"));
  }
  EXPECT_EQ(told(outcomes[0], "first"),
            "Shard(device=CpuDevice(id=0), index=(slice(0, 2, None),), replica_id=0, data=[0 1])");
  EXPECT_EQ(told(outcomes[1], "first"),
            "Shard(device=CpuDevice(id=131072), index=(slice(8, 10, None),), replica_id=0, data=[8 9])");
}

// ---- Arrays of which a process has nothing.

void elsewhere() {
  const Device there = devices()[0];
  const Array x = device_put(arange(3), there);
  std::cout << "one device: " << x << ' ' << x.addressable_shards().size() << std::endl;
  std::vector<Device> first;
  for (const Device& device : devices()) {
    if (device.process_index < 2) first.push_back(device);
  }
  const Mesh mesh(first, {4}, {"x"});
  const Array y = device_put(arange(8), NamedSharding(mesh, P("x")));
  std::cout << "some: " << repr(y) << std::endl;
  // Programs run where their arguments are; the others call them, and have nothing to do.
  const Array z = jit([](Array v) { return v * 2 + v.sum(); })(y);
  const Array sum =
      shard_map([](Array v) { return lax::psum(v, "x"); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()})(y);
  std::cout << "program: " << z.addressable_shards().size() << std::endl;
  if (process_index() < 2) std::cout << "sum: " << sum << std::endl;
  tell("read", [&] { z.to_vector<std::int32_t>(); });
  // And from there to all, and to others.
  std::cout << "all: " << device_put(z, NamedSharding(everywhere(), P())) << std::endl;
  const Array last = device_put(z, devices().back());
  if (process_index() == 2) std::cout << "last: " << last << std::endl;
  y.delete_();
  std::cout << "deleted: " << y.is_deleted() << std::endl;
}
const Registered kElsewhere("elsewhere", elsewhere);

TEST(ProcessArrays, ArraysElsewhere) {
  const std::vector<Outcome> outcomes = multiprocess::run({"elsewhere", {2, 2, 2}});
  for (std::size_t p = 0; p < outcomes.size(); ++p) {
    const Outcome& outcome = outcomes[p];
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "one device"), p == 0 ? "[0 1 2] 1" : "Array(shape=(3,), dtype=int32) 0");
    EXPECT_EQ(told(outcome, "some"), "Array(shape=(8,), dtype=int32)");
    EXPECT_EQ(told(outcome, "program"), p == 2 ? "0" : "2");
    if (p < 2) {
      EXPECT_EQ(told(outcome, "sum"), "[12 16]");
    }
    EXPECT_THAT(told(outcome, "read"), StartsWith("InvalidState"));
    EXPECT_EQ(told(outcome, "all"), "[28 30 32 34 36 38 40 42]");
    EXPECT_EQ(told(outcome, "deleted"), "1");
  }
  EXPECT_EQ(told(outcomes[2], "last"), "[28 30 32 34 36 38 40 42]");
}

// From devices of one process to others and on, whoever holds what.
void onward() {
  const auto print = [](const std::string& name, const Array& x) {
    print_bits(name, multihost::to_host(device_put(x, rows())));
    print_bits(name, multihost::to_host(device_put(x, NamedSharding(everywhere(), P()))));
  };
  const auto at = [](std::size_t i) { return devices()[i]; };
  const Array x = device_put(numbers({16, 3}), at(5));
  print("one", x);
  const Array y = device_put(x, at(2));
  print("another", y);
  const Array split = device_put(y, NamedSharding(Mesh({at(6), at(3), at(4), at(5)}, {2, 2}, {"a", "b"}), P("a")));
  print("some", split);
  const Array z = device_put(split, at(7));
  print("together", z);
  print("computed", jit([](Array v) { return v * 3 + v.sum(0); })(z));
  print("back", device_put(jit([](Array v) { return v - 1; })(z), at(0)));
  // Within one process, seen from all.
  print("near", device_put(device_put(x, at(0)), NamedSharding(Mesh({at(0)}, {1}, {"a"}), P("a"))));
  // Nobody else's: each process has its own.
  print("own", device_put(numbers({8, 2}), local_devices().back()));
}
const Registered kOnward("onward", onward);

TEST(ProcessArrays, GoOnFromDevicesOfOneProcess) { multiprocess::expect_same("onward", kLayouts); }

// Processes that do not mean the same array are told, and go on.
void other_sources() {
  const Array first = device_put(arange(6), devices().front());
  const Array last = device_put(arange(6) + 1, devices().back());
  const bool odd = process_index() == 1;
  tell("others", [&] { device_put(odd ? first : last, rows()); });
  tell("own", [&] { device_put(odd ? last : first, rows()); });
  tell("mixed", [&] { device_put(process_index() == 2 ? last : first, rows()); });
  std::cout << "sum: " << multihost::to_host(device_put(last, rows())).sum() << std::endl;
}
const Registered kOtherSources("other_sources", other_sources);

TEST(ProcessArrays, OtherArraysOfOneProcessAreTold) {
  for (const Outcome& outcome : multiprocess::run({"other_sources", {1, 1, 1}})) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    for (const std::string what : {"others", "own", "mixed"}) {
      EXPECT_THAT(told(outcome, what),
                  AllOf(StartsWith("InvalidArgument"), HasSubstr("all processes must give the same")));
    }
    EXPECT_EQ(told(outcome, "sum"), "21");
  }
}

// ---- Memory of the program, which other processes cannot see.

void print_whole(const std::string& name, const Array& array) {
  print_bits(name, multihost::process_allgather(array, true));
}

void foreign_memory() {
  const Shape shape{48, 1000};
  const auto elements = std::make_shared<const std::vector<float>>(numbers(shape).to_vector<float>());
  const Array a = asarray(std::span<const float>(*elements), shape, elements, {.sharding = rows()});
  print_whole("whole", a);
  print_whole("sum", jit([](Array v) { return v.sum({.axis = 0}); })(a));
  print_whole("columns", device_put(a, NamedSharding(everywhere(), P(none, "x"))));
  const auto donated = jit([](Array v) { return roll(v, 1, 0); }, {.donate_argnums = {0}});
  print_whole("rolled", donated(a));
  const Array here = asarray(std::span<const float>(*elements), shape, elements);
  print_whole("put", device_put(here, rows()));
  if (numbers(shape).to_vector<float>() != *elements) std::cout << "overwritten" << std::endl;
}
const Registered kForeignMemory("foreign_memory", foreign_memory);

TEST(ProcessArrays, OfForeignMemory) { multiprocess::expect_same("foreign_memory", kLayouts); }

// ---- Calls of the user's program.

void callbacks() {
  const Array x = device_put(arange(8), rows());
  const auto f = jit(shard_map(
      [](Array v) {
        debug::print("shard {}", v);
        return v + 1;
      },
      {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P("x")}));
  f(x).block_until_ready();
  std::cout << std::flush;
  jit([](Array v) {
    debug::print("whole {}", v);
    return v;
  })(x)
      .block_until_ready();
  std::cout << "end" << std::endl;
}
const Registered kCallbacks("callbacks", callbacks);

TEST(ProcessArrays, CallbacksRunWhereTheirDevicesAre) {
  const std::vector<Outcome> outcomes = multiprocess::run({"callbacks", {4, 4}});
  EXPECT_EQ(outcomes[0].output, "shard [0]\nshard [1]\nshard [2]\nshard [3]\nwhole [0 1 2 3 4 5 6 7]\nend\n");
  EXPECT_EQ(outcomes[1].output, "shard [4]\nshard [5]\nshard [6]\nshard [7]\nend\n");
}

// What they give is where it is needed.
void results_of_callbacks() {
  const Array x = device_put(arange(8), rows());
  const auto triple = [](const Array& v) { return v * 3; };
  const ShapeDtypeStruct eight{{8}, int32};
  for (const std::size_t device : {0U, 7U}) {
    const auto host = pure_callback(triple, eight, {.device = devices()[device]});
    print_whole("whole", jit([&](const Array& v) { return host(v) + v; })(x));
  }
  int calls = 0;
  const auto counted = io_callback([&](const Array& v) { return v + ++calls; }, ShapeDtypeStruct{{}, int32});
  print_whole("loop", jit([&](const Array& v) {
                return lax::fori_loop(
                           0, 20, [&](const Array&, const Array& sum) { return counted(sum + v[7]); }, v[0])
                    .reshape({1});
              })(x));
  const auto own = pure_callback(triple, ShapeDtypeStruct{{1}, int32});
  print_whole("shards", jit(shard_map([&](const Array& v) { return own(v) + v; },
                                      {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P("x")}))(x));
  // Of two devices along the manual axis, each of which stands for four.
  const Mesh grid = make_mesh({4, 2}, {"y", "m"});
  const auto half = pure_callback(triple, ShapeDtypeStruct{{4}, int32});
  const auto partly = shard_map([&](const Array& v) { return half(v * 2) + v; },
                                {.mesh = grid, .in_specs = P("m"), .out_specs = P("m"), .axis_names = {"m"}});
  print_whole("partly", jit([&](const Array& v) {
                return with_sharding_constraint(partly(v), NamedSharding(grid, P({"m", "y"})));
              })(device_put(arange(8), NamedSharding(grid, P("y")))));
}
const Registered kResultsOfCallbacks("results_of_callbacks", results_of_callbacks);

TEST(ProcessArrays, ResultsOfCallbacksAreWhereTheyAreNeeded) {
  multiprocess::expect_same("results_of_callbacks", kLayouts);
}

}  // namespace
}  // namespace shoal
