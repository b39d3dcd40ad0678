// What fuzzers of programs begin with: compiled programs that have of everything.
#pragma once

#include <string>
#include <vector>

namespace shoal::fuzz {

/// As serialize() stores them, and exported functions.
std::vector<std::string> stored_programs();

/// The graphs after all stages of these.
std::vector<std::string> texts_of_programs();

}  // namespace shoal::fuzz
