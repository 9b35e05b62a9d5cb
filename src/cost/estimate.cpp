#include "cost/estimate.h"

#include <algorithm>
#include <optional>

#include "expr/analysis/dependence.h"
#include "expr/products/bfloat_products.h"
#include "expr/products/integer_products.h"
#include "target/multiplies_bfloat16.h"
#include "target/unit_peak.h"

namespace weft {

namespace {

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t bytes_of(const TensorProgram& program, TensorId t) {
  const TensorType& type = program.tensors[static_cast<size_t>(t)].type;
  return checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX);
}

}  // namespace

double arithmetic_us(const TensorProgram& program, const TensorExpr& e, const Target& target) {
  double times = 1;  // the rate of float32
  if (!target.is_gpu() && e.is_contraction) {
    // Four products in a lane by an instruction, or two by one and an addition.
    if (const std::optional<IntegerProduct> integers = as_integer_product(e.body))
      times = multiplies_bytes(target) && !integers->in_words() ? 4 : 1.7;
    if (multiplies_bfloat16(target) && sums_bfloat_pairs(program, e)) times = 2;
  }
  if (target.is_gpu() && e.is_contraction) {
    // Of the wider factor on the device's units.
    const std::optional<FloatProduct> product = as_float_product(e.body);
    const auto rate = [&](size_t side) { return unit_gflops(product->reads[side]->type, target); };
    if (product) times = std::max(1.0, std::min(rate(0), rate(1)) / target.peak_gflops);
  }
  return static_cast<double>(flops_of(e)) / (target.peak_gflops * 1e3 * times);
}

double roofline_us(int64_t bytes, double arithmetic_us, const Target& target) {
  const double memory = static_cast<double>(bytes) / (target.bandwidth_gb_per_s(bytes) * 1e3);
  return std::max(memory, arithmetic_us);
}

double memory_us(double bytes, double busy, const Target& target) {
  const auto at_rate = [](double moved, double gb_per_s) { return moved / (gb_per_s * 1e3); };
  const auto moved = static_cast<int64_t>(std::min(bytes, 1e15));
  const double us = at_rate(bytes, target.bandwidth_gb_per_s(moved));
  if (target.bandwidth.empty()) return us / busy;
  double best = 0;
  for (const auto& point : target.bandwidth) best = std::max(best, point.gb_per_s);
  const Target::BandwidthPoint& smallest = target.bandwidth.front();
  const double latency = at_rate(static_cast<double>(smallest.bytes), smallest.gb_per_s);
  return std::max(us, latency + at_rate(bytes, best) / busy);
}

double latency_us(int64_t bytes, double arithmetic_us, const Target& target) {
  return roofline_us(bytes, arithmetic_us, target) + target.start_us();
}

CostModel::CostModel(const TensorProgram& program, const Target& target)
    : program_(program), target_(target) {
  work_.reserve(program.exprs.size());
  for (const TensorExpr& e : program.exprs) {
    const std::map<TensorId, int64_t> read = bytes_read_by_tensor(program, e);
    work_.push_back({flops_of(e), arithmetic_us(program, e, target), {read.begin(), read.end()}});
  }
}

Estimate CostModel::estimate(std::span<const ExprId> exprs,
                             std::span<const TensorId> outputs) const {
  Estimate out;
  std::vector<TensorId> made;
  std::vector<std::pair<TensorId, int64_t>> read;
  for (const ExprId e : exprs) {
    const Work& work = work_[static_cast<size_t>(e)];
    out.flops = saturating_add(out.flops, work.flops);
    out.arithmetic_us += work.arithmetic_us;
    made.push_back(program_.exprs[static_cast<size_t>(e)].output);
    read.insert(read.end(), work.read.begin(), work.read.end());
  }
  std::ranges::sort(made);
  std::ranges::sort(read);
  for (size_t i = 0; i < read.size(); ++i) {
    const auto [t, bytes] = read[i];
    // Two expressions may read the same elements or others: the larger part, not the sum.
    const bool is_largest = i + 1 == read.size() || read[i + 1].first != t;
    if (is_largest && !std::ranges::binary_search(made, t))
      out.bytes_read = saturating_add(out.bytes_read, bytes);
  }
  for (const TensorId t : outputs)
    out.bytes_written = saturating_add(out.bytes_written, bytes_of(program_, t));
  out.microseconds =
      latency_us(saturating_add(out.bytes_read, out.bytes_written), out.arithmetic_us, target_);
  return out;
}

}  // namespace weft
