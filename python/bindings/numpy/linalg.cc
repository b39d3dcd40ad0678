// jax.numpy.linalg, jax.scipy.linalg and jax.ops.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include <limits>

#include "base/caller.h"
#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "shoal/ops.h"

namespace shoal::python {
namespace {

using Matrix = Array (*)(const Operand&);
using Matrices = Array (*)(const Operand&, const Operand&);

// A function of one array of matrices; the further arguments of SciPy's functions say what may be overwritten, and
// mean nothing.
void bind_matrix(nb::module_& m, nb::module_* scipy, const char* name, Matrix f, const char* doc) {
  const auto one = [f, name](nb::handle a) {
    const Operand x = operand(a, name, "a");
    return unlocked([&] { return f(x); });
  };
  m.def(name, one, "a"_x, doc);
  if (scipy == nullptr) return;
  scipy->def(
      name, [one](nb::handle a, Flag, Flag) { return one(a); }, "a"_x, "overwrite_a"_x = false, "check_finite"_x = true,
      doc);
}

// An order of norms: None, a number, or the name of one.
linalg::NormOrder order_of(nb::handle ord) {
  if (ord.is_none()) return {};
  if (PyUnicode_Check(ord.ptr())) {
    const auto name = nb::cast<std::string>(ord);
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "-inf") return -std::numeric_limits<double>::infinity();
    return name;
  }
  return *maybe_number(ord, "norm: ord");
}

Array norm_of(const char* name, nb::handle x, nb::handle ord, nb::handle axis, bool keepdims) {
  const Operand a = operand(x, name);
  const linalg::NormOptions options{
      .ord = order_of(ord), .axis = axes(axis, fmt::format("{}: axis", name)), .keepdims = keepdims};
  return unlocked([&] { return linalg::norm(a, options); });
}

Array cholesky_of(nb::handle a, Flag upper, Flag symmetrize_input) {
  const Operand x = operand(a, "cholesky", "a");
  return unlocked([&] { return linalg::cholesky(x, {.upper = upper, .symmetrize_input = symmetrize_input}); });
}

// Which of two names a tolerance was given by.
std::optional<Operand> tolerance(const char* name, nb::handle rtol, nb::handle other) {
  if (!rtol.is_none() && !other.is_none()) value_error(fmt::format("{}: only one tolerance can be given", name));
  return maybe_operand(rtol.is_none() ? other : rtol, name, "rtol");
}

linalg::SVDResult svd_of(nb::handle a, bool full_matrices) {
  const Operand x = operand(a, "svd", "a");
  return unlocked([&] { return linalg::svd(x, full_matrices); });
}

// Without the vectors, which take most of the time.
Array values_of_svd(nb::handle a) {
  const Operand x = operand(a, "svd", "a");
  const Caller caller("svd", x.where());
  return unlocked([&] { return linalg::svdvals(x); });
}

linalg::EighResult eigh_of(const char* name, nb::handle a, nb::handle uplo, bool symmetrize_input) {
  const Operand x = operand(a, name, "a");
  linalg::UploOptions options{.symmetrize_input = symmetrize_input};
  if (!uplo.is_none()) options.UPLO = nb::cast<std::string>(nb::str(uplo));
  return unlocked([&] { return linalg::eigh(x, options); });
}

nb::tuple lstsq_of(nb::handle a, nb::handle b, nb::handle rcond, Flag numpy_resid) {
  const Operand x = operand(a, "lstsq", "a");
  const Operand y = operand(b, "lstsq", "b");
  const std::optional<double> cut = maybe_number(rcond, "lstsq: rcond");
  const linalg::LstsqResult result = unlocked([&] { return linalg::lstsq(x, y, cut); });
  if (!numpy_resid) return nb::make_tuple(result.x, result.residuals, result.rank, result.s);
  // NumPy gives residuals only where the system is over-determined and of full rank.
  const SourceLocation where = x.where();
  const Shape& shape = shoal::to_array(x).shape();
  const bool given = shape[0] > shape[1] && unlocked([&] { return result.rank.item<std::int64_t>(where); }) == shape[1];
  const Array none_given = zeros({0}, {.dtype = result.residuals.dtype()}, where);
  return nb::make_tuple(result.x, given ? result.residuals : none_given, result.rank, result.s);
}

Array solved(nb::handle a, nb::handle b) {
  const Operand x = operand(a, "solve", "a");
  const Operand y = operand(b, "solve", "b");
  return unlocked([&] { return linalg::solve(x, y); });
}

void bind_numpy_linalg(nb::module_& m) {
  const nb::object named_tuple = nb::module_::import_("collections").attr("namedtuple");
  const auto result_class = [&](const char* name, const char* fields) {
    m.attr(name) = named_tuple(name, fields, "module"_x = "shoal.numpy.linalg");
    return nb::handle(m.attr(name).ptr());
  };
  const nb::handle eigh_result = result_class("EighResult", "eigenvalues eigenvectors");
  const nb::handle eig_result = result_class("EigResult", "eigenvalues eigenvectors");
  const nb::handle qr_result = result_class("QRResult", "Q R");
  const nb::handle svd_result = result_class("SVDResult", "U S Vh");
  const nb::handle slogdet_result = result_class("SlogdetResult", "sign logabsdet");

  m.def("cholesky", &cholesky_of, "a"_x, nb::kw_only(), "upper"_x = false, "symmetrize_input"_x = true,
        "The triangular l with l l^H = a.");
  m.def(
      "svd",
      [svd_result](nb::handle a, Flag full_matrices, Flag compute_uv, Flag hermitian,
                   nb::handle subset_by_index) -> nb::object {
        static_cast<void>(hermitian);
        if (!subset_by_index.is_none()) not_implemented("svd: subset_by_index is not supported");
        if (!compute_uv) return nb::cast(values_of_svd(a));
        const linalg::SVDResult result = svd_of(a, full_matrices);
        return svd_result(result.U, result.S, result.Vh);
      },
      "a"_x, "full_matrices"_x = true, "compute_uv"_x = true, "hermitian"_x = false, "subset_by_index"_x = nb::none(),
      "a = U diag(S) Vh.");
  m.def(
      "svdvals",
      [](nb::handle x) {
        const Operand a = operand(x, "svdvals");
        return unlocked([&] { return linalg::svdvals(a); });
      },
      positional(), "The singular values.");
  m.def(
      "qr",
      [qr_result](nb::handle a, const std::string& mode) -> nb::object {
        const Operand x = operand(a, "qr", "a");
        if (mode == "raw") not_implemented("qr: mode 'raw' is not supported");
        if (mode != "reduced" && mode != "full" && mode != "complete" && mode != "r") {
          value_error(fmt::format("Unsupported QR decomposition mode '{}'", mode));
        }
        const linalg::QRResult result =
            unlocked([&] { return linalg::qr(x, mode == "complete" ? "complete" : "reduced"); });
        if (mode == "r") return nb::cast(result.R);
        return qr_result(result.Q, result.R);
      },
      "a"_x, "mode"_x = "reduced", "a = Q R.");
  m.def(
      "eigh",
      [eigh_result](nb::handle a, nb::handle UPLO, Flag symmetrize_input) {
        const linalg::EighResult result = eigh_of("eigh", a, UPLO, symmetrize_input);
        return eigh_result(result.eigenvalues, result.eigenvectors);
      },
      "a"_x, "UPLO"_x = nb::none(), "symmetrize_input"_x = true,
      "The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors as columns.");
  m.def(
      "eigvalsh",
      [](nb::handle a, nb::handle UPLO, Flag symmetrize_input) {
        return eigh_of("eigvalsh", a, UPLO, symmetrize_input).eigenvalues;
      },
      "a"_x, "UPLO"_x = "L", nb::kw_only(), "symmetrize_input"_x = true, "The eigenvalues of a Hermitian matrix.");
  m.def(
      "eig",
      [eig_result](nb::handle a) {
        const Operand x = operand(a, "eig", "a");
        const linalg::EighResult result = unlocked([&] { return linalg::eig(x); });
        return eig_result(result.eigenvalues, result.eigenvectors);
      },
      "a"_x, "The eigenvalues of a square matrix, complex, and its right eigenvectors as columns.");
  m.def(
      "eigvals",
      [](nb::handle a) {
        const Operand x = operand(a, "eigvals", "a");
        return unlocked([&] { return linalg::eigvals(x); });
      },
      "a"_x, "The eigenvalues of a square matrix, complex.");
  m.def("solve", &solved, "a"_x, "b"_x, "The x with a x = b.");
  m.def(
      "slogdet",
      [slogdet_result](nb::handle a, nb::handle method) {
        static_cast<void>(method);
        const Operand x = operand(a, "slogdet", "a");
        const linalg::SlogdetResult result = unlocked([&] { return linalg::slogdet(x); });
        return slogdet_result(result.sign, result.logabsdet);
      },
      "a"_x, nb::kw_only(), "method"_x = nb::none(), "The determinant's sign and the logarithm of its magnitude.");
  m.def(
      "pinv",
      [](nb::handle a, nb::handle rtol, Flag hermitian, nb::handle rcond) {
        static_cast<void>(hermitian);
        const Operand x = operand(a, "pinv", "a");
        const std::optional<Operand> limit = tolerance("pinv", rtol, rcond);
        return unlocked([&] { return linalg::pinv(x, limit); });
      },
      "a"_x, "rtol"_x = nb::none(), "hermitian"_x = false, nb::kw_only(), "rcond"_x = nb::none(),
      "The inverse where there is none.");
  m.def("lstsq", &lstsq_of, "a"_x, "b"_x, "rcond"_x = nb::none(), nb::kw_only(), "numpy_resid"_x = false,
        "The shortest x of those that make a x nearest to b; residuals, rank and singular values.");
  m.def(
      "matrix_rank",
      [](nb::handle M, nb::handle rtol, Flag hermitian, nb::handle tol) {
        static_cast<void>(hermitian);
        const Operand x = operand(M, "matrix_rank", "M");
        const std::optional<Operand> limit = tolerance("matrix_rank", rtol, tol);
        const Array rank = unlocked([&] { return linalg::matrix_rank(x, limit); });
        return counted(rank);
      },
      "M"_x, "rtol"_x = nb::none(), nb::kw_only(), "hermitian"_x = false, "tol"_x = nb::none(),
      "The number of singular values that are not small.");
  m.def(
      "matrix_power",
      [](nb::handle a, nb::handle n) {
        const Operand x = operand(a, "matrix_power", "a");
        const std::int64_t power = integer(n, "matrix_power: n");
        return unlocked([&] { return linalg::matrix_power(x, power); });
      },
      "a"_x, "n"_x, "The product of n matrices a.");
  m.def(
      "multi_dot",
      [](nb::handle arrays, nb::handle precision) {
        static_cast<void>(precision);
        const Operands list = operands(arrays, "multi_dot");
        return unlocked([&] { return linalg::multi_dot(list); });
      },
      "arrays"_x, nb::kw_only(), "precision"_x = nb::none(), "The product of matrices in the cheapest order.");
  m.def(
      "norm",
      [](nb::handle x, nb::handle ord, nb::handle axis, Flag keepdims) {
        return norm_of("norm", x, ord, axis, keepdims);
      },
      "x"_x, "ord"_x = nb::none(), "axis"_x = nb::none(), "keepdims"_x = false, "The norm of vectors or matrices.");
  m.def(
      "matrix_norm",
      [](nb::handle x, Flag keepdims, nb::handle ord) {
        return norm_of("matrix_norm", x, ord, nb::make_tuple(-2, -1), keepdims);
      },
      positional(), nb::kw_only(), "keepdims"_x = false, "ord"_x = "fro", "The norm of matrices.");
  m.def(
      "vector_norm",
      [](nb::handle x, nb::handle axis, Flag keepdims, nb::handle ord) {
        const bool one = !axis.is_none() && (PyIndex_Check(axis.ptr()) != 0 || nb::len(axis) == 1);
        const Array array = to_array(x, "vector_norm");
        if (one || array.ndim() == 1) return norm_of("vector_norm", x, ord, axis, keepdims);
        // Of several dimensions together: they become one.
        const SourceLocation where = user_line();
        Dims together = axis.is_none() ? Dims{} : dims(axis, "vector_norm: axis");
        for (std::size_t d = 0; axis.is_none() && d < array.ndim(); ++d)
          together.push_back(static_cast<std::int64_t>(d));
        const Caller caller("vector_norm", where);
        together = canonical_axes(Axes(together), array.ndim());
        Shape kept = array.shape();
        Shape shape;
        Dims front;
        for (std::size_t d = 0; d < array.ndim(); ++d) {
          const auto number = static_cast<std::int64_t>(d);
          if (std::find(together.begin(), together.end(), number) == together.end()) {
            shape.push_back(kept[d]);
          } else {
            kept[d] = 1;
          }
        }
        for (std::size_t i = 0; i < together.size(); ++i) front.push_back(static_cast<std::int64_t>(i));
        const Array flat = unlocked([&] {
          const Operand moved(moveaxis({array, where}, together, front), where);
          Shape lines = shape;
          lines.insert(lines.begin(), -1);
          return reshape(moved, lines);
        });
        const nb::object line = nb::cast(flat);
        const Array norm = norm_of("vector_norm", line, ord, nb::int_(0), false);
        return keepdims ? reshape({norm, where}, kept) : norm;
      },
      positional(), nb::kw_only(), "axis"_x = nb::none(), "keepdims"_x = false, "ord"_x = 2, "The norm of vectors.");
  m.def(
      "cond",
      [](nb::handle x, nb::handle p) {
        const Operand a = operand(x, "cond");
        const linalg::NormOrder order = order_of(p);
        return unlocked([&] { return linalg::cond(a, order); });
      },
      "x"_x, "p"_x = nb::none(), "The condition number.");
  m.def(
      "tensorinv",
      [](nb::handle a, nb::handle ind) {
        const Operand x = operand(a, "tensorinv", "a");
        const std::int64_t count = integer(ind, "tensorinv: ind");
        const SourceLocation where = x.where();
        const Shape shape = shoal::to_array(x).shape();
        if (count <= 0 || count > static_cast<std::int64_t>(shape.size())) {
          value_error(fmt::format("ind must be a positive integer within the rank; got ind={}", count));
        }
        return unlocked([&] {
          const Shape rows(shape.begin(), shape.begin() + count);
          const Shape columns(shape.begin() + count, shape.end());
          Shape result = columns;
          result.insert(result.end(), rows.begin(), rows.end());
          const Operand matrix(reshape(x, {num_elements(rows), num_elements(columns)}), where);
          return reshape({linalg::inv(matrix), where}, result);
        });
      },
      "a"_x, "ind"_x = 2, "The inverse of a product of tensors.");
  m.def(
      "tensorsolve",
      [](nb::handle a, nb::handle b, nb::handle axes) {
        Operand x = operand(a, "tensorsolve", "a");
        const Operand y = operand(b, "tensorsolve", "b");
        const std::optional<Dims> moved = maybe_dims(axes, "tensorsolve: axes");
        return unlocked([&] {
          const SourceLocation where = x.where();
          if (moved) {
            Dims last;
            const auto rank = static_cast<std::int64_t>(shoal::to_array(x).ndim());
            for (std::size_t i = 0; i < moved->size(); ++i) {
              last.push_back(rank - static_cast<std::int64_t>(moved->size() - i));
            }
            x = Operand(moveaxis(x, *moved, last), where);
          }
          const Shape& shape = shoal::to_array(x).shape();
          const Shape unknowns(shape.begin() + static_cast<std::ptrdiff_t>(shoal::to_array(y).ndim()), shape.end());
          const std::int64_t size = shoal::to_array(y).size();
          const Operand matrix(reshape(x, {size, num_elements(unknowns)}), where);
          return reshape({linalg::solve(matrix, {ravel(y), where}), where}, unknowns);
        });
      },
      "a"_x, "b"_x, "axes"_x = nb::none(), "The x with tensordot(a, x) = b.");
}

// ---- jax.scipy.linalg.

void bind_matrix_functions(nb::module_& m) {
  const auto pair = [](const std::pair<Array, Array>& both) { return nb::make_tuple(both.first, both.second); };
  m.def(
      "expm",
      [](nb::handle A, Flag upper_triangular, std::int64_t max_squarings) {
        const Operand x = operand(A, "expm", "A");
        return unlocked(
            [&] { return linalg::expm(x, {.upper_triangular = upper_triangular, .max_squarings = max_squarings}); });
      },
      "A"_x, nb::kw_only(), "upper_triangular"_x = false, "max_squarings"_x = 16,
      "The exponential of square matrices.");
  m.def(
      "expm_frechet",
      [pair](nb::handle A, nb::handle E, nb::handle, Flag compute_expm) -> nb::object {
        const Operand x = operand(A, "expm_frechet", "A");
        const Operand direction = operand(E, "expm_frechet", "E");
        const auto both = unlocked([&] { return linalg::expm_frechet(x, direction); });
        return compute_expm ? nb::object(pair(both)) : nb::cast(both.second);
      },
      "A"_x, "E"_x, nb::kw_only(), "method"_x = nb::none(), "compute_expm"_x = true,
      "The exponential of A, and its derivative in the direction E.");
  m.def(
      "sqrtm",
      [](nb::handle A, std::int64_t blocksize) {
        if (blocksize > 1) not_implemented("sqrtm: blocksize is not offered");
        const Operand x = operand(A, "sqrtm", "A");
        return unlocked([&] { return linalg::sqrtm(x); });
      },
      "A"_x, "blocksize"_x = 1, "The complex matrix whose square is A.");
  m.def(
      "funm",
      [](nb::handle A, const nb::callable& func, Flag disp) -> nb::object {
        const Operand x = operand(A, "funm", "A");
        if (!disp) not_implemented("funm: disp=False, which asks for an estimate of the error, is not offered");
        return nb::cast(
            linalg::funm(x, [&](const Array& values) { return to_array(func(values), "funm", "func(x)"); }));
      },
      "A"_x, "func"_x, "disp"_x = true, "A function of scalars, of which func takes a vector, for a matrix: complex.");
  m.def(
      "schur",
      [pair](nb::handle a, const std::string& output) {
        const Operand x = operand(a, "schur", "a");
        return pair(unlocked([&] { return linalg::schur(x, output); }));
      },
      "a"_x, "output"_x = "real", "T and Z with a = Z T Z^H, T triangular or, of real matrices, nearly so, Z unitary.");
  m.def(
      "rsf2csf",
      [pair](nb::handle T, nb::handle Z, Flag) {
        const Operand t = operand(T, "rsf2csf", "T");
        const Operand z = operand(Z, "rsf2csf", "Z");
        return pair(unlocked([&] { return linalg::rsf2csf(t, z); }));
      },
      "T"_x, "Z"_x, "check_finite"_x = true, "From the real form of schur to the complex one.");
  m.def(
      "hessenberg",
      [](nb::handle a, Flag calc_q, Flag, Flag) -> nb::object {
        const Operand x = operand(a, "hessenberg", "a");
        const linalg::HessenbergResult result = unlocked([&] { return linalg::hessenberg(x); });
        if (!calc_q) return nb::cast(result.h);
        return nb::make_tuple(result.h, result.q);
      },
      "a"_x, nb::kw_only(), "calc_q"_x = false, "overwrite_a"_x = false, "check_finite"_x = true,
      "H, zero below its first subdiagonal, and if calc_q the unitary Q with a = Q H Q^H.");
  m.def(
      "polar",
      [pair](nb::handle a, const std::string& side, const std::string& method, nb::handle eps,
             std::optional<std::int64_t> max_iterations) {
        const Operand x = operand(a, "polar", "a");
        const std::optional<double> near = maybe_number(eps, "polar: eps");
        const lax::linalg::QdwhOptions qdwh{.max_iterations = max_iterations.value_or(10), .eps = near};
        return pair(unlocked([&] { return linalg::polar(x, {.side = side, .method = method, .qdwh = qdwh}); }));
      },
      "a"_x, "side"_x = "right", nb::kw_only(), "method"_x = "qdwh", "eps"_x = nb::none(),
      "max_iterations"_x = nb::none(), "The unitary u and the positive p with a = u p or, for side \"left\", a = p u.");
  m.def(
      "qr_multiply",
      [pair](nb::handle a, nb::handle c, const std::string& mode, Flag pivoting, Flag conjugate, Flag, Flag) {
        if (pivoting) not_implemented("qr_multiply: pivoting is not offered");
        const Operand x = operand(a, "qr_multiply", "a");
        const Operand by = operand(c, "qr_multiply", "c");
        return pair(unlocked([&] { return linalg::qr_multiply(x, by, {.mode = mode, .conjugate = conjugate}); }));
      },
      "a"_x, "c"_x, "mode"_x = "right", "pivoting"_x = false, "conjugate"_x = false, "overwrite_a"_x = false,
      "overwrite_c"_x = false, "c Q or, for mode \"left\", Q c, and R, where a = Q R.");
  m.def(
      "solve_sylvester",
      [](nb::handle A, nb::handle B, nb::handle C, const std::string& method, double tol) {
        const Operand a = operand(A, "solve_sylvester", "A");
        const Operand b = operand(B, "solve_sylvester", "B");
        const Operand c = operand(C, "solve_sylvester", "C");
        return unlocked([&] { return linalg::solve_sylvester(a, b, c, {.method = method, .tol = tol}); });
      },
      "A"_x, "B"_x, "C"_x, nb::kw_only(), "method"_x = "schur", "tol"_x = 1e-8, "The X with A X + X B = C.");
  m.def(
      "eigh_tridiagonal",
      [pair](nb::handle d, nb::handle e, Flag eigvals_only, const std::string& select, nb::handle select_range,
             nb::handle tol, nb::handle) -> nb::object {
        if (select == "v") not_implemented("eigh_tridiagonal(..., select='v') is not implemented");
        if (select != "a" && select != "i") value_error("'select must have a value in {'a', 'i', 'v'}.");
        const Operand diagonal = operand(d, "eigh_tridiagonal", "d");
        const Operand beside = operand(e, "eigh_tridiagonal", "e");
        linalg::EighTridiagonalOptions options{.select_range = {}, .tol = maybe_number(tol, "eigh_tridiagonal: tol")};
        if (select == "i") {
          if (select_range.is_none()) value_error("for select='i', select_range must be specified.");
          options.select_range = std::pair(integer(select_range[0], "eigh_tridiagonal: select_range"),
                                           integer(select_range[1], "eigh_tridiagonal: select_range"));
        }
        if (eigvals_only) {
          return nb::cast(unlocked([&] { return linalg::eigvalsh_tridiagonal(diagonal, beside, options); }));
        }
        return pair(unlocked([&] { return linalg::eigh_tridiagonal(diagonal, beside, options); }));
      },
      "d"_x, "e"_x, nb::kw_only(), "eigvals_only"_x = false, "select"_x = "a", "select_range"_x = nb::none(),
      "tol"_x = nb::none(), "key"_x = nb::none(),
      "The eigenvalues of a tridiagonal Hermitian matrix, ascending, and its eigenvectors as columns.");
}

void bind_scipy_linalg(nb::module_& m) {
  bind_matrix_functions(m);
  m.def(
      "cholesky", [](nb::handle a, Flag lower, Flag, Flag) { return cholesky_of(a, !lower, false); }, "a"_x,
      "lower"_x = false, "overwrite_a"_x = false, "check_finite"_x = true, "The triangular u with u^H u = a.");
  m.def(
      "cho_factor",
      [](nb::handle a, Flag lower, Flag, Flag) { return nb::make_tuple(cholesky_of(a, !lower, false), lower); }, "a"_x,
      "lower"_x = false, "overwrite_a"_x = false, "check_finite"_x = true,
      "A Cholesky factor, and whether it is the lower one.");
  m.def(
      "cho_solve",
      [](nb::handle c_and_lower, nb::handle b, Flag, Flag) {
        if (PySequence_Check(c_and_lower.ptr()) == 0 || nb::len(c_and_lower) != 2) {
          type_error("cho_solve: c_and_lower must be what cho_factor gives");
        }
        const linalg::CholeskyFactor factored{to_array(c_and_lower[0], "cho_solve", "c"),
                                              nb::cast<bool>(c_and_lower[1])};
        const Operand y = operand(b, "cho_solve", "b");
        return unlocked([&] { return linalg::cho_solve(factored, y); });
      },
      "c_and_lower"_x, "b"_x, "overwrite_b"_x = false, "check_finite"_x = true, "The x with a x = b.");
  m.def(
      "svd",
      [](nb::handle a, Flag full_matrices, Flag compute_uv, Flag, Flag, nb::handle) -> nb::object {
        if (!compute_uv) return nb::cast(values_of_svd(a));
        const linalg::SVDResult result = svd_of(a, full_matrices);
        return nb::make_tuple(result.U, result.S, result.Vh);
      },
      "a"_x, "full_matrices"_x = true, "compute_uv"_x = true, "overwrite_a"_x = false, "check_finite"_x = true,
      "lapack_driver"_x = "gesdd", "a = U diag(S) Vh.");
  m.def(
      "eigh",
      [](nb::handle a, nb::handle b, Flag lower, Flag eigvals_only, Flag, Flag, Flag, nb::handle eigvals, int type,
         Flag) -> nb::object {
        if (!b.is_none()) not_implemented("Only the b=None case of eigh is implemented");
        if (type != 1) not_implemented("Only the type=1 case of eigh is implemented.");
        if (!eigvals.is_none()) not_implemented("Only the eigvals=None case of eigh is implemented.");
        const linalg::EighResult result = eigh_of("eigh", a, lower ? nb::str("L") : nb::str("U"), false);
        if (eigvals_only) return nb::cast(result.eigenvalues);
        return nb::make_tuple(result.eigenvalues, result.eigenvectors);
      },
      "a"_x, "b"_x = nb::none(), "lower"_x = true, "eigvals_only"_x = false, "overwrite_a"_x = false,
      "overwrite_b"_x = false, "turbo"_x = true, "eigvals"_x = nb::none(), "type"_x = 1, "check_finite"_x = true,
      "The eigenvalues of a Hermitian matrix, and its eigenvectors.");
  m.def(
      "lu_factor",
      [](nb::handle a, Flag, Flag) {
        const Operand x = operand(a, "lu_factor", "a");
        const lax::linalg::LuResult result = unlocked([&] { return linalg::lu_factor(x); });
        return nb::make_tuple(result.lu, result.pivots);
      },
      "a"_x, "overwrite_a"_x = false, "check_finite"_x = true,
      "Triangular factors in one, and how rows were exchanged.");
  m.def(
      "lu_solve",
      [](nb::handle lu_and_piv, nb::handle b, int trans, Flag, Flag) {
        if (PySequence_Check(lu_and_piv.ptr()) == 0 || nb::len(lu_and_piv) != 2) {
          type_error("lu_solve: lu_and_piv must be what lu_factor gives");
        }
        const Array lu = to_array(lu_and_piv[0], "lu_solve", "lu");
        const Array pivots = to_array(lu_and_piv[1], "lu_solve", "piv");
        const Operand y = operand(b, "lu_solve", "b");
        return unlocked([&] {
          const Array order = lax::linalg::lu_pivots_to_permutation({pivots, y.where()}, lu.shape().back());
          return linalg::lu_solve({lu, pivots, order}, y, trans);
        });
      },
      "lu_and_piv"_x, "b"_x, "trans"_x = 0, "overwrite_b"_x = false, "check_finite"_x = true, "The x with a x = b.");
  m.def(
      "lu",
      [](nb::handle a, Flag permute_l, Flag, Flag) -> nb::object {
        const Operand x = operand(a, "lu", "a");
        const SourceLocation where = x.where();
        const std::vector<Array> parts = unlocked([&]() -> std::vector<Array> {
          const lax::linalg::LuResult result = lax::linalg::lu(x);
          const Dtype dtype = result.lu.dtype();
          const Shape& shape = result.lu.shape();
          const std::int64_t rows = shape[shape.size() - 2];
          const std::int64_t columns = shape.back();
          const std::int64_t least = std::min(rows, columns);
          const Operand lu(result.lu, where);
          const Operand below(tril({lax::slice_in_dim(lu, 0, least, 1, -1), where}, -1), where);
          const Array unit = eye(rows, {.m = least, .dtype = dtype}, where);
          const Operand lower(add(below, {unit, where}), where);
          const Array upper = triu({lax::slice_in_dim(lu, 0, least, 1, -2), where});
          // x[permutation] is the product: column permutation[i] of p has its 1 in row i of the transpose.
          const Operand places(expand_dims({result.permutation, where}, -2), where);
          const Operand numbers(expand_dims({lax::iota(int32, rows, where), where}, -1), where);
          const Array p = astype({equal(numbers, places), where}, real_dtype(dtype));
          if (!permute_l) return {p, *lower.array(), upper};
          return {matmul({astype({p, where}, dtype), where}, lower), upper};
        });
        if (permute_l) return nb::make_tuple(parts[0], parts[1]);
        return nb::make_tuple(parts[0], parts[1], parts[2]);
      },
      "a"_x, "permute_l"_x = false, "overwrite_a"_x = false, "check_finite"_x = true,
      "A permutation and triangular factors.");
  m.def(
      "qr",
      [](nb::handle a, Flag, nb::handle, const std::string& mode, Flag pivoting, Flag) -> nb::object {
        if (pivoting) not_implemented("The pivoting=True case of qr is not implemented.");
        if (mode != "full" && mode != "r" && mode != "economic") {
          value_error(fmt::format("Unsupported QR decomposition mode '{}'", mode));
        }
        const Operand x = operand(a, "qr", "a");
        const linalg::QRResult result =
            unlocked([&] { return linalg::qr(x, mode == "economic" ? "reduced" : "complete"); });
        if (mode == "r") return nb::make_tuple(result.R);
        return nb::make_tuple(result.Q, result.R);
      },
      "a"_x, "overwrite_a"_x = false, "lwork"_x = nb::none(), "mode"_x = "full", "pivoting"_x = false,
      "check_finite"_x = true, "a = Q R.");
  m.def(
      "solve",
      [](nb::handle a, nb::handle b, Flag lower, Flag, Flag, Flag, Flag, nb::handle assume_a) {
        const auto kind = nb::cast<std::string>(nb::str(assume_a));
        if (kind != "gen" && kind != "sym" && kind != "her" && kind != "pos") {
          value_error(fmt::format("Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got '{}'", kind));
        }
        if (kind != "pos") return solved(a, b);
        const Array factor = cholesky_of(a, !lower, false);
        const Operand y = operand(b, "solve", "b");
        return unlocked([&] { return linalg::cho_solve({factor, lower}, y); });
      },
      "a"_x, "b"_x, "lower"_x = false, "overwrite_a"_x = false, "overwrite_b"_x = false, "debug"_x = false,
      "check_finite"_x = true, "assume_a"_x = "gen", "The x with a x = b.");
  m.def(
      "solve_triangular",
      [](nb::handle a, nb::handle b, nb::handle trans, Flag lower, Flag unit_diagonal, Flag, Flag, Flag) {
        const Operand x = operand(a, "solve_triangular", "a");
        const Operand y = operand(b, "solve_triangular", "b");
        linalg::SolveTriangularOptions options{.lower = lower, .unit_diagonal = unit_diagonal};
        if (PyUnicode_Check(trans.ptr())) {
          const auto name = nb::cast<std::string>(trans);
          if (name != "N" && name != "T" && name != "C") value_error(fmt::format("Invalid 'trans' value {}", name));
          options.trans = name == "N" ? 0 : name == "T" ? 1 : 2;
        } else {
          options.trans = static_cast<int>(integer(trans, "solve_triangular: trans"));
        }
        return unlocked([&] { return linalg::solve_triangular(x, y, options); });
      },
      "a"_x, "b"_x, "trans"_x = 0, "lower"_x = false, "unit_diagonal"_x = false, "overwrite_b"_x = false,
      "debug"_x = false, "check_finite"_x = true, "The x with a x = b for a triangular matrix a.");
  m.def(
      "block_diag",
      [](nb::args arrs) {
        std::vector<Operand> blocks;
        for (const Operand& x : operand_list(arrs, "block_diag", "arrs")) {
          const Array array = shoal::to_array(x);
          if (array.ndim() > 2) value_error("Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions");
          Shape shape = array.shape();
          while (shape.size() < 2) shape.insert(shape.begin(), 1);
          blocks.emplace_back(reshape({array, x.where()}, shape), x.where());
        }
        const SourceLocation where = user_line();
        if (blocks.empty()) return zeros({1, 0}, {.dtype = default_float()}, where);
        return unlocked([&] {
          std::int64_t columns = 0;
          for (const Operand& x : blocks) columns += x.array()->shape()[1];
          std::vector<Operand> rows;
          std::int64_t before = 0;
          for (const Operand& x : blocks) {
            const std::int64_t extent = x.array()->shape()[1];
            rows.emplace_back(
                pad(x, {{0, 0}, {before, columns - before - extent}}, {.constant_values = Operand(0, where)}), where);
            before += extent;
          }
          return concatenate({rows, where}, 0);
        });
      },
      "arrs"_a, "A matrix with blocks on its diagonal, zeros elsewhere.");
}

// ---- jax.ops.

using Segments = Array (*)(const Operand&, const Operand&, std::optional<std::int64_t>, const OutSharding&);
void bind_segments(nb::module_& m, const char* name, Segments f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle data, nb::handle segment_ids, nb::handle num_segments, nb::handle indices_are_sorted,
                nb::handle unique_indices, nb::handle bucket_size, nb::handle mode, nb::handle out_sharding) {
        static_cast<void>(indices_are_sorted);
        static_cast<void>(unique_indices);
        static_cast<void>(bucket_size);
        if (!mode.is_none()) static_cast<void>(index_mode(mode, IndexMode::kDrop));
        const Operand x = operand(data, name, "data");
        const Operand ids = operand(segment_ids, name, "segment_ids");
        const std::optional<std::int64_t> count = maybe_integer(num_segments, fmt::format("{}: num_segments", name));
        if (count && *count < 0) value_error("num_segments must be non-negative.");
        const OutSharding sharding = python::out_sharding(out_sharding);
        return unlocked([&] { return f(x, ids, count, sharding); });
      },
      "data"_x, "segment_ids"_x, "num_segments"_x = nb::none(), "indices_are_sorted"_x = false,
      "unique_indices"_x = false, "bucket_size"_x = nb::none(), "mode"_x = nb::none(), "out_sharding"_x = nb::none(),
      doc);
}

}  // namespace

void bind_linalg(nb::module_& m) {
  nb::module_ scipy = submodule(m, "linalg.scipy", "shoal.scipy.linalg", "The functions of jax.scipy.linalg.");
  bind_numpy_linalg(m);
  bind_scipy_linalg(scipy);
  bind_matrix(m, &scipy, "inv", &linalg::inv, "The inverse.");
  bind_matrix(m, &scipy, "det", &linalg::det, "The determinant.");
  nb::module_ segments = submodule(m, "linalg.ops", "shoal.ops", "The functions of jax.ops.");
  bind_segments(segments, "segment_sum", &ops::segment_sum, "The sums of the items of each segment.");
  bind_segments(segments, "segment_prod", &ops::segment_prod, "The products of the items of each segment.");
  bind_segments(segments, "segment_max", &ops::segment_max, "The greatest items of each segment.");
  bind_segments(segments, "segment_min", &ops::segment_min, "The least items of each segment.");
}

}  // namespace shoal::python
