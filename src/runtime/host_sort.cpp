#include "runtime/host_sort.h"

#include <array>

#include "runtime/host_values.h"

namespace weft {
namespace {

/// Lines that are read together where the axis is not the last one: neighbours share cache lines.
constexpr int64_t kTogether = 16;
/// Scratch that lines together may take; longer ones are read alone.
constexpr int64_t kTogetherBytes = int64_t{1} << 18;
/// Entries from which on sorting by digits beats comparing.
constexpr int64_t kLeastByDigits = 128;
/// Elements that are compared with a threshold at once.
constexpr int64_t kBlock = 16;
/// So few that are wanted of a line are kept in order; more are kept in a buffer twice as large.
constexpr int64_t kMostInserted = 32;

/// An unsigned integer of the element's width that orders as sort does: NaN above every number,
/// both zeros alike.
template <typename S>
auto key_of(typename S::Raw raw) {
  using Raw = typename S::Raw;
  using Key = std::conditional_t<
      sizeof(Raw) == 8, uint64_t,
      std::conditional_t<sizeof(Raw) == 4, uint32_t,
                         std::conditional_t<sizeof(Raw) == 2, uint16_t, uint8_t>>>;
  constexpr Key kTop = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  if constexpr (std::is_floating_point_v<typename S::Value>) {
    constexpr Key kInfinity = S::kType == DType::kF16    ? static_cast<Key>(0x7c00)
                              : S::kType == DType::kBF16 ? static_cast<Key>(0x7f80)
                              : sizeof(Key) == 4         ? static_cast<Key>(0x7f800000)
                                                         : static_cast<Key>(0x7ff0000000000000);
    const Key bits = std::bit_cast<Key>(raw), magnitude = bits & static_cast<Key>(~kTop);
    if (magnitude > kInfinity) return static_cast<Key>(~Key{0});
    const bool negative = bits > kTop;  // but not negative zero
    return static_cast<Key>(negative ? ~bits : magnitude | kTop);
  } else if constexpr (std::is_signed_v<Raw>) {
    return static_cast<Key>(static_cast<Key>(raw) ^ kTop);
  } else {
    return static_cast<Key>(S::load(raw));
  }
}

/// An element of a line: its key, then its index.
struct PackedEntry {
  uint64_t bits;
  PackedEntry() = default;
  PackedEntry(uint64_t key, int64_t index) : bits(key << 32 | static_cast<uint64_t>(index)) {}
  uint64_t key() const { return bits >> 32; }
  int64_t index() const { return static_cast<int64_t>(bits & 0xffffffff); }
  bool operator<(const PackedEntry& other) const { return bits < other.bits; }
};
/// The same for wide keys and endless lines.
struct WideEntry {
  uint64_t wide_key;
  int64_t place;
  WideEntry() = default;
  WideEntry(uint64_t key, int64_t index) : wide_key(key), place(index) {}
  uint64_t key() const { return wide_key; }
  int64_t index() const { return place; }
  bool operator<(const WideEntry& other) const {
    return wide_key < other.wide_key || (wide_key == other.wide_key && place < other.place);
  }
};

bool is_packed(DType dtype, int64_t line) {
  return byte_size(dtype) <= 4 && line <= int64_t{std::numeric_limits<uint32_t>::max()};
}

/// Sorts entries, ascending by index, by digits of their keys from the last one on. The result is
/// where the sorted entries are: `entries` or `spare`.
template <typename Entry>
Entry* sort_by_digits(Entry* entries, Entry* spare, int64_t n, size_t key_bytes) {
  std::array<std::array<int64_t, 256>, 8> counts;
  for (size_t digit = 0; digit < key_bytes; ++digit) counts[digit].fill(0);
  const auto digit_of = [](const Entry& e, size_t digit) { return e.key() >> (8 * digit) & 0xff; };
  for (int64_t i = 0; i < n; ++i) {
    for (size_t digit = 0; digit < key_bytes; ++digit) ++counts[digit][digit_of(entries[i], digit)];
  }
  for (size_t digit = 0; digit < key_bytes; ++digit) {
    std::array<int64_t, 256>& place = counts[digit];
    if (place[digit_of(entries[0], digit)] == n) continue;
    int64_t before = 0;
    for (int64_t& at : place) before += std::exchange(at, before);
    for (int64_t i = 0; i < n; ++i) spare[place[digit_of(entries[i], digit)]++] = entries[i];
    std::swap(entries, spare);
  }
  return entries;
}

/// The first `keep` of lines of one element type, in order.
template <typename S, typename Entry>
class LineSort {
 public:
  using Raw = typename S::Raw;
  using Key = decltype(key_of<S>(Raw()));

  LineSort(std::byte* scratch, int64_t line, int64_t keep, bool descending)
      : entries_(reinterpret_cast<Entry*>(scratch)),
        spare_(entries_ + line),
        line_(line),
        keep_(keep),
        flip_(descending ? static_cast<Key>(~Key{0}) : Key{0}),
        descending_(descending) {}

  /// Of the elements from[0..line).
  const Entry* sort(const Raw* from) {
    if (2 * keep_ < line_) {
      keep_ <= kMostInserted ? insert_least(from) : buffer_least(from);
      return entries_;
    }
    for (int64_t i = 0; i < line_; ++i) entries_[i] = entry(from, i);
    if (line_ >= kLeastByDigits) return sort_by_digits(entries_, spare_, line_, sizeof(Key));
    std::partial_sort(entries_, entries_ + keep_, entries_ + line_);
    return entries_;
  }

 private:
  Entry entry(const Raw* from, int64_t i) const { return {key(from[i]), i}; }
  Key key(Raw raw) const { return static_cast<Key>(key_of<S>(raw) ^ flip_); }

  /// Keeps the least entries so far in order.
  void insert_least(const Raw* from) {
    const auto insert = [&](int64_t i, int64_t last) {
      const Entry e = entry(from, i);
      for (; last > 0 && e < entries_[last - 1]; --last) entries_[last] = entries_[last - 1];
      entries_[last] = e;
    };
    for (int64_t i = 0; i < keep_; ++i) insert(i, i);
    set_bound(from);
    for_each_below_bound(from, keep_, [&](int64_t i) {
      insert(i, keep_ - 1);
      set_bound(from);
    });
  }

  /// Keeps twice as many as wanted, and drops the half where there is no room for another.
  void buffer_least(const Raw* from) {
    int64_t n = 2 * keep_;
    for (int64_t i = 0; i < n; ++i) entries_[i] = entry(from, i);
    const auto drop = [&] {
      std::nth_element(entries_, entries_ + keep_ - 1, entries_ + n);
      n = keep_;
      set_bound(from);
    };
    drop();
    for_each_below_bound(from, 2 * keep_, [&](int64_t i) {
      entries_[n++] = entry(from, i);
      if (n == 2 * keep_) drop();
    });
    if (n > keep_) drop();
    std::sort(entries_, entries_ + keep_);
  }

  /// What comes behind has to be below the last of the kept entries.
  void set_bound(const Raw* from) {
    threshold_ = from[entries_[keep_ - 1].index()];
    bound_ = static_cast<Key>(entries_[keep_ - 1].key());
  }

  /// Calls take(i), which may lower the bound, for the elements from `first` on below it.
  template <typename Take>
  void for_each_below_bound(const Raw* from, int64_t first, Take&& take) {
    for (; first < line_; first += kBlock) {
      const int64_t until = std::min(first + kBlock, line_);
      if (!any_may_pass(from + first, until - first)) continue;
      for (int64_t i = first; i < until; ++i) {
        if (key(from[i]) < bound_) take(i);
      }
    }
  }

  /// False only if no element of a block is below the bound. Comparing values takes fewer
  /// instructions than comparing keys; NaN passes.
  bool any_may_pass(const Raw* from, int64_t n) const {
    return n == kBlock ? any_of(from, kBlock) : any_of(from, n);
  }
  bool any_of(const Raw* from, int64_t n) const {
    bool any = false;
    if constexpr (std::is_same_v<Raw, typename S::Value>) {
      if (descending_) {
        for (int64_t i = 0; i < n; ++i) any |= !(from[i] <= threshold_);
      } else {
        for (int64_t i = 0; i < n; ++i) any |= !(from[i] >= threshold_);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) any |= key(from[i]) < bound_;
    }
    return any;
  }

  Entry* entries_;
  Entry* spare_;
  int64_t line_, keep_;
  Key flip_;
  bool descending_;
  Raw threshold_{};
  Key bound_{};
};

int64_t lines_together(const AxisView& view, DType dtype) {
  if (view.inner == 1) return 1;
  const int64_t fit = kTogetherBytes / byte_size(dtype) / std::max<int64_t>(view.extent, 1);
  return std::clamp<int64_t>(fit, 1, std::min(kTogether, view.inner));
}

int64_t kept(const HostStep& step, const AxisView& view) {
  return step.op == HostStep::Op::kTopK ? step.k : view.extent;
}

template <typename S, typename Entry>
void sort_lines(const HostStep& step, const AxisView& view, const typename S::Raw* x,
                typename S::Raw* values, int64_t* indices, Share mine, std::byte* scratch) {
  using Raw = typename S::Raw;
  const int64_t together = lines_together(view, S::kType), keep = kept(step, view);
  const int64_t across = (view.inner + together - 1) / together;
  LineSort<S, Entry> sort(scratch, view.extent, keep, step.descending);
  auto* const copies =
      reinterpret_cast<Raw*>(scratch + 2 * view.extent * static_cast<int64_t>(sizeof(Entry)));
  for (int64_t piece = mine.begin; piece < mine.end; ++piece) {
    const int64_t outer = piece / across, first = piece % across * together;
    const int64_t lines = std::min(together, view.inner - first);
    const Raw* from = x + outer * view.extent * view.inner + first;
    if (view.inner > 1) {
      for (int64_t i = 0; i < view.extent; ++i) {
        for (int64_t l = 0; l < lines; ++l) copies[l * view.extent + i] = from[i * view.inner + l];
      }
      from = copies;
    }
    for (int64_t l = 0; l < lines; ++l, from += view.extent) {
      const Entry* sorted = sort.sort(from);
      const int64_t at = outer * keep * view.inner + first + l;
      for (int64_t i = 0; i < keep; ++i) {
        values[at + i * view.inner] = from[sorted[i].index()];
        indices[at + i * view.inner] = sorted[i].index();
      }
    }
  }
}

}  // namespace

int64_t sort_pieces(const HostStep& step, const HostOperand& x) {
  const AxisView view = around(*x.shape, step.axis);
  const int64_t together = lines_together(view, x.dtype);
  return view.outer * ((view.inner + together - 1) / together);
}

int64_t sort_scratch_bytes(const HostStep& step, const HostOperand& x) {
  const AxisView view = around(*x.shape, step.axis);
  // A verified tensor has fewer than 2^63 bytes, but a line of it may be of one-byte elements.
  const int64_t entries = 2 * (is_packed(x.dtype, view.extent) ? 8 : 16);
  const int64_t copies = view.inner > 1 ? lines_together(view, x.dtype) * byte_size(x.dtype) : 0;
  const int64_t per_element = entries + copies;
  return view.extent > (std::numeric_limits<int64_t>::max() - 8) / per_element
             ? -1
             : (view.extent * per_element + 7) / 8 * 8;
}

void run_sort(const HostStep& step, const HostOperand& x, const HostOperand& values,
              const HostOperand& indices, HostPart part, std::byte* scratch) {
  const AxisView view = around(*x.shape, step.axis);
  if (view.extent == 0 || kept(step, view) == 0) return;
  const Share mine = part.share(sort_pieces(step, x));
  with_storage(x.dtype, [&](auto storage) {
    using S = decltype(storage);
    using Raw = typename S::Raw;
    const auto* from = reinterpret_cast<const Raw*>(x.data);
    auto* to = reinterpret_cast<Raw*>(values.data);
    auto* order = reinterpret_cast<int64_t*>(indices.data);
    if (sizeof(Raw) <= 4 && is_packed(x.dtype, view.extent)) {
      sort_lines<S, PackedEntry>(step, view, from, to, order, mine, scratch);
    } else {
      sort_lines<S, WideEntry>(step, view, from, to, order, mine, scratch);
    }
  });
}

}  // namespace weft
