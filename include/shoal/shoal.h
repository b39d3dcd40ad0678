// Shoal: an SPMD array runtime. This header includes all of its public headers.
#pragma once

#include "shoal/array.h"
#include "shoal/debug.h"
#include "shoal/device.h"
#include "shoal/dtype.h"
#include "shoal/error.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/log.h"
#include "shoal/mesh.h"
#include "shoal/nn.h"
#include "shoal/numpy.h"
#include "shoal/partition_spec.h"
#include "shoal/shape.h"
#include "shoal/shard_map.h"
#include "shoal/sharding.h"
#include "shoal/tree.h"
