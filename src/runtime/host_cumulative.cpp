#include "runtime/host_cumulative.h"

#include "runtime/host_values.h"

namespace weft {
namespace {

/// Where the axis is the last one, lines that run side by side: their additions do not wait for
/// each other.
constexpr int64_t kRows = 8;
/// Else neighbours in memory: a page of float32, since threads that take parts of the same pages
/// are slower than one.
constexpr int64_t kNeighbours = 1024;

template <typename T>
T combiner_start(uint8_t combiner) {
  using Limits = std::numeric_limits<T>;
  switch (combiner) {
    case kProd:
      return T{1};
    case kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case kAnd:
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        return static_cast<T>(~T{0});
      } else {
        return T{1};
      }
    default:
      return T{0};
  }
}

/// Lines side by side, `apart` from each other, each of `extent` elements by `stride`.
struct Lines {
  int64_t lines, apart, extent, stride;
};

template <uint8_t kCombiner, typename S, bool kNeighbouring>
void accumulate_lines(const HostStep& step, const Lines& x, const typename S::Raw* from,
                      typename S::Raw* to) {
  using Value = typename S::Value;
  using Running = std::conditional_t<std::is_floating_point_v<Value>, double, Value>;
  const int64_t apart = kNeighbouring ? 1 : x.apart;
  Running running[kNeighbouring ? kNeighbours : kRows];
  std::fill_n(running, x.lines, combiner_start<Running>(kCombiner));
  const int64_t first = step.reverse ? (x.extent - 1) * x.stride : 0;
  const int64_t stride = step.reverse ? -x.stride : x.stride;
  const auto run = [&](int64_t lines, auto exclusive) WEFT_INLINED {
    const typename S::Raw* in = from + first;
    typename S::Raw* out = to + first;
    for (int64_t k = 0; k < x.extent; ++k, in += stride, out += stride) {
      for (int64_t i = 0; i < lines; ++i) {
        const Running before = running[i], value = S::load(in[i * apart]);
        running[i] = combine_values<kCombiner>(before, value);
        out[i * apart] = S::store(static_cast<Value>(exclusive ? before : running[i]));
      }
    }
  };
  run_with_wide_vectors([&]() WEFT_INLINED {
    // A constant number of rows keeps what runs in registers.
    if (step.exclusive) {
      run(x.lines, std::true_type());
    } else if (!kNeighbouring && x.lines == kRows) {
      run(kRows, std::false_type());
    } else if (!kNeighbouring && x.lines == 1) {
      run(1, std::false_type());
    } else {
      run(x.lines, std::false_type());
    }
  });
}

}  // namespace

int64_t cumulative_pieces(const HostStep& step, const HostOperand& x) {
  const AxisView view = around(*x.shape, step.axis);
  return view.inner == 1 ? (view.outer + kRows - 1) / kRows
                         : view.outer * ((view.inner + kNeighbours - 1) / kNeighbours);
}

void run_cumulative(const HostStep& step, const HostOperand& x, const HostOperand& y,
                    HostPart part) {
  const AxisView view = around(*x.shape, step.axis);
  const Share mine = part.share(cumulative_pieces(step, x));
  const int64_t across = (view.inner + kNeighbours - 1) / kNeighbours;
  with_storage(x.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const auto* from = reinterpret_cast<const Raw*>(x.data);
    auto* to = reinterpret_cast<Raw*>(y.data);
    with_combiner(step.combiner, [&](auto combiner) {
      constexpr uint8_t kCombiner = decltype(combiner)::value;
      for (int64_t piece = mine.begin; piece < mine.end; ++piece) {
        if (view.inner == 1) {
          const int64_t lines = std::min(kRows, view.outer - piece * kRows);
          const int64_t at = piece * kRows * view.extent;
          accumulate_lines<kCombiner, S, false>(step, {lines, view.extent, view.extent, 1},
                                                from + at, to + at);
          continue;
        }
        const int64_t first = piece % across * kNeighbours;
        const int64_t lines = std::min(kNeighbours, view.inner - first);
        const int64_t at = piece / across * view.extent * view.inner + first;
        accumulate_lines<kCombiner, S, true>(step, {lines, 1, view.extent, view.inner}, from + at,
                                             to + at);
      }
    });
  });
}

}  // namespace weft
