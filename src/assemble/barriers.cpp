#include "assemble/barriers.h"

namespace weft {

namespace {

class Overlaps {
 public:
  explicit Overlaps(std::span<const ProgramBuffer> buffers) : buffers_(buffers) {}

  bool conflict(const StepAccess& a, const StepAccess& b) const {
    return meet(a.writes, b.reads) || meet(a.reads, b.writes) || meet(a.writes, b.writes);
  }

 private:
  const ProgramBuffer& buffer(int32_t b) const { return buffers_[static_cast<size_t>(b)]; }

  /// The buffer whose memory this one is part of.
  int32_t resolve(int32_t b) const {
    return buffer(b).kind == ProgramBuffer::Kind::kSlice ? resolve(buffer(b).base) : b;
  }

  bool overlap(int32_t x, int32_t y) const {
    const int32_t a = resolve(x), b = resolve(y);
    if (a == b) return true;
    const ProgramBuffer &p = buffer(a), &q = buffer(b);
    const auto carried = [](const ProgramBuffer& c) {
      return c.kind > ProgramBuffer::Kind::kSlice;
    };
    if (carried(p)) return overlap(p.base, b) || overlap(p.other, b);
    if (carried(q)) return overlap(a, q.base) || overlap(a, q.other);
    if (p.kind != q.kind) return false;
    if (p.kind == ProgramBuffer::Kind::kArena)
      return p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes;
    return p.index == q.index;
  }

  bool meet(const std::vector<int32_t>& x, const std::vector<int32_t>& y) const {
    for (const int32_t p : x) {
      for (const int32_t q : y) {
        if (overlap(p, q)) return true;
      }
    }
    return false;
  }

  std::span<const ProgramBuffer> buffers_;
};

}  // namespace

std::vector<bool> place_barriers(std::span<const ProgramBuffer> buffers,
                                 std::span<const StepAccess> steps) {
  const Overlaps overlaps(buffers);
  std::vector<bool> waits;
  std::vector<const StepAccess*> pending;
  for (const StepAccess& access : steps) {
    bool wait = waits.empty();
    for (const StepAccess* p : pending) {
      if (wait) break;
      wait = !(p->serial && access.serial) && overlaps.conflict(*p, access);
    }
    waits.push_back(wait);
    if (wait) pending.clear();
    pending.push_back(&access);
  }
  return waits;
}

}  // namespace weft
