// Mistakes with stored programs: bytes that are none, damaged ones, other versions and devices, functions of the host.
#include <cstring>

#include "base/bytes.h"
#include "misuse.h"

namespace shoal::test {
namespace {

Array twice(Array x) { return x * 2; }

std::string stored() {
  return jit(twice, {.name = "twice"}).lower(put(ones({8}), mesh_8(), P("i"))).compile().serialize();
}

TEST(SerializeError, BytesThatAreNoProgram) {
  EXPECT_MISUSE(InvalidArgument, ("deserialize_and_load", "no program that serialize() stored"),
                deserialize_and_load<Array(Array)>("hello"));
  EXPECT_MISUSE(InvalidArgument, ("no program"), deserialize_and_load<Array(Array)>(""));
}

TEST(SerializeError, CutOff) {
  const std::string bytes = stored();
  // Wherever they end.
  for (std::size_t size = 22; size < bytes.size(); size += size < 80 ? 1 : 97) {
    EXPECT_MISUSE(InvalidArgument, ("deserialize_and_load", "cut off"),
                  deserialize_and_load<Array(Array)>(bytes.substr(0, size)));
  }
}

TEST(SerializeError, Damaged) {
  std::string bytes = stored();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  EXPECT_MISUSE(InvalidArgument, ("bytes of the program are damaged or cut off", "checksum"),
                deserialize_and_load<Array(Array)>(bytes));
}

TEST(SerializeError, WrittenByOthers) {
  std::string bytes = stored();
  const std::size_t end = bytes.size() - sizeof(std::int64_t);
  const std::size_t shape = bytes.find("f32[");
  ASSERT_NE(shape, std::string::npos);
  bytes.replace(shape, 3, "f64");
  const std::int64_t checksum = checksum_of(std::string_view(bytes).substr(0, end));
  std::memcpy(bytes.data() + end, &checksum, sizeof checksum);
  EXPECT_MISUSE(InvalidArgument, ("deserialize_and_load", "no program that serialize() stored", "traced"),
                deserialize_and_load<Array(Array)>(bytes));
}

TEST(SerializeError, OfAnotherVersion) {
  std::string bytes = stored();
  const std::string magic = "shoal program\n";
  std::int64_t format = 0;
  char* const at = bytes.data() + sizeof(std::int64_t) + magic.size();
  std::memcpy(&format, at, sizeof format);
  ++format;
  std::memcpy(at, &format, sizeof format);
  EXPECT_MISUSE(InvalidArgument,
                ("was stored by version 0.1.0 of Shoal, in format 3", "reads format 2", "store it anew"),
                deserialize_and_load<Array(Array)>(bytes));
}

TEST(SerializeError, CapturedArraysThatAreUnreduced) {
  const Mesh mesh = make_mesh({8}, {"i"}, {.axis_types = {AxisType::kExplicit}});
  const Array sums = reshard(device_put(ones({8}), NamedSharding(mesh, P())), NamedSharding(mesh, P(unreduced("i"))));
  const auto compiled = jit([sums](Array x) { return x + sums; }, {.name = "f"}).lower(sums).compile();
  EXPECT_MISUSE(InvalidArgument, ("f: captured array", "unreduced", "reshard"), compiled.serialize());
}

TEST(SerializeError, WrongNumberOfDevices) {
  const std::vector<Device> all = devices();
  EXPECT_MISUSE(InvalidArgument, ("twice", "is for devices 0..7", "as many distinct ones", "devices 0..3"),
                deserialize_and_load<Array(Array)>(stored(), {all.begin(), all.begin() + 4}));
  EXPECT_MISUSE(InvalidArgument, ("twice", "as many distinct ones"),
                deserialize_and_load<Array(Array)>(stored(), std::vector<Device>(8, all[0])));
}

TEST(SerializeError, DevicesThatDoNotExist) {
  std::vector<Device> others = devices();
  others[3].id = 100;
  EXPECT_MISUSE(InvalidArgument, ("twice", "100", "but this process has devices 0..7", "set_num_cpu_devices"),
                deserialize_and_load<Array(Array)>(stored(), others));
}

TEST(SerializeError, OtherResultType) {
  EXPECT_MISUSE(TypeMismatch, ("the result of the stored program is leaf", "cannot hold"),
                deserialize_and_load<std::vector<Array>(Array)>(stored()));
  const auto pair = [](Array x) { return std::pair(x, std::vector<Array>{x}); };
  const std::string bytes = jit(pair).lower(ones({2})).compile().serialize();
  using Other = std::pair<Array, std::pair<Array, Array>>;
  EXPECT_MISUSE(TypeMismatch, ("the result[1]", "vector([0]: leaf)"), deserialize_and_load<Other(Array)>(bytes));
}

TEST(SerializeError, CallsWithOtherArguments) {
  const auto loaded = deserialize_and_load<Array(Array)>(stored());
  EXPECT_MISUSE(TypeMismatch, ("twice: argument [0] was f32[8]", "f32[4]"), loaded(ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("twice: argument [0] was compiled for", "but lies as"),
                loaded(put(ones({8}), mesh_8(), P())));
  const auto two = deserialize_and_load<Array(Array, Array)>(stored());
  EXPECT_MISUSE(TypeMismatch, ("twice: compiled for arguments"), two(ones({8}), ones({8})));
}

TEST(SerializeError, FunctionsOfThisProcess) {
  const unsigned line = __LINE__ + 2;
  const auto prints = jit([](Array x) {
    debug::print("{}", x);
    return x;
  });
  const auto compiled = prints.lower(ones({2})).compile();
  EXPECT_MISUSE(Unsupported,
                ("fn: the program calls a function of this process", "serialize_test.cc:" + std::to_string(line),
                 "debug_callback"),
                compiled.serialize());
  const auto kernel = custom_kernel({.name = "op", .rule = "i -> i", .results = [](const auto& x) { return x; }},
                                    [](const auto&, const auto&) {});
  const auto calls = jit([&](Array x) { return kernel({x})[0]; }).lower(ones({2})).compile();
  EXPECT_MISUSE(Unsupported, ("fn: the program calls a function of this process", "custom_kernel"), calls.serialize());
}

}  // namespace
}  // namespace shoal::test
