// Mistakes with arrays that are made of parts, and with trees that are moved.
#include "shoal/make_array.h"

#include "misuse.h"

namespace shoal::test {
namespace {

NamedSharding grid() { return {mesh_4x2(), P("x", "y")}; }

// One array on each device, as arrays of shape (8, 8) cut by grid() have them.
std::vector<Array> parts(const Shape& shape = {2, 4}) {
  std::vector<Array> list;
  for (const Device& device : devices()) list.push_back(device_put(ones(shape), device));
  return list;
}

// ---- From single-device arrays.

TEST(SingleDeviceArraysError, TooFewOrTooMany) {
  std::vector<Array> list = parts();
  list.pop_back();
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_single_device_arrays", "8 devices", "7 arrays"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
  list.insert(list.end(), 2, list[0]);
  EXPECT_MISUSE(InvalidArgument, ("8 devices", "9 arrays"), make_array_from_single_device_arrays({8, 8}, grid(), list));
}

TEST(SingleDeviceArraysError, OnADeviceThatTheShardingLacks) {
  const std::vector<Device> all = devices();
  const Mesh half = make_mesh({4}, {"h"});
  std::vector<Array> list;
  for (std::size_t i = 4; i < 8; ++i) list.push_back(device_put(ones({2}), all[i]));
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_single_device_arrays", "devices 0..3", "devices 4..7"),
                make_array_from_single_device_arrays({8}, NamedSharding(half, P("h")), list));
}

TEST(SingleDeviceArraysError, TwoOnOneDevice) {
  std::vector<Array> list = parts();
  list[1] = list[0];
  EXPECT_MISUSE(InvalidArgument, ("arrays[1]", "CpuDevice(id=0)", "distinct"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
}

TEST(SingleDeviceArraysError, OfTheWrongShape) {
  EXPECT_MISUSE(InvalidArgument,
                ("arrays[0]", "shape (2, 3)", "(slice(0, 2, None), slice(0, 4, None))", "(8, 8)", "shape (2, 4)"),
                make_array_from_single_device_arrays({8, 8}, grid(), parts({2, 3})));
  std::vector<Array> list = parts();
  list[5] = device_put(ones({4, 2}), devices()[5]);
  EXPECT_MISUSE(InvalidArgument, ("arrays[5]", "shape (4, 2)"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
}

TEST(SingleDeviceArraysError, OfDifferentDtypes) {
  std::vector<Array> list = parts();
  list[7] = device_put(ones({2, 4}, {.dtype = int32}), devices()[7]);
  EXPECT_MISUSE(InvalidArgument, ("arrays[7]", "int32", "float32", "astype"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
  EXPECT_MISUSE(InvalidArgument, ("arrays[0]", "float32", "int32"),
                make_array_from_single_device_arrays({8, 8}, grid(), parts(), {.dtype = int32}));
}

TEST(SingleDeviceArraysError, OfSeveralDevices) {
  std::vector<Array> list = parts();
  list[2] = put(ones({2, 4}), mesh_8(), P());
  EXPECT_MISUSE(InvalidArgument, ("arrays[2]", "8 shards", "one device"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
}

TEST(SingleDeviceArraysError, ThatAreNoArrays) {
  std::vector<Array> list = parts();
  list[3] = Array();
  EXPECT_MISUSE(InvalidState, ("arrays[3]", "without a value"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
  list[3] = ShapeDtypeStruct{{2, 4}};
  EXPECT_MISUSE(InvalidState, ("arrays[3]", "ShapeDtypeStruct"),
                make_array_from_single_device_arrays({8, 8}, grid(), list));
  list[3] = device_put(ones({2, 4}), devices()[3]);
  list[3].delete_();
  EXPECT_MISUSE(InvalidState, ("arrays[3]", "deleted at"), make_array_from_single_device_arrays({8, 8}, grid(), list));
}

TEST(SingleDeviceArraysError, InAnotherMemory) {
  EXPECT_MISUSE(InvalidArgument, ("arrays[0]", "'device'", "'pinned_host'"),
                make_array_from_single_device_arrays({8, 8}, grid().with_memory_kind("pinned_host"), parts()));
}

TEST(SingleDeviceArraysError, CopiesThatDiffer) {
  std::vector<Array> list = parts({2, 8});
  list[1] = device_put(zeros({2, 8}), devices()[1]);
  EXPECT_MISUSE(InvalidArgument, ("arrays[0] and arrays[1]", "(slice(0, 2, None), slice(None, None, None))", "differ"),
                make_array_from_single_device_arrays({8, 8}, NamedSharding(mesh_4x2(), P("x")), list));
}

TEST(SingleDeviceArraysError, ShapesThatCannotBeCut) {
  EXPECT_MISUSE(IndivisibleError, ("make_array_from_single_device_arrays", "dimension 0", "size 9", "'x'"),
                make_array_from_single_device_arrays({9, 8}, grid(), parts()));
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_single_device_arrays", "(8, -8)", "negative"),
                make_array_from_single_device_arrays({8, -8}, grid(), parts()));
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_single_device_arrays", "AbstractMesh", "no devices"),
                make_array_from_single_device_arrays({8, 8}, NamedSharding(mesh_4x2().abstract_mesh(), P()), parts()));
}

// ---- From a callback.

TEST(CallbackError, PartOfTheWrongShape) {
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_callback", "(slice(0, 2, None)", "shape (3, 4)", "shape (2, 4)"),
                make_array_from_callback({8, 8}, grid(), [](const ShardIndex&) {
                  return ones({3, 4});
                }));
}

TEST(CallbackError, PartOfTheWrongDtype) {
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_callback", "float32", "int32", "astype"),
                make_array_from_callback({8, 8}, grid(),
                                         [](const ShardIndex&) {
                                           return ones({2, 4});
                                         },
                                         {.dtype = int32}));
  int calls = 0;
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_callback", "float32", "int32"),
                make_array_from_callback({8, 8}, grid(), [&](const ShardIndex&) {
                  return ones({2, 4}, {.dtype = ++calls < 3 ? float32 : int32});
                }));
  EXPECT_EQ(calls, 3);
}

TEST(CallbackError, PartWithoutAValue) {
  EXPECT_MISUSE(InvalidState, ("make_array_from_callback", "(slice(0, 2, None)", "without a value"),
                make_array_from_callback({8, 8}, grid(), [](const ShardIndex&) { return Array(); }));
}

TEST(CallbackError, WhatItThrowsComesThrough) {
  EXPECT_THROW(make_array_from_callback({8, 8}, grid(), [](const ShardIndex&) -> Array { throw 7; }), int);
}

TEST(CallbackError, InsideATrace) {
  jit([](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("make_array_from_callback", "'fn'", "traced"),
                  make_array_from_callback({8, 8}, grid(), [](const ShardIndex&) {
                    return ones({2, 4});
                  }));
    return x;
  })(ones({8}));
}

// ---- From local data, and trees.

TEST(LocalDataError, AnotherGlobalShape) {
  EXPECT_MISUSE(InvalidArgument, ("make_array_from_process_local_data", "(8, 8)", "(16, 8)", "its devices hold"),
                make_array_from_process_local_data(grid(), ones({8, 8}), Shape{16, 8}));
  EXPECT_MISUSE(IndivisibleError, ("dimension 1", "size 7"), make_array_from_process_local_data(grid(), ones({8, 7})));
}

TEST(TreeError, NoPrefix) {
  const std::vector<Array> tree = {ones({8}), ones({8})};
  const NamedSharding rows(mesh_4x2(), P("x"));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "1 entries", "a vector of 2"), device_put(tree, {{rows}}));
  EXPECT_MISUSE(InvalidArgument, ("device_put", "at [0]", "2 entries", "an array"),
                device_put(tree, {{rows, rows}, rows}));
}

TEST(TreeError, NamesThePath) {
  const std::pair<Array, std::vector<Array>> tree = {ones({8}), {ones({8}), ones({6})}};
  EXPECT_MISUSE(IndivisibleError, ("device_put: argument 0[1][1]", "size 6"),
                device_put(tree, NamedSharding(mesh_4x2(), P("x")), {.donate = true}));
  EXPECT_MISUSE(InvalidState, ("device_put: argument 0[0]", "without a value"),
                device_put(std::vector{Array()}, NamedSharding(mesh_4x2(), P("x"))));
}

}  // namespace
}  // namespace shoal::test
