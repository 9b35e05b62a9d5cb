#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simt/module.h"
#include "simt/report.h"
#include "support/result.h"

namespace weft::simt {

/// Global memory that a kernel may touch. Two buffers over the same bytes are one that may be read
/// and written.
struct Buffer {
  enum class Use : uint8_t {
    kRead,       ///< the launch only reads it
    kWrite,      ///< the launch writes every byte, and reads none before
    kScratch,    ///< holds nothing at the start, and need not be full at the end
    kReadWrite,  ///< holds values at the start
  };
  std::string name;
  std::byte* data = nullptr;
  size_t bytes = 0;
  Use use = Use::kReadWrite;
};

/// A kernel's parameter: a pointer or a number, by value.
class Argument {
 public:
  template <typename T>
  Argument(T value) {  // NOLINT: implicit
    static_assert(sizeof(T) <= sizeof bits_ && std::is_trivially_copyable_v<T>);
    std::memcpy(&bits_, &value, sizeof value);
  }
  unsigned long long bits() const { return bits_; }

 private:
  unsigned long long bits_ = 0;
};

struct LaunchShape {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 32;     ///< of a block: a multiple of 32, at most 1024
  uint32_t cluster = 1;      ///< blocks of a cluster, along x: divides grid[0]
  bool cooperative = false;  ///< all blocks are resident, so the grid barrier works
  size_t shared_bytes = 0;   ///< dynamic shared memory of a block
};

struct LaunchOptions {
  bool check = true;     ///< races, uninitialised and stale reads, unwritten outputs
  bool traffic = false;  ///< fill Report::traffic
  size_t max_issues = 32;
};

/// Runs kernels of modules on this thread: every thread of every resident block is a fiber. Blocks
/// of a plain launch run one after another, those of a cluster or a cooperative launch side by
/// side. The same launch gives the same report, but for addresses that decide about sectors.
///
/// Bounds, divergence and deadlocks are always checked and end the launch; what
/// LaunchOptions::check finds is reported and the launch goes on.
class Emulator {
 public:
  Emulator();
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  /// kInvalidInput for a kernel that the module lacks, a wrong number of arguments or a shape that
  /// no device takes; kUnsupported for more threads at a time than the emulator holds, and for a
  /// machine that it has no stack switch for. A faulty kernel is no error: the report tells.
  Result<Report> launch(const Module& module, const std::string& kernel, const LaunchShape& shape,
                        const std::vector<Buffer>& buffers, const std::vector<Argument>& arguments,
                        const LaunchOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::simt
