#include "backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "ops/table.h"

namespace shoal::cpu {
namespace {

// The ops that still run their reference on this back end, all of it or what their kernel does not take: plain loops on
// one thread, which the parity tests compare with themselves. What an op computes here is then tested by nothing but
// the values that were recorded elsewhere (tests/parity/data) and by tests of its own. The list may only shrink.
const std::map<std::string_view, std::string_view> kOnReference = {
    {"custom_kernel", "all"},  // Runs the user's own code: the reference is all there is.
    {"dynamic_slice", "into another dtype"},
    {"gather", "into another dtype"},
    {"iota", "of complex numbers"},
    {"reduce_and", "of complex numbers, or over no dimension"},
    {"reduce_max", "of complex numbers, or over no dimension"},
    {"reduce_min", "of complex numbers, or over no dimension"},
    {"reduce_or", "of complex numbers, or over no dimension"},
    {"reduce_prod", "of complex numbers, or over no dimension"},
    {"reduce_sum", "of complex numbers, or over no dimension"},
    {"shard_alike", "all"},
};

// Whether equations of the op are left when programs are compiled for a back end.
bool reaches_back_ends(const OpDef& op) {
  return op.op_class == OpClass::kCompute && op.reference != nullptr && op.expand == nullptr;
}

TEST(Kernels, OpsOnTheirReferenceAreTheListedOnes) {
  std::map<std::string_view, std::string_view> found;
  for (const OpDef* op : all_ops()) {
    if (!reaches_back_ends(*op)) continue;
    const KernelRow* row = kernel_row(*op);
    if (row == nullptr) {
      found.emplace(op->name, "all");
    } else if (!row->all_but.empty()) {
      found.emplace(op->name, row->all_but);
    }
  }
  for (const auto& [name, what] : found) {
    const auto listed = kOnReference.find(name);
    EXPECT_TRUE(listed != kOnReference.end() && listed->second == what)
        << name << " runs its reference (" << what << "): give it a kernel";
  }
  for (const auto& [name, what] : kOnReference) {
    EXPECT_TRUE(found.contains(name)) << name << " has a kernel now: take it off the list";
  }
}

}  // namespace
}  // namespace shoal::cpu
