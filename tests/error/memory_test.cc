// More memory than there is.
#include <cstdint>
#include <string>

#include "misuse.h"

namespace shoal::test {
namespace {

TEST(OutOfMemoryError, NamesTheOpAndWhatItNeeds) {
  EXPECT_MISUSE(OutOfMemory,
                ("full", "out of memory: float32(1048576, 1048576, 1024) needs 4503599627370496 bytes",
                 "in memory 'device', where", "are in use"),
                zeros({1 << 20, 1 << 20, 1 << 10}).block_until_ready());
}

TEST(OutOfMemoryError, UnderJitAndOnManyDevices) {
  const Array x = put(ones({8, 1}), mesh_8(), P("i"));
  const unsigned line = __LINE__ + 1;
  const auto f = jit([](Array a) { return broadcast_to(a, {8, std::int64_t{1} << 50}) + 1; });
  EXPECT_MISUSE_AT(line, OutOfMemory, ("out of memory: float32(1, 1125899906842624) needs"), f(x).block_until_ready());
  // Nothing is lost.
  EXPECT_EQ(jit([](Array a) { return a.sum(); })(x).item<float>(), 8);
}

// Forward the slice is read through the broadcast, and in reverse it becomes a part of zeros.
TEST(OutOfMemoryError, InADerivative) {
  const unsigned line = __LINE__ + 2;
  const auto f = [](const Array& a) {
    return sum(sin(lax::slice_in_dim(broadcast_to(a, {std::int64_t{1} << 50}), 3, 9)));
  };
  EXPECT_GT(jit(f)(Array(1.0f)).item<float>(), 5);
  EXPECT_MISUSE_AT(line, OutOfMemory,
                   ("out of memory", "of pad in the derivative of memory_test.cc:" + std::to_string(line),
                    "; it is a part of the derivative of this line"),
                   jit(grad(f))(Array(1.0f)).block_until_ready());
}

}  // namespace
}  // namespace shoal::test
