#include "backend/cpu/moves/item_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/kernel_test_support.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

struct ItemForm {
  Shape array;
  Shape indices;
  Dims dims;
  Dims array_batch = {};
  Dims index_batch = {};

  Attrs attrs() const { return {{"dims", dims}, {"array_batch", array_batch}, {"index_batch", index_batch}}; }
  Shape items() const {
    Shape shape = indices;
    for (std::size_t d = 0; d < array.size(); ++d) {
      const auto is_in = [&](const Dims& list) { return std::ranges::count(list, static_cast<std::int64_t>(d)) != 0; };
      if (!is_in(dims) && !is_in(array_batch)) shape.push_back(array[d]);
    }
    return shape;
  }
};

// Rows, columns, elements, batches, items of several pieces; few places for many items, many for few; large enough for
// several tiles; elements in one block of places or several, few or many in each; columns; none.
const ItemForm kForms[] = {
    {{50, 7, 11}, {60}, {0}},
    {{50, 7, 11}, {13}, {1}},
    {{50, 7, 11}, {2, 3}, {2}},
    {{50, 7, 11}, {20}, {0, 2}},
    {{50, 7, 11}, {20}, {2, 0, 1}},
    {{50, 7, 11}, {}, {1}},
    {{9, 3}, {}, {}},
    {{50, 4, 11}, {50, 3}, {2}, {0}, {0}},
    {{5, 4, 6}, {4, 9, 5}, {2}, {0, 1}, {2, 0}},
    {{30, 3}, {400}, {0}},
    {{5000, 2}, {40}, {0}},
    {{301, 7, 101}, {500}, {0}},
    {{30, 3}, {5000}, {0, 1}},
    {{8}, {70000}, {0}},
    {{40000}, {20000}, {0}},
    {{300000}, {6000}, {0}},
    {{9, 2000}, {9, 700}, {1}, {0}, {0}},
    {{500, 300}, {200}, {1}},
    {{4, 0}, {3}, {0}},
    {{4, 2}, {0}, {0}},
};

class ItemKernels : public ::testing::TestWithParam<Dtype> {
 protected:
  // Numbers whose sums have one value, whoever adds them; of zeros those of both signs.
  Buffer numbers(const Shape& shape) {
    Buffer buffer(host_space({}), GetParam(), shape);
    with_element_type(GetParam(), [&](auto tag) {
      using T = decltype(tag);
      for (std::int64_t i = 0; i < num_elements(shape); ++i) {
        constexpr float kFew[] = {0, -0.0F, 1, 2, 3, 1.5F, 0.25F};
        static_cast<T*>(buffer.mutable_data())[i] = T(kFew[random_() % std::size(kFew)]);
      }
    });
    return buffer;
  }
  // The same without NaN, of both signs and infinite.
  Buffer ordered(const Shape& shape) {
    Buffer buffer = drawn_buffer(GetParam(), shape, Draw::kFew, random_);
    with_element_type(GetParam(), [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_floating_point_v<CombineType<T>>) {
        for (T& x : std::span(static_cast<T*>(buffer.mutable_data()), static_cast<std::size_t>(num_elements(shape)))) {
          if (x != x) x = T(-2.0F);
        }
      }
    });
    return buffer;
  }
  // Some twice, and some outside.
  std::vector<Buffer> indices(const ItemForm& form, Dtype dtype) {
    std::vector<Buffer> all;
    for (const std::int64_t d : form.dims) {
      const std::int64_t extent = form.array[static_cast<std::size_t>(d)];
      Buffer& one = all.emplace_back(host_space({}), dtype, form.indices);
      for (std::int64_t i = 0; i < num_elements(form.indices); ++i) {
        const auto value = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(extent + 3)) - 1;
        if (dtype == Dtype::kI64) {
          static_cast<std::int64_t*>(one.mutable_data())[i] = value;
        } else {
          static_cast<std::int32_t*>(one.mutable_data())[i] = static_cast<std::int32_t>(value);
        }
      }
    }
    return all;
  }
  static std::vector<Buffer> joined(std::vector<Buffer> operands, const std::vector<Buffer>& more) {
    operands.insert(operands.end(), more.begin(), more.end());
    return operands;
  }
  std::vector<std::string> kinds() const {
    if (is_complex(GetParam())) return {"sum", "prod"};
    return {"sum", "prod", "max", "min"};
  }

  std::mt19937_64 random_{1};
};

TEST_P(ItemKernels, Gather) {
  for (const ItemForm& form : kForms) {
    const Buffer array = drawn_buffer(GetParam(), form.array, Draw::kAnyBits, random_);
    check_kernel("gather", form.attrs(), joined({array}, indices(form, Dtype::kI64)));
  }
}

TEST_P(ItemKernels, Scatter) {
  for (const ItemForm& form : kForms) {
    const Buffer array = drawn_buffer(GetParam(), form.array, Draw::kAnyBits, random_);
    const Buffer updates = drawn_buffer(GetParam(), form.items(), Draw::kAnyBits, random_);
    check_kernel("scatter", form.attrs(), joined({array, updates}, indices(form, Dtype::kI32)));
  }
}

TEST_P(ItemKernels, ScatterReduceAndCombine) {
  for (const ItemForm& form : kForms) {
    for (const std::string& kind : kinds()) {
      const std::vector<Buffer> at = indices(form, Dtype::kI32);
      const Buffer updates = numbers(form.items());
      Attrs attrs = form.attrs();
      attrs.set("kind", kind);
      check_kernel("scatter_combine", attrs, joined({numbers(form.array), updates}, at));
      attrs.set("shape", form.array);
      check_kernel("scatter_reduce", attrs, joined({updates}, at));
      if (kind == "max" || kind == "min") {
        check_kernel("scatter_reduce", attrs, joined({ordered(form.items())}, at));
        check_kernel("scatter_reduce", attrs, joined({drawn_buffer(GetParam(), form.items(), Draw::kFew, random_)}, at),
                     Nans::kAny);
        Attrs combined = form.attrs();
        combined.set("kind", kind);
        for (const Buffer& items :
             {ordered(form.items()), drawn_buffer(GetParam(), form.items(), Draw::kFew, random_)}) {
          const Buffer array = drawn_buffer(GetParam(), form.array, Draw::kFew, random_);
          check_kernel("scatter_combine", combined, joined({array, items}, at), Nans::kAny);
        }
      }
      if (GetParam() != Dtype::kF16 && GetParam() != Dtype::kBF16) continue;
      attrs.set("dtype", Dtype::kF32);
      check_kernel("scatter_reduce", attrs, joined({updates}, at));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ItemKernels, ::testing::ValuesIn(kEveryDtype),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

}  // namespace
}  // namespace shoal::cpu
