#include "group/repeated_reads.h"

#include <algorithm>

#include "group/strides.h"

namespace weft {

namespace {

int64_t extent_of(const GroupAxes& axes, int axis) {
  return axes.axes[static_cast<size_t>(axis)].extent;
}

}  // namespace

std::vector<RepeatedRead> repeated_reads(const TensorProgram& program, const Group& group,
                                         const GroupAxes& axes, const std::vector<int>& free) {
  std::vector<RepeatedRead> out;
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    visit(program.exprs[static_cast<size_t>(group.exprs[p])].body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes.producer(s.symbol) >= 0) return;
      if (!s.operands.empty() || s.fill != nullptr) return;
      const TensorType& type = program.tensors[static_cast<size_t>(s.symbol)].type;
      RepeatedRead read{s.symbol, 0, {}, 1};
      read.bytes =
          static_cast<double>(checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX));
      for (const int a : free) {
        if (stride_along(program, axes, static_cast<int>(p), s, a) == 0) read.still.insert(a);
      }
      for (size_t a = 0; a < axes.axes.size(); ++a) {
        const int axis = static_cast<int>(a);
        if (stride_along(program, axes, static_cast<int>(p), s, axis) == 0) continue;
        read.longest = std::max(read.longest, extent_of(axes, axis));
      }
      const auto known = std::find_if(out.begin(), out.end(), [&](const RepeatedRead& r) {
        return r.tensor == read.tensor && r.still == read.still;
      });
      if (!read.still.empty() && known == out.end()) out.push_back(std::move(read));
    });
  }
  return out;
}

std::set<int> axes_to_walk(const std::vector<RepeatedRead>& reads, const GroupAxes& axes) {
  std::set<int> best;
  double most = 0;
  for (const RepeatedRead& candidate : reads) {
    double times = 1, saved = 0;
    for (const int a : candidate.still) times *= static_cast<double>(extent_of(axes, a));
    for (const RepeatedRead& r : reads) {
      const bool along = std::includes(r.still.begin(), r.still.end(), candidate.still.begin(),
                                       candidate.still.end());
      if (along) saved += r.bytes * times;
    }
    if (saved <= most) continue;
    most = saved;
    best = candidate.still;
  }
  return best;
}

}  // namespace weft
