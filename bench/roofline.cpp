// What this machine can do: the peak of fused multiply-adds, and the bandwidth of copies and of
// reads of given sizes.
//
//     roofline [--threads N] [--seconds S] [BYTES...]
//
// One JSON object on stdout: {"threads", "isa", "fma_gflops", "copies": [{"bytes", "copy_ms",
// "copy_gbps", "stream_ms", "stream_gbps", "read_ms", "read_gbps"}]}. BYTES is the size of the
// array that is copied, shared out to the threads; GB/s count bytes read plus bytes written.
// `stream` uses non-temporal stores: faster beyond the last-level cache, slower within. `read` adds
// up what is there and writes nothing; it is the faster of two ways, with and without prefetches.
// Figures are medians of many batches of S seconds together. Threads are pinned to the cores that
// the process may use.

#include <fmt/format.h>
#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "copies.h"

namespace {

using weft_bench::best_copies;
using weft_bench::CopyFunction;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

volatile float sink;

// Each loop keeps its accumulators in registers: the inner loop is unrolled whole, so that the
// array is no array. 24 of 32 registers for 512 bits, 12 of 16 below; chains of 4 cycles on two
// ports need 8.

__attribute__((target("avx512f"))) int64_t fma_512(int64_t rounds) {
  constexpr int kChains = 24;
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 term = _mm512_set1_ps(0.001F);
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = term;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, term);
  }
  __m512 total = term;
#pragma GCC unroll 24
  for (const __m512& sum : sums) total = _mm512_add_ps(total, sum);
  sink = _mm512_reduce_add_ps(total);
  return rounds * kChains * 16 * 2;
}

__attribute__((target("avx2,fma"))) int64_t fma_256(int64_t rounds) {
  constexpr int kChains = 12;
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 term = _mm256_set1_ps(0.001F);
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = term;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, term);
  }
  __m256 total = term;
#pragma GCC unroll 12
  for (const __m256& sum : sums) total = _mm256_add_ps(total, sum);
  sink = _mm256_cvtss_f32(total);
  return rounds * kChains * 8 * 2;
}

int64_t fma_128(int64_t rounds) {  // without FMA: a product and a sum
  constexpr int kChains = 12;
  const __m128 factor = _mm_set1_ps(0.999F);
  const __m128 term = _mm_set1_ps(0.001F);
  __m128 sums[kChains];
  for (__m128& sum : sums) sum = term;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (__m128& sum : sums) sum = _mm_add_ps(_mm_mul_ps(sum, factor), term);
  }
  __m128 total = term;
#pragma GCC unroll 12
  for (const __m128& sum : sums) total = _mm_add_ps(total, sum);
  sink = _mm_cvtss_f32(total);
  return rounds * kChains * 4 * 2;
}

constexpr int64_t kAhead = 2048;  // bytes between a line and what is asked for beside it

// Of a multiple of 256 bytes.

template <bool kPrefetch>
__attribute__((target("avx512f"))) void read_512(const char* from, int64_t bytes) {
  __m512i sums[4] = {};
  for (int64_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if constexpr (kPrefetch) _mm_prefetch(from + at + 64 * i + kAhead, _MM_HINT_T0);
      sums[i] = _mm512_add_epi32(sums[i], _mm512_load_si512(from + at + 64 * i));
    }
  }
  for (const __m512i& sum : sums) sink = static_cast<float>(_mm512_reduce_add_epi32(sum));
}

template <bool kPrefetch>
__attribute__((target("avx2"))) void read_256(const char* from, int64_t bytes) {
  __m256i sums[8] = {};
  for (int64_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if constexpr (kPrefetch) {
        if (i % 2 == 0) _mm_prefetch(from + at + 32 * i + kAhead, _MM_HINT_T0);
      }
      const char* place = from + at + 32 * i;
      sums[i] =
          _mm256_add_epi32(sums[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(place)));
    }
  }
  for (const __m256i& sum : sums) sink = static_cast<float>(_mm256_extract_epi32(sum, 0));
}

template <bool kPrefetch>
void read_128(const char* from, int64_t bytes) {
  __m128i sums[8] = {};
  for (int64_t at = 0; at < bytes; at += 128) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if constexpr (kPrefetch) {
        if (i % 4 == 0) _mm_prefetch(from + at + 16 * i + kAhead, _MM_HINT_T0);
      }
      const char* place = from + at + 16 * i;
      sums[i] = _mm_add_epi32(sums[i], _mm_load_si128(reinterpret_cast<const __m128i*>(place)));
    }
  }
  for (const __m128i& sum : sums) sink = static_cast<float>(_mm_cvtsi128_si32(sum));
}

using ReadFunction = void(const char* from, int64_t bytes);

struct Isa {
  std::string name;
  int64_t (*fma)(int64_t rounds);  ///< returns floating-point operations
  CopyFunction* copy;
  CopyFunction* stream;
  ReadFunction* read;
  ReadFunction* prefetching_read;
};

Isa best_isa() {
  const auto& [copy, stream] = best_copies();
  if (__builtin_cpu_supports("avx512f"))
    return {"avx512", fma_512, copy, stream, read_512<false>, read_512<true>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", fma_256, copy, stream, read_256<false>, read_256<true>};
  }
  return {"sse2", fma_128, copy, stream, read_128<false>, read_128<true>};
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Threads that run a task together: each waits, spinning, until all have arrived.
class Team {
 public:
  explicit Team(int size) : size_(size), cores_(allowed_cores()) {}

  /// Calls task(member) on every member, first to warm up, then in batches for about `seconds` in
  /// all. Returns seconds a call: the median of the batches, each as long as its slowest member.
  double measure(double seconds, const std::function<void(int)>& task) const {
    constexpr int kBatches = 40;
    std::vector<std::vector<double>> times(size_, std::vector<double>(kBatches));
    std::atomic<int> arrived = 0;
    std::atomic<int64_t> calls = 0;
    const auto member = [&](int index) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cores_[index % cores_.size()], &set);
      sched_setaffinity(0, sizeof(set), &set);
      int passed = 0;
      const auto meet = [&] {
        ++passed;
        arrived.fetch_add(1);
        while (arrived.load() < passed * size_) _mm_pause();
      };
      task(index);  // first touch
      meet();
      if (index == 0) {
        int64_t warm = 1;
        for (double elapsed = 0; elapsed < seconds / kBatches; warm *= 2) {
          const Clock::time_point start = Clock::now();
          for (int64_t i = 0; i < warm; ++i) task(index);
          elapsed = seconds_since(start);
        }
        calls = std::max<int64_t>(1, warm / 2);
      }
      meet();
      for (int batch = 0; batch < kBatches; ++batch) {
        meet();
        const Clock::time_point start = Clock::now();
        for (int64_t i = 0; i < calls; ++i) task(index);
        times[index][batch] = seconds_since(start);
      }
    };
    std::vector<std::thread> others;
    others.reserve(size_);
    for (int index = 0; index < size_; ++index) others.emplace_back(member, index);
    for (std::thread& other : others) other.join();
    std::vector<double> batches(kBatches);
    for (int batch = 0; batch < kBatches; ++batch) {
      for (const std::vector<double>& mine : times) {
        batches[batch] = std::max(batches[batch], mine[batch]);
      }
    }
    std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
    return batches[kBatches / 2] / static_cast<double>(calls);
  }

  int size() const { return size_; }

 private:
  int size_;
  std::vector<int> cores_;
};

double fma_gflops(const Team& team, const Isa& isa, double seconds) {
  std::atomic<int64_t> operations = 0;
  const double elapsed = team.measure(seconds, [&](int) { operations = isa.fma(2000); });
  return static_cast<double>(operations) * team.size() / elapsed * 1e-9;
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

/// `share` bytes for each of the team's members.
std::unique_ptr<char, Free> allocate(const Team& team, int64_t share) {
  return std::unique_ptr<char, Free>(
      static_cast<char*>(std::aligned_alloc(4096, (share * team.size() + 4095) / 4096 * 4096)));
}

int64_t share_of(const Team& team, int64_t bytes) {
  return (bytes / team.size() + 255) / 256 * 256;
}

double read_seconds(const Team& team, ReadFunction* read, double seconds, int64_t bytes) {
  const int64_t share = share_of(team, bytes);
  const auto from = allocate(team, share);
  if (!from) return 0;
  std::atomic<int> touched = 0;
  return team.measure(seconds, [&](int member) {
    char* source = from.get() + member * share;
    if (touched < team.size()) {
      std::memset(source, 1, share);
      ++touched;
    }
    read(source, share);
  });
}

double copy_seconds(const Team& team, CopyFunction* copy, double seconds, int64_t bytes) {
  const int64_t share = share_of(team, bytes);
  const auto from = allocate(team, share);
  const auto to = allocate(team, share);
  if (!from || !to) return 0;
  std::atomic<int> touched = 0;
  return team.measure(seconds, [&](int member) {
    char* source = from.get() + member * share;
    if (touched < team.size()) {  // in place before the first copy, by the core that reads it
      std::memset(source, 1, share);
      ++touched;
    }
    copy(to.get() + member * share, source, share);
    _mm_sfence();
  });
}

}  // namespace

int main(int argc, char** argv) {
  int threads = static_cast<int>(allowed_cores().size());
  double seconds = 0.1;
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool option = argument == "--threads" || argument == "--seconds";
    const double number = std::strtod(argv[option && i + 1 < argc ? ++i : i], nullptr);
    if (number <= 0) {
      fmt::print(stderr, "usage: roofline [--threads N] [--seconds S] [BYTES...]\n");
      return 2;
    }
    if (argument == "--threads") {
      threads = std::max(1, static_cast<int>(number));
    } else if (argument == "--seconds") {
      seconds = number;
    } else {
      sizes.push_back(static_cast<int64_t>(number));
    }
  }
  const Isa isa = best_isa();
  const Team team(threads);
  std::string copies;
  const double peak = fma_gflops(team, isa, seconds);
  for (const int64_t bytes : sizes) {
    const double plain = copy_seconds(team, isa.copy, seconds, bytes);
    const double stream = copy_seconds(team, isa.stream, seconds, bytes);
    const double read = std::min(read_seconds(team, isa.read, seconds, bytes),
                                 read_seconds(team, isa.prefetching_read, seconds, bytes));
    copies += fmt::format(
        "{}\n  {{\"bytes\": {}, \"copy_ms\": {:.6f}, \"copy_gbps\": {:.1f}, \"stream_ms\": {:.6f}, "
        "\"stream_gbps\": {:.1f}, \"read_ms\": {:.6f}, \"read_gbps\": {:.1f}}}",
        copies.empty() ? "" : ",", bytes, plain * 1e3, 2e-9 * static_cast<double>(bytes) / plain,
        stream * 1e3, 2e-9 * static_cast<double>(bytes) / stream, read * 1e3,
        1e-9 * static_cast<double>(bytes) / read);
  }
  fmt::print("{{\"threads\": {}, \"isa\": \"{}\", \"fma_gflops\": {:.1f}, \"copies\": [{}]}}\n",
             threads, isa.name, peak, copies);
  return 0;
}
