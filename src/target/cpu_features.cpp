#include "target/cpu_features.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft {
namespace {

/// Vectors of this many bytes come with the feature.
int vector_bytes_of(const std::string& feature) {
  if (feature.starts_with("avx512")) return 64;
  const bool wide = feature.starts_with("avx") || feature == "fma" || feature == "f16c";
  return wide ? 32 : 16;
}

bool has(const std::vector<std::string>& features, const char* name) {
  return std::find(features.begin(), features.end(), name) != features.end();
}

/// The widest vectors whose whole instruction set is there.
int usable_vector_bytes(const std::vector<std::string>& f) {
  const bool wide = has(f, "avx") && has(f, "avx2") && has(f, "fma") && has(f, "f16c");
  if (!wide) return 16;
  for (const char* name : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) {
    if (!has(f, name)) return 32;
  }
  return 64;
}

struct KnownCpu {
  uint32_t family;
  uint32_t first_model, last_model;
  const char* name;
  int fma_units;  ///< of 64 bytes where the CPU has them, else of its widest vectors
};

// Zen 4 cuts 64-byte vectors in halves; client Ice Lake and Tiger Lake have one unit of 64 bytes.
constexpr KnownCpu kAmd[] = {
    {0x17, 0x00, 0x2f, "znver1", 1}, {0x17, 0x30, 0xff, "znver2", 2},
    {0x19, 0x00, 0x0f, "znver3", 2}, {0x19, 0x10, 0x1f, "znver4", 1},
    {0x19, 0x20, 0x5f, "znver3", 2}, {0x19, 0x60, 0xaf, "znver4", 1},
    {0x1a, 0x00, 0xff, "znver5", 2},
};
constexpr KnownCpu kIntel[] = {
    {6, 0x3c, 0x3c, "haswell", 2},        {6, 0x3d, 0x3d, "broadwell", 2},
    {6, 0x3f, 0x3f, "haswell", 2},        {6, 0x47, 0x47, "broadwell", 2},
    {6, 0x4e, 0x4e, "skylake", 2},        {6, 0x4f, 0x4f, "broadwell", 2},
    {6, 0x55, 0x55, "skylake-avx512", 2}, {6, 0x5e, 0x5e, "skylake", 2},
    {6, 0x6a, 0x6c, "icelake-server", 2}, {6, 0x7d, 0x7e, "icelake-client", 1},
    {6, 0x8c, 0x8d, "tigerlake", 1},      {6, 0x8e, 0x8e, "skylake", 2},
    {6, 0x8f, 0x8f, "sapphirerapids", 2}, {6, 0x97, 0x9a, "alderlake", 2},
    {6, 0x9e, 0x9e, "skylake", 2},        {6, 0xa5, 0xa6, "skylake", 2},
    {6, 0xad, 0xae, "graniterapids", 2},  {6, 0xb7, 0xbf, "raptorlake", 2},
    {6, 0xcf, 0xcf, "emeraldrapids", 2},
};

#if defined(__x86_64__)

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf cpuid_leaf(uint32_t leaf, uint32_t subleaf = 0) {
  Leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

/// Register files that the operating system saves.
uint64_t saved_state() {
  constexpr uint32_t kOsxsave = 1u << 27;
  if ((cpuid_leaf(1).c & kOsxsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

struct FeatureBit {
  const char* name;
  uint32_t word;
  int bit;
};

std::vector<std::string> detect_features() {
  const Leaf one = cpuid_leaf(1), seven = cpuid_leaf(7), more = cpuid_leaf(7, 1);
  const Leaf extended = cpuid_leaf(0x80000001);
  const FeatureBit bits[] = {
      {"sse3", one.c, 0},         {"ssse3", one.c, 9},         {"sse4.1", one.c, 19},
      {"sse4.2", one.c, 20},      {"popcnt", one.c, 23},       {"lzcnt", extended.c, 5},
      {"bmi", seven.b, 3},        {"bmi2", seven.b, 8},        {"avx", one.c, 28},
      {"avx2", seven.b, 5},       {"fma", one.c, 12},          {"f16c", one.c, 29},
      {"avxvnni", more.a, 4},     {"avx512f", seven.b, 16},    {"avx512dq", seven.b, 17},
      {"avx512cd", seven.b, 28},  {"avx512bw", seven.b, 30},   {"avx512vl", seven.b, 31},
      {"avx512vbmi", seven.c, 1}, {"avx512vbmi2", seven.c, 6}, {"avx512vnni", seven.c, 11},
      {"avx512bf16", more.a, 5},  {"avx512fp16", seven.d, 23},
  };
  const uint64_t state = saved_state();
  constexpr uint64_t kYmm = 0x6, kZmm = 0xE6;
  const int saved = (state & kZmm) == kZmm ? 64 : (state & kYmm) == kYmm ? 32 : 16;
  std::vector<std::string> found;
  for (const FeatureBit& b : bits) {
    if ((b.word >> b.bit & 1) != 0 && vector_bytes_of(b.name) <= saved) found.emplace_back(b.name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void name_cpu(CpuIdentity& identity) {
  identity.cpu = "x86-64";
  identity.fma_units = 2;
  const Leaf vendor = cpuid_leaf(0), one = cpuid_leaf(1);
  uint32_t family = one.a >> 8 & 0xf, model = one.a >> 4 & 0xf;
  if (family == 0xf || family == 6) model |= (one.a >> 16 & 0xf) << 4;
  if (family == 0xf) family += one.a >> 20 & 0xff;
  const auto find = [&](const auto& table) {
    for (const KnownCpu& k : table) {
      if (family != k.family || model < k.first_model || model > k.last_model) continue;
      identity.cpu = k.name;
      identity.fma_units = k.fma_units;
    }
  };
  for (const uint32_t letters : {vendor.b, vendor.d, vendor.c}) {
    for (int i = 0; i < 4; ++i) identity.vendor += static_cast<char>(letters >> 8 * i);
  }
  if (identity.vendor == "AuthenticAMD") find(kAmd);
  if (identity.vendor != "GenuineIntel") return;
  // Hypervisors give away another model's number, and the features of what is there.
  if (has(identity.features, "avx512fp16")) identity.cpu = "sapphirerapids";
  find(kIntel);
}

#endif

}  // namespace

CpuIdentity identify_cpu() {
  CpuIdentity identity;
#if defined(__x86_64__)
  identity.features = detect_features();
  identity.vector_bytes = usable_vector_bytes(identity.features);
  name_cpu(identity);
  const int32_t usable = identity.vector_bytes;
  identity = capped_to(std::move(identity), usable);
#endif
  return identity;
}

bool halves_vectors(std::string_view cpu) {
  const auto halves = [cpu](const KnownCpu& k) { return k.name == cpu && k.fma_units == 1; };
  // Zen 1 has no vectors of 64 bytes.
  return cpu != "znver1" &&
         (std::ranges::any_of(kAmd, halves) || std::ranges::any_of(kIntel, halves));
}

CpuIdentity capped_to(CpuIdentity identity, int bytes) {
  const bool narrower = bytes < identity.vector_bytes;
  identity.vector_bytes = std::min(identity.vector_bytes, bytes);
  std::erase_if(identity.features, [&](const std::string& feature) {
    return vector_bytes_of(feature) > identity.vector_bytes;
  });
  if (narrower && identity.vector_bytes == 32) identity.fma_units = 2;
  return identity;
}

}  // namespace weft
