// What processes send each other is under way while they compute.
#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/profiler.h>
#include <shoal/shoal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::everywhere;
using multiprocess::expect_same;
using multiprocess::Job;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::rows;

// Prints the order in which a launch of f(x) begins its exchanges and products, and ends its exchanges.
void print_order(const std::string& name, const Array& x, Array (*f)(Array)) {
  const auto g = jit(shard_map(f, {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P("x")}));
  g(x).block_until_ready();
  const std::string path = std::filesystem::temp_directory_path() / ("shoal_overlap_" + std::to_string(getpid()));
  {
    const auto tracing = profiler::trace(path);
    g(x).block_until_ready();
  }
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  std::vector<std::pair<double, std::string>> events;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    const std::string what = event.value("name", "");
    const std::string category = event.value("cat", "");
    if (category == "collective" && (what == "start" || what == "exchange")) events.emplace_back(event.at("ts"), what);
    if (category == "step" && what.starts_with("dot_general")) events.emplace_back(event.at("ts"), "product");
  }
  std::ranges::sort(events);
  std::string line = name + ":";
  for (const auto& [time, what] : events) line += " " + what;
  std::cout << line << std::endl;
}

void order() {
  const auto input = [](std::int64_t size) { return device_put(numbers({device_count() * size, size}), rows()); };
  print_order("gather", input(64), [](Array v) {
    const Array all = lax::all_gather(v, "x", {.axis = 0, .tiled = true});
    return matmul(matmul(v, v), v) + all.sum();  // The second product adds the sum to what it makes.
  });
  // Each is added up while the next is computed.
  const auto gradients = [](Array v) { return lax::psum(matmul(v, v), "x") * lax::psum(matmul(v, v * 2), "x"); };
  print_order("small gradients", input(64), gradients);
  print_order("large gradients", input(256), gradients);
  // The slice of the next trip is on its way while this one's product is computed.
  print_order("slices", input(64), [](Array v) {
    const auto trip = [](const Array& c, const Array& slice) {
      const Array all = lax::all_gather(slice, "x", {.axis = 0, .tiled = true});
      return std::pair(matmul(c, concatenate({all, all})), std::tuple<>());
    };
    return lax::scan(trip, v, v.reshape({4, 16, 64})).first;
  });
}

TEST(Overlap, WhatIsSentIsUnderWayDuringProducts) {
  for (const Outcome& outcome : multiprocess::run({.program = "order", .devices = {1, 1}})) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(outcome.output,
              "gather: start product exchange\n"
              "small gradients: product start product start exchange exchange\n"
              // A large sum is made in two exchanges, and the next begins after them.
              "large gradients: product start product exchange exchange exchange exchange\n"
              "slices: exchange start product exchange start product exchange start product exchange product\n");
  }
}

// Programs of collectives and other operations, on few arrays, so that many are under way and needed at any time.
void random_programs() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const std::int64_t columns = seed % 3 == 0 ? 40'000 : 24;
    const auto program = [&](Array v) {
      std::mt19937 random(seed);
      std::vector<Array> values{v, v * 2, cos(v)};
      const auto pick = [&] { return values[random() % values.size()]; };
      for (int i = 0; i < 40; ++i) {
        const std::string axis = random() % 2 == 0 ? "x" : "y";
        const int size = axis == "x" ? 2 : 4;
        lax::Permutation ring;
        for (int d = 0; d < size; ++d) ring.emplace_back(d, (d + 1) % size);
        const auto gathered = [&] { return lax::all_gather(pick(), axis, {.axis = 0, .tiled = true}); };
        Array next = pick();
        switch (random() % 9) {
          case 0:
            next = lax::psum(pick(), axis) * 0.25F;
            break;
          case 1:
            next = gathered()[{range(0, 4)}] - pick();
            break;
          case 2:
            next = lax::psum_scatter(gathered(), axis, {.scatter_dimension = 0, .tiled = true}) * 0.125F;
            break;
          case 3:
            next = lax::all_to_all(pick(), axis, {.split_axis = 0, .concat_axis = 0, .tiled = true});
            break;
          case 4:
            next = lax::ppermute(pick(), axis, ring);
            break;
          case 5:
            next = lax::pmax(pick(), axis);
            break;
          default:
            next = sin(pick() + pick() * 0.5F);
        }
        if (random() % 3 == 0) values.push_back(next);
        values[random() % values.size()] = next;
      }
      Array sum = values[0];
      for (std::size_t i = 1; i < values.size(); ++i) sum = sum + values[i];
      return sum;
    };
    const Array x = device_put(numbers({8, 4 * columns}), NamedSharding(mesh, P("x", "y")));
    const auto f =
        jit(shard_map(program, {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y"), .check_vma = false}));
    Array y = f(x);
    y = f(y * 0.5F);
    print_bits("program " + std::to_string(seed), multihost::process_allgather(y, true));
  }
}

// Of a step for which process 0 comes late, process 1 tells that it waited.
void waits() {
  const auto total = jit(shard_map([](Array v) { return lax::psum(v, "x"); },
                                   {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P()}));
  const Array x = device_put(numbers({device_count() * 4}), rows());
  total(x).block_until_ready();
  profiler::StepTimer timer;
  if (process_index() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  total(x).block_until_ready();
  const profiler::TimeSplit spent = timer.lap();
  const bool is_sound = spent.compute >= 0 && spent.exchange > 0 &&
                        spent.compute + spent.exchange + spent.waiting <= spent.total && spent.total > 0.25;
  std::cout << (spent.waiting > 0.25 ? "waited" : "came late") << (is_sound ? "" : ", but its parts are wrong")
            << std::endl;
}

TEST(Overlap, WaitingForOthersIsTold) {
  const auto outcomes = multiprocess::run({.program = "waits", .devices = {1, 1}});
  EXPECT_EQ(outcomes.at(0).output, "came late\n");
  EXPECT_EQ(outcomes.at(1).output, "waited\n");
}

TEST(Overlap, RandomProgramsGiveTheSameBits) { expect_same("random_programs", multiprocess::kLayouts); }

const Registered kOrder("order", order);
const Registered kRandomPrograms("random_programs", random_programs);
const Registered kWaits("waits", waits);

}  // namespace
}  // namespace shoal
