#include "driver/calibrate/calibrate.h"

#include <utility>

#include "driver/models/device_target.h"

namespace weft {

Result<Target> calibrate(const std::string& name, int threads, const CalibrationOptions& options) {
  if (name == "cpu") return calibrate_cpu(host_cpu_target(threads), options);
  WEFT_ASSIGN_OR_RETURN(Target target, name == "cuda" ? target_by_name(name) : find_target(name));
  if (target.is_gpu()) return calibrate_gpu(std::move(target), options);
  return invalid_input("'" + name + "' describes a CPU; --target cpu measures this one");
}

}  // namespace weft
