// The functions of multihost, between real processes.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::everywhere;
using multiprocess::Job;
using multiprocess::kLayouts;
using multiprocess::numbers;
using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::rows;
using multiprocess::Running;
using multiprocess::tell;
using multiprocess::told;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// ---- Gathering.

void whole_arrays() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const std::map<std::string, Array> arrays{
      {"rows", device_put(numbers({16, 6}), NamedSharding(mesh, P({"x", "y"})))},
      {"columns", device_put(numbers({3, 8, 5}), NamedSharding(mesh, P(none, {"y", "x"})))},
      {"both", device_put(numbers({4, 8, 3}).astype(float16), NamedSharding(mesh, P("x", "y")))},
      {"replicas", device_put(arange(24).reshape(4, 6), NamedSharding(mesh, P("x")))},
      {"whole", device_put(arange(7), NamedSharding(mesh, P()))},
      {"scalar", device_put(full({}, 2.5), NamedSharding(mesh, P()))},
      {"empty", device_put(zeros({0, 8}), NamedSharding(mesh, P(none, "y")))},
      {"here", arange(5)},
  };
  for (const std::int64_t chunk : {8, 20, 100, 1 << 20}) {
    for (const auto& [name, whole] : multihost::to_host(arrays, {.chunk_bytes = chunk})) print_bits(name, whole);
  }
  for (const auto& [name, array] : arrays) {
    if (name == "here" || name == "scalar") continue;  // One process gathers itself.
    print_bits(name, multihost::process_allgather(array, true));
  }
}
const Registered kWholeArrays("whole_arrays", whole_arrays);

TEST(Multihost, WholeArraysInChunks) { multiprocess::expect_same("whole_arrays", {{4, 4}, {2, 2, 2, 2}, {3, 3, 2}}); }

// Bytes of this process that are in memory now, or were at most ("VmRSS", "VmHWM").
double mebibytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  throw std::runtime_error("no " + field);
}

void bounded() {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kColumns = 1 << 18;  // 64 MiB in all.
  const Array x = make_array_from_callback({kRows, kColumns}, rows(), [&](const ShardIndex& index) {
    return full({*index[0].stop - *index[0].start, kColumns}, static_cast<float>(*index[0].start));
  });
  multihost::to_host(x[{range(0, 2)}]);  // Channels exist.
  multihost::sync_global_devices("begin");
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;  // The most begins anew.
  const double before = mebibytes("VmRSS");
  const Array whole = multihost::to_host(x, {.chunk_bytes = 4 << 20});
  std::cout << "most: " << mebibytes("VmHWM") - before << std::endl;
  std::cout << "sum: " << whole[{range(), 7}].sum() << std::endl;
}
const Registered kBounded("bounded", bounded);

TEST(Multihost, GatheringTakesTheResultAndChunks) {
  for (const std::string transport : {"shm", "socket"}) {
    for (const std::vector<int>& devices : {std::vector<int>{1, 1}, std::vector<int>{1, 1, 1, 1}}) {
      const std::vector<Outcome> outcomes =
          multiprocess::run({.program = "bounded", .devices = devices, .env = {{"SHOAL_TRANSPORT", transport}}});
      for (const Outcome& outcome : outcomes) {
        ASSERT_EQ(outcome.code, 0) << outcome.output;
        // The result has 64 MiB, and what is sent was there before; of others' memory a page counts where it is read.
        const double others = transport == "shm" ? 64 : 0;
        const double chunks = 4.0 * static_cast<double>(devices.size());
        EXPECT_LT(std::stod(told(outcome, "most")), 64 + others + chunks + 16) << transport << ' ' << devices.size();
      }
      EXPECT_EQ(told(outcomes[0], "sum"), devices.size() == 2 ? "1024.0" : "1536.0");
    }
  }
}

void gathers() {
  const int p = process_index();
  const Array pair = arange(2) + 10 * p;
  const auto stacked = multihost::process_allgather(std::tuple{pair, std::map<std::string, Array>{{"a", pair * 2}}});
  std::cout << "stacked: " << to_string(std::get<0>(stacked).shape()) << ' ' << std::get<0>(stacked).sum() << ' '
            << std::get<1>(stacked).at("a").sum() << std::endl;
  std::cout << "tiled: " << multihost::process_allgather(pair, true) << std::endl;
  std::cout << "scalar: " << multihost::process_allgather(p) << std::endl;
  std::cout << "tiled scalar: " << multihost::process_allgather(p, true) << std::endl;
  std::cout << "type: "
            << type_of(multihost::process_allgather(full({2}, static_cast<float>(p)).astype(bfloat16), true))
            << std::endl;
  const Array x = device_put(arange(8), NamedSharding(everywhere(), P("x")));
  {
    const use_mesh scope(everywhere());  // Makes no difference.
    std::cout << "global: " << multihost::process_allgather(x, true) << std::endl;
  }
  tell("untiled", [&] { multihost::process_allgather(x); });
  std::cout << "broadcast: " << multihost::broadcast_one_to_all(p + 5) << ' '
            << multihost::broadcast_one_to_all((arange(3) + p).astype(uint8)) << std::endl;
  multihost::assert_equal(7);
  tell("equal", [&] { multihost::assert_equal(p, "the process"); });
  tell("name", [&] { multihost::sync_global_devices("step " + std::to_string(p)); });
  tell("chunk", [&] { multihost::to_host(x, {.chunk_bytes = 1}); });
}
const Registered kGathers("gathers", gathers);

TEST(Multihost, GathersAsJaxDoes) {
  const std::vector<Outcome> outcomes = multiprocess::run({"gathers", {4, 4}});
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "stacked"), "(2, 2) 22 44");
    EXPECT_EQ(told(outcome, "tiled"), "[ 0  1 10 11]");
    EXPECT_EQ(told(outcome, "scalar"), "[0 1]");
    EXPECT_EQ(told(outcome, "tiled scalar"), "[0 1]");
    EXPECT_EQ(told(outcome, "type"), "bfloat16[4]");
    EXPECT_EQ(told(outcome, "global"), "[0 1 2 3 4 5 6 7]");
    EXPECT_THAT(told(outcome, "untiled"), AllOf(StartsWith("InvalidArgument"), HasSubstr("tiled = true")));
    EXPECT_EQ(told(outcome, "broadcast"), "5 [0 1 2]");
    EXPECT_THAT(told(outcome, "equal"), AllOf(StartsWith("InvalidArgument"), HasSubstr("the process")));
    EXPECT_THAT(told(outcome, "name"), AllOf(StartsWith("InvalidArgument"), HasSubstr("step ")));
    EXPECT_THAT(told(outcome, "chunk"), AllOf(StartsWith("InvalidArgument to_host"), HasSubstr("chunk_bytes is 1")));
  }
  // One process gives the same semantics.
  const std::vector<Outcome> alone = multiprocess::run({"gathers", {8}});
  EXPECT_EQ(told(alone[0], "stacked"), "(1, 2) 1 2");
  EXPECT_EQ(told(alone[0], "tiled"), "[0 1]");
  EXPECT_EQ(told(alone[0], "scalar"), "[0]");
  EXPECT_EQ(told(alone[0], "tiled scalar"), "[0]");
}

// ---- Parts of processes and whole arrays.

void parts() {
  const Mesh mesh = multihost::make_hybrid_mesh({1, local_device_count()}, {process_count(), 1}, {"hosts", "local"});
  std::cout << "mesh: " << mesh << ' '
            << mesh.devices()[static_cast<std::size_t>(process_index() * local_device_count())] << std::endl;
  const Mesh swapped = multihost::make_hybrid_mesh({2, 2}, {1, 2}, {"a", "b"});
  std::cout << "swapped: " << swapped << ' ' << swapped.devices() << std::endl;
  tell("outer", [&] { multihost::make_hybrid_mesh({4}, {3}, {"a"}); });
  tell("inner", [&] { multihost::make_hybrid_mesh({2}, {2}, {"a"}); });
  const Array mine = arange(8).reshape(2, 4) + 100 * process_index();
  const Array g = multihost::host_local_array_to_global_array(mine, mesh, P("hosts", "local"));
  const Array l = multihost::global_array_to_host_local_array(g, mesh, P("hosts", "local"));
  std::cout << "there: " << to_string(g.shape()) << " and back: " << (l == mine).all() << ' ' << l.sharding()
            << std::endl;
  const Array same = multihost::host_local_array_to_global_array(arange(3), mesh, P());
  std::cout << "same: " << to_string(same.shape()) << ' ' << same << std::endl;
}
const Registered kParts("parts", parts);

TEST(Multihost, PartsAndWholeArrays) {
  const std::vector<Outcome> outcomes = multiprocess::run({"parts", {4, 4}});
  for (std::size_t p = 0; p < outcomes.size(); ++p) {
    const Outcome& outcome = outcomes[p];
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(told(outcome, "mesh"),
              "Mesh('hosts': 2, 'local': 4, axis_types=(Auto, Auto)) CpuDevice(id=" + std::to_string(p * 131072) + ")");
    EXPECT_EQ(told(outcome, "swapped"),
              "Mesh('a': 2, 'b': 4, axis_types=(Auto, Auto)) [CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=131072), "
              "CpuDevice(id=131073), CpuDevice(id=2), CpuDevice(id=3), CpuDevice(id=131074), CpuDevice(id=131075)]");
    EXPECT_THAT(told(outcome, "outer"), HasSubstr("outer (3,) takes 3 processes, but 2 have devices"));
    EXPECT_THAT(told(outcome, "inner"), HasSubstr("process 0 has 4"));
    EXPECT_EQ(told(outcome, "there"),
              "(4, 4) and back: True NamedSharding(mesh=Mesh('hosts': 1, 'local': 4, axis_types=(Auto, Auto)), "
              "spec=P('hosts', 'local'), memory_kind=device)");
    EXPECT_EQ(told(outcome, "same"), "(3,) [0 1 2]");
  }
}

// ---- Processes that are to end.

// Steps in which all exchange something, until all save.
void preempted() {
  std::signal(SIGTERM, [](int) { _exit(77); });
  {
    multihost::PreemptionWatch watch;
    tell("second", [] { multihost::PreemptionWatch again; });
    const auto step = jit(shard_map([](Array v) { return lax::psum(v, "x"); },
                                    {.mesh = everywhere(), .in_specs = P("x"), .out_specs = P()}));
    const Array x = device_put(ones({device_count()}), NamedSharding(everywhere(), P("x")));
    int saves = 0;
    for (int i = 0; saves < 1 || i < 200; ++i) {
      step(x).block_until_ready();
      if (i == 20) std::cout << "running" << std::endl;
      // Processes ask at different times.
      std::this_thread::sleep_for(std::chrono::milliseconds(process_index() * 2));
      if (multihost::reached_preemption_sync_point(i)) {
        ++saves;
        std::cout << "save at: " << i << std::endl;
      }
      if (i > 20000) throw std::runtime_error("no notice came");
    }
  }
  multihost::sync_global_devices("end");
  std::cout << "waiting" << std::endl;
  if (process_index() == 1) pause();  // The signal is handled as before.
}
const Registered kPreempted("preempted", preempted);

TEST(Multihost, AllSaveAtTheStepOnWhichTheyAgree) {
  for (const std::vector<int>& devices : {std::vector<int>{2, 2}, std::vector<int>{1, 1, 1, 1}}) {
    Running job({.program = "preempted", .devices = devices});
    for (std::size_t p = 0; p < devices.size(); ++p) ASSERT_TRUE(job.wait_for_output(p, "running"));
    job.signal(1, SIGTERM);
    ASSERT_TRUE(job.wait_for_output(1, "waiting"));
    job.signal(1, SIGTERM);
    const std::vector<Outcome> outcomes = job.finish();
    EXPECT_EQ(outcomes[1].code, 77) << outcomes[1].output;
    const std::string step = told(outcomes[0], "save at");
    EXPECT_GT(std::stoi(step), 20);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(told(outcome, "save at"), step);
      EXPECT_EQ(outcome.output.find("save at"), outcome.output.rfind("save at")) << "once";
      EXPECT_THAT(told(outcome, "second"), StartsWith("InvalidState PreemptionWatch"));
    }
  }
}

void never_preempted() {
  tell("without", [] { multihost::reached_preemption_sync_point(0); });
  {
    multihost::PreemptionWatch watch(SIGUSR1);
    bool reached = false;
    for (int i = 0; i < 10; ++i) reached = reached || multihost::reached_preemption_sync_point(i);
    std::cout << "reached: " << reached << std::endl;
  }
  tell("signal", [] { multihost::PreemptionWatch never(SIGKILL); });
  multihost::PreemptionWatch left_on_shutdown;
  multihost::sync_global_devices("end");
  distributed::shutdown();
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // It looks for notices, and finds no job.
  std::cout << "after: " << multihost::reached_preemption_sync_point(11) << std::endl;
  _exit(0);
}
const Registered kNeverPreempted("never_preempted", never_preempted);

TEST(Multihost, NobodySavesWithoutANotice) {
  for (const Outcome& outcome : multiprocess::run({"never_preempted", {1, 1}})) {
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(told(outcome, "without"), AllOf(StartsWith("InvalidState"), HasSubstr("PreemptionWatch")));
    EXPECT_EQ(told(outcome, "reached"), "0");
    EXPECT_THAT(told(outcome, "signal"), AllOf(StartsWith("InvalidArgument"), HasSubstr("signal 9")));
    EXPECT_EQ(told(outcome, "after"), "0");
  }
}

// ---- Those that live.

void living() {
  const auto count = [](const std::vector<Device>& live) { std::cout << "live: " << live << std::endl; };
  multihost::live_devices(devices(), count);
  tell("body", [] {
    multihost::live_devices(devices(), [](const std::vector<Device>&) {
      if (process_index() == 1) throw std::runtime_error("no luck");
    });
  });
  tell("foreign", [&] {
    const int other = (process_index() + 1) % process_count();
    multihost::live_devices({devices()[static_cast<std::size_t>(other * local_device_count())]}, count);
  });
  tell("death", [] {
    multihost::live_devices(devices(), [](const std::vector<Device>&) {
      std::cout << "ready" << std::endl;
      if (process_index() == 1) pause();
    });
  });
  multihost::live_devices(devices(),
                          [](const std::vector<Device>& live) { std::cout << "left: " << live << std::endl; });
  std::cout.flush();
  // The job has failed, so there is nothing to shut down; but process 0 is needed until the others are done.
  if (process_index() == 0) {
    distributed::client().blocking_key_value_get("done", std::chrono::seconds(20));
  } else {
    distributed::client().key_value_set("done", "");
  }
  _exit(0);
}
const Registered kLiving("living", living);

TEST(Multihost, LiveDevicesAgree) {
  Running job({.program = "living", .devices = {1, 1, 1}});
  for (std::size_t p = 0; p < 3; ++p) ASSERT_TRUE(job.wait_for_output(p, "ready"));
  job.signal(1, SIGKILL);
  const std::vector<Outcome> outcomes = job.finish();
  for (const std::size_t p : {0U, 2U}) {
    EXPECT_EQ(outcomes[p].code, 0) << outcomes[p].output;
    EXPECT_EQ(told(outcomes[p], "live"), "[CpuDevice(id=0), CpuDevice(id=131072), CpuDevice(id=262144)]");
    EXPECT_THAT(told(outcomes[p], "body"), StartsWith("DistributedError live_devices: process 1 threw: no luck"));
    EXPECT_THAT(told(outcomes[p], "foreign"), AllOf(StartsWith("InvalidArgument"), HasSubstr("none of the 1 devices")));
    EXPECT_THAT(outcomes[p].output, HasSubstr("ProcessFailed live_devices: devices failed: CpuDevice(id=131072)"));
    EXPECT_EQ(told(outcomes[p], "left"), "[CpuDevice(id=0), CpuDevice(id=262144)]");
    EXPECT_LT(outcomes[p].seconds, 30);
  }
  EXPECT_EQ(told(outcomes[1], "body"), "exception no luck");
}

}  // namespace
}  // namespace shoal
