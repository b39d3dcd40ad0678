// Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

Expr low_word(Expr x) { return x & 4294967295.0; }

}  // namespace

// Words are u64, of whose upper halves nothing is used: a product of two of them is both halves of theirs.
Expr philox4x32(Expr key, Expr start, Expr i) {
  constexpr double kFirstFactor = 0xD2511F53;
  constexpr double kSecondFactor = 0xCD9E8D57;
  constexpr double kFirstStep = 0x9E3779B9;
  constexpr double kSecondStep = 0xBB67AE85;
  constexpr int kRounds = 10;
  const Expr lower = start + (i >> 1);
  const Expr upper = key + convert(lower < start, key.dtype());
  Expr a = lower;
  Expr b = lower >> 32;
  Expr c = upper;
  Expr d = upper >> 32;
  Expr first_key = low_word(key);
  Expr second_key = key >> 32;
  for (int round = 0; round < kRounds; ++round) {
    const Expr first = low_word(a) * kFirstFactor;
    const Expr second = low_word(c) * kSecondFactor;
    a = (second >> 32) ^ b ^ first_key;
    b = second;
    c = (first >> 32) ^ d ^ second_key;
    d = first;
    first_key = low_word(first_key + kFirstStep);
    second_key = low_word(second_key + kSecondStep);
  }
  const Expr is_second = (i & 1.0) == 1.0;
  return low_word(select(is_second, c, a)) | (select(is_second, d, b) << 32);
}

}  // namespace shoal::scalar
