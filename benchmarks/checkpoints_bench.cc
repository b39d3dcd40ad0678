// Checkpoints of SHOAL_BENCH_GIB GiB, 1 by default, in SHOAL_BENCH_FOLDER: how long save() takes to return, writing
// until all is on disk, reading of files that are not in memory, and the memory that reading takes beyond the arrays.
// Beside each the disk alone: writing as `dd bs=1M conv=fsync` does, and reading past the memory of the system
// (O_DIRECT) and through it.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <shoal/checkpoints.h>
#include <shoal/shoal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "core/host_allocator.h"
#include "memory_growth.h"

namespace shoal::bench {
namespace {

std::int64_t total_bytes() {
  const char* const given = std::getenv("SHOAL_BENCH_GIB");
  return static_cast<std::int64_t>((given == nullptr ? 1.0 : std::atof(given)) * (1 << 30));
}

std::filesystem::path folder() {
  const char* const given = std::getenv("SHOAL_BENCH_FOLDER");
  const std::filesystem::path root = given == nullptr ? std::filesystem::temp_directory_path() : given;
  return root / ("shoal_checkpoints_bench_" + std::to_string(getpid()));
}

// Sixteen arrays over eight devices, as weights lie that are split over all of them.
const std::vector<Array>& arrays() {
  static const std::vector<Array> all = [] {
    const NamedSharding rows(make_mesh({8}, {"x"}), P("x"));
    std::vector<Array> made;
    for (int i = 0; i < 16; ++i) {
      const std::int64_t columns = total_bytes() / 16 / 4 / 1024;
      made.push_back(device_put(full({1024, columns}, 1.0F + static_cast<float>(i)), rows).block_until_ready());
    }
    return made;
  }();
  return all;
}

void set_rate(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * total_bytes()); }

// All that is not on disk yet would be written during a measurement.
void settle() { ::sync(); }

void forget_file(const std::filesystem::path& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) throw std::runtime_error("no posix_fadvise");
}

void write_as_dd(benchmark::State& state) {
  std::filesystem::create_directories(folder());
  const std::vector<char> block(1 << 20, 'x');
  const std::filesystem::path path = folder() / "dd";
  for (auto _ : state) {
    state.PauseTiming();
    std::filesystem::remove(path);
    settle();
    state.ResumeTiming();
    const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    for (std::int64_t done = 0; done < total_bytes(); done += static_cast<std::int64_t>(block.size())) {
      if (write(file.get(), block.data(), block.size()) < 0) throw std::runtime_error("cannot write");
    }
    if (fsync(file.get()) != 0) throw std::runtime_error("cannot sync");
  }
  set_rate(state);
}

void write_checkpoint(benchmark::State& state) {
  arrays();
  checkpoints::Manager manager(folder() / "run", {.overwrite = true});
  double longest = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::filesystem::remove_all(folder() / "run");
    settle();
    state.ResumeTiming();
    const auto begin = std::chrono::steady_clock::now();
    manager.save(1, arrays());
    longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    manager.wait();
  }
  state.counters["blocking_us"] = longest * 1e6;
  set_rate(state);
}

void read_file(benchmark::State& state, int flags) {
  const std::filesystem::path path = folder() / "dd";
  constexpr std::size_t kBlock = std::size_t{4} << 20;
  const std::unique_ptr<char, decltype(&std::free)> block(static_cast<char*>(std::aligned_alloc(4096, kBlock)),
                                                          &std::free);
  for (auto _ : state) {
    state.PauseTiming();
    forget_file(path);
    state.ResumeTiming();
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
    std::int64_t done = 0;
    for (ssize_t got = 0; (got = read(file.get(), block.get(), kBlock)) > 0;) done += got;
    if (done != total_bytes()) throw std::runtime_error("cannot read");
  }
  set_rate(state);
}

void read_checkpoint(benchmark::State& state) {
  std::vector<Array> like;
  for (const Array& array : arrays()) {
    like.emplace_back(ShapeDtypeStruct{
        .shape = array.shape(),
        .sharding = NamedSharding(make_mesh({2, 4}, {"x", "y"}), state.range(0) == 0 ? P({"x", "y"}) : P("x", "y"))});
  }
  double growth = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "run/step_00000001")) {
      forget_file(entry.path());
    }
    std::vector<Array> got;
    HostAllocator::shared().trim();
    const MemoryGrowth memory;
    state.ResumeTiming();
    got = checkpoints::restore(folder() / "run", like);
    state.PauseTiming();
    growth = std::max(growth, memory.mib() - static_cast<double>(total_bytes() >> 20));
    if (got[3][{5, 7}].item<float>() != 4) throw std::runtime_error("it was read wrong");
    got.clear();
    state.ResumeTiming();
  }
  state.counters["extra_MiB"] = growth;
  set_rate(state);
}

void remove_all(benchmark::State& state) {
  for (auto _ : state) std::filesystem::remove_all(folder());
}

constexpr int kTimes = 3;

BENCHMARK(write_as_dd)->Iterations(kTimes)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(write_checkpoint)->Iterations(kTimes)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_file, direct, O_DIRECT)->Iterations(kTimes)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_file, through_memory, 0)->Iterations(kTimes)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(read_checkpoint)
    ->ArgName("other_mesh")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(kTimes)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(remove_all)->Iterations(1);

const bool kDevices = [] {
  set_num_cpu_devices(8);
  return true;
}();

}  // namespace
}  // namespace shoal::bench
