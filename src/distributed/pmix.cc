// PMIx by its library, which is loaded: what is used of it is declared here as in the PMIx Standard 4.1.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/fork.h"
#include "base/shared_library.h"
#include "distributed/launcher_space.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

constexpr int kPmixSuccess = 0;
constexpr std::uint8_t kGlobal = 3;   // PMIX_GLOBAL: for all processes.
constexpr std::uint16_t kString = 3;  // PMIX_STRING

struct Process {
  char job[256];
  std::uint32_t rank;
};

struct Value {
  std::uint16_t type;
  union {
    char* string;
    std::array<std::uint64_t, 7> room;  // More than any version needs.
  } data;
};

struct PmixLibrary {
  int (*init)(Process*, void*, std::size_t) = nullptr;
  int (*finalize)(const void*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Process*, std::size_t, const void*, std::size_t) = nullptr;
  int (*get)(const Process*, const char*, const void*, std::size_t, Value**) = nullptr;
  const char* (*error)(int) = nullptr;
};

class PmixSpace final : public LauncherSpace {
 public:
  explicit PmixSpace(const PmixLibrary& library, const Process& me) : library_(library), me_(me) {}

  void put(const std::string& key, const std::string& value) override {
    Value stored{.type = kString, .data = {}};
    stored.data.string = const_cast<char*>(value.c_str());
    check(library_.put(kGlobal, key.c_str(), &stored), "PMIx_Put");
  }
  void meet() override {
    check(library_.commit(), "PMIx_Commit");
    check(library_.fence(nullptr, 0, nullptr, 0), "PMIx_Fence");
  }
  std::string get(const std::string& key) override {
    Process first = me_;
    first.rank = 0;
    Value* value = nullptr;
    check(library_.get(&first, key.c_str(), nullptr, 0, &value), "PMIx_Get");
    if (value->type != kString) throw DistributedError("distributed::initialize: PMIx_Get gave no text");
    std::string text = value->data.string;
    std::free(value->data.string);
    std::free(value);
    return text;
  }

 private:
  void check(int status, const char* call) const {
    if (status == kPmixSuccess) return;
    throw DistributedError(
        fmt::format("distributed::initialize: {} of the launcher failed: {}; give coordinator_address and SHOAL_SECRET "
                    "instead",
                    call, library_.error(status)));
  }

  const PmixLibrary& library_;
  const Process me_;
};

// The launcher's own library, if it tells where that is, else the system's. Other versions can talk to it, but make it
// complain.
const PmixLibrary* load(const Environment& environment) {
  static const std::optional<PmixLibrary> loaded = [&]() -> std::optional<PmixLibrary> {
    const std::string folder = environment("PMIX_PREFIX").value_or("") + "/lib/";
    const SharedLibrary file({folder + "libpmix.so.2", folder + "openmpi/libpmix.so.2", "libpmix.so.2"});
    PmixLibrary all;
    const bool is_whole = file.find("PMIx_Init", all.init) && file.find("PMIx_Finalize", all.finalize) &&
                          file.find("PMIx_Put", all.put) && file.find("PMIx_Commit", all.commit) &&
                          file.find("PMIx_Fence", all.fence) && file.find("PMIx_Get", all.get) &&
                          file.find("PMIx_Error_string", all.error);
    return is_whole ? std::optional(all) : std::nullopt;
  }();
  return loaded ? &*loaded : nullptr;
}

// This process, as PMIx numbers it. MPI, if the program uses it later, does not start where PMIx was ended; so that
// stays until the process exits, of which PMIx wants to be told.
const Process* start(const PmixLibrary& library) {
  static const auto* const the_library = &library;
  static const std::optional<Process> me = []() -> std::optional<Process> {
    Process process{};
    if (the_library->init(&process, nullptr, 0) != kPmixSuccess) return std::nullopt;
    std::atexit([] {
      if (!is_forked_child()) the_library->finalize(nullptr, 0);
    });
    return process;
  }();
  return me ? &*me : nullptr;
}

// Whether the program is linked with MPI, and has not started it yet.
bool may_start_mpi() {
  const auto is_initialized = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int answer = 1;
  return is_initialized != nullptr && is_initialized(&answer) == kPmixSuccess && answer == 0;
}

}  // namespace

std::unique_ptr<LauncherSpace> open_pmix_space(const Environment& environment, int process) {
  if (!environment("PMIX_NAMESPACE") || environment("PMIX_RANK") != std::to_string(process)) return nullptr;
  // MPI of Open MPI 5 does not start where PMIx was started before it.
  if (environment("PRTE_LAUNCHED") && may_start_mpi()) return nullptr;
  const PmixLibrary* const library = load(environment);
  const Process* const me = library == nullptr ? nullptr : start(*library);
  return me == nullptr ? nullptr : std::make_unique<PmixSpace>(*library, *me);
}

}  // namespace shoal::distributed
