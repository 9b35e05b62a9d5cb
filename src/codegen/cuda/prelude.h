#pragma once

#include <string>

namespace weft {

/// The header that every generated CUDA text includes as "weft_cuda.h", in two forms that define
/// the same names: one for NVRTC and nvcc (sm_80 and above; inline PTX, no header of CUDA), one for
/// the host's g++ (calls into the emulator of src/simt). One kernel text serves both.
///
/// A kernel text:
///
///     #include "weft_cuda.h"
///     WF_KERNEL(scale, 128, 4)(const float* __restrict__ x, float* __restrict__ y, s64 n) {
///       WF_SHARED(shared);                      // u8*, 1024-byte aligned; omit where unused
///       const s64 i = (s64)wf_block_x() * 128 + wf_thread();
///       if (i < n) { y[i] = x[i] * 2.0f; }
///     }
///     WF_EXPORT(scale)
///
/// WF_KERNEL(name, threads, min_blocks): threads of a block (a multiple of 32, one-dimensional) and
/// the blocks that an SM must hold (1 if it does not matter). WF_EXPORT(name) follows each kernel.
/// WF_SHARED is the dynamic shared memory of the launch: the only shared memory there is.
/// Parameters are pointers and numbers by value. WF_DEVICE precedes helper functions, WF_PART parts
/// of a kernel that are called more than once; there WF_GLOBAL(p) says that a pointer is none into
/// shared memory.
///
/// Types: u8 u16 u32 u64 s8 s16 s32 s64, f16 and bf16 (structs of a u16 `x`), float, double, bool,
/// and vec<T, N> (an aligned array `v` with operator[]; N * sizeof(T) is 1, 2, 4, 8 or 16).
///
/// Place      wf_thread() wf_lane() wf_warp() wf_block_x/y/z() wf_grid_x/y/z(): u32.
///            wf_cluster_rank() wf_cluster_size(): block within its cluster (launches with one).
/// Memory     p[i] on any pointer: one scalar access.
///            wf_load<N>(p) -> vec<T, N>, wf_store(p, vec): one access of N elements, aligned to
///            its size. wf_load_if<N>(on, p), wf_load_ro_if<N>(on, p): zeros where `on` is false.
///            wf_load_ro<N>(p): the same through the read-only path; nothing may write
///            that memory during the launch. wf_store_stream(p, vec): not read again soon.
/// Warp       wf_shfl(mask, v, lane), wf_shfl_xor(mask, v, x), wf_shfl_down(mask, v, d),
///            wf_shfl_up(mask, v, d): T of 1 to 8 bytes (bool, f16, s64, …); a source beyond the
///            warp yields the lane's own value. wf_ballot(mask, p) -> u32, wf_any(mask, p),
///            wf_all(mask, p). WF_FULL is the mask of all lanes. They do not order memory;
///            wf_sync_warp(mask) does.
/// Barriers   wf_sync_block(). wf_sync_grid(counter): cooperative launches; counter is a u32 in
///            global memory, zero before the first launch that uses it, for it alone.
///            wf_sync_cluster(): every thread of the cluster. All threads reach the same one.
/// Cluster    wf_cluster_map(p, rank) -> T*: p, which points into this block's shared memory, in
///            that of block `rank` of the cluster (plain accesses then work). A block may leave
///            only after a wf_sync_cluster() behind the last access to its memory.
/// cp.async   wf_cp_async_16/8/4(shared, global): starts a copy of so many bytes, both aligned to
///            it. wf_cp_async_16/8/4_fill(shared, global, bytes): copies `bytes` (0 and up to the
///            size), zeroes the rest; with 0 the source is not read.
///            wf_cp_commit(): closes the group. wf_cp_wait<N>(): until at most the last N groups
///            are under way; shows the copies to this thread alone, a barrier shows them to others.
/// Matrix     wf_ldmatrix(r, row), wf_ldmatrix_trans(r, row): u32 (&r)[1, 2 or 4]; lanes 8i..8i+7
///            give the rows (16 bytes, in shared memory, 16-aligned) of matrix i.
///            wf_mma_f16 / wf_mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]): d +=
///            ab, m16n8k16, a row-major, b column-major, registers as PTX lays them out.
///            wf_mma_tf32: the same, m16n8k8; operands through wf_tf32(float) -> u32.
///            Every lane of the warp takes part.
///            wf_group_multiply(unit, f16 or bf16, d, a, b, depth, a's panel, across, b's panel,
///            across, under_way): the kernel's own function `unit` (codegen/cuda/group_unit.h;
///            within WF_ON_DEVICE) on operands in panels (GroupMultiplyPayload); sm_90 alone, by
///            four warps. wf_group_wait(float (&d)[N]): for those that are under way.
///            wf_fence_shared() before the barrier shows it what threads stored or copied.
/// Atomics    wf_atomic_add(p, v): s32 u32 u64 f32 f64; wf_atomic_max/min(p, v): s32 u32 s64 u64;
///            wf_atomic_exchange(p, v), wf_atomic_cas(p, expected, v): u32 u64; all return the old
///            value, relaxed, device scope. wf_atomic_add_acq_rel(p, v): u32, orders memory both
///            ways. wf_load_acquire(p), wf_store_release(p, v): u32. wf_fence(): device scope.
/// Convert    wf_to_float(f16 or bf16), wf_to_f16(float), wf_to_bf16(float): round to nearest even.
///            wf_pack_f16(lo, hi), wf_pack_bf16(lo, hi) -> u32.
///            wf_bits(float or double) -> u32 or u64; wf_float(u32), wf_double(u64).
/// Math       Those of CUDA by their C names, float (…f) and double: exp exp2 expm1 log log2 log1p
///            sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf pow fmod sqrt
///            fma floor ceil rint trunc fabs fmin fmax copysign. wf_rsqrt(float or double): as
///            exact as 1/sqrt in the type. wf_exp_fast, wf_rcp_fast, wf_tanh_fast, wf_exp2_fast,
///            wf_sigmoid_fast (float): the machine's approximations. wf_nan(), wf_inf(): float.
/// Launching  wf_dependency_wait(), wf_dependency_launch(): programmatic dependent launch; nothing
///            below sm_90.
///
/// The emulator names the line of a report by its text, so a text keeps one statement a line; every
/// `if` and loop has braces. Collectives and barriers are macros: no template arguments in theirs.
std::string cuda_prelude();

/// The same names for g++ -std=c++17, without any other header.
std::string emulator_prelude();

}  // namespace weft
