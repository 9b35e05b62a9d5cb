#include "runtime/host_scatter.h"

#include <cstring>

#include "runtime/host_values.h"

namespace weft {
namespace {

using Operands = std::span<const HostOperand>;

constexpr int64_t kDecoded = 256;  // indices that are decoded at once

/// Where updates go: index tuples as numbers of places, clamped into range (what is asked for
/// outside lands on the border).
class Places {
 public:
  /// Of `depth` indices each, over the first axes of `data` or over `axis` alone.
  Places(const HostOperand& indices, const Shape& data, int64_t first_axis, int64_t depth)
      : indices_(indices), extents_(data.data() + first_axis), depth_(depth) {}

  /// The places of updates first..first+count-1.
  void decode(int64_t first, int64_t count, int64_t* to) const {
    if (indices_.dtype == DType::kI32) {
      decode_as<int32_t>(first, count, to);
    } else {
      decode_as<int64_t>(first, count, to);
    }
  }

 private:
  template <typename T>
  void decode_as(int64_t first, int64_t count, int64_t* to) const {
    const T* from = reinterpret_cast<const T*>(indices_.data) + first * depth_;
    if (depth_ == 1) {
      const int64_t last = extents_[0] - 1;
      for (int64_t u = 0; u < count; ++u) to[u] = std::clamp<int64_t>(from[u], 0, last);
      return;
    }
    for (int64_t u = 0; u < count; ++u) {
      int64_t place = 0;
      for (int64_t d = 0; d < depth_; ++d) {
        place = place * extents_[d] + std::clamp<int64_t>(from[u * depth_ + d], 0, extents_[d] - 1);
      }
      to[u] = place;
    }
  }

  const HostOperand& indices_;
  const int64_t* extents_;
  int64_t depth_;
};

/// How an update meets what is there.
template <typename S, uint8_t kCombiner>
struct Combine {
  using Raw = typename S::Raw;
  /// Between what is there and an update: with AVX2, the compiler makes masked stores of that,
  /// which are slower than narrow vectors.
  static constexpr bool kChooses = kCombiner == kMin || kCombiner == kMax;
  WEFT_INLINED static void put(Raw* to, Raw update) {
    *to = S::store(combine_values<kCombiner>(S::load(*to), S::load(update)));
  }
  WEFT_INLINED static void put_run(Raw* to, const Raw* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) put(to + i, from[i]);
  }
};
template <typename RawType>
struct Replace {
  using Raw = RawType;
  static constexpr bool kChooses = false;
  static void put(Raw* to, Raw update) { *to = update; }
  static void put_run(Raw* to, const Raw* from, int64_t n) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(Raw));
  }
};

/// Calls body with the way of `step`'s updates.
template <typename Body>
void with_put(const HostStep& step, DType dtype, Body&& body) {
  if (!step.combines) {
    return with_width(byte_size(dtype), [&](auto raw) { body(Replace<decltype(raw)>()); });
  }
  with_storage(dtype, [&](auto storage) {
    with_combiner(step.combiner, [&](auto combiner) {
      body(Combine<decltype(storage), decltype(combiner)::value>());
    });
  });
}

int64_t slice_of(Operands in) {
  int64_t slice = 1;
  for (auto d = static_cast<size_t>(in[1].shape->back()); d < in[0].shape->size(); ++d) {
    slice *= extent(in[0], d);
  }
  return slice;
}

/// Slices of the data at the places that the tuples name.
template <typename Put>
void scatter_slices(Operands in, typename Put::Raw* to, Share columns) {
  const Places places(in[1], *in[0].shape, 0, in[1].shape->back());
  const auto* from = reinterpret_cast<const typename Put::Raw*>(in[2].data);
  const int64_t slice = slice_of(in), updates = count(in[2]) / slice;
  const int64_t width = columns.end - columns.begin;
  int64_t place[kDecoded];
  for (int64_t first = 0; first < updates; first += kDecoded) {
    const int64_t n = std::min(kDecoded, updates - first);
    places.decode(first, n, place);
    if (slice == 1) {
      for (int64_t u = 0; u < n; ++u) Put::put(to + place[u], from[first + u]);
      continue;
    }
    const auto put = [&]() WEFT_INLINED {
      for (int64_t u = 0; u < n; ++u) {
        Put::put_run(to + place[u] * slice + columns.begin,
                     from + (first + u) * slice + columns.begin, width);
      }
    };
    Put::kChooses ? put() : run_with_wide_vectors(put);
  }
}

/// Updates as rows along their last axis.
struct Rows {
  int64_t rows = 1, extent = 1;
  bool along_axis = false;  ///< indices go along the rows, so that rows are apart from each other
};

Rows rows_of(const HostStep& step, const HostOperand& updates) {
  Rows result;
  result.extent = updates.shape->back();
  for (size_t d = 0; d + 1 < updates.shape->size(); ++d) result.rows *= extent(updates, d);
  result.along_axis = step.axis == rank(updates) - 1;
  return result;
}

/// Where row `row` of the updates lies in the data, its index left out.
int64_t row_offset(const HostStep& step, Operands in, int64_t row) {
  int64_t offset = 0, stride = in[0].shape->back();
  for (size_t d = in[2].shape->size() - 1; d-- > 0;) {
    const int64_t at = row % extent(in[2], d);
    row /= extent(in[2], d);
    if (static_cast<int64_t>(d) != step.axis) offset += at * stride;
    stride *= extent(in[0], d);
  }
  return offset;
}

template <typename Put>
void scatter_elements(const HostStep& step, Operands in, typename Put::Raw* to, Share rows,
                      Share columns) {
  const Places places(in[1], *in[0].shape, step.axis, 1);
  const auto* from = reinterpret_cast<const typename Put::Raw*>(in[2].data);
  const Rows shape = rows_of(step, in[2]);
  const int64_t stride = around(*in[0].shape, step.axis).inner;
  int64_t place[kDecoded];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    auto* const base = to + row_offset(step, in, row);
    for (int64_t first = columns.begin; first < columns.end; first += kDecoded) {
      const int64_t n = std::min(kDecoded, columns.end - first);
      const int64_t at = row * shape.extent + first;
      places.decode(at, n, place);
      if (shape.along_axis) {
        for (int64_t i = 0; i < n; ++i) Put::put(base + place[i], from[at + i]);
      } else {
        for (int64_t i = 0; i < n; ++i)
          Put::put(base + first + place[i] * stride + i, from[at + i]);
      }
    }
  }
}

}  // namespace

int64_t scatter_pieces(const HostStep& step, Operands in) {
  const int64_t in_line = kCacheLine / byte_size(in[0].dtype);
  if (step.op == HostStep::Op::kScatterNd) return (slice_of(in) + in_line - 1) / in_line;
  const Rows rows = rows_of(step, in[2]);
  return rows.along_axis ? rows.rows : (rows.extent + in_line - 1) / in_line;
}

void run_scatter(const HostStep& step, Operands in, const HostOperand& result, HostPart part) {
  if (count(in[0]) == 0 || count(in[2]) == 0) return;
  const int64_t bytes = byte_size(in[0].dtype);
  with_put(step, in[0].dtype, [&](auto put) {
    using Put = decltype(put);
    auto* to = reinterpret_cast<typename Put::Raw*>(result.data);
    if (step.op == HostStep::Op::kScatterNd) {
      const Share columns = part.share_of_lines(slice_of(in), bytes);
      if (columns.begin < columns.end) scatter_slices<Put>(in, to, columns);
      return;
    }
    const Rows rows = rows_of(step, in[2]);
    const Share mine = rows.along_axis ? part.share(rows.rows) : Share(rows.rows, 0, 1);
    const Share columns = (rows.along_axis ? HostPart() : part).share_of_lines(rows.extent, bytes);
    scatter_elements<Put>(step, in, to, mine, columns);
  });
}

}  // namespace weft
