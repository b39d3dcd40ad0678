// Traces: the recording of a function's operations as a graph.
//
// jit and shard_map each trace their function to a graph of its own; inside another trace the result becomes an
// equation of that one. A value from outside (an array, or a tracer of an enclosing trace) that the function uses
// becomes a further input: a capture. A trace belongs to one thread; its tracers must not be used after it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "comm/collectives/shard_set.h"
#include "ir/graph.h"
#include "shoal/array.h"

namespace shoal {

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  enum class Kind {
    kJit,       ///< Values are abstract.
    kShardMap,  ///< Values are the abstract shards of one device of `mesh`.
    kEager,     ///< A shard_map outside jit: each equation runs as it is recorded, and values may be read.
  };

  /// A trace that becomes the innermost of this thread until finish(). `name` appears in messages.
  /// `manual` are the axes of `mesh` that it binds. Unless they are `checked`, types do not say for sure over which of
  /// them values differ.
  static std::shared_ptr<Trace> begin(Kind kind, std::string name, const Mesh& mesh = {},
                                      const std::vector<std::string>& manual = {}, bool checked = true);
  /// What a trace has from what is around it.
  struct Surroundings {
    Mesh mesh = {};
    AxisEnv axes = {};
    AxisNames unchecked = {};
  };
  /// That of a trace that would begin here.
  static Surroundings surroundings();
  /// A trace of kind kJit, which captures no tracers, as if it began elsewhere.
  static std::shared_ptr<Trace> begin_in(const Surroundings& surroundings, std::string name);
  /// The innermost trace of this thread, or nullptr.
  static Trace* current();

  Trace(Kind kind, std::string name, const Mesh& mesh, const std::vector<std::string>& manual, bool checked,
        Trace* outer);

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  /// Of the innermost shard_map; empty outside.
  const Mesh& mesh() const { return mesh_; }
  const Graph& graph() const { return graph_; }
  /// The bound axes that are of its mesh; others are those of vmap, along which there are no devices.
  AxisEnv manual_axes() const;
  /// The bound axes that are not checked, sorted: over these derivatives are not summed by themselves.
  const AxisNames& unchecked() const { return unchecked_; }
  const GridPtr& grid() const { return grid_; }
  bool finished() const { return finished_; }
  std::thread::id thread() const { return thread_; }

  /// A further input. `data` is given in eager traces.
  Array add_input(Type type, ShardSet data = {});
  /// Records an equation. Throws what the op's infer throws, and InvalidState for tracers that may not be used here.
  std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands);
  /// The data of a value of an eager trace.
  const ShardSet& data(ValueId value) const { return data_[slot(value)]; }

  /// The value that stands for `array` here: its own if it belongs to this trace, else a capture. Throws InvalidState
  /// for tracers that may not be used here; `what` says what they are, as of impl_of().
  ValueId lift(const Array& array, std::string_view what = {});
  /// The arrays from outside, in the order of the inputs that stand for them, which follow those of add_input.
  const std::vector<Array>& captures() const { return captures_; }

  /// Ends the trace with these results; returns its graph.
  Graph finish(const std::vector<Array>& results);
  /// Ends the trace without results, after an error.
  void abandon();

  /// While it lives this thread has no trace: for calls of the user's program from within an operation.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Trace* paused_;
  };

 private:
  void run(const Eqn& eqn);
  Type type_inside(Type type) const;
  bool encloses(const Trace& other) const;
  void leave();

  Kind kind_;
  std::string name_;
  Mesh mesh_;
  Trace* outer_;
  std::thread::id thread_ = std::this_thread::get_id();
  Graph graph_;
  AxisNames unchecked_;
  GridPtr grid_;  // Of eager traces.
  std::vector<ShardSet> data_;
  std::vector<Array> captures_;
  std::vector<ValueId> capture_values_;
  bool finished_ = false;
};

/// Runs `body` inside a new trace, which is abandoned if it throws.
template <class F>
Graph trace_graph(const std::shared_ptr<Trace>& trace, F&& body) {
  try {
    return trace->finish(body());
  } catch (...) {
    if (!trace->finished()) trace->abandon();
    throw;
  }
}

/// Applies an op to arrays: recorded in the innermost trace, or run at once. The equation keeps the Caller's line.
std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands);
/// The same by name.
std::vector<Array> bind(std::string_view op, Attrs attrs, std::span<const Array> operands);
/// The same for an op with one result.
Array bind_one(std::string_view op, Attrs attrs, std::initializer_list<Array> operands);

/// The array where devices may have different values along these axes, too.
Array varying_over(const Array& array, const AxisNames& axes);

/// The array split over Explicit axes, unreduced and reduced as a type says, where it is not so.
Array summed_as(const Array& array, const Type& type);

/// Runs one op on concrete arrays. Programs are cached by op, attributes, types and shardings.
std::vector<Array> run_eagerly(const OpDef& op, Attrs attrs, std::span<const Array> operands);

}  // namespace shoal
