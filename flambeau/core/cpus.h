// How many CPUs this process may use: the affinity mask and the cgroup's CPU quota.
#pragma once
#include <sched.h>

#include <string>

#include "flambeau/core/config.h"

namespace flambeau {

// CPUs that the process's main thread may run on. At least one is set.
cpu_set_t allowed_cpus();

// CPUs' worth of time that the cgroup grants per period, rounded up; 0 without a limit. The
// arguments exist for the tests.
FL_API int cgroup_quota(const std::string& process_file = "/proc/self/cgroup",
                        const std::string& mount = "/sys/fs/cgroup");

// FLAMBEAU_NUM_THREADS, else OMP_NUM_THREADS (whose first number counts); 0 where neither is a
// positive number.
FL_API int threads_from_environment();

}  // namespace flambeau
