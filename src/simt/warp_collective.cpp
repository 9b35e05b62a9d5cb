#include "simt/warp_collective.h"

#include <cstring>
#include <vector>

#include "kernel/kernel_payload.h"
#include "support/check.h"
#include "support/dtype.h"

namespace weft::simt {
namespace {

using namespace simt_abi;

std::optional<int> shuffle(uint32_t mask, const LaneArguments& lanes) {
  std::optional<int> wrong;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const u32 source = lanes[lane]->count;
    const bool inside = (mask >> source & 1) != 0;
    lanes[lane]->result = lanes[inside ? source : lane]->value;
    if (!inside) wrong = lane;
  }
  return wrong;
}

void ballot(uint32_t mask, const LaneArguments& lanes) {
  u64 votes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && lanes[lane]->value != 0) votes |= u64{1} << lane;
  }
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0) lanes[lane]->result = votes;
  }
}

float float_of(u32 bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Element `half` (0 low, 1 high) of a register of two 16-bit numbers.
float element(wf_collective_kind kind, u32 reg, int half) {
  const auto bits = static_cast<uint16_t>(reg >> 16 * half);
  return kind == wf_collective_mma_bf16 ? bfloat16_to_float(bits) : half_to_float(bits);
}

// Lane l holds rows l/4 and l/4 + 8 of a and d, column l/4 of b; within a row, pairs of elements at
// 2 * (l % 4), in the second half of the registers 8 further.
void multiply_16_bit(const LaneArguments& lanes) {
  float a[16][16], b[8][16];
  const wf_collective_kind kind = lanes[0]->kind;
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int r = 0; r < 4; ++r) {
      for (int half = 0; half < 2; ++half) {
        a[group + r % 2 * 8][pair + r / 2 * 8 + half] = element(kind, lanes[lane]->a[r], half);
      }
    }
    for (int r = 0; r < 2; ++r) {
      for (int half = 0; half < 2; ++half) {
        b[group][pair + r * 8 + half] = element(kind, lanes[lane]->b[r], half);
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) {
      const float* row = a[lane / 4 + r / 2 * 8];
      const float* column = b[lane % 4 * 2 + r % 2];
      float sum = lanes[lane]->d[r];
      for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
      lanes[lane]->d[r] = sum;
    }
  }
}

// As above with one element a register: k is l % 4, in the second half of the registers 4 further.
// The multiplier drops the 13 low bits.
void multiply_tf32(const LaneArguments& lanes) {
  float a[16][8], b[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, k = lane % 4;
    for (int r = 0; r < 4; ++r) {
      a[group + r % 2 * 8][k + r / 2 * 4] = float_of(lanes[lane]->a[r] & ~0x1fffu);
    }
    for (int r = 0; r < 2; ++r) b[group][k + r * 4] = float_of(lanes[lane]->b[r] & ~0x1fffu);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) {
      const float* row = a[lane / 4 + r / 2 * 8];
      const float* column = b[lane % 4 * 2 + r % 2];
      float sum = lanes[lane]->d[r];
      for (int k = 0; k < 8; ++k) sum += row[k] * column[k];
      lanes[lane]->d[r] = sum;
    }
  }
}

/// The 16 rows of a group's warp, each lane's as of multiply_16_bit; out of shared memory.
void multiply_of_group(const LaneArguments& lanes) {
  const wf_group& g = *lanes[0]->group;
  const bool bfloat = lanes[0]->kind == wf_collective_group_bf16;
  const auto gathered = [&](bool left, u32 first, u32 count) {
    const void* from = left ? g.left : g.right;
    const bool across = left ? g.left_across : g.right_across;
    const u32 panel = left ? g.left_panel : g.right_panel;
    std::vector<float> out(size_t{count} * g.depth);
    for (u32 x = 0; x < count; ++x) {
      for (u32 k = 0; k < g.depth; ++k) {
        const int64_t at = across ? element_of_panels(k, first + x, panel)
                                  : element_of_panels(first + x, k, panel);
        uint16_t bits;
        std::memcpy(&bits, static_cast<const char*>(from) + at * 2, sizeof bits);
        out[size_t{x} * g.depth + k] = bfloat ? bfloat16_to_float(bits) : half_to_float(bits);
      }
    }
    return out;
  };
  const std::vector<float> a = gathered(true, g.first_row, 16), b = gathered(false, 0, g.columns);
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 c = 0; c < g.columns / 2; ++c) {
      const float* row = &a[size_t{lane / 4 + c % 4 / 2 * 8} * g.depth];
      const float* column = &b[size_t{c / 4 * 8 + lane % 4 * 2 + c % 2} * g.depth];
      float sum = lanes[lane]->d[c];
      for (u32 k = 0; k < g.depth; ++k) sum += row[k] * column[k];
      lanes[lane]->d[c] = sum;
    }
  }
}

uint16_t half_at(const void* row, int index) {
  uint16_t value;
  std::memcpy(&value, static_cast<const char*>(row) + index * 2, sizeof value);
  return value;
}

// Lane l receives elements 2 * (l % 4) and the next of row l / 4 of each matrix, or of its column.
void load_matrices(const LaneArguments& lanes) {
  const bool transpose = lanes[0]->kind == wf_collective_ldmatrix_trans;
  for (u32 matrix = 0; matrix < lanes[0]->count; ++matrix) {
    for (int lane = 0; lane < 32; ++lane) {
      const int major = lane / 4, minor = lane % 4 * 2;
      uint16_t low, high;
      if (transpose) {
        low = half_at(lanes[matrix * 8 + minor]->row, major);
        high = half_at(lanes[matrix * 8 + minor + 1]->row, major);
      } else {
        low = half_at(lanes[matrix * 8 + major]->row, minor);
        high = half_at(lanes[matrix * 8 + major]->row, minor + 1);
      }
      lanes[lane]->r[matrix] = low | u32{high} << 16;
    }
  }
}

}  // namespace

std::optional<int> compute_collective(uint32_t mask, const LaneArguments& lanes) {
  switch (lanes[__builtin_ctz(mask)]->kind) {
    case wf_collective_shuffle:
      return shuffle(mask, lanes);
    case wf_collective_ballot:
      ballot(mask, lanes);
      return std::nullopt;
    case wf_collective_sync:
      return std::nullopt;
    case wf_collective_mma_f16:
    case wf_collective_mma_bf16:
      multiply_16_bit(lanes);
      return std::nullopt;
    case wf_collective_mma_tf32:
      multiply_tf32(lanes);
      return std::nullopt;
    case wf_collective_group_f16:
    case wf_collective_group_bf16:
      multiply_of_group(lanes);
      return std::nullopt;
    case wf_collective_ldmatrix:
    case wf_collective_ldmatrix_trans:
      load_matrices(lanes);
      return std::nullopt;
  }
  WEFT_CHECK(false, "a collective of the emulator's own prelude");
}

std::string collective_name(wf_collective_kind kind) {
  switch (kind) {
    case wf_collective_shuffle:
      return "shuffle";
    case wf_collective_ballot:
      return "ballot";
    case wf_collective_sync:
      return "warp barrier";
    case wf_collective_mma_f16:
    case wf_collective_mma_bf16:
    case wf_collective_mma_tf32:
      return "mma";
    case wf_collective_group_f16:
    case wf_collective_group_bf16:
      return "multiplication of a warp group";
    case wf_collective_ldmatrix:
    case wf_collective_ldmatrix_trans:
      return "ldmatrix";
  }
  return "collective";
}

}  // namespace weft::simt
