// The arena of a block: what shares its bytes, and how much that saves.

#include "tile/analysis/arena_use.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

TileProgram parsed(std::string_view text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

ScopeAnalysis derived(const TileProgram& program) {
  auto scopes = derive_scopes(program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  return scopes.ok() ? *scopes : ScopeAnalysis{};
}

const SymbolScope& scope_of(const TileProgram& program, const ScopeAnalysis& scopes,
                            std::string_view name) {
  return scopes.symbols[static_cast<size_t>(program.find_symbol(name))];
}

/// What a CPU's statement makes of an element that nothing reads behind it takes its place, in
/// loops whose iterations have rows of their own, too. Not where it is read at another place,
/// later, or again by what the statement makes anew; and not on a GPU, whose threads may be behind.
TEST(ArenaUse, MakeValuesInThePlaceOfWhatTheyReadLast) {
  const auto scopes_of = [](const std::string& text) {
    const TileProgram program = parsed(text);
    const ScopeAnalysis scopes = derived(program);
    return std::pair(scopes.block_bytes, scope_of(program, scopes, "E").reason);
  };
  const auto rows = [](const std::string& made, const std::string& behind) {
    return R"(
kernel k(x: f32[8,64], out y: f32[8,64]) blocks P warps 1 {
  grid g in 1 {
    seq i in 8 { seq j in 64 step 16 { T[i,j] = exp(x[i,j]) @[j=VEC_16]; } }
    seq i in 8 {
      seq j in 64 step 16 carry m[.j]: f32 = 0 @[j=VEC_16] { m'[.j] = max(m[.j], T[i,j]); }
      seq j in 64 step 16 { E[i,j] = )" +
           made + R"( @[j=VEC_16]; }
    }
    seq i in 8 { seq j in 64 step 16 { y[i,j] = E[i,j] )" +
           behind + R"( @[j=VEC_16]; } }
  }
})";
  };
  const std::string placed = "; in the place of T";
  const auto in_place = scopes_of(rows("T[i,j] - 1", "* 2"));
  EXPECT_EQ(in_place.first, 8 * 64 * 4);
  EXPECT_THAT(in_place.second, ::testing::EndsWith(placed));
  for (const auto& [made, behind] : {std::pair("T[i,63-j] - 1", "* 2"),
                                     {"T[7-i,j] - 1", "* 2"},
                                     {"T[i,j] + T[0,j]", "* 2"},
                                     {"T[i,j] - 1", "+ T[i,j]"}}) {
    const auto apart = scopes_of(rows(made, behind));
    EXPECT_EQ(apart.first, 2 * 8 * 64 * 4) << made << behind;
    EXPECT_THAT(apart.second, ::testing::Not(::testing::EndsWith(placed)));
  }
  // Each iteration makes all of E anew, of what the one before has left.
  const auto repeated = scopes_of(R"(
kernel k(x: f32[64], out y: f32[64]) blocks P warps 1 {
  j: 64;
  grid g in 1 {
    seq i in 64 step 16 { T[i] = exp(x[i]) @[i=VEC_16]; }
    seq t in 3 carry s[j]: f32 = 0 @[j=REG_4-VEC_16] {
      seq i in 64 step 16 { E[i] = T[i] + 1 @[i=VEC_16]; }
      s'[j] = s[j] + E[j] @[j=REG_4-VEC_16];
    }
    y[j] = s[j] @[j=REG_4-VEC_16];
  }
})");
  EXPECT_EQ(repeated.first, 2 * 64 * 4);
  EXPECT_THAT(repeated.second, ::testing::Not(::testing::EndsWith(placed)));
  const auto gpu = scopes_of(R"(
kernel k(x: f32[64], out y: f32[64]) blocks 1 warps 2 gpu {
  j: 64;
  grid g in 1 {
    T[j] = exp(x[j]) at block @[j=WARP_2-LANE_32];
    E[j] = T[j] + 1 at block @[j=WARP_2-LANE_32];
    y[j] = E[63-j] @[j=WARP_2-LANE_32];
  }
})");
  EXPECT_EQ(gpu.first, 2 * 64 * 4);
}

/// A value of a random program: bytes, and what it reads.
struct Requested {
  int64_t bytes = 0;
  std::vector<size_t> operands;
};

/// Whether every way from `from` to the result goes through `through`: in the dominance tree that
/// is rooted at the result.
bool dominates(const std::vector<Requested>& values, size_t through, size_t from) {
  std::vector<bool> reaches(values.size(), false);  // by ways around `through`
  reaches[from] = true;
  for (size_t v = from + 1; v < values.size(); ++v) {
    if (v == through) continue;
    for (const size_t o : values[v].operands) reaches[v] = reaches[v] || reaches[o];
  }
  for (size_t v = from; v < values.size(); ++v) {
    const bool is_result = std::ranges::none_of(values, [&](const Requested& reader) {
      return std::ranges::find(reader.operands, v) != reader.operands.end();
    });
    if (reaches[v] && is_result) return false;
  }
  return true;
}

/// Bytes by FusionStitching 2019, Algorithm 4: a value takes the space of the first of those handed
/// on to it that it dominates; what it dominates beside is reclaimed, for whoever allocates next.
int64_t bytes_by_dominance(const std::vector<Requested>& values) {
  std::vector<int64_t> slots;
  std::vector<size_t> slot_of(values.size());
  std::vector<std::set<size_t>> handed(values.size());
  std::vector<size_t> reclaimed;
  for (size_t v = 0; v < values.size(); ++v) {
    std::set<size_t> before;
    for (const size_t o : values[v].operands) before.insert(handed[o].begin(), handed[o].end());
    bool shared = false;
    for (const size_t p : before) {
      if (!dominates(values, v, p)) {
        handed[v].insert(p);
      } else if (!shared) {
        shared = true;
        slot_of[v] = slot_of[p];
      } else if (std::ranges::find(reclaimed, slot_of[p]) == reclaimed.end()) {
        reclaimed.push_back(slot_of[p]);
      }
    }
    if (!shared && !reclaimed.empty()) {
      slot_of[v] = reclaimed.back();
      reclaimed.pop_back();
    } else if (!shared) {
      slot_of[v] = slots.size();
      slots.push_back(0);
    }
    slots[slot_of[v]] = std::max(slots[slot_of[v]], values[v].bytes);
    handed[v].insert(v);
  }
  return std::accumulate(slots.begin(), slots.end(), int64_t{0});
}

/// Lifetimes never ask for more than sharing by dominance does, and often for less.
TEST(ArenaUse, ShareAtLeastAsWellAsByDominance) {
  int better = 0, tight = 0;
  constexpr int kPrograms = 300;
  for (int seed = 0; seed < kPrograms; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const size_t count = 3 + random() % 8;
    std::vector<Requested> values(count);
    std::string text =
        "kernel k(x: f32[256], out y: f32[64]) blocks P warps 1 {\n  grid g in 1 {\n";
    std::set<size_t> unread;
    for (size_t v = 0; v < count; ++v) {
      int64_t length = int64_t{64} << random() % 3;
      std::string made = "x[i]";
      for (size_t o = 0; v > 0 && o <= random() % 2; ++o) {
        const size_t of = v - 1 - random() % std::min<size_t>(v, 4);
        values[v].operands.push_back(of);
        length = std::min(length, values[of].bytes / 4);
        unread.erase(of);
        made += fmt::format(" + v{}[i]", of);
      }
      values[v].bytes = 4 * length;
      unread.insert(v);
      text +=
          fmt::format("    seq i in {} step 16 {{ v{}[i] = {} @[i=VEC_16]; }}\n", length, v, made);
    }
    std::string made;
    for (const size_t v : unread) made += fmt::format("{}v{}[i]", made.empty() ? "" : " + ", v);
    text += "    seq i in 64 step 16 { y[i] = " + made + " @[i=VEC_16]; }\n  }\n}";
    const TileProgram program = parsed(text);
    const ScopeAnalysis scopes = derived(program);
    const ArenaUse use = arena_use(program, scopes);
    const int64_t by_dominance = bytes_by_dominance(values);
    ASSERT_EQ(use.allocated, scopes.block_bytes);
    ASSERT_LE(use.least, use.allocated);
    ASSERT_LE(use.allocated, by_dominance) << text;
    ASSERT_LE(by_dominance, use.requested);
    better += use.allocated < by_dominance ? 1 : 0;
    tight += use.allocated == use.least ? 1 : 0;
  }
  EXPECT_GT(better, kPrograms / 20);
  EXPECT_GT(tight, kPrograms * 9 / 10);
}

}  // namespace
}  // namespace weft
