#include <algorithm>
#include <map>
#include <optional>

#include "schedule/schedule.h"
#include "tile/analysis/predict_traffic.h"

namespace weft {

namespace {

/// Bytes of a parameter; nothing where its sizes are open.
std::optional<int64_t> bytes_of(const TileSymbol& symbol) {
  int64_t elements = 1;
  for (const IndexExpr& extent : symbol.shape) {
    if (!extent.is_const()) return std::nullopt;
    elements *= extent.constant();
  }
  return elements * byte_size(symbol.type);
}

/// What is read of each parameter, views of it included: members of one launch have views of their
/// own.
std::vector<int64_t> reads_by_parameter(const ScheduledKernel& kernel, const Traffic& traffic) {
  const TileProgram& program = kernel.program;
  std::map<TileSymbolId, size_t> parameter_of;
  for (size_t p = 0; p < std::min(program.parameters.size(), kernel.parameters.size()); ++p)
    parameter_of.emplace(program.parameters[p], p);
  std::vector<int64_t> reads(kernel.parameters.size());
  for (const auto& [symbol, bytes] : traffic.unique_read_of) {
    const TileSymbolId of = program.symbols[static_cast<size_t>(symbol)].view_of;
    const auto parameter = parameter_of.find(of >= 0 ? of : symbol);
    if (parameter != parameter_of.end()) reads[parameter->second] += bytes;
  }
  return reads;
}

/// What is read of a tensor in all, as several parameters or by several members, beyond what there
/// is of it.
int64_t read_again(const ScheduledKernel& kernel, const std::vector<int64_t>& reads) {
  const TileProgram& program = kernel.program;
  std::map<TensorId, int64_t> read;
  std::map<TensorId, std::optional<int64_t>> size;
  for (size_t p = 0; p < std::min(program.parameters.size(), reads.size()); ++p) {
    read[kernel.parameters[p]] += reads[p];
    size.emplace(kernel.parameters[p],
                 bytes_of(program.symbols[static_cast<size_t>(program.parameters[p])]));
  }
  int64_t again = 0;
  for (const auto& [tensor, bytes] : read)
    again += std::max<int64_t>(0, bytes - size.at(tensor).value_or(bytes));
  return again;
}

}  // namespace

void estimate_traffic(ScheduledKernel& kernel) {
  const auto traffic = predict_traffic(kernel.program, kernel.scopes);
  if (!traffic.ok()) return;
  Estimate& e = kernel.estimate;
  kernel.parameter_reads = reads_by_parameter(kernel, *traffic);
  e.bytes_read = traffic->unique_read - read_again(kernel, kernel.parameter_reads);
  e.bytes_written = traffic->unique_written;
  e.bytes_requested = traffic->requested_read + traffic->requested_written;
}

}  // namespace weft
