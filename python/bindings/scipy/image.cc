// jax.image and jax.scipy.ndimage.
#include "shoal/image.h"

#include <fmt/format.h>

#include "base/caller.h"
#include "bindings/core/flag.h"
#include "bindings/numpy/numpy.h"
#include "bindings/scipy/scipy.h"
#include "shoal/ndimage.h"

namespace shoal::python {
namespace {

// A name, or a member of the enumeration of Python, whose values are those of C++.
image::ResizeMethod method_of(nb::handle method, const char* function) {
  if (PyUnicode_Check(method.ptr())) {
    return called_as(function, user_line(), [&] { return image::resize_method(nb::cast<std::string>(method)); });
  }
  if (!nb::hasattr(method, "value")) {
    type_error(fmt::format("{}: method must be a ResizeMethod or its name, not {}", function, type_text(method)));
  }
  return static_cast<image::ResizeMethod>(nb::cast<int>(method.attr("value")));
}

}  // namespace

void bind_image(nb::module_& m) {
  m.def(
      "resize",
      [](nb::handle given, nb::handle shape, nb::handle method, Flag antialias, nb::handle precision) {
        static_cast<void>(precision);
        const Operand x = operand(given, "resize", "image");
        const Shape extents = dims(shape, "resize: shape");
        const image::ResizeMethod how = method_of(method, "resize");
        return unlocked([&] { return image::resize(x, extents, how, {.antialias = antialias}); });
      },
      "image"_x, "shape"_x, "method"_x, "antialias"_x = true, "precision"_x = nb::none(),
      "The image in another size: an element i of n lies at (i + 1/2) / n of it.");
  m.def(
      "scale_and_translate",
      [](nb::handle given, nb::handle shape, nb::handle spatial_dims, nb::handle scale, nb::handle translation,
         nb::handle method, Flag antialias, nb::handle precision) {
        constexpr const char* kName = "scale_and_translate";
        static_cast<void>(precision);
        const Operand x = operand(given, kName, "image");
        const Shape extents = dims(shape, "scale_and_translate: shape");
        const Dims along = dims(spatial_dims, "scale_and_translate: spatial_dims");
        const Operand factors = operand(scale, kName, "scale");
        const Operand moves = operand(translation, kName, "translation");
        const image::ResizeMethod how = method_of(method, kName);
        return unlocked([&] {
          return image::scale_and_translate(x, extents, along, factors, moves, how, {.antialias = antialias});
        });
      },
      "image"_x, "shape"_x, "spatial_dims"_x, "scale"_x, "translation"_x, "method"_x, "antialias"_x = true,
      "precision"_x = nb::none(),
      "An image of this shape, where what lies at x comes to x scale + translation; what comes from outside is 0.");
}

void bind_ndimage(nb::module_& m) {
  m.def(
      "map_coordinates",
      [](nb::handle input, nb::handle coordinates, int order, const std::string& mode, nb::handle cval) {
        const Operand x = operand(input, "map_coordinates", "input");
        std::vector<Array> places;
        for (const Operand& one : operand_list(coordinates, "map_coordinates", "coordinates")) {
          places.push_back(one.array() != nullptr ? *one.array() : shoal::to_array(one));
        }
        const ndimage::MapOptions options{.mode = mode, .cval = operand(cval, "map_coordinates", "cval")};
        return unlocked([&] { return ndimage::map_coordinates(x, places, order, options); });
      },
      "input"_x, "coordinates"_x, "order"_a, "mode"_a = "constant", "cval"_x = 0.0,
      "The elements at coordinates: the nearest ones (order 0), or linear between neighbours (order 1).");
}

}  // namespace shoal::python
