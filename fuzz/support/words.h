// Other words in the texts of graphs: most of what comes out is grammatical.
#pragma once

#include <random>
#include <string>

namespace shoal::fuzz {

/// The text with a few words and numbers in the places of others: what graphs say, the names of ops, words of the text
/// itself, and numbers that are near, small or extreme.
std::string with_other_words(std::string text, std::minstd_rand& random);

}  // namespace shoal::fuzz
