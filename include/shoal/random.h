// Random numbers: the functions of jax.random.
//
// They have no state: samples depend only on the key, the shape, the dtype and the parameters, and not on how the
// result is split over devices. The same key gives the same numbers again; split and fold_in make further keys. The
// bits are those of JAX on CPUs, and so are the samples, up to a few roundings for those that are computed by functions
// such as log and pow.
//
// There are three implementations. threefry2x32 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy
// as 1, 2, 3"; 20 rounds, as jax_threefry_partitionable has it) is the default. rbg draws bits by Philox 4x32 of the
// same authors, with 10 rounds, and makes keys from keys by Threefry; unsafe_rbg makes keys by Philox, too, which is
// less well studied.
//
// Each device makes its own part of a sample that is split. To split samples over Explicit axes use reshard, or
// auto_axes if the parameters are split in another way.
//
// A key is an array whose dtype is that of its implementation, as key_fry, "key<fry>", and which only these functions
// take; or raw, uint32[2] or uint32[4], of the default implementation. Keys made from a key are of its kind. vmap maps
// over many keys. Throws TypeMismatch for an array that is not a key, and InvalidArgument for an array of
// keys.
//
// dtype is that of the samples; functions that draw floats throw InvalidArgument for other dtypes. Where a function has
// parameters, shape is by default the shape to which these broadcast; if a shape is given to which they do not
// broadcast, InvalidArgument is thrown. Parameters with a wider dtype than the samples throw InvalidArgument where JAX
// does not round them.
//
// @param key A key of random numbers, as of random::key.
// @param shape The shape of the sample.
// @param dtype The dtype of the samples.
// @param mode "low" or "high": how exact samples are whose probability is small.
// @param method "exact" or "approximate".
// @param impl The implementation; the default one if none is given.
// @return An array of the shape and dtype of the sample.
// @param extents The extents.
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

/// The name of a generator: "threefry2x32", "rbg" or "unsafe_rbg"; nullopt: the default. Functions that take one throw
/// InvalidArgument for other names.
using Implementation = std::optional<std::string>;

/// The default implementation of this process, "threefry2x32" at first.
/// @param name "threefry2x32", "rbg" or "unsafe_rbg".
void set_default_implementation(const std::string& name, SourceLocation where = SourceLocation::current());
std::string default_implementation();
/// The dtype of the keys of an implementation.
Dtype key_dtype(const Implementation& impl = {}, SourceLocation where = SourceLocation::current());

/// The key of an integer seed. The lower 32 bits of a number count, and all bits of an array of 64-bit integers. Throws
/// TypeMismatch for other dtypes and for an array that is not a scalar.
/// @param seed An integer scalar.
/// @return A key: a scalar.
/// @example random::bits(random::key(0))
///   4070199207
Array key(const Operand& seed, const Implementation& impl = {});
/// The same as a raw key.
/// @param seed An integer scalar.
/// @return uint32[2], or uint32[4].
/// @example random::PRNGKey(1)
///   [0 1]
Array PRNGKey(const Operand& seed, const Implementation& impl = {});
/// Keys with the bits of raw ones, uint32[..., 2], or uint32[..., 4] for rbg and unsafe_rbg. Throws TypeMismatch for
/// other arrays.
/// @param bits The bits, along the last dimension.
/// @return Keys, without that dimension.
Array wrap_key_data(const Operand& bits, const Implementation& impl = {});
/// The bits of keys, uint32[..., 2] or uint32[..., 4]; raw keys are returned as they are.
/// @param keys Keys of any shape.
/// @example random::key_data(random::key(1))
///   [0 1]
Array key_data(const Operand& keys);
/// The name of the implementation of keys. Throws TypeMismatch for an array that is not a key.
/// @param keys Keys of any shape.
std::string key_impl(const Operand& keys);
/// `num` keys, or an array of keys with this shape; raw keys lie along a new last dimension.
/// @param num How many keys.
/// @param shape The shape of the array of keys.
/// @return Keys, all of them different from `key`.
/// @example random::key_data(random::split(random::key(0)))
///   [[1797259609 2579123966]
///    [ 928981903 3453687069]]
Array split(const Operand& key, std::int64_t num = 2);
Array split(const Operand& key, const Shape& shape);
/// A key made from a key and the lower 32 bits of a number. Throws TypeMismatch for an array that is not a scalar, and
/// OutOfRange for a C++ number that u32 cannot hold.
/// @param data An integer scalar, such as the number of a step.
/// @return A key.
Array fold_in(const Operand& key, const Operand& data);
/// The same key, marked as unused: see debug::check_key_reuse.
/// @return A key.
Array clone(const Operand& key);

// ---- Uniform.
// @param minval The least number.
// @param maxval The number above the greatest one.

/// Random bits, as unsigned integers. Throws InvalidArgument for other dtypes.
/// @param dtype An unsigned integer type.
Array bits(const Operand& key, const Shape& shape = {}, Dtype dtype = uint32);
/// Numbers from minval up to, but not including, maxval, which broadcast to the shape.
/// @example random::uniform(random::key(0), {3})
///   [0.947667   0.9785799  0.33229148]
Array uniform(const Operand& key, const Shape& shape = {}, Dtype dtype = float32, const Operand& minval = 0.0,
              const Operand& maxval = 1.0);
/// Integers from minval up to maxval - 1, which broadcast to the shape; minval if that range is empty. Computed as
/// remainders of twice as many bits. Throws TypeMismatch for a dtype that is not an integer type.
/// @example random::randint(random::key(0), {3}, 0, 10)
///   [9 0 2]
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              Dtype dtype = int32);
/// Booleans that are true with probability p (Bernoulli). Mode "high" is exact even for p below one unit in the last
/// place of 1, at twice the cost; "low" is the other mode. Throws TypeMismatch for a p that is not a float, and
/// InvalidArgument for other modes.
/// @param p The probability of true.
/// @return bool.
Array bernoulli(const Operand& key, const Operand& p = 0.5, const SampleShape& shape = {},
                const std::string& mode = "low");
/// -1 or 1.
/// @return Numbers -1 and 1.
Array rademacher(const Operand& key, const Shape& shape = {}, Dtype dtype = int32);

// ---- Permutations and choices.

struct PermutationOptions {
  std::int64_t axis = 0;     ///< The dimension whose slices are put in another order.
  bool independent = false;  ///< Each vector along the axis is permuted on its own.
};
/// The slices of x along an axis in random order; for an integer, the numbers below it. Computed by sorting random
/// keys, so often that collisions do not matter. Throws TypeMismatch for a number that is not an integer.
/// @param x An array, or an integer.
/// @return An array of the shape of x, or a vector of numbers.
/// @example random::permutation(random::key(0), 5)
///   [0 1 4 3 2]
Array permutation(const Operand& key, const Operand& x, const PermutationOptions& options = {});

struct ChoiceOptions {
  bool replace = true;          ///< Whether a slice may be chosen several times.
  std::optional<Array> p = {};  ///< The probability of each slice; default: equal ones.
  std::int64_t axis = 0;        ///< The axis of an array whose slices are chosen.
  std::string mode = "low";     ///< As in gumbel, for choices by probabilities without replacement.
};
/// Slices of `a` along an axis; for an integer, numbers below it. The shape takes the place of the axis. Throws
/// InvalidArgument if there is nothing to choose from, or not enough without replacement.
/// @param a An array, or an integer.
/// @param shape How many slices, as a shape; one when not given.
Array choice(const Operand& key, const Operand& a, const Shape& shape = {}, const ChoiceOptions& options = {});

struct CategoricalOptions {
  std::int64_t axis = -1;    ///< The axis of the categories.
  SampleShape shape = {};    ///< Ends with the shape of logits without the axis, which is the default.
  bool replace = true;       ///< Whether samples of one distribution may be equal.
  std::string mode = "low";  ///< As in gumbel.
};
/// Positions along an axis, i32, with probabilities softmax(logits): the maximum of logits plus Gumbel noise (Gumbel
/// 1954) or, without replacement, the greatest ones (Vieira 2014).
/// @param logits The logarithms of probabilities, up to a constant.
/// @return i32.
Array categorical(const Operand& key, const Operand& logits, const CategoricalOptions& options = {});

// ---- The normal distribution, and distributions computed from it.

/// Normally distributed numbers of mean 0 and variance 1, by the inverse error function. In complex numbers both parts
/// have variance 1/2.
/// @example random::normal(random::key(0), {3})
///   [ 1.6226422   2.0252647  -0.43359444]
Array normal(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);
/// The same, truncated to the range from lower to upper.
/// @param lower The least number.
/// @param upper The greatest one.
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const SampleShape& shape = {},
                       Dtype dtype = float32);
struct MultivariateNormalOptions {
  std::optional<Dtype> dtype = {};  ///< Default: that of mean and cov.
  std::string method = "cholesky";  ///< How cov is factored: "svd" and "eigh" also take singular matrices.
};
/// Normally distributed vectors with this mean and covariance matrix. `shape` is that of the batches. Throws
/// InvalidArgument for a mean that is not a vector of n, for a cov that is not an n × n matrix, and for other methods.
/// @param mean A vector of n means, with batches before.
/// @param cov A matrix n × n of covariances, with batches before.
/// @return Vectors of n, after the shape of the batches.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const SampleShape& shape = {},
                          const MultivariateNormalOptions& options = {});
/// exp of sigma times a normal number, real or complex.
/// @param sigma The deviation of the logarithms.
Array lognormal(const Operand& key, const Operand& sigma = 1.0, const SampleShape& shape = {}, Dtype dtype = float32);
/// The length of a vector of three normally distributed numbers.
Array maxwell(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);
/// loc, plus or minus scale times a number of maxwell. The shape of the parameters is appended to a shape that is
/// given.
/// @param loc The middle.
/// @param scale The scale.
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape = {},
                           Dtype dtype = float32);
/// scale sqrt(-2 log(u)): the length of two normal numbers.
/// @param scale The scale.
Array rayleigh(const Operand& key, const Operand& scale, const SampleShape& shape = {}, Dtype dtype = float32);
/// The inverse Gaussian distribution of variance mean^3: Michael, Schucany and Haas 1976.
/// @param mean The mean.
Array wald(const Operand& key, const Operand& mean, const SampleShape& shape = {}, Dtype dtype = float32);
/// Matrices n × m, n if m is not given, whose columns (or rows, if those are fewer) are orthonormal, uniformly among
/// all: Mezzadri 2007, "How to generate random matrices from the classical compact groups". Also complex.
/// @param n The number of rows.
/// @param shape The shape of the batches.
/// @param m The number of columns.
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape = {}, Dtype dtype = float32,
                 std::optional<std::int64_t> m = {});

// ---- Other distributions whose inverse is a formula.

Array exponential(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);  ///< Of mean 1.
Array laplace(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);      ///< Of mean 0 and scale 1.
Array logistic(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);     ///< Of mean 0 and scale 1.
Array cauchy(const Operand& key, const Shape& shape = {}, Dtype dtype = float32);       ///< Of location 0 and scale 1.
/// -log(-log(u)). In mode "low" the greatest sample is about 16 in f32; "high" and "highest" use more bits for great
/// ones. Throws InvalidArgument for other modes.
Array gumbel(const Operand& key, const Shape& shape = {}, Dtype dtype = float32, const std::string& mode = "low");
/// scale (-log(1 - u))^(1 / concentration). The parameters broadcast with the shape.
/// @param scale The scale.
/// @param concentration The shape of the distribution.
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape = {},
                  Dtype dtype = float32);
/// From 1 on, with density b x^(-b - 1).
/// @param b The shape of the distribution, positive.
Array pareto(const Operand& key, const Operand& b, const SampleShape& shape = {}, Dtype dtype = float32);
/// Between left and right, with a density that rises up to mode and then falls, both linearly.
/// @param left The least number.
/// @param mode The most frequent one.
/// @param right The greatest one.
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const SampleShape& shape = {}, Dtype dtype = float32);

// ---- The gamma distribution, and distributions computed from it.
//
// Method "exact" rejects samples (Marsaglia and Tsang 2000, "A simple method for generating gamma variables"), each of
// which has keys of its own. "approximate" has no loop: it uses the quantiles of Goldstein 1973, "Algorithm 451", which
// are right to 0.05 %. Throws InvalidArgument for other methods.
// @param a The shape of the distribution, positive.
// @param b The other shape, positive.
// @param df The number of degrees of freedom, positive.

/// The gamma distribution of shape a and scale 1.
Array gamma(const Operand& key, const Operand& a, const SampleShape& shape = {}, Dtype dtype = float32,
            const std::string& method = "exact");
/// The logarithm of such numbers, which is accurate also for a small a.
Array loggamma(const Operand& key, const Operand& a, const SampleShape& shape = {}, Dtype dtype = float32,
               const std::string& method = "exact");
/// Between 0 and 1, with density x^(a - 1) (1 - x)^(b - 1), normalized.
Array beta(const Operand& key, const Operand& a, const Operand& b, const SampleShape& shape = {}, Dtype dtype = float32,
           const std::string& method = "exact");
/// Vectors of positive numbers with sum 1, as many as the last dimension of alpha has; shape is that of the batches.
/// @param alpha The concentrations, positive, along the last dimension.
Array dirichlet(const Operand& key, const Operand& alpha, const SampleShape& shape = {}, Dtype dtype = float32);
/// The sum of the squares of df normal numbers.
Array chisquare(const Operand& key, const Operand& df, const SampleShape& shape = {}, Dtype dtype = float32,
                const std::string& method = "exact");
/// Student's distribution with df degrees of freedom.
Array t(const Operand& key, const Operand& df, const SampleShape& shape = {}, Dtype dtype = float32);
/// The quotient of two mean squares, with dfnum and dfden degrees of freedom.
/// @param dfnum The degrees of freedom of the dividend.
/// @param dfden Those of the divisor.
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const SampleShape& shape = {},
        Dtype dtype = float32);
/// With density exp(-|x|^p), normalized. p broadcasts to the shape.
/// @param p The power in the exponent, positive.
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape = {}, Dtype dtype = float32);
/// Points of the ball of d dimensions, where |x_1|^p + … + |x_d|^p <= 1: Barthe, Guédon, Mendelson and Naor 2005, "A
/// probabilistic approach to the geometry of the l_p^n-ball". The shape is that of the batches.
/// @param d The number of dimensions.
/// @param p The power of the norm, positive.
/// @param shape The shape of the batches.
/// @return Points along the last dimension, d.
Array ball(const Operand& key, std::int64_t d, const Operand& p = 2, const Shape& shape = {}, Dtype dtype = float32);

// ---- Counts.
// @param p The probability of an event.
// @param n The number of trials.

/// Poisson distributed counts of mean lam; -1 for a negative lam or NaN. "exact": below 10 by Knuth's products of
/// uniform numbers, else by Hörmann 1993, "The transformed rejection method for generating Poisson random variables".
/// "approximate" has no loop, and its probabilities are off by 1e-4: the approximation of Peizer and Pratt 1968, or
/// sums of probabilities below 7. Other methods throw InvalidArgument.
/// @param lam The mean.
Array poisson(const Operand& key, const Operand& lam, const SampleShape& shape = {}, Dtype dtype = int32,
              const std::string& method = "exact");
/// Binomially distributed counts, of events of probability p in n trials, as floats; NaN for a negative n, and for a p
/// that is not a probability. Computed by counting geometric distances where n p is at most 10, else by Hörmann 1993,
/// "The generation of binomial random variates".
Array binomial(const Operand& key, const Operand& n, const Operand& p, const SampleShape& shape = {},
               Dtype dtype = float32);
struct MultinomialOptions {
  SampleShape shape = {};           ///< Of the batches.
  std::optional<Dtype> dtype = {};  ///< Default: that of n and p.
};
/// Multinomially distributed counts: how often each category occurs in n trials, with probabilities along the last
/// dimension of p.
/// @param p Probabilities, along the last dimension.
/// @return Counts along the last dimension.
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MultinomialOptions& options = {});
/// Geometrically distributed counts: the number of trials up to the first event of probability p. Throws
/// InvalidArgument for a dtype that is not an integer type.
Array geometric(const Operand& key, const Operand& p, const SampleShape& shape = {}, Dtype dtype = int32);

}  // namespace shoal::random
