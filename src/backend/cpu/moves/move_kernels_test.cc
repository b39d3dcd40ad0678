#include "backend/cpu/moves/move_kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "backend/cpu/kernel_test_support.h"

namespace shoal::cpu {
namespace {

class MoveKernels : public ::testing::TestWithParam<Dtype> {
 protected:
  void check(std::string_view op, const Attrs& attrs, const std::vector<Shape>& shapes) {
    std::vector<Buffer> operands;
    for (const Shape& shape : shapes) operands.push_back(drawn_buffer(GetParam(), shape, Draw::kAnyBits, random_));
    check_kernel(op, attrs, operands);
  }

 private:
  std::mt19937_64 random_{1};
};

// Large shards are several tiles, which need not come out even.
const Shape kLarge = {301, 7, 101};

TEST_P(MoveKernels, Broadcast) {
  check("broadcast_in_dim", {{"shape", kLarge}, {"dims", Dims{}}}, {{}});
  check("broadcast_in_dim", {{"shape", kLarge}, {"dims", Dims{0, 2}}}, {{301, 101}});
  check("broadcast_in_dim", {{"shape", kLarge}, {"dims", Dims{1, 2}}}, {{7, 1}});
  for (std::int64_t times = 2; times < 10; ++times) {  // Each element several times.
    check("broadcast_in_dim", {{"shape", Shape{70001, times}}, {"dims", Dims{0}}}, {{70001}});
  }
  check("broadcast_in_dim", {{"shape", Shape{3, 0}}, {"dims", Dims{0}}}, {{3}});
}

TEST_P(MoveKernels, ReshapeAndTranspose) {
  check("reshape", {{"shape", Shape{7, 301 * 101}}}, {kLarge});
  check("reshape", {{"shape", Shape{0, 5}}}, {{3, 0}});
  for (const Dims& perm : {Dims{0, 1, 2}, Dims{0, 2, 1}, Dims{2, 1, 0}, Dims{1, 2, 0}}) {
    check("transpose", {{"perm", perm}}, {kLarge});
    check("transpose", {{"perm", perm}}, {{1, 4, 0}});
  }
}

TEST_P(MoveKernels, Bitcast) {
  if (GetParam() == Dtype::kBool || is_complex(GetParam())) return;
  check("bitcast", {{"dtype", uint16}}, {kLarge});
  check("bitcast", {{"dtype", uint8}}, {{3, 0}});
  const auto parts = static_cast<std::int64_t>(sizeof(std::uint64_t) / size_of(GetParam()));
  check("bitcast", {{"dtype", uint64}}, {{40, 101, parts}});
}

TEST_P(MoveKernels, SliceAndReverse) {
  const auto slice = [&](const Dims& starts, const Dims& limits, const Dims& strides, const Shape& shape) {
    check("slice", {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {shape});
  };
  slice({1, 0, 3}, {300, 7, 101}, {1, 1, 1}, kLarge);
  slice({0, 6, 2}, {301, 7, 100}, {2, 1, 97}, kLarge);
  slice({5, 0, 0}, {5, 7, 101}, {1, 1, 1}, kLarge);
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{2}, Dims{0, 1, 2}}) {
    check("reverse", {{"dims", dims}}, {kLarge});
    check("reverse", {{"dims", dims}}, {{2, 0, 3}});
  }
  for (const std::int64_t length : {1, 7, 31, 33, 200003}) check("reverse", {{"dims", Dims{0}}}, {{length}});
}

TEST_P(MoveKernels, Roll) {
  for (const Dims& shifts : {Dims{0, 0, 0}, Dims{1, 0, 0}, Dims{0, 3, 100}, Dims{300, 6, 1}}) {
    check("roll", {{"shifts", shifts}}, {kLarge});
  }
  check("roll", {{"shifts", Dims{1, 0, 2}}}, {{2, 0, 3}});
  check("roll", {{"shifts", Dims{}}}, {{}});
}

TEST_P(MoveKernels, Concatenate) {
  for (std::int64_t dim = 0; dim < 3; ++dim) {
    Shape other = kLarge;
    other[static_cast<std::size_t>(dim)] = 40;
    Shape none = kLarge;
    none[static_cast<std::size_t>(dim)] = 0;
    check("concatenate", {{"dim", dim}}, {kLarge, other, none, other});
  }
  // Elements between each other, and rows.
  check("concatenate", {{"dim", std::int64_t{1}}}, {{70001, 1}, {70001, 1}});
  check("concatenate", {{"dim", std::int64_t{1}}}, {{70001, 1}, {70001, 3}, {70001, 0}});
  check("concatenate", {{"dim", std::int64_t{1}}}, {{50, 4, 101}, {50, 2, 101}, {50, 1, 101}});
  check("concatenate", {{"dim", std::int64_t{1}}}, {{1, 3}, {1, 4}});
}

TEST_P(MoveKernels, Pad) {
  const auto pad = [&](const Dims& low, const Dims& high, const Dims& interior, const Shape& shape) {
    check("pad", {{"low", low}, {"high", high}, {"interior", interior}}, {shape, {}});
  };
  pad({1, 0, 2}, {0, 3, 1}, {0, 0, 0}, kLarge);
  pad({3, 2, 40}, {1, 0, 5}, {0, 0, 0}, kLarge);
  pad({2, 1}, {1, 3}, {0, 0}, {0, 4});
  pad({2, 1}, {1, 3}, {0, 0}, {4, 0});
  pad({-2, 1, -3}, {4, -3, -40}, {0, 2, 1}, kLarge);
  pad({-301, 0, 0}, {0, 0, 0}, {0, 0, 0}, kLarge);
  pad({2, 3}, {1, -1}, {5, 0}, {0, 4});
}

TEST_P(MoveKernels, Constants) { check("full", {{"shape", kLarge}, {"value", Scalar{.dtype = GetParam()}}}, {}); }

TEST_P(MoveKernels, Windows) {
  std::mt19937_64 random(3);
  const Buffer array = drawn_buffer(GetParam(), {40, 7, 11}, Draw::kAnyBits, random);
  const auto starts = [](const std::vector<std::int64_t>& values) {
    std::vector<Buffer> buffers;
    for (const std::int64_t value : values) {
      buffers.emplace_back(host_space({}), Dtype::kI64, Shape{});
      *static_cast<std::int64_t*>(buffers.back().mutable_data()) = value;
    }
    return buffers;
  };
  for (const Shape& window : {Shape{1, 7, 11}, Shape{3, 2, 5}, Shape{40, 7, 11}, Shape{0, 7, 2}}) {
    const Buffer update = drawn_buffer(GetParam(), window, Draw::kAnyBits, random);
    for (const std::vector<std::int64_t>& at : {std::vector<std::int64_t>{0, 0, 0}, {5, 1, 3}, {-9, 100, 2}}) {
      std::vector<Buffer> operands = starts(at);
      operands.insert(operands.begin(), array);
      check_kernel("dynamic_slice", {{"sizes", window}}, operands);
      operands.insert(operands.begin() + 1, update);
      check_kernel("dynamic_update_slice", {}, operands);
    }
  }
}

// One of each size of elements: moves know no more of them.
INSTANTIATE_TEST_SUITE_P(All, MoveKernels,
                         ::testing::Values(Dtype::kBool, Dtype::kBF16, Dtype::kF32, Dtype::kC64, Dtype::kC128),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace shoal::cpu
