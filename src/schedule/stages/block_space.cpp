#include "schedule/stages/block_space.h"

#include <algorithm>
#include <set>

#include "group/widen_bytes.h"
#include "group/widen_halves.h"

namespace weft {

BlockSpace::BlockSpace(const TensorProgram& program, const Group& group, const Target& target,
                       const GroupKey* key)
    : declared_(cut_group(program, group, {.key = key})), wide_(declared_) {
  widen_halves(&wide_, target);
  widen_bytes(&wide_, target);
  producer_.assign(wide_.program.tensors.size(), -1);
  std::vector<std::set<int>> readers(wide_.program.exprs.size());
  for (int p = 0; p < size(); ++p) {
    producer_[static_cast<size_t>(expr(p).output)] = p;
    visit(expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && producer(s.symbol) >= 0)
        readers[static_cast<size_t>(producer(s.symbol))].insert(p);
    });
  }
  for (const std::set<int>& all : readers) readers_.emplace_back(all.begin(), all.end());
}

bool BlockSpace::is_output(int p) const {
  return std::ranges::find(group().outputs, expr(p).output) != group().outputs.end();
}

}  // namespace weft
