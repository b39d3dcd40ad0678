#include "backend/cpu/decompositions/decomposition_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <numeric>

#include "backend/cpu/decompositions/by_lapack.h"
#include "backend/cpu/decompositions/matrix_tiles.h"
#include "backend/cpu/decompositions/small_matrices.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/products/libraries.h"
#include "base/misuse.h"
#include "core/dispatch.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Multiplications of one tile, about, if matrices are small, and of how many such matrices it is a multiple.
constexpr std::int64_t kTileWork = 1 << 17;
constexpr std::int64_t kMatricesTogether = 16;
// How many times more of them it takes to find eigenvalues and singular values, about.
constexpr std::int64_t kWorkOfIterations = 16;

enum class Decomposition {
  kCholesky,
  kTriangularSolve,
  kLu,
  kQr,
  kEigh,
  kSvd,
  kHessenberg,
  kHouseholderProduct,
  kSchur,
  kEig
};

// Those that LAPACK alone computes.
bool is_of_lapack(Decomposition decomposition) { return decomposition >= Decomposition::kHessenberg; }

std::int64_t batches_of(const Shape& shape) { return num_elements(Shape(shape.begin(), shape.end() - 2)); }

// The matrix number `number` of a batch.
template <class T>
T* matrix_at(const TensorView& view, std::int64_t batches, std::int64_t number) {
  return view.as<T>() + number * (num_elements(view.shape) / batches);
}

class DecompositionKernel final : public Kernel {
 public:
  DecompositionKernel(Decomposition decomposition, const Attrs& attrs) : decomposition_(decomposition) {
    if (decomposition == Decomposition::kCholesky) {
      leading_ = attrs.contains("leading");
    } else if (decomposition == Decomposition::kTriangularSolve) {
      adjoint_ = attrs.contains("adjoint");
      lower_ = attrs.get<bool>("lower");
      unit_diagonal_ = attrs.get<bool>("unit_diagonal");
    } else if (decomposition == Decomposition::kQr || decomposition == Decomposition::kSvd) {
      full_ = attrs.get<bool>("full");
    } else if (decomposition == Decomposition::kEig) {
      has_left_ = attrs.get<bool>("left");
      has_right_ = attrs.get<bool>("right");
    }
  }

  MatrixProblem problem_of(const Shape& matrices, const Shape& sides) const {
    return {.rows = matrices[matrices.size() - 2],
            .columns = matrices.back(),
            .sides = sides.back(),
            .full = full_,
            .lower = lower_,
            .unit_diagonal = unit_diagonal_,
            .adjoint = adjoint_,
            .leading = leading_};
  }

  Work work(Views inputs, Views) const override {
    const std::int64_t batches = batches_of(inputs[0].shape);
    const std::int64_t together = matrices_of_tile(problem_of(inputs));
    return {.tiles = std::max<std::int64_t>(1, (batches + together - 1) / together)};
  }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const std::int64_t batches = batches_of(inputs[0].shape);
    const MatrixProblem problem = problem_of(inputs);
    const std::int64_t together = matrices_of_tile(problem);
    const std::int64_t first = tile * together;
    const std::int64_t count = std::min(batches - first, together);
    with_matrix_type(inputs[0].dtype, [&](auto tag) {
      using T = decltype(tag);
      if (count <= 0) return;
      if (problem.least() == 0) {
        for (std::int64_t i = 0; i < count; ++i) decompose_nothing<T>(problem, outputs, batches, first + i);
      } else if (is_of_lapack(decomposition_)) {
        const ByLapack<T> lapack(lapack_of<T>(*blas()));
        for (std::int64_t i = 0; i < count; ++i) decompose_any(lapack, problem, inputs, outputs, batches, first + i);
      } else if ((is_small(problem) || blas() == nullptr) && leading_) {
        for (std::int64_t i = 0; i < count; ++i) factor_leading<T>(problem, inputs, outputs, batches, first + i);
      } else if ((is_small(problem) || blas() == nullptr) && adjoint_) {
        solve_with_adjoints<T>(problem, inputs, outputs, batches, first, count);
      } else if (is_small(problem) || blas() == nullptr) {
        decompose<T>(SmallMatrices<T>(count), problem, inputs, outputs, batches, first);
      } else {
        const ByLapack<T> lapack(lapack_of<T>(*blas()));
        for (std::int64_t i = 0; i < count; ++i) decompose<T>(lapack, problem, inputs, outputs, batches, first + i);
      }
    });
  }

 private:
  MatrixProblem problem_of(Views inputs) const { return problem_of(inputs.front().shape, inputs.back().shape); }

  // By the shape of matrices alone, as is all that may decide about bits.
  std::int64_t matrices_of_tile(const MatrixProblem& problem) const {
    const bool iterates = decomposition_ == Decomposition::kEigh || decomposition_ == Decomposition::kSvd ||
                          decomposition_ == Decomposition::kSchur || decomposition_ == Decomposition::kEig;
    const std::int64_t inner = decomposition_ == Decomposition::kTriangularSolve ? problem.sides : problem.left();
    const std::int64_t work = problem.rows * problem.columns * inner * (iterates ? kWorkOfIterations : 1);
    const std::int64_t count = std::max<std::int64_t>(1, kTileWork / std::max<std::int64_t>(1, work));
    return is_small(problem) ? (count + kMatricesTogether - 1) / kMatricesTogether * kMatricesTogether : count;
  }

  // The matrix, or those from there on, by whoever does it.
  template <class T, class Way>
  void decompose(const Way& way, const MatrixProblem& problem, Views inputs, Views outputs, std::int64_t batches,
                 std::int64_t first) const {
    const T* const a = matrix_at<T>(inputs[0], batches, first);
    T* const result = matrix_at<T>(outputs[0], batches, first);
    switch (decomposition_) {
      case Decomposition::kCholesky:
        return way.cholesky(problem, a, result);
      case Decomposition::kTriangularSolve:
        if (problem.sides == 0) return;
        return way.triangular_solve(problem, a, matrix_at<T>(inputs[1], batches, first), result);
      case Decomposition::kLu:
        return way.lu(problem, a, result, matrix_at<std::int32_t>(outputs[1], batches, first),
                      matrix_at<std::int32_t>(outputs[2], batches, first));
      case Decomposition::kQr:
        return way.qr(problem, a, result, matrix_at<T>(outputs[1], batches, first));
      case Decomposition::kEigh:
        return way.eigh(problem, a, matrix_at<RealOf<T>>(outputs[0], batches, first),
                        outputs.size() > 1 ? matrix_at<T>(outputs[1], batches, first) : nullptr);
      case Decomposition::kSvd:
        if (outputs.size() == 1) {
          return way.svd(problem, a, nullptr, matrix_at<RealOf<T>>(outputs[0], batches, first), nullptr);
        }
        return way.svd(problem, a, result, matrix_at<RealOf<T>>(outputs[1], batches, first),
                       matrix_at<T>(outputs[2], batches, first));
      default:
        return;
    }
  }

  // Those side by side in lanes are turned first.
  template <class T>
  void solve_with_adjoints(MatrixProblem problem, Views inputs, Views outputs, std::int64_t batches, std::int64_t first,
                           std::int64_t count) const {
    const std::int64_t n = problem.rows;
    if (problem.sides == 0) return;
    const Workspace<T> adjoints(count * n * n);
    const T* const a = matrix_at<T>(inputs[0], batches, first);
    for (std::int64_t k = 0; k < count * n * n; k += n * n) {
      MatrixTiles<T>::copy_transposed(a + k, n, adjoints.data() + k, n, n, n);
    }
    if constexpr (kIsComplexElement<T>) {
      std::transform(adjoints.data(), adjoints.data() + count * n * n, adjoints.data(),
                     [](const T& x) { return std::conj(x); });
    }
    problem.lower = !problem.lower;
    problem.adjoint = false;
    SmallMatrices<T>(count).triangular_solve(problem, adjoints.data(), matrix_at<T>(inputs[1], batches, first),
                                             matrix_at<T>(outputs[0], batches, first));
  }

  // All of a matrix as one tile.
  template <class T>
  void factor_leading(const MatrixProblem& problem, Views inputs, Views outputs, std::int64_t batches,
                      std::int64_t number) const {
    const TileKernels<T>& tiles = TileKernels<T>::shared();
    const auto n = static_cast<std::int32_t>(problem.rows);
    const T* const a = matrix_at<T>(inputs[0], batches, number);
    T* const result = matrix_at<T>(outputs[0], batches, number);
    const bool is_finite = MatrixTiles<T>::copy_finite(a, result, 0, n, n, true);
    const std::int32_t info = is_finite ? tiles.potrf(n, {result, n}) : 1;
    for (std::int32_t i = 0; i < n; ++i) {
      T* const row = result + std::int64_t{i} * n;
      if (info != 0 && i >= info - 1) fill_nan(row, i + 1);
      std::fill(row + i + 1, row + n, T{});
    }
  }

  // The same of those that LAPACK alone computes.
  template <class T>
  void decompose_any(const ByLapack<T>& lapack, const MatrixProblem& problem, Views inputs, Views outputs,
                     std::int64_t batches, std::int64_t number) const {
    using Complex = std::complex<RealOf<T>>;
    const T* const a = matrix_at<T>(inputs[0], batches, number);
    if (decomposition_ == Decomposition::kEig) {
      Complex* const left = has_left_ ? matrix_at<Complex>(outputs[1], batches, number) : nullptr;
      Complex* const right = has_right_ ? matrix_at<Complex>(outputs.back(), batches, number) : nullptr;
      return lapack.eig(problem, a, matrix_at<Complex>(outputs[0], batches, number), left, right);
    }
    T* const result = matrix_at<T>(outputs[0], batches, number);
    if (decomposition_ == Decomposition::kHouseholderProduct) {
      return lapack.householder_product(problem, a, matrix_at<T>(inputs[1], batches, number), result);
    }
    T* const second = matrix_at<T>(outputs[1], batches, number);
    if (decomposition_ == Decomposition::kHessenberg) return lapack.hessenberg(problem, a, result, second);
    lapack.schur(problem, a, result, second);
  }

  // Of matrices without rows or columns: what is orthonormal is the identity.
  template <class T>
  void decompose_nothing(const MatrixProblem& problem, Views outputs, std::int64_t batches, std::int64_t number) const {
    if (decomposition_ == Decomposition::kLu) {
      auto* const permutation = matrix_at<std::int32_t>(outputs[2], batches, number);
      std::iota(permutation, permutation + problem.rows, 0);
    } else if (decomposition_ == Decomposition::kQr || (decomposition_ == Decomposition::kSvd && outputs.size() > 1)) {
      fill_identity(matrix_at<T>(outputs[0], batches, number), problem.rows, problem.left());
    }
    if (decomposition_ == Decomposition::kSvd && outputs.size() > 1) {
      fill_identity(matrix_at<T>(outputs[2], batches, number), problem.right(), problem.columns);
    }
  }

  Decomposition decomposition_;
  bool full_ = false;
  bool has_left_ = false;
  bool has_right_ = false;
  bool lower_ = true;
  bool unit_diagonal_ = false;
  bool adjoint_ = false;
  bool leading_ = false;
};

std::unique_ptr<Kernel> kernel_of(Decomposition decomposition, const Graph& graph, const Eqn& eqn) {
  if (is_of_lapack(decomposition) && blas() == nullptr) {
    throw Unsupported(fmt::format("{} needs LAPACK, which the plugin blas has not brought", eqn.op->name), eqn.where);
  }
  auto kernel = std::make_unique<DecompositionKernel>(decomposition, eqn.attrs);
  const Type& type = graph.type(eqn.inputs[0]);
  const MatrixProblem problem = kernel->problem_of(type.shape, graph.type(eqn.inputs.back()).shape);
  const bool fits =
      std::max({problem.rows, problem.columns, problem.sides}) <= std::numeric_limits<std::int32_t>::max() &&
      (decomposition != Decomposition::kEigh || ByLapack<double>::can_eigh(problem)) &&
      (decomposition != Decomposition::kSvd || ByLapack<double>::can_svd(problem));
  if (!fits) {
    throw Unsupported(fmt::format("{} of {} is too large for LAPACK", eqn.op->name, to_string(type)), eqn.where);
  }
  return kernel;
}

}  // namespace

std::unique_ptr<Kernel> cholesky_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kCholesky, graph, eqn);
}

std::unique_ptr<Kernel> triangular_solve_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kTriangularSolve, graph, eqn);
}

std::unique_ptr<Kernel> lu_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kLu, graph, eqn);
}

std::unique_ptr<Kernel> qr_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kQr, graph, eqn);
}

std::unique_ptr<Kernel> eigh_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kEigh, graph, eqn);
}

std::unique_ptr<Kernel> svd_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kSvd, graph, eqn);
}

std::unique_ptr<Kernel> hessenberg_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kHessenberg, graph, eqn);
}

std::unique_ptr<Kernel> householder_product_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kHouseholderProduct, graph, eqn);
}

std::unique_ptr<Kernel> schur_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kSchur, graph, eqn);
}

std::unique_ptr<Kernel> eig_kernel(const Graph& graph, const Eqn& eqn) {
  return kernel_of(Decomposition::kEig, graph, eqn);
}

}  // namespace shoal::cpu
