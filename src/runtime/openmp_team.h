#pragma once

namespace weft {

/// The OpenMP runtime that this process has loaded, as PyTorch does: its threads wait for their
/// next work on the cores that others would need, so that it is better to use them than to have
/// one's own.
class OpenMpTeam {
 public:
  /// Null where no runtime with the entry points of GCC's was loaded when this was first asked.
  static const OpenMpTeam* loaded();

  /// As ThreadPool::try_run. False, without a call, where the runtime gives fewer threads, as
  /// inside of a parallel region.
  using Body = void (*)(void* context, int thread);
  bool try_run(int threads, Body body, void* context) const;

 private:
  void (*parallel_)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread_number_)() = nullptr;
  int (*team_size_)() = nullptr;
};

}  // namespace weft
