// The instruction sets that code in Highway's vectors is compiled for: to be included before <hwy/foreach_target.h>.
#pragma once

// The vectors of the first have no fixed size; the last two add nothing here to lower ones.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL | (SHOAL_AVX512 ? 0 : HWY_AVX3))
