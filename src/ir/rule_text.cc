#include "ir/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

namespace shoal {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

struct Kind {
  std::string_view name;
  FactorKind kind;
};
constexpr Kind kKinds[] = {{"reduction", FactorKind::kReduction},
                           {"need_replication", FactorKind::kNeedReplication},
                           {"permutation", FactorKind::kRearranged}};

std::string_view name_of(FactorKind kind) { return std::ranges::find(kKinds, kind, &Kind::kind)->name; }

}  // namespace

class RuleParser {
 public:
  RuleParser(RuleText& rule, std::string_view text, std::string_view what, SourceLocation where)
      : rule_(rule), text_(text), what_(what), where_(where) {}

  void parse() {
    parse_tensors(rule_.operands_, true);
    if (!accept("->")) fail("expected '->' between the operands and the results");
    parse_tensors(rule_.results_, false);
    if (accept("{")) parse_sizes();
    while (position_ < text_.size()) parse_kind();
    check_sizes();
    for (std::size_t i = 0; i < rule_.results_.size(); ++i) check_result(i);
    check_operands();
  }

 private:
  // Whether a tensor goes on: with a factor, or with anything that is no beginning of what follows the tensors.
  bool at_end_of_tensor(bool operands) {
    skip_space();
    if (position_ == text_.size() || peek() == ',' || starts_with("->")) return true;
    return !operands && (peek() == '{' || at_kind());
  }

  // A name with '=' behind it.
  bool at_kind() const {
    std::size_t end = position_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    if (end == position_) return false;
    while (end < text_.size() && is_space(text_[end])) ++end;
    return end < text_.size() && text_[end] == '=';
  }

  void parse_tensors(std::vector<RuleText::Tensor>& tensors, bool operands) {
    do {
      RuleText::Tensor tensor;
      std::set<std::string> seen;
      while (!at_end_of_tensor(operands)) {
        if (peek() == '.') {
          parse_ellipsis(tensor);
        } else if (accept("(")) {
          tensor.dims.push_back(parse_compound());
        } else if (peek() == ')') {
          fail("')' closes no bracket");
        } else {
          tensor.dims.push_back({parse_factor()});
        }
        if (tensor.dims.empty()) continue;
        for (const std::string& factor : tensor.dims.back()) {
          if (!seen.insert(factor).second) fail(fmt::format("factor '{}' stands twice in one tensor", factor));
        }
      }
      tensors.push_back(std::move(tensor));
    } while (accept(","));
    if (!operands && starts_with("->")) fail("a second '->'");
  }

  void parse_ellipsis(RuleText::Tensor& tensor) {
    if (!accept("...")) fail("'.' is part of '...' only");
    if (tensor.group >= 0 || !tensor.dims.empty()) fail("'...' can only begin an operand or result");
    tensor.group = position_ < text_.size() && is_digit(text_[position_]) ? static_cast<int>(parse_number()) : 0;
  }

  std::vector<std::string> parse_compound() {
    std::vector<std::string> factors;
    while (!accept(")")) {
      if (position_ == text_.size() || peek() == ',' || starts_with("->")) fail("expected ')'");
      if (peek() == '(') fail("brackets cannot be nested");
      if (peek() == '.') fail("'...' cannot stand in brackets");
      factors.push_back(parse_factor());
    }
    if (factors.size() < 2) fail("brackets need two factors at least");
    return factors;
  }

  void parse_sizes() {
    do {
      const std::string factor = parse_factor();
      if (!accept("=")) fail(fmt::format("expected '=' and the size of factor '{}'", factor));
      skip_space();
      const std::int64_t size = parse_number();
      if (size < 1) fail(fmt::format("the size of factor '{}' must be positive", factor));
      if (!rule_.sizes_.emplace(factor, size).second) fail(fmt::format("a second size of factor '{}'", factor));
    } while (accept(","));
    if (!accept("}")) fail("expected ',' or '}' after a size");
  }

  void parse_kind() {
    skip_space();
    if (position_ == text_.size()) return;
    const std::size_t start = position_;
    const std::string name = parse_factor();
    const auto kind = std::ranges::find(kKinds, name, &Kind::name);
    if (kind == std::end(kKinds)) {
      position_ = start;
      fail(fmt::format("'{}' is no kind of factors; the kinds are reduction, need_replication and permutation", name));
    }
    if (!accept("=") || !accept("{")) fail(fmt::format("expected '={{' after '{}'", name));
    do {
      const std::string factor = parse_factor();
      if (!is_used(factor)) fail(fmt::format("factor '{}' of {} stands in no operand or result", factor, name));
      const auto [given, is_new] = rule_.kinds_.emplace(factor, kind->kind);
      if (!is_new && given->second == kind->kind) fail(fmt::format("{} has factor '{}' twice", name, factor));
      if (!is_new) {
        fail(fmt::format("factor '{}' is of one kind only, not of {} and {}", factor, name_of(given->second), name));
      }
    } while (accept(","));
    if (!accept("}")) fail("expected ',' or '}' after a factor");
  }

  template <class F>
  void for_each_dim(F&& f) const {
    for (const auto* tensors : {&rule_.operands_, &rule_.results_}) {
      for (const RuleText::Tensor& tensor : *tensors) {
        for (const std::vector<std::string>& dim : tensor.dims) f(dim);
      }
    }
  }

  bool is_used(const std::string& factor) const {
    bool used = false;
    for_each_dim([&](const auto& dim) { used = used || std::ranges::count(dim, factor) != 0; });
    return used;
  }

  void check_sizes() const {
    std::map<std::string, bool> whole;  // Whether the factor is a dimension by itself.
    for_each_dim([&](const auto& dim) {
      for (const std::string& factor : dim) whole[factor] = whole[factor] || dim.size() == 1;
    });
    for (const auto& [factor, size] : rule_.sizes_) {
      const auto found = whole.find(factor);
      if (found == whole.end())
        refuse(fmt::format("factor '{}' has a size, but stands in no operand or result", factor));
      if (found->second) refuse(fmt::format("factor '{}' is a whole dimension, whose extent is its size", factor));
    }
    for (const auto& [factor, is_whole] : whole) {
      if (is_whole || rule_.sizes_.contains(factor)) continue;
      refuse(
          fmt::format("factor '{0}' stands in brackets only, so that its size must be given, as in {{{0}=4}}", factor));
    }
  }

  static bool has(const RuleText::Tensor& tensor, const std::string& factor) {
    return std::ranges::any_of(tensor.dims, [&](const auto& dim) { return std::ranges::count(dim, factor) != 0; });
  }

  void check_result(std::size_t i) const {
    const RuleText::Tensor& result = rule_.results_[i];
    for_each_dim([&](const auto& dim) {
      for (const std::string& factor : dim) {
        const auto found = rule_.kinds_.find(factor);
        const FactorKind kind = found == rule_.kinds_.end() ? FactorKind::kPassThrough : found->second;
        if (kind == FactorKind::kNeedReplication) continue;
        const bool sums = kind == FactorKind::kReduction;
        if (has(result, factor) != sums) continue;
        if (sums) refuse(fmt::format("factor '{}' is summed away, so that it cannot stand in result {}", factor, i));
        refuse(fmt::format(
            "factor '{0}' is not in result {1}: name it in reduction={{{0}}} if shards give partial sums, or "
            "in need_replication={{{0}}} if the op needs it whole",
            factor, i));
      }
    });
  }

  void check_operands() const {
    const auto any_operand = [&](auto&& f) { return std::ranges::any_of(rule_.operands_, f); };
    for (const RuleText::Tensor& result : rule_.results_) {
      for (const auto& dim : result.dims) {
        for (const std::string& factor : dim) {
          const auto found = rule_.kinds_.find(factor);
          if (found != rule_.kinds_.end() && found->second == FactorKind::kNeedReplication) continue;
          if (any_operand([&](const auto& operand) { return has(operand, factor); })) continue;
          refuse(
              fmt::format("factor '{0}' stands in results alone, where nothing says which part a shard is: name it in "
                          "need_replication={{{0}}}",
                          factor));
        }
      }
    }
  }

  // ---- Tokens.

  static bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

  std::string parse_factor() {
    skip_space();
    if (position_ == text_.size()) fail("expected the name of a factor");
    if (!in_name(peek())) fail(fmt::format("unexpected character '{}'", peek()));
    if (!is_letter(peek())) fail("the name of a factor begins with a letter");
    const std::size_t start = position_;
    while (position_ < text_.size() && in_name(text_[position_])) ++position_;
    return std::string(text_.substr(start, position_ - start));
  }

  std::int64_t parse_number() {
    std::int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value > 1'000'000'000) fail("expected a number");
    position_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  bool starts_with(std::string_view token) const { return text_.substr(position_).starts_with(token); }
  bool accept(std::string_view token) {
    skip_space();
    if (!starts_with(token)) return false;
    position_ += token.size();
    return true;
  }
  char peek() const { return text_[position_]; }
  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }

  [[noreturn]] void refuse(const std::string& text) const {
    throw InvalidArgument(fmt::format("{}: sharding rule \"{}\": {}", what_, text_, text), where_);
  }
  [[noreturn]] void fail(const std::string& text) const {
    throw InvalidArgument(fmt::format("{}: sharding rule \"{}\", column {}: {}", what_, text_, position_ + 1, text),
                          where_);
  }

  RuleText& rule_;
  std::string_view text_;
  std::string_view what_;
  SourceLocation where_;
  std::size_t position_ = 0;
};

RuleText::RuleText(std::string_view text, std::string_view what, SourceLocation where) {
  RuleParser(*this, text, what, where).parse();
}

bool RuleText::has_reduction() const {
  return std::ranges::any_of(kinds_, [](const auto& entry) { return entry.second == FactorKind::kReduction; });
}

ShardingRule RuleText::for_shapes(std::span<const Shape> operands, std::span<const Shape> results,
                                  std::string_view what, SourceLocation where) const {
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(fmt::format("{}: the sharding rule {}", what, text), where);
  };
  if (operands.size() != operands_.size()) {
    refuse(fmt::format("is for {} operands, but there are {}", operands_.size(), operands.size()));
  }
  if (results.size() != results_.size()) {
    refuse(fmt::format("is for {} results, but there are {}", results_.size(), results.size()));
  }
  ShardingRule rule;
  std::map<std::string, int> factors;
  std::map<int, std::size_t> group_ranks;
  const auto factor_of = [&](const std::string& name, std::int64_t size, FactorKind kind, const std::string& at) {
    const auto found = factors.find(name);
    if (found == factors.end()) return factors[name] = rule.add_factor(size, kind);
    const std::int64_t known = rule.factors[static_cast<std::size_t>(found->second)].size;
    if (known != size) refuse(fmt::format("gives {} extent {}, but elsewhere it has {}", at, size, known));
    return found->second;
  };
  const auto kind_of = [&](const std::string& name) {
    const auto kind = kinds_.find(name);
    return kind == kinds_.end() ? FactorKind::kPassThrough : kind->second;
  };
  const auto kind_of_group = [&](int group) {
    const auto has_it = [&](const Tensor& tensor) { return tensor.group == group; };
    const bool passes = std::ranges::any_of(operands_, has_it) && std::ranges::all_of(results_, has_it);
    return passes ? FactorKind::kPassThrough : FactorKind::kNeedReplication;
  };
  // Whole dimensions say how large a factor is, sizes the others.
  const auto size_of = [&](const std::string& name) {
    if (const auto given = sizes_.find(name); given != sizes_.end()) return given->second;
    for (const auto& [tensors, shapes] : {std::pair{&operands_, operands}, std::pair{&results_, results}}) {
      for (std::size_t i = 0; i < tensors->size(); ++i) {
        const Tensor& tensor = (*tensors)[i];
        for (std::size_t d = 0; d < tensor.dims.size() && tensor.dims.size() <= shapes[i].size(); ++d) {
          if (tensor.dims[d].size() == 1 && tensor.dims[d][0] == name) {
            return shapes[i][shapes[i].size() - tensor.dims.size() + d];
          }
        }
      }
    }
    return std::int64_t{1};
  };
  const auto factors_of = [&](const Tensor& tensor, const Shape& shape, const std::string& label) {
    const bool fits = tensor.group < 0 ? shape.size() == tensor.dims.size() : shape.size() >= tensor.dims.size();
    if (!fits) {
      refuse(fmt::format("has {}{} dimensions for {}, but its shape is {}", tensor.group < 0 ? "" : "at least ",
                         tensor.dims.size(), label, to_string(shape)));
    }
    const std::size_t leading = shape.size() - tensor.dims.size();
    if (tensor.group >= 0) {
      const auto [known, is_new] = group_ranks.emplace(tensor.group, leading);
      if (!is_new && known->second != leading) {
        refuse(fmt::format("has '...' for {} dimensions of {}, but elsewhere for {}", leading, label, known->second));
      }
    }
    TensorFactors dims;
    for (std::size_t d = 0; d < leading; ++d) {
      dims.push_back({factor_of(fmt::format("...{}[{}]", tensor.group, d), shape[d], kind_of_group(tensor.group),
                                fmt::format("dimension {} of {}", d, label))});
    }
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      const std::vector<std::string>& names = tensor.dims[d];
      const std::int64_t extent = shape[leading + d];
      DimFactors dim;
      std::int64_t product = 1;
      for (const std::string& name : names) {
        const std::int64_t size = names.size() == 1 ? extent : size_of(name);
        product *= size;
        dim.push_back(factor_of(name, size, kind_of(name), fmt::format("factor '{}' in {}", name, label)));
      }
      if (product != extent) {
        refuse(fmt::format("gives dimension {} of {} extent {}, the product of ({}), but it has {}", leading + d, label,
                           product, fmt::join(names, " "), extent));
      }
      dims.push_back(std::move(dim));
    }
    return dims;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    rule.operands.push_back(factors_of(operands_[i], operands[i], fmt::format("operand {}", i)));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    rule.results.push_back(factors_of(results_[i], results[i], fmt::format("result {}", i)));
  }
  return rule;
}

}  // namespace shoal
