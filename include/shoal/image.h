// Images in another size, as in jax.image. Dimensions that keep their extent stay where they are; those that are
// resampled are made whole.
//
// @param image The image.
// @param shape The extents of the result.
// @param method What a new element is made of.
// @return An array of these extents, of floats unless the nearest element is taken.
#pragma once

#include <cstdint>
#include <string_view>

#include "shoal/array.h"

namespace shoal::image {

/// What a new element is made of. Each is interpolating: in its own size an image stays as it is.
enum class ResizeMethod : std::uint8_t {
  kNearest,       ///< The nearest element.
  kLinear,        ///< The two neighbours, by their distance.
  kLanczos3,      ///< Six neighbours, by the window of Lanczos with radius 3.
  kLanczos5,      ///< Ten neighbours, by that with radius 5.
  kCubic,         ///< Four neighbours, by the kernel of Keys 1981, "Cubic convolution interpolation for digital image
                  ///< processing", with a = -1/2.
  kCubicPytorch,  ///< With antialiasing kCubic; else that kernel with a = -3/4, and edges repeated.
  kArea,          ///< The mean of what a new element covers.
};

/// "nearest", "linear", "bilinear", "trilinear", "triangle", "lanczos3", "lanczos5", "cubic", "bicubic", "tricubic",
/// "cubic-pytorch", "bicubic-pytorch", "area". Throws InvalidArgument for others.
/// The method of a name.
/// @param name The name.
ResizeMethod resize_method(std::string_view name, SourceLocation where = SourceLocation::current());

struct ResizeOptions {
  /// Where an image gets smaller, the kernel is as much wider, so that no element is left out.
  bool antialias = true;
};

/// The image in `shape`, which has as many dimensions. An element i of n lies at (i + 1/2) / n of the image. Weights of
/// an element add up to 1, also at edges. Integers count as floats, but for kNearest. Throws InvalidArgument for
/// another rank.
Array resize(const Operand& image, const Shape& shape, ResizeMethod method, const ResizeOptions& options = {});

/// The same where along dimension spatial_dims[i] what lies at x, counted in elements, comes to
/// x scale[i] + translation[i], two vectors of as many elements; what comes from outside the image is 0. Throws
/// InvalidArgument for kNearest, and for ranks and lengths that do not fit.
/// @param spatial_dims The dimensions in which something changes.
/// @param scale How much greater it gets, along each of them.
/// @param translation How far it moves, along each of them.
Array scale_and_translate(const Operand& image, const Shape& shape, const Dims& spatial_dims, const Operand& scale,
                          const Operand& translation, ResizeMethod method, const ResizeOptions& options = {});

}  // namespace shoal::image
