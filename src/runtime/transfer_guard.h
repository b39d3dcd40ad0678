// What is said when values move between the program's memory and devices, or between devices, without being asked to.
#pragma once

#include <array>
#include <string_view>

#include "ir/type.h"
#include "shoal/error.h"

namespace shoal {

enum class TransferKind { kHostToDevice, kDeviceToDevice, kDeviceToHost };

/// What is done about a transfer. The last two mean those too that the program asks for by device_put and device_get.
enum class TransferGuard { kAllow, kLog, kDisallow, kLogExplicit, kDisallowExplicit };

/// Those of this thread, by TransferKind.
std::array<TransferGuard, 3>& transfer_guards();

inline bool is_guarded(TransferKind transfer) {
  return transfer_guards()[static_cast<std::size_t>(transfer)] != TransferGuard::kAllow;
}

/// Transfers on this thread are what the program asks for, while it lives.
class [[nodiscard]] ExplicitTransfers {
 public:
  ExplicitTransfers();
  ~ExplicitTransfers();
  ExplicitTransfers(const ExplicitTransfers&) = delete;
  ExplicitTransfers& operator=(const ExplicitTransfers&) = delete;
};

/// Logs the transfer of `what`, or throws InvalidState, if the guard says so.
void check_transfer(TransferKind transfer, std::string_view what, SourceLocation where);

}  // namespace shoal
