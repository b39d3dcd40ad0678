#include "shoal/ode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/transforms/leaves.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

// ---- The formulas of Dormand and Prince: stage i is at time kNodes[i] of a step, moved by kStages[i] times those
// before it. The last stage is the result.

constexpr std::array<double, 6> kNodes = {1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};
constexpr std::array<std::array<double, 6>, 6> kStages = {{
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84},
}};
// By Shampine: what the result differs in from a formula of order 4, and the middle of a step.
constexpr std::array<double, 7> kError = {35.0 / 384 - 1951.0 / 21600,
                                          0,
                                          500.0 / 1113 - 22642.0 / 50085,
                                          125.0 / 192 - 451.0 / 720,
                                          -2187.0 / 6784 + 12231.0 / 42400,
                                          11.0 / 84 - 649.0 / 6300,
                                          -1.0 / 60};
constexpr std::array<double, 7> kMiddle = {6025192743.0 / 60171105904,     0,
                                           51252292925.0 / 130801650848,   -2691868925.0 / 90256659456,
                                           187940372067.0 / 3189068634112, -1776094331.0 / 39487288512,
                                           11237099.0 / 470086768};

// ---- States, which are trees.

// The sum of the vectors, each times its factor.
Leaves combination(std::span<const double> factors, const std::vector<Leaves>& vectors) {
  Leaves sums(vectors[0].size());
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (factors[i] == 0) continue;
    for (std::size_t leaf = 0; leaf < sums.size(); ++leaf) {
      const Array term = factors[i] * vectors[i][leaf];
      sums[leaf] = is_empty(sums[leaf]) ? term : sums[leaf] + term;
    }
  }
  return sums;
}
Leaves scaled(const Array& factor, const Leaves& x) {
  Leaves made;
  for (const Array& one : x) made.push_back(factor.astype(real_dtype(one.dtype())) * one);
  return made;
}
Leaves sum_of(const Leaves& x, const Leaves& y) {
  Leaves made;
  for (std::size_t i = 0; i < x.size(); ++i) made.push_back(x[i] + y[i]);
  return made;
}
// The sum of the squares of the elements of x, each of which may be as large as that of atol + rtol y.
Array squares(const Leaves& x, const Leaves& y, const ode::OdeintOptions& options) {
  Array all;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Array of_one = sum(square(abs(x[i]) / (options.atol + options.rtol * y[i])));
    all = i == 0 ? of_one : all + of_one;
  }
  return all;
}
Leaves sizes(const Leaves& x) {
  Leaves made;
  for (const Array& one : x) made.push_back(abs(one));
  return made;
}

Leaves part(const Leaves& all, std::size_t begin, std::size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

// ---- Forward.

struct System {
  /// How a state changes at a time, where `consts` are what the function uses.
  std::function<Leaves(const Leaves& y, const Array& t, const Leaves& consts)> derivative;
  ode::OdeintOptions options;
  SourceLocation where;
};
using Derivative = std::function<Leaves(const Leaves& y, const Array& t)>;

// Where the solution has come to, and the quartic of the last step: its coefficients, that of the highest power first.
struct State {
  Leaves y;
  Leaves f;
  Array t;
  Array h;       // What the next step tries.
  Array before;  // The time where the last step began.
  std::vector<Leaves> curve;
};

State stepped(const State& at, const Derivative& f, const ode::OdeintOptions& options) {
  std::vector<Leaves> k = {at.f};
  Leaves rise;
  for (std::size_t i = 0; i < kNodes.size(); ++i) {
    rise = scaled(at.h, combination(kStages[i], k));
    k.push_back(f(sum_of(at.y, rise), at.t + kNodes[i] * at.h));
  }
  Leaves y = sum_of(at.y, rise);
  Leaves greater;
  double count = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    greater.push_back(maximum(abs(at.y[i]), abs(y[i])));
    count += static_cast<double>(y[i].size());
  }
  const Array error =
      sqrt(squares(scaled(at.h, combination(kError, k)), greater, options) / count).astype(at.h.dtype());
  const Array is_good = error <= 1.0;
  // An error of zero gives an infinite factor; NaN stays, and ends the loop.
  const Array factor = minimum(10.0, maximum(0.9 * power(error, -0.2), where(error < 1.0, 1.0, 0.2)));
  State next{.y = std::move(y),
             .f = k.back(),
             .t = at.t + at.h,
             .h = minimum(at.h * factor, options.hmax),
             .before = at.t,
             .curve = std::vector<Leaves>(5)};
  // Through both ends with their slopes, and the middle.
  const Leaves middle = scaled(at.h, combination(kMiddle, k));
  const Leaves first = scaled(at.h, k.front());
  const Leaves last = scaled(at.h, k.back());
  for (std::size_t i = 0; i < at.y.size(); ++i) {
    next.curve[0].push_back(2.0 * (last[i] - first[i]) - 8.0 * rise[i] + 16.0 * middle[i]);
    next.curve[1].push_back(5.0 * first[i] - 3.0 * last[i] + 14.0 * rise[i] - 32.0 * middle[i]);
    next.curve[2].push_back(last[i] - 4.0 * first[i] - 5.0 * rise[i] + 16.0 * middle[i]);
    next.curve[3].push_back(first[i]);
    next.curve[4].push_back(at.y[i]);
  }
  State made = tree::map([&](const Array& a, const Array& b) { return where(is_good, a, b); }, next, at);
  made.h = next.h;
  return made;
}

// A length for the first step.
Array first_step(const Leaves& y, const Leaves& slope, const Array& t, const Derivative& f,
                 const ode::OdeintOptions& options) {
  const Leaves of_y = sizes(y);
  const auto length = [&](const Leaves& x) { return sqrt(squares(x, of_y, options)).astype(t.dtype()); };
  const Array d0 = length(y);
  const Array d1 = length(slope);
  const Array h0 = where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1);
  const Leaves ahead = f(sum_of(y, scaled(h0, slope)), t + h0);
  const Array d2 = length(sum_of(ahead, scaled(full({}, -1.0, {.dtype = t.dtype()}), slope))) / h0;
  const Array h1 = where((d1 <= 1e-15) & (d2 <= 1e-15), maximum(1e-6, 0.001 * h0), power(0.01 / maximum(d1, d2), 0.2));
  return minimum(minimum(100.0 * h0, h1), options.hmax).astype(t.dtype());
}

Leaves solved(const System& system, const Leaves& y0, const Array& t, const Leaves& consts) {
  const ode::OdeintOptions& options = system.options;
  const Derivative f = [&](const Leaves& y, const Array& time) { return system.derivative(y, time, consts); };
  const Array begin = t[0];
  const Leaves slope = f(y0, begin);
  const State init{.y = y0,
                   .f = slope,
                   .t = begin,
                   .h = first_step(y0, slope, begin, f, options),
                   .before = begin,
                   .curve = std::vector<Leaves>(5, y0)};
  const auto advance = [&](const State& from, const Array& target) {
    using Counted = std::pair<Array, State>;
    const auto goes_on = [&](const Counted& counted) {
      const State& at = counted.second;
      const Array wanted = (at.t < target) & (at.h > 0.0);
      return std::isfinite(options.mxstep) ? wanted & (counted.first < options.mxstep) : wanted;
    };
    const auto step = [&](const Counted& counted) {
      return Counted(counted.first + 1, stepped(counted.second, f, options));
    };
    const State at = lax::while_loop(goes_on, step, Counted(Array(0), from)).second;
    // A length that is lost in NaN has not come to the target.
    const Array s = where(isnan(at.h), at.h, (target - at.before) / (at.t - at.before));
    Leaves values = at.curve[0];
    for (std::size_t i = 1; i < at.curve.size(); ++i) values = sum_of(scaled(s, values), at.curve[i]);
    return std::pair(at, values);
  };
  const Leaves rest = lax::scan(advance, init, t[{range(1)}]).second;
  Leaves all;
  for (std::size_t i = 0; i < y0.size(); ++i) all.push_back(concatenate({expand_dims(y0[i], 0), rest[i]}));
  return all;
}

// ---- In reverse.

Leaves solution_of(const std::shared_ptr<const System>& system, const Leaves& y0, const Array& t, const Leaves& consts);

// How a state, its cotangent and those of the `wanted` among the time and the constants change with the time that is
// left: of these cotangents, what the derivative of the system at the state adds.
std::shared_ptr<const System> adjoint_of(const std::shared_ptr<const System>& system, std::size_t count,
                                         const std::vector<bool>& wanted) {
  auto made = std::make_shared<System>(*system);
  made->derivative = [system, count, wanted](const Leaves& state, const Array& left, const Leaves& consts) {
    const Leaves y = part(state, 0, count);
    const Leaves others = joined({-left}, consts);
    Leaves varied = y;
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (wanted[i]) varied.push_back(others[i]);
    }
    const TracedFunction function = [&](const Leaves& given) {
      Leaves all = others;
      std::size_t next = count;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (wanted[i]) all[i] = given[next++];
      }
      return flat_result<Leaves>(system->derivative(part(given, 0, count), all[0], part(all, 1, consts.size())));
    };
    const auto [value, map] = call_linearize("odeint", arguments_of(varied), function, system->where);
    Leaves changes;
    for (const Array& one : value.results) changes.push_back(-one);
    return joined(std::move(changes), map.pull_back(part(state, count, count), system->where));
  };
  return made;
}

// The cotangents of y0, and of the wanted ones of t and the constants, where g are those of the solution `ys`.
Leaves pulled_back(const std::shared_ptr<const System>& system, const Leaves& ys, const Array& t, const Leaves& consts,
                   const std::vector<bool>& wanted, const Leaves& g) {
  const std::size_t count = ys.size();
  const std::shared_ptr<const System> adjoint = adjoint_of(system, count, wanted);
  const auto of_all = [](const Leaves& leaves, const IndexEntry& index) {
    Leaves made;
    for (const Array& one : leaves) made.push_back(one[{index}]);
    return made;
  };
  Leaves bars;
  if (wanted[0]) bars.push_back(zeros({}, {.dtype = t.dtype()}));
  for (std::size_t i = 0; i < consts.size(); ++i) {
    if (wanted[i + 1]) bars.push_back(shoal::zeros_like(consts[i]));
  }
  // From each time to the one before it.
  using Carry = std::pair<Leaves, Leaves>;  // The cotangents of the state, and the others.
  using Slice = std::tuple<Leaves, Leaves, Leaves, Array, Array>;
  const auto back = [&](const Carry& carry, const Slice& slice) {
    const auto& [y, of_y, of_before, time, before] = slice;
    Leaves others = carry.second;
    Leaves of_time;
    if (wanted[0]) {
      const Leaves slope = system->derivative(y, time, consts);
      Array shift = zeros({}, {.dtype = t.dtype()});
      for (std::size_t i = 0; i < count; ++i) shift = shift + sum(real(slope[i] * of_y[i])).astype(t.dtype());
      others[0] = others[0] - shift;
      of_time.push_back(shift);
    }
    const Leaves made = solution_of(adjoint, joined(joined(y, carry.first), others), stack({-time, -before}), consts);
    const Leaves last = of_all(made, 1);
    return std::pair(Carry(sum_of(part(last, count, count), of_before), part(last, 2 * count, others.size())), of_time);
  };
  const IndexEntry later = range(1);
  const IndexEntry earlier = range(none, -1);
  const auto [made, of_times] = lax::scan(
      back, Carry(of_all(g, -1), bars),
      Slice(of_all(ys, later), of_all(g, later), of_all(g, earlier), t[{later}], t[{earlier}]), {.reverse = true});
  Leaves others = made.second;
  if (wanted[0]) others[0] = concatenate({expand_dims(others[0], 0), of_times[0]});
  return joined(made.first, others);
}

Leaves solution_of(const std::shared_ptr<const System>& system, const Leaves& y0, const Array& t,
                   const Leaves& consts) {
  const std::size_t count = y0.size();
  const auto solve = [system, count](const Leaves& given) {
    return solved(*system, part(given, 0, count), given[count], part(given, count + 1, given.size() - count - 1));
  };
  const auto function = [solve](const Leaves& given) { return flat_result<Leaves>(solve(given)); };
  const auto rule = [system, solve, count](const Leaves& given, const std::vector<bool>& changes) {
    const Caller caller("odeint", system->where);
    const Leaves ys =
        solution_of(system, part(given, 0, count), given[count], part(given, count + 1, given.size() - count - 1));
    const PullbackRule pull_back = [=](const Leaves& cotangents) {
      const Caller again("odeint", system->where);
      const std::vector<bool> wanted(changes.begin() + static_cast<std::ptrdiff_t>(count), changes.end());
      const Leaves made = pulled_back(system, ys, given[count], part(given, count + 1, given.size() - count - 1),
                                      wanted, detail::with_zeros(cotangents, ys));
      Leaves all(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(count));
      std::size_t next = count;
      for (const bool one : wanted) all.push_back(one ? made[next++] : Array());
      return all;
    };
    return std::pair(flat_result<Leaves>(ys), pull_back);
  };
  std::any exemplar;
  return call_custom_vjp(arguments_of(joined(joined(y0, {t}), consts)), function, rule, exemplar, system->where);
}

void check_option(std::string_view name, double value) {
  if (!(value >= 0)) throw misuse<InvalidArgument>("{} is {}, and should be at least 0", name, value);
}

}  // namespace

std::vector<Array> call_odeint(const TracedFunction& function, const CallArguments& y0, const Operand& t,
                               const ode::OdeintOptions& options, SourceLocation where) {
  const Caller caller("odeint", where);
  check_option("rtol", options.rtol);
  check_option("atol", options.atol);
  check_option("mxstep", options.mxstep);
  check_option("hmax", options.hmax);
  check_values(y0.leaves, y0.tree, "argument ");
  if (y0.leaves.empty()) throw misuse<InvalidArgument>("y0 has no arrays");
  Leaves start;
  for (const Array& one : y0.leaves) {
    const Type& type = impl_of(one).type;
    if (!is_floating(type.dtype) && !is_complex(type.dtype)) {
      throw misuse<TypeMismatch>("y0 is {}, and should be of floats or complex numbers", user_string(type));
    }
    start.push_back(convert(one, type.dtype));
  }
  const Array given = to_array(t);
  const Type& type = impl_of(given).type;
  if (!is_floating(type.dtype)) throw misuse<TypeMismatch>("t is {}, and should be of floats", user_string(type));
  if (type.rank() != 1 || type.shape[0] == 0) {
    throw misuse<InvalidArgument>("t is {}, and should be a vector of at least one time", user_string(type));
  }
  const Array times = convert(given, type.dtype);
  const TracedFunction checked = [&](const Leaves& leaves) {
    TracedResult made = [&] {
      const Caller::Pause pause;
      return function(leaves);
    }();
    const Caller again("odeint", where);
    check_values(made.leaves, made.tree, "result");
    if (made.leaves.size() != start.size()) {
      throw misuse<TypeMismatch>("what func returns must have the structure of y0, got {} arrays for {}",
                                 made.leaves.size(), start.size());
    }
    for (std::size_t i = 0; i < start.size(); ++i) {
      const Type& wanted = impl_of(start[i]).type;
      const Type& own = impl_of(made.leaves[i]).type;
      if (own.shape != wanted.shape) {
        throw misuse<ShapeMismatch>("what func returns must have the shapes of y0, got {} for {}", user_string(own),
                                    user_string(wanted));
      }
      if (own.dtype != wanted.dtype && !own.weak) {
        throw misuse<TypeMismatch>("what func returns must have the dtypes of y0, got {} for {}", user_string(own),
                                   user_string(wanted));
      }
      made.leaves[i] = convert(made.leaves[i], wanted.dtype);
    }
    return made;
  };
  const Closure closure("odeint", flatten_arguments(std::tuple<Leaves, Array>(start, times[0])), checked, where);
  auto system = std::make_shared<System>();
  system->derivative = [closure, where](const Leaves& y, const Array& time, const Leaves& consts) {
    return closure(joined(y, {time}), consts, where);
  };
  system->options = options;
  system->where = where;
  return solution_of(system, start, times, closure.consts());
}

}  // namespace shoal::detail
