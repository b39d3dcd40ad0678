#include "core/this_process.h"

#include <atomic>

namespace shoal {
namespace {
std::atomic<int> number_of_this_process{0};
}

int this_process() { return number_of_this_process.load(std::memory_order_relaxed); }
void set_this_process(int number) { number_of_this_process.store(number, std::memory_order_relaxed); }

}  // namespace shoal
