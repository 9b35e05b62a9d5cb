#include "plan/selectors/beam_search.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace weft {

namespace {

struct Chosen {
  const Pattern* pattern;
  std::shared_ptr<const Chosen> before;
};

/// A set of patterns on its way.
struct State {
  double gain_us = 0;
  std::shared_ptr<const Chosen> chosen;
  std::vector<bool> taken;  ///< by group

  bool has_room_for(const Pattern& p) const {
    return std::ranges::none_of(p.groups, [&](int g) { return taken[static_cast<size_t>(g)]; });
  }
  State with(const Pattern& p) const {
    State next = *this;
    next.gain_us += p.gain_us;
    next.chosen = std::make_shared<const Chosen>(Chosen{&p, chosen});
    for (const int g : p.groups) next.taken[static_cast<size_t>(g)] = true;
    return next;
  }
};

struct Option {
  size_t from;
  const Pattern* pattern;  ///< null: none
  double gain_us;
  size_t number = 0;
};

std::vector<Pattern> patterns_of(const State& state) {
  std::vector<Pattern> out;
  for (const Chosen* c = state.chosen.get(); c != nullptr; c = c->before.get())
    out.push_back(*c->pattern);
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::vector<std::vector<Pattern>> beam_search(const std::vector<std::vector<Pattern>>& candidates,
                                              size_t width) {
  std::vector<State> beam(1);
  beam[0].taken.resize(candidates.size(), false);
  for (const std::vector<Pattern>& own : candidates) {
    if (own.empty()) continue;
    std::vector<Option> options;
    for (size_t b = 0; b < beam.size(); ++b) {
      options.push_back({b, nullptr, beam[b].gain_us});
      for (const Pattern& p : own) {
        if (beam[b].has_room_for(p)) options.push_back({b, &p, beam[b].gain_us + p.gain_us});
      }
    }
    for (size_t o = 0; o < options.size(); ++o) options[o].number = o;
    std::ranges::sort(options, {}, [](const Option& o) { return std::pair(-o.gain_us, o.number); });
    if (options.size() > width) options.resize(width);
    std::vector<State> next;
    for (const Option& o : options)
      next.push_back(o.pattern == nullptr ? beam[o.from] : beam[o.from].with(*o.pattern));
    beam = std::move(next);
  }
  std::vector<std::vector<Pattern>> out;
  for (const State& state : beam) out.push_back(patterns_of(state));
  return out;
}

}  // namespace weft
