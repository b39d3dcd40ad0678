#include "program.h"

#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "core/host_allocator.h"
#include "distributed/detect.h"

namespace shoal::cluster {
namespace {

// In one piece, since launchers mix what processes print.
void say(const std::string& text) { std::cout << text + "\n" << std::flush; }

float total(int per_device = 1) {
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  const Array mine = full({local_device_count() * per_device}, static_cast<float>(process_index() + 1));
  const Array x = make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine);
  const auto sum = jit(
      shard_map([](Array v) { return lax::psum(v, "x").sum(); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}));
  return sum(x).to_vector<float>().at(0);
}

// Of 1 for each device of process 0, 2 for each of process 1, and so on.
float expected() {
  const auto n = static_cast<float>(process_count());
  return n * (n + 1) / 2 * static_cast<float>(local_device_count());
}

int add_up() {
  const float found = total();
  const auto cluster = distributed::detect_cluster().cluster;
  std::ostringstream line;
  line << "process " << process_index() << " of " << process_count() << " by " << (cluster ? cluster->method : "nobody")
       << ": " << (found == expected() ? "right" : "wrong");
  say(line.str());
  distributed::shutdown();
  return found == expected() ? 0 : 1;
}

int show_share() {
  total();
  say("threads " + std::to_string(ThreadPool::shared().thread_count()) + " memory " +
      std::to_string(HostAllocator::shared().limit()) + ".");
  distributed::shutdown();
  return 0;
}

int add_up_often() {
  for (int i = 0; i < 20; ++i) {
    const int size = i % 2 == 0 ? 1 : 30'000;
    if (total(size) != expected() * static_cast<float>(size)) return 1;
  }
  say("process " + std::to_string(process_index()) + ": all right");
  distributed::shutdown();
  return 0;
}

// Sums that depend on their order, small and large, with all of their digits.
int show_sums() {
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  for (const std::int64_t size : {8, 50'000}) {
    const Array all = sin(arange(static_cast<float>(device_count() * size))) * 1000.0F;
    const Array x = device_put(all, NamedSharding(mesh, P("x")));
    const auto show = [&](const std::string& name, const auto& f, const PartitionSpec& out) {
      const Array y = jit(shard_map(f, {.mesh = mesh, .in_specs = P("x"), .out_specs = out}))(x);
      const std::vector<float> elements = multihost::process_allgather(y, true).to_vector<float>();
      std::ostringstream text;
      text << name << std::hexfloat;
      for (const float element : elements) text << " " << element;
      if (process_index() == 0) say(text.str());
    };
    show(
        "psum", [](Array v) { return lax::psum(v, "x"); }, P());
    show(
        "psum_scatter", [](Array v) { return lax::psum_scatter(v, "x", {.scatter_dimension = 0, .tiled = true}); },
        P("x"));
  }
  distributed::shutdown();
  return 0;
}

// Brings 1 MiB of each device to all of them.
int gather() {
  const Mesh mesh = make_mesh({device_count()}, {"x"});
  const std::int64_t size = 1 << 18;
  const Array x =
      make_array_from_callback({device_count() * size}, NamedSharding(mesh, P("x")), [&](const auto& index) {
        return arange(static_cast<float>(*index[0].start), static_cast<float>(*index[0].stop));
      });
  const auto all = [](Array v) { return lax::all_gather(v, "x", {.axis = 0, .tiled = true}); };
  const Array y = jit(shard_map(all, {.mesh = mesh, .in_specs = P("x"), .out_specs = P(), .check_vma = false}))(x);
  for (const Shard& shard : y.addressable_shards()) {
    const std::vector<float> elements = shard.data.to_vector<float>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] != static_cast<float>(i)) return 1;
    }
  }
  say("process " + std::to_string(process_index()) + ": gathered");
  distributed::shutdown();
  return 0;
}

int meet_for_a_while() {
  if (process_index() == 0) say("coordinator " + distributed::detect_cluster().cluster->coordinator_address);
  for (int round = 1; round <= 100; ++round) {
    const std::int64_t sum = distributed::client().key_value_increment("sum");
    distributed::client().wait_at_barrier("meet", std::chrono::seconds(10));
    if (sum <= (round - 1) * process_count() || sum > round * process_count()) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  say("process " + std::to_string(process_index()) + ": counted");
  distributed::shutdown();
  return 0;
}

int loop(bool one_fails) {
  try {
    for (int i = 0;; ++i) {
      if (total() != expected()) return 1;
      if (i == 0) say("ready " + std::to_string(process_index()));
      if (one_fails && process_index() == 1) std::exit(7);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (const Error& error) {
    say("process " + std::to_string(process_index()) + " caught: " + error.what());
    return 0;
  }
}

}  // namespace

int run_program(const std::string& name) {
  try {
    distributed::initialize();
    if (name == "sum") return add_up();
    if (name == "share") return show_share();
    if (name == "sums") return add_up_often();
    if (name == "show") return show_sums();
    if (name == "gather") return gather();
    if (name == "reset") return meet_for_a_while();
    if (name == "loop") return loop(false);
    if (name == "fail") return loop(true);
    std::cerr << "there is no program " << name << std::endl;
  } catch (const std::exception& error) {
    say(std::string("error: ") + error.what());
  }
  return 1;
}

std::string program(const std::string& name) {
  return "'" + std::filesystem::read_symlink("/proc/self/exe").string() + "' --program " + name;
}

}  // namespace shoal::cluster
