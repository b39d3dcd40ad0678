// einsum: labels instead of dimensions. Operands are brought to distinct labels, and then contracted in pairs.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/trace.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/diagonals.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// A label of a dimension: a letter, or, of dimensions that an ellipsis stands for, -1 for the last one, -2 and so on.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct LabelledArray {
  Array array;
  Labels labels;  // One for each dimension.
};

class Einsum {
 public:
  Einsum(std::string_view subscripts, const std::vector<Operand>& operands, const EinsumOptions& options)
      : subscripts_(subscripts) {
    read(operands);
    preferred_ = options.preferred_element_type;
    check_preferred(operands_[0].array.dtype(), preferred_);
    out_sharding_ = options.out_sharding;
    if (!out_sharding_) return;
    Shape shape;
    for (const Label label : output_) shape.push_back(extents_.at(label));
    check_out_sharding(*out_sharding_, shape);
  }

  Array compute() {
    if (!out_sharding_ || is_one_contraction()) return contract_all();
    std::vector<Array> arrays;
    for (const LabelledArray& operand : operands_) arrays.push_back(operand.array);
    return split_as(std::exchange(out_sharding_, {}), arrays, [&](const std::vector<Array>& relaxed_arrays) {
      for (std::size_t i = 0; i < arrays.size(); ++i) operands_[i].array = relaxed_arrays[i];
      return contract_all();
    });
  }

 private:
  // Whether a contraction gives the result, and so can say how it is split.
  bool is_one_contraction() const {
    if (operands_.size() != 2) return false;
    // Not the labels that an operand only broadcasts to.
    const auto has = [&](const LabelledArray& operand, Label label) {
      for (std::size_t d = 0; d < operand.labels.size(); ++d) {
        if (operand.labels[d] == label && operand.array.shape()[d] == extents_.at(label)) return true;
      }
      return false;
    };
    return std::any_of(extents_.begin(), extents_.end(), [&](const auto& label) {
      return !contains(output_, label.first) && has(operands_[0], label.first) && has(operands_[1], label.first);
    });
  }

  // How the result is split while its dimensions have the order of `labels`.
  OutSharding out_sharding_of(const Labels& labels) const {
    if (!out_sharding_) return {};
    const PartitionSpec& spec = out_sharding_->spec();
    std::vector<PartitionEntry> entries;
    for (const std::int64_t place : positions(labels, output_)) {
      const auto d = static_cast<std::size_t>(place);
      entries.push_back(d < spec.size() ? spec[d] : PartitionEntry());
    }
    return out_sharding_->with_spec(PartitionSpec(std::move(entries), spec.unreduced(), spec.reduced()));
  }

  Array contract_all() {
    for (LabelledArray& operand : operands_) simplify(operand);
    // What no other operand has can be added up before.
    for (LabelledArray& operand : operands_) drop_labels(operand, needed_beside({&operand}));
    while (operands_.size() > 1) {
      const auto [i, j] = next_pair();
      contract_pair(i, j);
    }
    Dims perm;
    const LabelledArray& last = operands_[0];
    for (const Label label : output_) {
      perm.push_back(std::find(last.labels.begin(), last.labels.end(), label) - last.labels.begin());
    }
    const Array result = transpose(last.array, perm);
    return preferred_ ? convert(result, *preferred_) : result;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw misuse<InvalidArgument>("in \"{}\" {}", subscripts_, problem);
  }

  // ---- Reading the subscripts.

  // The labels of a term, where an ellipsis stands for `hidden` dimensions.
  Labels labels_of(std::string_view term, std::int64_t hidden) const {
    Labels labels;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (term.substr(i, 3) == "...") {
        for (std::int64_t d = hidden; d > 0; --d) labels.push_back(static_cast<Label>(-d));
        i += 2;
      } else {
        labels.push_back(term[i]);
      }
    }
    return labels;
  }

  void check_term(std::string_view term) const {
    const std::size_t dots = term.find("...");
    std::string letters(term);
    if (dots != std::string_view::npos) letters.erase(dots, 3);
    for (const char c : letters) {
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!is_letter) fail(fmt::format("'{}' is not a label: they are letters, and one ellipsis a term", c));
    }
  }

  void read(const std::vector<Operand>& operands) {
    std::string text = subscripts_;
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    const std::size_t arrow = text.find("->");
    std::vector<std::string> terms(1);
    for (const char c : text.substr(0, arrow)) {
      if (c == ',') {
        terms.emplace_back();
      } else {
        terms.back() += c;
      }
    }
    if (terms.size() != operands.size()) {
      fail(fmt::format("the number of terms is {}, but that of operands is {}", terms.size(), operands.size()));
    }
    DtypeAndWeakness element = element_of(operands[0]);
    for (const Operand& operand : operands) element = promoted_types(element, element_of(operand));
    std::int64_t hidden = 0;  // The most dimensions that an ellipsis stands for.
    for (std::size_t i = 0; i < operands.size(); ++i) {
      check_term(terms[i]);
      const Array array = convert(to_array(operands[i]), element.dtype, element.weak);
      const bool has_ellipsis = terms[i].find("...") != std::string::npos;
      const auto named = static_cast<std::int64_t>(terms[i].size()) - (has_ellipsis ? 3 : 0);
      const std::int64_t rest = static_cast<std::int64_t>(array.ndim()) - named;
      if (rest < 0 || (rest > 0 && !has_ellipsis)) {
        fail(fmt::format("term \"{}\" has {} labels, but operand {}, {}, has {} dimensions", terms[i], named, i,
                         type_of(array), array.ndim()));
      }
      hidden = std::max(hidden, rest);
      operands_.push_back({array, labels_of(terms[i], rest)});
      add_extents(operands_.back(), i);
    }
    output_ = arrow == std::string::npos ? implicit_output(hidden) : explicit_output(text.substr(arrow + 2), hidden);
  }

  void add_extents(const LabelledArray& operand, std::size_t number) {
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      const std::int64_t extent = operand.array.shape()[d];
      std::int64_t& known = extents_.emplace(operand.labels[d], extent).first->second;
      if (known != extent && known != 1 && extent != 1) {
        fail(fmt::format("label {} has extent {} in operand {}, {}, but {} before", name_of(operand.labels[d]), extent,
                         number, type_of(operand.array), known));
      }
      if (known == 1) known = extent;
    }
  }

  static std::string name_of(Label label) {
    return label > 0 ? fmt::format("'{}'", static_cast<char>(label)) : std::string("of the ellipsis");
  }

  Labels implicit_output(std::int64_t hidden) const {
    Labels labels = labels_of("...", hidden);
    for (const auto& [label, extent] : extents_) {
      std::ptrdiff_t count = 0;
      for (const LabelledArray& operand : operands_) {
        count += std::count(operand.labels.begin(), operand.labels.end(), label);
      }
      if (label > 0 && count == 1) labels.push_back(label);
    }
    return labels;
  }

  Labels explicit_output(std::string_view term, std::int64_t hidden) const {
    check_term(term);
    const Labels labels = labels_of(term, hidden);
    for (const Label label : labels) {
      if (!extents_.contains(label)) fail(fmt::format("label {} of the output is in no operand", name_of(label)));
      if (std::count(labels.begin(), labels.end(), label) > 1) {
        fail(fmt::format("label {} is in the output twice", name_of(label)));
      }
    }
    return labels;
  }

  // ---- One operand.

  // Distinct labels, whose extents are those of all operands.
  void simplify(LabelledArray& operand) {
    while (const auto pair = first_pair(operand.labels)) take_diagonal(operand, pair->first, pair->second);
    // A dimension of extent 1 that is longer elsewhere broadcasts: the label goes from this operand.
    Shape shape;
    Labels labels;
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      const std::int64_t extent = operand.array.shape()[d];
      if (extent != extents_.at(operand.labels[d])) continue;
      shape.push_back(extent);
      labels.push_back(operand.labels[d]);
    }
    operand = {reshape(operand.array, shape), std::move(labels)};
  }

  // Two dimensions that have one label.
  static std::optional<std::pair<std::size_t, std::size_t>> first_pair(const Labels& labels) {
    for (std::size_t d = 0; d < labels.size(); ++d) {
      const auto again = std::find(labels.begin() + static_cast<std::ptrdiff_t>(d) + 1, labels.end(), labels[d]);
      if (again != labels.end()) return std::pair(d, static_cast<std::size_t>(again - labels.begin()));
    }
    return std::nullopt;
  }

  // Dimensions d < e of one label become one.
  void take_diagonal(LabelledArray& operand, std::size_t d, std::size_t e) {
    const Shape& shape = operand.array.shape();
    const auto erase = [&](std::size_t gone) {
      operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(gone));
    };
    if (shape[d] != shape[e]) {  // The longer one stays.
      const std::size_t gone = shape[d] == 1 ? d : e;
      operand.array = sum_over(operand.array, {static_cast<std::int64_t>(gone)});
      erase(gone);
      return;
    }
    operand.array = items_of_diagonal(operand.array, static_cast<std::int64_t>(d), static_cast<std::int64_t>(e), 0);
    const Label label = operand.labels[d];
    erase(e);
    erase(d);
    operand.labels.insert(operand.labels.begin(), label);
  }

  Array sum_over(const Array& array, Dims axes) {
    if (axes.empty()) return array;
    Attrs attrs{{"axes", std::move(axes)}};
    return bind_one("reduce_sum", std::move(attrs), {array});
  }

  // Sums over the dimensions whose labels are not among `kept`.
  void drop_labels(LabelledArray& operand, const Labels& kept) {
    Dims axes;
    Labels labels;
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      if (contains(kept, operand.labels[d])) {
        labels.push_back(operand.labels[d]);
      } else {
        axes.push_back(static_cast<std::int64_t>(d));
      }
    }
    operand = {sum_over(operand.array, std::move(axes)), std::move(labels)};
  }

  // The labels of the output and of all operands but these.
  Labels needed_beside(const std::vector<const LabelledArray*>& operands) const {
    Labels labels = output_;
    for (const LabelledArray& other : operands_) {
      if (std::find(operands.begin(), operands.end(), &other) != operands.end()) continue;
      labels.insert(labels.end(), other.labels.begin(), other.labels.end());
    }
    return labels;
  }

  // ---- Pairs.

  double size_of(const Labels& labels) const {
    double size = 1;
    for (const Label label : labels) size *= static_cast<double>(extents_.at(label));
    return size;
  }

  static Labels joined(const Labels& a, const Labels& b) {
    Labels both = a;
    for (const Label label : b) {
      if (!contains(a, label)) both.push_back(label);
    }
    return both;
  }

  std::pair<std::size_t, std::size_t> next_pair() {
    constexpr std::size_t kMostForSearch = 8;  // Their subsets can all be looked at.
    if (operands_.size() == 2) return {0, 1};
    return operands_.size() <= kMostForSearch ? cheapest_first_pair() : greedy_pair();
  }

  // The labels of the product of some operands: those that the output or other operands need.
  Labels labels_of_product(const std::vector<bool>& members) const {
    Labels inside;
    Labels outside = output_;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      Labels& side = members[i] ? inside : outside;
      side = joined(side, operands_[i].labels);
    }
    std::erase_if(inside, [&](Label label) { return !contains(outside, label); });
    return inside;
  }

  // The same of operands given as bits.
  Labels labels_of_subset(std::uint32_t subset) const {
    std::vector<bool> members;
    for (std::size_t i = 0; i < operands_.size(); ++i) members.push_back((subset >> i & 1) != 0);
    return labels_of_product(members);
  }

  // The first step of an order with the fewest multiplications in all: for each subset of the operands, the cheapest
  // way to split it in two.
  std::pair<std::size_t, std::size_t> cheapest_first_pair() const {
    const std::uint32_t all = (1U << operands_.size()) - 1;
    std::vector<double> costs(all + 1, std::numeric_limits<double>::infinity());
    std::vector<std::uint32_t> splits(all + 1, 0);
    for (std::uint32_t subset = 1; subset <= all; ++subset) {
      if (std::has_single_bit(subset)) {
        costs[subset] = 0;
        continue;
      }
      for (std::uint32_t part = (subset - 1) & subset; part > 0; part = (part - 1) & subset) {
        const std::uint32_t rest = subset & ~part;
        if (part < rest) continue;  // Seen the other way round.
        const double step = size_of(joined(labels_of_subset(part), labels_of_subset(rest)));
        const double cost = costs[part] + costs[rest] + step;
        if (cost < costs[subset]) {
          costs[subset] = cost;
          splits[subset] = part;
        }
      }
    }
    // Any pair of single operands in the tree may come first.
    std::uint32_t subset = all;
    while (std::popcount(subset) > 2) {
      const std::uint32_t part = splits[subset];
      subset = std::popcount(part) > 1 ? part : subset & ~part;
    }
    const auto first = static_cast<std::size_t>(std::countr_zero(subset));
    return {first, static_cast<std::size_t>(std::bit_width(subset)) - 1};
  }

  // The pair whose product is smallest compared with the two.
  std::pair<std::size_t, std::size_t> greedy_pair() const {
    std::pair<std::size_t, std::size_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      for (std::size_t j = i + 1; j < operands_.size(); ++j) {
        const double growth =
            size_of(labels_of_subset(1U << i | 1U << j)) - size_of(operands_[i].labels) - size_of(operands_[j].labels);
        if (growth >= least) continue;
        least = growth;
        best = {i, j};
      }
    }
    return best;
  }

  static Dims positions(const Labels& labels, const Labels& of) {
    Dims dims;
    for (const Label label : labels) {
      dims.push_back(std::find(of.begin(), of.end(), label) - of.begin());
    }
    return dims;
  }

  // Operands i < j become one, in the place of i.
  void contract_pair(std::size_t i, std::size_t j) {
    const LabelledArray& a = operands_[i];
    const LabelledArray& b = operands_[j];
    const Labels needed = needed_beside({&a, &b});
    Labels batch;
    Labels contracted;
    for (const Label label : a.labels) {
      if (contains(b.labels, label)) (contains(needed, label) ? batch : contracted).push_back(label);
    }
    Labels labels = batch;
    for (const Labels* own : {&a.labels, &b.labels}) {
      for (const Label label : *own) {
        if (!contains(batch, label) && !contains(contracted, label)) labels.push_back(label);
      }
    }
    Array product;
    if (contracted.empty()) {
      product = multiply(aligned(a, labels), aligned(b, labels));
      if (preferred_) product = convert(product, *preferred_);
    } else {
      product = contract(a.array, b.array,
                         {.lhs_contracting = positions(contracted, a.labels),
                          .rhs_contracting = positions(contracted, b.labels),
                          .lhs_batch = positions(batch, a.labels),
                          .rhs_batch = positions(batch, b.labels)},
                         preferred_, out_sharding_of(labels));
    }
    operands_[i] = {product, std::move(labels)};
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(j));
    // Every operand is in the dtype that products are added in once the first is.
    if (preferred_) {
      for (LabelledArray& operand : operands_) operand.array = convert(operand.array, *preferred_);
    }
  }

  // The array with its dimensions in the order of `labels`, of extent 1 where it has none.
  Operand aligned(const LabelledArray& operand, const Labels& labels) const {
    Labels order;
    Shape shape;
    for (const Label label : labels) {
      const bool has = contains(operand.labels, label);
      if (has) order.push_back(label);
      shape.push_back(has ? extents_.at(label) : 1);
    }
    const Array ordered = transpose(operand.array, positions(order, operand.labels));
    return reshape(ordered, shape);
  }

  std::string subscripts_;
  std::optional<Dtype> preferred_;
  OutSharding out_sharding_;
  std::vector<LabelledArray> operands_;
  std::map<Label, std::int64_t> extents_;
  Labels output_;
};

}  // namespace

Array einsum(std::string_view subscripts, const std::vector<Operand>& operands, const EinsumOptions& options) {
  const Caller caller("einsum", operands.empty() ? SourceLocation() : operands[0].where());
  if (operands.empty()) throw misuse<InvalidArgument>("\"{}\" was given no operands", subscripts);
  return Einsum(subscripts, operands, options).compute();
}

Array einsum(std::string_view subscripts, const Operand& x, const EinsumOptions& options) {
  const Caller caller("einsum", x.where());
  return einsum(subscripts, std::vector<Operand>{x}, options);
}

Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const EinsumOptions& options) {
  const Caller caller("einsum", x.where());
  return einsum(subscripts, std::vector<Operand>{x, y}, options);
}

Array einsum(std::string_view subscripts, const Operand& x, const Operand& y, const Operand& z,
             const EinsumOptions& options) {
  const Caller caller("einsum", x.where());
  return einsum(subscripts, std::vector<Operand>{x, y, z}, options);
}

}  // namespace shoal
