// shoal.optimizers: transformations of gradients, over trees of Python, and schedules.
#include "shoal/optimizers.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/core/flag.h"
#include "bindings/core/numbers.h"
#include "bindings/core/tree.h"
#include "bindings/training/training.h"

namespace nanobind::detail {

// A number of Python or NumPy, or an array.
template <>
struct type_caster<shoal::optimizers::Number> {
  NB_TYPE_CASTER(shoal::optimizers::Number, const_name("float | ") + make_caster<shoal::Array>::Name)

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    if (const shoal::Array* array = shoal::python::array_of(source)) {
      value = *array;
      return true;
    }
    const double number = PyFloat_AsDouble(source.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    value = number;
    return true;
  }
};

}  // namespace nanobind::detail

namespace shoal::python {
namespace {

using namespace optimizers;

// ---- Arguments.

Number number(nb::handle x, const char* function, const char* argument) {
  const Operand given = number_or_array(x, function, argument);
  return given.array() != nullptr ? Number(*given.array()) : Number(std::get<double>(*given.number()));
}

// Nothing of None.
std::optional<Number> given_number(nb::handle x, const char* function, const char* argument) {
  if (x.is_none()) return std::nullopt;
  return number(x, function, argument);
}

// A number, a schedule of this module, or a function of the count of updates that gives a number or an array.
Schedule schedule(nb::handle x, const char* function, const char* argument) {
  if (nb::isinstance<Schedule>(x)) return nb::cast<Schedule>(x);
  if (PyCallable_Check(x.ptr()) == 0) return number(x, function, argument);
  return Schedule([f = Held(x), function](const Array& count) {
    nb::gil_scoped_acquire gil;
    const nb::object value = f.get()(count);
    return to_array(value, function, "what a schedule gives");
  });
}

// Which parameters something is for, by a function of path and array.
Mask mask(nb::handle x, const char* function) {
  if (x.is_none()) return {};
  if (PyCallable_Check(x.ptr()) == 0) {
    type_error(fmt::format("{}: mask must be a function of a path and an array, got {}", function, type_text(x)));
  }
  return [f = Held(x)](const std::string& path, const Array& parameter) {
    nb::gil_scoped_acquire gil;
    return nb::cast<bool>(nb::bool_(nb::object(f.get()(path, parameter))));
  };
}

nb::dict dict_of(nb::handle x, const std::string& what) {
  if (!nb::isinstance<nb::dict>(x)) type_error(fmt::format("{} must be a dict, got {}", what, type_text(x)));
  return nb::borrow<nb::dict>(x);
}

std::string name_of_key(nb::handle key, const std::string& what) {
  if (!nb::isinstance<nb::str>(key)) {
    type_error(fmt::format("{} must have strings as keys, got {}", what, type_text(key)));
  }
  return nb::cast<std::string>(key);
}

// ---- Transformations of the user's own. Their functions see trees as dicts of arrays by their paths, since what they
// transform may be a part of a tree alone.

// The path of a tree that is one array is empty: a name that cannot be told from none.
std::string shown(const std::string& path) { return path.empty() ? "." : path; }

nb::dict by_path(const Leaves& leaves) {
  nb::dict made;
  for (std::size_t i = 0; i < leaves.paths.size(); ++i)
    made[shown(leaves.paths[i]).c_str()] = nb::cast(leaves.arrays[i]);
  return made;
}

// The path at the end of a name, or nothing.
std::string_view path_in(std::string_view name, const Leaves& params) {
  std::string_view found;
  for (const std::string& one : params.paths) {
    const std::string path = shown(one);
    if (name.size() > path.size() && name.ends_with(path) && path.size() > found.size()) {
      found = name.substr(name.size() - path.size());
    }
  }
  return found;
}

// The entry "mu" with an array for the parameter "['w']" is "mu['w']".
State own_state(nb::handle given, const Leaves& params, const char* what) {
  State state;
  for (const auto& [key, value] : dict_of(given, what)) {
    const std::string name = name_of_key(key, what);
    if (!nb::isinstance<nb::dict>(value)) {
      if (!path_in(name, params).empty()) {
        type_error(fmt::format("{} has an array named \"{}\", which ends as the path of a parameter does", what, name));
      }
      state.emplace(name, to_array(value, what));
      continue;
    }
    for (const auto& [path, array] : nb::borrow<nb::dict>(value)) {
      const std::string of = name_of_key(path, what);
      const auto is_it = [&](const std::string& one) { return shown(one) == of; };
      if (std::find_if(params.paths.begin(), params.paths.end(), is_it) == params.paths.end()) {
        type_error(fmt::format("{}: \"{}\" has an array for \"{}\", which is no parameter", what, name, of));
      }
      state.emplace(name + of, to_array(array, what));
    }
  }
  return state;
}

nb::dict own_state_object(const State& state, const Leaves& params) {
  nb::dict made;
  for (const auto& [name, array] : state) {
    const std::string_view path = path_in(name, params);
    if (path.empty()) {
      made[name.c_str()] = nb::cast(array);
      continue;
    }
    const std::string key = name.substr(0, name.size() - path.size());
    if (!made.contains(key.c_str())) made[key.c_str()] = nb::dict();
    nb::borrow<nb::dict>(made[key.c_str()])[std::string(path).c_str()] = nb::cast(array);
  }
  return made;
}

GradientTransformation own_transformation(nb::handle init, nb::handle update) {
  const char* const kInit = "GradientTransformation: what init gives";
  const char* const kUpdate = "GradientTransformation: what update gives";
  for (const nb::handle function : {init, update}) {
    if (PyCallable_Check(function.ptr()) != 0) continue;
    type_error(fmt::format("GradientTransformation: init and update must be functions, got {}", type_text(function)));
  }
  return {[kInit, f = Held(init)](const Leaves& params) {
            const nb::gil_scoped_acquire gil;
            return own_state(nb::object(f.get()(by_path(params))), params, kInit);
          },
          [kUpdate, f = Held(update)](const Leaves& gradients, const State& state, const Leaves& params) {
            const nb::gil_scoped_acquire gil;
            const nb::object made = f.get()(by_path(gradients), own_state_object(state, params), by_path(params));
            if (!nb::isinstance<nb::tuple>(made) || nb::len(made) != 2) {
              type_error(fmt::format("{} must be a tuple of updates and state, got {}", kUpdate, type_text(made)));
            }
            const nb::dict updates = dict_of(made[0], fmt::format("{}: the updates", kUpdate));
            std::vector<Array> arrays;
            for (const std::string& path : gradients.paths) {
              const std::string key = shown(path);
              if (!updates.contains(key.c_str()) || nb::len(updates) != gradients.paths.size()) {
                type_error(fmt::format("{}: the updates should have the same keys as the gradients, which have \"{}\"",
                                       kUpdate, key));
              }
              arrays.push_back(to_array(updates[key.c_str()], kUpdate));
            }
            return std::pair(std::move(arrays), own_state(made[1], params, kUpdate));
          }};
}

// One of this module, or a pair of functions.
GradientTransformation transformation(nb::handle x, const char* function) {
  if (nb::isinstance<GradientTransformation>(x)) return nb::cast<const GradientTransformation&>(x);
  if (nb::isinstance<nb::tuple>(x) && nb::len(x) == 2) {
    const nb::tuple pair = nb::borrow<nb::tuple>(x);
    return own_transformation(pair[0], pair[1]);
  }
  type_error(fmt::format("{}: needs transformations of gradients, got {}", function, type_text(x)));
}

std::vector<GradientTransformation> transformations(nb::args list, const char* function) {
  std::vector<GradientTransformation> made;
  for (const nb::handle one : list) made.push_back(transformation(one, function));
  return made;
}

// Three numbers, or three for each step; None leaves the default.
void set_coefficients(MuonScaleOptions& options, nb::handle coefficients, const char* function) {
  if (coefficients.is_none()) return;
  options.ns_coeffs.clear();
  const auto add = [&](nb::handle x) {
    options.ns_coeffs.push_back(*maybe_number(x, fmt::format("{}: ns_coeffs", function)));
  };
  for (const nb::handle one : coefficients) {
    if (PyFloat_Check(one.ptr()) || PyLong_Check(one.ptr())) {
      add(one);
      continue;
    }
    for (const nb::handle inner : one) add(inner);
  }
}

// ---- Trees.

Leaves leaves_of(nb::handle x, const char* what) {
  const ArrayTree tree = array_tree(x, what);
  return {named_def(x, tree.tree).leaf_paths(), tree.leaves};
}

nb::dict state_object(State state) {
  nb::dict made;
  for (auto& [name, array] : state) made[name.c_str()] = nb::cast(std::move(array));
  return made;
}

State state_of(nb::handle x) {
  if (!nb::isinstance<nb::dict>(x)) {
    type_error(fmt::format("update: the state must be the dict that init or update gave, got {}", type_text(x)));
  }
  State state;
  for (const auto& [name, array] : nb::cast<nb::dict>(x)) {
    state.emplace(nb::cast<std::string>(name), to_array(array, "update", "state"));
  }
  return state;
}

nb::dict init(const GradientTransformation& self, nb::handle params) {
  const Leaves leaves = leaves_of(params, "init: params");
  const SourceLocation where = user_line();
  return state_object(unlocked([&] { return self.init_leaves(leaves, where); }));
}

nb::tuple update(const GradientTransformation& self, nb::handle gradients, nb::handle state, nb::handle params) {
  const ArrayTree tree = array_tree(gradients, "update: gradients");
  const Leaves of_params = leaves_of(params, "update: params");
  const Leaves of_gradients = {named_def(gradients, tree.tree).leaf_paths(), tree.leaves};
  const State before = state_of(state);
  const SourceLocation where = user_line();
  auto [updates, next] = unlocked([&] { return self.update_leaves(of_gradients, before, of_params, where); });
  return nb::make_tuple(tree_object(tree.tree, updates), state_object(std::move(next)));
}

// Two trees of one structure, element by element.
template <class F>
nb::object mapped(nb::handle a, nb::handle b, const char* function, F&& f) {
  const ArrayTree first = array_tree(a, function);
  const ArrayTree second = array_tree(b, function);
  if (!(first.tree == second.tree)) {
    type_error(fmt::format("{}: the trees are {} and {}, and should have one structure", function, to_string(first.def),
                           to_string(second.def)));
  }
  const SourceLocation where = user_line();
  return tree_object(first.tree, unlocked([&] {
                       return called_as(function, where, [&] {
                         std::vector<Array> made;
                         for (std::size_t i = 0; i < first.leaves.size(); ++i) {
                           made.push_back(f(first.leaves[i], second.leaves[i]));
                         }
                         return made;
                       });
                     }));
}

// ---- The module.

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "Schedule", "A rate for each number of updates made before.")
      .def(
          "__call__",
          [](const Schedule& self, nb::handle count) {
            const Operand given = operand(count, "schedule", "count");
            return unlocked([&] { return self(given); });
          },
          "count"_a, "The rate after `count` updates, an integer scalar: a float32 scalar.");
  m.def("constant_schedule", &constant_schedule, "value"_a, "The same rate for ever.");
  m.def("linear_schedule", &linear_schedule, "init_value"_a, "end_value"_a, "transition_steps"_a,
        "transition_begin"_a = 0,
        "From init_value to end_value in transition_steps updates, beginning after transition_begin ones.");
  m.def("polynomial_schedule", &polynomial_schedule, "init_value"_a, "end_value"_a, "power"_a, "transition_steps"_a,
        "transition_begin"_a = 0,
        "(init_value - end_value) (1 - count / transition_steps)^power + end_value; init_value for ever if "
        "transition_steps is not positive.");
  m.def(
      "piecewise_constant_schedule",
      [](Number init_value, nb::handle boundaries_and_scales) {
        std::map<std::int64_t, Number> scales;
        if (!boundaries_and_scales.is_none()) {
          for (const auto& [boundary, factor] :
               dict_of(boundaries_and_scales, "piecewise_constant_schedule: boundaries_and_scales")) {
            scales.emplace(integer(boundary, "piecewise_constant_schedule: a boundary"),
                           number(factor, "piecewise_constant_schedule", "a scale"));
          }
        }
        return piecewise_constant_schedule(init_value, std::move(scales), user_line());
      },
      "init_value"_a, "boundaries_and_scales"_a = nb::none(),
      "init_value, times each scale from its boundary on. Raises ValueError for negative scales.");
  m.def(
      "exponential_decay",
      [](Number init_value, std::int64_t steps, Number rate, std::int64_t begin, Flag staircase, nb::handle end) {
        return exponential_decay(init_value, steps, rate,
                                 {.transition_begin = begin,
                                  .staircase = staircase,
                                  .end_value = given_number(end, "exponential_decay", "end_value")});
      },
      "init_value"_a, "transition_steps"_a, "decay_rate"_a, "transition_begin"_a = 0, "staircase"_a = false,
      "end_value"_a = nb::none(),
      "init_value decay_rate^(count / transition_steps), counted from transition_begin and bounded by end_value; with "
      "staircase it falls every transition_steps updates.");
  m.def(
      "cosine_decay_schedule",
      [](Number init_value, std::int64_t decay_steps, Number alpha, Number exponent) {
        return cosine_decay_schedule(init_value, decay_steps, alpha, exponent, user_line());
      },
      "init_value"_a, "decay_steps"_a, "alpha"_a = 0.0, "exponent"_a = 1.0,
      "init_value (alpha + (1 - alpha) ((1 + cos(pi count / decay_steps)) / 2)^exponent). Raises ValueError if "
      "decay_steps is not positive.");
  m.def(
      "warmup_cosine_decay_schedule",
      [](Number init_value, Number peak_value, std::int64_t warmup_steps, std::int64_t decay_steps, Number end_value,
         Number exponent) {
        return warmup_cosine_decay_schedule(init_value, peak_value, warmup_steps, decay_steps, end_value, exponent,
                                            user_line());
      },
      "init_value"_a, "peak_value"_a, "warmup_steps"_a, "decay_steps"_a, "end_value"_a = 0.0, "exponent"_a = 1.0,
      "Linear from init_value to peak_value in warmup_steps, then a cosine down to end_value, which it reaches after "
      "decay_steps in all. Raises ValueError unless decay_steps is above warmup_steps.");
  m.def(
      "warmup_exponential_decay_schedule",
      [](Number init_value, Number peak_value, std::int64_t warmup_steps, std::int64_t steps, Number rate,
         std::int64_t begin, Flag staircase, nb::handle end) {
        return warmup_exponential_decay_schedule(
            init_value, peak_value, warmup_steps, steps, rate,
            {.transition_begin = begin,
             .staircase = staircase,
             .end_value = given_number(end, "warmup_exponential_decay_schedule", "end_value")});
      },
      "init_value"_a, "peak_value"_a, "warmup_steps"_a, "transition_steps"_a, "decay_rate"_a, "transition_begin"_a = 0,
      "staircase"_a = false, "end_value"_a = nb::none(),
      "Linear from init_value to peak_value in warmup_steps, then exponential_decay.");
  m.def(
      "join_schedules",
      [](nb::handle schedules, nb::handle boundaries) {
        std::vector<Schedule> list;
        for (const nb::handle one : schedules) list.push_back(schedule(one, "join_schedules", "a schedule"));
        const Dims steps = dims(boundaries, "join_schedules: boundaries");
        return join_schedules(std::move(list), {steps.begin(), steps.end()}, user_line());
      },
      "schedules"_a, "boundaries"_a,
      "The first schedule up to the first boundary, then the next, which counts from there, and so on. Raises "
      "ValueError unless there is one schedule more than there are boundaries.");
}

void bind_transformations(nb::module_& m) {
  nb::class_<GradientTransformation>(
      m, "GradientTransformation",
      "Makes of gradients, and of what it remembers of earlier ones, what is added to parameters. "
      "GradientTransformation(init, update) is one of your own, and so is the pair (init, update) wherever one is "
      "taken: "
      "init(params) gives the state, and update(updates, state, params) the next updates and state. Their trees are "
      "dicts of arrays by path, as \"['w']\"; a state is a dict by names, of arrays and of such dicts.")
      .def(
          "__init__",
          [](GradientTransformation* self, nb::handle init, nb::handle update) {
            new (self) GradientTransformation(own_transformation(init, update));
          },
          "init"_a.none(), "update"_a.none())
      .def("init", &init, "params"_a.none(),
           "The state before the first update of a tree of parameters: a dict of arrays by names as \"0.mu['w']\", "
           "which lie where their parameters do.")
      .def("update", &update, "gradients"_a.none(), "state"_a.none(), "params"_a.none(),
           "(updates, state): what is to be added to the parameters, a tree like that of the gradients, and the next "
           "state. Raises TypeError for trees or shapes that differ, and ValueError for a state of other parameters.");
  m.def(
      "apply_updates",
      [](nb::handle params, nb::handle updates) {
        return mapped(params, updates, "apply_updates",
                      [](const Array& p, const Array& u) { return (p + u).astype(p.dtype()); });
      },
      "params"_a.none(), "updates"_a.none(), "The parameters plus the updates, in the dtypes of the parameters.");
  m.def(
      "incremental_update",
      [](nb::handle next, nb::handle old, Number step_size) {
        return mapped(next, old, "incremental_update",
                      [=](const Array& a, const Array& b) { return step_size * a + (1.0 - step_size) * b; });
      },
      "new_tensors"_a.none(), "old_tensors"_a.none(), "step_size"_a,
      "step_size times the new tree plus 1 - step_size times the old one: a moving average of parameters.");
  m.def(
      "global_norm",
      [](nb::handle tree) {
        const ArrayTree arrays = array_tree(tree, "global_norm");
        const SourceLocation where = user_line();
        return unlocked([&] { return norm_of_leaves(arrays.leaves, where); });
      },
      "tree"_a.none(), "The root of the sum of the squares of all elements of a tree.");
  m.def(
      "chain", [](nb::args list) { return chain(transformations(list, "chain")); },
      "One transformation after the other.");
  m.def(
      "masked",
      [](nb::handle inner, nb::handle which) { return masked(transformation(inner, "masked"), mask(which, "masked")); },
      "inner"_a, "mask"_a,
      "The transformation of the parameters of which mask(path, array) is true; other gradients stay as they are.");
  m.def(
      "partition",
      [](nb::handle list, nb::handle label_of) {
        std::map<std::string, GradientTransformation> named;
        for (const auto& [label, one] : dict_of(list, "partition: transforms")) {
          named.emplace(name_of_key(label, "partition: transforms"), transformation(one, "partition"));
        }
        if (PyCallable_Check(label_of.ptr()) == 0) {
          type_error(fmt::format("partition: label_of must be a function of a path and an array, got {}",
                                 type_text(label_of)));
        }
        return partition(std::move(named), [f = Held(label_of)](const std::string& path, const Array& parameter) {
          nb::gil_scoped_acquire gil;
          return nb::cast<std::string>(nb::object(f.get()(path, parameter)));
        });
      },
      "transforms"_a, "label_of"_a,
      "Each parameter's by the transformation in the dict `transforms` under label_of(path, array).");
  m.def("identity", &optimizers::identity, "Gradients as they are.");
  m.def("set_to_zero", &set_to_zero, "Zeros: of parameters that stay as they are.");
  m.def("scale", &scale, "step_size"_a, "Gradients times a number.");
  m.def(
      "scale_by_learning_rate",
      [](nb::handle rate, Flag flip_sign) {
        return scale_by_learning_rate(schedule(rate, "scale_by_learning_rate", "learning_rate"), flip_sign);
      },
      "learning_rate"_a, "flip_sign"_a = true, "Times the rate, and times -1 unless flip_sign is false.");
  m.def(
      "scale_by_schedule",
      [](nb::handle step_size) { return scale_by_schedule(schedule(step_size, "scale_by_schedule", "step_size_fn")); },
      "step_size_fn"_a, "Times what a function of the count of updates gives.");
  m.def(
      "trace",
      [](Number decay, Flag nesterov, nb::handle dtype) {
        return trace(decay, {.nesterov = nesterov, .accumulator_dtype = maybe_dtype(dtype)});
      },
      "decay"_a, "nesterov"_a = false, "accumulator_dtype"_a = nb::none(),
      "The gradient plus decay times the sum so far: momentum.");
  m.def(
      "ema",
      [](Number decay, Flag debias, nb::handle dtype) {
        return ema(decay, {.debias = debias, .accumulator_dtype = maybe_dtype(dtype)});
      },
      "decay"_a, "debias"_a = true, "accumulator_dtype"_a = nb::none(), "The moving average of the gradients.");
  m.def(
      "add_decayed_weights",
      [](nb::handle decay, nb::handle which) {
        return add_decayed_weights(schedule(decay, "add_decayed_weights", "weight_decay"),
                                   mask(which, "add_decayed_weights"));
      },
      "weight_decay"_a = 0.0, "mask"_a = nb::none(),
      "The gradient plus the decay times the parameter, where mask(path, array) is true.");
  m.def(
      "scale_by_adam",
      [](Number b1, Number b2, Number eps, Number eps_root, nb::handle dtype, Flag nesterov) {
        return scale_by_adam({.b1 = b1,
                              .b2 = b2,
                              .eps = eps,
                              .eps_root = eps_root,
                              .mu_dtype = maybe_dtype(dtype),
                              .nesterov = nesterov});
      },
      "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "eps_root"_a = 0.0, "mu_dtype"_a = nb::none(), nb::kw_only(),
      "nesterov"_a = false, "Adam without a rate: Kingma and Ba 2015.");
  m.def(
      "scale_by_lion",
      [](Number b1, Number b2, nb::handle dtype) {
        return scale_by_lion({.b1 = b1, .b2 = b2, .mu_dtype = maybe_dtype(dtype)});
      },
      "b1"_a = 0.9, "b2"_a = 0.99, "mu_dtype"_a = nb::none(), "The sign of a moving average: Chen et al. 2023.");
  m.def(
      "scale_by_rms",
      [](Number decay, Number eps, Number initial_scale, Flag eps_in_sqrt, Flag bias_correction) {
        return scale_by_rms({.decay = decay,
                             .eps = eps,
                             .initial_scale = initial_scale,
                             .eps_in_sqrt = eps_in_sqrt,
                             .bias_correction = bias_correction});
      },
      "decay"_a = 0.9, "eps"_a = 1e-8, "initial_scale"_a = 0.0, "eps_in_sqrt"_a = true, "bias_correction"_a = false,
      "Divided by the root of the moving average of squares: Tieleman and Hinton 2012.");
  m.def("scale_by_rss", &scale_by_rss, "initial_accumulator_value"_a = 0.1, "eps"_a = 1e-7,
        "Divided by the root of the sum of all squares so far: Duchi, Hazan and Singer 2011.");
  m.def(
      "scale_by_factored_rms",
      [](Flag factored, Number decay_rate, std::int64_t offset, std::int64_t least, Number epsilon) {
        return scale_by_factored_rms({.factored = factored,
                                      .decay_rate = decay_rate,
                                      .step_offset = offset,
                                      .min_dim_size_to_factor = least,
                                      .epsilon = epsilon});
      },
      "factored"_a = true, "decay_rate"_a = 0.8, "step_offset"_a = 0, "min_dim_size_to_factor"_a = 128,
      "epsilon"_a = 1e-30, "Adafactor's: squares of matrices by their rows and columns. Shazeer and Stern 2018.");
  m.def("scale_by_param_block_rms", &scale_by_param_block_rms, "min_scale"_a = 1e-3,
        "Times the root mean square of the parameter, at least min_scale.");
  m.def(
      "scale_by_trust_ratio",
      [](Number min_norm, Number trust_coefficient, Number eps) {
        return scale_by_trust_ratio({.min_norm = min_norm, .trust_coefficient = trust_coefficient, .eps = eps});
      },
      "min_norm"_a = 0.0, "trust_coefficient"_a = 1.0, "eps"_a = 0.0,
      "Times the norm of the parameter over that of the update: You et al. 2020.");
  m.def(
      "scale_by_muon",
      [](nb::handle coefficients, std::int64_t steps, Number beta, Number eps, nb::handle dtype, Flag nesterov,
         Flag adaptive) {
        MuonScaleOptions options{.ns_steps = steps,
                                 .beta = beta,
                                 .eps = eps,
                                 .mu_dtype = maybe_dtype(dtype),
                                 .nesterov = nesterov,
                                 .adaptive = adaptive};
        set_coefficients(options, coefficients, "scale_by_muon");
        return scale_by_muon(options, user_line());
      },
      "ns_coeffs"_a = nb::none(), "ns_steps"_a = 5, "beta"_a = 0.95, "eps"_a = 1e-8, "mu_dtype"_a = nb::none(),
      nb::kw_only(), "nesterov"_a = true, "adaptive"_a = false,
      "The nearest matrix with orthonormal rows or columns: Jordan et al. 2024. Of matrices alone.");
  m.def("clip", &optimizers::clip, "max_delta"_a, "Each element between -max_delta and max_delta.");
  m.def("clip_by_global_norm", &clip_by_global_norm, "max_norm"_a,
        "All gradients scaled down where their global_norm is above max_norm.");
  m.def("clip_by_block_rms", &clip_by_block_rms, "threshold"_a,
        "Each array scaled down where its root mean square is above the threshold.");
  m.def("adaptive_grad_clip", &adaptive_grad_clip, "clipping"_a, "eps"_a = 1e-3,
        "Each unit's gradient scaled down where its norm is above `clipping` times that of its weights.");
  m.def("zero_nans", &zero_nans, "0 where an element is NaN; the state says of which parameters some were.");
  m.def(
      "apply_if_finite",
      [](nb::handle inner, std::int64_t most) {
        return apply_if_finite(transformation(inner, "apply_if_finite"), most);
      },
      "inner"_a, "max_consecutive_errors"_a,
      "No update where an element is infinite or NaN, unless that was so more than max_consecutive_errors times in a "
      "row. The state counts them.");
  m.def(
      "multi_steps",
      [](nb::handle inner, std::int64_t k, Flag use_grad_mean, nb::handle dtype) {
        return multi_steps(transformation(inner, "multi_steps"), k,
                           {.use_grad_mean = use_grad_mean, .accumulator_dtype = maybe_dtype(dtype).value_or(float32)},
                           user_line());
      },
      "inner"_a, "every_k_schedule"_a, "use_grad_mean"_a = true, "accumulator_dtype"_a = nb::none(),
      "The transformation of the gradients of every k steps together, accumulated in float32 by default; zeros for the "
      "others.");
}

void bind_named(nb::module_& m) {
  m.def(
      "sgd",
      [](nb::handle rate, nb::handle momentum, Flag nesterov, nb::handle dtype) {
        return sgd(schedule(rate, "sgd", "learning_rate"), {.momentum = given_number(momentum, "sgd", "momentum"),
                                                            .nesterov = nesterov,
                                                            .accumulator_dtype = maybe_dtype(dtype)});
      },
      "learning_rate"_a, "momentum"_a = nb::none(), "nesterov"_a = false, "accumulator_dtype"_a = nb::none(),
      "Down the gradient, with momentum if that is given.");
  m.def(
      "adam",
      [](nb::handle rate, Number b1, Number b2, Number eps, Number eps_root, nb::handle dtype, Flag nesterov) {
        return adam(schedule(rate, "adam", "learning_rate"), {.b1 = b1,
                                                              .b2 = b2,
                                                              .eps = eps,
                                                              .eps_root = eps_root,
                                                              .mu_dtype = maybe_dtype(dtype),
                                                              .nesterov = nesterov});
      },
      "learning_rate"_a, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "eps_root"_a = 0.0, "mu_dtype"_a = nb::none(),
      nb::kw_only(), "nesterov"_a = false, "Kingma and Ba 2015.");
  m.def(
      "adamw",
      [](nb::handle rate, Number b1, Number b2, Number eps, Number eps_root, nb::handle dtype, nb::handle decay,
         nb::handle which, Flag nesterov) {
        return adamw(schedule(rate, "adamw", "learning_rate"),
                     {.b1 = b1,
                      .b2 = b2,
                      .eps = eps,
                      .eps_root = eps_root,
                      .mu_dtype = maybe_dtype(dtype),
                      .weight_decay = schedule(decay, "adamw", "weight_decay"),
                      .mask = mask(which, "adamw"),
                      .nesterov = nesterov});
      },
      "learning_rate"_a, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "eps_root"_a = 0.0, "mu_dtype"_a = nb::none(),
      "weight_decay"_a = 1e-4, "mask"_a = nb::none(), nb::kw_only(), "nesterov"_a = false,
      "Adam, and weights that decay where mask(path, array) is true: Loshchilov and Hutter 2019.");
  m.def(
      "lion",
      [](nb::handle rate, Number b1, Number b2, nb::handle dtype, nb::handle decay, nb::handle which) {
        return lion(schedule(rate, "lion", "learning_rate"), {.b1 = b1,
                                                              .b2 = b2,
                                                              .mu_dtype = maybe_dtype(dtype),
                                                              .weight_decay = schedule(decay, "lion", "weight_decay"),
                                                              .mask = mask(which, "lion")});
      },
      "learning_rate"_a, "b1"_a = 0.9, "b2"_a = 0.99, "mu_dtype"_a = nb::none(), "weight_decay"_a = 1e-3,
      "mask"_a = nb::none(), "Chen et al. 2023: the sign of a moving average.");
  m.def(
      "lamb",
      [](nb::handle rate, Number b1, Number b2, Number eps, Number eps_root, nb::handle decay, nb::handle which) {
        return lamb(schedule(rate, "lamb", "learning_rate"), {.b1 = b1,
                                                              .b2 = b2,
                                                              .eps = eps,
                                                              .eps_root = eps_root,
                                                              .weight_decay = schedule(decay, "lamb", "weight_decay"),
                                                              .mask = mask(which, "lamb")});
      },
      "learning_rate"_a, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-6, "eps_root"_a = 0.0, "weight_decay"_a = 0.0,
      "mask"_a = nb::none(), "Adam, each array scaled by its parameter's norm: You et al. 2020.");
  m.def(
      "adagrad",
      [](nb::handle rate, Number initial, Number eps) {
        return adagrad(schedule(rate, "adagrad", "learning_rate"), initial, eps);
      },
      "learning_rate"_a, "initial_accumulator_value"_a = 0.1, "eps"_a = 1e-7, "Duchi, Hazan and Singer 2011.");
  m.def(
      "rmsprop",
      [](nb::handle rate, Number decay, Number eps, Number initial_scale, Flag eps_in_sqrt, nb::handle momentum,
         Flag nesterov, Flag bias_correction) {
        return rmsprop(schedule(rate, "rmsprop", "learning_rate"),
                       {.decay = decay,
                        .eps = eps,
                        .initial_scale = initial_scale,
                        .eps_in_sqrt = eps_in_sqrt,
                        .momentum = given_number(momentum, "rmsprop", "momentum"),
                        .nesterov = nesterov,
                        .bias_correction = bias_correction});
      },
      "learning_rate"_a, "decay"_a = 0.9, "eps"_a = 1e-8, "initial_scale"_a = 0.0, "eps_in_sqrt"_a = true,
      "momentum"_a = nb::none(), "nesterov"_a = false, "bias_correction"_a = false, "Tieleman and Hinton 2012.");
  m.def(
      "adafactor",
      [](nb::handle rate, std::int64_t least, Number decay_rate, std::int64_t offset, Flag by_parameter,
         nb::handle threshold, nb::handle momentum, nb::handle dtype, nb::handle decay, Number eps, Flag factored,
         nb::handle which) {
        AdafactorOptions options{.min_dim_size_to_factor = least,
                                 .decay_rate = decay_rate,
                                 .decay_offset = offset,
                                 .multiply_by_parameter_scale = by_parameter,
                                 .clipping_threshold = given_number(threshold, "adafactor", "clipping_threshold"),
                                 .momentum = given_number(momentum, "adafactor", "momentum"),
                                 .dtype_momentum = maybe_dtype(dtype).value_or(float32),
                                 .eps = eps,
                                 .factored = factored,
                                 .weight_decay_mask = mask(which, "adafactor")};
        if (!decay.is_none()) options.weight_decay_rate = schedule(decay, "adafactor", "weight_decay_rate");
        std::optional<Schedule> learning_rate;
        if (!rate.is_none()) learning_rate = schedule(rate, "adafactor", "learning_rate");
        return adafactor(learning_rate, options);
      },
      "learning_rate"_a = nb::none(), "min_dim_size_to_factor"_a = 128, "decay_rate"_a = 0.8, "decay_offset"_a = 0,
      "multiply_by_parameter_scale"_a = true, "clipping_threshold"_a.none() = 1.0, "momentum"_a = nb::none(),
      "dtype_momentum"_a = nb::none(), "weight_decay_rate"_a = nb::none(), "eps"_a = 1e-30, "factored"_a = true,
      "weight_decay_mask"_a = nb::none(), "Shazeer and Stern 2018: squares of matrices by their rows and columns.");
  m.def(
      "muon",
      [](nb::handle rate, nb::handle coefficients, std::int64_t steps, Number beta, Number eps, nb::handle decay,
         nb::handle which, nb::handle dtype, Flag nesterov, Flag adaptive, Number adam_b1, Number adam_b2,
         Number adam_eps_root, nb::handle adam_decay, nb::handle adam_rate, nb::handle rms) {
        MuonOptions options{.muon = {.ns_steps = steps,
                                     .beta = beta,
                                     .eps = eps,
                                     .mu_dtype = maybe_dtype(dtype),
                                     .nesterov = nesterov,
                                     .adaptive = adaptive},
                            .weight_decay = schedule(decay, "muon", "weight_decay"),
                            .weight_decay_mask = mask(which, "muon"),
                            .adam_b1 = adam_b1,
                            .adam_b2 = adam_b2,
                            .adam_eps_root = adam_eps_root,
                            .adam_weight_decay = schedule(adam_decay, "muon", "adam_weight_decay"),
                            .consistent_rms = given_number(rms, "muon", "consistent_rms")};
        set_coefficients(options.muon, coefficients, "muon");
        if (!adam_rate.is_none()) options.adam_learning_rate = schedule(adam_rate, "muon", "adam_learning_rate");
        return muon(schedule(rate, "muon", "learning_rate"), options, user_line());
      },
      "learning_rate"_a, "ns_coeffs"_a = nb::none(), "ns_steps"_a = 5, "beta"_a = 0.95, "eps"_a = 1e-8,
      "weight_decay"_a = 0.0, "weight_decay_mask"_a = nb::none(), "mu_dtype"_a = nb::none(), nb::kw_only(),
      "nesterov"_a = true, "adaptive"_a = false, "adam_b1"_a = 0.9, "adam_b2"_a = 0.999, "adam_eps_root"_a = 0.0,
      "adam_weight_decay"_a = 0.0, "adam_learning_rate"_a = nb::none(), "consistent_rms"_a = nb::none(),
      "Jordan et al. 2024: orthogonal updates of matrices; adamw of the other parameters.");
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  bind_schedules(m);
  bind_transformations(m);
  bind_named(m);
}

}  // namespace shoal::python
