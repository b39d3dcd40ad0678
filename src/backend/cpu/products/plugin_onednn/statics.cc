#include "backend/cpu/products/plugin_onednn/statics.h"

#include <elf.h>
#include <link.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

// oneDNN makes static objects, code among them, at its first product of each kind. A program may end during that
// product, on another thread. exit() destroys what was made last first, so no function registered before could wait for
// the product. As for the compiler's plugin, the remedy is that nothing is registered; but oneDNN is a shared library,
// whose calls of __cxa_atexit go through its own table of addresses, which is changed here.

namespace shoal::cpu {
namespace {

int register_nothing(void (*)(void*), void*, void*) noexcept { return 0; }

// The library that holds an address.
struct Library {
  std::uintptr_t holds;
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  ElfW(Addr) read_only_begin = 0;  // what the linker has made so after it wrote addresses
  ElfW(Addr) read_only_end = 0;
};

int find_library(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  auto& library = *static_cast<Library*>(to);
  Library found{.holds = library.holds, .base = info->dlpi_addr};
  bool is_it = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) is_it |= found.holds >= begin && found.holds < begin + part.p_memsz;
    if (part.p_type == PT_DYNAMIC) found.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (part.p_type == PT_GNU_RELRO) {
      found.read_only_begin = begin;
      found.read_only_end = begin + part.p_memsz;
    }
  }
  if (is_it) library = found;
  return is_it ? 1 : 0;
}

// Makes the address at `slot` that of register_nothing().
void redirect(const Library& library, ElfW(Addr) slot) {
  const bool read_only = slot >= library.read_only_begin && slot < library.read_only_end;
  const auto page_size = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(slot & ~(page_size - 1));
  if (read_only && mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return;
  const std::atomic_ref<ElfW(Addr)> address(*reinterpret_cast<ElfW(Addr)*>(slot));
  address.store(reinterpret_cast<ElfW(Addr)>(&register_nothing));
  if (read_only) mprotect(page, page_size, PROT_READ);
}

}  // namespace

void keep_statics_of_onednn() {
  Library library{.holds = reinterpret_cast<std::uintptr_t>(&dnnl_engine_create)};
  if (dl_iterate_phdr(find_library, &library) == 0 || library.dynamic == nullptr) return;

  ElfW(Addr) tables[2] = {};  // of places to write addresses to: those of functions, and all others
  ElfW(Xword) sizes[2] = {};
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = library.dynamic; entry->d_tag != DT_NULL; ++entry) {
    // The linker may have added the base already.
    const ElfW(Addr) value = entry->d_un.d_ptr;
    const ElfW(Addr) address = value < library.base ? library.base + value : value;
    if (entry->d_tag == DT_JMPREL) tables[0] = address;
    if (entry->d_tag == DT_PLTRELSZ) sizes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) tables[1] = address;
    if (entry->d_tag == DT_RELASZ) sizes[1] = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address);
  }
  if (symbols == nullptr || names == nullptr) return;
  for (int t = 0; t < 2; ++t) {
    const auto* places = reinterpret_cast<const ElfW(Rela)*>(tables[t]);
    for (ElfW(Xword) i = 0; places != nullptr && i < sizes[t] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Xword) symbol = ELF64_R_SYM(places[i].r_info);
      if (symbol == 0 || std::string_view(names + symbols[symbol].st_name) != "__cxa_atexit") continue;
      redirect(library, library.base + places[i].r_offset);
    }
  }
}

}  // namespace shoal::cpu
