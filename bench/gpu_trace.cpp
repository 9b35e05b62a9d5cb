// What each kernel of a process takes on NVIDIA's device, by CUPTI, in the place where it runs:
//
//     g++ -std=c++20 -O1 -shared -fPIC -I $CUDA/include bench/gpu_trace.cpp -o libtrace.so -L
//     $CUDA/lib64 -lcupti CUDA_INJECTION64_PATH=$PWD/libtrace.so WEFT_TRACE=trace.txt weft bench
//     MODEL --target cuda
//
// The driver loads the library into the process. At the end, one line a kernel stands in
// $WEFT_TRACE, in the order of their starts: name, start and end in nanoseconds, blocks, threads of
// a block, registers of a thread, bytes of shared memory of a block.

#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Launch {
  std::string name;
  uint64_t start = 0, end = 0;
  long long blocks = 0, threads = 0;
  int registers = 0, shared_bytes = 0;
};

/// Never destroyed: buffers come back while the process ends.
std::vector<Launch>& launches() {
  static auto* all = new std::vector<Launch>;
  return *all;
}

std::mutex mutex;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  constexpr size_t kBytes = 8 << 20, kAlignment = 8;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBytes));
  *bytes = kBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    launches().push_back({k.name == nullptr ? "?" : k.name, k.start, k.end,
                          1LL * k.gridX * k.gridY * k.gridZ, 1LL * k.blockX * k.blockY * k.blockZ,
                          k.registersPerThread, k.dynamicSharedMemory + k.staticSharedMemory});
  }
  std::free(buffer);
}

void write_trace() {
  cuptiActivityFlushAll(1);
  const char* path = std::getenv("WEFT_TRACE");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex);
  std::ranges::stable_sort(launches(), {}, &Launch::start);
  for (const Launch& l : launches()) {
    const std::string name = l.name.substr(0, l.name.find(' '));
    std::fprintf(file, "%s %llu %llu %lld %lld %d %d\n", name.c_str(),
                 static_cast<unsigned long long>(l.start), static_cast<unsigned long long>(l.end),
                 l.blocks, l.threads, l.registers, l.shared_bytes);
  }
  std::fclose(file);
}

}  // namespace

/// What the driver calls when it is initialised.
extern "C" int InitializeInjection() {
  std::atexit(write_trace);
  const CUptiResult asked = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (asked != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
    std::fprintf(stderr, "gpu_trace: CUPTI records nothing\n");
  return 1;
}
