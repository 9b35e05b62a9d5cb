#include "driver/models/device_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>

#include "runtime/device_program.h"

namespace weft {

namespace {

/// Lower case, letters and digits alone: "NVIDIA GeForce RTX 3080" has "rtx3080".
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

/// Parts of a target's name ("a100-80gb") that the device's name has.
int parts_found(const std::string& target, const std::string& device) {
  int found = 0;
  for (size_t begin = 0; begin <= target.size();) {
    const size_t end = std::min(target.find('-', begin), target.size());
    const std::string part = target.substr(begin, end - begin);
    if (!part.empty() && device.find(part) != std::string::npos) ++found;
    begin = end + 1;
  }
  return found;
}

}  // namespace

Result<Target> target_of_device(const CudaDevice::Properties& device) {
  const int capability = device.major * 10 + device.minor;
  const std::string name = plain(device.name);
  // Compared in this order: architecture, name, distance in size.
  using Rank = std::tuple<int, int, int>;
  Rank best{-1, 0, 0};
  Target chosen;
  for (const std::string& known : known_targets()) {
    WEFT_ASSIGN_OR_RETURN(Target target, find_target(known));
    if (!target.is_gpu() || target.compute_capability > capability) continue;
    const Rank rank{target.compute_capability, parts_found(target.name, name),
                    -std::abs(target.sm_count - device.sm_count)};
    if (rank <= best) continue;
    best = rank;
    chosen = std::move(target);
  }
  if (std::get<0>(best) < 0) {
    return Error{ErrorCode::kMissingDevice,
                 device.name + " (" + device.arch() + ") is older than every target that is known"};
  }
  chosen.compute_capability = capability;
  chosen.sm_count = device.sm_count;
  chosen.shared_bytes_per_block = device.shared_bytes_per_block;
  return chosen;
}

Status check_runs_here(const Target& target) {
  if (target.is_gpu()) return {};
  const std::vector<std::string> missing = missing_features(target.features);
  if (missing.empty()) return {};
  return Error{
      ErrorCode::kMissingDevice,
      fmt::format("target '{}' describes a CPU with {}, which this one lacks; use cpu with "
                  "--vector-bytes",
                  target.name, fmt::join(missing, ", "))};
}

namespace {

/// Where code for it is made but not run.
Result<Target> described_target(const std::string& name) {
  if (name != "cuda") return find_target(name);
  WEFT_ASSIGN_OR_RETURN(const auto device, open_cuda_device());
  return target_of_device(device->properties());
}

}  // namespace

Result<Target> target_by_name(const std::string& name) {
  WEFT_ASSIGN_OR_RETURN(Target target, described_target(name));
  WEFT_RETURN_IF_ERROR(check_runs_here(target));
  return target;
}

namespace {

std::vector<std::string> parts_of(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Result<std::vector<Target>> targets_by_names(const std::string& names) {
  std::vector<Target> targets;
  for (const std::string& name : parts_of(names)) {
    WEFT_ASSIGN_OR_RETURN(targets.emplace_back(), described_target(name));
  }
  return targets;
}

Status check_target_names(const std::string& names) {
  if (names == "cpu" || names == "interp" || names == "simt") return {};
  for (const std::string& name : parts_of(names)) {
    if (name == "cuda") continue;
    const Result<Target> known = find_target(name);
    if (!known.ok()) return known.error();
  }
  return {};
}

}  // namespace weft
