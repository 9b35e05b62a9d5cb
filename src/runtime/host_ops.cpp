#include "runtime/host_ops.h"

#include <algorithm>
#include <cstring>

#include "runtime/host_cumulative.h"
#include "runtime/host_scatter.h"
#include "runtime/host_sort.h"
#include "runtime/host_values.h"

namespace weft {
namespace {

using Op = HostStep::Op;
using Operands = std::span<const HostOperand>;

int64_t bytes_of(const HostOperand& x) { return count(x) * byte_size(x.dtype); }

int64_t cache_lines(const HostOperand& x) { return (bytes_of(x) + kCacheLine - 1) / kCacheLine; }

const char* op_name(Op op) {
  switch (op) {
    case Op::kCopy:
      return "copy";
    case Op::kSort:
      return "sort";
    case Op::kTopK:
      return "top_k";
    case Op::kScatterElements:
      return "scatter_elements";
    case Op::kScatterNd:
      return "scatter_nd";
    case Op::kCumulative:
      return "cumulative";
  }
  return "host operation";
}

struct Arity {
  size_t operands, results;
};

Arity arity_of(Op op) {
  switch (op) {
    case Op::kSort:
    case Op::kTopK:
      return {1, 2};
    case Op::kScatterElements:
    case Op::kScatterNd:
      return {3, 1};
    default:
      return {1, 1};
  }
}

bool same_type(const HostOperand& a, const HostOperand& b) {
  return a.dtype == b.dtype && *a.shape == *b.shape;
}

/// An empty string when the step is sound, else what is wrong.
std::string fault_of_sort(const HostStep& step, Operands in, Operands out) {
  const int64_t line = extent(in[0], static_cast<size_t>(step.axis));
  const bool top_k = step.op == Op::kTopK;
  if (top_k && (step.k < 0 || step.k > line)) {
    return "k is " + std::to_string(step.k) + " of " + std::to_string(line);
  }
  Shape expected = *in[0].shape;
  if (top_k) expected[static_cast<size_t>(step.axis)] = step.k;
  if (out[0].dtype != in[0].dtype || *out[0].shape != expected) return "values of another type";
  if (out[1].dtype != DType::kI64 || *out[1].shape != expected) return "indices of another type";
  return {};
}

std::string fault_of_scatter(const HostStep& step, Operands in, Operands out) {
  const HostOperand &data = in[0], &indices = in[1], &updates = in[2];
  if (!same_type(data, out[0])) return "a result of another type than the data";
  if (updates.dtype != data.dtype) return "updates of another type than the data";
  if (indices.dtype != DType::kI64 && indices.dtype != DType::kI32) return "indices not integers";
  if (step.combines && step.combiner > kOr) return "an unknown combiner";
  if (step.op == Op::kScatterElements) {
    if (*indices.shape != *updates.shape || rank(updates) != rank(data)) return "shapes differ";
    for (size_t d = 0; d < data.shape->size(); ++d) {
      const bool free_axis = static_cast<int64_t>(d) == step.axis;
      if (!free_axis && extent(updates, d) > extent(data, d)) return "more updates than data";
    }
    return {};
  }
  if (rank(indices) < 1) return "indices without an axis";
  const int64_t depth = indices.shape->back();
  if (depth > rank(data)) return "indices longer than the rank of the data";
  Shape expected(indices.shape->begin(), indices.shape->end() - 1);
  expected.insert(expected.end(), data.shape->begin() + depth, data.shape->end());
  if (*updates.shape != expected) return "updates of another shape than the indices select";
  return {};
}

std::string fault_of(const HostStep& step, Operands in, Operands out) {
  if (step.op == Op::kCopy) {
    const bool same = in[0].dtype == out[0].dtype && count(in[0]) == count(out[0]);
    return same ? "" : "the result is of another size or type";
  }
  const bool has_axis = step.op != Op::kScatterNd;
  if (has_axis && (step.axis < 0 || step.axis >= rank(in[0]))) {
    return "axis " + std::to_string(step.axis) + " of rank " + std::to_string(rank(in[0]));
  }
  switch (step.op) {
    case Op::kSort:
    case Op::kTopK:
      return fault_of_sort(step, in, out);
    case Op::kCumulative:
      if (step.combiner > kOr) return "an unknown combiner";
      return same_type(in[0], out[0]) ? "" : "the result is of another type";
    default:
      return fault_of_scatter(step, in, out);
  }
}

}  // namespace

std::vector<HostOperand> types_of(std::span<const ProgramBuffer> buffers,
                                  std::span<const int32_t> ids) {
  std::vector<HostOperand> operands;
  for (const int32_t id : ids) {
    const ProgramBuffer& buffer = buffers[static_cast<size_t>(id)];
    operands.push_back({buffer.dtype, &buffer.shape, nullptr});
  }
  return operands;
}

void copy_part(const std::byte* from, std::byte* to, int64_t bytes, HostPart part) {
  const Share mine = part.share_of_lines(bytes, 1);
  if (from == to || mine.begin >= mine.end) return;
  std::memmove(to + mine.begin, from + mine.begin, static_cast<size_t>(mine.end - mine.begin));
}

Status verify_host_step(const HostStep& step, Operands operands, Operands results) {
  const std::string name = op_name(step.op);
  if (step.op > Op::kCumulative) return invalid_input("an unknown host operation");
  const Arity arity = arity_of(step.op);
  if (operands.size() != arity.operands || results.size() != arity.results) {
    return invalid_input(name + ": wrong number of operands or results");
  }
  const std::string fault = fault_of(step, operands, results);
  if (!fault.empty()) return invalid_input(name + ": " + fault);
  return {};
}

int64_t host_step_scratch_bytes(const HostStep& step, Operands operands) {
  const bool sorts = step.op == Op::kSort || step.op == Op::kTopK;
  return sorts ? sort_scratch_bytes(step, operands[0]) : 0;
}

int64_t host_step_pieces(const HostStep& step, Operands operands) {
  switch (step.op) {
    case Op::kCopy:
      return cache_lines(operands[0]);
    case Op::kSort:
    case Op::kTopK:
      return sort_pieces(step, operands[0]);
    case Op::kScatterElements:
    case Op::kScatterNd:
      return std::max(cache_lines(operands[0]), scatter_pieces(step, operands));
    case Op::kCumulative:
      return cumulative_pieces(step, operands[0]);
  }
  return 1;
}

double host_step_microseconds(const HostStep& step, Operands operands) {
  constexpr double kLineUs = 0.002, kSortedUs = 0.008, kSelectedUs = 0.001, kScatteredUs = 0.0005,
                   kAccumulatedUs = 0.0005;
  const double lines = kLineUs * static_cast<double>(cache_lines(operands[0]));
  const auto elements = static_cast<double>(count(operands[0]));
  switch (step.op) {
    case Op::kCopy:
      return lines;
    case Op::kSort:
      return kSortedUs * elements;
    case Op::kTopK: {
      const int64_t line =
          std::max<int64_t>(extent(operands[0], static_cast<size_t>(step.axis)), 1);
      return elements *
             (kSelectedUs + kSortedUs * static_cast<double>(step.k) / static_cast<double>(line));
    }
    case Op::kScatterElements:
    case Op::kScatterNd:
      return lines + kScatteredUs * static_cast<double>(count(operands[2]));
    case Op::kCumulative:
      return kAccumulatedUs * elements;
  }
  return 0;
}

int host_step_phases(const HostStep& step) {
  return step.op == Op::kScatterElements || step.op == Op::kScatterNd ? 2 : 1;
}

void run_host_phase(const HostStep& step, int phase, Operands operands, Operands results,
                    HostPart part, std::byte* scratch) {
  switch (step.op) {
    case Op::kCopy:
      return copy_part(operands[0].data, results[0].data, bytes_of(operands[0]), part);
    case Op::kSort:
    case Op::kTopK:
      return run_sort(step, operands[0], results[0], results[1], part, scratch);
    case Op::kScatterElements:
    case Op::kScatterNd:
      return phase == 0 ? copy_part(operands[0].data, results[0].data, bytes_of(operands[0]), part)
                        : run_scatter(step, operands, results[0], part);
    case Op::kCumulative:
      return run_cumulative(step, operands[0], results[0], part);
  }
}

void run_host_step(const HostStep& step, Operands operands, Operands results, std::byte* scratch) {
  for (int phase = 0; phase < host_step_phases(step); ++phase) {
    run_host_phase(step, phase, operands, results, HostPart(), scratch);
  }
}

}  // namespace weft
