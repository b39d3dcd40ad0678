// Random numbers: the functions of jax.random.
//
// They have no state: what they give depends on the key, the shape, the dtype and the parameters alone, and not on how
// the result is split over devices. The same key gives the same numbers again; split and fold_in make further keys. The
// bits are those of JAX on CPUs, and so are the samples, those computed by functions as log and pow up to a few
// roundings.
//
// There are three implementations. threefry2x32 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy
// as 1, 2, 3"; 20 rounds, as jax_threefry_partitionable has it) is the default. rbg draws bits by their Philox 4x32
// with 10 rounds, and makes keys of keys by Threefry; unsafe_rbg makes those by Philox, too, of which less is known.
//
// Each device makes its own part of what is split. Where Explicit axes shall split samples, reshard says how, or
// auto_axes where parameters are split in another way.
//
// A key is an array of a dtype of its implementation, as key_fry, "key<fry>", of which nothing else is computed; or
// raw, uint32[2] or uint32[4], of the default implementation. What is made of a key is of its kind. vmap maps over
// many. A function throws TypeMismatch for an array that is no key, and InvalidArgument for an array of keys.
//
// dtype is that of the samples; a function of floats throws InvalidArgument for others. Where a function has
// parameters, shape is what these broadcast to unless it is given, and throws InvalidArgument if it is given and they
// do not broadcast to it. Parameters whose dtype is wider than that of the samples throw InvalidArgument where JAX does
// not round them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "shoal/array.h"
#include "shoal/numpy.h"

namespace shoal::random {

/// The shape of a sample; none: what its parameters broadcast to.
class SampleShape {
 public:
  SampleShape() = default;
  SampleShape(None) {}
  SampleShape(std::initializer_list<std::int64_t> extents) : shape_(Shape(extents)) {}
  SampleShape(Shape shape) : shape_(std::move(shape)) {}
  const std::optional<Shape>& get() const { return shape_; }

 private:
  std::optional<Shape> shape_;
};

// ---- Keys.

/// What makes numbers of a key: "threefry2x32", "rbg" or "unsafe_rbg"; nothing stands for the default. Functions that
/// take one throw InvalidArgument for other names.
using Implementation = std::optional<std::string>;

/// The default implementation of this process, "threefry2x32" at first.
void set_default_implementation(const std::string& name, SourceLocation where = SourceLocation::current());
std::string default_implementation();
/// The dtype of the keys of an implementation.
Dtype key_dtype(const Implementation& impl = {}, SourceLocation where = SourceLocation::current());

/// The key that an integer stands for. A number counts by its lower 32 bits, an array of 64 bits by all of them. Throws
/// TypeMismatch for other dtypes and for an array that is no scalar.
Array key(const Operand& seed, const Implementation& impl = {});
/// The same as a raw key.
Array PRNGKey(const Operand& seed, const Implementation& impl = {});
/// The keys that raw ones, uint32[..., 2], or uint32[..., 4] of rbg and unsafe_rbg, are the bits of. Throws
/// TypeMismatch for other arrays.
Array wrap_key_data(const Operand& bits, const Implementation& impl = {});
/// The bits of keys, uint32[..., 2] or uint32[..., 4]; of raw ones themselves.
Array key_data(const Operand& keys);
/// The name of the implementation that keys are of. Throws TypeMismatch for what is no key.
std::string key_impl(const Operand& keys);
/// Keys in a shape; raw ones are along a new dimension behind it. `shape` is mostly their number.
Array split(const Operand& key, std::int64_t num = 2);
Array split(const Operand& key, const Shape& shape);
/// A key made of a key and a number, of which the lower 32 bits count. Throws TypeMismatch for an array that is no
/// scalar, and OutOfRange for a C++ number that u32 does not hold.
Array fold_in(const Operand& key, const Operand& data);
/// The same key, for a use of its own.
Array clone(const Operand& key);

// ---- Uniform.

/// Random bits, as unsigned integers. Throws InvalidArgument for other dtypes.
Array bits(const Operand& key, const Shape& shape = {}, Dtype dtype = uint32);
/// Numbers from minval up to, but not including, maxval, which broadcast to the shape.
Array uniform(const Operand& key, const Shape& shape = {}, Dtype dtype = float32, const Operand& minval = 0.0,
              const Operand& maxval = 1.0);
/// Integers from minval up to maxval - 1, which broadcast to the shape; minval where there are none. By the remainders
/// of twice as many bits. Throws TypeMismatch for a dtype of no integers.
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              Dtype dtype = int32);
/// Whether something of probability p happened. In mode "high" also probabilities below the distance of numbers next to
/// 1 are exact, at twice the cost; "low" is the other. Throws TypeMismatch for a p that is no float, and
/// InvalidArgument for other modes.
Array bernoulli(const Operand& key, const Operand& p = 0.5, const SampleShape& shape = {},
                const std::string& mode = "low");
/// -1 or 1.
Array rademacher(const Operand& key, const Shape& shape = {}, Dtype dtype = int32);

// ---- Permutations and choices.

struct PermutationOptions {
  std::int64_t axis = 0;
  bool independent = false;  ///< Each vector along the axis is permuted by itself.
};
/// The parts of x along an axis in random order; of an integer, the numbers below it. By sorting random keys, so often
/// that collisions do not matter. Throws TypeMismatch for a number that is no integer.
Array permutation(const Operand& key, const Operand& x, const PermutationOptions& options = {});

struct ChoiceOptions {
  bool replace = true;          ///< Whether a part may be chosen several times.
  std::optional<Array> p = {};  ///< The probability of each part; default: equal ones.
  std::int64_t axis = 0;        ///< Along which the parts of an array lie.
  std::string mode = "low";     ///< As of gumbel, for choices by probabilities without replacement.
};
/// Parts of `a` along an axis; of an integer, numbers below it. The shape stands in the place of the axis. Throws
/// InvalidArgument if there is nothing to choose from, or not enough without replacement.
Array choice(const Operand& key, const Operand& a, const Shape& shape = {}, const ChoiceOptions& options = {});

struct CategoricalOptions {
  std::int64_t axis = -1;    ///< Along which the categories lie.
  SampleShape shape = {};    ///< Ends with the shape of logits without the axis, which is the default.
  bool replace = true;       ///< Whether samples of one distribution may be equal.
  std::string mode = "low";  ///< As of gumbel.
};
/// Positions along an axis, i32, with probabilities softmax(logits): by the maximum of the logits and Gumbel noise
/// (Gumbel 1954; without replacement the greatest ones, Vieira 2014).
Array categorical(const Operand& key, const Operand& logits, const CategoricalOptions& options = {});

// ---- The normal distribution and what is made of it.

/// Normal numbers of mean 0 and variance 1, by the inverse of the error function. Also of complex numbers: the
/// variances of their parts are 1/2.
Array normal(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);
/// The same between lower and upper.
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const SampleShape& shape = {},
                       Dtype dtype = float32);
struct MultivariateNormalOptions {
  std::optional<Dtype> dtype = {};  ///< Default: that of mean and cov.
  std::string method = "cholesky";  ///< How cov is taken apart: "svd" and "eigh" also take singular matrices.
};
/// Vectors with a mean and a matrix of covariances. `shape` is that of the batches. Throws InvalidArgument for a mean
/// that is no vector of n, a cov that is no n × n matrix, and for other methods.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const SampleShape& shape = {},
                          const MultivariateNormalOptions& options = {});
/// exp of sigma times a normal number, real or complex.
Array lognormal(const Operand& key, const Operand& sigma = 1.0, const SampleShape& shape = {}, Dtype dtype = float32);
/// The length of three normal numbers.
Array maxwell(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);
/// loc, plus or minus scale times a number of maxwell. The shape of the parameters is added to a shape that is given.
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape = {},
                           Dtype dtype = float32);
/// scale sqrt(-2 log(u)): the length of two normal numbers.
Array rayleigh(const Operand& key, const Operand& scale, const SampleShape& shape = {}, Dtype dtype = float32);
/// The inverse Gaussian distribution of variance mean^3: Michael, Schucany and Haas 1976.
Array wald(const Operand& key, const Operand& mean, const SampleShape& shape = {}, Dtype dtype = float32);
/// Matrices n × m, n if m is not given, whose columns (or rows, if those are fewer) are orthonormal, uniformly among
/// all: Mezzadri 2007, "How to generate random matrices from the classical compact groups". Also complex.
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape = {}, Dtype dtype = float32,
                 std::optional<std::int64_t> m = {});

// ---- Other distributions whose inverse is a formula.

Array exponential(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);  ///< Of mean 1.
Array laplace(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);      ///< Of mean 0 and scale 1.
Array logistic(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);     ///< Of mean 0 and scale 1.
Array cauchy(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);       ///< Of location 0 and scale 1.
/// -log(-log(u)). With "low" the greatest is about 16 in f32; "high" and "highest" take more bits for those that are
/// great. Throws InvalidArgument for other modes.
Array gumbel(const Operand& key, const Shape& shape = {}, Dtype dtype = float32, const std::string& mode = "low");
/// scale (-log(1 - u))^(1 / concentration). The parameters broadcast with the shape.
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape = {},
                  Dtype dtype = float32);
/// From 1 on, with density b x^(-b - 1).
Array pareto(const Operand& key, const Operand& b, const SampleShape& shape = {}, Dtype dtype = float32);
/// Between left and right, with a density that rises up to mode and then falls, both linearly.
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const SampleShape& shape = {}, Dtype dtype = float32);

// ---- The gamma distribution and what is made of it.
//
// Method "exact" rejects samples (Marsaglia and Tsang 2000, "A simple method for generating gamma variables"), each
// with keys of its own. "approximate" has no loop: it has the quantiles of Goldstein 1973, "Algorithm 451", right to
// 0.05 %. Other methods throw InvalidArgument.

/// Of shape a and scale 1.
Array gamma(const Operand& key, const Operand& a, const SampleShape& shape = {}, Dtype dtype = float32,
            const std::string& method = "exact");
/// The logarithm of the same, which is exact also for a small a.
Array loggamma(const Operand& key, const Operand& a, const SampleShape& shape = {}, Dtype dtype = float32,
               const std::string& method = "exact");
/// Between 0 and 1, with density x^(a - 1) (1 - x)^(b - 1), normalized.
Array beta(const Operand& key, const Operand& a, const Operand& b, const SampleShape& shape = {}, Dtype dtype = float32,
           const std::string& method = "exact");
/// Vectors of positive numbers with sum 1, as many as the last dimension of alpha has; shape is that of the batches.
Array dirichlet(const Operand& key, const Operand& alpha, const SampleShape& shape = {}, Dtype dtype = float32);
/// The sum of the squares of df normal numbers.
Array chisquare(const Operand& key, const Operand& df, const SampleShape& shape = {}, Dtype dtype = float32,
                const std::string& method = "exact");
/// Student's distribution with df degrees of freedom.
Array t(const Operand& key, const Operand& df, const SampleShape& shape = {}, Dtype dtype = float32);
/// The quotient of two mean squares, with dfnum and dfden degrees of freedom.
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const SampleShape& shape = {},
        Dtype dtype = float32);
/// With density exp(-|x|^p), normalized. p broadcasts to the shape.
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape = {}, Dtype dtype = float32);
/// Points of the ball of d dimensions, where |x_1|^p + … + |x_d|^p <= 1: Barthe, Guédon, Mendelson and Naor 2005, "A
/// probabilistic approach to the geometry of the l_p^n-ball". The shape is that of the batches.
Array ball(const Operand& key, std::int64_t d, const Operand& p = 2, const Shape& shape = {}, Dtype dtype = float32);

// ---- Counts.

/// How often something happens that does so lam times in the mean; -1 for a negative lam or NaN. "exact": below 10 by
/// Knuth's products of uniform numbers, else by Hörmann 1993, "The transformed rejection method for generating Poisson
/// random variables". "approximate" has no loop, and is off by 1e-4 in probability: the approximation of Peizer and
/// Pratt 1968, or sums of probabilities below 7. Other methods throw InvalidArgument.
Array poisson(const Operand& key, const Operand& lam, const SampleShape& shape = {}, Dtype dtype = int32,
              const std::string& method = "exact");
/// How often something of probability p happens in n trials, as a float; NaN for a negative n and a p that is none.
/// By counting geometric distances where n p is at most 10, else by Hörmann 1993, "The generation of binomial random
/// variates".
Array binomial(const Operand& key, const Operand& n, const Operand& p, const SampleShape& shape = {},
               Dtype dtype = float32);
struct MultinomialOptions {
  SampleShape shape = {};           ///< Of the batches.
  std::optional<Dtype> dtype = {};  ///< Default: that of n and p.
};
/// How often each of several things happens in n trials; their probabilities lie along the last dimension of p.
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MultinomialOptions& options = {});
/// How many trials there are until something of probability p happens for the first time. Throws InvalidArgument for a
/// dtype of no integers.
Array geometric(const Operand& key, const Operand& p, const SampleShape& shape = {}, Dtype dtype = int32);

}  // namespace shoal::random
