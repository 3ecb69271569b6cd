// Affinity, cgroup quota (v1 and v2) and the environment.
#include "flambeau/core/cpus.h"

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

// The tightest limit from `path` up to the mount itself. In a container the path is often not
// visible below the mount: the missing folders have no limit, the mount then is the container's own
// group.
int path_quota(const std::string& mount, std::string path) {
  int best = 0;
  for (;;) {
    int here = folder_quota(mount + path);
    if (here && (!best || here < best)) best = here;
    size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return best;
    path.resize(slash);
  }
}

bool lists_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
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
  std::ifstream file(process_file);
  int best = 0;
  for (std::string line; std::getline(file, line);) {  // id:controllers:path
    size_t first = line.find(':');
    size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (!controllers.empty() && !lists_cpu(controllers)) continue;
    int here = path_quota(controllers.empty() ? mount : mount + "/" + controllers, path);
    if (here && (!best || here < best)) best = here;
  }
  return best;
}

int threads_from_environment() {
  int own = positive_number(std::getenv("FLAMBEAU_NUM_THREADS"));
  return own ? own : positive_number(std::getenv("OMP_NUM_THREADS"));
}

}  // namespace flambeau
