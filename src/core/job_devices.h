// The devices of a job of several processes.
#pragma once

#include <vector>

#include "shoal/error.h"

namespace shoal {

/// How many devices this process has by itself: SHOAL_NUM_CPU_DEVICES, or what set_num_cpu_devices() said.
int num_own_devices();

/// Whether anything has asked for devices: from then on nothing can change which there are.
bool devices_in_use();

/// Makes known the devices of all processes: `local_ids` of each, of which this one is number `process`. Device i of
/// process p has the id p * 131072 + i. Throws InvalidState if devices have been used already.
void set_job_devices(int process, const std::vector<std::vector<int>>& local_ids, SourceLocation where);

/// The same later on, where the job goes on with other processes, of which this one is still number `process`: those
/// that are not there any more have no devices. Arrays and meshes that have such devices keep them.
void change_job_devices(int process, const std::vector<std::vector<int>>& local_ids);

}  // namespace shoal
