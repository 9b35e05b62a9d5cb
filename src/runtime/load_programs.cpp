#include "runtime/load_programs.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weft {
namespace {

bool same_inputs(const Program& a, const Program& b) {
  return std::ranges::equal(a.inputs, b.inputs, [](const ProgramIo& x, const ProgramIo& y) {
    return x.name == y.name && x.shape == y.shape;
  });
}

/// Code for this very architecture, for an older one, or for one that the device does not run.
enum class Code : uint8_t { kOwn, kOlder, kForeign };

Code code_of(const Program& program, const CudaDevice::Properties& device) {
  if (program.arch == device.arch() || program.arch == device.arch() + "a") return Code::kOwn;
  return arch_runs_on(program.arch, device) ? Code::kOlder : Code::kForeign;
}

Result<ModelPrograms> load_on_device(const std::vector<Program>& programs) {
  WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaDevice> device, open_cuda_device());
  ModelPrograms loaded;
  std::string reasons;
  for (const Code kind : {Code::kOwn, Code::kOlder, Code::kForeign}) {
    for (const Program& program : programs) {
      if (code_of(program, device->properties()) != kind) continue;
      const bool served = std::ranges::any_of(loaded, [&](const auto& executable) {
        return same_inputs(executable->program(), program);
      });
      if (served) continue;
      auto executable = Executable::create(program, device);
      if (executable.ok()) {
        loaded.push_back(std::move(*executable));
      } else if (executable.error().code == ErrorCode::kMissingDevice) {
        reasons += (reasons.empty() ? "" : "; ") + executable.error().message;
      } else {
        return executable.take_error();
      }
    }
  }
  if (loaded.empty()) return Error{ErrorCode::kMissingDevice, reasons};
  return loaded;
}

}  // namespace

Result<ModelPrograms> load_programs(std::vector<Program> programs) {
  if (!programs.empty() && !programs.front().arch.empty()) {
    return load_on_device(programs);
  }
  ModelPrograms loaded;
  for (Program& program : programs) {
    WEFT_ASSIGN_OR_RETURN(loaded.emplace_back(), Executable::create(std::move(program)));
  }
  return loaded;
}

}  // namespace weft
