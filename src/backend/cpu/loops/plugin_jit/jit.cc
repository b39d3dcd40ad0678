// The plugin `jit`: loops to machine code, by LLVM. All of LLVM's headers are in this one translation unit.
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/loops/plugin_jit/loop_emitter.h"
#include "backend/cpu/loops/plugin_jit/routine_emitter.h"
#include "base/plugin.h"

namespace shoal::cpu::jit {
namespace {

// ---- The processor.

struct Host {
  const llvm::Target* target = nullptr;
  std::string triple;
  std::string name;
  std::string features;
  unsigned register_bytes = 0;
};

// LLVM replaces what a processor lacks by calls of library functions, which an image cannot make.
void require(const llvm::StringMap<bool>& features, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!features.lookup(name)) throw std::runtime_error(std::string("the processor has no ") + name);
  }
}

unsigned register_bytes(const llvm::StringMap<bool>& features, const llvm::Triple& triple) {
  if (triple.getArch() == llvm::Triple::aarch64) return 16;
  if (triple.getArch() != llvm::Triple::x86_64) throw std::runtime_error("the processor is of no known kind");
  require(features, {"avx2", "fma", "f16c"});
  for (const char* name : {"avx512f", "avx512bw", "avx512dq", "avx512vl"}) {
    if (!features.lookup(name)) return 32;
  }
  return 64;
}

Host find_host() {
  // The emitter puts side by side what does not depend on each other. LLVM would order it for fewer registers: that
  // takes a third longer to run, and longer to compile. (This copy of LLVM is the plugin's own.)
  constexpr std::array kOptions = {"shoal", "-enable-misched=false"};
  llvm::cl::ParseCommandLineOptions(static_cast<int>(kOptions.size()), kOptions.data());
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  Host host;
  host.triple = llvm::sys::getProcessTriple();
  std::string error;
  host.target = llvm::TargetRegistry::lookupTarget(host.triple, error);
  if (host.target == nullptr) throw std::runtime_error(error);
  host.name = llvm::sys::getHostCPUName().str();
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
#if !SHOAL_AVX512
  for (auto& feature : features) {
    const llvm::StringRef name = feature.first();
    if (name.starts_with("avx512") || name.starts_with("evex512") || name.starts_with("avx10")) feature.second = false;
  }
#endif
  for (const auto& feature : features) {
    host.features +=
        (host.features.empty() ? "" : ",") + std::string(feature.second ? "+" : "-") + feature.first().str();
  }
  host.register_bytes = register_bytes(features, llvm::Triple(host.triple));
  return host;
}

// Static objects of this file are never destroyed: a thread may compile until the process has ended.
const Host& host() {
  static const Host& found = *new Host(find_host());
  return found;
}

// ---- From a loop to an object file.

std::unique_ptr<llvm::TargetMachine> make_target_machine() {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      host().target->createTargetMachine(host().triple, host().name, host().features, options, llvm::Reloc::PIC_,
                                         llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
  if (machine == nullptr) throw std::runtime_error("LLVM has no code generator for this processor");
  return machine;
}

// A code generator is for one thread at a time. It is kept for the next loop, since to make one, and to find what the
// processor's features imply, takes a fifth of the time of a small loop.
class Machines {
 public:
  std::unique_ptr<llvm::TargetMachine> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<llvm::TargetMachine> machine = std::move(free_.back());
        free_.pop_back();
        return machine;
      }
    }
    return make_target_machine();
  }

  void give_back(std::unique_ptr<llvm::TargetMachine> machine) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(machine));
  }

  static Machines& shared() {
    static Machines& machines = *new Machines;
    return machines;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> free_;
};

constexpr const char* kEntry = "shoal_loop";

void emit(const Loop& loop, llvm::Function& function) { LoopEmitter(loop, function, host().register_bytes).emit(); }
void emit(const Routine& routine, llvm::Function& function) { RoutineEmitter(routine, function).emit(); }

template <class Source>
llvm::SmallVector<char, 0> object_of(const Source& source) {
  llvm::LLVMContext context;
  llvm::Module module("loop", context);
  std::unique_ptr<llvm::TargetMachine> machine = Machines::shared().take();
  module.setTargetTriple(host().triple);
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);

  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kEntry, module);
  function->setDSOLocal(true);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("prefer-vector-width", std::to_string(8 * host().register_bytes));
  emit(source, *function);
#ifdef SHOAL_CHECKED
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (llvm::verifyFunction(*function, &stream)) throw std::logic_error(stream.str());
#endif

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  llvm::MCContext* code = nullptr;
  if (machine->addPassesToEmitMC(passes, code, out, true)) throw std::runtime_error("LLVM cannot write object files");
  passes.run(module);
  Machines::shared().give_back(std::move(machine));
  return object;
}

// ---- From an object file to an image.

constexpr std::size_t kPage = 4096;

// Lays all sections one after the other into one buffer, which begins at a page.
class ImageMemory final : public llvm::RuntimeDyld::MemoryManager {
 public:
  explicit ImageMemory(std::size_t capacity) : room_(capacity + kPage) {
    const auto address = reinterpret_cast<std::uintptr_t>(room_.data());
    start_ = room_.data() + (kPage - address % kPage) % kPage;
    capacity_ = capacity;
  }

  std::uint8_t* allocateCodeSection(std::uintptr_t size, unsigned alignment, unsigned, llvm::StringRef) override {
    return allocate(size, alignment);
  }
  std::uint8_t* allocateDataSection(std::uintptr_t size, unsigned alignment, unsigned, llvm::StringRef,
                                    bool is_read_only) override {
    is_constant_ &= is_read_only;
    return allocate(size, alignment);
  }
  void registerEHFrames(std::uint8_t*, std::uint64_t, std::size_t) override {}
  void deregisterEHFrames() override {}
  bool finalizeMemory(std::string*) override { return false; }

  const std::uint8_t* start() const { return start_; }
  std::size_t size() const { return size_; }
  const std::vector<std::uint8_t*>& sections() const { return sections_; }
  bool is_constant() const { return is_constant_; }

 private:
  std::uint8_t* allocate(std::size_t size, std::size_t alignment) {
    alignment = std::max<std::size_t>(alignment, 1);
    const std::size_t begin = (size_ + alignment - 1) / alignment * alignment;
    if (begin + size > capacity_) throw std::runtime_error("the code is larger than its object file");
    size_ = begin + size;
    sections_.push_back(start_ + begin);
    return start_ + begin;
  }

  std::vector<std::uint8_t> room_;
  std::uint8_t* start_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  bool is_constant_ = true;
  std::vector<std::uint8_t*> sections_;
};

// Knows no symbol: images refer to nothing.
class NoSymbols final : public llvm::LegacyJITSymbolResolver {
  llvm::JITSymbol findSymbol(const std::string&) override { return nullptr; }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
};

// The image as it would be at an address.
JitImage link(const llvm::object::ObjectFile& object, std::uint64_t address) {
  ImageMemory memory(4 * object.getData().size() + 16 * kPage);
  NoSymbols symbols;
  llvm::RuntimeDyld linker(memory, symbols);
  linker.loadObject(object);
  for (std::uint8_t* section : memory.sections()) {
    linker.mapSectionAddress(section, address + static_cast<std::uint64_t>(section - memory.start()));
  }
  linker.resolveRelocations();
  if (linker.hasError()) throw std::runtime_error(linker.getErrorString().str());
  if (!memory.is_constant()) throw std::runtime_error("the code has variables");
  const llvm::JITEvaluatedSymbol entry = linker.getSymbol(kEntry);
  if (!entry) throw std::runtime_error("the code has no entry");
  JitImage image;
  image.entry = entry.getAddress() - address;
  image.bytes.resize(memory.size());
  std::memcpy(image.bytes.data(), memory.start(), memory.size());
  return image;
}

template <class Source>
JitImage compile(const Source& source) try {
  const llvm::SmallVector<char, 0> bytes = object_of(source);
  const llvm::MemoryBufferRef buffer(llvm::StringRef(bytes.data(), bytes.size()), "loop");
  auto object = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object) throw std::runtime_error(llvm::toString(object.takeError()));
  JitImage image = link(**object, 1 << 20);
  // What is the same at two addresses is the same at all.
  if (link(**object, std::uint64_t{5} << 40).bytes != image.bytes) throw std::runtime_error("the code cannot be moved");
  return image;
} catch (const std::exception& error) {
  return {.error = error.what()};
}

}  // namespace
}  // namespace shoal::cpu::jit

SHOAL_PLUGIN(jit, shoal::cpu::JitApi) {
  static const shoal::cpu::JitApi api{&shoal::cpu::jit::compile<shoal::cpu::Loop>,
                                      &shoal::cpu::jit::compile<shoal::cpu::Routine>};
  return &api;
}
