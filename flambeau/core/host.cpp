// Affinity, cgroup limits (versions 1 and 2) and the environment.
#include "flambeau/core/host.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace flambeau {
namespace {

int ceil_ratio(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  int cpus = int(quota / period);
  return cpus < quota / period ? cpus + 1 : cpus;
}

// The limit of one folder: cpu.max is "quota period" or "max period"; in version 1 each has its own
// file, -1 is no limit.
int folder_quota(const std::string& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream file(folder + "/cpu.max"); file >> quota >> period) {
    return quota == "max" ? 0 : ceil_ratio(std::atof(quota.c_str()), period);
  }
  double quota_us = 0;
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  if (quota_file >> quota_us && period_file >> period) return ceil_ratio(quota_us, period);
  return 0;
}

// The memory limit of one folder; version 1 says "no limit" with a number near 2^63.
int64_t folder_memory(const std::string& folder) {
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    int64_t bytes = 0;
    if (std::ifstream file(folder + name); file >> bytes && bytes > 0) {
      return bytes < int64_t(1) << 60 ? bytes : 0;
    }
  }
  return 0;
}

// The tightest limit (0: none) in this process's groups of `controller`, from each group's folder
// up to the mount itself. In a container the path is often not visible below the mount: missing
// folders have no limit, the mount then is the container's own group.
template <class F>
auto tightest(const std::string& process_file, const std::string& mount,
              const std::string& controller, F limit_of) {
  decltype(limit_of(mount)) best = 0;
  std::ifstream file(process_file);
  for (std::string line; std::getline(file, line);) {  // id:controllers:path
    size_t first = line.find(':');
    size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    bool ours = ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (!controllers.empty() && !ours) continue;
    std::string folder = controllers.empty() ? mount : mount + "/" + controllers;
    for (;;) {
      auto here = limit_of(folder + path);
      if (here && (!best || here < best)) best = here;
      size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return best;
}

int positive_number(const char* text) {
  if (!text) return 0;
  char* end = nullptr;
  long value = std::strtol(text, &end, 10);
  bool valid = end != text && (*end == '\0' || *end == ',') && value > 0 && value <= 4096;
  return valid ? int(value) : 0;
}

}  // namespace

cpu_set_t allowed_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  // The main thread's mask, not the caller's: the pool serves the process.
  if (sched_getaffinity(getpid(), sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) == 0) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < online && i < CPU_SETSIZE; i++) CPU_SET(i, &cpus);
    if (CPU_COUNT(&cpus) == 0) CPU_SET(0, &cpus);
  }
  return cpus;
}

int cgroup_quota(const std::string& process_file, const std::string& mount) {
  return tightest(process_file, mount, "cpu", folder_quota);
}

int64_t host_memory(const std::string& process_file, const std::string& mount) {
  int64_t machine = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t limit = tightest(process_file, mount, "memory", folder_memory);
  return limit && limit < machine ? limit : machine;
}

int threads_from_environment() {
  int own = positive_number(std::getenv("FLAMBEAU_NUM_THREADS"));
  return own ? own : positive_number(std::getenv("OMP_NUM_THREADS"));
}

}  // namespace flambeau
