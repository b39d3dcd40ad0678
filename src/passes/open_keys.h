// Keys of random numbers become the words that they are made of: what follows in the pipeline knows numbers alone.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The dtype of the elements that arrays of `dtype` hold: u64 for keys of one word, and for keys of two, which are
/// moved only, c128.
Dtype stored_as(Dtype dtype);

/// In a graph keys of two words are two values of u64.
Graph open_keys(Graph graph);

}  // namespace shoal
