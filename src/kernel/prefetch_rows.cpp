#include "kernel/prefetch_rows.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "kernel/clone_block.h"
#include "kernel/definitions.h"
#include "kernel/kernel_op.h"

namespace weft {

namespace {

bool is_innermost(const KernelInstruction& loop) {
  const auto& body = loop.regions[0].body;
  return std::all_of(body.begin(), body.end(),
                     [](const KernelInstruction& in) { return in.regions.empty(); });
}

class Prefetcher {
 public:
  explicit Prefetcher(KernelFunction& kernel)
      : kernel_(kernel), definitions_(definitions_of(kernel)) {}

  bool run() {
    for (KernelPhase& phase : kernel_.phases) {
      visible_ = {phase.body.parameters.begin(), phase.body.parameters.end()};
      walk(phase.body);
    }
    return changed_;
  }

 private:
  void walk(KernelBlock& block) {
    for (KernelInstruction& in : block.body) {
      for (KernelBlock& region : in.regions) {
        visible_.insert(region.parameters.begin(), region.parameters.end());
        walk(region);
        if (in.op == KernelOp::kFor) rewrite(in);
        for (const Reg r : region.parameters) visible_.erase(r);
      }
    }
  }

  std::optional<int64_t> number(Reg r) const { return number_in(definitions_, r); }

  bool same_range(const KernelInstruction& a, const KernelInstruction& b) const {
    for (size_t i = 0; i < 3; ++i) {
      if (a.operands[i] == b.operands[i]) continue;
      const auto x = number(a.operands[i]);
      if (!x || x != number(b.operands[i])) return false;
    }
    return true;
  }

  void rewrite(KernelInstruction& rows) {
    std::vector<KernelInstruction*> sweeps;
    for (KernelInstruction& in : rows.regions[0].body) {
      if (in.op == KernelOp::kFor && is_innermost(in)) sweeps.push_back(&in);
    }
    if (sweeps.size() < 2 || !rows.results.empty()) return;
    KernelInstruction& last = *sweeps.back();
    KernelInstruction& before = *sweeps[sweeps.size() - 2];
    if (same_range(last, before)) request_stored(sweeps, last, before);
    if (same_range(last, *sweeps.front())) request_next_row(rows, *sweeps.front(), last);
  }

  KernelBuffer::Kind kind_of(int32_t buffer) const {
    return kernel_.buffers[static_cast<size_t>(buffer)].kind;
  }

  /// Elements of `access` that one request for a line covers; 0 where the access is none of whole
  /// vectors.
  int64_t elements_a_line(const KernelInstruction& access) const {
    const Reg value = access.op == KernelOp::kLoad ? access.results[0] : access.operands[1];
    if (kernel_.type(value).lanes < 2) return 0;
    return std::max<int64_t>(1, kLineBytes / byte_size(kernel_.type(value).dtype));
  }

  /// Requests for the lines of `accesses` in front of `body`, one for each line's worth of
  /// elements that they walk through.
  void request(const std::vector<const KernelInstruction*>& accesses, std::map<Reg, Reg> renamed,
               bool write, std::vector<KernelInstruction>& body) {
    std::vector<KernelInstruction> requests;
    std::map<int32_t, int64_t> elements;  // by buffer, so far
    std::set<std::pair<int32_t, Reg>> met;
    for (const KernelInstruction* access : accesses) {
      const int32_t buffer = *buffer_of(*access);
      if (!met.emplace(buffer, access->operands[0]).second) continue;
      const int64_t line = elements_a_line(*access);
      const Reg value = access->op == KernelOp::kLoad ? access->results[0] : access->operands[1];
      int64_t& done = elements[buffer];
      const bool fresh = done % line == 0;
      done += kernel_.type(value).lanes;
      if (!fresh) continue;
      const std::optional<Reg> offset = copy(access->operands[0], renamed, requests);
      if (!offset) return;
      requests.emplace_back(KernelOp::kPrefetch, PrefetchPayload{buffer, write},
                            std::vector<Reg>{*offset});
    }
    changed_ |= !requests.empty();
    body.insert(body.begin(), std::make_move_iterator(requests.begin()),
                std::make_move_iterator(requests.end()));
  }

  /// The register at other loop variables: arithmetic is written again, variables of loops around
  /// stay. nullopt where it is anything else.
  std::optional<Reg> copy(Reg r, std::map<Reg, Reg>& renamed, std::vector<KernelInstruction>& out) {
    if (const auto it = renamed.find(r); it != renamed.end()) return it->second;
    const auto definition = definitions_.find(r);
    if (definition == definitions_.end()) {
      return visible_.count(r) != 0 ? std::optional(r) : std::nullopt;
    }
    for (const Reg operand : definition->second.operands) {
      if (!copy(operand, renamed, out)) return std::nullopt;
    }
    out.push_back(clone_instruction(kernel_, definition->second, renamed));
    return renamed.at(r);
  }

  bool depends_on(Reg r, Reg variable) const {
    if (r == variable) return true;
    const auto it = definitions_.find(r);
    return it != definitions_.end() &&
           std::any_of(it->second.operands.begin(), it->second.operands.end(),
                       [&](Reg operand) { return depends_on(operand, variable); });
  }

  void request_stored(const std::vector<KernelInstruction*>& sweeps, KernelInstruction& last,
                      KernelInstruction& before) {
    std::set<int32_t> touched;  // already by earlier sweeps
    for (const KernelInstruction* sweep : sweeps) {
      if (sweep == &last) continue;
      for (const KernelInstruction& in : sweep->regions[0].body) {
        if (const auto buffer = buffer_of(in)) touched.insert(*buffer);
      }
    }
    std::vector<const KernelInstruction*> stores;
    for (const KernelInstruction& in : last.regions[0].body) {
      if (in.op != KernelOp::kStore || elements_a_line(in) == 0) continue;
      const auto& store = in.as<StorePayload>();
      if (!store.non_temporal && touched.count(store.buffer) == 0 &&
          kind_of(store.buffer) != KernelBuffer::Kind::kScratch) {
        stores.push_back(&in);
      }
    }
    const Reg iv = last.regions[0].parameters[0];
    request(stores, {{iv, before.regions[0].parameters[0]}}, true, before.regions[0].body);
  }

  void request_next_row(KernelInstruction& rows, const KernelInstruction& first,
                        KernelInstruction& last) {
    const Reg row = rows.regions[0].parameters[0];
    std::vector<const KernelInstruction*> loads;
    for (const KernelInstruction& in : first.regions[0].body) {
      const bool whole = in.op == KernelOp::kLoad && elements_a_line(in) != 0;
      if (whole && depends_on(in.operands[0], row) &&
          kind_of(in.as<LoadPayload>().buffer) == KernelBuffer::Kind::kInput) {
        loads.push_back(&in);
      }
    }
    if (loads.empty()) return;
    std::vector<KernelInstruction>& body = last.regions[0].body;
    // Behind the last row there may be no page (append_request).
    std::vector<KernelInstruction> next;
    const Reg further =
        append_apply(kernel_, next, ScalarOp::kAdd, {row, rows.operands[2]}, DType::kI64);
    const Reg is_there =
        append_apply(kernel_, next, ScalarOp::kLt, {further, rows.operands[1]}, DType::kBool);
    const Reg after =
        append_apply(kernel_, next, ScalarOp::kSelect, {is_there, further, row}, DType::kI64);
    const size_t old = body.size();
    request(loads, {{row, after}, {first.regions[0].parameters[0], last.regions[0].parameters[0]}},
            false, body);
    if (body.size() == old) return;
    body.insert(body.begin(), std::make_move_iterator(next.begin()),
                std::make_move_iterator(next.end()));
  }

  KernelFunction& kernel_;
  Definitions definitions_;
  std::set<Reg> visible_;  ///< parameters of the blocks around the loop in hand
  bool changed_ = false;
};

}  // namespace

bool is_prefetched(const KernelFunction& kernel, const Target& target) {
  int64_t bytes = 0;
  for (const KernelBuffer& b : kernel.buffers) {
    if (b.kind != KernelBuffer::Kind::kScratch) bytes += b.elements * byte_size(b.dtype);
  }
  return bytes > target.l2_bytes / 4 * target.threads;
}

bool prefetch_rows(KernelFunction& kernel, const Target& target) {
  return is_prefetched(kernel, target) && Prefetcher(kernel).run();
}

}  // namespace weft
