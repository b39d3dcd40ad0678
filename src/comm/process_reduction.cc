#include "comm/process_reduction.h"

#include <bit>
#include <boost/container/small_vector.hpp>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "comm/box_copy.h"
#include "comm/exchange.h"
#include "comm/tree_reduction.h"
#include "core/this_process.h"

namespace shoal::local {
namespace {

// From what size on processes share the making of a shard: the second round of messages takes as long as adding this.
constexpr std::size_t kSharedBytes = std::size_t{64} << 10;
constexpr std::int64_t kLine = 64;

bool has(const std::vector<int>& processes, int process) { return std::ranges::binary_search(processes, process); }

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
    }
    branches_.resize(teams_.count());
    for (std::size_t team = 0; team < teams_.count(); ++team) {
      add_branches(teams_.members(team), 0, teams_.members(team).size(), branches_[team]);
    }
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) add_pieces(shard);
    for (Piece& piece : pieces_) add_extras(piece);
    add_jobs();
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    for (const Piece& piece : pieces_) {
      if (round == kCopies && has(piece.readers, process)) {
        needs.push_back({1, piece.extra, line(total(piece.shard), piece.begin, piece.end)});
      }
      if (round != kPieces || !has(piece.makers, process)) continue;
      const std::vector<Branch>& branches = branches_of(piece);
      for (std::size_t b = 0; b < branches.size(); ++b) {
        if (has(branches[b].holders, process)) continue;
        if (branches[b].is_leaf()) {
          needs.push_back({0, member(piece, branches[b].begin), region_of(piece)});
        } else {
          needs.push_back({1, piece.partials[b], line(piece.elements(), 0, piece.elements())});
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
  // The rounds of a run: partial results for others are made, then what this process makes of the result; what others
  // make of it is copied.
  enum : std::size_t { kPartials, kPieces, kCopies };

  // A node of the tree over a group, of which some processes hold all shards. No process holds those of its parent.
  struct Branch {
    std::size_t begin;  // Of the group's members.
    std::size_t end;
    std::vector<int> holders;
    bool is_leaf() const { return end - begin == 1; }
  };
  // A range of the elements of a shard of the result.
  struct Piece {
    std::int32_t shard;
    std::int64_t begin;
    std::int64_t end;
    std::vector<int> makers;
    std::vector<int> readers;                 // Those that get it from a maker.
    std::int32_t extra = -1;                  // Its number for them.
    std::vector<std::int32_t> partials = {};  // For each branch the number of its partial result, or -1.
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
  const std::vector<Branch>& branches_of(const Piece& piece) const { return branches_[teams_.number_of(piece.shard)]; }
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

  void add_branches(std::span<const std::int32_t> members, std::size_t begin, std::size_t end,
                    std::vector<Branch>& branches) const {
    const auto holders = [&](std::size_t place) -> const std::vector<int>& {
      return holders_[static_cast<std::size_t>(members[place])];
    };
    std::vector<int> all = holders(begin);
    for (std::size_t i = begin + 1; i < end && !all.empty(); ++i) all = common(all, holders(i));
    if (!all.empty()) {
      branches.push_back({begin, end, std::move(all)});
      return;
    }
    const std::size_t half = begin + std::bit_ceil(end - begin) / 2;
    add_branches(members, begin, half, branches);
    add_branches(members, half, end, branches);
  }

  // Divides a shard of the result among those that make it.
  void add_pieces(std::int64_t shard) {
    const std::int64_t elements = total(shard);
    if (elements == 0) return;
    const std::vector<Branch>& branches = branches_[teams_.number_of(shard)];
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

  // Numbers what goes from process to process and is no shard of the operand.
  void add_extras(Piece& piece) {
    const std::vector<Branch>& branches = branches_of(piece);
    const int me = this_process();
    piece.partials.assign(branches.size(), -1);
    for (std::size_t b = 0; b < branches.size(); ++b) {
      const Branch& branch = branches[b];
      const auto gets = [&](int maker) { return !has(branch.holders, maker); };
      if (branch.is_leaf() || !std::ranges::any_of(piece.makers, gets)) continue;
      const auto gets_from_me = [&](int maker) { return gets(maker) && provider_of(maker, branch.holders) == me; };
      piece.partials[b] = static_cast<std::int32_t>(extras_.size());
      Extra& extra = extras_.emplace_back(Extra{.holders = branch.holders});
      if (!std::ranges::any_of(piece.makers, gets_from_me)) continue;
      extra.scratch = scratch_bytes_;
      scratch_bytes_ += (static_cast<std::size_t>(piece.elements()) * element_ + kLine - 1) / kLine * kLine;
    }
    if (piece.readers.empty()) return;
    piece.extra = static_cast<std::int32_t>(extras_.size());
    extras_.push_back({.holders = piece.makers, .result = has(piece.makers, me) ? piece.shard : -1});
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

  void add_jobs() {
    const int me = this_process();
    for (const Piece& piece : pieces_) {
      const std::vector<Branch>& branches = branches_of(piece);
      for (std::size_t b = 0; b < branches.size(); ++b) {
        if (!is_made_here(piece.partials[b])) continue;
        std::vector<Source> sources;
        std::vector<std::int64_t> positions;
        add_members(piece, branches[b], sources, positions);
        add_job(piece, std::move(sources), positions, piece.partials[b]);
      }
    }
    end_round(false);
    for (const Piece& piece : pieces_) {
      if (!has(piece.makers, me)) continue;
      const std::vector<Branch>& branches = branches_of(piece);
      std::vector<Source> sources;
      std::vector<std::int64_t> positions;
      for (std::size_t b = 0; b < branches.size(); ++b) {
        const bool is_here = has(branches[b].holders, me);
        if (branches[b].is_leaf() || (is_here && !is_made_here(piece.partials[b]))) {
          add_members(piece, branches[b], sources, positions);
        } else {
          sources.push_back(extra_source(piece, piece.partials[b], piece.begin));
          positions.push_back(static_cast<std::int64_t>(branches[b].end - branches[b].begin));
        }
      }
      add_job(piece, std::move(sources), positions);
    }
    end_round(true);
    if (std::ranges::all_of(pieces_, [](const Piece& piece) { return piece.readers.empty(); })) return;
    for (const Piece& piece : pieces_) {
      if (has(piece.readers, me)) add_job(piece, {extra_source(piece, piece.extra, 0)}, {1});
    }
    end_round(true);
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
  std::size_t element_;                        // Bytes.
  std::vector<std::vector<int>> holders_;      // Of each shard of the operand.
  std::vector<std::vector<Branch>> branches_;  // Of each team, in order.
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

}  // namespace shoal::local
