#include "backend/cpu/products/onednn.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/plugin.h"

// The sanitizers bring functions of this name.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace shoal::cpu {
namespace {

// Destructors of static objects of oneDNN's, from the time at which this program's own are made.
std::atomic<int> registered = 0;
std::atomic<bool> counts = false;
[[maybe_unused]] const bool counts_now = counts = true;

}  // namespace
}  // namespace shoal::cpu

// What static objects call when they have been made, in all libraries: a program's own function comes before libc's.
extern "C" [[gnu::visibility("default")]] int __cxa_atexit(void (*destroy)(void*), void* object, void* library) {
  using Register = int (*)(void (*)(void*), void*, void*);
  static const auto register_it = reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  Dl_info info{};
  if (shoal::cpu::counts && dladdr(library, &info) != 0 && info.dli_fname != nullptr &&
      std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos) {
    ++shoal::cpu::registered;
  }
  return register_it(destroy, object, library);
}

namespace shoal::cpu {
namespace {

// Whoever waits for products when a program ends was registered before them, and so comes after the destruction of what
// they make: that must be nothing.
TEST(Onednn, ProductsMakeNoStaticObjects) {
  const auto* onednn = plugin<OnednnApi>("onednn");
  if (onednn == nullptr) GTEST_SKIP() << "this build has no oneDNN";
  constexpr std::int64_t kExtents[] = {1, 3, 16, 17, 64, 200};
  constexpr std::int64_t kMore = 56;  // The strides of matrices that do not lie densely.
  const std::vector<float> lhs(256 * 256), rhs(256 * 256);
  std::vector<float> out(256 * 256);
  int products = 0;
  for (const Dtype operands : {Dtype::kF32, Dtype::kBF16, Dtype::kI8, Dtype::kU8}) {
    const bool is_float = operands == Dtype::kF32 || operands == Dtype::kBF16;
    if (!onednn->offers(operands, [] {})) continue;
    const int before = registered;
    EXPECT_GT(before, 0) << "the static objects that are made before products are not seen: the test cannot fail";
    for (const std::int64_t rows : kExtents) {
      for (const std::int64_t columns : kExtents) {
        for (const std::int64_t inner : kExtents) {
          for (int kind = 0; kind < 8; ++kind) {
            const bool lhs_transposed = (kind & 1) != 0;
            const bool rhs_transposed = (kind & 2) != 0;
            const std::int64_t more = (kind & 4) != 0 ? kMore : 0;
            const void* code = onednn->prepare({.operands = operands,
                                                .out = is_float ? Dtype::kF32 : Dtype::kI32,
                                                .rows = rows,
                                                .columns = columns,
                                                .inner = inner,
                                                .lhs_row_stride = lhs_transposed ? 1 : inner + more,
                                                .lhs_inner_stride = lhs_transposed ? rows + more : 1,
                                                .rhs_inner_stride = rhs_transposed ? 1 : columns + more,
                                                .rhs_column_stride = rhs_transposed ? inner + more : 1,
                                                .out_stride = columns + more});
            if (code == nullptr) continue;
            onednn->run(code, lhs.data(), rhs.data(), out.data());
            ++products;
            ASSERT_EQ(registered, before) << name_of(operands) << ": " << rows << " × " << inner << " times " << inner
                                          << " × " << columns << ", kind " << kind;
          }
        }
      }
    }
  }
  EXPECT_GT(products, 0);
}

}  // namespace
}  // namespace shoal::cpu

#endif
