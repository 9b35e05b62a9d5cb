#include "codegen/cuda/prelude.h"
#include "codegen/cuda/prelude_common.h"

namespace weft {
namespace {

constexpr std::string_view kPlaceAndMemory = R"prelude(
#define WF_ON_DEVICE
#define WF_DEVICE static __device__ __forceinline__
#define WF_PART static __device__ __noinline__
#define WF_GLOBAL(p) __builtin_assume(__isGlobal(p))
#define WF_KERNEL(name, threads, min_blocks) \
  extern "C" __global__ void __launch_bounds__(threads, min_blocks) name
#define WF_EXPORT(name)
#define WF_SHARED(name) extern __shared__ __align__(1024) u8 name[]

WF_DEVICE u32 wf_thread() { return threadIdx.x; }
WF_DEVICE u32 wf_lane() { return threadIdx.x & 31; }
WF_DEVICE u32 wf_warp() { return threadIdx.x >> 5; }
WF_DEVICE u32 wf_block_x() { return blockIdx.x; }
WF_DEVICE u32 wf_block_y() { return blockIdx.y; }
WF_DEVICE u32 wf_block_z() { return blockIdx.z; }
WF_DEVICE u32 wf_grid_x() { return gridDim.x; }
WF_DEVICE u32 wf_grid_y() { return gridDim.y; }
WF_DEVICE u32 wf_grid_z() { return gridDim.z; }

template <class T, int N>
struct alignas(sizeof(T) * N) vec {
  T v[N];
  __device__ __forceinline__ T& operator[](int i) { return v[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return v[i]; }
};
template <int Bytes> struct wf_word;
template <> struct wf_word<1> { typedef unsigned char type; };
template <> struct wf_word<2> { typedef unsigned short type; };
template <> struct wf_word<4> { typedef unsigned int type; };
template <> struct wf_word<8> { typedef uint2 type; };
template <> struct wf_word<16> { typedef uint4 type; };
template <class To, class From>
WF_DEVICE To wf_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
template <int N, class T>
WF_DEVICE vec<T, N> wf_load(const T* p) {
  const auto word = *(const typename wf_word<sizeof(T) * N>::type*)p;
  return wf_cast<vec<T, N>>(word);
}
template <int N, class T>
WF_DEVICE vec<T, N> wf_load_ro(const T* p) {
  const auto word = __ldg((const typename wf_word<sizeof(T) * N>::type*)p);
  return wf_cast<vec<T, N>>(word);
}
template <int N, class T>
WF_DEVICE vec<T, N> wf_load_if(bool on, const T* p) {
  typename wf_word<sizeof(T) * N>::type word{};
  if (on) word = *(const typename wf_word<sizeof(T) * N>::type*)p;
  return wf_cast<vec<T, N>>(word);
}
template <int N, class T>
WF_DEVICE vec<T, N> wf_load_ro_if(bool on, const T* p) {
  typename wf_word<sizeof(T) * N>::type word{};
  if (on) word = __ldg((const typename wf_word<sizeof(T) * N>::type*)p);
  return wf_cast<vec<T, N>>(word);
}
template <int N, class T>
WF_DEVICE void wf_store(T* p, const vec<T, N>& v) {
  typedef typename wf_word<sizeof(T) * N>::type word;
  *(word*)p = wf_cast<word>(v);
}
template <int N, class T>
WF_DEVICE void wf_store_stream(T* p, const vec<T, N>& v) {
  typedef typename wf_word<sizeof(T) * N>::type word;
  __stcs((word*)p, wf_cast<word>(v));
}
)prelude";

constexpr std::string_view kWarp = R"prelude(
template <int Bytes> struct wf_bits_of;
template <> struct wf_bits_of<1> { typedef u8 type; };
template <> struct wf_bits_of<2> { typedef u16 type; };
template <> struct wf_bits_of<4> { typedef u32 type; };
template <> struct wf_bits_of<8> { typedef u64 type; };
template <int Bytes> struct wf_lane_word { typedef u32 type; };
template <> struct wf_lane_word<8> { typedef u64 type; };
template <class T>
WF_DEVICE typename wf_lane_word<sizeof(T)>::type wf_widen(const T& v) {
  return wf_cast<typename wf_bits_of<sizeof(T)>::type>(v);
}
template <class T>
WF_DEVICE T wf_narrow(typename wf_lane_word<sizeof(T)>::type w) {
  return wf_cast<T>((typename wf_bits_of<sizeof(T)>::type)w);
}
template <class T>
WF_DEVICE T wf_shfl(u32 mask, T v, u32 lane) {
  return wf_narrow<T>(__shfl_sync(mask, wf_widen(v), lane));
}
template <class T>
WF_DEVICE T wf_shfl_xor(u32 mask, T v, u32 x) {
  return wf_narrow<T>(__shfl_xor_sync(mask, wf_widen(v), x));
}
template <class T>
WF_DEVICE T wf_shfl_down(u32 mask, T v, u32 d) {
  return wf_narrow<T>(__shfl_down_sync(mask, wf_widen(v), d));
}
template <class T>
WF_DEVICE T wf_shfl_up(u32 mask, T v, u32 d) {
  return wf_narrow<T>(__shfl_up_sync(mask, wf_widen(v), d));
}
WF_DEVICE u32 wf_ballot(u32 mask, bool p) { return __ballot_sync(mask, p); }
WF_DEVICE bool wf_any(u32 mask, bool p) { return __any_sync(mask, p); }
WF_DEVICE bool wf_all(u32 mask, bool p) { return __all_sync(mask, p); }
WF_DEVICE void wf_sync_warp(u32 mask) { __syncwarp(mask); }
WF_DEVICE void wf_sync_block() { __syncthreads(); }
)prelude";

// The first block adds what makes the top bit flip once all have arrived, so the counter needs no
// reset between barriers or launches (the scheme of cooperative groups). Who waits looks without
// ordering anything: each acquire empties the first-level cache for all blocks beside.
constexpr std::string_view kGridAndCluster = R"prelude(
WF_DEVICE void wf_fence() { __threadfence(); }
WF_DEVICE u32 wf_atomic_add_acq_rel(u32* p, u32 v) {
  u32 old;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
WF_DEVICE u32 wf_load_acquire(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
WF_DEVICE u32 wf_load_relaxed(const u32* p) {
  u32 v;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
WF_DEVICE void wf_store_release(u32* p, u32 v) {
  asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
WF_DEVICE void wf_sync_grid(u32* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
    const u32 old = wf_atomic_add_acq_rel(counter, first ? 0x80000000u - (blocks - 1) : 1u);
    while (((old ^ wf_load_relaxed(counter)) & 0x80000000u) == 0) {
    }
    wf_load_acquire(counter);
  }
  __syncthreads();
}
#if __CUDA_ARCH__ >= 900
WF_DEVICE void wf_sync_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
WF_DEVICE u32 wf_cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
WF_DEVICE u32 wf_cluster_size() {
  u32 n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
template <class T>
WF_DEVICE T* wf_cluster_map(T* p, u32 rank) {
  T* mapped;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(p), "r"(rank));
  return mapped;
}
WF_DEVICE void wf_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
WF_DEVICE void wf_dependency_launch() { asm volatile("griddepcontrol.launch_dependents;"); }
#else
WF_DEVICE void wf_dependency_wait() {}
WF_DEVICE void wf_dependency_launch() {}
#endif
)prelude";

constexpr std::string_view kAsyncCopies = R"prelude(
WF_DEVICE u32 wf_shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
WF_DEVICE u64 wf_global_address(const void* p) { return (u64)__cvta_generic_to_global(p); }
WF_DEVICE void wf_cp_async_16_fill(void* s, const void* g, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)), "r"(bytes) : "memory");
}
WF_DEVICE void wf_cp_async_8_fill(void* s, const void* g, u32 bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)), "r"(bytes) : "memory");
}
WF_DEVICE void wf_cp_async_4_fill(void* s, const void* g, u32 bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)), "r"(bytes) : "memory");
}
WF_DEVICE void wf_cp_async_16(void* s, const void* g) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)) : "memory");
}
WF_DEVICE void wf_cp_async_8(void* s, const void* g) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)) : "memory");
}
WF_DEVICE void wf_cp_async_4(void* s, const void* g) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"(wf_shared_address(s)), "l"(wf_global_address(g)) : "memory");
}
WF_DEVICE void wf_cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
WF_DEVICE void wf_cp_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}
)prelude";

constexpr std::string_view kMatrix = R"prelude(
WF_DEVICE void wf_ldmatrix(u32 (&r)[1], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(r[0]) : "r"(wf_shared_address(p)) : "memory");
}
WF_DEVICE void wf_ldmatrix(u32 (&r)[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(wf_shared_address(p)) : "memory");
}
WF_DEVICE void wf_ldmatrix(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(wf_shared_address(p)) : "memory");
}
WF_DEVICE void wf_ldmatrix_trans(u32 (&r)[1], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(r[0]) : "r"(wf_shared_address(p)) : "memory");
}
WF_DEVICE void wf_ldmatrix_trans(u32 (&r)[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(wf_shared_address(p)) : "memory");
}
WF_DEVICE void wf_ldmatrix_trans(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(wf_shared_address(p)) : "memory");
}
#define WF_DEFINE_MMA(name, shape)                                                              \
  WF_DEVICE void name(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {                    \
    asm volatile("mma.sync.aligned." shape                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));           \
  }
WF_DEFINE_MMA(wf_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
WF_DEFINE_MMA(wf_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
WF_DEFINE_MMA(wf_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
WF_DEVICE void wf_fence_shared() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
template <int N>
WF_DEVICE void wf_group_wait(float (&d)[N]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
#pragma unroll
  for (int i = 0; i < N; ++i) { asm volatile("" : "+f"(d[i]) :: "memory"); }
}
WF_DEVICE u64 wf_panels(const void* p, u32 panel_bytes) {
  return (u64)((wf_shared_address(p) & 0x3ffff) >> 4) | (u64)(panel_bytes >> 4) << 16 |
         (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
#define wf_group_multiply(unit, kind, d, a, b, depth, a_panel, a_across, b_panel, b_across, under_way) \
  unit(d, wf_panels(a, a_panel * 2), wf_panels(b, b_panel * 2))
WF_DEVICE u32 wf_tf32(float v) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
)prelude";

constexpr std::string_view kAtomicsAndNumbers = R"prelude(
template <class T>
WF_DEVICE T wf_atomic_add(T* p, T v) { return atomicAdd(p, v); }
template <class T>
WF_DEVICE T wf_atomic_max(T* p, T v) { return atomicMax(p, v); }
template <class T>
WF_DEVICE T wf_atomic_min(T* p, T v) { return atomicMin(p, v); }
template <class T>
WF_DEVICE T wf_atomic_exchange(T* p, T v) { return atomicExch(p, v); }
template <class T>
WF_DEVICE T wf_atomic_cas(T* p, T expected, T v) { return atomicCAS(p, expected, v); }

WF_DEVICE u32 wf_bits(float v) { return __float_as_uint(v); }
WF_DEVICE u64 wf_bits(double v) { return (u64)__double_as_longlong(v); }
WF_DEVICE float wf_float(u32 v) { return __uint_as_float(v); }
WF_DEVICE double wf_double(u64 v) { return __longlong_as_double((s64)v); }
WF_DEVICE float wf_nan() { return wf_float(0x7fc00000u); }
WF_DEVICE float wf_inf() { return wf_float(0x7f800000u); }
WF_DEVICE float wf_to_float(bf16 v) { return wf_float((u32)v.x << 16); }
WF_DEVICE float wf_to_float(f16 v) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.x));
  return r;
}
WF_DEVICE f16 wf_to_f16(float v) {
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.x) : "f"(v));
  return r;
}
WF_DEVICE bf16 wf_to_bf16(float v) {
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.x) : "f"(v));
  return r;
}
WF_DEVICE u32 wf_pack_f16(float lo, float hi) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
WF_DEVICE u32 wf_pack_bf16(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
// Before the templates of these names, which take two comparisons for NaN.
#if __CUDA_ARCH__ >= 800
WF_DEVICE float sc_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
WF_DEVICE float sc_min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
WF_DEVICE float wf_rsqrt(float v) { return 1.0f / sqrtf(v); }
WF_DEVICE double wf_rsqrt(double v) { return 1.0 / sqrt(v); }
WF_DEVICE float wf_exp2_fast(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
WF_DEVICE float wf_exp_fast(float v) { return wf_exp2_fast(v * 1.44269504088896341f); }
WF_DEVICE float wf_rcp_fast(float v) { return __fdividef(1.0f, v); }
WF_DEVICE float wf_sigmoid_fast(float v) { return wf_rcp_fast(1.0f + wf_exp_fast(-v)); }
WF_DEVICE float wf_tanh_fast(float v) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
)prelude";

}  // namespace

std::string cuda_prelude() {
  std::string text(kPreludeTypes);
  for (const std::string_view part :
       {kPlaceAndMemory, kWarp, kGridAndCluster, kAsyncCopies, kMatrix, kAtomicsAndNumbers}) {
    text += part;
  }
  return text;
}

}  // namespace weft
