#include "backend/cpu/loops/compiler.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "backend/cpu/loops/code_image.h"
#include "backend/cpu/loops/jit_api.h"
#include "backend/cpu/loops/jit_helpers.h"
#include "backend/cpu/machine/processor.h"
#include "base/at_exit.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/plugin.h"
#include "base/profiler.h"

namespace shoal::cpu {
namespace {

// Loops that nobody uses are forgotten when there are more than so many.
constexpr std::size_t kMostKept = 4096;

// Equal for equal loops alone.
class KeyWriter {
 public:
  std::string key_of(const LoopSource& source) {
    number(source.index());
    std::visit([&](const auto& one) { write(one); }, source);
    return bytes_.bytes();
  }

 private:
  void number(auto value) { bytes_.number(static_cast<std::int64_t>(value)); }
  void numbers(const auto& list) {
    number(list.size());
    for (const auto value : list) number(value);
  }

  void write(const scalar::Node& node) {
    number(node.core);
    number(node.dtype);
    for (const int operand : node.operands) number(operand);
    number(node.bits);
  }

  void write(const Loop& loop) {
    number(loop.arrays.size());
    for (const LoopArray& array : loop.arrays) {
      number(array.dtype);
      number(array.access);
      number(array.counts);
      number(array.written);
      number(array.carried_by);
    }
    numbers(loop.temporaries);
    numbers(loop.scalars);
    number(loop.goes_on);
    number(loop.phases.size());
    for (const Phase& phase : loop.phases) write(phase);
  }

  void write(const Phase& phase) {
    number(phase.once);
    number(phase.nodes.size());
    for (const scalar::Node& node : phase.nodes) write(node);
    number(phase.inputs.size());
    for (const LoopInput& input : phase.inputs) {
      number(input.kind);
      number(input.index);
    }
    number(phase.results.size());
    for (const LoopResult& result : phase.results) {
      number(result.kind);
      number(result.index);
      number(result.node);
      number(result.reduction);
    }
  }

  void write(const Routine& routine) {
    number(routine.arrays.size());
    for (const Routine::Array& array : routine.arrays) {
      number(array.dtype);
      number(array.moves);
    }
    numbers(routine.values);
    number(routine.constants.size());
    for (const Routine::Constant& constant : routine.constants) {
      number(constant.value);
      number(constant.bits);
    }
    write(routine.block);
  }

  void write(const Routine::Block& block) {
    number(block.steps.size());
    for (const Routine::Step& step : block.steps) {
      number(step.index());
      std::visit([&](const auto& one) { write(one); }, step);
    }
    numbers(block.results);
  }
  void write(const std::vector<Routine::Block>& blocks) {
    number(blocks.size());
    for (const Routine::Block& block : blocks) write(block);
  }

  void write(const Routine::Operation& step) {
    number(step.value);
    write(step.node);
  }
  void write(const Routine::Load& step) {
    for (const int part : {step.value, step.array, step.index}) number(part);
  }
  void write(const Routine::Store& step) {
    for (const int part : {step.array, step.index, step.stored, step.condition}) number(part);
  }
  void write(const Routine::Branch& step) {
    number(step.index);
    numbers(step.values);
    write(step.ways);
  }
  void write(const Routine::Repeat& step) {
    numbers(step.values);
    numbers(step.initial);
    number(step.trip);
    number(step.trips);
    write(step.blocks);
  }

  ByteWriter bytes_;
};

// Machine code in pages of its own.
class MachineCode final : public LoopRunner {
 public:
  // nullptr if the system gives no memory that can be executed.
  static std::unique_ptr<const MachineCode> load(const CodeImage& image) {
    const std::size_t size = image.bytes.size();
    void* const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    std::unique_ptr<const MachineCode> code(new MachineCode(static_cast<std::byte*>(pages), size, image.entry));
    std::memcpy(pages, image.bytes.data(), size);
    if (mprotect(pages, size, PROT_READ | PROT_EXEC) != 0) return nullptr;
    __builtin___clear_cache(static_cast<char*>(pages), static_cast<char*>(pages) + size);
    return code;
  }

  ~MachineCode() override { munmap(pages_, size_); }
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  void run(const LoopArguments& arguments) const override {
    function_(&arguments, &jit_helpers());
    if (arguments.streaming) finish_streaming();
  }

 private:
  MachineCode(std::byte* pages, std::size_t size, std::size_t entry)
      : pages_(pages), size_(size), function_(reinterpret_cast<JitFunction>(pages + entry)) {}

  std::byte* pages_;
  std::size_t size_;
  JitFunction function_;
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::size_t operations_in(const Loop& loop) {
  std::size_t operations = 0;
  for (const Phase& phase : loop.phases) {
    for (const scalar::Node& node : phase.nodes) {
      if (node.core != scalar::Core::kInput && node.core != scalar::Core::kConstant) ++operations;
    }
  }
  return operations;
}

std::size_t operations_in(const Routine::Block& block) {
  std::size_t operations = block.steps.size();
  const auto add = [&](const std::vector<Routine::Block>& blocks) {
    for (const Routine::Block& inside : blocks) operations += operations_in(inside);
  };
  for (const Routine::Step& step : block.steps) {
    if (const auto* const branch = std::get_if<Routine::Branch>(&step)) add(branch->ways);
    if (const auto* const repeat = std::get_if<Routine::Repeat>(&step)) add(repeat->blocks);
  }
  return operations;
}

// "loop 1f2e…: 12 operations in 3 phases"
std::string name_of(const std::string& key, const LoopSource& source) {
  const std::size_t number = std::hash<std::string>{}(key);
  if (const auto* const routine = std::get_if<Routine>(&source)) {
    return fmt::format("loop {:016x}: {} steps of a routine", number, operations_in(routine->block));
  }
  const Loop& loop = std::get<Loop>(source);
  return fmt::format("loop {:016x}: {} operations in {} phase{}", number, operations_in(loop), loop.phases.size(),
                     loop.phases.size() == 1 ? "" : "s");
}

void tell(const std::string& key, const LoopSource& loop, When when, std::string_view what) {
  if (!log_enabled(LogTopic::kCompile)) return;
  log_info(LogTopic::kCompile,
           fmt::format("{}: {}{}", name_of(key, loop), what, when == When::kInBackground ? ", in the background" : ""));
}

}  // namespace

LoopCompiler::LoopCompiler(std::optional<std::filesystem::path> cache_folder)
    : processor_(processor_identity()), files_(std::move(cache_folder)) {}

LoopCompiler::~LoopCompiler() { stop(); }

LoopCompiler& LoopCompiler::shared() {
  // Never destroyed, as the lane may compile until the process ends; but its thread ends before static objects do.
  static LoopCompiler& compiler = []() -> LoopCompiler& {
    auto* made = new LoopCompiler(CodeCache::default_folder());
    at_exit([] { shared().stop(); });
    return *made;
  }();
  return compiler;
}

void LoopCompiler::stop() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

LoopCompiler::Counters LoopCompiler::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::shared_ptr<const CompiledLoop> LoopCompiler::compile(const LoopSource& loop, When when) {
  using State = CompiledLoop::State;
  const std::string key = KeyWriter().key_of(loop);
  std::unique_lock lock(mutex_);
  std::shared_ptr<CompiledLoop>& found = loops_[key];
  const bool is_new = found == nullptr;
  if (is_new) {
    found = std::make_shared<CompiledLoop>();
    found->source_ = loop;
  }
  const std::shared_ptr<CompiledLoop> compiled = found;
  if (is_new) forget_unused();

  if (when == When::kInBackground) {
    if (!is_new) return compiled;
    waiting_.push_back(key);
    start_thread();
    lock.unlock();
    changed_.notify_all();
    return compiled;
  }
  if (compiled->state_ == State::kWaiting) {
    compiled->state_ = State::kRunning;  // The background thread will find it so.
    lock.unlock();
    produce(key, *compiled, when);
    return compiled;
  }
  changed_.wait(lock, [&] { return compiled->state_ == State::kDone; });
  return compiled;
}

void LoopCompiler::forget_unused() {
  if (loops_.size() <= kMostKept) return;
  std::erase_if(loops_, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->state_ == CompiledLoop::State::kDone;
  });
}

void LoopCompiler::start_thread() {
  if (thread_.joinable() || stopping_) return;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    // Another call tries again; meanwhile the loops do without.
  }
}

void LoopCompiler::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::string key = std::move(waiting_.front());
    waiting_.pop_front();
    const auto found = loops_.find(key);
    if (found == loops_.end() || found->second->state_ != CompiledLoop::State::kWaiting) continue;
    const std::shared_ptr<CompiledLoop> compiled = found->second;
    compiled->state_ = CompiledLoop::State::kRunning;
    lock.unlock();
    produce(key, *compiled, When::kInBackground);
    lock.lock();
  }
}

void LoopCompiler::produce(const std::string& key, CompiledLoop& compiled, When when) {
  std::unique_ptr<const LoopRunner> code;
  try {
    code = code_of(key, compiled.source_, when);
  } catch (const std::exception& error) {  // No memory.
    tell(key, compiled.source_, when, error.what());
  }
  const std::lock_guard lock(mutex_);
  if (code == nullptr) ++counters_.failed;
  compiled.owned_ = std::move(code);
  compiled.runner_.store(compiled.owned_.get(), std::memory_order_release);
  compiled.state_ = CompiledLoop::State::kDone;
  changed_.notify_all();
}

std::unique_ptr<const LoopRunner> LoopCompiler::code_of(const std::string& key, const LoopSource& loop, When when) {
  const profiler::ProfileScope scope(profiler::Category::kCompile, "compile loop");
  const auto start = std::chrono::steady_clock::now();
  ByteWriter file_key;
  file_key.number(static_cast<std::int64_t>(JitApi::kVersion));
  file_key.text(processor_);
  file_key.text(key);
  // What is no image is replaced below.
  const std::optional<std::string> found = files_.find(file_key.bytes());
  if (const std::optional<CodeImage> kept = found ? image_in(*found) : std::nullopt) {
    std::unique_ptr<const LoopRunner> code = MachineCode::load(*kept);
    tell(key, loop, when, fmt::format("read from a file in {:.2f} ms", milliseconds_since(start)));
    const std::lock_guard lock(mutex_);
    ++counters_.from_file;
    return code;
  }

  const JitApi* const jit = plugin<JitApi>("jit");
  if (jit == nullptr) return nullptr;
  const double loading = milliseconds_since(start);
  const auto* const routine = std::get_if<Routine>(&loop);
  const JitImage image = routine != nullptr ? jit->compile_routine(*routine) : jit->compile(std::get<Loop>(loop));
  if (!image.error.empty()) {
    tell(key, loop, when, "cannot be compiled: " + image.error);
    return nullptr;
  }
  const CodeImage fresh{{reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()}, image.entry};
  std::unique_ptr<const LoopRunner> code = MachineCode::load(fresh);
  tell(key, loop, when,
       fmt::format("compiled to {} bytes in {:.2f} ms, after {:.2f} ms of loading the compiler", image.bytes.size(),
                   milliseconds_since(start) - loading, loading));
  files_.keep(file_key.bytes(), pack(fresh));
  const std::lock_guard lock(mutex_);
  ++counters_.compiled;
  return code;
}

}  // namespace shoal::cpu
