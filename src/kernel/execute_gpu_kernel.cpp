#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/scalar_op.h"
#include "kernel/execution.h"
#include "kernel/kernel_op.h"
#include "support/check.h"

namespace weft {
namespace {

constexpr int64_t kWarpThreads = 32;  ///< CUDA's warpSize

float half_bits_to_float(uint32_t word, bool high, DType type) {
  const auto bits = static_cast<uint16_t>(high ? word >> 16 : word & 0xFFFF);
  std::byte raw[2];
  std::memcpy(raw, &bits, 2);
  return static_cast<float>(read_element(type, raw).f);
}

/// Whether an instruction that `is` accepts stands anywhere in the kernel.
template <typename F>
bool contains(const KernelBlock& block, F&& is) {
  return std::any_of(block.body.begin(), block.body.end(), [&](const KernelInstruction& in) {
    return is(in) || std::any_of(in.regions.begin(), in.regions.end(),
                                 [&](const KernelBlock& r) { return contains(r, is); });
  });
}
template <typename F>
bool contains(const KernelFunction& kernel, F&& is) {
  return std::any_of(kernel.phases.begin(), kernel.phases.end(),
                     [&](const KernelPhase& p) { return contains(p.body, is); });
}

bool is_grid_barrier(const KernelInstruction& in) {
  return in.op == KernelOp::kBarrier && in.as<BarrierPayload>().scope == KernelBarrier::kGrid;
}

/// Threads in step: each instruction runs for all of them that are active before the next one does.
/// One block at a time, or those of a cluster, or the whole grid where a barrier of the grid stands
/// inside a phase.
class GpuExecutor {
 public:
  GpuExecutor(const KernelFunction& kernel, const std::vector<int64_t>& arguments)
      : kernel_(kernel), arguments_(arguments) {}

  Status bind(const std::vector<std::span<std::byte>>& given) {
    size_t named = 0;
    for (const KernelBuffer& b : kernel_.buffers) named += is_shared(b) ? 0 : 1;
    if (given.size() != named) {
      return invalid_input(
          fmt::format("kernel '{}' has {} buffers, not {}", kernel_.name, named, given.size()));
    }
    size_t next = 0;
    for (const KernelBuffer& b : kernel_.buffers) {
      buffers_.push_back(is_shared(b) ? std::span<std::byte>{} : given[next++]);
    }
    if (static_cast<int64_t>(arguments_.size()) < kernel_.argument_count) {
      return invalid_input(
          fmt::format("kernel '{}' takes {} arguments", kernel_.name, kernel_.argument_count));
    }
    return {};
  }

  Status run() {
    for (const KernelPhase& phase : kernel_.phases) {
      const int64_t together =
          contains(phase.body, is_grid_barrier) ? kernel_.blocks : kernel_.cluster;
      for (int64_t b = 0; b < kernel_.blocks; b += together) {
        WEFT_RETURN_IF_ERROR(run_blocks(phase, b, together));
      }
    }
    return {};
  }

 private:
  static bool is_shared(const KernelBuffer& b) { return b.kind == KernelBuffer::Kind::kShared; }

  Status run_blocks(const KernelPhase& phase, int64_t first, int64_t count) {
    first_block_ = first;
    threads_ = count * kernel_.threads();
    // What nobody wrote reads as NaN.
    arena_.assign(static_cast<size_t>(count * kernel_.shared_bytes), std::byte{0xFF});
    values_.assign(kernel_.types.size(), {});
    active_.assign(static_cast<size_t>(threads_), true);
    for (size_t p = 0; p < 2; ++p) {
      auto& values = make(phase.body.parameters[p]);
      for (int64_t t = 0; t < threads_; ++t) {
        const int64_t block = block_of(t) + static_cast<int64_t>(p);
        values[static_cast<size_t>(t)] = {
            int_value(DType::kI64, block * phase.work_items / kernel_.blocks)};
      }
    }
    return run_block(phase.body);
  }

  int64_t block_of(int64_t thread) const { return first_block_ + thread / kernel_.threads(); }

  using Values = std::vector<ScalarLanes>;  ///< by thread
  Values& of(Reg r) { return values_[static_cast<size_t>(r)]; }
  Values& make(Reg r) {
    of(r).resize(static_cast<size_t>(threads_));
    return of(r);
  }
  const ScalarLanes& lanes(Reg r, int64_t t) { return of(r)[static_cast<size_t>(t)]; }
  int64_t int_of(Reg r, int64_t t) { return lanes(r, t)[0].i; }

  template <typename F>
  void for_active(F&& f) {
    for (int64_t t = 0; t < threads_; ++t) {
      if (active_[static_cast<size_t>(t)]) f(t);
    }
  }

  Status run_block(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) WEFT_RETURN_IF_ERROR(run_instruction(in));
    return {};
  }

  void move_values(const std::vector<Reg>& from, const std::vector<Reg>& to) {
    std::vector<Values> moved;
    for (const Reg r : from) moved.push_back(of(r));
    for (size_t i = 0; i < to.size(); ++i) {
      make(to[i]);
      for_active(
          [&](int64_t t) { of(to[i])[static_cast<size_t>(t)] = moved[i][static_cast<size_t>(t)]; });
    }
  }

  Status run_instruction(const KernelInstruction& in) {
    switch (in.op) {
      case KernelOp::kFor:
        return run_for(in);
      case KernelOp::kIf:
        return run_if(in);
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kStore:
      case KernelOp::kScatter:
      case KernelOp::kLoadCluster:
      case KernelOp::kCopyAsync:
      case KernelOp::kLoadMatrix:
        return run_memory(in);
      case KernelOp::kPrefetch:
        return {};
      case KernelOp::kBarrier:
      case KernelOp::kCommitAsync:
      case KernelOp::kWaitAsync:
        return converged(in);
      case KernelOp::kPosition:
        return run_position(in);
      case KernelOp::kWarpXor:
      case KernelOp::kWarpPick:
        return run_exchange(in);
      case KernelOp::kMatrixMultiply:
        return run_multiply(in);
      case KernelOp::kGroupMultiply:
        return run_group_multiply(in);
      case KernelOp::kGroupWait:
        move_values(in.operands, in.results);
        return whole_groups(4 * kWarpThreads) ? Status{} : Status{fail(in, "not all warps come")};
      default:
        make(in.results[0]);
        for_active([&](int64_t t) {
          std::vector<const ScalarLanes*> operands;
          for (const Reg r : in.operands) operands.push_back(&lanes(r, t));
          of(in.results[0])[static_cast<size_t>(t)] =
              evaluate_pure(in, kernel_.type(in.results[0]), operands, arguments_);
        });
        return {};
    }
  }

  Status run_position(const KernelInstruction& in) {
    const KernelPosition position = in.as<PositionPayload>().position;
    make(in.results[0]);
    for_active([&](int64_t t) {
      const int64_t local = t % kernel_.threads();
      const int64_t where[] = {local % kWarpThreads, local / kWarpThreads, block_of(t)};
      of(in.results[0])[static_cast<size_t>(t)] = {
          int_value(DType::kI64, where[static_cast<size_t>(position)])};
    });
    return {};
  }

  Status run_if(const KernelInstruction& in) {
    const std::vector<bool> around = active_;
    for (size_t side = 0; side < 2; ++side) {
      for (int64_t t = 0; t < threads_; ++t) {
        const auto i = static_cast<size_t>(t);
        active_[i] = around[i] && (int_of(in.operands[0], t) != 0) == (side == 0);
      }
      if (std::find(active_.begin(), active_.end(), true) != active_.end()) {
        WEFT_RETURN_IF_ERROR(run_block(in.regions[side]));
        move_values(in.regions[side].yields, in.results);
      }
    }
    active_ = around;
    return {};
  }

  Status run_for(const KernelInstruction& in) {
    const KernelBlock& body = in.regions[0];
    const std::vector<bool> around = active_;
    const std::vector<Reg> carries(body.parameters.begin() + 1, body.parameters.end());
    move_values({in.operands.begin() + 3, in.operands.end()}, carries);
    std::vector<int64_t> at(static_cast<size_t>(threads_), 0);
    for_active([&](int64_t t) { at[static_cast<size_t>(t)] = int_of(in.operands[0], t); });
    for (;;) {
      bool any = false;
      for (int64_t t = 0; t < threads_; ++t) {
        const auto i = static_cast<size_t>(t);
        active_[i] = around[i] && at[i] < int_of(in.operands[1], t);
        any |= active_[i];
      }
      if (!any) break;
      make(body.parameters[0]);
      for_active([&](int64_t t) {
        of(body.parameters[0])[static_cast<size_t>(t)] = {
            int_value(DType::kI64, at[static_cast<size_t>(t)])};
        at[static_cast<size_t>(t)] += int_of(in.operands[2], t);
      });
      WEFT_RETURN_IF_ERROR(run_block(body));
      move_values(body.yields, carries);
    }
    active_ = around;
    move_values(carries, in.results);
    return {};
  }

  Error fail(const KernelInstruction& in, const std::string& message) const {
    return invalid_input(
        fmt::format("kernel '{}': {}: {}", kernel_.name, kernel_op_name(in.op), message));
  }

  /// A barrier of blocks, clusters or the grid needs all their threads, one of warps all or none of
  /// a warp.
  Status converged(const KernelInstruction& in) {
    if (in.op != KernelOp::kBarrier) return {};
    const KernelBarrier scope = in.as<BarrierPayload>().scope;
    const int64_t block = kernel_.threads();
    const int64_t group = scope == KernelBarrier::kWarp      ? kWarpThreads
                          : scope == KernelBarrier::kBlock   ? block
                          : scope == KernelBarrier::kCluster ? block * kernel_.cluster
                                                             : threads_;
    return whole_groups(group) ? Status{} : Status{fail(in, "not all threads come")};
  }
  bool whole_groups(int64_t group) const {
    for (int64_t t = 0; t < threads_; ++t) {
      if (active_[static_cast<size_t>(t)] != active_[static_cast<size_t>(t - t % group)]) {
        return false;
      }
    }
    return true;
  }

  Status run_exchange(const KernelInstruction& in) {
    if (!whole_groups(kWarpThreads)) return fail(in, "not all lanes come");
    const Values from = of(in.operands[0]);
    make(in.results[0]);
    for_active([&](int64_t t) {
      const int64_t lane = t % kWarpThreads;
      const int64_t other = in.op == KernelOp::kWarpXor
                                ? lane ^ in.as<WarpXorPayload>().lane_bits
                                : int_of(in.operands[1], t) & (kWarpThreads - 1);
      of(in.results[0])[static_cast<size_t>(t)] = from[static_cast<size_t>(t - lane + other)];
    });
    return {};
  }

  /// The memory of a buffer as thread t sees it.
  std::span<std::byte> memory(int32_t number, int64_t t) {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(number)];
    if (!is_shared(b)) return buffers_[static_cast<size_t>(number)];
    const int64_t block = t / kernel_.threads();
    return {arena_.data() + block * kernel_.shared_bytes + b.scratch_offset,
            static_cast<size_t>(b.elements * byte_size(b.dtype))};
  }

  Result<std::byte*> element(const KernelInstruction& in, int32_t number, int64_t at, int64_t t) {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(number)];
    const std::span<std::byte> bytes = memory(number, t);
    const auto count = static_cast<int64_t>(bytes.size()) / byte_size(b.dtype);
    if (at < 0 || at >= count) {
      return fail(in,
                  fmt::format("at {} of buffer '{}', which has {} elements", at, b.name, count));
    }
    return bytes.data() + at * byte_size(b.dtype);
  }

  Status run_memory(const KernelInstruction& in) {
    // Lanes read rows that others point to, so fragments come after the addresses.
    for (const Reg r : in.results) make(r);
    for (int64_t t = 0; t < threads_; ++t) {
      if (!active_[static_cast<size_t>(t)]) continue;
      if (in.op == KernelOp::kCopyAsync) {
        WEFT_RETURN_IF_ERROR(copy(in, t));
      } else if (in.op == KernelOp::kLoadMatrix) {
        WEFT_RETURN_IF_ERROR(load_matrix(in, t));
      } else if (in.op == KernelOp::kLoadCluster) {
        WEFT_RETURN_IF_ERROR(load_from_cluster(in, t));
      } else {
        WEFT_RETURN_IF_ERROR(access(in, t));
      }
    }
    return {};
  }

  Status copy(const KernelInstruction& in, int64_t t) {
    const auto& [to_buffer, from_buffer, elements] = in.as<CopyAsyncPayload>();
    const DType type = kernel_.buffers[static_cast<size_t>(to_buffer)].dtype;
    const bool on = in.operands.size() < 3 || int_of(in.operands[2], t) != 0;
    for (int64_t i = 0; i < elements; ++i) {
      WEFT_ASSIGN_OR_RETURN(std::byte * to,
                            element(in, to_buffer, int_of(in.operands[0], t) + i, t));
      std::memset(to, 0, static_cast<size_t>(byte_size(type)));
      if (!on) continue;
      WEFT_ASSIGN_OR_RETURN(const std::byte* from,
                            element(in, from_buffer, int_of(in.operands[1], t) + i, t));
      std::memcpy(to, from, static_cast<size_t>(byte_size(type)));
    }
    return {};
  }

  Status load_from_cluster(const KernelInstruction& in, int64_t t) {
    const auto& payload = in.as<LoadClusterPayload>();
    const int64_t rank = int_of(in.operands[0], t), block = t / kernel_.threads();
    const auto mask = mask_operand(in);
    const DType type = kernel_.type(in.results[0]).dtype;
    const int64_t from = (block - block % kernel_.cluster + rank) * kernel_.threads();
    ScalarLanes loaded;
    for (int32_t l = 0; l < kernel_.type(in.results[0]).lanes; ++l) {
      if (mask && lanes(in.operands[*mask], t)[static_cast<size_t>(l)].i == 0) {
        loaded.push_back(payload.filler);
        continue;
      }
      if (rank < 0 || rank >= kernel_.cluster) {
        return fail(in, fmt::format("block {} of a cluster of {}", rank, kernel_.cluster));
      }
      WEFT_ASSIGN_OR_RETURN(const std::byte* at,
                            element(in, payload.buffer, int_of(in.operands[1], t) + l, from));
      loaded.push_back(read_element(type, at));
    }
    of(in.results[0])[static_cast<size_t>(t)] = std::move(loaded);
    return {};
  }

  Status access(const KernelInstruction& in, int64_t t) {
    const bool stores = in.op == KernelOp::kStore || in.op == KernelOp::kScatter;
    const bool indexed = in.op == KernelOp::kGather || in.op == KernelOp::kScatter;
    const auto mask = mask_operand(in);
    const int32_t buffer = *buffer_of(in);
    const DType type = kernel_.buffers[static_cast<size_t>(buffer)].dtype;
    const int32_t width = kernel_.type(stores ? in.operands[1] : in.results[0]).lanes;
    ScalarLanes loaded;
    for (int32_t l = 0; l < width; ++l) {
      const auto lane = static_cast<size_t>(l);
      if (mask && lanes(in.operands[*mask], t)[lane].i == 0) {
        if (!stores) loaded.push_back(in.as<LoadPayload>().filler);
        continue;
      }
      const int64_t base = lanes(in.operands[0], t)[indexed ? lane : 0].i;
      WEFT_ASSIGN_OR_RETURN(std::byte * at, element(in, buffer, indexed ? base : base + l, t));
      if (stores) {
        write_element(type, lanes(in.operands[1], t)[lane], at);
      } else {
        loaded.push_back(read_element(type, at));
      }
    }
    if (!stores) of(in.results[0])[static_cast<size_t>(t)] = std::move(loaded);
    return {};
  }

  /// Matrix m's rows are those that lanes 8m..8m+7 point to; lane l holds elements 2(l%4), +1 of
  /// row l/4 (transposed: of column l/4); of 32-bit elements l%4.
  Status load_matrix(const KernelInstruction& in, int64_t t) {
    if (!whole_groups(kWarpThreads)) return fail(in, "not all lanes come");
    const int64_t lane = t % kWarpThreads, warp = t - lane;
    const auto& [buffer, matrices, transposed] = in.as<LoadMatrixPayload>();
    const bool words = byte_size(kernel_.buffers[static_cast<size_t>(buffer)].dtype) == 4;
    for (int32_t m = 0; m < matrices; ++m) {
      uint32_t word = 0;
      if (words) {
        const int64_t at = int_of(in.operands[0], warp + 8 * m + lane / 4) + lane % 4;
        WEFT_ASSIGN_OR_RETURN(const std::byte* from, element(in, buffer, at, t));
        std::memcpy(&word, from, 4);
        of(in.results[static_cast<size_t>(m)])[static_cast<size_t>(t)] = {
            int_value(DType::kU32, word)};
        continue;
      }
      for (int64_t half = 0; half < 2; ++half) {
        int64_t row = lane / 4, column = 2 * (lane % 4) + half;
        if (transposed) std::swap(row, column);
        const int64_t start = int_of(in.operands[0], warp + 8 * m + row);
        WEFT_ASSIGN_OR_RETURN(const std::byte* at, element(in, buffer, start + column, t));
        uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        word |= static_cast<uint32_t>(bits) << (16 * half);
      }
      of(in.results[static_cast<size_t>(m)])[static_cast<size_t>(t)] = {
          int_value(DType::kU32, word)};
    }
    return {};
  }

  Status run_multiply(const KernelInstruction& in) {
    if (!whole_groups(kWarpThreads)) return fail(in, "not all lanes come");
    for (const Reg r : in.results) make(r);
    for (int64_t warp = 0; warp < threads_; warp += kWarpThreads) {
      if (active_[static_cast<size_t>(warp)]) multiply_warp(in, warp);
    }
    return {};
  }

  /// Fragments as PTX lays them out, with group g = lane / 4 and t = lane % 4.
  void multiply_warp(const KernelInstruction& in, int64_t warp) {
    const KernelUnit unit = in.as<MatrixMultiplyPayload>().unit;
    const bool tf32 = unit == KernelUnit::kM16N8K8TF32;
    const DType half = unit == KernelUnit::kM16N8K16F16 ? DType::kF16 : DType::kBF16;
    const auto word = [&](size_t operand, int64_t lane) {
      return static_cast<uint32_t>(int_of(in.operands[operand], warp + lane));
    };
    const auto a = [&](int64_t row, int64_t k) {
      if (tf32) {
        const size_t r = static_cast<size_t>((row >= 8 ? 1 : 0) + (k >= 4 ? 2 : 0));
        return std::bit_cast<float>(word(r, row % 8 * 4 + k % 4) & 0xFFFFE000U);
      }
      const size_t r = static_cast<size_t>((row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0));
      return half_bits_to_float(word(r, row % 8 * 4 + k % 8 / 2), k % 2 != 0, half);
    };
    const auto b = [&](int64_t k, int64_t column) {
      if (tf32) {
        return std::bit_cast<float>(word(k >= 4 ? 5 : 4, column * 4 + k % 4) & 0xFFFFE000U);
      }
      return half_bits_to_float(word(k >= 8 ? 5 : 4, column * 4 + k % 8 / 2), k % 2 != 0, half);
    };
    for (int64_t lane = 0; lane < kWarpThreads; ++lane) {
      for (int64_t c = 0; c < 4; ++c) {
        const int64_t row = lane / 4 + (c >= 2 ? 8 : 0), column = lane % 4 * 2 + c % 2;
        auto sum =
            static_cast<float>(lanes(in.operands[static_cast<size_t>(6 + c)], warp + lane)[0].f);
        for (int64_t k = 0; k < (tf32 ? 8 : 16); ++k) sum += a(row, k) * b(k, column);
        of(in.results[static_cast<size_t>(c)])[static_cast<size_t>(warp + lane)] = {
            float_value(DType::kF32, sum)};
      }
    }
  }

  Status run_group_multiply(const KernelInstruction& in) {
    if (!whole_groups(4 * kWarpThreads)) return fail(in, "not all warps of a group come");
    for (const Reg r : in.results) make(r);
    for (int64_t warp = 0; warp < threads_; warp += kWarpThreads) {
      if (active_[static_cast<size_t>(warp)]) WEFT_RETURN_IF_ERROR(multiply_of_group(in, warp));
    }
    return {};
  }

  /// The 16 rows of one warp of a group.
  Status multiply_of_group(const KernelInstruction& in, int64_t warp) {
    const auto& p = in.as<GroupMultiplyPayload>();
    const DType type = kernel_.buffers[static_cast<size_t>(p.left)].dtype;
    const int64_t first = warp % kernel_.threads() / kWarpThreads % 4 * 16;
    const auto read = [&](bool left, int64_t across, int64_t k) -> Result<float> {
      const bool turned = left ? p.left_across : p.right_across;
      const int64_t panel = left ? p.left_panel : p.right_panel;
      const int64_t at =
          turned ? element_of_panels(k, across, panel) : element_of_panels(across, k, panel);
      WEFT_ASSIGN_OR_RETURN(
          const std::byte* from,
          element(in, left ? p.left : p.right, int_of(in.operands[left ? 0 : 1], warp) + at, warp));
      return static_cast<float>(read_element(type, from).f);
    };
    const auto gather = [&](bool left, int64_t begin, int64_t n) -> Result<std::vector<float>> {
      std::vector<float> out;
      for (int64_t x = begin; x < begin + n; ++x) {
        for (int64_t k = 0; k < p.depth; ++k) {
          WEFT_ASSIGN_OR_RETURN(const float value, read(left, x, k));
          out.push_back(value);
        }
      }
      return out;
    };
    WEFT_ASSIGN_OR_RETURN(const std::vector<float> a, gather(true, first, 16));
    WEFT_ASSIGN_OR_RETURN(const std::vector<float> b, gather(false, 0, p.columns));
    for (int64_t lane = 0; lane < kWarpThreads; ++lane) {
      for (size_t c = 0; c < in.results.size(); ++c) {
        const auto i = static_cast<int64_t>(c);
        const int64_t row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        auto sum = static_cast<float>(lanes(in.operands[c + 2], warp + lane)[0].f);
        for (int64_t k = 0; k < p.depth; ++k) {
          sum += a[static_cast<size_t>(row * p.depth + k)] *
                 b[static_cast<size_t>(column * p.depth + k)];
        }
        of(in.results[c])[static_cast<size_t>(warp + lane)] = {float_value(DType::kF32, sum)};
      }
    }
    return {};
  }

  const KernelFunction& kernel_;
  const std::vector<int64_t>& arguments_;
  std::vector<std::span<std::byte>> buffers_;  ///< of shared ones empty
  std::vector<std::byte> arena_;
  std::vector<Values> values_;  ///< by register
  std::vector<bool> active_;    ///< by thread
  int64_t threads_ = 0, first_block_ = 0;
};

}  // namespace

bool has_grid_barrier(const KernelFunction& kernel) {
  return kernel.phases.size() > 1 || has_inner_barrier(kernel);
}

KernelBarrier meeting_of_grid(const KernelFunction& kernel) {
  if (kernel.blocks == 1) return KernelBarrier::kBlock;
  return kernel.cluster == kernel.blocks ? KernelBarrier::kCluster : KernelBarrier::kGrid;
}

bool has_inner_barrier(const KernelFunction& kernel) { return contains(kernel, is_grid_barrier); }

bool multiplies_by(const KernelFunction& kernel, KernelUnit unit) {
  return contains(kernel, [&](const KernelInstruction& in) {
    return in.op == KernelOp::kMatrixMultiply && in.as<MatrixMultiplyPayload>().unit == unit;
  });
}

Status execute_gpu_kernel(const KernelFunction& kernel,
                          const std::vector<std::span<std::byte>>& buffers,
                          const std::vector<int64_t>& arguments) {
  GpuExecutor executor(kernel, arguments);
  WEFT_RETURN_IF_ERROR(executor.bind(buffers));
  return executor.run();
}

}  // namespace weft
