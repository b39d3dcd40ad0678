// shoal.lax.linalg.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "bindings/lax/lax.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

// A matrix or several, of floats or complex numbers: lax.linalg promotes no integers.
Operand matrix(nb::handle x, std::string_view function, std::string_view argument) {
  Operand given = operand(x, function, argument);
  check_kind(function, given, kFractions);
  return given;
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
        const Operand given = matrix(x, "cholesky", "x");
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
        const Operand given = matrix(x, "eigh", "x");
        auto [vectors, values] =
            unlocked([&] { return lax::linalg::eigh(given, {.lower = lower, .symmetrize_input = symmetrize_input}); });
        return nb::make_tuple(vectors, values);
      },
      "x"_a.none(), nb::kw_only(), "lower"_a = true, "symmetrize_input"_a = true, "sort_eigenvalues"_a = true,
      "subset_by_index"_a = nb::none(), "implementation"_a = nb::none(),
      "The eigenvectors of Hermitian matrices, as columns, and their eigenvalues, ascending.");
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
