#include "backend/cpu/loops/fused_kernel.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "backend/cpu/loops/interpreter.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/narrow_rows.h"
#include "backend/cpu/loops/tiers.h"
#include "backend/cpu/loops/unrolled_rows.h"
#include "base/check.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

// Elements of the domain in one tile: few enough to stay in the cache with all that is read, and enough to outweigh
// handing them out.
constexpr std::int64_t kTileElements = 1 << 15;
// Rows over which a tile adds up columns, and columns that it does it for: what is added to stays in the first cache.
constexpr std::int64_t kAddedRows = 256;
constexpr std::int64_t kAddedColumns = 2048;

// Results of a step of so many bytes are not in a cache when they are read again.
constexpr std::int64_t kStreamedBytes = 1 << 23;

/// Memory for the temporaries of a loop. Each thread has its own, which stays in its cache.
std::byte* temporaries(std::size_t bytes) {
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
    size = bytes;
  }
  return memory.get();
}

/// Where an operand without elements is read: of what is uniform in a row, loops read the one element even if the row
/// has no columns. Nobody writes there.
std::byte* nothing() {
  alignas(16) static std::byte bytes[16] = {};
  return bytes;
}

std::int64_t pieces_of(std::int64_t n, std::int64_t piece) { return n == 0 ? 1 : (n + piece - 1) / piece; }

/// A loop and the shapes of a shard: what is run on it, but for the addresses.
struct Geometry : LoopStrides {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  // A tile is some rows, or a part of one, or of the columns of some rows.
  std::int64_t tile_rows = 1;
  std::int64_t tile_columns = 1;
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
  // Totals.
  std::int64_t kept = 1;                          // Elements of the results, columns apart.
  std::int64_t parts = 1;                         // Partial results of each.
  std::vector<std::size_t> partial_offsets = {};  // In scratch memory.
  std::size_t partial_bytes = 0;
};

class FusedKernel final : public Kernel {
 public:
  /// `for_others` is for shards of other shapes than those of the types, if the plan is for these alone. What `is_rare`
  /// is compiled when it has run for long.
  FusedKernel(LoopPlan plan, const Graph& body, std::int64_t shards, bool is_rare,
              std::unique_ptr<Kernel> for_others = nullptr)
      : plan_(std::move(plan)), num_outputs_(body.outputs.size()), shards_(shards), for_others_(std::move(for_others)) {
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    for (ValueId id : body.inputs) inputs.push_back(body.type(id).shape);
    for (ValueId id : body.outputs) outputs.push_back(body.type(id).shape);
    const auto shape_in = [](const std::vector<Shape>& shapes) {
      return [&shapes](std::size_t i) -> const Shape& { return shapes[i]; };
    };
    for (const LoopArray& array : plan_.loop.arrays) {
      if (array.written && array.access == Access::kDense) written_size_ += size_of(array.dtype);
      writes_strided_ = writes_strided_ || (array.written && array.access == Access::kStrided);
    }
    usual_ = geometry(shape_in(inputs), shape_in(outputs));
    usual_inputs_ = std::move(inputs);
    usual_outputs_ = std::move(outputs);
    narrow_ = NarrowRows::of(plan_, usual_.rows, usual_.columns);
    // What is run on a shard of another shape only is compiled when it is.
    const auto elements = static_cast<double>(usual_.rows) * static_cast<double>(usual_.columns * plan_.width);
    tiers_.emplace(plan_.loop, narrow_ || is_rare ? 0.0 : elements);
    for (const LoopTotal& total : plan_.totals) {
      const Dtype result = body.type(body.outputs[total.output]).dtype;
      finishers_.push_back(interpret_loop(conversion(total.dtype, result)));
    }
  }

  Work work(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const override {
    if (is_usual(inputs, outputs)) return work_of(usual_);
    if (for_others_ != nullptr) return for_others_->work(inputs, outputs);
    return work_of(geometry_of(inputs, outputs));
  }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           std::int64_t tile) const override {
    if (is_usual(inputs, outputs)) return run_tile(usual_, inputs, outputs, scratch, tile);
    if (for_others_ != nullptr) return for_others_->run(inputs, outputs, scratch, tile);
    run_tile(geometry_of(inputs, outputs), inputs, outputs, scratch, tile);
  }

  void finish(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              std::byte* scratch) const override {
    if (plan_.totals.empty()) return;
    if (is_usual(inputs, outputs)) return finish_totals(usual_, outputs, scratch);
    if (for_others_ != nullptr) return for_others_->finish(inputs, outputs, scratch);
    finish_totals(geometry_of(inputs, outputs), outputs, scratch);
  }

  bool may_overwrite(std::size_t input, std::size_t output) const override {
    // The output is written in one phase, at the element that is read; no later phase may read the input.
    const LoopOperand* written = nullptr;
    std::size_t written_in = 0;
    for (std::size_t p = 0; p < plan_.loop.phases.size(); ++p) {
      for (const LoopResult& result : plan_.loop.phases[p].results) {
        if (result.kind != LoopResult::Kind::kArray) continue;
        const LoopOperand& operand = plan_.operands[static_cast<std::size_t>(result.index)];
        if (operand.kind != LoopOperand::Kind::kOutput || operand.number != output) continue;
        written = &operand;
        written_in = p;
      }
    }
    if (written == nullptr) return false;
    for (std::size_t p = 0; p < plan_.loop.phases.size(); ++p) {
      for (const LoopInput& in : plan_.loop.phases[p].inputs) {
        if (in.kind != LoopInput::Kind::kArray) continue;
        const LoopOperand& operand = plan_.operands[static_cast<std::size_t>(in.index)];
        if (operand.kind != LoopOperand::Kind::kInput || operand.number != input) continue;
        if (p > written_in || operand.dims != written->dims || operand.starts != written->starts ||
            operand.steps != written->steps) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  static Loop conversion(Dtype from, Dtype to) {
    Phase phase;
    phase.inputs = {{LoopInput::Kind::kArray, 0}};
    phase.nodes = {{.core = scalar::Core::kInput, .dtype = from}};
    if (from != to) {
      phase.nodes.push_back({.core = scalar::Core::kConvert, .dtype = to, .operands = {0, -1, -1}, .bits = 0});
    }
    phase.results = {{.kind = LoopResult::Kind::kArray, .index = 1, .node = static_cast<int>(phase.nodes.size()) - 1}};
    return {.arrays = {{from, Access::kDense, false}, {to, Access::kDense, true}},
            .temporaries = {},
            .scalars = {},
            .phases = {std::move(phase)}};
  }

  bool is_usual(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].shape != usual_inputs_[i]) return false;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].shape != usual_outputs_[i]) return false;
    }
    return true;
  }

  Geometry geometry_of(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
    const auto shape_in = [](std::span<const TensorView> views) {
      return [views](std::size_t i) -> const Shape& { return views[i].shape; };
    };
    return geometry(shape_in(inputs), shape_in(outputs));
  }

  bool columns_are_reduced() const { return plan_.is_reduced.back(); }

  template <class In, class Out>
  Geometry geometry(In&& input_shape, Out&& output_shape) const {
    Geometry g;
    static_cast<LoopStrides&>(g) = strides_of(plan_, [&](const LoopOperand& operand) -> const Shape& {
      return operand.kind == LoopOperand::Kind::kInput ? input_shape(operand.number) : output_shape(operand.number);
    });
    g.columns = g.extents.back();
    for (std::size_t i = 0; i + 1 < g.extents.size(); ++i) g.rows *= g.extents[i];
    divide(g);
    bool is_empty = true;
    for (std::size_t i = 0; i < num_outputs_; ++i) is_empty = is_empty && num_elements(output_shape(i)) == 0;
    if (is_empty) g.rows = g.kept = g.row_tiles = 0;
    return g;
  }

  // Tiles depend on extents alone.
  void divide(Geometry& g) const {
    const bool adds_columns = !plan_.totals.empty() && !columns_are_reduced();
    const bool reduces_pieces = !plan_.totals.empty() && columns_are_reduced();
    if (adds_columns) {
      // Rows that are added up lie next to each other in one dimension; other dimensions are walked one by one.
      const std::int64_t run = g.extents[g.extents.size() - 2];
      g.tile_columns = std::min(std::max<std::int64_t>(g.columns, 1), kAddedColumns);
      g.tile_rows = std::min(std::max<std::int64_t>(run, 1), kAddedRows);
      g.column_tiles = pieces_of(g.columns, g.tile_columns);
      g.row_tiles = run == 0 ? 1 : (g.rows / run) * pieces_of(run, g.tile_rows);
      g.parts = pieces_of(run, g.tile_rows);
    } else if (reduces_pieces) {
      g.tile_columns = kMostReduced;
      g.column_tiles = pieces_of(g.columns, g.tile_columns);
      g.parts = g.column_tiles;
      g.tile_rows =
          std::max<std::int64_t>(1, kTileElements / std::max<std::int64_t>(1, std::min(g.columns, kMostReduced)));
      if (g.column_tiles > 1) {
        g.tile_rows = 1;
      }
      g.row_tiles = pieces_of(g.rows, g.tile_rows);
    } else if (plan_.has_rows() || g.columns * plan_.width <= kTileElements) {
      g.tile_columns = std::max<std::int64_t>(1, g.columns);
      g.tile_rows = std::max<std::int64_t>(1, kTileElements / (g.tile_columns * plan_.width));
      g.row_tiles = pieces_of(g.rows, g.tile_rows);
    } else {
      // Columns that do not lie side by side share their cache lines with those of the next rows.
      const bool together = writes_strided_ && g.extents.size() > 1;
      g.tile_rows = together ? std::max<std::int64_t>(1, g.extents[g.extents.size() - 2]) : 1;
      g.tile_columns = std::max<std::int64_t>(1, kTileElements / (g.tile_rows * plan_.width));
      g.column_tiles = pieces_of(g.columns, g.tile_columns);
      g.row_tiles = pieces_of(g.rows, g.tile_rows);
    }
    for (std::size_t k = 0; k + 1 < plan_.dims.size(); ++k) {
      if (!plan_.is_reduced[k]) {
        g.kept *= g.extents[k];
      } else if (!(adds_columns && k + 2 == plan_.dims.size())) {
        g.parts *= g.extents[k];
      }
    }
    const std::int64_t width = adds_columns ? g.columns : 1;
    for (const LoopTotal& total : plan_.totals) {
      g.partial_offsets.push_back(g.partial_bytes);
      const std::int64_t count = g.kept * std::max<std::int64_t>(g.parts, 1) * width;
      g.partial_bytes += (static_cast<std::size_t>(count) * size_of(total.dtype) + 63) / 64 * 64;
    }
  }

  static Work work_of(const Geometry& g) {
    return {.tiles = g.row_tiles * g.column_tiles, .scratch_bytes = g.partial_bytes};
  }

  struct Addresses {
    std::array<std::byte*, kMostArrays> bases;
    std::array<std::int64_t, kMostArrays> row_strides;
    std::array<std::int64_t, kMostArrays> column_strides;
  };

  // Whether the dense results of all shards are so large that writing them through the caches would only push out what
  // is there. What lies in the memory of an operand is in the cache already.
  bool streams(const Geometry& g, const Addresses& at) const {
    if (shards_ * g.rows * g.columns * static_cast<std::int64_t>(written_size_) < kStreamedBytes) return false;
    for (std::size_t a = 0; a < plan_.operands.size(); ++a) {
      for (std::size_t b = 0; b < plan_.operands.size(); ++b) {
        if (plan_.loop.arrays[a].written && !plan_.loop.arrays[b].written && at.bases[a] == at.bases[b]) return false;
      }
    }
    return true;
  }

  // The number of a row among the kept ones, and among the parts of its total.
  std::pair<std::int64_t, std::int64_t> place_of(const Geometry& g, std::int64_t row, std::size_t dims) const {
    std::int64_t kept = 0;
    std::int64_t part = 0;
    std::int64_t kept_scale = 1;
    std::int64_t part_scale = 1;
    for (std::size_t k = dims; k-- > 0;) {
      const std::int64_t i = row % g.extents[k];
      row /= g.extents[k];
      if (plan_.is_reduced[k]) {
        part += i * part_scale;
        part_scale *= g.extents[k];
      } else {
        kept += i * kept_scale;
        kept_scale *= g.extents[k];
      }
    }
    return {kept, part};
  }

  Addresses addresses(const Geometry& g, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) const {
    Addresses at;
    for (std::size_t a = 0; a < plan_.operands.size(); ++a) {
      const LoopOperand& operand = plan_.operands[a];
      at.bases[a] = nullptr;
      if (operand.kind == LoopOperand::Kind::kCount) {
        at.bases[a] = address_of_count(g.offsets[a]);
      } else if (operand.kind != LoopOperand::Kind::kPartial) {
        const TensorView& view =
            operand.kind == LoopOperand::Kind::kInput ? inputs[operand.number] : outputs[operand.number];
        const bool is_nothing = g.columns == 0 && num_elements(view.shape) == 0;
        at.bases[a] = is_nothing ? nothing() : static_cast<std::byte*>(view.data) + g.offsets[a];
      }
      at.row_strides[a] = g.extents.size() < 2 ? 0 : g.strides[a][g.extents.size() - 2];
      at.column_strides[a] = g.strides[a].back();
    }
    return at;
  }

  void run_tile(const Geometry& g, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                std::byte* scratch, std::int64_t tile) const {
    if (g.rows == 0 || (g.columns == 0 && !plan_.has_rows() && plan_.totals.empty())) return;
    std::byte* own =
        temporaries(std::max(scratch_bytes(plan_.loop, g.tile_columns), narrow_ ? narrow_->bytes() : std::size_t{0}));
    Addresses at = addresses(g, inputs, outputs);
    const std::int64_t column = tile % g.column_tiles * g.tile_columns;
    const std::int64_t columns = std::min(g.tile_columns, g.columns - column);
    const std::int64_t row_tile = tile / g.column_tiles;
    for (std::size_t a = 0; a < plan_.operands.size(); ++a) at.bases[a] += column * at.column_strides[a];
    if (!plan_.totals.empty() && !columns_are_reduced())
      return add_columns(g, at, scratch, own, row_tile, column, columns);

    const bool streaming = streams(g, at);
    const std::int64_t first = row_tile * g.tile_rows;
    const std::int64_t last = std::min(first + g.tile_rows, g.rows);
    const std::int64_t run = g.extents.size() < 2 ? 1 : g.extents[g.extents.size() - 2];
    for (std::int64_t row = first; row < last;) {
      // As many rows as lie along the innermost dimension.
      std::int64_t count = std::min(last - row, run - row % run);
      Addresses here = at;
      move_to_row(g, row, {here.bases.data(), plan_.operands.size()});
      if (!plan_.totals.empty()) {
        const auto [kept, part] = place_of(g, row, g.extents.size() - 1);
        const bool inner_reduced = g.extents.size() >= 2 && plan_.is_reduced[g.extents.size() - 2];
        const std::int64_t index =
            (kept * (g.parts / g.column_tiles) + part) * g.column_tiles + column / g.tile_columns;
        const std::int64_t step = inner_reduced ? g.column_tiles : g.parts;
        for (std::size_t a = 0; a < plan_.operands.size(); ++a) {
          if (plan_.operands[a].kind != LoopOperand::Kind::kPartial) continue;
          const auto size = static_cast<std::int64_t>(size_of(plan_.loop.arrays[a].dtype));
          here.bases[a] = scratch + g.partial_offsets[plan_.operands[a].number] + index * size;
          here.row_strides[a] = step * size;
        }
      }
      const LoopArguments arguments{.bases = here.bases.data(),
                                    .row_strides = here.row_strides.data(),
                                    .column_strides = here.column_strides.data(),
                                    .rows = count,
                                    .columns = columns,
                                    .scratch = own,
                                    .streaming = streaming};
      if (narrow_ == nullptr || !narrow_->run(arguments)) tiers_->runner(columns * count).run(arguments);
      row += count;
    }
  }

  // Adds rows up, column by column, into the part of the totals that belongs to this tile.
  void add_columns(const Geometry& g, Addresses at, std::byte* scratch, std::byte* own, std::int64_t row_tile,
                   std::int64_t column, std::int64_t columns) const {
    const std::size_t inner = g.extents.size() - 2;
    const std::int64_t run = g.extents[inner];
    const std::int64_t blocks = pieces_of(run, g.tile_rows);
    const std::int64_t outer = row_tile / blocks;
    const std::int64_t block = row_tile % blocks;
    const std::int64_t first = block * g.tile_rows;
    const std::int64_t rows = std::min(g.tile_rows, run - first);
    move_to_row(g, outer * run + first, {at.bases.data(), plan_.operands.size()});
    const auto [kept, part] = place_of(g, outer, inner);
    const std::int64_t index = (kept * g.parts + part * blocks + block) * g.columns + column;
    for (std::size_t a = 0; a < plan_.operands.size(); ++a) {
      if (plan_.operands[a].kind != LoopOperand::Kind::kPartial) continue;
      const LoopTotal& total = plan_.totals[plan_.operands[a].number];
      at.bases[a] = scratch + g.partial_offsets[plan_.operands[a].number] +
                    static_cast<std::size_t>(index) * size_of(total.dtype);
      at.row_strides[a] = 0;
      if (plan_.loop.arrays[a].written) fill_neutral(total.kind, total.dtype, at.bases[a], columns);
    }
    tiers_->runner(rows * columns)
        .run({.bases = at.bases.data(),
              .row_strides = at.row_strides.data(),
              .column_strides = at.column_strides.data(),
              .rows = rows,
              .columns = columns,
              .scratch = own});
  }

  // Reduces the parts of each result in a balanced tree, and converts them to the result's dtype.
  void finish_totals(const Geometry& g, std::span<const TensorView> outputs, std::byte* scratch) const {
    const std::int64_t width = columns_are_reduced() ? 1 : g.columns;
    for (std::size_t t = 0; t < plan_.totals.size(); ++t) {
      const LoopTotal& total = plan_.totals[t];
      const TensorView& out = outputs[total.output];
      const std::size_t size = size_of(total.dtype);
      std::byte* partial = scratch + g.partial_offsets[t];
      const std::int64_t parts = std::max<std::int64_t>(g.parts, 1);
      const auto stride = static_cast<std::size_t>(parts * width) * size;
      for (std::int64_t k = 0; k < g.kept; ++k) {
        std::byte* own = partial + static_cast<std::size_t>(k) * stride;
        if (g.parts == 0 || g.rows == 0) fill_neutral(total.kind, total.dtype, own, width);
        for (std::int64_t left = g.rows == 0 ? 1 : parts; left > 1;) {
          const std::int64_t half = (left + 1) / 2;
          combine(total.kind, total.dtype, own, own + static_cast<std::size_t>(half * width) * size, own,
                  (left - half) * width);
          left = half;
        }
      }
      const auto out_size = static_cast<std::int64_t>(size_of(out.dtype));
      const std::array<std::byte*, 2> bases = {partial, static_cast<std::byte*>(out.data) + total.first * out_size};
      const std::array<std::int64_t, 2> row_strides = {static_cast<std::int64_t>(stride),
                                                       width * total.step * out_size};
      const std::array<std::int64_t, 2> column_strides = {static_cast<std::int64_t>(size), out_size};
      finishers_[t]->run({.bases = bases.data(),
                          .row_strides = row_strides.data(),
                          .column_strides = column_strides.data(),
                          .rows = g.kept,
                          .columns = width,
                          .scratch = nullptr});
    }
  }

  LoopPlan plan_;
  std::size_t num_outputs_;
  std::int64_t shards_;           // Of a step.
  std::size_t written_size_ = 0;  // Of an element of each dense result, added up.
  bool writes_strided_ = false;
  std::optional<Tiers> tiers_;
  std::unique_ptr<NarrowRows> narrow_;  // If rows are narrow.
  std::unique_ptr<Kernel> for_others_;
  std::vector<std::unique_ptr<LoopRunner>> finishers_;  // Of each total.
  Geometry usual_;                                      // For the shapes of the types.
  std::vector<Shape> usual_inputs_;
  std::vector<Shape> usual_outputs_;
};

}  // namespace

std::unique_ptr<Kernel> fused_kernel(const Graph& body, std::int64_t shards) {
  std::optional<LoopPlan> plan = lower(body);
  if (!plan || plan->operands.size() > kMostArrays) return nullptr;
  std::optional<LoopPlan> unrolled = unroll_rows(*plan, body);
  auto kernel = std::make_unique<FusedKernel>(std::move(*plan), body, shards, unrolled.has_value());
  if (!unrolled) return kernel;
  return std::make_unique<FusedKernel>(std::move(*unrolled), body, shards, false, std::move(kernel));
}

}  // namespace shoal::cpu
