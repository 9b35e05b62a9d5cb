#include "tiling/tile_candidates.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <random>

#include "support/rounding.h"

namespace weft {

namespace {

constexpr double kMostPadding = 0.05;
/// Over a block's memory: for what the estimate is off by.
constexpr double kMostMemory = 1.2;

/// R2: of a contraction whose result another one reduces.
bool keeps_partial_tiles(const BlockLoops& loops, const ContractionChain& chain) {
  for (int c = 0; c + 1 < chain.contractions(); ++c) {
    const std::vector<int>& around = loops.around[static_cast<size_t>(c)];
    const auto reduced = std::ranges::find(around, chain.reduced_by(c));
    const auto made = std::ranges::find(around, chain.made_by(c));
    if (reduced < made && made != around.end()) return true;
  }
  return false;
}

int64_t trips_of(const ContractionChain& chain, const std::vector<int64_t>& tiles, int loop) {
  const auto l = static_cast<size_t>(loop);
  return ceil_div(chain.extents[l], tiles[l]);
}

/// Walks a chain's statements with how often a block executes them.
class Statements {
 public:
  Statements(const ContractionChain& chain, const BlockLoops& loops,
             const std::vector<int64_t>& tiles)
      : chain_(chain), tiles_(tiles), loops_(loops) {}

  double blocks() const {
    double n = static_cast<double>(chain_.batch);
    for (const int loop : loops_.bound) n *= trips(loop);
    return n;
  }
  /// Elements that a block moves: of the operands, of the first also the left one, and of the last
  /// what it makes.
  double moved() const {
    double elements = 0;
    for (int c = 0; c < chain_.contractions(); ++c) {
      const int reduced = chain_.reduced_by(c), made = chain_.made_by(c);
      if (c == 0) elements += tile(0) * tile(reduced) * times(c, {0, reduced});
      elements += tile(reduced) * tile(made) * times(c, {reduced, made});
    }
    const int last = chain_.contractions() - 1, made = chain_.made_by(last);
    return elements + tile(0) * tile(made) * times(last, {0, made});
  }
  double flops() const {
    double out = 0;
    for (int c = 0; c < chain_.contractions(); ++c) {
      const int reduced = chain_.reduced_by(c), made = chain_.made_by(c);
      out += 2 * tile(0) * tile(reduced) * tile(made) * times(c, {0, reduced, made});
    }
    return out;
  }

 private:
  double tile(int loop) const { return static_cast<double>(tiles_[static_cast<size_t>(loop)]); }
  double trips(int loop) const { return static_cast<double>(trips_of(chain_, tiles_, loop)); }

  /// Trips of the loops around a statement in its rightmost related loop.
  double times(int contraction, std::initializer_list<int> related) const {
    const std::vector<int>& around = loops_.around[static_cast<size_t>(contraction)];
    double out = 1, so_far = 1;
    for (const int loop : around) {
      so_far *= trips(loop);
      if (trips(loop) > 1 && std::ranges::find(related, loop) != related.end()) out = so_far;
    }
    return out;
  }

  const ContractionChain& chain_;
  const std::vector<int64_t>& tiles_;
  const BlockLoops& loops_;
};

double microseconds_of(const Statements& statements, const ContractionChain& chain,
                       const TileLimits& limits) {
  const double blocks = statements.blocks();
  const double bytes = blocks * statements.moved() * static_cast<double>(chain.element_bytes);
  const double memory = bytes / limits.gigabytes / 1000;
  const double computing = blocks * statements.flops() / limits.gigaflops / 1000;
  const double slowdown = (blocks + static_cast<double>(limits.processors)) / blocks;
  return (memory + computing) * slowdown;
}

class Search {
 public:
  Search(const ContractionChain& chain, const TileLimits& limits, bool deep_only,
         const PruningRules& rules)
      : chain_(chain),
        limits_(limits),
        rules_(rules),
        expressions_(pruned_expressions(chain, deep_only, rules)) {
    for (const TilingExpression& expression : expressions_)
      loops_.push_back(block_loops(expression, chain));
    for (int loop = 0; loop < chain.loops(); ++loop)
      tiles_.push_back(loop_tiles(chain, loop, limits, rules));
  }

  std::optional<TileCandidate> run() {
    constexpr int kMostRounds = 96;
    if (std::ranges::any_of(tiles_, [](const auto& t) { return t.empty(); })) return std::nullopt;
    std::vector<Timed> population;
    for (int i = 0; i < 16 * kPopulation && std::ssize(population) < kPopulation; ++i)
      add(drawn(), &population);
    if (population.empty()) return smallest();
    Timed best = *std::ranges::min_element(population, {}, &Timed::us);
    for (int round = 0; round < kMostRounds; ++round) {
      population = next(population);
      const Timed top = *std::ranges::min_element(population, {}, &Timed::us);
      if (top.us >= best.us && round > 0 && ++still_ >= kStill) break;
      if (top.us < best.us) {
        best = top;
        still_ = 0;
      }
    }
    return TileCandidate{expressions_[best.candidate.expression], best.candidate.tiles};
  }

 private:
  struct Drawn {
    size_t expression;
    std::vector<int64_t> tiles;
  };
  struct Timed {
    Drawn candidate;
    double us = 0;
  };
  static constexpr int kPopulation = 128;
  static constexpr int kStill = 12;  ///< rounds without a better one

  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }

  Drawn drawn() {
    Drawn out{below(expressions_.size()), {}};
    out.tiles.reserve(tiles_.size());
    for (const std::vector<int64_t>& choices : tiles_)
      out.tiles.push_back(choices[below(choices.size())]);
    return out;
  }

  void add(Drawn candidate, std::vector<Timed>* to) {
    if (!fits_block(chain_, candidate.tiles, limits_, rules_)) return;
    const Statements statements(chain_, loops_[candidate.expression], candidate.tiles);
    const double us = microseconds_of(statements, chain_, limits_);
    to->push_back({std::move(candidate), us});
  }

  std::vector<Timed> next(const std::vector<Timed>& from) {
    std::vector<double> upto;
    for (const Timed& t : from) upto.push_back((upto.empty() ? 0 : upto.back()) + 1 / t.us);
    std::vector<Timed> out;
    out.push_back(*std::ranges::min_element(from, {}, &Timed::us));
    for (int i = 0; i < kPopulation; ++i) {
      const double at = upto.back() * static_cast<double>(random_()) / 4294967296.0;
      const auto chosen = std::ranges::upper_bound(upto, at) - upto.begin();
      Drawn changed = from[std::min(static_cast<size_t>(chosen), from.size() - 1)].candidate;
      const size_t loop = below(tiles_.size());
      changed.tiles[loop] = tiles_[loop][below(tiles_[loop].size())];
      add(std::move(changed), &out);
    }
    // What no change of one tile leads to.
    for (int i = 0; i < kPopulation / 2; ++i) add(drawn(), &out);
    return out;
  }

  /// Where chance finds none that fits.
  std::optional<TileCandidate> smallest() const {
    TileCandidate out{expressions_.front(), {}};
    for (const std::vector<int64_t>& choices : tiles_) out.tiles.push_back(choices.front());
    if (!fits_block(chain_, out.tiles, limits_, rules_)) return std::nullopt;
    return out;
  }

  const ContractionChain& chain_;
  const TileLimits& limits_;
  const PruningRules rules_;
  const std::vector<TilingExpression> expressions_;
  std::vector<BlockLoops> loops_;  ///< by expression
  std::vector<std::vector<int64_t>> tiles_;
  std::minstd_rand generator_{1};
  int still_ = 0;
  uint64_t random_() {
    return (static_cast<uint64_t>(generator_()) << 16 ^ generator_()) & 0xffffffff;
  }
};

}  // namespace

std::vector<TilingExpression> pruned_expressions(const ContractionChain& chain, bool deep_only,
                                                 const PruningRules& rules) {
  std::vector<TilingExpression> out;
  std::vector<BlockLoops> seen;
  for (TilingExpression& expression : tiling_expressions(chain, deep_only)) {
    BlockLoops loops = block_loops(expression, chain);
    if (rules.partial_tiles && keeps_partial_tiles(loops, chain)) continue;
    if (rules.equal_blocks && std::ranges::find(seen, loops) != seen.end()) continue;
    seen.push_back(std::move(loops));
    out.push_back(std::move(expression));
  }
  return out;
}

std::vector<int64_t> loop_tiles(const ContractionChain& chain, int loop, const TileLimits& limits,
                                const PruningRules& rules) {
  const int64_t extent = chain.extents[static_cast<size_t>(loop)], unit = limits.unit;
  if (std::ranges::find(limits.whole, loop) != limits.whole.end()) return {extent};
  std::vector<int64_t> out;
  for (int64_t tile = unit; tile < extent + unit; tile += unit) {
    const int64_t padded = ceil_div(extent, tile) * tile - extent;
    const bool power = std::has_single_bit(static_cast<uint64_t>(extent)) && extent >= unit;
    const bool pads =
        power ? padded != 0
              : static_cast<double>(padded) >= kMostPadding * static_cast<double>(extent);
    if (!rules.padding || !pads) out.push_back(tile);
  }
  // An extent for which every tile pads is taken whole.
  if (out.empty()) out.push_back(ceil_div(extent, unit) * unit);
  return out;
}

int64_t count_candidates(const ContractionChain& chain, const TileLimits& limits,
                         const PruningRules& rules) {
  auto count = std::ssize(pruned_expressions(chain, false, rules));
  for (int loop = 0; loop < chain.loops(); ++loop)
    count *= std::ssize(loop_tiles(chain, loop, limits, rules));
  return count;
}

bool fits_block(const ContractionChain& chain, const std::vector<int64_t>& tiles,
                const TileLimits& limits, const PruningRules& rules) {
  return !rules.memory || static_cast<double>(block_bytes(chain, tiles)) <=
                              kMostMemory * static_cast<double>(limits.block_bytes);
}

int64_t block_bytes(const ContractionChain& chain, const std::vector<int64_t>& tiles) {
  int64_t elements = tiles[0] * tiles[1];
  for (int c = 0; c < chain.contractions(); ++c) {
    const int64_t reduced = tiles[static_cast<size_t>(chain.reduced_by(c))],
                  made = tiles[static_cast<size_t>(chain.made_by(c))];
    elements += reduced * made + tiles[0] * made;
  }
  return elements * chain.element_bytes;
}

double estimated_us(const ContractionChain& chain, const TileCandidate& candidate,
                    const TileLimits& limits) {
  const BlockLoops loops = block_loops(candidate.expression, chain);
  return microseconds_of(Statements(chain, loops, candidate.tiles), chain, limits);
}

std::optional<TileCandidate> search_tiles(const ContractionChain& chain, const TileLimits& limits,
                                          bool deep_only, const PruningRules& rules) {
  return Search(chain, limits, deep_only, rules).run();
}

}  // namespace weft
