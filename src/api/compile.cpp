// The half of the public interface that needs the compiler.

#include <utility>

#include "api/handles.h"
#include "driver/device_target.h"
#include "driver/load_or_compile.h"

namespace weft_v1 {

Result<Executable> compile(const std::string& path, const CompileOptions& options) {
  weft::CompileOptions internal;
  internal.planner = options.plan;
  internal.threads = Bridge::thread_count(options.pool, options.threads);
  internal.import.bind = options.bind;
  internal.import.shapes = options.shapes;
  internal.cache_dir = options.cache_dir;
  internal.fast_math = options.fast_math;
  if (options.target != "cpu") {
    auto target = weft::target_by_name(options.target);
    if (!target.ok()) return to_public(target.error());
    internal.device_code = target->is_gpu();
    internal.device = std::move(*target);
  }
  auto compiled = weft::load_or_compile(path, internal);
  if (!compiled.ok()) return to_public(compiled.error());
  std::vector<weft::Program> programs;
  programs.push_back(std::move(compiled->program));
  return Bridge::make(std::move(programs), options.pool, options.threads,
                      std::move(compiled->metadata), std::move(compiled->stored));
}

}  // namespace weft_v1
