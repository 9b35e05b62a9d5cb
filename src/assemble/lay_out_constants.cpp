#include "assemble/lay_out_constants.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/graph.h"
#include "support/float32_tensor.h"
#include "support/for_each_in_parallel.h"
#include "support/release_pages.h"

namespace weft {

namespace {

template <typename T>
class LayoutWriter {
 public:
  LayoutWriter(const HostTensor& value, const Layout& layout, T* out)
      : from_(value.data<T>()),
        shape_(value.shape()),
        layout_(layout),
        to_(out),
        coordinate_(shape_.size(), 0) {
    stride_.assign(shape_.size(), 1);
    for (size_t d = shape_.size(); d-- > 1;) stride_[d - 1] = stride_[d] * shape_[d];
  }
  void run() { axis(0, 0, true); }

 private:
  /// Of the two axes around the rows, what is gone through at once: so many rows lie in as many
  /// lines, a few pages apart.
  static constexpr int64_t kRowsAtOnce = 32, kPanelsAtOnce = 16;

  /// All that lies behind physical axis `p` from these elements on.
  void axis(size_t p, int64_t from, bool inside) {
    const size_t left = layout_.axes.size() - p;
    if (left == 1) return row(from, inside);
    if (left == 3 && step(p) < step(p + 1)) return tiles(p, from, inside);
    for (int64_t i = 0; i < layout_.axes[p].extent; ++i) {
      at(p, i, inside, [&](bool own) { axis(p + 1, from + i * step(p), own); });
    }
  }

  /// Panels of a matrix whose rows run across them: row by row each would read a line of every
  /// page.
  void tiles(size_t p, int64_t from, bool inside) {
    T* const begin = to_;
    const int64_t panels = layout_.axes[p].extent, rows = layout_.axes[p + 1].extent,
                  length = layout_.axes[p + 2].extent;
    for (int64_t r0 = 0; r0 < rows; r0 += kRowsAtOnce) {
      for (int64_t p0 = 0; p0 < panels; p0 += kPanelsAtOnce) {
        for (int64_t r = r0; r < std::min(rows, r0 + kRowsAtOnce); ++r) {
          for (int64_t n = p0; n < std::min(panels, p0 + kPanelsAtOnce); ++n) {
            to_ = begin + (n * rows + r) * length;
            at(p, n, inside, [&](bool in_panel) {
              at(p + 1, r, in_panel,
                 [&](bool own) { row(from + n * step(p) + r * step(p + 1), own); });
            });
          }
        }
      }
    }
    to_ = begin + panels * rows * length;
  }

  void row(int64_t from, bool inside) {
    const Layout::Axis& a = layout_.axes.back();
    const auto d = static_cast<size_t>(a.axis);
    const int64_t apart = step(layout_.axes.size() - 1);
    const int64_t room = (shape_[d] - coordinate_[d] + a.divisor - 1) / a.divisor;
    const int64_t count = std::clamp<int64_t>(inside ? room : 0, 0, a.extent);
    for (int64_t i = 0; i < count; ++i) to_[i] = from_[from + i * apart];
    std::memset(static_cast<void*>(to_ + count), 0,
                static_cast<size_t>(a.extent - count) * sizeof(T));
    to_ += a.extent;
  }

  /// Place `i` of a physical axis; the body is told whether it lies inside of the shape.
  template <typename Body>
  void at(size_t p, int64_t i, bool inside, Body&& body) {
    const Layout::Axis& a = layout_.axes[p];
    const auto d = static_cast<size_t>(a.axis);
    coordinate_[d] += i * a.divisor;
    body(inside && coordinate_[d] < shape_[d]);
    coordinate_[d] -= i * a.divisor;
  }

  /// Elements between neighbours along a physical axis.
  int64_t step(size_t p) const {
    const Layout::Axis& a = layout_.axes[p];
    return a.divisor * stride_[static_cast<size_t>(a.axis)];
  }

  const T* from_;
  const Shape& shape_;
  const Layout& layout_;
  T* to_;
  std::vector<int64_t> coordinate_, stride_;
};

}  // namespace

HostTensor lay_out_constant(const HostTensor& value, const Layout& layout, DType type) {
  if (type != value.dtype()) return float32_tensor(lay_out_constant(value, layout, value.dtype()));
  if (layout.is_row_major()) return value.reshaped({value.size()});
  HostTensor out(value.dtype(), {physical_size(layout, value.shape())});
  switch (byte_size(value.dtype())) {
    case 1:
      LayoutWriter<uint8_t>(value, layout, out.mutable_data<uint8_t>()).run();
      break;
    case 2:
      LayoutWriter<uint16_t>(value, layout, out.mutable_data<uint16_t>()).run();
      break;
    case 4:
      LayoutWriter<uint32_t>(value, layout, out.mutable_data<uint32_t>()).run();
      break;
    default:
      LayoutWriter<uint64_t>(value, layout, out.mutable_data<uint64_t>()).run();
      break;
  }
  return out;
}

namespace {

Hash128 laid_out_key(const LayoutJob& job, const LayoutOptions& options) {
  const HostTensor& value = job.value;
  const Hash128 content = options.content_key
                              ? options.content_key(value)
                              : hash128(std::span(value.raw(), static_cast<size_t>(value.bytes())));
  Hasher hasher;
  hasher.add_text("constant 1");
  hasher.add_value(content.high);
  hasher.add_value(content.low);
  hasher.add_text(print(TensorType{value.dtype(), value.shape()}));
  hasher.add_text(print(job.layout));
  hasher.add_text(dtype_name(job.type));
  return hasher.digest128();
}

/// The cache's view of a laid out constant of this type and size.
std::optional<HostTensor> view_laid_out(const EntryCache& cache, const Hash128& key, DType type,
                                        const Shape& shape, int64_t bytes) {
  std::optional<MappedFile> file = cache.find(key, kLaidOutKind);
  if (!file || file->bytes.size() != static_cast<size_t>(bytes)) return std::nullopt;
  return HostTensor(type, shape, file->owner, file->bytes);
}

LaidOutConstant lay_out_one(const LayoutJob& job, const LayoutOptions& options) {
  const DType type = job.type;
  const Shape shape{physical_size(job.layout, job.value.shape())};
  const int64_t bytes = shape[0] * byte_size(type);
  // In memory small ones are shared, too: each could be a view that keeps a mapped file.
  const bool is_small = bytes < kLaidOutFileBytes;
  if (options.cache == nullptr || (is_small && options.cache->is_on_disk()))
    return {lay_out_constant(job.value, job.layout, type), std::nullopt};
  const Hash128 key = laid_out_key(job, options);
  if (auto found = view_laid_out(*options.cache, key, type, shape, bytes))
    return {std::move(*found), key};
  HostTensor made = lay_out_constant(job.value, job.layout, type);
  // From here on the laid out form is what is read: the two need not both stay in memory.
  if (options.cache->is_on_disk())
    release_pages({job.value.raw(), static_cast<size_t>(job.value.bytes())});
  const auto shared = options.cache->share(
      key, kLaidOutKind, {made.owner(), {made.raw(), static_cast<size_t>(bytes)}});
  if (!shared) return {std::move(made), std::nullopt};
  return {HostTensor(type, shape, shared->owner, shared->bytes), key};
}

}  // namespace

std::vector<LaidOutConstant> lay_out_constants(std::span<const LayoutJob> jobs,
                                               const LayoutOptions& options) {
  std::vector<LaidOutConstant> out(jobs.size());
  for_each_in_parallel(jobs.size(), options.threads,
                       [&](size_t i) { out[i] = lay_out_one(jobs[i], options); });
  return out;
}

}  // namespace weft
