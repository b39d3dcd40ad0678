// pmap over processes: each passes the slices of its own devices, and gets theirs of the results.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::kEvenLayouts;
using multiprocess::kLayouts;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::tell;
using multiprocess::told;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The positions in `list` of devices of this process.
std::vector<int> positions_here(const std::vector<Device>& list) {
  std::vector<int> positions;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].process_index == process_index()) positions.push_back(static_cast<int>(i));
  }
  return positions;
}

// Of an array with a slice for every `per` devices of `list`, the slices of this process.
Array mine(const Array& whole, int dim = 0, const std::vector<Device>& list = devices(), int per = 1) {
  std::vector<std::int32_t> slices;
  for (const int position : positions_here(list)) {
    if (position % per == 0) slices.push_back(position / per);
  }
  return take(whole, array(slices), {.axis = dim});
}

// Prints the slices of all processes together, in the order of the devices.
void print_all(const std::string& name, const Array& slices, int dim = 0) {
  std::vector<PartitionEntry> entries(static_cast<std::size_t>(dim) + 1);
  entries.back() = PartitionEntry("all");
  const NamedSharding split(make_mesh({device_count()}, {"all"}), PartitionSpec(entries));
  print_bits(name, multihost::to_host(make_array_from_process_local_data(split, slices)));
}

// ---- The same bits however devices are divided.

void pmaps() {
  const PmapOptions over_i{.axis_name = "i"};
  const Array x = mine(numbers({8, 16, 3}));
  const auto each = [&](const std::string& name, const std::function<Array(Array)>& f) {
    print_all(name, pmap(f, over_i)(x));
  };
  each("elementwise", [](Array v) { return 2 * sin(v) + 1; });
  each("psum", [](Array v) { return v / lax::psum(v, "i"); });
  each("pmean", [](Array v) { return v - lax::pmean(v, "i"); });
  each("pmax", [](Array v) { return v + lax::pmax(v, "i"); });
  each("axis_index", [](Array v) { return v + lax::axis_index("i") + lax::axis_size("i"); });
  each("ppermute", [](Array v) { return lax::ppermute(v, "i", {{0, 7}, {7, 3}, {3, 4}, {4, 0}}); });
  each("all_gather", [](Array v) { return lax::all_gather(v, "i"); });
  each("psum_scatter", [](Array v) { return lax::psum_scatter(v, "i", {.tiled = true}); });
  each("all_to_all",
       [](Array v) { return lax::all_to_all(v, "i", {.split_axis = 0, .concat_axis = 0, .tiled = true}); });
  each("random numbers", [](Array v) {
    const Array own = random::fold_in(random::key(3), lax::axis_index("i"));
    return v + random::normal(own, v.shape()) * random::gamma(own, 2.5F);
  });
  const Array keys = random::wrap_key_data(mine(random::key_data(random::split(random::key(5), 8))));
  print_all("random keys",
            pmap([](Array key) { return random::uniform(key, {3}) + lax::axis_index("i"); }, over_i)(keys));
  each("groups", [](Array v) { return lax::psum(v, "i", {.axis_index_groups = {{0, 1, 2, 3}, {4, 5, 6, 7}}}); });

  print_all("in_axes 1, out_axes 2",
            pmap([](Array v) { return v * lax::psum(v, "i"); },
                 {.axis_name = "i", .in_axes = 1, .out_axes = 2})(mine(numbers({5, 8, 3}), 1)),
            2);
  const auto add = [](Array v, Array w) { return v + w * lax::psum(w, "i"); };
  print_all("a number for all", pmap(add, {.axis_name = "i", .in_axes = {0, none}})(x, 2.5F));
  print_all("an array for all", pmap(add, {.axis_name = "i", .in_axes = {0, none}})(x, numbers({16, 3})));
  const auto power = [](Array v, int n) {
    for (int k = 1; k < n; ++k) v = v * lax::psum(v, "i");
    return v;
  };
  print_all("static 3", pmap(power, over_i)(x, 3));
  const Array captured = numbers({3});
  each("captured", [&](Array v) { return lax::psum(v, "i") * captured; });
  print_all("axis_size", pmap([] { return lax::axis_index("i") * 2; }, {.axis_name = "i", .axis_size = 8})());

  const auto tree = pmap(
      [](const std::map<std::string, Array>& in) {
        return std::tuple{in.at("a") + 1, lax::psum(in.at("b"), "i")};
      },
      {.axis_name = "i", .out_axes = {0, none}});
  const auto [first, second] = tree(std::map<std::string, Array>{{"a", x}, {"b", mine(numbers({8, 2}))}});
  print_all("tree: slices", first);
  print_bits("tree: equal everywhere", second);

  // Results are arguments again, and other programs of this process may use them.
  const auto next = pmap(
      [](Array v) {
        return lax::ppermute(v, "i", {{0, 1}, {1, 2}, {2, 3}, {3, 4}}) + 0.5F * v;
      },
      over_i);
  Array y = x;
  for (int step = 0; step < 5; ++step) y = next(y);
  print_all("five steps", y);
  print_all("and by itself", jit([](Array v) { return v * 2 + 1; })(y));
}
const Registered kPmaps("pmaps", pmaps);

TEST(ProcessPmap, GivesTheSameBits) { multiprocess::expect_same("pmaps", kLayouts); }

// Slices in another order of the devices than that of their ids.
void pmaps_in_order() {
  std::vector<Device> reversed = devices();
  std::ranges::reverse(reversed);
  std::vector<Device> interleaved;
  for (int i = 0; i < 8; ++i) interleaved.push_back(devices()[static_cast<std::size_t>(i * 3 % 8)]);
  const auto f = [](Array v) {
    return lax::ppermute(v, "i", {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}) + lax::psum(v, "i");
  };
  for (const auto& [name, list] : {std::pair{"reversed", reversed}, std::pair{"interleaved", interleaved}}) {
    const Array y = pmap(f, {.axis_name = "i", .devices = list})(mine(numbers({8, 3}), 0, list));
    // As the list says, not as devices do.
    const NamedSharding split(Mesh(list, {8}, {"all"}), P("all"));
    print_bits(name, multihost::to_host(make_array_from_process_local_data(split, y)));
  }
}
const Registered kPmapsInOrder("pmaps_in_order", pmaps_in_order);

TEST(ProcessPmap, TakesDevicesInAnyOrder) { multiprocess::expect_same("pmaps_in_order", kLayouts); }

// Pairs of devices, which belong to one process.
void nested_pmaps() {
  const auto normalise = [](Array v) {
    return std::tuple{v / lax::psum(v, "rows"), v / lax::psum(v, "cols"), v / lax::psum(v, {"rows", "cols"})};
  };
  const auto f = pmap(pmap(normalise, {.axis_name = "cols"}), {.axis_name = "rows"});
  const Array x = mine(numbers({4, 2, 3}), 0, devices(), 2);
  for (int call = 0; call < 2; ++call) {
    const auto [by_row, by_col, by_all] = f(x);
    for (const Array& y : {by_row, by_col, by_all}) print_bits("nested", multihost::process_allgather(y, true));
  }
  const auto inner = [](Array v) {
    return lax::psum(v, "cols") + lax::axis_index("rows") * 10 + lax::axis_index("cols");
  };
  const Array z = pmap(jit(pmap(inner, {.axis_name = "cols", .out_axes = 1})), {.axis_name = "rows", .out_axes = 1})(x);
  print_bits("inner out_axes", multihost::to_host(make_array_from_process_local_data(
                                   NamedSharding(make_mesh({4, 2}, {"rows", "cols"}), P(none, "rows")), z)));
}
const Registered kNestedPmaps("nested_pmaps", nested_pmaps);

TEST(ProcessPmap, Nested) { multiprocess::expect_same("nested_pmaps", kEvenLayouts); }

// ---- Some of the processes, and one.

void some_processes() {
  std::vector<Device> first;
  for (const Device& device : devices()) {
    if (device.process_index < 2) first.push_back(device);
  }
  const auto f =
      pmap([](Array v) { return lax::psum(v, "i") + lax::axis_index("i"); }, {.axis_name = "i", .devices = first});
  if (process_index() < 2) {
    std::cout << "first: " << f(mine(arange(8.0F), 0, first)) << std::endl;
    const auto sum = [](Array v) { return lax::psum(v, {"rows", "cols"}); };
    const auto nested = pmap(pmap(sum, {.axis_name = "cols"}), {.axis_name = "rows", .devices = first});
    std::cout << "nested: " << repr(nested(full({1, 2}, static_cast<float>(process_index() + 1)))) << std::endl;
  } else {
    tell("first", [&] { f(ones({2})); });
  }
  const auto local = pmap([](Array v) { return lax::psum(v, "i"); }, {.axis_name = "i", .devices = local_devices()});
  std::cout << "local: " << local(full({2}, static_cast<float>(process_index() + 1))) << std::endl;
  // Inside jit arrays are whole, and devices are those of this process.
  const auto jitted =
      jit([](Array v) { return pmap([](Array w) { return lax::psum(w, "i"); }, {.axis_name = "i"})(v); });
  std::cout << "jitted: " << jitted(arange(2.0F) + process_index()) << std::endl;
  // What is not run has the slices of all processes; a result is that of this one.
  const auto g = pmap([](Array v) { return v + lax::psum(v, "i"); }, {.axis_name = "i", .out_axes = 1});
  std::cout << "eval_shape: " << to_string(g.eval_shape(ones({2, 3})).shape()) << std::endl;
  std::cout << "lower: " << to_string(g.lower(ones({2, 3})).out_info().shape()) << std::endl;
  const Array y = g(ones({2, 3}));
  std::cout << "result: " << to_string(y.shape()) << " " << y.sharding() << std::endl;
}
const Registered kSomeProcesses("some_processes", some_processes);

TEST(ProcessPmap, OverSomeProcesses) {
  const std::vector<Outcome> outcomes = multiprocess::run({"some_processes", {2, 2, 2}});
  for (std::size_t p = 0; p < outcomes.size(); ++p) {
    EXPECT_EQ(outcomes[p].code, 0) << outcomes[p].output;
    const std::string sum = std::to_string(2 * (p + 1)) + ".";
    EXPECT_EQ(told(outcomes[p], "local"), "[" + sum + " " + sum + "]");
    const std::string pair = std::to_string(2 * p + 1) + ".";
    EXPECT_EQ(told(outcomes[p], "jitted"), "[" + pair + " " + pair + "]");
    EXPECT_EQ(told(outcomes[p], "eval_shape"), "(3, 2)");
    EXPECT_EQ(told(outcomes[p], "lower"), "(3, 6)");
    EXPECT_EQ(told(outcomes[p], "result"),
              "(3, 2) NamedSharding(mesh=Mesh('i': 2, axis_types=(Auto,)), spec=P(None, 'i'), memory_kind=device)");
  }
  EXPECT_EQ(told(outcomes[0], "first"), "[6. 7.]");
  EXPECT_EQ(told(outcomes[1], "first"), "[8. 9.]");
  EXPECT_THAT(told(outcomes[2], "first"),
              AllOf(StartsWith("InvalidArgument pmap: devices"), HasSubstr("other processes")));
  EXPECT_EQ(told(outcomes[0], "nested"), "Array([[6., 6.]], dtype=float32)");
  EXPECT_EQ(told(outcomes[1], "nested"), "Array([[6., 6.]], dtype=float32)");
}

// ---- Mistakes.

void pmap_mistakes() {
  const auto f = pmap([](Array v) { return lax::psum(v, "i"); }, {.axis_name = "i"});
  tell("three", [&] { f(ones({3})); });
  tell("two", [&] { f(ones({2})); });
  tell("eight", [&] { f(ones({8})); });
  const Mesh mesh = make_mesh({8}, {"x"});
  tell("global", [&] { f(device_put(ones({8}), NamedSharding(mesh, P("x")))); });
  tell("sizes", [&] { pmap([](Array v, Array w) { return v + w; })(ones({4}), ones({3})); });
  tell("axis_size", [&] { pmap([](Array v) { return v; }, {.axis_size = 3})(ones({4})); });
  tell("axis_size and slices", [&] { pmap([](Array v) { return v; }, {.axis_size = 8})(ones({3})); });
  std::vector<Device> alternating;
  for (std::size_t i = 0; i < 4; ++i) alternating.insert(alternating.end(), {devices()[i], devices()[i + 4]});
  const auto pairs = pmap(pmap([](Array v) { return v; }, {.axis_name = "j"}), {.devices = alternating});
  tell("rows", [&] { pairs(ones({2, 2})); });
  // The job goes on.
  std::cout << "sum: " << f(ones({4})) << std::endl;
  tell("number", [&] {
    const auto scaled =
        pmap([](Array v, Array by) { return lax::psum(v * by, "i"); }, {.axis_name = "i", .in_axes = {0, none}});
    multihost::sync_global_devices("before the numbers");
    scaled(ones({4}), static_cast<float>(process_index())).block_until_ready();
  });
}
const Registered kPmapMistakes("pmap_mistakes", pmap_mistakes);

TEST(ProcessPmap, MistakesAreTold) {
  for (const Outcome& outcome : multiprocess::run({"pmap_mistakes", {4, 4}})) {
    const auto expect = [&](const std::string& what, const std::string& part) {
      EXPECT_THAT(told(outcome, what), AllOf(StartsWith("InvalidArgument pmap: "), HasSubstr(part)));
    };
    expect("three", "this one has 4, but passes 3 slices");
    expect("two", "this one has 4, but passes 2 slices, which take 2");
    expect("eight", "this one has 4, but passes 8 slices");
    expect("global", "argument [0] float32[8] lies on devices of several processes");
    expect("sizes", "one size");
    expect("axis_size", "axis_size is 3, but there are 8 devices, 4 of them of this process");
    expect("axis_size and slices", "the part of axis_size for this process is 4");
    expect("rows", "not every 2 devices are of one process");
    EXPECT_EQ(told(outcome, "sum"), "[8. 8. 8. 8.]");
    EXPECT_THAT(told(outcome, "number"), testing::AnyOf(StartsWith("Disagreement"), StartsWith("DistributedError")));
  }
}

}  // namespace
}  // namespace shoal
