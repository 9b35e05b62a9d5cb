#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/dynamic_library.h"
#include "support/result.h"

namespace weft {

/// What the assembler says one kernel needs of a device.
struct CudaKernelResources {
  std::string name;
  int32_t registers = 0;  ///< of a thread
  int32_t stack_bytes = 0;
  int32_t spill_store_bytes = 0;
  int32_t spill_load_bytes = 0;
  int32_t shared_bytes = 0;  ///< static; dynamic shared memory is the launch's
  friend bool operator==(const CudaKernelResources&, const CudaKernelResources&) = default;
};

/// Code of one architecture, as the driver loads it.
struct CudaBinary {
  std::vector<std::byte> cubin;
  std::vector<CudaKernelResources> kernels;  ///< by name
};

/// The resources in the log of ptxas -v, by kernel name. Lines that say nothing about an entry
/// function are passed over.
std::vector<CudaKernelResources> parse_ptxas_log(std::string_view log);

struct NvrtcOptions {
  std::string arch = "sm_90";  ///< "sm_80", "sm_90a", "sm_100", …
  /// Joins a * b + c of the text into one rounding. Off: the text says fma where it means it.
  bool contract = false;
  bool optimizes = true;  ///< else as little as it can
};

/// NVIDIA's run-time compiler, which needs no device and no driver. One compile at a time within a
/// process: a lock of the library serialises them.
class Nvrtc {
 public:
  /// Looks for the library: `path` if given, else $WEFT_NVRTC, else in $CUDA_HOME/lib64,
  /// /usr/local/cuda/lib64, lib/ beside the program's file, the virtual environment that
  /// scripts/setup makes and the loader's own folders, newest version first. Takes the first that
  /// compiles for `arch`, where one is given. kMissingDevice lists what was looked for, or says
  /// what the first one found does not do.
  static Result<Nvrtc> load(const std::string& path = "", const std::string& arch = "");

  /// Compiles a text that includes "weft_cuda.h" (codegen/cuda/prelude.h). kMissingDevice for an
  /// architecture that this version does not know; kInternal with the compiler's messages when it
  /// refuses the text, which weft wrote itself. `name` stands for the file in those. The same input
  /// gives the same bytes.
  Result<CudaBinary> compile(const std::string& text, const std::string& name,
                             const NvrtcOptions& options) const;

  int major() const { return major_; }
  int minor() const { return minor_; }
  const std::string& path() const { return path_; }

 private:
  struct Library;
  Nvrtc() = default;
  static Result<Nvrtc> open(DynamicLibrary loaded);
  Status check_arch(const std::string& arch) const;

  std::shared_ptr<const Library> library_;
  std::string path_;
  int major_ = 0, minor_ = 0;
};

}  // namespace weft
