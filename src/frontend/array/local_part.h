// The part of an array or mesh over several processes that this process has.
#pragma once

#include <string_view>

#include "base/digest.h"
#include "runtime/device_array.h"
#include "shoal/array.h"
#include "shoal/mesh.h"

namespace shoal::detail {

/// The same shards under another kind: each device of this process that `kind` names holds what it holds of `array`.
/// Nothing is copied or waited for.
DeviceArray relabelled(const DeviceArray& array, KindPtr kind, const Digest& lineage = {});

/// The devices of this process as a mesh with the same axes. Throws InvalidArgument unless they are a grid within
/// the mesh.
Mesh local_mesh(const Mesh& mesh);

/// What devices of this process hold of an array, as an array over their local_mesh. Nothing is moved or waited for.
Array local_part(const Array& array);

/// The reverse: an array of this `shape` and sharding, of which this process has `part`. The other processes have the
/// rest. Moves `part` first where it does not lie so within this process. `lineage` is that of the result.
Array joined_part(const DeviceArray& part, const Shape& shape, const NamedSharding& sharding, const Digest& lineage);

}  // namespace shoal::detail
