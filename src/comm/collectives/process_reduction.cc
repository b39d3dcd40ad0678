#include "comm/collectives/process_reduction.h"

#include <array>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/sort_unique.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/tree_reduction.h"
#include "comm/record/peers.h"
#include "comm/transport/box_copy.h"
#include "core/this_process.h"

namespace shoal::collectives {
namespace {

// From what size on processes share the making of a shard: the second round of messages takes as long as adding this.
constexpr std::size_t kSharedBytes = std::size_t{64} << 10;
constexpr std::int64_t kLine = 64;

bool has(const std::vector<int>& processes, int process) { return std::ranges::binary_search(processes, process); }

std::vector<int> hosts_of(const std::vector<int>& processes) {
  std::vector<int> hosts;
  for (int process : processes) hosts.push_back(host_of(process));
  sort_unique(hosts);
  return hosts;
}

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

class ProcessReduction final : public Collective {
 public:
  ProcessReduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                   std::vector<Runs> runs)
      : Collective(std::move(result)),
        in_(in),
        teams_(in, result_, groups, true),
        reduce_(tree_reduction(kind, in.dtype)),
        runs_(std::move(runs)),
        element_(size_of(in.dtype)) {
    for (std::int64_t shard = 0; shard < in_.count(); ++shard) {
      holders_.push_back(holders_of(*in_.grid, in_.varying, shard));
      hosts_.push_back(hosts_of(holders_.back()));
    }
    trees_.resize(teams_.count());
    for (std::size_t team = 0; team < teams_.count(); ++team) {
      add_branches(teams_.members(team), 0, teams_.members(team).size(), trees_[team]);
    }
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) add_pieces(shard);
    for (std::size_t i = 0; i < pieces_.size(); ++i) add_extras(pieces_[i], i);
    add_jobs();
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    for (const Piece& piece : pieces_) {
      const auto add_extra = [&](std::int32_t extra) {
        needs.push_back({1, extra, line(piece.elements(), 0, piece.elements())});
      };
      const auto add_parts = [&](const HostBranch& branch) {
        for (std::size_t b = branch.first; b < branch.last; ++b) {
          const Branch& part = branches_of(piece)[b];
          if (has(part.holders, process)) continue;
          if (part.is_leaf()) {
            needs.push_back({0, member(piece, part.begin), region_of(piece)});
          } else {
            add_extra(piece.partials[b]);
          }
        }
      };
      if (round == kHostPartials) {
        for (const HostPartial& partial : piece.host_partials) {
          if (partial.maker == process) add_parts(branch_of(piece, partial));
        }
      }
      if (round == kPieces && has(piece.makers, process)) {
        for (std::size_t b = 0; b < host_branches_of(piece).size(); ++b) {
          const HostPartial* const partial = partial_for(piece, b, process);
          if (partial == nullptr) {
            add_parts(host_branches_of(piece)[b]);
          } else if (partial->maker != process) {
            add_extra(partial->extra);
          }
        }
      }
      for (const Copies& copies : piece.copies) {
        if (round == copies.round && has(copies.readers, process)) {
          needs.push_back({1, copies.extra, line(total(piece.shard), piece.begin, piece.end)});
        }
      }
    }
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const Tile& mine = tile_list_[static_cast<std::size_t>(tile)];
    const Job& job = jobs_[static_cast<std::size_t>(mine.job)];
    const std::int64_t elements = job.end - job.begin;
    const std::int64_t end = job.begin + elements * (mine.part + 1) / job.parts;
    std::byte* const out =
        job.makes_extra ? operands[1][job.target] - static_cast<std::size_t>(job.begin) * element_ : result[job.target];
    boost::container::small_vector<const std::byte*, 16> data(job.sources.size());
    for (std::int64_t at = job.begin + elements * mine.part / job.parts; at < end;) {
      const std::int64_t row = at / job.run;
      const std::int64_t column = at % job.run;
      const std::int64_t some = std::min(end - at, job.run - column);
      for (std::size_t i = 0; i < data.size(); ++i) {
        const Source& source = job.sources[i];
        data[i] = operands[source.operand][source.shard] + source.offset + row * source.stride +
                  column * static_cast<std::ptrdiff_t>(element_);
      }
      reduce_(data.data(), job.splits.data(), data.size(), 0, out + static_cast<std::size_t>(at) * element_, some,
              job.streams);
      at += some;
    }
  }

 private:
  // The rounds of a run: partial results of a process for others are made, then those of a host for other hosts; then
  // what this process makes of the result; what others make of it is copied, across hosts to one process of each, and
  // from there to the others.
  enum : std::size_t { kPartials, kHostPartials, kPieces, kCopies, kHostCopies, kRounds };

  // A node of the tree over a group, of which some processes hold all shards. No process holds those of its parent.
  struct Branch {
    std::size_t begin;  // Of the group's members.
    std::size_t end;
    std::vector<int> holders;
    bool is_leaf() const { return end - begin == 1; }
  };
  // The same for hosts, whose processes together hold them.
  struct HostBranch {
    std::vector<int> hosts;
    std::size_t first;  // Of the branches that it consists of,
    std::size_t last;   // and one past the last.
  };
  // The branches of a group, in order.
  struct Tree {
    std::vector<Branch> branches;
    std::vector<HostBranch> host_branches;
  };
  // What a process makes of a branch of its host, for other hosts.
  struct HostPartial {
    std::size_t branch;
    int maker;
    std::int32_t extra;
  };
  // Those that get a piece from one that has it.
  struct Copies {
    std::size_t round;
    std::vector<int> readers;
    std::int32_t extra;
  };
  // A range of the elements of a shard of the result.
  struct Piece {
    std::int32_t shard;
    std::int64_t begin;
    std::int64_t end;
    std::vector<int> makers;
    std::vector<int> readers;                     // Those that get it from others.
    std::vector<std::int32_t> partials = {};      // For each branch the number of its partial result, or -1.
    std::vector<HostPartial> host_partials = {};  // By branch.
    std::vector<Copies> copies = {};
    std::int64_t elements() const { return end - begin; }
  };
  // Where the elements of a row begin.
  struct Source {
    std::size_t operand;
    std::int32_t shard;
    std::ptrdiff_t offset;
    std::ptrdiff_t stride;  // From a row to the next.
  };
  // The reduction of some arrays into a range of elements, numbered as in the shard of the result.
  struct Job {
    std::vector<Source> sources;
    std::vector<std::int32_t> splits;
    bool makes_extra;
    std::int32_t target;  // The extra, or the shard of the result.
    std::int64_t begin;
    std::int64_t end;
    std::int64_t run;  // Elements of a row.
    std::int64_t parts;
    bool streams;
  };
  struct Tile {
    std::int32_t job;
    std::int32_t part;
  };

  const Runs& runs_of(std::int64_t shard) const {
    return runs_[runs_.size() == 1 ? 0 : static_cast<std::size_t>(shard)];
  }
  const Tree& tree_of(const Piece& piece) const { return trees_[teams_.number_of(piece.shard)]; }
  const std::vector<Branch>& branches_of(const Piece& piece) const { return tree_of(piece).branches; }
  const std::vector<HostBranch>& host_branches_of(const Piece& piece) const { return tree_of(piece).host_branches; }
  const HostBranch& branch_of(const Piece& piece, const HostPartial& partial) const {
    return host_branches_of(piece)[partial.branch];
  }
  std::int32_t member(const Piece& piece, std::size_t place) const { return teams_.of(piece.shard)[place]; }
  std::int64_t total(std::int64_t shard) const { return runs_of(shard).outer * runs_of(shard).run; }

  Region line(std::int64_t size, std::int64_t begin, std::int64_t end) const {
    return {.shape = {size}, .start = {begin}, .extents = {end - begin}, .element = element_};
  }

  // What a piece is made from in each shard of the operand.
  Region region_of(const Piece& piece) const {
    const Runs& runs = runs_of(piece.shard);
    const auto columns = [&](std::size_t bytes) { return static_cast<std::int64_t>(bytes / element_); };
    Region region{.shape = {runs.outer, columns(runs.stride)},
                  .start = {0, columns(runs.offset)},
                  .extents = {runs.outer, runs.run},
                  .element = element_};
    if (runs.outer == 1) {
      region.start[1] += piece.begin;
      region.extents[1] = piece.elements();
    }
    return region;
  }

  // Those that have all of some members of a group; `all` has the processes or hosts of each shard.
  static std::vector<int> common_to(const std::vector<std::vector<int>>& all, std::span<const std::int32_t> members) {
    std::vector<int> some = all[static_cast<std::size_t>(members[0])];
    for (std::int32_t member : members.subspan(1)) some = common(some, all[static_cast<std::size_t>(member)]);
    return some;
  }

  void add_branches(std::span<const std::int32_t> members, std::size_t begin, std::size_t end, Tree& tree,
                    bool is_in_host = false) const {
    const std::span<const std::int32_t> some = members.subspan(begin, end - begin);
    if (!is_in_host) {
      if (std::vector<int> hosts = common_to(hosts_, some); !hosts.empty()) {
        const std::size_t first = tree.branches.size();
        add_branches(members, begin, end, tree, true);
        tree.host_branches.push_back({std::move(hosts), first, tree.branches.size()});
        return;
      }
    } else if (std::vector<int> holders = common_to(holders_, some); !holders.empty()) {
      tree.branches.push_back({begin, end, std::move(holders)});
      return;
    }
    const std::size_t half = begin + std::bit_ceil(end - begin) / 2;
    add_branches(members, begin, half, tree, is_in_host);
    add_branches(members, half, end, tree, is_in_host);
  }

  // Divides a shard of the result among those that make it.
  void add_pieces(std::int64_t shard) {
    const std::int64_t elements = total(shard);
    if (elements == 0) return;
    const std::vector<Branch>& branches = trees_[teams_.number_of(shard)].branches;
    std::vector<int> alone;  // Those that need nothing of others.
    std::vector<int> others;
    std::int64_t fetched = 0;  // Shards, if each of the others makes all.
    for (int process : holders_of(*result_.grid, result_.varying, shard)) {
      const std::int64_t some =
          std::ranges::count_if(branches, [&](const Branch& branch) { return !has(branch.holders, process); });
      (some == 0 ? alone : others).push_back(process);
      fetched += some;
    }
    const auto number = static_cast<std::int32_t>(shard);
    if (!alone.empty()) pieces_.push_back({number, 0, elements, std::move(alone), {}});
    if (others.empty()) return;
    const auto count = static_cast<std::int64_t>(others.size());
    // If they share it, they get one of `count` of that, and of each other what it makes.
    const bool fewer = fetched + count * (count - 1) <= count * fetched;
    const bool shares = count > 1 && fewer && runs_of(shard).outer == 1 && result_.bytes(shard) >= kSharedBytes;
    if (!shares) {
      pieces_.push_back({number, 0, elements, std::move(others), {}});
      return;
    }
    const std::int64_t lines = elements * static_cast<std::int64_t>(element_) / kLine;
    const std::int64_t line = kLine / static_cast<std::int64_t>(element_);
    for (std::int64_t i = 0; i < count; ++i) {
      Piece piece{.shard = number,
                  .begin = lines * i / count * line,
                  .end = i + 1 == count ? elements : lines * (i + 1) / count * line,
                  .makers = {others[static_cast<std::size_t>(i)]},
                  .readers = others};
      std::erase(piece.readers, piece.makers[0]);
      pieces_.push_back(std::move(piece));
    }
  }

  // What a process uses in the place of a branch's parts: the partial result of a host that is not its own, or that it
  // has made itself; or null.
  const HostPartial* partial_for(const Piece& piece, std::size_t branch, int process) const {
    const auto found = std::ranges::find(piece.host_partials, branch, &HostPartial::branch);
    if (found == piece.host_partials.end()) return nullptr;
    const bool is_far = !has(host_branches_of(piece)[branch].hosts, host_of(process));
    return is_far || found->maker == process ? &*found : nullptr;
  }

  std::int32_t add_extra(Extra extra) {
    extras_.push_back(std::move(extra));
    return static_cast<std::int32_t>(extras_.size() - 1);
  }
  std::size_t add_scratch(const Piece& piece) {
    const std::size_t bytes = (static_cast<std::size_t>(piece.elements()) * element_ + kLine - 1) / kLine * kLine;
    return std::exchange(scratch_bytes_, scratch_bytes_ + bytes);
  }

  // Numbers what goes from process to process and is no shard of the operand. `number` is that of the piece, by which
  // the processes of a host take turns.
  void add_extras(Piece& piece, std::size_t number) {
    piece.partials.assign(branches_of(piece).size(), -1);
    for (std::size_t b = 0; b < host_branches_of(piece).size(); ++b) {
      const HostBranch& branch = host_branches_of(piece)[b];
      if (branch.last - branch.first > 1) add_host_partial(piece, b, number);
      std::vector<int> readers;  // Of the parts.
      for (int maker : piece.makers) {
        if (partial_for(piece, b, maker) == nullptr) readers.push_back(maker);
      }
      for (const HostPartial& partial : piece.host_partials) {
        if (partial.branch == b) readers.push_back(partial.maker);
      }
      for (std::size_t part = branch.first; part < branch.last; ++part) add_partial(piece, part, readers);
    }
    add_copies(piece, number);
  }

  void add_partial(Piece& piece, std::size_t b, const std::vector<int>& readers) {
    const Branch& branch = branches_of(piece)[b];
    const auto gets = [&](int reader) { return !has(branch.holders, reader); };
    if (branch.is_leaf() || !std::ranges::any_of(readers, gets)) return;
    const int me = this_process();
    const auto gets_from_me = [&](int reader) { return gets(reader) && provider_of(reader, branch.holders) == me; };
    Extra extra{.holders = branch.holders};
    if (std::ranges::any_of(readers, gets_from_me)) extra.scratch = add_scratch(piece);
    piece.partials[b] = add_extra(std::move(extra));
  }

  void add_host_partial(Piece& piece, std::size_t b, std::size_t number) {
    const HostBranch& branch = host_branches_of(piece)[b];
    const auto is_far = [&](int maker) { return !has(branch.hosts, host_of(maker)); };
    if (!std::ranges::any_of(piece.makers, is_far)) return;
    const std::vector<Branch>& parts = branches_of(piece);
    std::vector<int> near;  // Those of the host that hold something of it.
    for (std::size_t place = parts[branch.first].begin; place < parts[branch.last - 1].end; ++place) {
      for (int holder : holders_[static_cast<std::size_t>(member(piece, place))]) {
        if (host_of(holder) == branch.hosts[0]) near.push_back(holder);
      }
    }
    sort_unique(near);
    const int maker = near[number % near.size()];
    Extra extra{.holders = {maker}};
    if (maker == this_process()) extra.scratch = add_scratch(piece);
    piece.host_partials.push_back({b, maker, add_extra(std::move(extra))});
  }

  void add_copies(Piece& piece, std::size_t number) {
    if (piece.readers.empty()) return;
    const auto add = [&](std::size_t round, std::vector<int> readers, const std::vector<int>& holders) {
      const std::int32_t extra =
          add_extra({.holders = holders, .result = has(holders, this_process()) ? piece.shard : -1});
      piece.copies.push_back({round, std::move(readers), extra});
    };
    std::vector<int> first;
    const std::vector<int> near = hosts_of(piece.makers);
    for (int host : hosts_of(piece.readers)) {
      std::vector<int> others;
      std::ranges::copy_if(piece.readers, std::back_inserter(others),
                           [&](int reader) { return host_of(reader) == host; });
      if (has(near, host)) {
        first.insert(first.end(), others.begin(), others.end());
        continue;
      }
      const auto one = others.begin() + static_cast<std::ptrdiff_t>(number % others.size());
      const int receiver = *one;
      others.erase(one);
      first.push_back(receiver);
      if (!others.empty()) add(kHostCopies, std::move(others), {receiver});
    }
    std::ranges::sort(first);
    add(kCopies, std::move(first), piece.makers);
  }

  bool is_made_here(std::int32_t extra) const {
    return extra >= 0 && extras_[static_cast<std::size_t>(extra)].scratch.has_value();
  }

  // The shards that a branch of a piece is made from.
  void add_members(const Piece& piece, const Branch& branch, std::vector<Source>& sources,
                   std::vector<std::int64_t>& positions) const {
    const Runs& runs = runs_of(piece.shard);
    for (std::size_t place = branch.begin; place < branch.end; ++place) {
      sources.push_back({0, member(piece, place), static_cast<std::ptrdiff_t>(runs.offset),
                         static_cast<std::ptrdiff_t>(runs.stride)});
      positions.push_back(1);
    }
  }

  // An extra whose first element is that at `begin` of the shard.
  Source extra_source(const Piece& piece, std::int32_t extra, std::int64_t begin) const {
    const auto size = static_cast<std::ptrdiff_t>(element_);
    return {1, extra, -begin * size, runs_of(piece.shard).run * size};
  }

  // What this process makes a branch of a host from.
  void add_parts(const Piece& piece, const HostBranch& branch, std::vector<Source>& sources,
                 std::vector<std::int64_t>& positions) const {
    for (std::size_t b = branch.first; b < branch.last; ++b) {
      const Branch& part = branches_of(piece)[b];
      const bool is_here = has(part.holders, this_process());
      if (part.is_leaf() || (is_here && !is_made_here(piece.partials[b]))) {
        add_members(piece, part, sources, positions);
      } else {
        sources.push_back(extra_source(piece, piece.partials[b], piece.begin));
        positions.push_back(static_cast<std::int64_t>(part.end - part.begin));
      }
    }
  }

  void add_jobs() {
    const int me = this_process();
    std::array<bool, kRounds> exchanges{};
    exchanges[kPieces] = true;
    for (const Piece& piece : pieces_) {
      if (!piece.host_partials.empty()) exchanges[kHostPartials] = true;
      for (const Copies& copies : piece.copies) exchanges[copies.round] = true;
    }
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (const Piece& piece : pieces_) add_jobs(piece, round, me);
      end_round(exchanges[round]);
    }
  }

  // Those of a process in a round.
  void add_jobs(const Piece& piece, std::size_t round, int me) {
    const std::vector<Branch>& branches = branches_of(piece);
    std::vector<Source> sources;
    std::vector<std::int64_t> positions;
    for (std::size_t b = 0; round == kPartials && b < branches.size(); ++b) {
      if (!is_made_here(piece.partials[b])) continue;
      sources.clear();
      positions.clear();
      add_members(piece, branches[b], sources, positions);
      add_job(piece, sources, positions, piece.partials[b]);
    }
    for (const HostPartial& partial : piece.host_partials) {
      if (round != kHostPartials || partial.maker != me) continue;
      sources.clear();
      positions.clear();
      add_parts(piece, branch_of(piece, partial), sources, positions);
      add_job(piece, sources, positions, partial.extra);
    }
    if (round == kPieces && has(piece.makers, me)) {
      for (std::size_t b = 0; b < host_branches_of(piece).size(); ++b) {
        const HostBranch& branch = host_branches_of(piece)[b];
        if (const HostPartial* const partial = partial_for(piece, b, me)) {
          sources.push_back(extra_source(piece, partial->extra, piece.begin));
          positions.push_back(static_cast<std::int64_t>(branches[branch.last - 1].end - branches[branch.first].begin));
        } else {
          add_parts(piece, branch, sources, positions);
        }
      }
      add_job(piece, std::move(sources), positions);
    }
    for (const Copies& copies : piece.copies) {
      if (round == copies.round && has(copies.readers, me)) add_job(piece, {extra_source(piece, copies.extra, 0)}, {1});
    }
  }

  // Makes a piece of the result, or an extra.
  void add_job(const Piece& piece, std::vector<Source> sources, const std::vector<std::int64_t>& positions,
               std::int32_t extra = -1) {
    const std::size_t bytes = static_cast<std::size_t>(piece.elements()) * element_;
    bytes_ += bytes * (sources.size() + 1);
    jobs_.push_back({.sources = std::move(sources),
                     .splits = tree_splits(positions),
                     .makes_extra = extra >= 0,
                     .target = extra >= 0 ? extra : piece.shard,
                     .begin = piece.begin,
                     .end = piece.end,
                     .run = runs_of(piece.shard).run,
                     .parts = parts_of(bytes),
                     .streams = false});
  }

  void end_round(bool exchanges) {
    const std::size_t first = rounds_.empty() ? 0 : first_job_;
    std::size_t written = 0;
    for (std::size_t j = first; j < jobs_.size(); ++j) {
      written += static_cast<std::size_t>(jobs_[j].end - jobs_[j].begin) * element_;
    }
    for (std::size_t j = first; j < jobs_.size(); ++j) {
      jobs_[j].streams = written >= kStreamedBytes;
      for (std::int64_t part = 0; part < jobs_[j].parts; ++part) {
        tile_list_.push_back({static_cast<std::int32_t>(j), static_cast<std::int32_t>(part)});
      }
    }
    first_job_ = jobs_.size();
    tiles_ = static_cast<std::int64_t>(tile_list_.size());
    rounds_.push_back({.exchanges = exchanges, .end = tiles_});
  }

  ShardShapes in_;
  Teams teams_;  // In device order.
  TreeReduction reduce_;
  std::vector<Runs> runs_;
  std::size_t element_;                    // Bytes.
  std::vector<std::vector<int>> holders_;  // Of each shard of the operand,
  std::vector<std::vector<int>> hosts_;    // and theirs.
  std::vector<Tree> trees_;                // Of each team.
  std::vector<Piece> pieces_;
  std::vector<Job> jobs_;
  std::size_t first_job_ = 0;  // Of the round that is being planned.
  std::vector<Tile> tile_list_;
};

}  // namespace

CollectivePtr process_reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                                std::vector<Runs> runs) {
  return std::make_unique<ProcessReduction>(in, std::move(result), groups, kind, std::move(runs));
}

}  // namespace shoal::collectives
