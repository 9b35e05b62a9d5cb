#include <algorithm>
#include <array>

#include "support/rounding.h"
#include "tile/analysis/scope_derivation.h"

namespace weft {
namespace {

constexpr int64_t kBanks = 32, kWordBytes = 4, kWarpLanes = 32;
/// Bytes behind a row at most: with more, every pattern of banks repeats.
constexpr int64_t kMostPadBytes = kBanks * kWordBytes;

/// One access of a warp to a buffer: where its lanes begin along each coordinate, and how many
/// neighbouring elements each takes.
struct WarpAccess {
  std::array<std::vector<int64_t>, kWarpLanes> lanes;
  int64_t width = 1;  ///< a power of two
  int64_t times = 1;  ///< in an item of the grid
};

/// What the lanes of a place add to an index; other variables count as zero, which moves all lanes
/// alike. `width`: elements of the vector that the index runs along. False for what is not a sum.
bool lane_coordinates(const TileProgram& program, const IndexExpr& e, const Place& place,
                      std::array<std::vector<int64_t>, kWarpLanes>* lanes, int64_t* width) {
  AffineForm form;
  if (!as_affine(e, &form)) return false;
  *width = 1;
  for (auto& lane : *lanes) lane.push_back(0);
  for (const auto& [id, c] : form.terms) {
    if (id >= static_cast<int>(program.vars.size())) return false;
    for (const PlacedDigit& d : placed_digits(place, id)) {
      if (d.level == PlaceLevel::kVec && c == 1) *width = d.extent;
      if (d.level != PlaceLevel::kLane) continue;
      for (int64_t l = 0; l < kWarpLanes; ++l) {
        (*lanes)[static_cast<size_t>(l)].back() += c * d.divisor * (l / d.stride % d.extent);
      }
    }
  }
  return true;
}

/// Passes over the banks, how many of them are beyond the fewest, and the instructions that make
/// them: of rows that do as well those that wide accesses take.
struct Passes {
  int64_t extra = 0, all = 0, instructions = 0;
  auto operator<=>(const Passes&) const = default;
};

/// Of one access of a warp that begins at element `start` and takes `width` elements at a time:
/// lanes go together as far as 128 bytes reach, and two words of one bank take two passes.
Passes count_passes(const WarpAccess& access, const std::vector<int64_t>& strides,
                    int64_t element_bytes, int64_t width, int64_t start) {
  const int64_t bytes = width * element_bytes;
  const int64_t together = std::min(kWarpLanes, kBanks * kWordBytes / std::max(bytes, kWordBytes));
  Passes out;
  // Of the lanes that go together; elements of no whole words take up to twice as many.
  std::array<int64_t, 2 * kBanks> words{};
  for (int64_t first = 0; first < kWarpLanes; first += together) {
    size_t count = 0;
    for (int64_t l = first; l < first + together; ++l) {
      int64_t element = start;
      for (size_t a = 0; a < strides.size(); ++a) {
        element += strides[a] * access.lanes[static_cast<size_t>(l)][a];
      }
      for (int64_t b = 0; b < bytes; b += kWordBytes)
        words[count++] = (element * element_bytes + b) / kWordBytes;
    }
    std::sort(words.begin(), words.begin() + count);
    std::array<int64_t, kBanks> of_bank{};
    int64_t most = 1;
    for (size_t w = 0; w < count; ++w) {
      if (w > 0 && words[w] == words[w - 1]) continue;
      most = std::max(most, ++of_bank[static_cast<size_t>(words[w] & (kBanks - 1))]);
    }
    out.all += most;
    out.extra += most - 1;
  }
  const int64_t times = access.width / width;
  return {out.extra * times, out.all * times, times};
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& extents, int64_t pad) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t a = extents.size() - 1; a-- > 0;) {
    strides[a] = strides[a + 1] * extents[a + 1] + (a + 2 == extents.size() ? pad : 0);
  }
  // A coordinate of one element may tell the blocks of a cluster apart: no place in this one.
  for (size_t a = 0; a < extents.size(); ++a) strides[a] *= extents[a] > 1 ? 1 : 0;
  return strides;
}

/// Iterations of the sequential loops around a site: what a loop of products reads for each step of
/// its depth counts more than what was stored for it once.
int64_t iterations_at(const Site& site) {
  constexpr int64_t kMost = int64_t{1} << 20;
  constexpr int64_t kUnknown = 16;
  int64_t out = 1;
  for (const TileLoop* loop : site.loops) {
    if (loop->kind != TileLoop::Kind::kSeq) continue;
    for (const TileLoop::Dim& dim : loop->dims) {
      const bool known = dim.begin.is_const() && dim.end.is_const();
      const int64_t trips = known ? ceil_div(dim.end.constant() - dim.begin.constant(),
                                             std::max<int64_t>(dim.step, 1))
                                  : kUnknown;
      out = std::min(kMost, out * std::max<int64_t>(trips, 1));
    }
  }
  return out;
}

class RowPads {
 public:
  explicit RowPads(Derivation& d) : d_(d) {}

  void run() {
    for (size_t i = 0; i < d_.program.symbols.size(); ++i) {
      SymbolScope& scope = d_.out.symbols[i];
      const TileSymbol& symbol = d_.program.symbols[i];
      const bool is_value = symbol.kind == TileSymbol::Kind::kValue;
      if (!is_value || scope.swizzle || !lies_in_block(scope)) continue;
      if (scope.extents.size() < 2 || scope.extents.back() < 2) continue;
      pad(static_cast<TileSymbolId>(i), &scope);
    }
  }

 private:
  /// In shared memory, of a cluster where one coordinate tells its blocks apart and nothing else.
  static bool lies_in_block(const SymbolScope& scope) {
    const bool is_part =
        scope.scope == Scope::kCluster && scope.extents.size() > 2 && scope.extents.front() == 1;
    return scope.scope == Scope::kBlock || is_part;
  }

  /// Every access of the symbol; nothing where one is not understood.
  std::vector<WarpAccess> accesses(TileSymbolId id) const {
    std::vector<WarpAccess> out;
    const auto add = [&](const std::vector<IndexExpr>& indices, const Place& place,
                         const Site& at) {
      WarpAccess access;
      access.times = iterations_at(at);
      for (const IndexExpr& e : indices) {
        if (!lane_coordinates(d_.program, e, place, &access.lanes, &access.width)) return false;
      }
      out.push_back(std::move(access));
      return true;
    };
    const Site& made =
        d_.structure.sites[static_cast<size_t>(d_.structure.definition[static_cast<size_t>(id)])];
    for (const TileRef& t : made.statement->targets) {
      if (t.symbol != id) continue;
      const auto site = static_cast<size_t>(d_.structure.definition[static_cast<size_t>(id)]);
      if (!add(t.indices, d_.places.of_site[site], made)) return {};
    }
    for (const ReadSite* read : d_.structure.reads_of(id)) {
      const Site& at = d_.structure.sites[static_cast<size_t>(read->site)];
      if (!add(read->read->indices, reader_place(d_.structure, d_.places, *read), at)) return {};
    }
    return out;
  }

  void pad(TileSymbolId id, SymbolScope* scope) {
    const std::vector<WarpAccess> all = accesses(id);
    const int64_t element = byte_size(d_.program.symbols[static_cast<size_t>(id)].type);
    const auto passes = [&](int64_t pad, int64_t* extra_once) {
      Passes sum;
      for (const WarpAccess& a : all) {
        // Rows that begin anywhere leave no wide access.
        int64_t width = std::min<int64_t>(a.width, 16 / element);
        while ((scope->extents.back() + pad) % width != 0) width /= 2;
        // Small elements may begin anywhere within a word.
        for (int64_t start = 0; start < std::max<int64_t>(kWordBytes / element, 1);
             start += width) {
          const Passes one =
              count_passes(a, strides_of(scope->extents, pad), element, width, start);
          sum.extra += one.extra * a.times;
          sum.all += one.all * a.times;
          sum.instructions += one.instructions * a.times;
          *extra_once += one.extra;
        }
      }
      return sum;
    };
    // Copies behind the threads' backs, and accesses to other blocks, take 16 bytes at a time:
    // their rows stay at multiples of that.
    const bool is_wide = scope->staged || scope->scope == Scope::kCluster;
    const int64_t step = is_wide ? std::max<int64_t>(1, 16 / element) : 1;
    int64_t conflicts = 0;  // of each access once
    Passes fewest = passes(0, &conflicts);
    const bool has_conflicts = fewest.extra > 0;
    for (int64_t p = step; has_conflicts && p * element <= kMostPadBytes; p += step) {
      int64_t once = 0;
      const Passes n = passes(p, &once);
      if (n >= fewest) continue;
      fewest = n;
      conflicts = once;
      scope->pad = p;
    }
    d_.out.bank_conflicts += conflicts;
    int64_t rows = 1;
    for (size_t a = 0; a + 1 < scope->extents.size(); ++a) rows *= scope->extents[a];
    scope->bytes += rows * scope->pad * element * scope->copies;
  }

  Derivation& d_;
};

}  // namespace

void pad_rows(Derivation& d) {
  if (!d.program.cpu) RowPads(d).run();
}

}  // namespace weft
