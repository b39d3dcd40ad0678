// Tapes: the recording of how the values of a function change with its arguments.
//
// A value that depends on an argument to be differentiated by carries a tangent. An operation on it computes what it
// computes anyway where it would have been computed, in the enclosing trace or at once, so that what is concrete stays
// concrete; and the tape writes down, by the rules of the records, what becomes of the tangent. That is a linear graph,
// whose residuals are arrays of the world outside. A value without a tangent is an array like any other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ops/derivatives.h"
#include "shoal/array.h"

namespace shoal {

class Trace;

/// What a tape has recorded: a graph of residuals, then tangents of the arguments, that gives the tangents of those
/// results that have one.
struct TangentMap {
  GraphPtr graph;
  std::vector<Array> residuals;
  std::vector<bool> has_tangent;  ///< For each result.
  AxisNames unchecked = {};       ///< The axes of Trace::unchecked().
};

class Tape : public std::enable_shared_from_this<Tape> {
 public:
  /// `name` appears in messages. Later tapes are inner ones.
  explicit Tape(std::string name);

  const std::string& name() const { return name_; }
  bool finished() const { return finished_; }

  /// While it lives the function of a tape runs on this thread.
  class Running {
   public:
    explicit Running(const Tape& tape);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    const Tape* outer_;
  };
  /// Whether arrays may have tangents here, those that a function has from outside among them, so that what runs at once
  /// has to be an equation all the same.
  static bool is_running();

  /// The array with a tangent, an argument of the map.
  Array with_tangent(const Array& array);
  /// Applies an op to arrays, of which some have tangents of this tape.
  std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands);
  /// Ends the tape: how these results depend on the arguments. Leaves the results without their tangents.
  TangentMap finish(std::vector<Array>& results);

  /// The innermost tape of which one of these arrays has a tangent, if none of the traces that began after it is still
  /// recorded; nullptr if there is none. Throws InvalidState for an array of a tape that has ended, or of another
  /// thread.
  static std::shared_ptr<Tape> of(std::span<const Array> operands);

 private:
  class EqnPrimals;

  ValueId residual(const Array& array);

  std::string name_;
  const Trace* context_;  // The innermost trace around the tape.
  std::uint64_t number_;
  std::thread::id thread_ = std::this_thread::get_id();
  Graph graph_;
  std::vector<ValueId> arguments_;
  std::vector<Array> residuals_;
  std::vector<ValueId> residual_values_;
  std::unordered_map<const void*, std::size_t> known_residuals_;  // By what arrays point to.
  bool finished_ = false;
};

/// Whether one of the arrays has a tangent.
bool has_tangents(std::span<const Array> arrays);
/// The array without tangents.
Array without_tangents(const Array& array);
/// The array without tangents of tapes that have ended.
Array without_ended_tangents(const Array& array);

}  // namespace shoal
