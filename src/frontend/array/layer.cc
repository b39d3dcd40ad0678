#include "frontend/array/layer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "transform/batch.h"

namespace shoal {
namespace {

using detail::Access;
using detail::ArrayImpl;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The layer whose function runs on this thread.
std::shared_ptr<Layer>& running() {
  thread_local std::shared_ptr<Layer> layer;
  return layer;
}

}  // namespace

Layer::Layer(std::string name, std::string axis, std::int64_t axis_size, AxisNames places)
    : name_(std::move(name)),
      axis_(std::move(axis)),
      axis_size_(axis_size),
      places_(std::move(places)),
      context_(Trace::current()),
      outer_axes_(bound_axes()),
      number_(next_number()) {}

Layer::Running::Running(const std::shared_ptr<Layer>& layer) : outer_(std::exchange(running(), layer)) {
  layer->around_ = outer_;
}
Layer::Running::~Running() {
  running()->around_ = nullptr;
  running() = outer_;
}

bool Layer::is_running() { return running() != nullptr && running()->context_ == Trace::current(); }

bool Layer::binds_axis() {
  return is_running() && (!running()->axis_.empty() || !running()->outer_axes_.axes().empty());
}

AxisEnv Layer::bound_axes() {
  const Trace* trace = Trace::current();
  const bool in_layer = running() != nullptr && running()->context_ == trace;
  AxisEnv axes = in_layer ? running()->outer_axes_ : trace == nullptr ? AxisEnv() : trace->graph().axes;
  if (!in_layer) return axes;
  if (!running()->axis_.empty()) axes.bind(running()->axis_, running()->axis_size_);
  axes.split_places(running()->places_);
  return axes;
}

std::shared_ptr<Layer> Layer::of(std::span<const Array> operands) {
  std::shared_ptr<Layer> innermost;
  for (const Array& operand : operands) {
    const ArrayImpl* impl = Access::get(operand);
    if (impl == nullptr || impl->layer() == nullptr) continue;
    const std::shared_ptr<Layer>& layer = impl->abstract->layer;
    if (layer->finished_ || layer->thread_ != std::this_thread::get_id()) detail::refuse_tracer(*impl);
    // To a trace that began after the layer the array is a capture.
    if (layer->context_ != Trace::current()) continue;
    if (innermost == nullptr || innermost->number_ < layer->number_) innermost = layer;
  }
  return innermost;
}

std::shared_ptr<Layer> Layer::of(const OpDef& op, const Attrs& attrs, std::span<const Array> operands) {
  std::shared_ptr<Layer> innermost = of(operands);
  // A collective over the axis of a layer is for it, whatever it is given.
  for (std::shared_ptr<Layer> layer = is_running() ? running() : nullptr; layer != nullptr; layer = layer->around_) {
    if (layer->context_ != Trace::current()) break;
    if (innermost != nullptr && innermost->number_ >= layer->number_) break;
    if (layer->axis_.empty()) continue;
    if (is_over_axis({.op = &op, .attrs = attrs, .inputs = {}, .outputs = {}, .where = {}}, layer->axis_)) return layer;
  }
  return innermost;
}

bool of_layers(std::span<const Array> arrays) {
  return std::ranges::any_of(arrays, [](const Array& array) {
    const ArrayImpl* impl = Access::get(array);
    return impl != nullptr && impl->layer() != nullptr;
  });
}

}  // namespace shoal
