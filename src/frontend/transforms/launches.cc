#include "frontend/transforms/launches.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <utility>

#include "frontend/array/array_impl.h"
#include "sharding/current_mesh.h"

namespace shoal::detail {
namespace {

bool is_for(const Launch& launch, const CallKey& call) {
  if (call.type != launch.key.type || call.leaves.size() != launch.kinds.size()) return false;
  for (std::size_t i = 0; i < launch.kinds.size(); ++i) {
    const ArrayImpl* impl = Access::get(*call.leaves[i]);
    if (impl == nullptr || impl->kind != launch.kinds[i]) return false;
  }
  return call.structure == launch.key.structure && call.statics == launch.key.statics &&
         launch.context == current_mesh() && launch.place == default_place() && launch.keys == key_mode();
}

std::size_t hash_of(const CallKey& call) {
  std::size_t seed = 0;
  boost::hash_combine(seed, call.type);
  boost::hash_combine(seed, call.structure);
  for (const Array* leaf : call.leaves) {
    const ArrayImpl* impl = Access::get(*leaf);
    boost::hash_combine(seed, impl == nullptr ? nullptr : impl->kind.get());
  }
  for (const StaticValue& value : call.statics) boost::hash_combine(seed, value.hash());
  return seed;
}

}  // namespace

const Launch* Launches::find(const CallKey& call) {
  const Launch* last = last_.load();
  if (last == nullptr || is_for(*last, call)) return last;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = launches_.equal_range(hash_of(call));
  const auto found = std::find_if(begin, end, [&](const auto& entry) { return is_for(entry.second, call); });
  if (found == end) return nullptr;
  last_.store(&found->second);
  return &found->second;
}

const Launch* Launches::find(const CallKey& call, DeviceArrays& values) {
  if (key_mode().checks_reuse) return nullptr;  // Each call is looked at.
  const Launch* launch = find(call);
  if (launch == nullptr) return nullptr;
  for (const Array* leaf : call.leaves) {
    const ArrayImpl& impl = *Access::get(*leaf);
    ShardFuture shards = impl.shards();
    if (!shards) return nullptr;
    values.push_back({impl.kind, std::move(shards)});
  }
  return launch;
}

void Launches::add(const CallKey& call, const std::vector<Array>& leaves, std::shared_ptr<const Traced> traced,
                   std::shared_ptr<const Program> program) {
  Launch launch{.key = {.type = call.type, .structure = call.structure, .statics = call.statics},
                .kinds = {},
                .context = current_mesh(),
                .place = default_place(),
                .keys = key_mode(),
                .traced = std::move(traced),
                .program = std::move(program)};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (Access::get(leaves[i]) != Access::get(*call.leaves[i])) return;
    launch.kinds.push_back(impl_of(leaves[i]).kind);
  }
  const std::size_t hash = hash_of(call);
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = launches_.equal_range(hash);
  if (std::any_of(begin, end, [&](const auto& entry) { return is_for(entry.second, call); })) return;
  last_.store(&launches_.emplace(hash, std::move(launch))->second);
}

void Launches::clear() {
  std::vector<ByHash> unused;  // Destroyed when the mutex is free, as launches hold objects of the caller.
  const std::lock_guard lock(mutex_);
  last_.store(nullptr);
  forgotten_.push_back(std::exchange(launches_, {}));
  // Whoever comes now finds none of them: a Use counts itself before it looks at last_.
  if (uses_ == 0) unused.swap(forgotten_);
}

}  // namespace shoal::detail
