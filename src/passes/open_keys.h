// Keys of random numbers become the words that they are made of: what follows in the pipeline knows numbers alone.
#pragma once

#include "ir/graph.h"

namespace shoal {

/// The dtype of the elements that arrays of `dtype` hold.
Dtype stored_as(Dtype dtype);

Graph open_keys(Graph graph);

}  // namespace shoal
