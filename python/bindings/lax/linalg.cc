// shoal.lax.linalg.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "bindings/lax/lax.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

// Of floats or complex numbers: lax.linalg promotes no integers.
Operand fractions(nb::handle x, std::string_view function, std::string_view argument, std::size_t least_rank) {
  Operand given = operand(x, function, argument);
  check_kind(function, given, kFractions);
  if (shape_of(given).size() < least_rank) {
    type_error(fmt::format("{}: {} must have at least {} dimension{}, got {}", function, argument, least_rank,
                           least_rank == 1 ? "" : "s", type_text(x)));
  }
  return given;
}
// A matrix or several; a vector or several.
Operand matrix(nb::handle x, std::string_view function, std::string_view argument) {
  return fractions(x, function, argument, 2);
}
Operand vector(nb::handle x, std::string_view function, std::string_view argument) {
  return fractions(x, function, argument, 1);
}

// alpha a a^T + beta c.
Array symmetric_product(const Operand& a, const Operand& c, double alpha, double beta, bool symmetrize) {
  const SourceLocation where = a.where();
  const auto on = [&](const Array& x) { return Operand(x, where); };
  const Array product = matmul(a, on(linalg::matrix_transpose(a)));
  Array result = add(on(multiply({alpha, where}, on(product))), on(multiply({beta, where}, c)));
  if (!symmetrize) return result;
  const Array upper = linalg::matrix_transpose(on(tril(on(result), -1)));
  return add(on(tril(on(result))), on(upper));
}

}  // namespace

void bind_lax_linalg(nb::module_& lax_module) {
  nb::module_ m = submodule(lax_module, "lax.linalg", "shoal.lax.linalg");
  m.def(
      "cholesky",
      [](nb::handle x, Flag symmetrize_input) {
        const Operand given = fractions(x, "cholesky", "x", 0);
        return unlocked([&] { return lax::linalg::cholesky(given, symmetrize_input); });
      },
      "x"_a.none(), nb::kw_only(), "symmetrize_input"_a = true,
      "The lower triangular factor of positive definite Hermitian matrices; NaN of others.");
  m.def(
      "eigh",
      [](nb::handle x, Flag lower, Flag symmetrize_input, Flag sort_eigenvalues, nb::handle subset_by_index,
         nb::handle) {
        static_cast<void>(sort_eigenvalues);
        if (!subset_by_index.is_none()) not_implemented("eigh: subset_by_index is not offered");
        const Operand given = fractions(x, "eigh", "x", 0);
        auto [vectors, values] =
            unlocked([&] { return lax::linalg::eigh(given, {.lower = lower, .symmetrize_input = symmetrize_input}); });
        return nb::make_tuple(vectors, values);
      },
      "x"_a.none(), nb::kw_only(), "lower"_a = true, "symmetrize_input"_a = true, "sort_eigenvalues"_a = true,
      "subset_by_index"_a = nb::none(), "implementation"_a = nb::none(),
      "The eigenvectors of Hermitian matrices, as columns, and their eigenvalues, ascending.");
  m.def(
      "eig",
      [](nb::handle x, Flag compute_left_eigenvectors, Flag compute_right_eigenvectors, Flag enable_eigvec_derivs,
         nb::handle, nb::handle) {
        const Operand given = matrix(x, "eig", "x");
        const lax::linalg::EigOptions options{.compute_left_eigenvectors = compute_left_eigenvectors,
                                              .compute_right_eigenvectors = compute_right_eigenvectors,
                                              .enable_eigvec_derivs = enable_eigvec_derivs};
        const lax::linalg::EigResult result = unlocked([&] { return lax::linalg::eig(given, options); });
        std::vector<Array> parts = {result.w};
        if (result.vl) parts.push_back(*result.vl);
        if (result.vr) parts.push_back(*result.vr);
        return list_of(parts);
      },
      "x"_a.none(), nb::kw_only(), "compute_left_eigenvectors"_a = true, "compute_right_eigenvectors"_a = true,
      "enable_eigvec_derivs"_a = false, "implementation"_a = nb::none(), "use_magma"_a = nb::none(),
      "The eigenvalues of square matrices, complex, and their left and right eigenvectors as columns.");
  m.def(
      "hessenberg",
      [](nb::handle a) {
        const Operand given = matrix(a, "hessenberg", "a");
        auto [h, taus] = unlocked([&] { return lax::linalg::hessenberg(given); });
        return nb::make_tuple(h, taus);
      },
      "a"_a.none(), "The form of Hessenberg with the reflections that lead to it below, and their factors.");
  m.def(
      "householder_product",
      [](nb::handle a, nb::handle taus) {
        const Operand given = matrix(a, "householder_product", "a");
        const Operand factors = vector(taus, "householder_product", "taus");
        return unlocked([&] { return lax::linalg::householder_product(given, factors); });
      },
      "a"_a.none(), "taus"_a.none(), "The first columns of a product of reflections.");
  m.def(
      "ormqr",
      [](nb::handle a, nb::handle taus, nb::handle c, Flag left, Flag transpose) {
        const Operand given = matrix(a, "ormqr", "a");
        const Operand factors = vector(taus, "ormqr", "taus");
        const Operand by = matrix(c, "ormqr", "c");
        return unlocked([&] { return lax::linalg::ormqr(given, factors, by, {.left = left, .transpose = transpose}); });
      },
      "a"_a.none(), "taus"_a.none(), "c"_a.none(), nb::kw_only(), "left"_a = true, "transpose"_a = false,
      "The product of c with a product of reflections, or with its adjoint.");
  m.def(
      "schur",
      [](nb::handle x, Flag compute_schur_vectors, Flag sort_eig_vals, nb::handle) -> nb::object {
        if (sort_eig_vals) not_implemented("schur: sort_eig_vals is not offered");
        const Operand given = matrix(x, "schur", "x");
        auto [t, q] = unlocked([&] { return lax::linalg::schur(given); });
        if (!compute_schur_vectors) return nb::make_tuple(t);
        return nb::make_tuple(t, q);
      },
      "x"_a.none(), nb::kw_only(), "compute_schur_vectors"_a = true, "sort_eig_vals"_a = false,
      "select_callable"_a = nb::none(), "A triangular and a unitary factor: x = q t q^H.");
  m.def(
      "cholesky_update",
      [](nb::handle r_matrix, nb::handle w_vector) {
        const Operand r = matrix(r_matrix, "cholesky_update", "r_matrix");
        const Operand w = vector(w_vector, "cholesky_update", "w_vector");
        if (shape_of(r).size() != 2 || shape_of(w).size() != 1) {
          type_error(fmt::format("cholesky_update: takes one matrix and one vector, got {} and {}", type_text(r_matrix),
                                 type_text(w_vector)));
        }
        return unlocked([&] { return lax::linalg::cholesky_update(r, w); });
      },
      "r_matrix"_a.none(), "w_vector"_a.none(), "The upper triangular factor of r^T r + w w^T.");
  m.def(
      "lu_pivots_to_permutation",
      [](nb::handle pivots, std::int64_t permutation_size) {
        const Operand given = operand(pivots, "lu_pivots_to_permutation", "pivots");
        if (!is_integer(dtype_of(given)) || shape_of(given).empty()) {
          type_error(fmt::format("lu_pivots_to_permutation: pivots must be integers in at least 1 dimension, got {}",
                                 type_text(pivots)));
        }
        return unlocked([&] { return lax::linalg::lu_pivots_to_permutation(given, permutation_size); });
      },
      "pivots"_a.none(), "permutation_size"_a, "The permutation that exchanges of rows make.");
  m.def(
      "tridiagonal",
      [](nb::handle a, Flag lower) {
        const Operand given = matrix(a, "tridiagonal", "a");
        const lax::linalg::TridiagonalResult result = unlocked([&] { return lax::linalg::tridiagonal(given, lower); });
        return nb::make_tuple(result.a, result.d, result.e, result.taus);
      },
      "a"_a.none(), nb::kw_only(), "lower"_a = true,
      "The tridiagonal form of Hermitian matrices: reflections, the diagonal, what lies beside it, and factors.");
  m.def(
      "tridiagonal_solve",
      [](nb::handle dl, nb::handle d, nb::handle du, nb::handle b, Flag perturb_singular) {
        const Operand below = vector(dl, "tridiagonal_solve", "dl");
        const Operand diagonal = vector(d, "tridiagonal_solve", "d");
        const Operand above = vector(du, "tridiagonal_solve", "du");
        const Operand sides = matrix(b, "tridiagonal_solve", "b");
        return unlocked(
            [&] { return lax::linalg::tridiagonal_solve(below, diagonal, above, sides, perturb_singular); });
      },
      "dl"_a.none(), "d"_a.none(), "du"_a.none(), "b"_a.none(), nb::kw_only(), "perturb_singular"_a = false,
      "The solution of tridiagonal systems of equations.");
  m.def(
      "qdwh",
      [](nb::handle x, Flag, std::optional<std::int64_t> max_iterations, std::optional<double> eps,
         nb::handle dynamic_shape) {
        if (!dynamic_shape.is_none()) not_implemented("qdwh: dynamic_shape is not offered");
        const Operand given = matrix(x, "qdwh", "x");
        const lax::linalg::QdwhResult result = unlocked(
            [&] { return lax::linalg::qdwh(given, {.max_iterations = max_iterations.value_or(10), .eps = eps}); });
        return nb::make_tuple(result.u, result.h, result.num_iters, result.is_converged);
      },
      "x"_a.none(), nb::kw_only(), "is_hermitian"_a = false, "max_iterations"_a = nb::none(), "eps"_a = nb::none(),
      "dynamic_shape"_a = nb::none(),
      "The polar factors u and h of x, the number of steps, and whether they were enough.");
  m.def(
      "lu",
      [](nb::handle x) {
        const Operand given = matrix(x, "lu", "x");
        const lax::linalg::LuResult result = unlocked([&] { return lax::linalg::lu(given); });
        return list_of(std::vector<Array>{result.lu, result.pivots, result.permutation});
      },
      "x"_a.none(), "Triangular factors in one matrix, the exchanges of rows, and the permutation that these make.");
  m.def(
      "qr",
      [](nb::handle x, Flag pivoting, Flag full_matrices, nb::handle) {
        if (pivoting) not_implemented("qr: pivoting is not offered");
        const Operand given = matrix(x, "qr", "x");
        auto [q, r] = unlocked([&] { return lax::linalg::qr(given, full_matrices); });
        return nb::make_tuple(q, r);
      },
      "x"_a.none(), nb::kw_only(), "pivoting"_a = false, "full_matrices"_a = true, "use_magma"_a = nb::none(),
      "An orthonormal and an upper triangular factor.");
  m.def(
      "svd",
      [](nb::handle x, Flag full_matrices, Flag compute_uv, nb::handle subset_by_index, nb::handle) -> nb::object {
        if (!subset_by_index.is_none()) not_implemented("svd: subset_by_index is not offered");
        const Operand given = matrix(x, "svd", "x");
        if (!compute_uv) return nb::cast(unlocked([&] { return linalg::svdvals(given); }));
        const linalg::SVDResult result = unlocked([&] { return linalg::svd(given, full_matrices); });
        return nb::make_tuple(result.U, result.S, result.Vh);
      },
      "x"_a.none(), nb::kw_only(), "full_matrices"_a = true, "compute_uv"_a = true, "subset_by_index"_a = nb::none(),
      "algorithm"_a = nb::none(), "Singular values, descending, between orthonormal factors; or they alone.");
  m.def(
      "triangular_solve",
      [](nb::handle a, nb::handle b, Flag left_side, Flag lower, Flag transpose_a, Flag conjugate_a,
         Flag unit_diagonal) {
        const Operand system = matrix(a, "triangular_solve", "a");
        const Operand right = matrix(b, "triangular_solve", "b");
        const Operand* const both[] = {&system, &right};
        check_dtypes("linalg.triangular_solve", both);
        return unlocked([&] {
          return lax::linalg::triangular_solve(system, right,
                                               {.left_side = left_side,
                                                .lower = lower,
                                                .transpose_a = transpose_a,
                                                .conjugate_a = conjugate_a,
                                                .unit_diagonal = unit_diagonal});
        });
      },
      "a"_a.none(), "b"_a.none(), nb::kw_only(), "left_side"_a = false, "lower"_a = false, "transpose_a"_a = false,
      "conjugate_a"_a = false, "unit_diagonal"_a = false, "The solution of triangular systems of equations.");
  m.def(
      "symmetric_product",
      [](nb::handle a_matrix, nb::handle c_matrix, double alpha, double beta, Flag symmetrize_output) {
        const Operand a = matrix(a_matrix, "symmetric_product", "a_matrix");
        const Operand c = matrix(c_matrix, "symmetric_product", "c_matrix");
        const Operand* const both[] = {&a, &c};
        check_dtypes("linalg.symmetric_product", both);
        return unlocked([&] { return symmetric_product(a, c, alpha, beta, symmetrize_output); });
      },
      "a_matrix"_a.none(), "c_matrix"_a.none(), nb::kw_only(), "alpha"_a = 1.0, "beta"_a = 0.0,
      "symmetrize_output"_a = false, "alpha a a^T + beta c.");
}

}  // namespace shoal::python
