// Programs give the same bits however eight devices are divided among processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontend/array/array_impl.h"
#include "support.h"

namespace shoal {
namespace {

using multiprocess::Job;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::Registered;

// Bits of all elements of an array, wherever they lie.
void print(const std::string& name, const Array& array) {
  multiprocess::print_bits(name, multihost::process_allgather(array, true));
}

Array put(const Array& array, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(array, NamedSharding(mesh, spec));
}

void partitioned() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = put(numbers({48, 64}), mesh, P("x", "y"));
  const Array b = put(numbers({64, 40}), mesh, P("y", none));
  print("a", a);
  print("elementwise", jit([](Array v) { return 2 * sin(v) + 1; })(a));
  print("product", jit([](Array v, Array w) { return matmul(v, w); })(a, b));
  print("sum", jit([](Array v) { return v.sum(); })(a).reshape({1}));
  print("mean", jit([](Array v) { return v.mean({.axis = 1}); })(a));
  print("softmax", jit([](Array v) { return nn::softmax(v); })(a));
  print("sort", jit([](Array v) { return sort(v, {.axis = 0}); })(a));
  print("cumsum", jit([](Array v) { return cumsum(v, {.axis = 1}); })(a));
  print("roll", jit([](Array v) { return roll(v, 5, 1); })(a));
  print("slice", jit([](Array v) { return v[{range(3, 47), range(5, 61)}]; })(a));
  print("transpose", jit([](Array v) { return v.T(); })(a));
  const Array images = a.reshape({1, 1, 48, 64});
  const Array kernel = numbers({3, 1, 5, 3});
  const auto convolved = [](Array v, Array w) { return lax::conv_general_dilated(v, w, {1, 1}, "SAME"); };
  print("convolution", jit(convolved)(images, kernel));
  const auto loss = [&](const Array& v, const Array& w) {
    return square(lax::conv_general_dilated(v, w, {3, 1}, "SAME")).sum();
  };
  const auto [by_images, by_kernel] = jit([&](Array v, Array w) { return grad<0, 1>(loss)(v, w); })(images, kernel);
  print("derivative by an array", by_images);
  print("derivative by a window", by_kernel);
  const auto plus = [](const Array& v, const Array& w) { return v + w; };
  print("sums of windows", jit([&](Array v) {
          return lax::reduce_window(v, 0.0F, plus, {11, 3}, {.window_strides = {1, 2}, .padding = "SAME"});
        })(a));
  print("eager", a + a * 3);
}

void collectives() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = put(numbers({16, 24, 8}), mesh, P("x", "y"));
  const auto run = [&](const std::string& name, const PartitionSpec& out, const std::function<Array(Array)>& f) {
    print(name, jit(shard_map(f, {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = out}))(a));
  };
  run("psum x", P(none, "y"), [](Array v) { return lax::psum(v, "x"); });
  run("psum y", P("x"), [](Array v) { return lax::psum(v, "y"); });
  run("psum xy", P(), [](Array v) { return lax::psum(v, {"x", "y"}); });
  run("pmax", P("x"), [](Array v) { return lax::pmax(v, "y"); });
  run("all_gather", P("x", none, "y"), [](Array v) { return lax::all_gather(v, "x", {.axis = 0, .tiled = true}) + 0; });
  run("psum_scatter", P("x", "y"),
      [](Array v) { return lax::psum_scatter(v, "y", {.scatter_dimension = 2, .tiled = true}); });
  run("all_to_all", P("x", none, "y"),
      [](Array v) { return lax::all_to_all(v, "y", {.split_axis = 2, .concat_axis = 1, .tiled = true}); });
  run("ppermute", P("x", "y"), [](Array v) { return lax::ppermute(v, "y", {{0, 1}, {1, 2}, {2, 3}, {3, 0}}); });
  run("ppermute with zeros", P("x", "y"), [](Array v) { return lax::ppermute(v, {"x", "y"}, {{0, 7}, {5, 2}}); });
  run("axis_index", P("x", "y"), [](Array v) { return v + lax::axis_index({"x", "y"}); });
}

// Loops and branches whose bodies exchange, and whose trips are known, come from data, or differ between devices.
void loops() {
  using Two = std::pair<Array, Array>;
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array a = put(numbers({16, 24}), mesh, P("x", "y"));
  const Array w = put(numbers({24, 24}) * 0.1, mesh, P("y", none));
  const auto [last, sums] = jit([](Array v, Array m) {
    return lax::scan([&](const Array& c, const std::tuple<>&) { return Two(tanh(matmul(c, m)), c.sum()); }, v,
                     std::tuple<>(), {.length = 5});
  })(a, w);
  print("scan", last);
  print("sums of a scan", sums);
  print("while", jit([](Array v) {
          return lax::while_loop([](const Array& c) { return abs(c).max() > 0.1; },
                                 [](const Array& c) { return c * 0.5 + c.mean() * 0.01; }, v);
        })(a));
  print("cond", jit([](Array v, Array m) {
          return lax::cond(
              v.sum() > 0, [&](const Array& c) { return matmul(c, m); }, [](const Array& c) { return -c; }, v);
        })(a, w));
  const auto run = [&](const std::string& name, const std::function<Array(Array)>& f) {
    const ShardMapOptions options{.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y")};
    print(name, jit(shard_map(f, options))(a));
    print(name + ", eager", shard_map(f, options)(a));
  };
  run("a ring", [](Array v) {
    return lax::fori_loop(
        0, 7,
        [](const Array& i, const Array& c) {
          return c + i * lax::ppermute(c, "y", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
        },
        v);
  });
  run("loops in loops", [](Array v) {
    return lax::fori_loop(
        0, 3,
        [](const Array&, const Array& outer) {
          const Array inner = lax::fori_loop(
              0, 2, [](const Array&, const Array& c) { return c + lax::pmean(c, "x"); }, outer);
          return inner * 0.25 + lax::pmax(outer, "y") * 0.1;
        },
        v);
  });
  run("ways that differ", [](Array v) {
    return lax::while_loop([](const Array& c) { return abs(c).max() > 0.3; }, [](const Array& c) { return c * 0.7; },
                           v);
  });
}

// Devices along 'y' go different ways, and exchange along 'x', which lies across processes.
void ways() {
  for (const bool is_first : {true, false}) {
    const Mesh mesh = is_first ? make_mesh({2, 4}, {"x", "y"}) : make_mesh({4, 2}, {"x", "y"});
    const Array a = put(numbers({16, 24}), mesh, P("x", "y"));
    const auto run = [&](const std::string& name, const std::function<Array(Array)>& f) {
      print(name, jit(shard_map(f, {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y")}))(a));
    };
    // What is compared is equal along 'x'.
    const auto size_of = [](const Array& c) { return lax::pmax(abs(c).max(), "x"); };
    const auto shrunk = [](const Array& c) { return c * 0.6 + lax::pmean(c, "x") * 0.1; };
    run("loop with sums", [&](Array v) {
      return lax::while_loop([&](const Array& c) { return size_of(c) > 0.05 * (1 + lax::axis_index("y")); }, shrunk, v);
    });
    run("branches with sums", [&](Array v) {
      const Array which = remainder(lax::axis_index("y"), 3);
      const std::vector<std::function<Array(Array)>> branches{
          [](const Array& c) { return c + lax::psum(c, "x"); }, [](const Array& c) { return c * 2; },
          [](const Array& c) { return lax::all_gather(c, "x", {.axis = 0}).sum({.axis = 0}) - c; }};
      return lax::switch_(which, branches, v);
    });
    run("a loop in a branch", [&](Array v) {
      return lax::cond(
          lax::axis_index("y") == 1,
          [&](const Array& c) {
            return lax::fori_loop(
                0, 3, [&](const Array&, const Array& d) { return shrunk(d); }, c);
          },
          [](const Array& c) { return -c; }, v);
    });
  }
}

// What is told where devices go different ways, by the processes that have them.
void told_on_ways() {
  const Mesh mesh = multiprocess::everywhere();
  const Array x = device_put(arange(8).astype(float32), multiprocess::rows());
  const auto asked = io_callback(
      [](const Array& v) {
        std::cout << "asked " << v << std::endl;
        return v + 10;
      },
      ShapeDtypeStruct{{1}, float32});
  const auto f = [&](const Array& v) {
    const Array halved = lax::while_loop([](const Array& c) { return c[0] > 1; },
                                         [](const Array& c) {
                                           debug::print("trip {}", c);
                                           return c / 2;
                                         },
                                         v);
    return lax::cond(
        v[0] > 2, [&](const Array& a) { return asked(a) + halved; },
        [](const Array& a) { return lax::pvary(-a, {"x"}); }, v);
  };
  const Array result = jit(shard_map(f, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}))(x);
  result.block_until_ready();
  std::cout << "result " << multihost::process_allgather(result, true) << std::endl;
}
const Registered kToldOnWays("told_on_ways", told_on_ways);

// Each trip gathers a slice of the weights, and a captured array.
void gathered_slices() {
  const Array x = put(numbers({16, 24}), multiprocess::everywhere(), P("x"));
  const Array weights = put(numbers({5, 24, 24}) * 0.2, multiprocess::everywhere(), P(none, "x"));
  const Array bias = put(numbers({24}), multiprocess::everywhere(), P("x"));
  for (const bool reverse : {false, true}) {
    const auto f = [&](Array v, Array w, Array b) {
      const auto trip = [&](const Array& c, const Array& slice) {
        const Array whole = lax::all_gather(slice, "x", {.axis = 0, .tiled = true});
        const Array next = tanh(matmul(c, whole) + lax::all_gather(b, "x", {.axis = 0, .tiled = true}));
        return std::pair(next, next.sum());
      };
      return lax::scan(trip, v, w, {.reverse = reverse});
    };
    const auto [last, sums] = jit(shard_map(f, {.mesh = multiprocess::everywhere(),
                                                .in_specs = {P("x"), P(none, "x"), P("x")},
                                                .out_specs = {P("x"), P("x")},
                                                .check_vma = false}))(x, weights, bias);
    print("last", last);
    print("sums", sums);
    const auto [placed, others] = jit([&](Array v, Array w) {
      return lax::scan(
          [](const Array& c, const Array& slice) {
            const Array next = tanh(matmul(c, slice));
            return std::pair(next, next.mean());
          },
          v, w, {.reverse = reverse});
    })(x, weights);
    print("last of a scan", placed);
    print("means of a scan", others);
  }
}

void moves() {
  const Array host = numbers({24, 16});
  const Mesh first = make_mesh({2, 4}, {"x", "y"});
  const Mesh second = make_mesh({8}, {"z"});
  std::vector<Sharding> shardings;
  for (const auto& spec : {P("x", "y"), P("y", "x"), P(none, {"x", "y"}), P("y"), P()}) {
    shardings.emplace_back(NamedSharding(first, spec));
  }
  shardings.emplace_back(NamedSharding(second, P("z")));
  shardings.emplace_back(NamedSharding(second, P(none, "z")));
  Array array = device_put(host, shardings[0]);
  for (std::size_t step = 1; step < 20; ++step) {
    array = device_put(array, shardings[step * 5 % shardings.size()]);
    print("move " + std::to_string(step), array);
  }
}

// More messages between two processes in one step than a channel has room for, of sizes that are copied and that are
// not.
void many_shards() {
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  for (const std::int64_t columns : {1, 3000, 60000}) {
    const Array a =
        make_array_from_callback({device_count(), columns}, NamedSharding(mesh, P("x")), [&](const ShardIndex& index) {
          return full({1, columns}, static_cast<float>(*index[0].start));
        });
    const auto gather = [](Array v) { return lax::all_gather(v, "x", {.axis = 0, .tiled = true}); };
    const Array all =
        jit(shard_map(gather, {.mesh = mesh, .in_specs = P("x"), .out_specs = P(), .check_vma = false}))(a);
    print("all_gather " + std::to_string(columns), all);
    const auto exchange = [](Array v) {
      return lax::ppermute(lax::psum(v, "x") * 0 + v, "x", {{0, 1}, {1, 2}, {2, 0}, {127, 5}});
    };
    print("ppermute " + std::to_string(columns),
          jit(shard_map(exchange, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}))(a));
  }
}

// The bytes of all elements, of which doubles would not show some.
template <class T>
void print_bits(const std::string& name, const Array& array) {
  const auto elements = multihost::process_allgather(array, true).to_vector<T>();
  std::uint64_t hash = 14695981039346656037U;
  for (const T element : elements) {
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &element, sizeof(T));
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211U;
  }
  std::ostringstream text;
  text << name << " " << name_of(array.dtype()) << to_string(array.shape()) << " " << std::hex << hash << "\n";
  std::cout << text.str() << std::flush;
}

// Eight devices in orders in which those of a process do not follow each other.
std::vector<Mesh> meshes() {
  std::vector<Mesh> all;
  for (const std::vector<std::size_t>& order : std::vector<std::vector<std::size_t>>{
           {0, 1, 2, 3, 4, 5, 6, 7}, {0, 4, 1, 5, 2, 6, 3, 7}, {3, 1, 0, 2, 7, 5, 6, 4}, {7, 0, 6, 1, 5, 2, 4, 3}}) {
    std::vector<Device> some;
    for (const std::size_t device : order) some.push_back(devices()[device]);
    all.emplace_back(some, Shape{2, 4}, std::vector<std::string>{"x", "y"});
  }
  return all;
}

// Values whose sums and products are rounded, and that are special.
template <class T>
std::vector<T> values(std::int64_t count) {
  std::vector<T> some;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      some.push_back(i % 67 != 0);
    } else if constexpr (std::is_integral_v<T>) {
      some.push_back(static_cast<T>(i * 2654435761 >> 7));
    } else {
      const double value = std::sin(static_cast<double>(i)) * 3;
      const double infinity = std::numeric_limits<double>::infinity();
      const std::int64_t kind = i * 7919 % 101;
      const double number = kind == 0   ? std::numeric_limits<double>::quiet_NaN()
                            : kind == 1 ? -0.0
                            : kind == 2 ? 0.0
                            : kind == 3 ? infinity
                            : kind == 4 ? -infinity
                                        : value;
      if constexpr (std::is_same_v<T, double>) {
        some.push_back(number);
      } else {
        some.push_back(T(static_cast<float>(number)));
      }
    }
  }
  return some;
}

// Every kind of reduction over either axis, of one dtype.
template <class T>
void reduce(const Mesh& mesh, const std::string& name) {
  const Array a = put(array(values<T>(std::int64_t{16} * 32)).reshape({16, 32}), mesh, P("x", "y"));
  const auto print_result = [&](const std::string& what, const std::function<Array(Array)>& f) {
    print_bits<T>(name + " " + what, jit([&](Array v) { return f(v).astype(a.dtype()); })(a));
  };
  for (const int axis : {0, 1}) {
    const std::string over = " over " + std::to_string(axis);
    print_result("sum" + over, [&](Array v) { return v.sum({.axis = axis}); });
    print_result("prod" + over, [&](Array v) { return v.prod({.axis = axis}); });
    print_result("all" + over, [&](Array v) { return v.all(axis); });
    print_result("any" + over, [&](Array v) { return v.any(axis); });
    if (is_complex(a.dtype())) continue;
    print_result("max" + over, [&](Array v) { return v.max({.axis = axis}); });
    print_result("min" + over, [&](Array v) { return v.min({.axis = axis}); });
  }
}

// Sums of shards whose processes hold no whole side of the tree, or no shards next to each other.
void reductions() {
  for (const Mesh& mesh : meshes()) reduce<float>(mesh, "f32");
  const Mesh last = meshes().back();
  reduce<bool>(last, "bool");
  reduce<std::int8_t>(last, "i8");
  reduce<std::uint64_t>(last, "u64");
  reduce<float16_t>(last, "f16");
  reduce<bfloat16_t>(last, "bf16");
  reduce<double>(last, "f64");
  reduce<std::complex<float>>(last, "c64");
}

// Arrays so large that the processes share the sums; some that are written past the caches.
void large_sums() {
  constexpr std::int64_t kColumns = 2104;
  const auto over_all = [](Array v) { return lax::psum(v, {"x", "y"}); };
  for (const Mesh& mesh : meshes()) {
    const Array a = put(array(values<float>(8 * 8 * kColumns)).reshape({8, 8 * kColumns}), mesh, P(none, {"x", "y"}));
    const auto run = [&](const std::string& name, const PartitionSpec& out, const std::function<Array(Array)>& f) {
      print_bits<float>(name, jit(shard_map(f, {.mesh = mesh, .in_specs = P(none, {"x", "y"}), .out_specs = out}))(a));
    };
    run("psum", P(), over_all);
    run("psum y", P(none, "x"), [](Array v) { return lax::psum(v, "y"); });
    run("pmax of a psum", P("y"), [](Array v) {
      const Array sum = lax::psum(v * 2, "x");
      return lax::pmax(sum + lax::psum(v, {"x", "y"}), "y").reshape({1, -1}) + lax::axis_index("y");
    });
    run("psum_scatter", P(none, {"x", "y"}), [](Array v) {
      return lax::psum_scatter(v, {"x", "y"}, {.scatter_dimension = 1, .tiled = true});
    });
  }
  const Mesh last = meshes().back();
  const Array a = put(numbers({8, 9 << 18}), last, P({"x", "y"}));
  print("psum of 9 MiB", jit(shard_map(over_all, {.mesh = last, .in_specs = P({"x", "y"}), .out_specs = P()}))(
                             a)[{0, range(0, 1 << 16)}]);
}

// Some shards stay where they are, some come from other processes, and some are zeros: of what is written, read and
// kept before and after.
void permutes() {
  std::mt19937 random(7);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const auto some_pairs = [&](const Mesh& mesh) {
    std::array<std::vector<int>, 2> ends;
    for (std::vector<int>& end : ends) {
      for (int i = 0; i < mesh.size(); ++i) end.push_back(i);
      for (std::size_t i = end.size(); i-- > 1;) std::swap(end[i], end[below(i + 1)]);
    }
    lax::Permutation pairs;
    const std::size_t count = below(3) == 0 ? below(ends[0].size()) : ends[0].size();
    for (std::size_t i = 0; i < count; ++i) pairs.emplace_back(ends[0][i], ends[1][i]);
    return pairs;
  };
  int number = 0;
  for (const Mesh& mesh : meshes()) {
    for (const std::int64_t columns : {4, 20000}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const lax::Permutation first = some_pairs(mesh);
        const lax::Permutation second = some_pairs(mesh);
        const std::size_t kind = below(8);
        const auto f = [&](Array v) {
          const auto move = [](Array w, const lax::Permutation& pairs) { return lax::ppermute(w, {"x", "y"}, pairs); };
          const Array w = (kind & 1U) != 0 ? v : v * 2 + 1;
          const Array a = move(w, first);
          const Array b = move((kind & 2U) != 0 ? a : a + w, second);
          std::vector<Array> results{move(sin(b), first), b * 3};
          if ((kind & 4U) != 0) results.insert(results.end(), {a, b});
          return results;
        };
        const Array x = put(numbers({8, columns}), mesh, P({"x", "y"}));
        const auto mapped = jit(shard_map(f, {.mesh = mesh, .in_specs = P({"x", "y"}), .out_specs = P({"x", "y"})}));
        for (const Array& result : mapped(x)) print("permute " + std::to_string(++number), result);
        print("argument", x);
      }
    }
  }
}

// Each process waits for the next one, and has more to give to the one before than a channel has room for.
void ring_of_many() {
  const auto to_previous = [](Array v) {
    lax::Permutation pairs;
    const int devices = device_count();
    for (int i = 0; i < devices; ++i) pairs.emplace_back(i, (i + devices - devices / 3) % devices);
    return lax::ppermute(v, "x", pairs);
  };
  const Array x = device_put(numbers({device_count(), 5000}), multiprocess::rows());
  print("ring",
        jit(shard_map(to_previous, {.mesh = multiprocess::everywhere(), .in_specs = P("x"), .out_specs = P("x")}))(x));
}

// The first process gives so much to the last one, and has nothing else to do.
void one_way() {
  lax::Permutation pairs;
  const int devices = device_count();
  for (int i = 0; i < devices / 3; ++i) pairs.emplace_back(i, i + 2 * (devices / 3));
  const auto f = [&](Array v) { return lax::ppermute(v, "x", pairs); };
  const Array x = device_put(arange(device_count()).astype(float32), multiprocess::rows());
  const Array y = jit(shard_map(f, {.mesh = multiprocess::everywhere(), .in_specs = P("x"), .out_specs = P("x")}))(x);
  std::cout << "last: " << y.addressable_shards().back().data << std::endl;
}

// What stays in a process is not copied.
void permuted_in_place() {
  const auto data_of = [](const Array& array) {
    std::set<const void*> all;
    for (const Buffer& shard : detail::concrete(array).wait().shards) {
      if (shard) all.insert(shard.data());
    }
    return all;
  };
  const Array x = device_put(numbers({8, 3000}), multiprocess::rows());
  lax::Permutation ring;
  for (int i = 0; i < 8; ++i) ring.emplace_back(i, (i + 1) % 8);
  const auto shift = [&](Array v) { return lax::ppermute(v, "x", ring); };
  const Array y =
      jit(shard_map(shift, {.mesh = multiprocess::everywhere(), .in_specs = P("x"), .out_specs = P("x")}))(x);
  std::set<const void*> shared = data_of(x);
  std::erase_if(shared, [&](const void* data) { return !data_of(y).contains(data); });
  std::cout << "shared: " << shared.size() << " of " << data_of(y).size() << std::endl;
}

const Registered kRingOfMany("ring_of_many", ring_of_many);
const Registered kOneWay("one_way", one_way);
const Registered kPermutes("permutes", permutes);
const Registered kPermutedInPlace("permuted_in_place", permuted_in_place);
const Registered kManyShards("many_shards", many_shards);
const Registered kPartitioned("partitioned", partitioned);
const Registered kCollectives("collectives", collectives);
const Registered kLoops("loops", loops);
const Registered kWays("ways", ways);
const Registered kGatheredSlices("gathered_slices", gathered_slices);
const Registered kMoves("moves", moves);
const Registered kReductions("reductions", reductions);
const Registered kLargeSums("large_sums", large_sums);

void expect_same_by_mpirun(const std::string& program) {
  const std::vector<Outcome> alone = multiprocess::run({program, {8}});
  ASSERT_EQ(alone[0].code, 0) << alone[0].output;
  for (const std::vector<int>& layout : {std::vector{5, 3}, std::vector{2, 1, 3, 2}}) {
    const Job job{.program = program, .devices = layout, .env = {{"SHOAL_TRANSPORT", "mpi"}}};
    for (const Outcome& outcome : multiprocess::run_by_mpirun(job)) {
      EXPECT_EQ(outcome.code, 0) << layout.size() << " processes";
      EXPECT_EQ(outcome.output, alone[0].output) << layout.size() << " processes";
    }
  }
}

class Layouts : public testing::TestWithParam<const char*> {};

TEST_P(Layouts, GiveTheSameBits) { multiprocess::expect_same(GetParam(), multiprocess::kLayouts); }

TEST_P(Layouts, GiveTheSameBitsOverMpi) { expect_same_by_mpirun(GetParam()); }

TEST(Layouts, DevicesGoDifferentWays) { multiprocess::expect_same("ways", multiprocess::kLayoutsOfColumns); }

// Processes with devices on some ways in common wait for each other on these alone.
TEST(Layouts, WaysThatProcessesShareInPartAreRefused) {
  for (const Outcome& outcome : multiprocess::run({"ways", {5, 3}})) {
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.output, testing::HasSubstr("in which devices go different ways"));
  }
}

TEST(Layouts, CallsAreMadeWhereDevicesComeThere) {
  const std::vector<Outcome> outcomes = multiprocess::run({"told_on_ways", {4, 4}});
  const std::vector<std::string> want = {
      "trip [2.]\ntrip [3.]\ntrip [1.5]\nasked [3.]\n",
      "trip [4.]\ntrip [5.]\ntrip [6.]\ntrip [7.]\ntrip [2.]\ntrip [2.5]\ntrip [3.]\ntrip [3.5]\n"
      "trip [1.25]\ntrip [1.5]\ntrip [1.75]\nasked [4.]\nasked [5.]\nasked [6.]\nasked [7.]\n"};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(outcomes[i].code, 0);
    EXPECT_THAT(outcomes[i].output, testing::StartsWith(want[i]));
    EXPECT_THAT(outcomes[i].output, testing::HasSubstr("13.75  15.    15.625 16.75  17.875]"));
  }
}

TEST(Layouts, ManyShards) { multiprocess::expect_same("many_shards", {{64, 64}, {43, 43, 42}}); }

INSTANTIATE_TEST_SUITE_P(Programs, Layouts,
                         testing::Values("partitioned", "collectives", "loops", "gathered_slices", "permutes", "moves",
                                         "reductions", "large_sums"));

TEST(Layouts, RingOfMany) { multiprocess::expect_same("ring_of_many", {{300, 300, 300}}); }

TEST(Layouts, ManyMessagesArriveThoughTheirSenderDoesNothingMore) {
  for (const std::string transport : {"shm", "socket"}) {
    const std::vector<Outcome> outcomes =
        multiprocess::run({.program = "one_way", .devices = {300, 300, 300}, .env = {{"SHOAL_TRANSPORT", transport}}});
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(outcomes[i].code, 0) << outcomes[i].output;
      EXPECT_EQ(multiprocess::told(outcomes[i], "last"), i == 2 ? "[299.]" : "[0.]") << transport;
    }
  }
}

TEST(Layouts, PermutesMoveOnlyWhatComesFromElsewhere) {
  for (const multiprocess::Layout& layout : multiprocess::kLayouts) {
    const std::vector<Outcome> outcomes = multiprocess::run({"permuted_in_place", layout});
    for (std::size_t i = 0; i < layout.size(); ++i) {
      EXPECT_EQ(outcomes[i].code, 0) << outcomes[i].output;
      EXPECT_EQ(multiprocess::told(outcomes[i], "shared"),
                std::to_string(layout[i] - 1) + " of " + std::to_string(layout[i]));
    }
  }
}

}  // namespace
}  // namespace shoal
