// Order: sorting, searching, sets.
#include <fmt/format.h>

#include <algorithm>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// ---- Sorting.

using Sort = Array (*)(const Operand&, const SortOptions&);

SortOptions sort_options(const char* name, nb::handle axis, bool descending, nb::handle kind, nb::handle order) {
  if (!kind.is_none()) not_implemented(fmt::format("'kind' argument to {} is not supported.", name));
  if (!order.is_none()) not_implemented(fmt::format("'order' argument to {} is not supported.", name));
  return {.axis = maybe_integer(axis, fmt::format("{}: axis", name)), .descending = descending};
}

void bind_sort(nb::module_& m, ArrayClass& c, const char* name, Sort f, bool positions, const char* doc) {
  const auto sorted = [f, name, positions](nb::handle a, nb::handle axis, Flag stable, Flag descending, nb::handle kind,
                                           nb::handle order, nb::handle dtype) {
    static_cast<void>(stable);
    const std::optional<Dtype> wanted = maybe_dtype(dtype);
    const Operand x = operand(a, name, "a");
    const SortOptions options = sort_options(name, axis, descending, kind, order);
    const Array result = unlocked([&] { return f(x, options); });
    if (!positions) return result;
    return wanted ? astype({result, x.where()}, *wanted) : counted(result);
  };
  if (positions) {
    define(m, c, name, sorted, "a"_x, "axis"_x = -1, nb::kw_only(), "stable"_x = true, "descending"_x = false,
           "kind"_x = nb::none(), "order"_x = nb::none(), "dtype"_x = nb::none(), doc);
    return;
  }
  const auto values = [sorted](nb::handle a, nb::handle axis, Flag stable, Flag descending, nb::handle kind,
                               nb::handle order) {
    return sorted(a, axis, stable, descending, kind, order, nb::none());
  };
  define(m, c, name, values, "a"_x, "axis"_x = -1, nb::kw_only(), "stable"_x = true, "descending"_x = false,
         "kind"_x = nb::none(), "order"_x = nb::none(), doc);
}

// The elements up to the k-th in ascending order. JAX has the others in descending order, and their positions in
// ascending order.
void bind_partition(nb::module_& m, ArrayClass& c, const char* name, Sort f, bool positions, const char* doc) {
  const auto parted = [f, name, positions](nb::handle a, nb::handle kth, nb::handle axis) {
    const Operand x = operand(a, name, "a");
    const std::int64_t k = integer(kth, fmt::format("{}: kth", name));
    const std::int64_t along = integer(axis, fmt::format("{}: axis", name));
    const Shape shape = shoal::to_array(x).shape();
    const Caller caller(name, x.where());
    const std::int64_t dim = canonical_axis(along, shape.size());
    const std::int64_t extent = shape[static_cast<std::size_t>(dim)];
    if (is_complex(type_of_operand(x).dtype)) not_implemented(fmt::format("{}: of complex numbers", name));
    if (k < -extent || k >= extent) value_error(fmt::format("{}: kth {} is out of bounds ({})", name, k, extent));
    const SourceLocation where = x.where();
    const Array result = unlocked([&] {
      const Operand sorted(f(x, {.axis = dim}), where);
      const std::int64_t middle = (k < 0 ? k + extent : k) + 1;
      const Operand least(lax::slice_in_dim(sorted, 0, middle, 1, dim), where);
      const Operand rest(lax::slice_in_dim(sorted, middle, extent, 1, dim), where);
      const Array others = positions ? shoal::sort(rest, {.axis = dim}) : flip(rest, dim);
      return concatenate({least, {others, where}}, dim);
    });
    return positions ? counted(result) : result;
  };
  m.def(name, parted, "a"_x, "kth"_x, "axis"_x = -1, doc);
  if (positions) c.def(name, parted, "kth"_x, "axis"_x = -1, doc);
}

Array searched(nb::handle a, nb::handle v, const std::string& side, nb::handle sorter, const std::string& method) {
  const Operand sorted = operand(a, "searchsorted", "a");
  const Operand values = operand(v, "searchsorted", "v");
  const std::optional<Operand> order = maybe_operand(sorter, "searchsorted", "sorter");
  if (side != "left" && side != "right") {
    value_error(fmt::format("'{}' is an invalid value for keyword 'side'. Expected one of ['left', 'right'].", side));
  }
  static constexpr std::array kMethods = {"default", "scan", "scan_unrolled", "sort", "compare_all"};
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end()) {
    value_error(
        fmt::format("'{}' is an invalid value for keyword 'method'. Expected one of ['default', 'scan', "
                    "'scan_unrolled', 'sort', 'compare_all'].",
                    method));
  }
  return unlocked([&] {
    const Operand vector = order ? Operand(take(sorted, *order), sorted.where()) : sorted;
    return searchsorted(vector, values, {.side = side == "left" ? Side::kLeft : Side::kRight});
  });
}

// ---- Sets.

UniqueOptions unique_options(nb::handle size, nb::handle fill_value) {
  return {.size = maybe_integer(size, "unique: size"), .fill_value = maybe_operand(fill_value, "unique", "fill_value")};
}

UniqueResult unique_of(nb::handle x, const UniqueOptions& options) {
  const Operand a = operand(x, "unique", "ar");
  UniqueResult result = unlocked([&] { return unique_all(a, options); });
  result.indices = counted(result.indices);
  result.inverse_indices = counted(result.inverse_indices);
  result.counts = counted(result.counts);
  return result;
}

nb::object unique_parts(nb::handle ar, Flag return_index, Flag return_inverse, Flag return_counts, nb::handle axis,
                        Flag equal_nan, nb::handle size, nb::handle fill_value, Flag sorted) {
  static_cast<void>(sorted);
  UniqueOptions options = unique_options(size, fill_value);
  options.axis = maybe_integer(axis, "unique: axis");
  options.equal_nan = equal_nan;
  const UniqueResult result = unique_of(ar, options);
  if (!return_index && !return_inverse && !return_counts) return nb::cast(result.values);
  nb::list parts;
  parts.append(nb::cast(result.values));
  if (return_index) parts.append(nb::cast(result.indices));
  if (return_inverse) parts.append(nb::cast(result.inverse_indices));
  if (return_counts) parts.append(nb::cast(result.counts));
  return nb::tuple(parts);
}

using SetFunction = Array (*)(const Operand&, const Operand&, const SetOptions&);

SetOptions set_options(const char* name, nb::handle size, nb::handle fill_value) {
  return {.size = maybe_integer(size, fmt::format("{}: size", name)),
          .fill_value = maybe_operand(fill_value, name, "fill_value")};
}

void bind_set(nb::module_& m, const char* name, SetFunction f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle ar1, nb::handle ar2, Flag assume_unique, nb::handle size, nb::handle fill_value) {
        static_cast<void>(assume_unique);
        const Operand a = operand(ar1, name, "ar1");
        const Operand b = operand(ar2, name, "ar2");
        const SetOptions options = set_options(name, size, fill_value);
        return unlocked([&] { return f(a, b, options); });
      },
      "ar1"_x, "ar2"_x, "assume_unique"_x = false, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(),
      doc);
}

nb::object intersection(nb::handle ar1, nb::handle ar2, Flag assume_unique, Flag return_indices, nb::handle size,
                        nb::handle fill_value) {
  static_cast<void>(assume_unique);
  const Operand a = operand(ar1, "intersect1d", "ar1");
  const Operand b = operand(ar2, "intersect1d", "ar2");
  const SetOptions options = set_options("intersect1d", size, fill_value);
  if (!return_indices) return nb::cast(unlocked([&] { return intersect1d(a, b, options); }));
  const Intersection found = unlocked([&] { return intersection_of(a, b, options); });
  return nb::make_tuple(found.values, found.firsts, found.seconds);
}

}  // namespace

void bind_numpy_order(nb::module_& m, ArrayClass& c) {
  bind_sort(m, c, "sort", &sort, false, "In ascending order, NaN last.");
  bind_sort(m, c, "argsort", &argsort, true, "The positions that sort.");
  bind_partition(m, c, "partition", &sort, false, "Smaller elements before the k-th, greater ones behind it.");
  bind_partition(m, c, "argpartition", &argsort, true, "The positions that partition.");
  m.def(
      "sort_complex",
      [](nb::handle a) {
        const Operand x = operand(a, "sort_complex", "a");
        return unlocked([&] {
          const Array sorted = sort(x);
          if (is_complex(sorted.dtype())) return sorted;
          const bool wide = sorted.dtype() == float64 || sorted.dtype() == int64;
          return astype({sorted, x.where()}, wide ? complex128 : complex64);
        });
      },
      "a"_x, "In ascending order, as complex numbers.");
  m.def(
      "lexsort",
      [](nb::handle keys, nb::handle axis) {
        const SourceLocation where = user_line();
        std::vector<Array> arrays;
        for (const Operand& key : operand_list(keys, "lexsort", "keys")) arrays.push_back(shoal::to_array(key));
        if (arrays.empty()) type_error("need sequence of keys with len > 0 in lexsort");
        const std::int64_t along = integer(axis, "lexsort: axis");
        const Array order = unlocked([&] { return lexsort(arrays, along, where); });
        return counted(order);
      },
      "keys"_x, "axis"_x = -1, "The positions that sort by the last key, then by the one before it, and so on.");
  m.def(
      "top_k",
      [](nb::handle a, nb::handle k, nb::handle axis, const std::string& mode, Flag sorted) {
        static_cast<void>(sorted);
        const Operand x = operand(a, "top_k", "a");
        const std::int64_t count = integer(k, "top_k: k");
        const std::int64_t along = integer(axis, "top_k: axis");
        const SourceLocation where = x.where();
        if (mode != "largest" && mode != "smallest") {
          value_error(fmt::format("top_k: mode must be 'largest' or 'smallest', got '{}'", mode));
        }
        const std::pair<Array, Array> found = unlocked([&]() -> std::pair<Array, Array> {
          if (mode == "largest") return lax::top_k(x, count, along);
          const std::size_t rank = shoal::to_array(x).ndim();
          const Caller caller("top_k", where);
          const std::int64_t d = canonical_axis(along, rank);
          const Operand order(lax::slice_in_dim({argsort(x, {.axis = d}), where}, 0, count, 1, d), where);
          return {take_along_axis(x, order, d), *order.array()};
        });
        return nb::make_tuple(found.first, found.second);
      },
      positional(), positional(), nb::kw_only(), "axis"_x = -1, "mode"_x = "largest", "sorted"_x = true,
      "The k greatest elements and their positions.");
  m.def("searchsorted", &searched, "a"_x, "v"_x, "side"_x = "left", "sorter"_x = nb::none(), nb::kw_only(),
        "method"_x = "scan", "Where values would stand in a sorted vector.");
  c.def("searchsorted", &searched, "v"_x, "side"_x = "left", "sorter"_x = nb::none(), nb::kw_only(),
        "method"_x = "scan", "Where values would stand in a sorted vector.");
  m.def(
      "digitize",
      [](nb::handle x, nb::handle bins, Flag right, nb::handle method) {
        static_cast<void>(method);
        const Operand a = operand(x, "digitize");
        const Operand edges = operand(bins, "digitize", "bins");
        return unlocked([&] { return digitize(a, edges, right); });
      },
      "x"_x, "bins"_x, "right"_x = false, nb::kw_only(), "method"_x = nb::none(), "The number of each element's bin.");

  m.def("unique", &unique_parts, "ar"_x, "return_index"_x = false, "return_inverse"_x = false,
        "return_counts"_x = false, "axis"_x = nb::none(), nb::kw_only(), "equal_nan"_x = true, "size"_x = nb::none(),
        "fill_value"_x = nb::none(), "sorted"_x = true, "The different elements, sorted.");
  // unique_all and its kin: named tuples of the package are made of these.
  m.def(
      "_unique_all",
      [](nb::handle x, nb::handle size, nb::handle fill_value) {
        const UniqueResult r = unique_of(x, unique_options(size, fill_value));
        return nb::make_tuple(r.values, r.indices, r.inverse_indices, r.counts);
      },
      positional(), nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none());
  m.def(
      "union1d",
      [](nb::handle ar1, nb::handle ar2, nb::handle size, nb::handle fill_value) {
        const Operand a = operand(ar1, "union1d", "ar1");
        const Operand b = operand(ar2, "union1d", "ar2");
        const SetOptions options = set_options("union1d", size, fill_value);
        return unlocked([&] { return union1d(a, b, options); });
      },
      "ar1"_x, "ar2"_x, nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(), "The elements of either.");
  bind_set(m, "setdiff1d", &setdiff1d, "The elements of the first that are not in the second.");
  bind_set(m, "setxor1d", &setxor1d, "The elements of one of them alone.");
  m.def("intersect1d", &intersection, "ar1"_x, "ar2"_x, "assume_unique"_x = false, "return_indices"_x = false,
        nb::kw_only(), "size"_x = nb::none(), "fill_value"_x = nb::none(), "The elements of both.");
  m.def(
      "isin",
      [](nb::handle element, nb::handle test_elements, Flag assume_unique, Flag invert, nb::handle method) {
        static_cast<void>(assume_unique);
        static_cast<void>(method);
        const Operand a = operand(element, "isin", "element");
        const Operand b = operand(test_elements, "isin", "test_elements");
        return unlocked([&] { return isin(a, b, invert); });
      },
      "element"_x, "test_elements"_x, "assume_unique"_x = false, "invert"_x = false, nb::kw_only(), "method"_x = "auto",
      "Whether each element is one of others.");
}

}  // namespace shoal::python
