#include "shoal/optimize.h"

#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::optimize {
namespace {

// Of trees of arrays: `x` where the condition holds.
template <class T>
T chosen(const Array& condition, const T& x, const T& otherwise) {
  return tree::map([&](const Array& a, const Array& b) { return where(condition, a, b); }, x, otherwise);
}

Array scalar(double value, Dtype dtype) { return full({}, value, {.dtype = dtype}); }

// A place on a line, the value there, and how it changes along the line.
struct Place {
  Array a;
  Array phi;
  Array dphi;
};
// And the gradient.
struct Point {
  Place at;
  Array g;
};

// The function along a line from x, and the Wolfe conditions for its value and slope at 0.
struct Line {
  std::function<Array(const Array&)> f;
  Array x;
  Array direction;
  Place begin;

  Point point(const Array& a) const {
    const auto [value, g] = value_and_grad(f)(x + a * direction);
    return {.at = {.a = a, .phi = value.astype(x.dtype()), .dphi = dot(g, direction)}, .g = g};
  }
  bool is_wide() const { return x.dtype() == float64; }
  Array is_too_high(const Place& at) const { return at.phi > begin.phi + 1e-4 * at.a * begin.dphi; }
  Array is_flat(const Place& at) const { return abs(at.dphi) <= -0.9 * begin.dphi; }
};

// Where the parabola through two places, with the slope at the first, is least.
Array parabola_minimum(const Place& p, const Place& q) {
  const Array d = q.a - p.a;
  return p.a - p.dphi / (2.0 * (q.phi - p.phi - p.dphi * d) / square(d));
}
// The same of the cubic that goes through a third.
Array cubic_minimum(const Place& p, const Place& q, const Place& r) {
  const Array d = q.a - p.a;
  const Array e = r.a - p.a;
  const Array by_d = q.phi - p.phi - p.dphi * d;
  const Array by_e = r.phi - p.phi - p.dphi * e;
  const Array scale = square(d * e) * (d - e);
  const Array a = (square(e) * by_d - square(d) * by_e) / scale;
  const Array b = (d * d * d * by_e - e * e * e * by_d) / scale;
  return p.a + (sqrt(b * b - 3.0 * a * p.dphi) - b) / (3.0 * a);
}

struct Zoom {
  Array done;
  Array failed;
  Array count;
  Place low;   // The lower end of the interval,
  Place high;  // the other,
  Place last;  // and the end that was given up last.
  Point found;
};

// A place between two that satisfies the conditions, where there is one; nothing is done unless `is_wanted`.
Zoom zoom(const Line& line, const Place& low, const Place& high, const Array& gradient, const Array& is_wanted) {
  const Dtype dtype = line.x.dtype();
  const Place middle{.a = (low.a + high.a) / 2.0, .phi = (low.phi + high.phi) / 2.0, .dphi = low.dphi};
  const Zoom init{.done = ~is_wanted,
                  .failed = Array(false),
                  .count = Array(0),
                  .low = low,
                  .high = high,
                  .last = middle,
                  .found = {.at = {.a = scalar(1, dtype), .phi = low.phi, .dphi = low.dphi}, .g = gradient}};
  return lax::while_loop([](const Zoom& state) { return ~(state.done | state.failed); },
                         [&](const Zoom& state) {
                           const Array least = minimum(state.low.a, state.high.a);
                           const Array greatest = maximum(state.low.a, state.high.a);
                           const Array width = greatest - least;
                           const auto is_inside = [&](const Array& a, double margin) {
                             return (a > least + margin * width) & (a < greatest - margin * width);
                           };
                           const Array cubic = cubic_minimum(state.low, state.high, state.last);
                           const Array parabola = parabola_minimum(state.low, state.high);
                           // NaN is not inside.
                           const Array a =
                               where((state.count > 0) & is_inside(cubic, 0.2), cubic,
                                     where(is_inside(parabola, 0.1), parabola, (state.low.a + state.high.a) / 2.0));
                           const Point point = line.point(a);
                           const Place& at = point.at;
                           const Array is_high = line.is_too_high(at) | (at.phi >= state.low.phi);
                           const Array is_found = line.is_flat(at) & ~is_high;
                           const Array turns = (at.dphi * (state.high.a - state.low.a) >= 0) & ~is_high & ~is_found;
                           Zoom next;
                           next.done = state.done | is_found;
                           next.count = state.count + 1;
                           next.failed = (width <= (line.is_wide() ? 1e-10 : 1e-5)) | (next.count >= 30);
                           next.found = chosen(is_found, point, state.found);
                           next.high = chosen(is_high, at, chosen(turns, state.low, state.high));
                           next.last = chosen(is_high | turns, state.high, state.low);
                           next.low = chosen(is_high, state.low, at);
                           return next;
                         },
                         init);
}

struct Search {
  Array done;
  Array failed;
  Array trip;
  Array count;  // Of calls of the function.
  Place last;
  Point found;
};

// A place along the line where the conditions hold. `before` is the value where the last line began.
Search search(const Line& line, const Array& gradient, const Array& before, std::int64_t maxiter) {
  const Dtype dtype = line.x.dtype();
  const Array guess = 2.02 * (line.begin.phi - before) / line.begin.dphi;
  const Array first = where(guess > 1, scalar(1, dtype), guess);
  const Search init{.done = Array(false),
                    .failed = Array(false),
                    .trip = Array(1),
                    .count = Array(0),
                    .last = line.begin,
                    .found = {.at = line.begin, .g = gradient}};
  return lax::while_loop(
      [&](const Search& state) { return ~(state.done | state.failed) & (state.trip <= maxiter); },
      [&](const Search& state) {
        const Point point = line.point(where(state.trip == 1, first, state.last.a * 2.0));
        const Place& at = point.at;
        const Array is_high = line.is_too_high(at) | ((at.phi >= state.last.phi) & (state.trip > 1));
        const Array is_found = line.is_flat(at) & ~is_high;
        const Array rises = (at.dphi >= 0) & ~is_high & ~is_found;
        // Between the last place and this one, from the lower of them.
        const Array is_between = is_high | rises;
        const Zoom inside =
            zoom(line, chosen(is_high, state.last, at), chosen(is_high, at, state.last), gradient, is_between);
        return Search{.done = state.done | is_found | is_between,
                      .failed = state.failed | (is_between & inside.failed),
                      .trip = state.trip + 1,
                      .count = state.count + 1 + inside.count,
                      .last = at,
                      .found = chosen(is_between, inside.found, chosen(is_found, point, state.found))};
      },
      init);
}

struct Descent {
  Array converged;
  Array failed;
  Array trip;
  Array count;
  Array x;
  Array value;
  Array gradient;
  Array inverse;  // Of the Hessian.
  Array before;   // The value a step ago.
  Array reason;   // Why a search failed.
};

}  // namespace

OptimizeResults minimize(const std::function<Array(const Array&)>& f, const Operand& x0,
                         const MinimizeOptions& options) {
  const Caller caller("minimize", x0.where());
  const Array start = to_array(x0);
  if (start.ndim() != 1) {
    throw misuse<InvalidArgument>("x0 is {}, and should be a vector", user_string(detail::impl_of(start).type));
  }
  if (!is_floating(start.dtype())) {
    throw misuse<TypeMismatch>("x0 is {}, and should be of floats", user_string(detail::impl_of(start).type));
  }
  const std::int64_t size = start.size();
  const Operand maxiter = options.maxiter ? *options.maxiter : Operand(200 * size);
  const auto is_small = [&](const Array& gradient) {
    return linalg::norm(gradient, {.ord = options.norm}) < options.gtol;
  };
  const auto [first_value, first_gradient] = value_and_grad(f)(start);
  const Array value = first_value.astype(start.dtype());
  const Descent init{.converged = is_small(first_gradient),
                     .failed = Array(false),
                     .trip = Array(0),
                     .count = Array(1),
                     .x = start,
                     .value = value,
                     .gradient = first_gradient,
                     .inverse = eye(size, {.dtype = start.dtype()}),
                     .before = value + linalg::norm(first_gradient) / 2.0,
                     .reason = Array(0)};
  const Descent made = lax::while_loop(
      [&](const Descent& state) { return ~(state.converged | state.failed) & (state.trip < maxiter); },
      [&](const Descent& state) {
        const Array direction = -dot(state.inverse, state.gradient);
        const Line line{
            .f = f,
            .x = state.x,
            .direction = direction,
            .begin = {.a = scalar(0, start.dtype()), .phi = state.value, .dphi = dot(state.gradient, direction)}};
        const Search found = search(line, state.gradient, state.before, options.line_search_maxiter);
        // A step that is lost in the roundings of x would leave the search where it is.
        Array a = found.found.at.a;
        if (!line.is_wide()) a = where(abs(a) < 1e-8, sign(a) * 1e-8, a);
        const Array step = a * direction;
        const Array& gradient = found.found.g;
        const Array change = gradient - state.gradient;
        const Array rho = 1.0 / dot(change, step);
        // (1 - rho s y') H (1 - rho y s') + rho s s', for a symmetric H.
        const Array turned = dot(state.inverse, change);
        const Array inverse = state.inverse - rho * (outer(step, turned) + outer(turned, step)) +
                              rho * (1.0 + rho * dot(change, turned)) * outer(step, step);
        return Descent{.converged = is_small(gradient),
                       .failed = found.failed | ~found.done,
                       .trip = state.trip + 1,
                       .count = state.count + found.count,
                       .x = state.x + step,
                       .value = found.found.at.phi,
                       .gradient = gradient,
                       .inverse = where(isfinite(rho), inverse, state.inverse),
                       .before = state.value,
                       .reason = where(found.failed, 1, where(found.trip > options.line_search_maxiter, 3, 0))};
      },
      init);
  const Array status =
      where(made.converged, 0, where(made.trip == maxiter, 1, where(made.failed, 2 + made.reason, -1)));
  return {.x = made.x,
          .success = made.converged & ~made.failed,
          .status = status,
          .fun = made.value,
          .jac = made.gradient,
          .hess_inv = made.inverse,
          .nfev = made.count,
          .njev = made.count,
          .nit = made.trip};
}

}  // namespace shoal::optimize
