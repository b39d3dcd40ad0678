// Static objects of oneDNN's, and when they are destroyed: never.
#pragma once

namespace shoal::cpu {

/// From now on oneDNN registers no destructors of static objects. To be called before its first use.
void keep_statics_of_onednn();

}  // namespace shoal::cpu
