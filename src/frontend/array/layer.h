// Layers: what stands between a function of the user and where its operations run. A tape records how values change
// with the arguments (tape.h), a mapping runs an operation in all places of a dimension at once (mapping.h).
//
// An array of a layer is an array of the world outside and something that the layer knows of it. An operation on one is
// handed to its layer, the innermost if there are several, which has its part of it and hands the rest outside. So
// layers nest in each other and in traces in any order, and what is of no layer is an array like any other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ir/graph.h"
#include "shoal/array.h"

namespace shoal {

class Trace;

class Layer : public std::enable_shared_from_this<Layer> {
 public:
  /// `name` appears in messages. Later layers are inner ones. `axis` is one that collectives may name inside.
  /// `places` are the axes of a mesh that its places are split over.
  explicit Layer(std::string name, std::string axis = {}, std::int64_t axis_size = 0, AxisNames places = {});
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  bool finished() const { return finished_; }
  /// What messages say of its arrays: "is differentiated", and why it has no elements.
  virtual std::string why_not() const = 0;
  /// Applies an op to arrays, of which some are of this layer.
  virtual std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) = 0;

  /// While it lives the function of a layer runs on this thread.
  class Running {
   public:
    explicit Running(const std::shared_ptr<Layer>& layer);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    std::shared_ptr<Layer> outer_;
  };
  /// Whether arrays may be of a layer here, those that a function has from outside among them, so that what runs at
  /// once has to be an equation all the same.
  static bool is_running();
  /// The layer that an op on these arrays is for, if none of the traces that began after it is still recorded; nullptr
  /// if there is none. Throws InvalidState for an array of a layer that has ended, or of another thread.
  static std::shared_ptr<Layer> of(const OpDef& op, const Attrs& attrs, std::span<const Array> operands);
  /// The same for a function that stands for itself, whatever it is composed of.
  static std::shared_ptr<Layer> of(std::span<const Array> operands);
  /// Whether functions may ask here for the axis of a layer.
  static bool binds_axis();
  /// The axes that are bound here, by traces and layers.
  static AxisEnv bound_axes();

 protected:
  const Trace* context() const { return context_; }
  /// The axes that are bound around it.
  const AxisEnv& outer_axes() const { return outer_axes_; }
  void finish() { finished_ = true; }

 private:
  std::string name_;
  std::string axis_;
  std::int64_t axis_size_;
  AxisNames places_;
  const Trace* context_;  // The innermost trace around the layer.
  AxisEnv outer_axes_;
  std::uint64_t number_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<Layer> around_;  // The layer whose function runs around it, while its own does.
  bool finished_ = false;
};

/// Whether one of the arrays is of a layer.
bool of_layers(std::span<const Array> arrays);

}  // namespace shoal
