// Injected into a CUDA process (CUDA_INJECTION64_PATH): writes "name nanoseconds blocks threads
// registers shared" of every kernel, in the order of their starts, to $WEFT_TRACE at the end.
#include <cupti.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>
namespace {
struct Record {
  std::string name;
  uint64_t start, end;
  unsigned blocks, threads, registers, shared;
};
std::vector<Record>& records() {
  static auto* r = new std::vector<Record>;
  return *r;
}
std::mutex mutex;
void CUPTIAPI ask(uint8_t** buffer, size_t* size, size_t* most) {
  *size = 8 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *most = 0;
}
void CUPTIAPI done(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* a = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &a) == CUPTI_SUCCESS) {
    if (a->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && a->kind != CUPTI_ACTIVITY_KIND_KERNEL)
      continue;
    auto* k = reinterpret_cast<CUpti_ActivityKernel10*>(a);
    records().push_back({k->name ? k->name : "?", k->start, k->end,
                         (unsigned)(k->gridX * k->gridY * k->gridZ),
                         (unsigned)(k->blockX * k->blockY * k->blockZ), k->registersPerThread,
                         (unsigned)(k->dynamicSharedMemory + k->staticSharedMemory)});
  }
  std::free(buffer);
}
void finish() {
  cuptiActivityFlushAll(1);
  const char* path = std::getenv("WEFT_TRACE");
  if (!path) return;
  FILE* f = std::fopen(path, "w");
  if (!f) return;
  std::lock_guard<std::mutex> lock(mutex);
  auto& all = records();
  std::stable_sort(all.begin(), all.end(),
                   [](const Record& a, const Record& b) { return a.start < b.start; });
  for (auto& r : all)
    std::fprintf(f, "%s %llu %llu %u %u %u %u\n", r.name.substr(0, r.name.find(' ')).c_str(),
                 (unsigned long long)r.start, (unsigned long long)r.end, r.blocks, r.threads,
                 r.registers, r.shared);
  std::fclose(f);
}
}  // namespace
extern "C" int InitializeInjection() {
  std::atexit(finish);
  int e = cuptiActivityRegisterCallbacks(ask, done);
  e = e ? e : cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (e) std::fprintf(stderr, "trace: CUPTI error %d\n", e);
  return 1;
}
