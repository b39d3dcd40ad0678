// Permutations, and choices among parts of an array and among categories.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/random.h"

namespace shoal::random {
namespace {

// The value of an integer scalar that stands for the numbers below it.
std::int64_t count_of(const Operand& x) {
  const DtypeAndWeakness element = element_of(x);
  if (!is_integer(element.dtype)) {
    throw misuse<TypeMismatch>("{} is neither an integer nor an array of at least one dimension", type_of(to_array(x)));
  }
  const Scalar value = x.number() != nullptr ? to_scalar(*x.number(), int64) : detail::scalar_value(*x.array());
  return value.converted_to(int64).as<std::int64_t>();
}

Array numbers_below(std::int64_t count) { return lax::iota(int32, std::max<std::int64_t>(count, 0)); }

// x sorted along an axis by random keys. Keys of 32 bits collide: after k rounds two elements kept their order only if
// they did so each time, and so many rounds are made that this is as unlikely as with keys of n^3 values.
Array shuffled(Array key, Array x, std::int64_t axis) {
  const double size = std::max(1.0, static_cast<double>(x.size()));
  const auto rounds = static_cast<int>(std::ceil(3 * std::log(size) / std::log(4294967295.0)));
  for (int round = 0; round < rounds; ++round) {
    const Array keys = split_key(key, {2});
    key = key_at(keys, 0);
    const Array order = random_bits(key_at(keys, 1), 32, x.shape());
    x = lax::sort({order, x}, {.dimension = axis, .num_keys = 1})[1];
  }
  return x;
}

Array permuted(const Array& key, const Array& x, std::int64_t axis, bool independent) {
  if (independent || x.ndim() == 1) return shuffled(key, x, axis);
  return take(x, shuffled(key, numbers_below(extent_of(x, axis)), 0), {.axis = axis, .mode = IndexMode::kClip});
}

}  // namespace

Array permutation(const Operand& key, const Operand& x, const PermutationOptions& options) {
  const Caller caller("permutation", key.where());
  const Array single = single_key(key);
  const std::size_t rank = shape_of(x).size();
  const std::int64_t axis = canonical_axis(options.axis, std::max<std::size_t>(rank, 1));
  if (rank == 0) return shuffled(single, numbers_below(count_of(x)), 0);
  return permuted(single, *x.array(), axis, options.independent);
}

Array choice(const Operand& key, const Operand& a, const Shape& shape, const ChoiceOptions& options) {
  const Caller caller("choice", key.where());
  check_extents(shape);
  const Array single = single_key(key);
  const Shape parts = shape_of(a);
  const std::int64_t axis = parts.empty() ? 0 : canonical_axis(options.axis, parts.size());
  const std::int64_t count = parts.empty() ? count_of(a) : extent_of(*a.array(), axis);
  const std::int64_t draws = num_elements(shape);
  if (draws == 0) return zeros(shape, {.dtype = element_of(a).dtype});
  if (count <= 0) throw misuse<InvalidArgument>("there is nothing to choose from: a has {} parts", count);
  if (!options.replace && draws > count) {
    throw misuse<InvalidArgument>("cannot choose {} of {} without replacement", draws, count);
  }
  // The parts at positions, in the wanted shape.
  const auto chosen = [&](const Array& positions) {
    if (parts.empty()) return reshape(positions, shape);
    const Array result = take(*a.array(), positions, {.axis = axis, .mode = IndexMode::kClip});
    const auto at = parts.begin() + axis;
    return reshape(result, joined(joined(Shape(parts.begin(), at), shape), Shape(at + 1, parts.end())));
  };
  if (!options.p) {
    if (options.replace) return chosen(randint(key, shape, 0, count));
    return chosen(lax::slice_in_dim(shuffled(single, numbers_below(count), 0), 0, draws));
  }
  const Array p = convert(*options.p, inexact_dtype(options.p->dtype()));
  if (p.shape() != Shape{count}) {
    throw misuse<InvalidArgument>("p has shape {}; it must be a vector of {}, one for each part", to_string(p.shape()),
                                  count);
  }
  if (!options.replace) {
    const Array noisy = gumbel(key, {count}, p.dtype(), options.mode) + log(p);
    return chosen(lax::top_k(noisy, draws).second);
  }
  const Array sums = cumsum(p);
  return chosen(searchsorted(sums, sums[-1] * (1.0 - uniform(key, shape, p.dtype()))));
}

Array categorical(const Operand& key, const Operand& logits, const CategoricalOptions& options) {
  const Caller caller("categorical", key.where());
  const Array all = to_array(logits);
  const std::int64_t axis = canonical_axis(options.axis, all.ndim());
  Shape batches = all.shape();
  batches.erase(batches.begin() + axis);
  const Shape wanted = sample_shape(options.shape, {batches});
  const Shape prefix(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(batches.size()));
  const std::int64_t classes = extent_of(all, axis);
  if (options.replace) {
    // Batches of extent 1 have noise of their own in each place that they broadcast to.
    Shape noise(wanted.begin() + static_cast<std::ptrdiff_t>(prefix.size()), wanted.end());
    noise.insert(noise.begin() + axis, classes);
    const Array noisy = gumbel(key, joined(prefix, noise), all.dtype(), options.mode) + all;
    return argmax(noisy, {.axis = axis - static_cast<std::int64_t>(all.ndim())});
  }
  const std::int64_t draws = num_elements(prefix);
  if (draws > classes) {
    throw misuse<InvalidArgument>("cannot draw {} of {} categories without replacement", draws, classes);
  }
  const Array noisy = all + gumbel(key, all.shape(), all.dtype(), options.mode);
  const Array greatest = lax::top_k(moveaxis(noisy, axis, -1), draws).second;
  return reshape(moveaxis(greatest, -1, 0), wanted);
}

}  // namespace shoal::random
