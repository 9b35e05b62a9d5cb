#include "codegen/cuda/emulator_abi.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/prelude_common.h"

namespace weft {
namespace {

// The callbacks of -fsanitize=thread are the module's own, so nothing needs to be exported by the
// program that loads it. Accesses to stacks return at once; volatile ones are the wrappers' own,
// already told to the emulator.
constexpr std::string_view kCallbacks = R"prelude(
#define WF_BARE __attribute__((no_sanitize("thread")))
#define WF_HERE __builtin_return_address(0)
static wf_machine* wf_sim;
extern "C" WF_BARE void wf_sim_bind(wf_machine* machine) { wf_sim = machine; }
WF_BARE static inline bool wf_on_stack(const void* p) {
  return (u64)p - (u64)wf_sim->stacks < wf_sim->stack_bytes;
}
#define WF_TSAN(name, bytes, kind)                                       \
  extern "C" WF_BARE void __tsan_##name##bytes(void* p) {                \
    if (!wf_on_stack(p)) { wf_sim->access(wf_sim, p, bytes, kind, WF_HERE); } \
  }
#define WF_TSAN_ALL(bytes)                             \
  WF_TSAN(read, bytes, wf_access_load)                 \
  WF_TSAN(write, bytes, wf_access_store)               \
  WF_TSAN(unaligned_read, bytes, wf_access_load)       \
  WF_TSAN(unaligned_write, bytes, wf_access_store)     \
  extern "C" void __tsan_volatile_read##bytes(void*) {}  \
  extern "C" void __tsan_volatile_write##bytes(void*) {}
WF_TSAN_ALL(1)
WF_TSAN_ALL(2)
WF_TSAN_ALL(4)
WF_TSAN_ALL(8)
WF_TSAN_ALL(16)
extern "C" WF_BARE void __tsan_read_range(void* p, u64 bytes) {
  if (!wf_on_stack(p)) { wf_sim->access(wf_sim, p, (u32)bytes, wf_access_load, WF_HERE); }
}
extern "C" WF_BARE void __tsan_write_range(void* p, u64 bytes) {
  if (!wf_on_stack(p)) { wf_sim->access(wf_sim, p, (u32)bytes, wf_access_store, WF_HERE); }
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
)prelude";

// A thread never changes its place, so its reads are constant functions: g++ reads them once.
constexpr std::string_view kPlace = R"prelude(
#define __restrict__ __restrict
#define WF_DEVICE static inline
#define WF_PART static __attribute__((noinline))
#define WF_GLOBAL(p)
#define WF_KERNEL(name, threads, min_blocks) extern "C" __attribute__((noinline)) void name
#define WF_SHARED(name) u8* const name = wf_sim_shared()
#define WF_SITE (__LINE__ * 1000u + __COUNTER__ % 1000u)
#define WF_CONSTANT static WF_BARE __attribute__((const, noinline, noclone))
#define WF_WRAPPER static WF_BARE __attribute__((noinline, noclone))
WF_CONSTANT u32 wf_thread() { return wf_sim->place->thread; }
WF_CONSTANT u32 wf_block_x() { return wf_sim->place->block[0]; }
WF_CONSTANT u32 wf_block_y() { return wf_sim->place->block[1]; }
WF_CONSTANT u32 wf_block_z() { return wf_sim->place->block[2]; }
WF_CONSTANT u32 wf_grid_x() { return wf_sim->place->grid[0]; }
WF_CONSTANT u32 wf_grid_y() { return wf_sim->place->grid[1]; }
WF_CONSTANT u32 wf_grid_z() { return wf_sim->place->grid[2]; }
WF_CONSTANT u32 wf_cluster_rank() { return wf_sim->place->cluster_rank; }
WF_CONSTANT u32 wf_cluster_size() { return wf_sim->place->cluster_size; }
WF_CONSTANT u8* wf_sim_shared() { return wf_sim->place->shared; }
static inline u32 wf_lane() { return wf_thread() & 31; }
static inline u32 wf_warp() { return wf_thread() >> 5; }

template <class... A> struct wf_types {};
template <u32... I> struct wf_indices {};
template <u32 N, u32... I> struct wf_count : wf_count<N - 1, N - 1, I...> {};
template <u32... I> struct wf_count<0, I...> { typedef wf_indices<I...> type; };
template <class... A, u32... I>
WF_BARE static void wf_sim_call(void (*kernel)(A...), const u64* arguments, wf_indices<I...>) {
  kernel(*(A*)&arguments[I]...);
}
template <class... A>
static inline u32 wf_sim_arity(void (*)(A...)) { return sizeof...(A); }
template <class... A>
WF_BARE static void wf_sim_call(void (*kernel)(A...), const u64* arguments) {
  wf_sim_call(kernel, arguments, typename wf_count<sizeof...(A)>::type{});
}
#define WF_EXPORT(name)                                                                        \
  extern "C" WF_BARE void wf_enter_##name(const u64* arguments) { wf_sim_call(name, arguments); } \
  extern "C" WF_BARE u32 wf_arity_##name() { return wf_sim_arity(name); }
)prelude";

constexpr std::string_view kMemory = R"prelude(
template <class T, int N>
struct alignas(sizeof(T) * N) vec {
  T v[N];
  T& operator[](int i) { return v[i]; }
  const T& operator[](int i) const { return v[i]; }
};
template <class To, class From>
static inline To wf_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
template <int N, class T>
WF_WRAPPER vec<T, N> wf_load(const T* p) {
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_load, WF_HERE);
  vec<T, N> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <int N, class T>
WF_WRAPPER vec<T, N> wf_load_ro(const T* p) {
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_load_ro, WF_HERE);
  vec<T, N> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <int N, class T>
WF_WRAPPER vec<T, N> wf_load_if(bool on, const T* p) {
  vec<T, N> v{};
  if (!on) return v;
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_load, WF_HERE);
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <int N, class T>
WF_WRAPPER vec<T, N> wf_load_ro_if(bool on, const T* p) {
  vec<T, N> v{};
  if (!on) return v;
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_load_ro, WF_HERE);
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <int N, class T>
WF_WRAPPER void wf_store(T* p, const vec<T, N>& v) {
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_store, WF_HERE);
  __builtin_memcpy(p, &v, sizeof v);
}
template <int N, class T>
WF_WRAPPER void wf_store_stream(T* p, const vec<T, N>& v) {
  wf_sim->access(wf_sim, p, sizeof(T) * N, wf_access_store, WF_HERE);
  __builtin_memcpy(p, &v, sizeof v);
}
#define WF_ATOMIC(name, parameters, kind, now)                          \
  template <class T>                                                    \
  WF_WRAPPER T name parameters {                                        \
    wf_sim->access(wf_sim, p, sizeof(T), kind, WF_HERE);                \
    const T old = *(volatile T*)p;                                      \
    *(volatile T*)p = now;                                              \
    return old;                                                         \
  }
WF_ATOMIC(wf_atomic_add, (T* p, T v), wf_access_relaxed, old + v)
WF_ATOMIC(wf_atomic_max, (T* p, T v), wf_access_relaxed, old < v ? v : old)
WF_ATOMIC(wf_atomic_min, (T* p, T v), wf_access_relaxed, v < old ? v : old)
WF_ATOMIC(wf_atomic_exchange, (T* p, T v), wf_access_relaxed, v)
WF_ATOMIC(wf_atomic_cas, (T* p, T expected, T v), wf_access_relaxed, old == expected ? v : old)
WF_ATOMIC(wf_atomic_add_acq_rel, (T* p, T v), wf_access_acq_rel, old + v)
WF_WRAPPER u32 wf_load_acquire(const u32* p) {
  wf_sim->pause(wf_sim);
  wf_sim->access(wf_sim, p, sizeof(u32), wf_access_acquire, WF_HERE);
  return *(const volatile u32*)p;
}
WF_WRAPPER void wf_store_release(u32* p, u32 v) {
  wf_sim->access(wf_sim, p, sizeof(u32), wf_access_release, WF_HERE);
  *(volatile u32*)p = v;
}
WF_WRAPPER void wf_fence() { wf_sim->fence(wf_sim); }
WF_WRAPPER void wf_cp_async_16_fill(void* s, const void* g, u32 bytes) {
  wf_sim->copy(wf_sim, s, g, 16, bytes, WF_HERE);
}
WF_WRAPPER void wf_cp_async_8_fill(void* s, const void* g, u32 bytes) {
  wf_sim->copy(wf_sim, s, g, 8, bytes, WF_HERE);
}
WF_WRAPPER void wf_cp_async_4_fill(void* s, const void* g, u32 bytes) {
  wf_sim->copy(wf_sim, s, g, 4, bytes, WF_HERE);
}
WF_WRAPPER void wf_cp_async_16(void* s, const void* g) {
  wf_sim->copy(wf_sim, s, g, 16, 16, WF_HERE);
}
WF_WRAPPER void wf_cp_async_8(void* s, const void* g) { wf_sim->copy(wf_sim, s, g, 8, 8, WF_HERE); }
WF_WRAPPER void wf_cp_async_4(void* s, const void* g) { wf_sim->copy(wf_sim, s, g, 4, 4, WF_HERE); }
WF_WRAPPER void wf_cp_commit() { wf_sim->commit(wf_sim); }
template <int N>
WF_WRAPPER void wf_cp_wait() { wf_sim->wait(wf_sim, N); }
)prelude";

constexpr std::string_view kCollectives = R"prelude(
WF_WRAPPER void wf_sim_barrier(wf_barrier_kind kind, u32* counter, u32 site) {
  wf_sim->barrier(wf_sim, kind, counter, site);
}
#define wf_sync_block() wf_sim_barrier(wf_barrier_block, 0, WF_SITE)
#define wf_sync_grid(counter) wf_sim_barrier(wf_barrier_grid, counter, WF_SITE)
#define wf_sync_cluster() wf_sim_barrier(wf_barrier_cluster, 0, WF_SITE)
template <class T>
WF_WRAPPER T* wf_sim_map(T* p, u32 rank, u32 site) {
  return (T*)wf_sim->map(wf_sim, p, rank, site);
}
#define wf_cluster_map(p, rank) wf_sim_map(p, rank, WF_SITE)

WF_WRAPPER u64 wf_sim_exchange(wf_collective_kind kind, u32 mask, u64 value, u32 source, u32 site) {
  wf_collective c;
  c.kind = kind;
  c.mask = mask;
  c.site = site;
  c.count = source;
  c.value = value;
  wf_sim->collective(wf_sim, &c);
  return c.result;
}
template <class T>
static inline T wf_sim_shuffle(u32 mask, T v, u32 source, u32 site) {
  u64 word = 0;
  __builtin_memcpy(&word, &v, sizeof(T));
  word = wf_sim_exchange(wf_collective_shuffle, mask, word, source, site);
  __builtin_memcpy(&v, &word, sizeof(T));
  return v;
}
static inline u32 wf_sim_up(u32 d) { return wf_lane() >= d ? wf_lane() - d : wf_lane(); }
static inline u32 wf_sim_down(u32 d) { return d < 32 - wf_lane() ? wf_lane() + d : wf_lane(); }
#define wf_shfl(mask, v, lane) wf_sim_shuffle(mask, v, (lane) & 31, WF_SITE)
#define wf_shfl_xor(mask, v, x) wf_sim_shuffle(mask, v, (wf_lane() ^ (x)) & 31, WF_SITE)
#define wf_shfl_down(mask, v, d) wf_sim_shuffle(mask, v, wf_sim_down(d), WF_SITE)
#define wf_shfl_up(mask, v, d) wf_sim_shuffle(mask, v, wf_sim_up(d), WF_SITE)
#define wf_ballot(mask, p) ((u32)wf_sim_exchange(wf_collective_ballot, mask, (p) ? 1 : 0, 0, WF_SITE))
#define wf_any(mask, p) (wf_ballot(mask, p) != 0)
#define wf_all(mask, p) (wf_ballot(mask, !(p)) == 0)
#define wf_sync_warp(mask) ((void)wf_sim_exchange(wf_collective_sync, mask, 0, 0, WF_SITE))

WF_WRAPPER void wf_sim_mma(wf_collective_kind kind, float* d, const u32* a, const u32* b, u32 site) {
  wf_collective c;
  c.kind = kind;
  c.mask = WF_FULL;
  c.site = site;
  c.d = d;
  c.a = a;
  c.b = b;
  wf_sim->collective(wf_sim, &c);
}
static inline void wf_sim_mma_checked(wf_collective_kind kind, float (&d)[4], const u32 (&a)[4],
                                      const u32 (&b)[2], u32 site) {
  wf_sim_mma(kind, d, a, b, site);
}
#define wf_mma_f16(d, a, b) wf_sim_mma_checked(wf_collective_mma_f16, d, a, b, WF_SITE)
#define wf_mma_bf16(d, a, b) wf_sim_mma_checked(wf_collective_mma_bf16, d, a, b, WF_SITE)
#define wf_mma_tf32(d, a, b) wf_sim_mma_checked(wf_collective_mma_tf32, d, a, b, WF_SITE)
template <u32 N>
WF_WRAPPER void wf_sim_group(wf_collective_kind kind, float (&d)[N], const void* a, const void* b,
                             u32 depth, u32 a_panel, bool a_across, u32 b_panel, bool b_across,
                             bool under_way, u32 site) {
  wf_group group;
  group.under_way = under_way;
  group.left = a;
  group.right = b;
  group.columns = 2 * N;
  group.depth = depth;
  group.first_row = wf_warp() % 4 * 16;
  group.left_panel = a_panel;
  group.right_panel = b_panel;
  group.left_across = a_across;
  group.right_across = b_across;
  wf_collective c;
  c.kind = kind;
  c.mask = WF_FULL;
  c.site = site;
  c.count = 0;
  c.d = d;
  c.address = WF_HERE;
  c.group = &group;
  wf_sim->collective(wf_sim, &c);
}
#define wf_group_multiply(unit, kind, d, a, b, depth, a_panel, a_across, b_panel, b_across, \
                          under_way)                                                          \
  wf_sim_group(wf_collective_group_##kind, d, a, b, depth, a_panel, a_across, b_panel, b_across, \
               under_way, WF_SITE)
template <u32 N>
WF_WRAPPER void wf_group_wait(float (&)[N]) { wf_sim->group_wait(wf_sim); }
static inline void wf_fence_shared() {}
template <u32 N>
WF_WRAPPER void wf_sim_ldmatrix(wf_collective_kind kind, u32 (&r)[N], const void* row, u32 site) {
  static_assert(N == 1 || N == 2 || N == 4, "ldmatrix loads 1, 2 or 4 matrices");
  wf_collective c;
  c.kind = kind;
  c.mask = WF_FULL;
  c.site = site;
  c.count = N;
  c.r = r;
  c.row = row;
  c.address = WF_HERE;
  wf_sim->collective(wf_sim, &c);
}
#define wf_ldmatrix(r, row) wf_sim_ldmatrix(wf_collective_ldmatrix, r, row, WF_SITE)
#define wf_ldmatrix_trans(r, row) wf_sim_ldmatrix(wf_collective_ldmatrix_trans, r, row, WF_SITE)
)prelude";

constexpr std::string_view kNumbers = R"prelude(
#define WF_LIBM_1(name) extern "C" float name##f(float) noexcept; extern "C" double name(double) noexcept;
#define WF_LIBM_2(name) \
  extern "C" float name##f(float, float) noexcept; extern "C" double name(double, double) noexcept;
WF_LIBM_1(exp) WF_LIBM_1(exp2) WF_LIBM_1(expm1) WF_LIBM_1(log) WF_LIBM_1(log2) WF_LIBM_1(log1p)
WF_LIBM_1(sin) WF_LIBM_1(cos) WF_LIBM_1(tan) WF_LIBM_1(asin) WF_LIBM_1(acos) WF_LIBM_1(atan)
WF_LIBM_1(sinh) WF_LIBM_1(cosh) WF_LIBM_1(tanh) WF_LIBM_1(asinh) WF_LIBM_1(acosh) WF_LIBM_1(atanh)
WF_LIBM_1(erf) WF_LIBM_1(sqrt) WF_LIBM_1(floor) WF_LIBM_1(ceil) WF_LIBM_1(rint) WF_LIBM_1(trunc)
WF_LIBM_1(fabs)
WF_LIBM_2(atan2) WF_LIBM_2(pow) WF_LIBM_2(fmod) WF_LIBM_2(fmin) WF_LIBM_2(fmax) WF_LIBM_2(copysign)
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;

static inline u32 wf_bits(float v) { return wf_cast<u32>(v); }
static inline u64 wf_bits(double v) { return wf_cast<u64>(v); }
static inline float wf_float(u32 v) { return wf_cast<float>(v); }
static inline double wf_double(u64 v) { return wf_cast<double>(v); }
static inline float wf_nan() { return wf_float(0x7fc00000u); }
static inline float wf_inf() { return wf_float(0x7f800000u); }
static inline float wf_to_float(bf16 v) { return wf_float((u32)v.x << 16); }
static inline float wf_to_float(f16 v) {
  const u32 sign = (u32)(v.x & 0x8000) << 16;
  const u32 magnitude = v.x & 0x7fff;
  if (magnitude >= 0x7c00) { return wf_float(sign | 0x7f800000u | (magnitude & 0x3ff) << 13); }
  const float scaled = wf_float(magnitude << 13) * wf_float(0x77800000u);
  return wf_float(sign | wf_bits(scaled));
}
static inline bf16 wf_to_bf16(float v) {
  const u32 b = wf_bits(v);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return bf16{0x7fff}; }
  return bf16{(u16)((b + 0x7fffu + (b >> 16 & 1)) >> 16)};
}
static inline f16 wf_to_f16(float v) {
  const u32 b = wf_bits(v);
  const u16 sign = (u16)(b >> 16 & 0x8000);
  const u32 magnitude = b & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return f16{0x7fff}; }
  if (magnitude >= 0x47800000u) { return f16{(u16)(sign | 0x7c00)}; }
  if (magnitude < 0x38800000u) {
    const float shifted = wf_float(magnitude) + wf_float(0x3f000000u);
    return f16{(u16)(sign | (wf_bits(shifted) - 0x3f000000u))};
  }
  return f16{(u16)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13)};
}
static inline u32 wf_pack_f16(float lo, float hi) {
  return wf_to_f16(lo).x | (u32)wf_to_f16(hi).x << 16;
}
static inline u32 wf_pack_bf16(float lo, float hi) {
  return wf_to_bf16(lo).x | (u32)wf_to_bf16(hi).x << 16;
}
static inline u32 wf_tf32(float v) {
  const u32 b = wf_bits(v);
  return (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000u) & ~0x1fffu;
}
static inline float wf_rsqrt(float v) { return 1.0f / sqrtf(v); }
static inline double wf_rsqrt(double v) { return 1.0 / sqrt(v); }
static inline float wf_exp_fast(float v) { return expf(v); }
static inline float wf_exp2_fast(float v) { return exp2f(v); }
static inline float wf_rcp_fast(float v) { return 1.0f / v; }
static inline float wf_sigmoid_fast(float v) { return 1.0f / (1.0f + expf(-v)); }
static inline float wf_tanh_fast(float v) { return tanhf(v); }
static inline void wf_dependency_wait() {}
static inline void wf_dependency_launch() {}
)prelude";

}  // namespace

std::string emulator_prelude() {
  std::string text(kPreludeTypes);
  text += simt_abi::kEmulatorAbi;
  for (const std::string_view part : {kCallbacks, kPlace, kMemory, kCollectives, kNumbers}) {
    text += part;
  }
  return text;
}

}  // namespace weft
