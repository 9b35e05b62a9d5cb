#include "kernel/prefetch_epilogues.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernel/address_sum.h"
#include "kernel/definitions.h"

namespace weft {

namespace {

/// Lines of a tile that are asked for at most: processors wait for few at once.
constexpr size_t kMostLines = 24;

class EpiloguePrefetcher {
 public:
  EpiloguePrefetcher(KernelFunction& kernel, const Target& target)
      : kernel_(kernel), target_(target), definitions_(definitions_of(kernel)) {}

  bool run() {
    for (KernelPhase& phase : kernel_.phases) walk(phase.body, nullptr);
    return changed_;
  }

 private:
  void walk(KernelBlock& block, const KernelInstruction* tiles) {
    for (KernelInstruction& in : block.body) {
      const KernelInstruction* around = in.op == KernelOp::kFor ? &in : tiles;
      for (KernelBlock& region : in.regions) walk(region, around);
    }
    if (tiles != nullptr) rewrite(block.body, *tiles);
  }

  static bool makes_sums(const KernelInstruction& in) {
    return in.op == KernelOp::kFor && !in.results.empty();
  }

  void rewrite(std::vector<KernelInstruction>& body, const KernelInstruction& tiles) {
    for (size_t at = body.size(); at-- > 0;) {
      if (!makes_sums(body[at])) continue;
      const auto end = std::find_if(body.begin() + static_cast<std::ptrdiff_t>(at) + 1, body.end(),
                                    [](const auto& in) { return !in.regions.empty(); });
      request(body, at, static_cast<size_t>(end - body.begin()), tiles);
    }
  }

  /// Of what is loaded between the loop at `loop` and `end`.
  void request(std::vector<KernelInstruction>& body, size_t loop, size_t end,
               const KernelInstruction& tiles) {
    defined_at_.clear();
    for (size_t i = loop; i < end; ++i) {
      for (const Reg r : body[i].results) defined_at_[r] = i;
    }
    std::set<size_t> moved;
    std::vector<KernelInstruction> requests;
    std::vector<BufferPlace> asked;
    for (size_t i = loop + 1; i < end && requests.size() < kMostLines; ++i) {
      if (body[i].op != KernelOp::kLoad || !is_far(body[i], tiles)) continue;
      const Reg address = body[i].operands[0];
      const BufferPlace place{body[i].as<LoadPayload>().buffer, address_sum(definitions_, address)};
      const auto near = [&](const BufferPlace& p) { return in_one_line(kernel_, p, place); };
      if (std::ranges::any_of(asked, near)) continue;
      std::set<size_t> needed;
      if (!collect(body, loop, address, needed)) continue;
      moved.merge(needed);
      asked.push_back(place);
      requests.emplace_back(KernelOp::kPrefetch, PrefetchPayload{place.buffer, false},
                            std::vector<Reg>{address});
    }
    if (requests.empty()) return;
    put_before(body, loop, moved, std::move(requests));
    changed_ = true;
  }

  /// Whether it loads a whole vector that another tile does not share, of what the first cache does
  /// not hold.
  bool is_far(const KernelInstruction& load, const KernelInstruction& tiles) const {
    const KernelBuffer& b = kernel_.buffers[static_cast<size_t>(load.as<LoadPayload>().buffer)];
    return b.kind == KernelBuffer::Kind::kInput && kernel_.type(load.results[0]).lanes > 1 &&
           b.elements * byte_size(b.dtype) > target_.l1_bytes &&
           moves_with(definitions_, load.operands[0], tiles.regions[0].parameters[0]) != 0;
  }

  /// The instructions behind the loop that the register is made of; false where one of them is more
  /// than arithmetic.
  bool collect(const std::vector<KernelInstruction>& body, size_t loop, Reg r,
               std::set<size_t>& needed) const {
    const auto it = defined_at_.find(r);
    if (it == defined_at_.end() || needed.contains(it->second)) return true;
    const KernelInstruction& in = body[it->second];
    const bool arithmetic = in.op == KernelOp::kConst || in.op == KernelOp::kApply;
    if (it->second == loop || !arithmetic) return false;
    needed.insert(it->second);
    return std::ranges::all_of(in.operands,
                               [&](Reg operand) { return collect(body, loop, operand, needed); });
  }

  static void put_before(std::vector<KernelInstruction>& body, size_t loop,
                         const std::set<size_t>& moved, std::vector<KernelInstruction> requests) {
    std::vector<KernelInstruction> out;
    out.reserve(body.size() + requests.size());
    const auto take = [&](KernelInstruction& in) { out.push_back(std::move(in)); };
    for (size_t i = 0; i < loop; ++i) take(body[i]);
    for (const size_t i : moved) take(body[i]);
    for (KernelInstruction& in : requests) take(in);
    for (size_t i = loop; i < body.size(); ++i) {
      if (!moved.contains(i)) take(body[i]);
    }
    body = std::move(out);
  }

  KernelFunction& kernel_;
  const Target& target_;
  Definitions definitions_;
  std::map<Reg, size_t> defined_at_;
  bool changed_ = false;
};

}  // namespace

bool prefetch_epilogues(KernelFunction& kernel, const Target& target) {
  return EpiloguePrefetcher(kernel, target).run();
}

}  // namespace weft
