#pragma once

namespace weft::simt_abi {

// NOLINTBEGIN(readability-identifier-naming): as in the text
using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;
// NOLINTEND(readability-identifier-naming)

/// Declares what follows and keeps its text as `name`: the emulator and the kernels that g++
/// compiles for it read the same declarations.
#define WEFT_DECLARE_AND_QUOTE(name, ...) \
  __VA_ARGS__                             \
  inline constexpr char name[] = #__VA_ARGS__;

// What a kernel that was compiled by emulator_prelude() and the emulator say to each other.
//
// wf_machine is bound to the module before a launch and is what every wrapper calls through; it
// outlives the launch. `place` is the running thread's. `stacks` bounds the memory of all threads'
// stacks, whose accesses nobody checks. A `site` of an access is a return address in the module;
// that of a barrier or a collective is line * 1000 + a number that is another for each on a line.
// clang-format off
// NOLINTBEGIN(readability-identifier-naming): the names of the text
WEFT_DECLARE_AND_QUOTE(kEmulatorAbi,

  enum wf_access_kind {
    wf_access_load, wf_access_load_ro, wf_access_store, wf_access_relaxed,
    wf_access_acquire, wf_access_release, wf_access_acq_rel
  };
  enum wf_barrier_kind { wf_barrier_block, wf_barrier_grid, wf_barrier_cluster };
  enum wf_collective_kind {
    wf_collective_shuffle, wf_collective_ballot, wf_collective_sync, wf_collective_mma_f16,
    wf_collective_mma_bf16, wf_collective_mma_tf32, wf_collective_group_f16,
    wf_collective_group_bf16, wf_collective_ldmatrix, wf_collective_ldmatrix_trans
  };

  struct wf_place {
    u32 thread; u32 block[3]; u32 grid[3]; u32 cluster_rank; u32 cluster_size; u8* shared;
  };

  struct wf_group {
    const void* left; const void* right; u32 columns; u32 depth; u32 first_row; u32 left_panel;
    u32 right_panel; bool left_across; bool right_across;
    bool under_way;
  };

  struct wf_collective {
    wf_collective_kind kind; u32 mask; u32 site; u32 count; u64 value; u64 result;
    float* d; const u32* a; const u32* b; u32* r; const void* row; const void* address;
    const wf_group* group;
  };

  struct wf_machine {
    const wf_place* place; const u8* stacks; u64 stack_bytes;
    void (*access)(wf_machine*, const void* p, u32 bytes, wf_access_kind kind, const void* site);
    void (*barrier)(wf_machine*, wf_barrier_kind kind, u32* counter, u32 site);
    void (*collective)(wf_machine*, wf_collective* lane);
    void (*copy)(wf_machine*, void* shared, const void* global, u32 size, u32 bytes,
                 const void* site);
    void (*commit)(wf_machine*);
    void (*wait)(wf_machine*, u32 groups);
    void (*fence)(wf_machine*);
    void (*group_wait)(wf_machine*);
    void (*pause)(wf_machine*);
    void* (*map)(wf_machine*, const void* shared, u32 rank, u32 site);
  };
)
// NOLINTEND(readability-identifier-naming)
// clang-format on

#undef WEFT_DECLARE_AND_QUOTE

}  // namespace weft::simt_abi
