#include "kernel/prefetch_panels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kernel/clone_block.h"
#include "kernel/definitions.h"
#include "kernel/kernel_op.h"
#include "kernel/request_line.h"

namespace weft {

namespace {

/// What an innermost loop walks through of one buffer.
struct Panel {
  size_t load = 0;       ///< the first of its loads in the body
  int64_t elements = 0;  ///< that an iteration loads
};

class PanelPrefetcher {
 public:
  PanelPrefetcher(KernelFunction& kernel, const Target& target)
      : kernel_(kernel), target_(target), definitions_(definitions_of(kernel)) {}

  bool run() {
    for (KernelPhase& phase : kernel_.phases) walk(phase.body, nullptr);
    return changed_;
  }

 private:
  void walk(KernelBlock& block, const KernelInstruction* around) {
    for (KernelInstruction& in : block.body) {
      const KernelInstruction* loop = in.op == KernelOp::kFor ? &in : around;
      for (KernelBlock& region : in.regions) walk(region, loop);
      if (in.op != KernelOp::kFor || around == nullptr) continue;
      rewrite(*around, in);
      if (copies_to_scratch(in.regions[0])) request_next(*around, in);
    }
  }

  std::optional<int64_t> number(Reg r) const { return number_in(definitions_, r); }

  std::optional<int64_t> moves_with(Reg r, Reg variable) const {
    return weft::moves_with(definitions_, r, variable);
  }

  /// Other kernels' operands throw out what would have room alone.
  bool is_large(int32_t buffer) const {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(buffer)];
    return b.kind == KernelBuffer::Kind::kInput &&
           b.elements * byte_size(b.dtype) > target_.l2_bytes / 8;
  }

  /// By buffer: loads of whole vectors that the tile does not move, one behind another.
  std::map<int32_t, Panel> panels(const KernelInstruction& tiles, const KernelInstruction& steps,
                                  int64_t step) const {
    const Reg tile = tiles.regions[0].parameters[0], at = steps.regions[0].parameters[0];
    std::map<int32_t, Panel> out;
    std::map<int32_t, int64_t> moved;
    std::set<int32_t> refused;
    const std::vector<KernelInstruction>& body = steps.regions[0].body;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].op != KernelOp::kLoad) continue;
      const int32_t buffer = body[i].as<LoadPayload>().buffer;
      const int64_t lanes = kernel_.type(body[i].results[0]).lanes;
      const auto along = moves_with(body[i].operands[0], at);
      if (lanes < 2 || !is_large(buffer) || !along || *along <= 0 ||
          moves_with(body[i].operands[0], tile) != 0) {
        refused.insert(buffer);
        continue;
      }
      const auto [panel, first] = out.emplace(buffer, Panel{.load = i});
      if (first) moved[buffer] = *along * step;
      if (moved[buffer] != *along * step) refused.insert(buffer);
      panel->second.elements += lanes;
    }
    std::erase_if(out, [&](const auto& p) {
      return refused.contains(p.first) || p.second.elements != moved[p.first];
    });
    return out;
  }

  /// The panel, or the part of it, that the steps walk lies in front of what comes next.
  void rewrite(const KernelInstruction& tiles, KernelInstruction& steps) {
    const std::optional<int64_t> begin = number(steps.operands[0]), end = number(steps.operands[1]),
                                 step = number(steps.operands[2]);
    if (!begin || !end || !step || *step < 1) return;
    const int64_t turns = (*end - *begin) / *step;
    for (const auto& [buffer, panel] : panels(tiles, steps, *step)) {
      const int64_t size = byte_size(kernel_.buffers[static_cast<size_t>(buffer)].dtype);
      const int64_t line = kLineBytes / size, elements = turns * panel.elements;
      const bool is_whole = elements >= kernel_.buffers[static_cast<size_t>(buffer)].elements;
      if (elements * size <= target_.l1_bytes || panel.elements <= line || is_whole) continue;
      request(tiles, steps, buffer, panel, {.begin = *begin, .step = *step, .turns = turns});
      return;
    }
  }

  bool copies_to_scratch(const KernelBlock& body) const {
    bool stores = false;
    for (const KernelInstruction& in : body.body) {
      if (!in.regions.empty()) return false;
      const auto* store = std::get_if<StorePayload>(&in.payload);
      if (store == nullptr) continue;
      if (kernel_.buffers[static_cast<size_t>(store->buffer)].kind != KernelBuffer::Kind::kScratch)
        return false;
      stores = true;
    }
    return stores;
  }

  /// What the copy of the next panel loads.
  void request_next(const KernelInstruction& panels, KernelInstruction& copy) {
    const std::optional<int64_t> step = number(panels.operands[2]);
    std::vector<KernelInstruction>& body = copy.regions[0].body;
    for (size_t i = 0; step && i < body.size(); ++i) {
      if (body[i].op != KernelOp::kLoad || kernel_.type(body[i].results[0]).lanes < 2) continue;
      const int32_t buffer = body[i].as<LoadPayload>().buffer;
      const Reg at = body[i].operands[0];
      const int64_t moved = moves_with(at, panels.regions[0].parameters[0]).value_or(0) * *step;
      const int64_t size = byte_size(kernel_.buffers[static_cast<size_t>(buffer)].dtype);
      if (!is_large(buffer) || std::abs(moved) * size < kLineBytes) continue;
      std::vector<KernelInstruction> added;
      const Reg apart =
          append_constant(kernel_, added, {DType::kI64, 1}, int_value(DType::kI64, moved));
      const Reg ahead = append_apply(kernel_, added, ScalarOp::kAdd, {at, apart}, DType::kI64);
      append_request(kernel_, added, buffer, ahead);
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
      i += added.size();
      changed_ = true;
    }
  }

  struct Walk {
    int64_t begin = 0, step = 1, turns = 0;
  };

  /// A line in each turn, which goes on from tile to tile.
  void request(const KernelInstruction& tiles, KernelInstruction& steps, int32_t buffer,
               const Panel& panel, const Walk& walk) {
    const int64_t line = kLineBytes / byte_size(kernel_.buffers[static_cast<size_t>(buffer)].dtype);
    std::vector<KernelInstruction>& body = steps.regions[0].body;
    std::vector<KernelInstruction> added;
    const auto constant = [&](int64_t value) {
      return append_constant(kernel_, added, {DType::kI64, 1}, int_value(DType::kI64, value));
    };
    const auto apply = [&](ScalarOp op, Reg a, Reg b) {
      return append_apply(kernel_, added, op, {a, b}, DType::kI64);
    };
    const Reg last = constant(panel.elements / line - 1);
    const Reg tile = apply(ScalarOp::kMin, tiles.regions[0].parameters[0], last);
    const Reg before = apply(ScalarOp::kMul, tile, constant(walk.turns * line));
    // The load stands `elements` further in each turn, the request a line.
    const int64_t behind = (panel.elements - line) / walk.step;
    const Reg turned = apply(ScalarOp::kMul, steps.regions[0].parameters[0], constant(-behind));
    const Reg next = constant(walk.turns * panel.elements + behind * walk.begin);
    const Reg ahead = apply(ScalarOp::kAdd, apply(ScalarOp::kAdd, before, turned), next);
    const Reg address = apply(ScalarOp::kAdd, body[panel.load].operands[0], ahead);
    append_request(kernel_, added, buffer, address);
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(panel.load) + 1,
                std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    changed_ = true;
  }

  KernelFunction& kernel_;
  const Target& target_;
  Definitions definitions_;
  bool changed_ = false;
};

}  // namespace

bool prefetch_panels(KernelFunction& kernel, const Target& target) {
  return PanelPrefetcher(kernel, target).run();
}

}  // namespace weft
