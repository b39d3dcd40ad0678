#include "backend/cpu/machine/processor.h"

#ifdef __x86_64__
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace shoal::cpu {

#ifdef __x86_64__

namespace {

std::array<unsigned, 4> leaf(unsigned number, unsigned part = 0) {
  std::array<unsigned, 4> words{};
  __get_cpuid_count(number, part, &words[0], &words[1], &words[2], &words[3]);
  return words;
}

// The registers that the system saves, and hence lets programs use.
__attribute__((target("xsave"))) std::uint64_t saved_registers() {
  constexpr unsigned kSaves = 1U << 27;
  return (leaf(1)[2] & kSaves) != 0 ? __builtin_ia32_xgetbv(0) : 0;
}

}  // namespace

std::string processor_identity() {
  ByteWriter bytes;
  const auto add = [&](std::array<unsigned, 4> words) {
    for (const unsigned word : words) bytes.number(word);
  };
  add(leaf(0));  // The maker.
  std::array<unsigned, 4> model = leaf(1);
  model[1] = 0;  // Says which core this is.
  add(model);
  add(leaf(7));
  add(leaf(7, 1));
  add(leaf(0x80000001));
  bytes.number(static_cast<std::int64_t>(saved_registers()));
  return bytes.bytes();
}

#elif defined(__aarch64__)

std::string processor_identity() {
  ByteWriter bytes;
  const unsigned long features = getauxval(AT_HWCAP);
  bytes.number(static_cast<std::int64_t>(features));
  bytes.number(static_cast<std::int64_t>(getauxval(AT_HWCAP2)));
  constexpr unsigned long kShowsModel = 1UL << 11;
  std::uint64_t model = 0;
  if ((features & kShowsModel) != 0) asm("mrs %0, MIDR_EL1" : "=r"(model));
  bytes.number(static_cast<std::int64_t>(model));
  return bytes.bytes();
}

#else

std::string processor_identity() { return {}; }

#endif

}  // namespace shoal::cpu
