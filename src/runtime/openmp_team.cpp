#include "runtime/openmp_team.h"

#include <dlfcn.h>

#include <atomic>

namespace weft {
namespace {

template <typename F>
bool find(const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

}  // namespace

const OpenMpTeam* OpenMpTeam::loaded() {
  static OpenMpTeam team;
  static const bool kFound = find("GOMP_parallel", team.parallel_) &&
                             find("omp_get_thread_num", team.thread_number_) &&
                             find("omp_get_num_threads", team.team_size_);
  return kFound ? &team : nullptr;
}

bool OpenMpTeam::try_run(int threads, Body body, void* context) const {
  struct Call {
    const OpenMpTeam& team;
    Body body;
    void* context;
    int threads;
    std::atomic<bool> ran{false};
  } call{*this, body, context, threads};
  const auto enter = [](void* data) {
    auto& c = *static_cast<Call*>(data);
    if (c.team.team_size_() != c.threads) return;
    c.ran.store(true, std::memory_order_relaxed);
    c.body(c.context, c.team.thread_number_());
  };
  parallel_(enter, &call, static_cast<unsigned>(threads), 0);
  return call.ran.load(std::memory_order_relaxed);
}

}  // namespace weft
