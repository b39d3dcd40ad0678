#include "backend/cpu/moves/move_kernels.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/moves/strided_copy.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

constexpr std::int64_t kTileBytes = 1 << 17;

struct Move {
  std::size_t operand = 0;
  StridedCopy copy;  ///< Simplified.
};

Dims byte_strides(const TensorView& view) {
  Dims strides = row_major_strides(view.shape);
  for (std::int64_t& stride : strides) stride *= static_cast<std::int64_t>(size_of(view.dtype));
  return strides;
}

Move whole_of(std::size_t operand, StridedCopy copy, const TensorView& out) {
  return {.operand = operand, .copy = copy.simplified(size_of(out.dtype))};
}

/// The moves of an op: where the elements of its operands go. All but the first may write what an earlier one wrote, if
/// `layered`; else they write different elements.
struct Moves {
  std::vector<Move> list;
  bool layered = false;
};

Moves broadcast_moves(const Attrs& attrs, Views in, const TensorView& out) {
  StridedCopy copy{.extents = out.shape, .from_strides = Dims(out.shape.size(), 0), .to_strides = byte_strides(out)};
  const Dims strides = byte_strides(in[0]);
  const Dims& dims = attrs.get<Dims>("dims");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (in[0].shape[i] != 1) copy.from_strides[static_cast<std::size_t>(dims[i])] = strides[i];
  }
  return {{whole_of(0, std::move(copy), out)}};
}

// Of ops that leave all bytes in their order.
Moves reshape_moves(const Attrs&, Views, const TensorView& out) {
  return {
      {whole_of(0, {.extents = out.shape, .from_strides = byte_strides(out), .to_strides = byte_strides(out)}, out)}};
}

Moves transpose_moves(const Attrs& attrs, Views in, const TensorView& out) {
  const Dims& perm = attrs.get<Dims>("perm");
  const Dims strides = byte_strides(in[0]);
  StridedCopy copy{.extents = out.shape, .from_strides = {}, .to_strides = byte_strides(out)};
  for (std::int64_t d : perm) copy.from_strides.push_back(strides[static_cast<std::size_t>(d)]);
  return {{whole_of(0, std::move(copy), out)}};
}

Moves slice_moves(const Attrs& attrs, Views in, const TensorView& out) {
  const Dims& starts = attrs.get<Dims>("starts");
  const Dims& steps = attrs.get<Dims>("strides");
  StridedCopy copy{.extents = out.shape, .from_strides = byte_strides(in[0]), .to_strides = byte_strides(out)};
  for (std::size_t d = 0; d < starts.size(); ++d) {
    copy.from_offset += starts[d] * copy.from_strides[d];
    if (out.shape[d] > 1) copy.from_strides[d] *= steps[d];  // A step that is never taken may be as large as it likes.
  }
  return {{whole_of(0, std::move(copy), out)}};
}

Moves reverse_moves(const Attrs& attrs, Views in, const TensorView& out) {
  StridedCopy copy{.extents = out.shape, .from_strides = byte_strides(in[0]), .to_strides = byte_strides(out)};
  for (std::int64_t dim : attrs.get<Dims>("dims")) {
    const auto d = static_cast<std::size_t>(dim);
    copy.from_offset += (in[0].shape[d] - 1) * copy.from_strides[d];
    copy.from_strides[d] = -copy.from_strides[d];
  }
  return {{whole_of(0, std::move(copy), out)}};
}

// Each dimension in two pieces: what comes in at the beginning, and what is moved on.
Moves roll_moves(const Attrs& attrs, Views in, const TensorView& out) {
  const Dims& shifts = attrs.get<Dims>("shifts");
  Moves moves;
  std::vector<StridedCopy> copies = {
      {.extents = out.shape, .from_strides = byte_strides(in[0]), .to_strides = byte_strides(out)}};
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    const std::int64_t extent = out.shape[d];
    const std::int64_t shift = extent == 0 ? 0 : (shifts[d] % extent + extent) % extent;
    if (shift == 0) continue;
    for (std::size_t i = copies.size(); i-- > 0;) {
      StridedCopy begins = copies[i];
      begins.extents[d] = shift;
      begins.from_offset += (extent - shift) * begins.from_strides[d];
      copies.push_back(std::move(begins));
      copies[i].extents[d] = extent - shift;
      copies[i].to_offset += shift * copies[i].to_strides[d];
    }
  }
  for (StridedCopy& copy : copies) moves.list.push_back(whole_of(0, std::move(copy), out));
  return moves;
}

Moves concatenate_moves(const Attrs& attrs, Views in, const TensorView& out) {
  const auto dim = static_cast<std::size_t>(attrs.get<std::int64_t>("dim"));
  Moves moves;
  const Dims strides = byte_strides(out);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    StridedCopy copy{.extents = in[i].shape, .from_strides = byte_strides(in[i]), .to_strides = strides};
    copy.to_offset = start * strides[dim];
    start += in[i].shape[dim];
    moves.list.push_back(whole_of(i, std::move(copy), out));
  }
  return moves;
}

// What lies around the operand where it is padded on the outside alone: for each dimension the slabs before and behind
// it. They do not overlap.
std::vector<Move> frame_moves(const Dims& low, const Shape& operand, const TensorView& out) {
  std::vector<Move> moves;
  StridedCopy slab{.extents = out.shape, .from_strides = Dims(out.shape.size(), 0), .to_strides = byte_strides(out)};
  for (std::size_t d = 0; d < low.size(); ++d) {
    const std::int64_t behind = low[d] + operand[d];
    for (const auto& [start, extent] : {std::pair(std::int64_t{0}, low[d]), std::pair(behind, out.shape[d] - behind)}) {
      if (extent == 0) continue;
      StridedCopy fill = slab;
      fill.extents[d] = extent;
      fill.to_offset += start * fill.to_strides[d];
      moves.push_back(whole_of(1, std::move(fill), out));
    }
    slab.extents[d] = operand[d];
    slab.to_offset += low[d] * slab.to_strides[d];
  }
  return moves;
}

Moves pad_moves(const Attrs& attrs, Views in, const TensorView& out) {
  const Dims& low = attrs.get<Dims>("low");
  const Dims& interior = attrs.get<Dims>("interior");
  StridedCopy fill{.extents = out.shape, .from_strides = Dims(out.shape.size(), 0), .to_strides = byte_strides(out)};
  StridedCopy copy{.extents = in[0].shape, .from_strides = byte_strides(in[0]), .to_strides = byte_strides(out)};
  bool is_frame = true;
  for (std::size_t d = 0; d < low.size(); ++d) {
    // Negative padding cuts off elements at either end.
    const std::int64_t step = interior[d] + 1;
    const std::int64_t first = low[d] >= 0 ? 0 : (-low[d] + step - 1) / step;
    const std::int64_t reach = out.shape[d] - low[d];
    const std::int64_t end = std::min(in[0].shape[d], reach <= 0 ? 0 : (reach + step - 1) / step);
    copy.extents[d] = std::max<std::int64_t>(0, end - first);
    copy.from_offset += first * copy.from_strides[d];
    copy.to_offset += (low[d] + first * step) * copy.to_strides[d];
    copy.to_strides[d] *= step;
    is_frame = is_frame && low[d] >= 0 && interior[d] == 0 && reach >= in[0].shape[d];
  }
  if (is_frame) {  // Most elements are those of the operand: filling all first would write them twice.
    Moves moves{.list = frame_moves(low, in[0].shape, out)};
    moves.list.push_back(whole_of(0, std::move(copy), out));
    return moves;
  }
  return {{whole_of(1, std::move(fill), out), whole_of(0, std::move(copy), out)}, true};
}

using MovesOf = Moves (*)(const Attrs&, Views, const TensorView&);

struct Row {
  std::string_view op;
  MovesOf moves;
};

constexpr Row kRows[] = {
    {"bitcast", reshape_moves},
    {"broadcast_in_dim", broadcast_moves},
    {"concatenate", concatenate_moves},
    {"pad", pad_moves},
    {"reshape", reshape_moves},
    {"reverse", reverse_moves},
    {"roll", roll_moves},
    {"slice", slice_moves},
    {"to_memory", reshape_moves},
    {"transpose", transpose_moves},
};

const Row* moves_of(const OpDef& op) {
  const auto* row = std::ranges::find(kRows, op.name, &Row::op);
  return row == std::end(kRows) ? nullptr : row;
}

/// How the rows of a move are divided into tiles.
struct Division {
  std::int64_t rows;  ///< Of a tile.
  std::int64_t tiles;
};

Division division(const Move& move, std::size_t element_size) {
  const std::int64_t rows = move.copy.rows();
  const std::int64_t bytes = num_elements(move.copy.extents) * static_cast<std::int64_t>(element_size);
  const std::int64_t per_tile = bytes == 0            ? 1
                                : bytes <= kTileBytes ? rows
                                                      : std::max<std::int64_t>(1, kTileBytes / (bytes / rows));
  return {.rows = per_tile, .tiles = std::max<std::int64_t>(1, (rows + per_tile - 1) / per_tile)};
}

/// Whether the rows of several moves lie between each other in the result, in pieces shorter than `most` bytes.
bool are_interleaved(const Moves& moves, std::int64_t most) {
  constexpr std::size_t kMany = 16;  // Of many each would copy too little at a time.
  if (moves.layered || moves.list.size() < 2 || moves.list.size() > kMany) return false;
  const StridedCopy& first = moves.list.front().copy;
  return first.to_strides[0] < most && std::ranges::all_of(moves.list, [&](const Move& move) {
           return move.copy.rows() == first.rows() && move.copy.to_strides[0] == first.to_strides[0] &&
                  move.copy.to_offset - first.to_offset < first.to_strides[0];
         });
}

class MoveKernel final : public Kernel {
 private:
  // Interleaved moves are made together, so many bytes of the result at a time: they stay in the first cache meanwhile.
  static constexpr std::int64_t kTogetherBytes = 1 << 13;

  struct Plan {
    Moves moves;
    bool interleaved;
    std::vector<Division> divisions;  // Of each move, or of all of them.
  };

  Plan plan(Views inputs, const TensorView& out) const {
    Plan made{.moves = moves_(attrs_, inputs, out), .interleaved = false, .divisions = {}};
    made.interleaved = are_interleaved(made.moves, kTogetherBytes);
    if (made.interleaved) {
      const StridedCopy& first = made.moves.list.front().copy;
      const std::int64_t per_tile = kTileBytes / first.to_strides[0];
      made.divisions.push_back({.rows = per_tile, .tiles = (first.rows() + per_tile - 1) / per_tile});
      return made;
    }
    for (const Move& move : made.moves.list) made.divisions.push_back(division(move, size_of(out.dtype)));
    return made;
  }

  // In a loop over few elements planning would take longer than moving.
  template <class F>
  auto with_plan(Views inputs, const TensorView& out, F&& f) const {
    bool is_usual = out.shape == shapes_.back();
    for (std::size_t i = 0; i < inputs.size(); ++i) is_usual = is_usual && inputs[i].shape == shapes_[i];
    return is_usual ? f(usual_) : f(plan(inputs, out));
  }

 public:
  /// Of operands and a result of these types, as most shards are.
  MoveKernel(MovesOf moves, const Attrs& attrs, const std::vector<Type>& operands, const Type& result)
      : moves_(moves), attrs_(attrs) {
    std::vector<TensorView> inputs;
    for (const Type& type : operands) {
      shapes_.push_back(type.shape);
      inputs.push_back({type.dtype, type.shape, nullptr});
    }
    shapes_.push_back(result.shape);
    usual_ = plan(inputs, {result.dtype, result.shape, nullptr});
  }

  Work work(Views inputs, Views outputs) const override {
    return with_plan(inputs, outputs[0], [&](const Plan& plan) -> Work {
      std::int64_t tiles = 0;
      for (const Division& parts : plan.divisions) {
        tiles += parts.tiles;
        if (plan.moves.layered) break;
      }
      return {.tiles = std::max<std::int64_t>(1, tiles)};
    });
  }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    with_plan(inputs, outputs[0], [&](const Plan& plan) {
      if (plan.interleaved) return copy_together(plan, inputs, outputs[0], tile);
      for (std::size_t i = 0; i < plan.divisions.size(); ++i) {
        const Division& parts = plan.divisions[i];
        if (tile < parts.tiles) {
          return copy(plan.moves.list[i], inputs, outputs[0], tile * parts.rows, (tile + 1) * parts.rows);
        }
        tile -= parts.tiles;
      }
    });
  }

  void finish(Views inputs, Views outputs, std::byte*) const override {
    with_plan(inputs, outputs[0], [&](const Plan& plan) {
      if (!plan.moves.layered) return;
      for (std::size_t i = 1; i < plan.moves.list.size(); ++i) {
        copy(plan.moves.list[i], inputs, outputs[0], 0, plan.moves.list[i].copy.rows());
      }
    });
  }

 private:
  static void copy_together(const Plan& plan, Views inputs, const TensorView& out, std::int64_t tile) {
    const Division& parts = plan.divisions.front();
    const StridedCopy& first = plan.moves.list.front().copy;
    const std::int64_t at_once = kTogetherBytes / first.to_strides[0];
    const std::int64_t end = std::min((tile + 1) * parts.rows, first.rows());
    for (std::int64_t row = tile * parts.rows; row < end; row += at_once) {
      for (const Move& move : plan.moves.list) copy(move, inputs, out, row, std::min(row + at_once, end));
    }
  }

  static void copy(const Move& move, Views inputs, const TensorView& out, std::int64_t first, std::int64_t last) {
    copy_rows(move.copy, size_of(out.dtype), static_cast<const std::byte*>(inputs[move.operand].data),
              static_cast<std::byte*>(out.data), first, std::min(last, move.copy.rows()));
  }

  MovesOf moves_;
  Attrs attrs_;
  std::vector<Shape> shapes_;  // Of the operands and the result that the usual plan is for.
  Plan usual_;
};

/// One constant everywhere.
class FillKernel final : public Kernel {
 public:
  explicit FillKernel(const Scalar& value) : value_(value) {}

  Work work(Views, Views outputs) const override {
    const std::int64_t bytes = num_elements(outputs[0].shape) * static_cast<std::int64_t>(size_of(value_.dtype));
    return {.tiles = std::max<std::int64_t>(1, (bytes + kTileBytes - 1) / kTileBytes)};
  }

  void run(Views, Views outputs, std::byte*, std::int64_t tile) const override {
    const auto size = static_cast<std::int64_t>(size_of(value_.dtype));
    const std::int64_t per_tile = kTileBytes / size;
    const StridedCopy copy{.extents = {num_elements(outputs[0].shape)}, .from_strides = {0}, .to_strides = {size}};
    copy_rows(copy, static_cast<std::size_t>(size), value_.bytes.data(), static_cast<std::byte*>(outputs[0].data),
              tile * per_tile, std::min((tile + 1) * per_tile, copy.extents[0]));
  }

 private:
  Scalar value_;
};

}  // namespace

bool only_moves(const OpDef& op) { return moves_of(op) != nullptr; }

std::unique_ptr<Kernel> move_kernel(const Graph& graph, const Eqn& eqn) {
  const Row* row = moves_of(*eqn.op);
  if (row == nullptr) return nullptr;
  return std::make_unique<MoveKernel>(row->moves, eqn.attrs, graph.types(eqn.inputs), graph.type(eqn.outputs[0]));
}

std::unique_ptr<Kernel> fill_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<FillKernel>(eqn.attrs.get<Scalar>("value"));
}

}  // namespace shoal::cpu
