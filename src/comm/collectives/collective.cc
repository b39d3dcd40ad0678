#include "comm/collectives/collective.h"

#include <utility>

namespace shoal::collectives {

void Collective::add_needs(std::size_t, int process, std::vector<Need>& needs) const {
  for (std::int32_t shard : result_.grid->held_by(process, result_.varying).shards) add_needs_of(shard, needs);
}

View Collective::place_of(std::int64_t shard, const View& source, const ShardShapes& in) const {
  const bool comes = source.shard >= 0 && result_.is_held(shard) && !in.is_held(source.shard);
  return comes ? View{.shard = View::kMade} : source;
}

void Collective::set_views(std::vector<View> views) {
  bool makes_all = result_.count_held() > 0;
  for (std::int64_t shard = 0; makes_all && shard < result_.count(); ++shard) {
    makes_all = !result_.is_held(shard) || views[static_cast<std::size_t>(shard)].shard == View::kMade;
  }
  if (!makes_all) views_ = std::move(views);
}

}  // namespace shoal::collectives
