#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/result.h"

namespace weft::simt {

struct CompileOptions {
  /// Every access is told to the emulator (races, bounds, traffic); without, only collectives,
  /// barriers and wrapped accesses are, and a kernel runs several times faster.
  bool instrument = true;
  /// Its name along PATH or its path; empty for the first of g++, g++-14, g++-13 and g++-12.
  std::string compiler;
  /// Folder of compiled modules under the hash of what they were made from; empty for none. It is
  /// made when missing, and a help only: what cannot be read or written is compiled afresh.
  std::string cache_directory;
};

/// A CUDA text compiled by the host's g++ with the emulator's prelude (codegen/cuda/prelude.h), and
/// loaded. Holds no thread or device; the emulator of simt/launch.h runs its kernels.
class Module {
 public:
  /// kMissingDevice when there is no compiler; kInternal with the compiler's messages when it
  /// refuses the text, which weft wrote itself. `name` stands for the file in reports.
  static Result<std::shared_ptr<const Module>> compile(const std::string& text,
                                                       const std::string& name,
                                                       const CompileOptions& options = {});
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  using Entry = void (*)(const unsigned long long* arguments);
  struct Kernel {
    Entry enter = nullptr;
    uint32_t arity = 0;  ///< number of parameters
  };
  /// kInvalidInput when the text exports no kernel of this name.
  Result<Kernel> kernel(const std::string& name) const;

  const std::string& name() const { return name_; }
  /// What wf_sim_bind of the module takes; and the lock under which a launch holds it.
  void bind(void* machine) const;
  std::mutex& launch_lock() const { return launch_lock_; }

  /// Position of a code address within the module, which lines_of understands.
  uint32_t offset_of(const void* code) const;
  /// The line of the text behind each return address given as an offset; 0 where it is unknown.
  std::vector<int> lines_of(const std::vector<uint32_t>& offsets) const;

 private:
  Module() = default;

  std::string name_;
  int file_ = -1;  ///< the shared object, in memory
  void* handle_ = nullptr;
  uintptr_t base_ = 0;
  mutable std::mutex launch_lock_;
};

}  // namespace weft::simt
