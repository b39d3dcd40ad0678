// shoal.linalg: solvers of matrices that devices share.
#include "shoal/solvers.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/kept_error.h"
#include "bindings/lax/lax.h"
#include "shoal/progress.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

// A matrix of floats or complex numbers.
Operand matrix_of(nb::handle x, std::string_view function, std::string_view argument) {
  Operand given = operand(x, function, argument);
  check_kind(function, given, kFractions);
  if (shape_of(given).size() < 2) {
    type_error(fmt::format("{}: {} must have at least 2 dimensions, got {}", function, argument, type_text(x)));
  }
  return given;
}

linalg::SolverOptions solver_options(const std::string& name, nb::handle tile, nb::handle given_mesh,
                                     nb::handle in_specs, bool return_status, bool return_logdet) {
  linalg::SolverOptions options{.return_status = return_status, .return_logdet = return_logdet};
  if (!tile.is_none()) options.T_A = integer(tile, name + ": T_A");
  if (!given_mesh.is_none()) options.mesh = shoal::python::mesh(given_mesh, name + ": mesh");
  if (in_specs.is_none()) return options;
  if (nb::isinstance<PartitionSpec>(in_specs)) {
    options.in_specs = {nb::cast<PartitionSpec>(in_specs)};
    return options;
  }
  for (nb::handle spec : in_specs) options.in_specs.push_back(partition_spec(spec, name + ": in_specs"));
  return options;
}

nb::object python_result(const linalg::PotrsResult& result, const linalg::SolverOptions& options) {
  nb::list results;
  results.append(result.x);
  if (options.return_status) results.append(result.status);
  if (options.return_logdet) results.append(result.logdet);
  return nb::len(results) == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
}

// What is there, one after the other; the only one alone.
nb::object results_of(std::initializer_list<std::optional<Array>> all) {
  nb::list results;
  for (const std::optional<Array>& one : all) {
    if (one) results.append(*one);
  }
  return nb::len(results) == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
}
std::optional<Array> if_wanted(bool wanted, const Array& x) { return wanted ? std::optional(x) : std::nullopt; }

linalg::BlockCyclic layout_of(nb::handle shape, nb::handle tile, nb::handle mesh, nb::handle spec) {
  const auto both = [](nb::handle given, const char* what) {
    const Dims two = dims(given, what);
    if (two.size() != 2) type_error(fmt::format("{} must be two integers, got {}", what, type_text(given)));
    return two;
  };
  const Dims extents = both(shape, "BlockCyclic: shape");
  const Dims tiles = both(tile, "BlockCyclic: tile");
  return {extents[0],
          extents[1],
          tiles[0],
          tiles[1],
          shoal::python::mesh(mesh, "BlockCyclic: mesh"),
          partition_spec(spec, "BlockCyclic: spec"),
          user_line()};
}

void bind_programs(nb::module_& m) {
  m.def(
      "geqrf",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs) {
        const linalg::SolverOptions options = solver_options("geqrf", tile, mesh, in_specs, false, false);
        const Operand given = matrix_of(a, "geqrf", "a");
        const linalg::QRResult result = unlocked([&] { return linalg::geqrf(given, options); });
        return nb::make_tuple(result.Q, result.R);
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "(q, r): q [m, n] with orthonormal columns, split as `a` is, and the upper triangle r [n, n] with a = q r, for "
      "`a` "
      "[m, n] with m >= n. T_A counts columns; else as potrf.");
  m.def(
      "gels",
      [](nb::handle a, nb::handle b, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag return_status) {
        const linalg::SolverOptions options = solver_options("gels", tile, mesh, in_specs, return_status, false);
        const Operand left = matrix_of(a, "gels", "a");
        const Operand right = operand(b, "gels", "b");
        return python_result(unlocked([&] { return linalg::gels(left, right, options); }), options);
      },
      "a"_a.none(), "b"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "return_status"_a = false,
      "The x that makes a x nearest to b, for `a` [m, n] whose n columns are independent, and right sides b [m] or "
      "[m, sides], by geqrf. With return_status, (x, status): 0, or the first column that depends on those before it, "
      "counted from 1, and x is NaN then. Raises ValueError otherwise, if that is known.");
  m.def(
      "trtri",
      [](nb::handle a, Flag lower, nb::handle tile, nb::handle mesh, nb::handle in_specs) {
        const linalg::SolverOptions options = solver_options("trtri", tile, mesh, in_specs, false, false);
        const Operand given = matrix_of(a, "trtri", "a");
        return unlocked([&] { return linalg::trtri(given, lower, options); });
      },
      "a"_a.none(), "lower"_a = true, "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "The inverse of a triangular matrix [n, n], of which the other triangle is not looked at. Else as potrf.");
  m.def(
      "sygvd",
      [](nb::handle a, nb::handle b, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag return_eigenvectors,
         Flag return_status) {
        linalg::SolverOptions options = solver_options("sygvd", tile, mesh, in_specs, return_status, false);
        options.return_eigenvectors = return_eigenvectors;
        const Operand left = matrix_of(a, "sygvd", "a");
        const Operand right = matrix_of(b, "sygvd", "b");
        const linalg::SyevdResult result = unlocked([&] { return linalg::sygvd(left, right, options); });
        return results_of(
            {result.w, if_wanted(return_eigenvectors, result.v), if_wanted(return_status, result.status)});
      },
      "a"_a.none(), "b"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "return_eigenvectors"_a = true, "return_status"_a = false,
      "(w, v) with a v = b v w and v^H b v the identity, for Hermitian `a` and Hermitian positive definite b, of both "
      "of "
      "which the lower triangle counts. The status is 0, 1 as of syevd, or n + 1 where b is not positive definite. "
      "Else "
      "as syevd.");
  m.def(
      "gesvd",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag compute_uv, Flag return_status) {
        linalg::SolverOptions options = solver_options("gesvd", tile, mesh, in_specs, return_status, false);
        options.return_eigenvectors = compute_uv;
        const Operand given = matrix_of(a, "gesvd", "a");
        const linalg::GesvdResult result = unlocked([&] { return linalg::gesvd(given, options); });
        return results_of({if_wanted(compute_uv, result.u), result.s, if_wanted(compute_uv, result.vh),
                           if_wanted(return_status, result.status)});
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(), "compute_uv"_a = true,
      "return_status"_a = false,
      "(u, s, vh) with a = u s vh, for `a` [m, n] and k = min(m, n): u [m, k], s [k] descending, vh [k, n]; s alone "
      "without compute_uv. By polar factors and syevd, and else as that.");
  m.def(
      "gesv",
      [](nb::handle a, nb::handle b, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag refine,
         Flag return_status, Flag return_rcond) {
        const linalg::SolverOptions all = solver_options("gesv", tile, mesh, in_specs, return_status, false);
        const linalg::GesvOptions options{.T_A = all.T_A,
                                          .mesh = all.mesh,
                                          .in_specs = all.in_specs,
                                          .refine = refine,
                                          .return_status = return_status};
        const Operand left = matrix_of(a, "gesv", "a");
        const Operand right = operand(b, "gesv", "b");
        const linalg::GesvResult result = unlocked([&] { return linalg::gesv(left, right, options); });
        return results_of({result.x, if_wanted(return_status, result.status), if_wanted(return_rcond, result.rcond)});
      },
      "a"_a.none(), "b"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "refine"_a = false, "return_status"_a = false, "return_rcond"_a = false,
      "The x with a x = b, for `a` [n, n] and right sides b [n] or [n, sides] of its dtype. With refine, for float64 "
      "and "
      "complex128, by factors of half as many bits, and residuals of all, until x is as good as by factors of all, "
      "which "
      "are computed where that does not come about. With return_status, also 0, or i where u(i, i) of the factors is "
      "0, "
      "or n + 1 where the condition number is beyond what numbers of the dtype tell; with return_rcond, also 1 through "
      "the estimate of that. Raises ValueError for such matrices otherwise, if that is known.");
  m.def(
      "cond_estimate",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs) {
        const linalg::SolverOptions options = solver_options("cond_estimate", tile, mesh, in_specs, false, false);
        const Operand given = matrix_of(a, "cond_estimate", "a");
        return unlocked([&] { return linalg::cond_estimate(given, options); });
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "An estimate of the condition number norm(a, 1) norm(inv(a), 1) of `a` [n, n]: hardly ever below a third of it.");
}

void bind_block_cyclic(nb::module_& m) {
  using linalg::BlockCyclic;
  nb::class_<BlockCyclic>(m, "BlockCyclic",
                          "How ScaLAPACK deals a matrix out to a grid of devices: tiles of rows and columns go to them "
                          "in turn, and each holds its tiles as one local matrix. The first entry of `spec` names the "
                          "axes of the mesh that are the rows of the grid, the second the columns.")
      .def(
          "__init__",
          [](BlockCyclic* self, nb::handle shape, nb::handle tile, nb::handle mesh, nb::handle spec) {
            new (self) BlockCyclic(layout_of(shape, tile, mesh, spec));
          },
          "shape"_a, "tile"_a, "mesh"_a, "spec"_a)
      .def_static(
          "from_descriptor",
          [](nb::handle descriptor, nb::handle mesh, nb::handle spec) {
            const Dims numbers = dims(descriptor, "BlockCyclic.from_descriptor: descriptor");
            return BlockCyclic::from_descriptor(numbers, shoal::python::mesh(mesh, "BlockCyclic.from_descriptor: mesh"),
                                                partition_spec(spec, "BlockCyclic.from_descriptor: spec"), user_line());
          },
          "descriptor"_a, "mesh"_a, "spec"_a, "Of the nine numbers of ScaLAPACK's descriptor of a dense matrix.")
      .def(
          "descriptor",
          [](const BlockCyclic& self, std::int64_t context) {
            const auto numbers = self.descriptor(context);
            return std::vector<std::int64_t>(numbers.begin(), numbers.end());
          },
          "context"_a = 0, "The nine numbers of ScaLAPACK's descriptor.")
      .def_prop_ro("shape", [](const BlockCyclic& self) { return nb::make_tuple(self.rows(), self.columns()); })
      .def_prop_ro("padded_shape",
                   [](const BlockCyclic& self) { return nb::make_tuple(self.padded_rows(), self.padded_columns()); })
      .def_prop_ro("sharding", [](const BlockCyclic& self) { return self.sharding(); })
      .def(
          "owner",
          [](const BlockCyclic& self, std::int64_t row, std::int64_t column) {
            return self.owner(row, column, user_line());
          },
          "row"_a, "column"_a, "The row and column of the grid of devices where an element lies.")
      .def("picture", &BlockCyclic::picture, "Which device holds which tile, a line for each row of tiles.");
  m.def(
      "to_block_cyclic",
      [](nb::handle a, const BlockCyclic& layout) {
        const Operand given = operand(a, "to_block_cyclic", "a");
        return unlocked([&] { return linalg::to_block_cyclic(given, layout); });
      },
      "a"_a.none(), "layout"_a,
      "The local matrices of all devices, one beside the other; each device has its own as its shard. Rows lie one "
      "after "
      "the other, where ScaLAPACK's columns do: give it the transpose.");
  m.def(
      "from_block_cyclic",
      [](nb::handle x, const BlockCyclic& layout) {
        const Operand given = operand(x, "from_block_cyclic", "x");
        return unlocked([&] { return linalg::from_block_cyclic(given, layout); });
      },
      "x"_a.none(), "layout"_a, "The matrix of what to_block_cyclic gives.");
  m.def(
      "verify_cyclic",
      [](nb::handle x, nb::handle a, const BlockCyclic& layout) {
        const Operand given = operand(x, "verify_cyclic", "x");
        const Operand matrix = operand(a, "verify_cyclic", "a");
        return unlocked([&] { return linalg::verify_cyclic(given, matrix, layout); });
      },
      "x"_a.none(), "a"_a.none(), "layout"_a, "Whether x holds `a` in this layout.");
}

void bind_progress(nb::module_& m) {
  nb::class_<linalg::SolverProgress>(m, "SolverProgress",
                                     "How far a solver has come, as a callback of on_progress gets it.")
      .def_ro("solver", &linalg::SolverProgress::solver, "Its name: \"potrf\".")
      .def_ro("done", &linalg::SolverProgress::done, "The share of this process' work, from 0 to 1.")
      .def_ro("seconds", &linalg::SolverProgress::seconds, "Since it began.");
  m.def(
      "on_progress",
      [](nb::handle callback) {
        if (callback.is_none()) {
          unlocked([] { linalg::on_progress({}); });
          return;
        }
        if (PyCallable_Check(callback.ptr()) == 0) {
          type_error("on_progress: the callback must be callable or None, got " + type_text(callback));
        }
        const linalg::ProgressCallback call = [held = Held(callback)](const linalg::SolverProgress& progress) {
          call_back([&] { held.get()(progress); });
        };
        unlocked([&] { linalg::on_progress(call); });
      },
      "callback"_a.none(),
      "From now on `callback` is told of every solver that this process runs, some ten times in a second, and once "
      "when "
      "it is done; None ends that. It is called by a thread that computes, and must not launch programs; what it "
      "raises "
      "becomes the error of the computation. `progress_bar` is one.");
  m.def(
      "progress_bar",
      [](const linalg::SolverProgress& progress) {
        static const linalg::ProgressCallback bar = linalg::progress_bar();
        bar(progress);
      },
      "progress"_a, "A callback of on_progress that draws a bar on one line of the terminal (standard error).");
}

}  // namespace

void bind_solvers(nb::module_& root) {
  nb::module_ m = submodule(root, "solvers", "shoal.linalg");
  m.def(
      "potrf",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs) {
        const linalg::SolverOptions options = solver_options("potrf", tile, mesh, in_specs, false, false);
        const Operand given = matrix_of(a, "potrf", "a");
        return unlocked([&] { return linalg::potrf(given, options); });
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "The lower triangular l [n, n] with l l^H = a, for a Hermitian positive definite a [n, n] of which the lower "
      "triangle counts; split as `a` is. The devices that hold `a` work on tiles of T_A rows together, and none gets "
      "all "
      "of it. With a mesh, `a` is first brought to where `in_specs` says. Raises ValueError if `a` is known and not "
      "positive definite; inside of jit, l is NaN then.");
  m.def(
      "potrs",
      [](nb::handle a, nb::handle b, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag return_status, Flag,
         Flag return_logdet) {
        const linalg::SolverOptions options =
            solver_options("potrs", tile, mesh, in_specs, return_status, return_logdet);
        const Operand left = matrix_of(a, "potrs", "a");
        const Operand right = operand(b, "potrs", "b");
        return python_result(unlocked([&] { return linalg::potrs(left, right, options); }), options);
      },
      "a"_a.none(), "b"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "return_status"_a = false, "pad"_a = true, "return_logdet"_a = false,
      "The x with a x = b, by potrf, for right sides b [n] or [n, sides]. `in_specs` are those of `a` and `b`, and the "
      "second that of x. With return_status, (x, status): 0, or how many rows the smallest leading block has that is "
      "not positive "
      "definite, and x is NaN then; with return_logdet the logarithm of the determinant of `a` comes last. Any extent "
      "does, whether `pad` or not.");
  m.def(
      "potri",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag return_status, Flag,
         Flag return_logdet) {
        const linalg::SolverOptions options =
            solver_options("potri", tile, mesh, in_specs, return_status, return_logdet);
        const Operand given = matrix_of(a, "potri", "a");
        return python_result(unlocked([&] { return linalg::potri(given, options); }), options);
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(), "return_status"_a = false,
      "pad"_a = true, "return_logdet"_a = false,
      "The inverse of a Hermitian positive definite matrix, both of its triangles; by potrf, and else as potrs.");
  m.def(
      "syevd",
      [](nb::handle a, nb::handle tile, nb::handle mesh, nb::handle in_specs, Flag return_eigenvectors,
         Flag return_status, Flag) -> nb::object {
        linalg::SolverOptions options = solver_options("syevd", tile, mesh, in_specs, return_status, false);
        options.return_eigenvectors = return_eigenvectors;
        const Operand given = matrix_of(a, "syevd", "a");
        const linalg::SyevdResult result = unlocked([&] { return linalg::syevd(given, options); });
        nb::list results;
        results.append(result.w);
        if (options.return_eigenvectors) results.append(result.v);
        if (options.return_status) results.append(result.status);
        return nb::len(results) == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
      },
      "a"_a.none(), "T_A"_a = nb::none(), "mesh"_a = nb::none(), "in_specs"_a = nb::none(),
      "return_eigenvectors"_a = true, "return_status"_a = false, "pad"_a = true,
      "(w, v): the eigenvalues [n], ascending, of a Hermitian a [n, n] of which the lower triangle counts, and its "
      "eigenvectors, as columns, split as `a` is; w alone without return_eigenvectors. With return_status, an i32 "
      "comes "
      "last: 0, or 1 where `a` is not finite, or an iteration did not end, and w and v are NaN then. Raises ValueError "
      "otherwise, if that is known; inside of jit they are NaN. Else as potrf.");
  bind_programs(m);
  bind_block_cyclic(m);
  bind_progress(m);
}

}  // namespace shoal::python
