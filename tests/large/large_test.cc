// Arrays of more than 2^31 elements, on one device and over 8: positions and counts beyond 32 bits.
//
// One byte an element, and no more than three such arrays at a time: 7 GiB.
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace shoal {
namespace {

constexpr int kDevices = 8;
constexpr std::int64_t kPeriod = 251;
constexpr std::int64_t kRows = 8'555'800;  // A multiple of kDevices.
constexpr std::int64_t kElements = kRows * kPeriod;
static_assert(kElements > (std::int64_t{1} << 31) && kRows % kDevices == 0);

std::uint8_t element(std::int64_t i) { return static_cast<std::uint8_t>(i % kPeriod); }

// Positions about 0, 2^31 and the end.
const std::vector<std::int64_t> kPlaces = {0,
                                           1,
                                           (std::int64_t{1} << 31) - 1,
                                           std::int64_t{1} << 31,
                                           (std::int64_t{1} << 31) + 1,
                                           kElements - 2,
                                           kElements - 1};

std::vector<std::uint8_t> elements_at(const std::vector<std::int64_t>& places) {
  std::vector<std::uint8_t> elements;
  for (const std::int64_t place : places) elements.push_back(element(place));
  return elements;
}

std::vector<std::uint8_t> bytes_of(const Array& array) { return array.to_vector<std::uint8_t>(); }

std::vector<std::int64_t> int64_of(const Array& array) { return array.to_vector<std::int64_t>(); }

// The elements of an array at kPlaces.
std::vector<std::uint8_t> at_places(const Array& x) {
  return bytes_of(jit([](const Array& a, const Array& places) { return take(a, places); })(x, array(kPlaces)));
}

struct OneDevice {};
struct EightDevices {};

template <class Devices>
class Large : public testing::Test {
 protected:
  // Element i is i % kPeriod. Made in place: the host never holds it.
  static void SetUpTestSuite() {
    set_num_cpu_devices(kDevices);
    constexpr bool kIsSplit = std::is_same_v<Devices, EightDevices>;
    const NamedSharding rows(make_mesh({kDevices}, {"x"}), P("x", none));
    const auto make = jit([&](const Array& row) {
      const Array all = lax::broadcast_in_dim(row, {kRows, kPeriod}, {1});
      return (kIsSplit ? with_sharding_constraint(all, rows) : all).reshape({kElements});
    });
    x_ = make(arange(kPeriod).astype(uint8));
    ASSERT_EQ(x_->addressable_shards()[0].data.size(), kIsSplit ? kElements / kDevices : kElements);
  }
  static void TearDownTestSuite() { x_.reset(); }

  static const Array& x() { return *x_; }

 private:
  inline static std::optional<Array> x_;
};

using Devices = testing::Types<OneDevice, EightDevices>;
TYPED_TEST_SUITE(Large, Devices);

TYPED_TEST(Large, TellsItsSize) {
  EXPECT_EQ(this->x().size(), kElements);
  EXPECT_EQ(this->x().shape(), Shape{kElements});
}

TYPED_TEST(Large, Slices) {
  constexpr std::int64_t kStart = kElements - 1000;
  const std::vector<std::uint8_t> end =
      bytes_of(jit([&](const Array& a) { return a[range(kStart, kElements)]; })(this->x()));
  ASSERT_EQ(end.size(), 1000U);
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(end[static_cast<std::size_t>(i)], element(kStart + i)) << i;
  constexpr std::int64_t kStep = 1 << 29;
  EXPECT_EQ(bytes_of(jit([&](const Array& a) { return a[range(0, kElements, kStep)]; })(this->x())),
            elements_at({0, kStep, 2 * kStep, 3 * kStep, 4 * kStep}));
}

TYPED_TEST(Large, WindowsAndPlacesThatAreComputed) {
  const auto window = jit([](const Array& a, const Array& start) { return lax::dynamic_slice(a, {start}, {3}); });
  const Array start = array(std::vector{kElements - 3}).reshape(Shape{});
  EXPECT_EQ(bytes_of(window(this->x(), start)), elements_at({kElements - 3, kElements - 2, kElements - 1}));
  EXPECT_EQ(at_places(this->x()), elements_at(kPlaces));
}

TYPED_TEST(Large, Elementwise) {
  const Array y = jit([](const Array& a) { return (a * 3) ^ 5; })(this->x());
  std::vector<std::uint8_t> want = elements_at(kPlaces);
  for (std::uint8_t& v : want) v = static_cast<std::uint8_t>((v * 3) ^ 5);
  EXPECT_EQ(at_places(y), want);
  // All of them at once.
  const auto differ = jit([](const Array& a, const Array& b) { return sum((b != ((a * 3) ^ 5)).astype(int64)); });
  const Array count = differ(this->x(), y);
  EXPECT_EQ(int64_of(count), std::vector<std::int64_t>{0});
}

TYPED_TEST(Large, Reductions) {
  const auto [total, most] = jit([](const Array& a) { return std::pair{sum(a.astype(int64)), max(a)}; })(this->x());
  EXPECT_EQ(int64_of(total), std::vector<std::int64_t>{kRows * (kPeriod * (kPeriod - 1) / 2)});
  EXPECT_EQ(bytes_of(most), std::vector<std::uint8_t>{kPeriod - 1});
  const auto columns = jit([](const Array& a) { return sum(a.reshape({kRows, kPeriod}).astype(int64), {.axis = 0}); });
  std::vector<std::int64_t> sums;
  for (std::int64_t i = 0; i < kPeriod; ++i) sums.push_back(kRows * i);
  EXPECT_EQ(int64_of(columns(this->x())), sums);
}

TYPED_TEST(Large, Reversed) {
  std::vector<std::uint8_t> want;
  for (const std::int64_t place : kPlaces) want.push_back(element(kElements - 1 - place));
  EXPECT_EQ(at_places(jit([](const Array& a) { return flip(a); })(this->x())), want);
}

}  // namespace
}  // namespace shoal
