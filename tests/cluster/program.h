// What launchers start: this test program, with the name of one that it has.
#pragma once

#include <string>

namespace shoal::cluster {

/// Runs a program as a process of a job; the exit code.
///   sum    adds up what the processes have, and says what came out and how the job was found
///   sums   adds up arrays of several sizes twenty times
///   show   says what sums over all devices are, in process 0
///   reset  says where the coordinator is, and meets the others and counts for two seconds
///   loop   says "ready", and adds up again and again until that fails; says why
///   fail   as loop, but process 1 then exits with 7
int run_program(const std::string& name);

/// The words that start it, for a shell.
std::string program(const std::string& name);

}  // namespace shoal::cluster
