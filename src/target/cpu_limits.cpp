#include "target/cpu_limits.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace weft {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "32K", "1024K", "32M".
int64_t parse_size(const std::string& text) {
  std::istringstream in(text);
  int64_t value = 0;
  char unit = 0;
  in >> value >> unit;
  if (value < 0 || value > (int64_t{1} << 40)) return 0;
  if (unit == 'K') return value << 10;
  if (unit == 'M') return value << 20;
  return value;
}

/// Whole cores, at least one; a fraction of a core would stall the others at every barrier.
int whole_cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::clamp(quota / period + 1e-9, 1.0, 1e6));
}

int smaller_limit(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

int unified_quota(const std::string& folder) {
  std::istringstream in(first_line(folder + "/cpu.max"));
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max") return 0;
  std::istringstream number(quota);
  double value = 0;
  number >> value;
  return whole_cores(value, period);
}

int controller_quota(const std::string& folder) {
  std::istringstream quota(first_line(folder + "/cpu.cfs_quota_us"));
  std::istringstream period(first_line(folder + "/cpu.cfs_period_us"));
  double q = 0, p = 0;
  if (!(quota >> q) || !(period >> p)) return 0;
  return whole_cores(q, p);
}

/// The least of the limits of a group and of all that it lies in. In a container the path may be
/// that of the host: folders that are not there limit nothing.
template <typename Quota>
int least_quota(const std::string& mount, std::string path, Quota&& quota) {
  int least = 0;
  for (;;) {
    least = smaller_limit(least, quota(mount + path));
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.resize(slash);
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream in(controllers);
  std::string name;
  while (std::getline(in, name, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

CacheSizes read_cache_sizes() {
  CacheSizes sizes;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string level = first_line(folder + "/level");
    if (first_line(folder + "/type") == "Instruction") continue;
    const int64_t bytes = parse_size(first_line(folder + "/size"));
    if (level == "1") sizes.l1 = bytes;
    if (level == "2") sizes.l2 = bytes;
    if (level == "3") sizes.l3 = bytes;
  }
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const auto fall_back = [](int64_t& bytes, int name) {
    if (bytes == 0) bytes = std::max<int64_t>(0, sysconf(name));
  };
  fall_back(sizes.l1, _SC_LEVEL1_DCACHE_SIZE);
  fall_back(sizes.l2, _SC_LEVEL2_CACHE_SIZE);
  fall_back(sizes.l3, _SC_LEVEL3_CACHE_SIZE);
#endif
  return sizes;
}

double read_clock_ghz() {
  const int64_t khz =
      parse_size(first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
  return static_cast<double>(khz) * 1e-6;
}

int cgroup_quota(const std::string& root, const std::string& membership) {
  int least = 0;
  std::istringstream lines(membership);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      least = smaller_limit(least, least_quota(root + "/sys/fs/cgroup", path, unified_quota));
      // Beside the old hierarchy, the new one is mounted below it.
      least =
          smaller_limit(least, least_quota(root + "/sys/fs/cgroup/unified", path, unified_quota));
    } else if (names_cpu(controllers)) {
      least =
          smaller_limit(least, least_quota(root + "/sys/fs/cgroup/cpu", path, controller_quota));
    }
  }
  return least;
}

}  // namespace weft
