#include "backend/cpu/transforms/fft_kernel.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/transforms/fft_lines.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Numbers of one tile or task, about, and of how many lines it is a multiple if it has several.
constexpr std::int64_t kTaskNumbers = 1 << 14;
constexpr std::int64_t kLinesTogether = 16;
// Shards of larger items are one tile, which all threads share.
constexpr std::int64_t kMostOfTile = 1 << 16;
// Threads share lines that are longer.
constexpr std::int64_t kLongLine = 1 << 15;
// Longer lines that do not lie in one piece are copied. The lanes of shorter ones fit the nearer caches.
constexpr std::int64_t kMostInColumns = 1 << 12;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Calls f(begin, end) for ranges of [0, count), each of a multiple of `size`, on all threads.
template <class F>
void in_ranges(std::int64_t count, std::int64_t size, F&& f) {
  const std::int64_t ranges = ceil_div(count, size);
  if (ranges == 1) return f(std::int64_t{0}, count);
  ThreadPool::shared().parallel_for(ranges, [&](std::int64_t i) { f(i * size, std::min(count, (i + 1) * size)); });
}

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(num_elements(view.shape)) * size_of(view.dtype);
}

// How many lines of n numbers a task has.
std::int64_t lines_of_task(std::int64_t n) {
  const std::int64_t lines = kTaskNumbers / std::max<std::int64_t>(n, 1);
  return lines < kLinesTogether ? std::max<std::int64_t>(lines, 1) : lines / kLinesTogether * kLinesTogether;
}

enum class Turn { kComplex, kToHalf, kFromHalf };

// The transform of lines of one length. Strides of lines are in elements: reals, or complex numbers.
template <class T>
class LineTransform {
 public:
  using Complex = std::complex<T>;

  LineTransform(Turn turn, std::int64_t n, bool inverse) : turn_(turn), n_(n) {
    is_folded_ = turn != Turn::kComplex && n % 2 == 0;
    const std::int64_t pairs = is_folded_ ? n / 2 : n;
    options_ = {.inverse = inverse, .scale = inverse ? 1 / static_cast<double>(pairs) : 1};
    plan_ = shared_plan<LinePlan<T>>(pairs);
    if (is_folded_) halves_ = shared_plan<HalfPlan<T>>(n);
    if (turn == Turn::kComplex && n <= kMostInColumns && fits_lanes(n)) columns_ = shared_plan<LanesPlan<T>>(n);
  }

  std::int64_t from_extent() const { return turn_ == Turn::kFromHalf ? half() : n_; }
  std::int64_t to_extent() const { return turn_ == Turn::kToHalf ? half() : n_; }

  // Of `outer` arrays of lines that have `inner` elements between those of each.
  void run(const void* from, void* to, std::int64_t outer, std::int64_t inner) const {
    if (turn_ == Turn::kToHalf) {
      run_all(static_cast<const T*>(from), static_cast<Complex*>(to), outer, inner);
    } else if (turn_ == Turn::kFromHalf) {
      run_all(static_cast<const Complex*>(from), static_cast<T*>(to), outer, inner);
    } else {
      run_all(static_cast<const Complex*>(from), static_cast<Complex*>(to), outer, inner);
    }
  }

 private:
  std::int64_t half() const { return n_ / 2 + 1; }

  static const T* parts(const Complex* x) { return reinterpret_cast<const T*>(x); }
  static T* parts(Complex* x) { return reinterpret_cast<T*>(x); }

  template <class From, class To>
  void run_all(const From* from, To* to, std::int64_t outer, std::int64_t inner) const {
    if (inner == 1) {
      if (plan_->n >= kLongLine && plan_->way == LinePlan<T>::Way::kSplit && (is_folded_ || turn_ == Turn::kComplex)) {
        for (std::int64_t i = 0; i < outer; ++i) long_line(from + i * from_extent(), to + i * to_extent());
        return;
      }
      in_ranges(outer, lines_of_task(n_), [&](std::int64_t begin, std::int64_t end) {
        lines(from + begin * from_extent(), to + begin * to_extent(), end - begin);
      });
      return;
    }
    // Groups of lines beside each other.
    const std::int64_t together = std::min(inner, std::max(lines_of_task(n_), kLinesTogether));
    const std::int64_t groups = ceil_div(inner, together);
    const std::int64_t of_task = std::max<std::int64_t>(1, kTaskNumbers / (together * std::max<std::int64_t>(n_, 1)));
    in_ranges(outer * groups, of_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % groups * together;
        const std::int64_t array = i / groups;
        beside(from + array * from_extent() * inner + first, to + array * to_extent() * inner + first, inner,
               std::min(together, inner - first));
      }
    });
  }

  // ---- Lines in one piece each, one after the other.

  void lines(const Complex* from, Complex* to, std::int64_t count) const {
    FftLines<T>(*plan_).transform(parts(from), parts(to), {.count = count, .from_stride = n_, .to_stride = n_},
                                  options_);
  }

  void lines(const T* from, Complex* to, std::int64_t count) const {
    if (is_folded_) {
      FftLines<T>(*plan_).transform(from, parts(to), {.count = count, .from_stride = n_ / 2, .to_stride = half()},
                                    options_);
      for (std::int64_t i = 0; i < count; ++i) {
        FftHalves<T>(*halves_).separate(parts(to + i * half()), n_ / 2, 0, n_ / 4 + 1);
      }
      return;
    }
    Workspace<Complex> workspace(n_ * count);
    Complex* const numbers = workspace.data();
    for (std::int64_t i = 0; i < n_ * count; ++i) numbers[i] = Complex(from[i]);
    lines_of_all(numbers, count);
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(numbers + i * n_, half(), to + i * half());
  }

  void lines(const Complex* from, T* to, std::int64_t count) const {
    if (is_folded_) {
      for (std::int64_t i = 0; i < count; ++i) {
        FftHalves<T>(*halves_).join(parts(from + i * half()), to + i * n_, n_ / 2, 0, n_ / 4 + 1);
      }
      FftLines<T>(*plan_).transform(to, to, {.count = count, .from_stride = n_ / 2, .to_stride = n_ / 2}, options_);
      return;
    }
    Workspace<Complex> workspace(n_ * count);
    Complex* const numbers = workspace.data();
    for (std::int64_t i = 0; i < count; ++i) {
      const Complex* const given = from + i * half();
      Complex* const line = numbers + i * n_;
      line[0] = Complex(given[0].real());
      for (std::int64_t k = 1; k < half(); ++k) {
        line[k] = given[k];
        line[n_ - k] = std::conj(given[k]);
      }
    }
    lines_of_all(numbers, count);
    for (std::int64_t i = 0; i < n_ * count; ++i) to[i] = numbers[i].real();
  }

  // In place, of real lines that are not folded.
  void lines_of_all(Complex* numbers, std::int64_t count) const { lines(numbers, numbers, count); }

  // ---- Lines that lie beside each other.

  template <class From, class To>
  void beside(const From* from, To* to, std::int64_t stride, std::int64_t count) const {
    if constexpr (std::is_same_v<From, To>) {
      if (columns_ != nullptr) {
        FftColumns<T>(*columns_).transform(parts(from), parts(to),
                                           {.count = count, .from_stride = stride, .to_stride = stride}, options_);
        return;
      }
    }
    Workspace<From> given(from_extent() * count);
    Workspace<To> made(to_extent() * count);
    for (std::int64_t j = 0; j < from_extent(); ++j) {
      for (std::int64_t i = 0; i < count; ++i) given.data()[i * from_extent() + j] = from[j * stride + i];
    }
    lines(given.data(), made.data(), count);
    for (std::int64_t j = 0; j < to_extent(); ++j) {
      for (std::int64_t i = 0; i < count; ++i) to[j * stride + i] = made.data()[i * to_extent() + j];
    }
  }

  // ---- A long line, which threads share.

  void long_line(const Complex* from, Complex* to) const { share_line(parts(from), parts(to)); }

  void long_line(const T* from, Complex* to) const {
    share_line(from, parts(to));
    in_ranges(n_ / 4 + 1, kTaskNumbers, [&](std::int64_t begin, std::int64_t end) {
      FftHalves<T>(*halves_).separate(parts(to), n_ / 2, begin, end);
    });
  }

  void long_line(const Complex* from, T* to) const {
    in_ranges(n_ / 4 + 1, kTaskNumbers, [&](std::int64_t begin, std::int64_t end) {
      FftHalves<T>(*halves_).join(parts(from), to, n_ / 2, begin, end);
    });
    share_line(to, to);
  }

  void share_line(const T* from, T* to) const {
    const FftLines<T> line(*plan_);
    const std::int64_t height = plan_->columns->n;
    const std::int64_t width = plan_->rows->n;
    Workspace<T> matrix(2 * height * FftLines<T>::row_stride(*plan_));
    const auto of_task = [](std::int64_t n) { return std::max(lines_of_task(n), kLinesTogether); };
    in_ranges(width, of_task(height),
              [&](std::int64_t begin, std::int64_t end) { line.columns(from, matrix.data(), begin, end, options_); });
    in_ranges(height, of_task(width),
              [&](std::int64_t begin, std::int64_t end) { line.rows(matrix.data(), to, begin, end, options_); });
  }

  Turn turn_;
  std::int64_t n_;
  bool is_folded_;  // Two real numbers are taken as a complex one.
  FftOptions options_;
  std::shared_ptr<const LinePlan<T>> plan_;
  std::shared_ptr<const HalfPlan<T>> halves_;
  std::shared_ptr<const LanesPlan<T>> columns_;
};

template <class T>
class FftKernel final : public Kernel {
 public:
  FftKernel(const Attrs& attrs) {
    const auto& kind = attrs.get<std::string>("transform");
    const bool inverse = kind == "ifft" || kind == "irfft";
    is_complex_ = kind == "fft" || kind == "ifft";
    gives_reals_ = kind == "irfft";
    const auto& dims = attrs.get<Dims>("dims");
    const auto& lengths = attrs.get<Shape>("lengths");
    for (std::size_t i = dims.size(); i-- > 0;) {
      const bool is_half = !is_complex_ && i + 1 == dims.size();
      const Turn turn = !is_half ? Turn::kComplex : inverse ? Turn::kFromHalf : Turn::kToHalf;
      passes_.push_back({static_cast<std::size_t>(dims[i]), {turn, std::max<std::int64_t>(lengths[i], 1), inverse}});
    }
    // What has half of the numbers comes where there are fewer of them.
    if (gives_reals_) std::rotate(passes_.begin(), passes_.begin() + 1, passes_.end());
    first_dim_ = static_cast<std::size_t>(*std::min_element(dims.begin(), dims.end()));
  }

  Work work(Views inputs, Views outputs) const override {
    const std::int64_t items = items_of(inputs[0].shape);
    const std::size_t scratch = keeps_between() ? bytes_of(inputs[0]) : 0;
    if (num_elements(inputs[0].shape) == 0 || num_elements(outputs[0].shape) == 0) return {.tiles = 1};
    const std::int64_t numbers = num_elements(inputs[0].shape) / items;
    if (numbers >= kMostOfTile) return {.tiles = 1, .scratch_bytes = scratch};
    return {.tiles = ceil_div(items, lines_of_task(numbers)), .scratch_bytes = scratch};
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t tile) const override {
    const TensorView& in = inputs[0];
    const TensorView& out = outputs[0];
    if (num_elements(in.shape) == 0 || num_elements(out.shape) == 0) return;
    const std::int64_t items = items_of(in.shape);
    const std::int64_t numbers = num_elements(in.shape) / items;
    const std::int64_t of_tile = numbers >= kMostOfTile ? items : lines_of_task(numbers);
    const std::int64_t first = tile * of_tile;
    const std::int64_t count = std::min(of_tile, items - first);
    const auto bytes_at = [&](const TensorView& view) {
      return first * (static_cast<std::int64_t>(bytes_of(view)) / items);
    };
    const auto* from = static_cast<const std::byte*>(in.data) + bytes_at(in);
    auto* const to = static_cast<std::byte*>(out.data) + bytes_at(out);
    std::byte* const between = keeps_between() ? scratch + bytes_at(in) : to;
    Shape shape(in.shape.begin() + static_cast<std::ptrdiff_t>(first_dim_), in.shape.end());
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      const auto& [dim, transform] = passes_[i];
      const std::size_t d = dim - first_dim_;
      std::byte* const target = i + 1 == passes_.size() ? to : between;
      const std::int64_t outer = num_elements(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(d)));
      const std::int64_t inner = num_elements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end()));
      transform.run(from, target, count * outer, inner);
      shape[d] = transform.to_extent();
      from = target;
    }
  }

  bool may_overwrite(std::size_t, std::size_t) const override { return is_complex_; }

 private:
  // Arrays of the transformed dimensions and of what is between and after them.
  std::int64_t items_of(const Shape& shape) const {
    return num_elements(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(first_dim_)));
  }

  // Whether what comes before the last pass has no room in the result.
  bool keeps_between() const { return passes_.size() > 1 && gives_reals_; }

  bool is_complex_;
  bool gives_reals_;
  std::size_t first_dim_;
  std::vector<std::pair<std::size_t, LineTransform<T>>> passes_;
};

}  // namespace

std::unique_ptr<Kernel> fft_kernel(const Graph& graph, const Eqn& eqn) {
  if (real_dtype(graph.type(eqn.inputs[0]).dtype) == float64) return std::make_unique<FftKernel<double>>(eqn.attrs);
  return std::make_unique<FftKernel<float>>(eqn.attrs);
}

}  // namespace shoal::cpu
