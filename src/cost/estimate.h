#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "expr/tensor_program.h"
#include "target/target.h"

namespace weft {

/// What a kernel is predicted to cost on the target.
struct Estimate {
  double microseconds = 0;
  int64_t flops = 0;         ///< scalar operations; a multiply-add counts 2
  double arithmetic_us = 0;  ///< that they take at the peak of what does them
  int64_t bytes_read = 0;    ///< of distinct elements
  int64_t bytes_written = 0;
  /// That threads ask the caches for, reads and writes; 0 before there is a tile program.
  int64_t bytes_requested = 0;
};

/// What the operations of an expression take where nothing else bounds them: on CPUs products of
/// bytes and of bfloat16 at the rate of the instructions for them, everything else as float32.
double arithmetic_us(const TensorProgram& program, const TensorExpr& e, const Target& target);

/// max(bytes / bandwidth, arithmetic), with the target's bandwidth at that working set.
double roofline_us(int64_t bytes, double arithmetic_us, const Target& target);

/// What a GPU's memory takes to move so many bytes where blocks keep `busy` (0, 1] of the device
/// busy: the bandwidth curve's time, but no less than its latency (the time of its smallest size)
/// and what those blocks take at their share of its best rate, which is what SMs can ask for.
double memory_us(double bytes, double busy, const Target& target);

/// The roofline, and what it costs to start a kernel: launch and barrier.
double latency_us(int64_t bytes, double arithmetic_us, const Target& target);

/// Predicts kernels of one program: what each expression reads and does is computed once. Values
/// that stay inside a kernel cost no traffic; each is computed once.
class CostModel {
 public:
  CostModel(const TensorProgram& program, const Target& target);

  /// A kernel of `exprs` that stores `outputs`.
  Estimate estimate(std::span<const ExprId> exprs, std::span<const TensorId> outputs) const;

 private:
  struct Work {
    int64_t flops = 0;
    double arithmetic_us = 0;
    std::vector<std::pair<TensorId, int64_t>> read;  ///< bytes, by tensor
  };
  const TensorProgram& program_;
  const Target& target_;
  std::vector<Work> work_;  ///< by expression
};

}  // namespace weft
