// JAX's registries of rules (testdata/registries.txt) against the records: who has a derivative, a transpose and a rule
// for batches there has them here, or it says there why not.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "ops/table.h"

namespace shoal {
namespace {

using Words = std::vector<std::string>;

Words words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

// "abilities" of a primitive, "the records that stand for it", and those of its abilities that these lack.
struct Row {
  std::string primitive;
  Words abilities;
  Words records;
  Words lacks;
  std::string reason;  // Why they lack these, or there are no records.
};

std::pair<std::string, std::string> cut(const std::string& text, std::string_view at) {
  const std::size_t found = text.find(at);
  if (found == std::string::npos) return {text, ""};
  return {text.substr(0, found), text.substr(found + at.size())};
}

std::vector<Row> rows() {
  std::vector<Row> rows;
  std::ifstream file("src/transform/testdata/registries.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    const auto [left, right] = cut(line, " =");
    const auto [primitive, abilities] = cut(left, ":");
    const auto [mapped, reason] = cut(right, ": ");
    const auto [records, lacks] = cut(mapped, " but ");
    rows.push_back({primitive, words(abilities), words(records), words(lacks), reason});
    if (rows.back().records == Words{"none"}) rows.back().records.clear();
  }
  return rows;
}

// Whether the transforms go into its bodies.
bool holds_graphs(const OpDef& op) {
  return op.op_class == OpClass::kCall || op.op_class == OpClass::kControl || op.op_class == OpClass::kRegion;
}

std::vector<std::size_t> linear_operands(const OpDef& op) {
  std::vector<std::size_t> linear;
  for (std::size_t i = 0; i < 3; ++i) {
    if (op.linear[i] != Linear::kNo && (op.arity < 0 || i < static_cast<std::size_t>(op.arity))) linear.push_back(i);
  }
  return linear;
}

// Records of elementwise ops all have the same functions, which do what the columns of their rows say.
bool has(const OpDef& op, std::string_view ability) {
  if (holds_graphs(op)) return true;
  const ElementwiseRow* row = op.elementwise;
  const std::vector<std::size_t> linear = linear_operands(op);
  if (ability == "batch") return op.batch != nullptr || op.rule != nullptr;
  if (ability == "transpose") {
    if (row == nullptr) return op.transpose != nullptr;
    return !linear.empty() &&
           std::ranges::all_of(linear, [&](std::size_t i) { return row->columns.cotangents[i] != nullptr; });
  }
  if (op.is_flat || !linear.empty() || op.arity == 0) return true;
  if (row == nullptr) return op.jvp != nullptr;
  return (row->takes & kFloatKind) == 0 || row->result == ResultDtype::kBool ||
         std::ranges::any_of(row->columns.tangents, [](const auto& tangent) { return tangent != nullptr; });
}

TEST(Registries, WhatJaxHasIsThere) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.primitive);
    EXPECT_TRUE(!row.records.empty() || !row.reason.empty()) << "stands for nothing, and nobody says why";
    for (const std::string& name : row.records) {
      EXPECT_NE(find_op(name), nullptr) << "there is no record '" << name << "'";
    }
    for (const std::string& ability : row.abilities) {
      const bool there = std::ranges::all_of(row.records, [&](const std::string& name) {
        const OpDef* op = find_op(name);
        return op == nullptr || has(*op, ability);
      });
      const bool excused = std::ranges::find(row.lacks, ability) != row.lacks.end();
      EXPECT_TRUE(there || excused) << fmt::format("{} lack '{}'", fmt::join(row.records, ", "), ability);
      EXPECT_FALSE(there && excused) << fmt::format("'{}' needs no excuse", ability);
    }
  }
}

// What is not there yet, or not meant to be, has no record.
TEST(Registries, ReasonsAreNeeded) {
  for (const Row& row : rows()) {
    EXPECT_TRUE(!row.records.empty() || find_op(row.primitive) == nullptr) << row.primitive << " has a record";
    EXPECT_EQ(row.lacks.empty(), row.records.empty() || row.reason.empty()) << row.primitive;
    for (const std::string& ability : row.lacks) {
      EXPECT_THAT(row.abilities, testing::Contains(ability)) << row.primitive;
    }
  }
}

TEST(Registries, AreWhole) {
  std::size_t abilities = 0;
  std::size_t without_record = 0;
  const std::vector<Row> all = rows();
  for (const Row& row : all) {
    abilities += row.abilities.size();
    if (row.records.empty()) ++without_record;
  }
  EXPECT_EQ(all.size(), 241U);
  EXPECT_EQ(abilities, 531U);
  EXPECT_EQ(without_record, 42U);
}

}  // namespace
}  // namespace shoal
