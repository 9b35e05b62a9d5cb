#include "driver/compile_device_kernels.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/cuda/compile_cubins.h"
#include "codegen/cuda/emit_cuda.h"
#include "driver/lower_kernels.h"
#include "runtime/thread_pool.h"
#include "support/hash.h"
#include "tile/text/tile_text.h"

#include "target/unit_peak.h"

namespace weft {

namespace {

/// The CUDA text of a kernel with names that say nothing, so that kernels alike have one text.
CudaKernel anonymous_text(const KernelFunction& kernel, bool shares) {
  KernelFunction copy = kernel;
  copy.name = "weft_" + to_hex(kernel_digest(kernel));
  for (size_t b = 0; b < copy.buffers.size(); ++b) copy.buffers[b].name = fmt::format("b{}", b);
  return emit_cuda(copy, shares);
}

struct DeviceCode {
  CudaKernel text;
  CudaBinary binary;
  CudaKernelResources resources;
  int32_t spills() const { return resources.spill_store_bytes + resources.spill_load_bytes; }
};

/// Compiles kernels of one compilation; equal ones share their code.
class CubinCompiler {
 public:
  CubinCompiler(const Compilation& c, Nvrtc nvrtc, const CubinCache* cache)
      : nvrtc_(std::move(nvrtc)),
        cache_(cache),
        cancel_(c.options.cancel),
        processes_(c.options.threads > 0 ? c.options.threads : available_cores()) {
    options_.arch = device_arch(c.target);
  }

  /// A function keeps registers of its callers, and may spill where the same code in its place
  /// does not: then equal parts stay in theirs.
  Result<std::vector<DeviceCode>> compile(const std::vector<const KernelFunction*>& kernels) {
    WEFT_ASSIGN_OR_RETURN(std::vector<DeviceCode> code, compile_texts(kernels, true));
    std::vector<size_t> numbers;
    std::vector<const KernelFunction*> spilling;
    for (size_t k = 0; k < code.size(); ++k) {
      if (!code[k].text.shares || code[k].spills() == 0) continue;
      numbers.push_back(k);
      spilling.push_back(kernels[k]);
    }
    WEFT_ASSIGN_OR_RETURN(std::vector<DeviceCode> whole, compile_texts(spilling, false));
    for (size_t i = 0; i < numbers.size(); ++i) {
      DeviceCode& shared = code[numbers[i]];
      if (whole[i].spills() < shared.spills()) shared = std::move(whole[i]);
    }
    return code;
  }

  int64_t from_cache() const { return from_cache_; }

 private:
  Result<std::vector<DeviceCode>> compile_texts(const std::vector<const KernelFunction*>& kernels,
                                                bool shares) {
    std::vector<DeviceCode> code(kernels.size());
    std::vector<CudaText> texts;
    for (size_t k = 0; k < kernels.size(); ++k) {
      code[k].text = anonymous_text(*kernels[k], shares);
      texts.push_back({kernels[k]->name + ".cu", code[k].text.text});
    }
    WEFT_ASSIGN_OR_RETURN(CompiledCubins compiled,
                          compile_cubins(texts, nvrtc_, options_, processes_, cache_, cancel_));
    from_cache_ += compiled.from_cache;
    for (size_t k = 0; k < kernels.size(); ++k) {
      code[k].binary = std::move(compiled.binaries[k]);
      for (const CudaKernelResources& r : code[k].binary.kernels) {
        if (r.name == code[k].text.name) code[k].resources = r;
      }
    }
    return code;
  }

  Nvrtc nvrtc_;
  NvrtcOptions options_;
  const CubinCache* cache_;
  CancelFlag cancel_;
  int processes_;
  int64_t from_cache_ = 0;
};

/// The kernel with smaller tiles: scheduled for a device with `registers` of a thread, with fewer
/// where that changes nothing. Nothing where no number of them does.
std::optional<ScheduledKernel> schedule_smaller(const Target& target, const CompiledKernel& kernel,
                                                int64_t* registers) {
  constexpr int64_t kFewest = 32;
  const uint64_t own = tile_program_hash(kernel.planned->schedule.program);
  Target tight = target;
  for (; *registers >= kFewest; *registers = *registers * 3 / 4) {
    tight.registers_per_thread = static_cast<decltype(tight.registers_per_thread)>(*registers);
    auto schedule = schedule_kernel(*kernel.tensors, *kernel.planned, tight);
    if (!schedule.ok()) return std::nullopt;
    if (tile_program_hash(schedule->program) != own) return std::move(*schedule);
  }
  return std::nullopt;
}

int64_t instructions(const KernelBlock& block) {
  int64_t count = 0;
  for (const KernelInstruction& in : block.body) {
    ++count;
    for (const KernelBlock& region : in.regions) count += instructions(region);
  }
  return count;
}

int64_t instructions(const KernelFunction& kernel) {
  int64_t count = 0;
  for (const KernelPhase& phase : kernel.phases) count += instructions(phase.body);
  return count;
}

/// Schedules what spills once more, and keeps what spills less. `registers`: of a thread, by
/// kernel, what it is scheduled for next. Whether anything that was kept still spills.
Result<bool> reschedule_spills(Compilation& c, CubinCompiler& compiler,
                               std::vector<int64_t>& registers, std::vector<DeviceCode>& code) {
  std::vector<size_t> numbers;
  std::vector<ScheduledKernel> schedules;
  std::vector<KernelFunction> functions;
  for (size_t k = 0; k < code.size(); ++k) {
    if (code[k].spills() == 0 || c.kernels[k].planned == nullptr) continue;
    auto schedule = schedule_smaller(c.target, c.kernels[k], &registers[k]);
    if (!schedule) continue;
    registers[k] = registers[k] * 3 / 4;
    auto function = lower_again(c, c.kernels[k], *schedule);
    // What has far more to do in a thread spills no less, and takes long to compile.
    if (!function.ok() || instructions(*function) > 2 * instructions(c.kernels[k].function))
      continue;
    numbers.push_back(k);
    schedules.push_back(std::move(*schedule));
    functions.push_back(std::move(*function));
  }
  std::vector<const KernelFunction*> again;
  for (const KernelFunction& function : functions) again.push_back(&function);
  WEFT_ASSIGN_OR_RETURN(std::vector<DeviceCode> smaller, compiler.compile(again));
  bool spills = false;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t k = numbers[i];
    if (smaller[i].spills() >= code[k].spills()) continue;
    c.device_notes.push_back(
        fmt::format("{}: {} bytes of registers spilled; scheduled again with smaller tiles: {}",
                    c.kernels[k].function.name, code[k].spills(), smaller[i].spills()));
    c.kernels[k].planned->schedule = std::move(schedules[i]);
    c.kernels[k].function = std::move(functions[i]);
    code[k] = std::move(smaller[i]);
    spills |= code[k].spills() > 0;
  }
  return spills;
}

/// Schedules what spills again, a few times as long as that leaves fewer spills.
Status avoid_spills(Compilation& c, CubinCompiler& compiler, std::vector<DeviceCode>& code) {
  constexpr int kMostRounds = 3;
  std::vector<int64_t> registers;
  for (const CompiledKernel& kernel : c.kernels) {
    const int64_t most = c.target.registers_per_thread;
    const bool is_chain = kernel.planned != nullptr &&
                          kernel.planned->schedule.composition.kind == Composition::Kind::kChain;
    // The prediction of a chain counts its registers, and finds a tile for any number of them.
    registers.push_back(is_chain ? most * 3 / 4 : most / 2);
  }
  for (int round = 0; round < kMostRounds; ++round) {
    WEFT_ASSIGN_OR_RETURN(const bool spills, reschedule_spills(c, compiler, registers, code));
    if (!spills) break;
  }
  for (size_t k = 0; k < code.size(); ++k) {
    if (code[k].spills() == 0) continue;
    c.device_notes.push_back(fmt::format("{}: {} bytes of registers spilled",
                                         c.kernels[k].function.name, code[k].spills()));
  }
  return {};
}

/// The code needs no more of an SM than the plan promised.
Status check_promises(const Target& target, const KernelFunction& kernel, const DeviceCode& code) {
  const CudaKernelResources& r = code.resources;
  const int64_t shared = r.shared_bytes + code.text.shared_bytes;
  const int64_t resident = resident_blocks_per_sm(target, code.text.threads, r.registers, shared);
  const int64_t wanted = std::max<int64_t>(1, kernel.blocks_per_sm);
  if (resident < wanted) {
    return Error{ErrorCode::kInternal,
                 fmt::format("kernel '{}' was planned for {} blocks of {} threads on an SM of {}; "
                             "its code ({} registers, {} bytes of shared memory) allows {}",
                             kernel.name, wanted, code.text.threads, target.name, r.registers,
                             shared, resident)};
  }
  if (code.text.grid_barrier && code.text.blocks > resident * target.sm_count) {
    return Error{
        ErrorCode::kInternal,
        fmt::format("kernel '{}' has a barrier of its grid of {} blocks; {} holds {}", kernel.name,
                    code.text.blocks, target.name, resident * target.sm_count)};
  }
  return {};
}

KernelImage image_of(const KernelFunction& kernel, DeviceCode code) {
  KernelImage image;
  image.name = kernel.name;
  image.bytes = std::move(code.binary.cubin);
  if (kernel.library) image.device.library_call = print(*kernel.library);
  image.phase_entries.assign(kernel.phases.size(), 0);
  image.hash = hash64(image.bytes);
  DeviceLaunch& launch = image.device;
  launch.entry = code.text.name;
  launch.blocks = code.text.blocks;
  launch.threads = code.text.threads;
  launch.shared_bytes = code.text.shared_bytes;
  launch.cluster = code.text.cluster;
  launch.cooperative = code.text.grid_barrier;
  launch.blocks_per_sm = code.text.blocks_per_sm;
  launch.registers = code.resources.registers;
  launch.spill_bytes = code.spills();
  return image;
}

}  // namespace

std::string device_arch(const Target& target) {
  // Warp groups multiply by instructions of this architecture alone.
  const bool own = multiplies_by_groups(DType::kF16, target);
  return fmt::format("sm_{}{}", target.compute_capability, own ? "a" : "");
}

Result<std::vector<KernelImage>> compile_device_kernels(Compilation& c, EntryCache* cache) {
  WEFT_ASSIGN_OR_RETURN(Nvrtc nvrtc, Nvrtc::load("", device_arch(c.target)));
  std::optional<CubinCache> cubins;
  if (cache != nullptr) cubins.emplace(*cache);
  CubinCompiler compiler(c, std::move(nvrtc), cubins ? &*cubins : nullptr);
  WEFT_ASSIGN_OR_RETURN(std::vector<DeviceCode> code, compiler.compile(functions_of(c)));
  WEFT_RETURN_IF_ERROR(avoid_spills(c, compiler, code));
  std::vector<KernelImage> images;
  std::map<std::string, int32_t> numbers;  // by entry point
  for (size_t k = 0; k < code.size(); ++k) {
    CompiledKernel& kernel = c.kernels[k];
    WEFT_RETURN_IF_ERROR(check_promises(c.target, kernel.function, code[k]));
    const auto [at, is_new] =
        numbers.try_emplace(code[k].text.name, static_cast<int32_t>(images.size()));
    kernel.image = at->second;
    if (is_new) images.push_back(image_of(kernel.function, std::move(code[k])));
  }
  c.unique_kernels = static_cast<int64_t>(images.size());
  c.kernels_from_cache = std::min(compiler.from_cache(), c.unique_kernels);
  return images;
}

}  // namespace weft
