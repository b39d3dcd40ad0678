#include "shoal/checkpoints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/test_folder.h"
#include "checkpoints/index.h"
#include "checkpoints/safetensors.h"
#include "core/host_allocator.h"
#include "frontend/array/array_impl.h"
#include "shoal/array.h"
#include "shoal/callback.h"
#include "shoal/device.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/make_array.h"
#include "shoal/mesh.h"
#include "shoal/numpy.h"
#include "shoal/ops.h"
#include "shoal/partition_spec.h"
#include "shoal/random.h"
#include "shoal/sharding.h"
#include "shoal/tree.h"

namespace shoal::checkpoints {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Devices : public testing::Environment {
 public:
  void SetUp() override { set_num_cpu_devices(8); }
};
testing::Environment* const kDevices = testing::AddGlobalTestEnvironment(new Devices);

using Folder = test_support::TemporaryFolder;

std::string text_of_file(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}
void write_file_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// The elements of an array as bytes, whatever the dtype.
std::string bits_of(const Array& array) {
  const Buffer whole = to_host(shoal::detail::concrete(array));
  return {static_cast<const char*>(whole.data()), whole.size_bytes()};
}

template <class F>
std::string what_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Array bits_as(Dtype dtype, const Shape& shape) {
  const std::int64_t count = num_elements(shape);
  if (dtype == bool_) return (arange(count) % 3 == 0).reshape(shape);
  if (is_complex(dtype)) {
    const Array x = arange(count).astype(real_dtype(dtype)).reshape(shape);
    return lax::complex(x, 1 - 2 * x).astype(dtype);
  }
  return (arange(count) * 37 % 101 - (is_signed(dtype) ? 50 : 0)).astype(dtype).reshape(shape);
}

NamedSharding on(const Shape& sizes, const std::vector<std::string>& names, PartitionSpec spec) {
  return NamedSharding(make_mesh(sizes, names), std::move(spec));
}

std::vector<Sharding> layouts() {
  return {SingleDeviceSharding(local_devices()[3]),
          on({2, 4}, {"x", "y"}, P("x", "y")),
          on({2, 4}, {"x", "y"}, P("y", "x")),
          on({2, 4}, {"x", "y"}, P(none, {"y", "x"})),
          on({2, 4}, {"x", "y"}, P("x")),
          on({8}, {"x"}, P("x")),
          on({8}, {"x"}, P(none, "x")),
          on({3}, {"x"}, P("x")),
          on({6}, {"x"}, P(none, "x")),
          on({2, 2}, {"x", "y"}, P("y")),
          on({4}, {"x"}, P()),
          NamedSharding(make_mesh({2, 4}, {"x", "y"}), P("y"), {.memory_kind = kPinnedHostMemory})};
}

TEST(Checkpoints, FromAnyLayoutToAnyOther) {
  const Array whole = arange(24 * 48).astype(float32).reshape(24, 48);
  const Folder folder;
  std::int64_t step = 0;
  for (const Sharding& from : layouts()) {
    save(folder, ++step, device_put(whole, from));
    for (const Sharding& to : layouts()) {
      const Array like = device_put(zeros({24, 48}), to);
      const Array got = restore(folder, like);
      EXPECT_EQ(got.sharding(), to);
      EXPECT_TRUE(got.committed());
      EXPECT_EQ(bits_of(got), bits_of(whole)) << from << " to " << to;
    }
  }
}

TEST(Checkpoints, EveryDtype) {
  std::map<std::string, Array> tree;
  std::map<std::string, Array> like;
  const NamedSharding from = on({2, 4}, {"x", "y"}, P("x", "y"));
  const NamedSharding to = on({6}, {"x"}, P(none, "x"));
  for (int i = 0; i < kNumDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    tree[std::string(name_of(dtype))] = device_put(bits_as(dtype, {6, 24}), from);
    like[std::string(name_of(dtype))] = device_put(zeros({6, 24}, {.dtype = dtype}), to);
  }
  for (const auto& [dtype, impl] : {std::pair{key_fry, "threefry2x32"}, {key_rbg, "rbg"}, {key_urbg, "unsafe_rbg"}}) {
    const Array keys = random::split(random::key(7, impl), {6, 24});
    tree[std::string(name_of(dtype))] = device_put(keys, from);
    like[std::string(name_of(dtype))] = ShapeDtypeStruct{.shape = {6, 24}, .dtype = dtype, .sharding = to};
  }
  const Folder folder;
  save(folder, 3, tree);
  const auto got = restore(folder, like);
  for (const auto& [name, array] : tree) {
    EXPECT_EQ(got.at(name).dtype(), array.dtype());
    EXPECT_EQ(got.at(name).sharding(), Sharding(to)) << name;
    EXPECT_EQ(bits_of(got.at(name)), bits_of(array)) << name;
  }
  // The same as other tools find them.
  export_safetensors(folder, folder / "all.safetensors");
  for (const auto& [name, array] : load_safetensors(folder / "all.safetensors")) {
    EXPECT_EQ(bits_of(array), bits_of(tree.at(name))) << name;
    const bool is_itself = !is_key(tree.at(name).dtype()) && tree.at(name).dtype() != complex128;
    EXPECT_EQ(is_itself, array.dtype() == tree.at(name).dtype()) << name;
  }
}

struct Layer {
  Array w;
  Array b;
};
auto shoal_tree(Layer& layer) { return fields(field("w", layer.w), field("b", layer.b)); }
struct State {
  std::vector<Layer> layers;
  std::map<std::string, Array> moments;
  std::optional<Array> ema;
  std::pair<Array, Array> counters;
};

State state_of(double scale) {
  const NamedSharding rows = on({2, 4}, {"x", "y"}, P("x"));
  const Array x = device_put(scale * arange(32.0).reshape(8, 4), rows);
  return {{{x, x.sum(0)}, {x + 1, device_put(zeros({0, 4}), rows)}},
          {{"a/b", x * 2}, {"c", full({}, scale)}},
          Array(scale),
          {arange(3), random::key(5)}};
}

TEST(Checkpoints, TreesWithMetadata) {
  const Folder folder;
  Manager manager(folder / "run/one");
  EXPECT_EQ(manager.latest_step(), std::nullopt);
  EXPECT_TRUE(manager.save(10, state_of(1), {.metadata = R"({"epoch": 2, "names": ["a", "ü"]})"}));
  EXPECT_TRUE(manager.save(20, state_of(2)));
  manager.wait();
  EXPECT_THAT(manager.all_steps(), ElementsAre(10, 20));
  EXPECT_EQ(manager.latest_step(), 20);
  EXPECT_EQ(manager.metadata(10), R"({"epoch":2,"names":["a","ü"]})");
  EXPECT_EQ(manager.metadata(), "{}");

  for (const auto& [step, scale] : {std::pair{10, 1.0}, {20, 2.0}}) {
    const State got = manager.restore(state_of(0), {.step = step});
    const State expected = state_of(scale);
    const std::vector<Array> leaves = tree::flatten(got);
    const std::vector<Array> others = tree::flatten(expected);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(bits_of(leaves[i]), bits_of(others[i])) << i;
      EXPECT_EQ(leaves[i].weak_type(), others[i].weak_type()) << i;
      EXPECT_EQ(leaves[i].committed(), others[i].committed()) << i;
      EXPECT_EQ(leaves[i].sharding(), others[i].sharding()) << i;
    }
  }

  const CheckpointInfo info = describe(folder / "run/one", 10);
  EXPECT_EQ(info.step, 10);
  EXPECT_EQ(info.processes, 1);
  std::vector<std::string> paths;
  for (const StoredArrayInfo& array : info.arrays) paths.push_back(array.path);
  EXPECT_THAT(paths,
              ElementsAre(".0[0].w", ".0[0].b", ".0[1].w", ".0[1].b", ".1['a/b']", ".1['c']", ".2", ".3[0]", ".3[1]"));
  EXPECT_EQ(info.arrays[0].boxes, 2);
  EXPECT_EQ(info.arrays[0].bytes, 8 * 4 * 4);
  EXPECT_EQ(info.arrays[3].boxes, 0);
  EXPECT_THAT(info.arrays[0].sharding, HasSubstr(R"("spec":[["x"]])"));
  verify(folder / "run/one");
}

TEST(Checkpoints, WhatAnotherToolWouldRead) {
  const Folder folder;
  save(folder, 1, state_of(1));
  const std::string text = text_of_file(folder / "step_00000001/process_00000.safetensors");
  std::uint64_t size = 0;
  std::memcpy(&size, text.data(), sizeof size);
  const auto header = nlohmann::json::parse(text.substr(8, size));
  EXPECT_EQ(size % 8, 0U);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    ranges.emplace_back(tensor["data_offsets"][0], tensor["data_offsets"][1]);
  }
  std::ranges::sort(ranges);
  std::int64_t end = 0;
  for (const auto& [begin, stop] : ranges) {
    EXPECT_EQ(begin, end);  // No gaps, as the format wants it.
    end = stop;
  }
  EXPECT_EQ(8 + size + static_cast<std::uint64_t>(end), text.size());
  EXPECT_EQ(header[".0[0].w [0:4, 0:4]"]["dtype"], "F32");
  EXPECT_EQ(header[".3[1]"], nlohmann::json::parse(fmt::format(R"({{"dtype":"U32","shape":[2],"data_offsets":{}}})",
                                                               header[".3[1]"]["data_offsets"].dump())));
  EXPECT_EQ(header["__metadata__"]["step"], "1");
}

// ---- In the background.

TEST(Checkpoints, DonatedArraysKeepTheirOldValues) {
  const Folder folder;
  const NamedSharding rows = on({8}, {"x"}, P("x"));
  Manager manager(folder);
  Array x = device_put(arange(1 << 20).astype(float32).reshape(1024, 1024), rows);
  const auto step = jit([](Array v) { return v * 2 + 1; }, {.donate_argnums = {0}});
  x = step(x);
  std::vector<Array> expected;
  for (int i = 0; i < 6; ++i) {
    expected.push_back((x + 0).block_until_ready());
    manager.save(i, x);
    x = step(x);
    x = step(x);
    x.block_until_ready();
    if (i % 2 == 0) manager.wait();
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(bits_of(manager.restore(x, {.step = static_cast<std::int64_t>(i)})), bits_of(expected[i])) << i;
  }
  Array gone = x + 1;
  const std::string bits = bits_of(gone);
  manager.save(10, gone);
  gone.delete_();
  EXPECT_EQ(bits_of(manager.restore(x)), bits);
  EXPECT_THAT(what_of([&] { manager.save(11, gone); }), HasSubstr("array"));
}

// An array that is not computed before `promise` is set.
constexpr std::int64_t kLong = 1 << 21;  // So many elements are not computed in the caller's thread.
Array held_back(const std::shared_future<void>& until) {
  return jit([until](Array x) {
    return pure_callback(
        [until](const Array& v) {
          until.wait();
          return v;
        },
        Array(ShapeDtypeStruct{.shape = {kLong}}))(x);
  })(ones({kLong}));
}

TEST(Checkpoints, SavesThatAreDueMeanwhile) {
  const Folder folder;
  {
    std::promise<void> promise;
    Manager manager(folder, {.when_busy = WhenBusy::kSkip});
    const Array slow = held_back(promise.get_future().share());
    EXPECT_TRUE(manager.save(1, slow));
    EXPECT_FALSE(manager.save(2, slow));
    EXPECT_FALSE(std::filesystem::exists(folder / "step_00000001"));
    promise.set_value();
    manager.wait();
    EXPECT_TRUE(manager.save(3, slow));
  }
  EXPECT_THAT(steps(folder), ElementsAre(1, 3));
  std::promise<void> promise;
  Manager manager(folder);
  const Array slow = held_back(promise.get_future().share());
  EXPECT_TRUE(manager.save(4, slow));
  auto later = std::async(std::launch::async, [&] { return manager.save(5, slow); });
  EXPECT_EQ(later.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  promise.set_value();
  EXPECT_TRUE(later.get());
  EXPECT_THAT(manager.all_steps(), ElementsAre(1, 3, 4, 5));
}

TEST(Checkpoints, ReturnsBeforeItIsWritten) {
  const Folder folder;
  Manager manager(folder);
  const Array x = device_put(ones({64, 1 << 18}), on({8}, {"x"}, P("x"))).block_until_ready();
  std::vector<Array> many(200, x[{range(0, 8), range(0, 64)}]);
  many.push_back(x);
  manager.save(0, ones({1}));
  manager.wait();  // The thread is there.
  auto least = std::chrono::nanoseconds::max();
  for (int i = 1; i < 4; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    manager.save(i, many);
    least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - begin);
    EXPECT_FALSE(std::filesystem::exists(folder / fmt::format("step_{:08}", i)));
    manager.wait();
  }
  EXPECT_LT(least, std::chrono::milliseconds(2));
}

TEST(Checkpoints, ErrorsAreToldByTheNextCall) {
  const Folder folder;
  write_file_text(folder / "file", "");
  Manager manager(folder / "file");
  manager.save(1, ones({4}));
  const std::string text = what_of([&] { manager.wait(); });
  EXPECT_THAT(text, AllOf(HasSubstr("checkpoints::Manager::save: "), HasSubstr("file"), HasSubstr("Not a directory"),
                          HasSubstr("checkpoints_test.cc")));
  manager.wait();  // It was told.
  manager.save(2, ones({4}));
  while (what_of([&] { manager.save(3, ones({4})); }) == "nothing was thrown") {
  }

  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel level, std::string_view said) {
    if (level == LogLevel::kWarning) warnings.emplace_back(said);
  });
  {
    Manager other(folder / "file");
    other.save(1, ones({4}));
  }
  set_log_sink({});
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("a checkpoint was not saved"), HasSubstr("Not a directory"))));

  // The array's own error.
  Manager fine(folder / "fine");
  const Array bad = jit([](Array x) {
    return pure_callback([](const Array&) -> Array { throw std::runtime_error("no such luck"); },
                         Array(ShapeDtypeStruct{.shape = {4}}))(x);
  })(ones({4}));
  fine.save(1, bad);
  EXPECT_THROW(fine.wait(), std::exception);
  fine.save(1, ones({4}));
  fine.wait();
  EXPECT_THAT(fine.all_steps(), ElementsAre(1));
}

TEST(Checkpoints, FolderThatVanishes) {
  const Folder folder;
  Manager manager(folder / "run");
  manager.save(1, ones({4}));
  manager.wait();
  std::filesystem::remove_all(folder / "run");
  EXPECT_THAT(what_of([&] { manager.restore(ones({4})); }), HasSubstr("there is no checkpoint in"));
  std::promise<void> promise;
  manager.save(2, held_back(promise.get_future().share()));
  while (!std::filesystem::exists(folder / "run")) usleep(100);
  usleep(2000);
  // The thread that saves may make a file meanwhile.
  for (std::error_code error; std::filesystem::exists(folder / "run");) {
    std::filesystem::remove_all(folder / "run", error);
  }
  promise.set_value();
  EXPECT_THAT(what_of([&] { manager.wait(); }), HasSubstr("No such file or directory"));
}

TEST(Checkpoints, WaitsWhereMemoryIsShort) {
  const Folder folder;
  Manager manager(folder);
  const Array x = ones({1 << 20}).block_until_ready();
  HostAllocator& memory = HostAllocator::shared();
  const std::size_t limit = memory.limit();
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said = text; });
  memory.set_limit(memory.bytes_in_use() + (1 << 20));
  manager.save(1, x);
  memory.set_limit(limit);
  set_log_sink({});
  EXPECT_TRUE(std::filesystem::exists(folder / "step_00000001"));
  EXPECT_THAT(said, HasSubstr("waits until step 1 is written"));
}

TEST(Checkpoints, KeepsTheLast) {
  const Folder folder;
  Manager manager(folder, {.keep_last = 2});
  for (const int step : {3, 5, 1000000000, 7}) manager.save(step, full({2}, step));
  EXPECT_THAT(manager.all_steps(), ElementsAre(7, 1000000000));
  EXPECT_THAT(what_of([&] {
                manager.save(7, ones({2}));
                manager.wait();
              }),
              HasSubstr("step 7 has a checkpoint in"));
  Manager replacing(folder, {.overwrite = true});
  replacing.save(7, full({2}, 70));
  EXPECT_EQ(replacing.restore(full({2}, 0), {.step = 7}).to_vector<int>(), (std::vector<int>{70, 70}));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre(".lock", "step_00000007", "step_1000000000"));
  // What a job left that was killed goes with the next save.
  std::filesystem::create_directories(folder / "step_00000009.tmp-1");
  std::filesystem::create_directories(folder / "step_00000005.removed-1");
  std::filesystem::create_directories(folder / "mine.tmp-1");
  save(folder, 11, ones({2}));
  EXPECT_FALSE(std::filesystem::exists(folder / "step_00000009.tmp-1"));
  EXPECT_FALSE(std::filesystem::exists(folder / "step_00000005.removed-1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.tmp-1"));
}

// ---- Damage.

TEST(Checkpoints, EveryFlippedBitIsTold) {
  const Folder folder;
  const std::map<std::string, Array> tree{
      {"a", device_put(arange(64).reshape(8, 8), on({2, 4}, {"x", "y"}, P("x", "y")))},
      {"b", ones({3}, {.dtype = bfloat16})}};
  save(folder, 1, tree);
  for (const std::string name : {"index.json", "process_00000.safetensors"}) {
    const std::filesystem::path file = folder / ("step_00000001/" + name);
    const std::string good = text_of_file(file);
    for (std::size_t i = 0; i < good.size(); i += 5) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      write_file_text(file, bad);
      EXPECT_THROW(restore(folder, tree), CheckpointError) << name << " " << i;
      EXPECT_THROW(verify(folder), CheckpointError) << name << " " << i;
    }
    write_file_text(file, good);
  }
  verify(folder);
  const std::filesystem::path file = folder / "step_00000001/process_00000.safetensors";
  std::string bad = text_of_file(file);
  bad.back() = static_cast<char>(bad.back() ^ 4);
  write_file_text(file, bad);
  const std::string text = what_of([&] { restore(folder, tree); });
  EXPECT_THAT(text, AllOf(HasSubstr("checkpoints::restore: "), HasSubstr("\"['b']\" is damaged"),
                          HasSubstr("process_00000.safetensors"), HasSubstr("checkpoints_test.cc")));
  EXPECT_EQ(bits_of(restore(folder, std::map<std::string, Array>{{"a", tree.at("a")}}, {.partial = true}).at("a")),
            bits_of(tree.at("a")));
}

TEST(Checkpoints, FilesThatAreNotTheirOwn) {
  const Folder folder;
  const Array x = arange(100);
  save(folder, 1, x);
  save(folder, 2, x);
  const std::filesystem::path file = folder / "step_00000002/process_00000.safetensors";
  const std::string good = text_of_file(file);
  std::filesystem::copy_file(folder / "step_00000001/process_00000.safetensors", file,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(what_of([&] { restore(folder, x); }),
              AllOf(HasSubstr("\"array\""), HasSubstr("is of another run"), HasSubstr("process_00000.safetensors")));
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{100}, good.size() - 1}) {
    write_file_text(file, good.substr(0, size));
    EXPECT_THAT(what_of([&] { restore(folder, x); }),
                AllOf(HasSubstr("\"array\""), HasSubstr("process_00000.safetensors")));
  }
  EXPECT_THAT(what_of([&] { restore(folder, x); }), HasSubstr("cut short"));
  std::filesystem::remove(file);
  EXPECT_THAT(what_of([&] { restore(folder, x); }),
              AllOf(HasSubstr("\"array\""), HasSubstr("process_00000.safetensors"), HasSubstr("No such file")));
  EXPECT_EQ(bits_of(restore(folder, x, {.step = 1})), bits_of(x));
  std::filesystem::remove(folder / "step_00000002/index.json");
  EXPECT_THAT(what_of([&] { restore(folder, x); }), HasSubstr("index.json"));
}

// Indexes with a right checksum that no Shoal has written.
TEST(Checkpoints, IndexesOfOthers) {
  const Folder folder;
  save(folder, 1, std::map<std::string, Array>{{"a", arange(64).reshape(8, 8)}, {"b", ones({3})}});
  const std::string good = text_of_file(folder / "step_00000001/index.json");
  const std::string rest = good.substr(good.find('\n') + 1);
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = rest;
    const std::string letters = "0123456789-,[]{}\":ae";
    for (unsigned n = 0; n <= random() % 3; ++n) bad[random() % bad.size()] = letters[random() % letters.size()];
    bad = fmt::format("{{\"checksum\":\"{:016x}\",\n{}", checksum_of_bytes(bad.data(), bad.size()), bad);
    try {
      parse_index(bad, "index.json");
      ++read;
    } catch (const CheckpointError&) {
    }
  }
  EXPECT_LT(read, 2000);
  EXPECT_EQ(parse_index(good, "index.json").arrays.size(), 2U);
}

// ---- Mistakes.

TEST(Checkpoints, TreesThatDoNotFit) {
  const Folder folder;
  using Tree = std::map<std::string, Array>;
  save(folder, 4, Tree{{"a", ones({2, 3})}, {"b", ones({4})}});
  const auto text = [&](const Tree& like, const RestoreOptions& options = {}) {
    return what_of([&] { restore(folder, like, options); });
  };
  EXPECT_THAT(text({{"a", ones({3, 2})}, {"b", ones({4})}}),
              AllOf(HasSubstr("checkpoints::restore: ['a'] has shape (2, 3) in the checkpoint"),
                    HasSubstr("step_00000004\", but (3, 2) in the given tree")));
  EXPECT_THROW(restore(folder, Tree{{"a", ones({2, 3}, {.dtype = float16})}, {"b", ones({4})}}), TypeMismatch);
  EXPECT_THAT(text({{"a", ones({2, 3}, {.dtype = float16})}, {"b", ones({4})}}),
              AllOf(HasSubstr("['a'] has dtype float32 in"), HasSubstr("but float16 in the given tree")));
  EXPECT_THAT(text({{"a", ones({2, 3})}}), AllOf(HasSubstr("has ['b'], which the given tree does not have")));
  EXPECT_THAT(text({{"a", ones({2, 3})}}, {.partial = true}), "nothing was thrown");
  EXPECT_THAT(text({{"a", ones({2, 3})}, {"c", ones({4})}}),
              AllOf(HasSubstr("does not have ['c'], which the given tree has; it has ['b'] besides")));
  EXPECT_THAT(text({}, {.step = 5}), HasSubstr("there is no checkpoint of step 5 in"));
  EXPECT_THROW(restore(folder / "none", Tree()), CheckpointError);
  EXPECT_THAT(steps(folder / "none"), ElementsAre());
}

TEST(Checkpoints, Misuse) {
  const Folder folder;
  EXPECT_THAT(what_of([&] { Manager(folder, {.keep_last = 0}); }), HasSubstr("keep_last is 0"));
  Manager manager(folder);
  EXPECT_THAT(what_of([&] { manager.save(-1, ones({1})); }), HasSubstr("step is -1"));
  EXPECT_THAT(what_of([&] { manager.save(1, ones({1}), {.metadata = "{a"}); }), HasSubstr("metadata is no JSON"));
  EXPECT_THAT(what_of([&] { manager.save(1, std::vector<Array>{ones({1}), Array()}); }), HasSubstr("[1]"));
  EXPECT_THAT(what_of([&] { manager.save(1, std::vector<Array>{ShapeDtypeStruct{.shape = {1}}}); }), HasSubstr("[0]"));
  EXPECT_THAT(what_of([&] {
                jit([&](Array x) {
                  manager.save(1, x);
                  return x;
                })(ones({1}));
              }),
              HasSubstr("array"));
  EXPECT_THAT(what_of([&] { manager.metadata(); }), HasSubstr("there is no checkpoint in"));
  manager.wait();
  EXPECT_THAT(manager.all_steps(), ElementsAre());
}

// ---- Files of other tools.

TEST(Checkpoints, DottedNames) {
  EXPECT_EQ(dotted_name("['layers'][0].w"), "layers.0.w");
  EXPECT_EQ(dotted_name(".params['a.b']['c[d]'][12]"), "params.a.b.c[d].12");
  EXPECT_EQ(dotted_name("array"), "array");
  EXPECT_EQ(dotted_name("[\"it's\"]"), "it's");
  EXPECT_EQ(dotted_name("['"), "");
}

void write_tensor_file(const std::filesystem::path& file, const std::string& header, const std::string& data) {
  std::string size(8, '\0');
  const std::uint64_t bytes = header.size();
  std::memcpy(size.data(), &bytes, 8);
  write_file_text(file, size + header + data);
}

TEST(Checkpoints, FilesOfOtherTools) {
  const Folder folder;
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), 24);
  write_tensor_file(folder / "model-1.safetensors",
                    R"({"model.w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", bytes);
  write_tensor_file(folder / "model-2.safetensors",
                    R"({"__metadata__":{"format":"pt"},"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                    R"("model.b":{"dtype":"F32","shape":[],"data_offsets":[2,6]}})",
                    "ab" + bytes.substr(8, 4));
  write_file_text(folder / "model.safetensors.index.json",
                  R"({"weight_map":{"model.w":"model-1.safetensors","model.b":"model-2.safetensors",)"
                  R"("q":"model-2.safetensors"}})");
  EXPECT_EQ(load_safetensors(folder / "model-1.safetensors").at("model.w").to_vector<float>(), numbers);
  EXPECT_THAT(what_of([&] { load_safetensors(folder); }), HasSubstr("\"q\" is F8_E4M3(2,)"));

  const NamedSharding columns = on({3}, {"x"}, P(none, "x"));
  const Layer like{ShapeDtypeStruct{.shape = {2, 3}, .sharding = columns}, ShapeDtypeStruct{.shape = {}}};
  const LoadOptions options{.names = {{".w", "model.w"}, {".b", "model.b"}}, .partial = true};
  const Layer got = load_safetensors(folder, like, options);
  EXPECT_EQ(got.w.to_vector<float>(), numbers);
  EXPECT_EQ(got.w.sharding(), Sharding(columns));
  EXPECT_EQ(got.b.item<float>(), 3);
  EXPECT_THAT(what_of([&] { load_safetensors(folder, like); }),
              HasSubstr("does not have .w (as \"w\"), .b (as \"b\")"));
  EXPECT_THAT(what_of([&] {
                load_safetensors(folder, like, {.names = {{".x", "model.w"}}});
              }),
              HasSubstr("names has \".x\", which is no path of the given tree"));
  EXPECT_THROW(load_safetensors(folder, std::map<std::string, Array>{{"q", ones({2})}}), Unsupported);

  save_safetensors(folder / "mine.safetensors", {{"w", got.w}, {"n", arange(3)}});
  EXPECT_EQ(load_safetensors(folder / "mine.safetensors").at("w").to_vector<float>(), numbers);
  EXPECT_EQ(describe_safetensors(folder / "mine.safetensors").size(), 2U);
}

TEST(Checkpoints, DamagedTensorFiles) {
  const Folder folder;
  const auto refused = [&](const std::string& header, const std::string& data) {
    write_tensor_file(folder / "x.safetensors", header, data);
    return what_of([&] { load_safetensors(folder / "x.safetensors"); });
  };
  const auto is_refused = AllOf(HasSubstr("x.safetensors"), HasSubstr("is no safetensors file, or damaged"));
  EXPECT_THAT(refused("", ""), is_refused);
  EXPECT_THAT(refused("[]", ""), is_refused);
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234"), HasSubstr("cut short"));
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), is_refused);
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"), is_refused);
  EXPECT_THAT(refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""), is_refused);
  EXPECT_THAT(refused(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "1234"), is_refused);
  EXPECT_THAT(refused(R"({"a":1})", ""), is_refused);
  write_file_text(folder / "x.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_THAT(what_of([&] { load_safetensors(folder / "x.safetensors"); }), is_refused);
  EXPECT_THAT(what_of([&] { load_safetensors(folder / "none"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace shoal::checkpoints
