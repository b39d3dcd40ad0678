// Bytes that look like a stored program, their checksum included, and are none: whoever writes them must not get more
// than an exception.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "frontend/test_support.h"
#include "frontend/transforms/jit_impl.h"
#include "shoal/serialize.h"

namespace shoal::test {
namespace {

// Programs that have of everything: captured arrays, trees, regions with collectives, constraints, donation, effects
// of none.
std::vector<std::string> stored_programs() {
  const Array table = put(iota({8, 2}), mesh_8(), P("i"));
  const NamedSharding columns(mesh_4x2(), P(none, "y"));
  const auto sum = shard_map([](const Array& x) { return lax::psum(x, "i"); },
                             {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  return {
      jit([&](const Array& x) { return table * x + 1; }).lower(Array(2)).compile().serialize(),
      jit(
          [&](const Array& x) {
            return std::vector<Array>{sum(x), x.T()};
          },
          {.donate_argnums = {0}})
          .lower(put(iota({16, 2}), mesh_8(), P("i")))
          .compile()
          .serialize(),
      jit([&](const Array& x, const Array& y) { return with_sharding_constraint(matmul(x, y), columns); })
          .lower(put(iota({8, 8}), mesh_4x2(), P("x", "y")), iota({8, 4}))
          .compile()
          .serialize(),
      jit([](const Array& x, const Array& i) { return sort(x.at(i).add(1))[{range(1, 5)}]; })
          .lower(iota({8}), arange(3))
          .compile()
          .serialize(),
  };
}

// The bytes with a checksum that fits them.
std::string signed_again(std::string bytes) {
  const std::size_t end = bytes.size() - sizeof(std::int64_t);
  const std::int64_t checksum = checksum_of(std::string_view(bytes).substr(0, end));
  std::memcpy(bytes.data() + end, &checksum, sizeof checksum);
  return bytes;
}

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::string of(std::string bytes) {
    for (std::size_t i = 0; i <= below(3); ++i) once(bytes);
    return signed_again(std::move(bytes));
  }

 private:
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  // After the magic, and before the checksum.
  void once(std::string& bytes) {
    constexpr std::size_t kStart = 60;
    const std::size_t length = bytes.size() - kStart - sizeof(std::int64_t);
    const std::size_t at = kStart + below(length);
    const std::size_t some = std::min(1 + below(12), bytes.size() - sizeof(std::int64_t) - at);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:  // Texts stay texts.
        for (std::size_t i = at; i < at + 40 && i < bytes.size() - sizeof(std::int64_t); ++i) {
          if (bytes[i] >= '0' && bytes[i] <= '9') {
            bytes[i] = static_cast<char>('0' + below(10));
            break;
          }
        }
        break;
      case 2:  // One part in the place of another, as long.
        bytes.replace(at, some, bytes.substr(kStart + below(length - some), some));
        break;
      case 3:
        bytes.erase(at, some);
        break;
      case 4:
        bytes.insert(at, bytes.substr(kStart + below(length - some), some));
        break;
      case 5: {  // A number of eight bytes.
        const std::int64_t numbers[] = {-1, 0, 1, 1 << 20, std::int64_t{1} << 40, INT64_MAX, INT64_MIN};
        const std::int64_t number = numbers[below(std::size(numbers))];
        if (at + sizeof number + sizeof number < bytes.size()) std::memcpy(bytes.data() + at, &number, sizeof number);
        break;
      }
    }
  }

  std::mt19937 random_;
};

TEST(DamagedProgram, IsRefusedOrRuns) {
  int refused = 0;
  int loaded = 0;
  unsigned seed = 0;
  const std::vector<std::string> programs = stored_programs();
  for (int round = 0; round < 3000; ++round) {
    for (const std::string& program : programs) {
      const std::string bytes = Damage(++seed).of(program);
      SCOPED_TRACE("seed " + std::to_string(seed));
      try {
        detail::load_compiled(bytes, {}, SourceLocation());
        ++loaded;
      } catch (const InternalError& error) {
        ADD_FAILURE() << error.what();
      } catch (const Error& error) {
        ++refused;
        EXPECT_NE(std::string(error.what()).find("deserialize_and_load"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_GT(refused, 5000) << loaded;
  EXPECT_GT(loaded, 100) << refused;
  RecordProperty("loaded", loaded);
}

}  // namespace
}  // namespace shoal::test
