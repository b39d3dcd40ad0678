// What the tests of the frontend share: eight devices, and short ways to put arrays on them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "shoal/debug.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/mesh_context.h"
#include "shoal/nn.h"
#include "shoal/numpy.h"
#include "shoal/shard_map.h"
#include "spmd/test_collectives.h"

namespace shoal::test {

class EightDevices : public testing::Environment {
 public:
  void SetUp() override { set_num_cpu_devices(8); }
};
inline testing::Environment* const kEightDevices = testing::AddGlobalTestEnvironment(new EightDevices);

inline Mesh mesh_4x2() { return make_mesh({4, 2}, {"x", "y"}); }
inline Mesh mesh_8() { return make_mesh({8}, {"i"}); }

inline Array put(const Operand& x, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(x, NamedSharding(mesh, spec));
}

/// The spec of an array that lies on a mesh.
inline PartitionSpec spec_of(const Array& array) { return array.sharding().named()->spec(); }

/// 0, 1, … in f32, in a shape.
inline Array iota(const Shape& shape) { return arange(static_cast<double>(num_elements(shape))).reshape(shape); }

/// What f, a function of these arrays, moves when it is partitioned.
template <class F, class... Arrays>
test_support::Collectives collectives_of(F&& f, const Arrays&... arrays) {
  return test_support::collectives_in(jit(f).lower(arrays...).compile().as_text());
}

inline std::vector<float> floats(const Array& array) { return array.to_vector<float>(); }
inline std::vector<int> ints(const Array& array) { return array.to_vector<int>(); }

/// Whether both hold the same elements in the same shape and dtype.
inline bool same(const Array& a, const Array& b) { return a.shape() == b.shape() && repr(a) == repr(b); }

}  // namespace shoal::test
