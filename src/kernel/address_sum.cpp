#include "kernel/address_sum.h"

#include <cstdlib>
#include <optional>
#include <utility>

namespace weft {

AddressSum address_sum(const Definitions& definitions, Reg r, const std::map<Reg, AddressSum>& at) {
  if (const auto known = at.find(r); known != at.end()) return known->second;
  if (const std::optional<int64_t> number = number_in(definitions, r)) return {{}, *number};
  const auto it = definitions.find(r);
  AddressSum itself{{{r, 1}}, 0};
  if (it == definitions.end()) return itself;
  const ScalarOp op = it->second.as<ApplyPayload>().op;
  if (op != ScalarOp::kAdd && op != ScalarOp::kMul) return itself;
  AddressSum a = address_sum(definitions, it->second.operands[0], at),
             b = address_sum(definitions, it->second.operands[1], at);
  if (op == ScalarOp::kAdd) {
    for (const auto& [term, factor] : b.terms) a.terms[term] += factor;
    a.constant += b.constant;
    return a;
  }
  if (a.terms.empty()) std::swap(a, b);
  if (!b.terms.empty()) return itself;
  for (auto& [term, factor] : a.terms) factor *= b.constant;
  a.constant *= b.constant;
  return a;
}

bool in_one_line(const KernelFunction& kernel, const BufferPlace& a, const BufferPlace& b) {
  const int64_t size = byte_size(kernel.buffers[static_cast<size_t>(a.buffer)].dtype);
  return a.buffer == b.buffer && a.at.terms == b.at.terms &&
         std::abs(a.at.constant - b.at.constant) * size < kLineBytes;
}

}  // namespace weft
