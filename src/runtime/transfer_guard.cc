#include "runtime/transfer_guard.h"

#include <fmt/format.h>

#include "base/log.h"

namespace shoal {
namespace {

int& explicit_depth() {
  thread_local int depth = 0;
  return depth;
}

std::string_view name_of(TransferKind transfer) {
  static constexpr std::string_view kNames[] = {"host-to-device", "device-to-device", "device-to-host"};
  return kNames[static_cast<std::size_t>(transfer)];
}

}  // namespace

std::array<TransferGuard, 3>& transfer_guards() {
  thread_local std::array<TransferGuard, 3> guards{};
  return guards;
}

ExplicitTransfers::ExplicitTransfers() { ++explicit_depth(); }
ExplicitTransfers::~ExplicitTransfers() { --explicit_depth(); }

void check_transfer(TransferKind transfer, std::string_view what, SourceLocation where) {
  const TransferGuard guard = transfer_guards()[static_cast<std::size_t>(transfer)];
  const bool is_explicit = explicit_depth() > 0;
  if (guard == TransferGuard::kDisallowExplicit || (guard == TransferGuard::kDisallow && !is_explicit)) {
    throw InvalidState(
        fmt::format("Disallowed {} transfer of {}: {}", name_of(transfer), what,
                    is_explicit ? "the transfer guard allows not even those that are asked for"
                                : "ask for it by device_put or device_get, or allow it by transfer_guard"),
        where);
  }
  if (guard == TransferGuard::kLogExplicit || (guard == TransferGuard::kLog && !is_explicit)) {
    log_warning(fmt::format("{}: {} transfer of {}", to_string(where), name_of(transfer), what));
  }
}

}  // namespace shoal
