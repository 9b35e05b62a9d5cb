#include "schedule/cpu/templates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "cost/latency.h"
#include "schedule/cpu/choose_panel.h"
#include "schedule/cpu/choose_sweep.h"
#include "schedule/cpu/contract.h"
#include "schedule/cpu/cut_panel.h"
#include "schedule/cpu/lane_sums.h"
#include "schedule/cpu/panel_fit.h"
#include "schedule/cpu/stitch.h"
#include "schedule/cpu/written_out.h"
#include "schedule/writer/common_rows.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

namespace {

/// Whether every axis of extent above 1 is walked once where it may be: `grid` axes by the grid
/// loops, `inner` ones inside, reduced axes inside alone. At another binding of the model's
/// dimensions an axis may be longer than 1 that was not here.
bool covers_axes(const GroupAxes& axes, const std::vector<int>& grid,
                 const std::vector<int>& inner) {
  std::vector<int> times_in_grid(axes.axes.size(), 0), times_inside(axes.axes.size(), 0);
  const auto mark = [&](const std::vector<int>& list, std::vector<int>* times) {
    return std::ranges::all_of(list, [&](int a) {
      return a >= 0 && a < static_cast<int>(times->size()) &&
             ++(*times)[static_cast<size_t>(a)] == 1;
    });
  };
  if (!mark(grid, &times_in_grid) || !mark(inner, &times_inside)) return false;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (times_in_grid[a] + times_inside[a] > 1) return false;
    if (axes.axes[a].extent == 1) continue;
    if (axes.axes[a].reduced ? times_inside[a] == 0 : times_inside[a] + times_in_grid[a] == 0)
      return false;
  }
  return true;
}

bool is_tile(int64_t rows, int64_t vectors, int64_t lanes) {
  constexpr int64_t kMost = 1 << 16;
  const auto positive = [](int64_t n) { return n > 0 && n <= kMost; };
  return positive(rows) && positive(vectors) && positive(lanes);
}

Error not_of_space(const std::string& name) {
  return invalid_input("the choice for " + name + " is not one for its axes");
}

Fit panel_applies(const GroupSpace& space, const Target&) { return fits_panel(space); }

/// Vectors of the columns are this full at least: otherwise their sums may be quicker in lanes.
constexpr double kFullVectors = 0.8;
/// And only where they are predicted to take so much of the time at most.
constexpr double kClearly = 0.9;
/// What is predicted to take no less than this part of another's time takes as long.
constexpr double kAlike = 0.99;
/// Chunks of rows read all panels again, which may come from memory: they are taken where they are
/// predicted to take this part of the whole's time at most.
constexpr double kClearlyInChunks = 0.97;
/// Rows that outgrow a core's part of the third cache come from memory for each panel, and none of
/// it is a core's own: chunks are taken unless they are predicted to take longer than so much.
constexpr double kLargeInChunks = 1.03;

bool fills_vectors(const GroupSpace& space, const PanelChoice& choice, const Target& target) {
  if (choice.vec_axis < 0) return false;
  const auto columns =
      static_cast<double>(space.axes().axes[static_cast<size_t>(choice.vec_axis)].extent);
  const auto lanes = static_cast<double>(target.lanes(4));
  return columns >= kFullVectors * lanes * std::ceil(columns / lanes);
}

/// Microseconds of a built kernel.
std::optional<double> time_of(const Result<ScheduledKernel>& kernel, const Target& target) {
  if (!kernel.ok()) return std::nullopt;
  const auto scopes = derive_scopes(kernel->program);
  if (!scopes.ok()) return std::nullopt;
  return cpu_latency(kernel->program, *scopes, target).microseconds;
}

Result<ScheduledKernel> build_panel(const GroupSpace& space, const Choice& choice, const Target&,
                                    const std::string& name);

std::optional<double> built_us(const GroupSpace& space, const Choice& choice,
                               const Target& target) {
  return time_of(build_panel(space, choice, target, "k"), target);
}

std::optional<Candidate> quickest(const GroupSpace& space, const Target& target,
                                  std::vector<PanelChoice> choices) {
  std::optional<Candidate> best;
  for (PanelChoice& choice : choices) {
    const std::optional<double> us = built_us(space, choice, target);
    if (us && (!best || *us < kAlike * *best->predicted_us))
      best = Candidate{std::move(choice), us};
  }
  return best;
}

/// The quickest of those in parts of the sum, before the whole unless that is quicker: a panel that
/// fills much of the second cache by its size loses some of it to what else falls into its sets.
/// The quickest in chunks of rows, before these where it is quicker.
std::vector<Candidate> add_cuts(const GroupSpace& space, const Target& target,
                                std::vector<Candidate> out) {
  const auto whole = std::get<PanelChoice>(out[0].choice);
  std::optional<Candidate> parts = quickest(space, target, panels_in_parts(space, whole, target));
  std::optional<Candidate> chunks = quickest(space, target, panels_in_chunks(space, whole, target));
  if (!parts && !chunks) return out;
  out[0].predicted_us = built_us(space, out[0].choice, target);
  const auto add = [&](Candidate cut, double clearly) {
    const std::optional<double>& first = out[0].predicted_us;
    const bool quicker = !first || *cut.predicted_us <= clearly * *first;
    out.insert(quicker ? out.begin() : out.end(), std::move(cut));
  };
  const bool large = outgrows_third_cache(space, whole, target) &&
                     !(parts && std::get<PanelChoice>(parts->choice).rows_outermost);
  if (parts) add(std::move(*parts), 1 / kAlike);
  if (chunks) add(std::move(*chunks), large ? kLargeInChunks : kClearlyInChunks);
  return out;
}

/// The second of two candidates before the first where it is predicted to be so much quicker.
void put_clearly_quicker_first(std::vector<Candidate>& two) {
  const std::optional<double>&first = two[0].predicted_us, &second = two[1].predicted_us;
  if (second && (!first || *second < kClearly * *first)) std::swap(two[0], two[1]);
}

std::vector<Candidate> panel_candidates(const GroupSpace& space, const Target& target) {
  std::vector<Candidate> out = {{choose_panel(space, target), std::nullopt}};
  if (fills_vectors(space, std::get<PanelChoice>(out[0].choice), target))
    return add_cuts(space, target, std::move(out));
  std::optional<PanelChoice> in_lanes = choose_lane_sums(space, target);
  if (!in_lanes) return out;
  out.push_back({std::move(*in_lanes), std::nullopt});
  for (Candidate& c : out) c.predicted_us = built_us(space, c.choice, target);
  put_clearly_quicker_first(out);
  return out;
}

Result<ScheduledKernel> build_panel(const GroupSpace& space, const Choice& choice, const Target&,
                                    const std::string& name) {
  const auto& c = std::get<PanelChoice>(choice);
  std::vector<int> grid = c.grid;
  for (const int a : {c.row_axis, sums_in_lanes(c) ? -1 : c.vec_axis}) {
    if (a >= 0) grid.push_back(a);
  }
  const size_t products = space.axes().reductions.size();
  const bool several = products > 1 && fits_panel(space).kind == Fit::Kind::kBuilds;
  if ((products != 1 && !several) || !covers_axes(space.axes(), grid, c.inner) ||
      !is_tile(c.rows, c.vectors, c.lanes))
    return not_of_space(name);
  return sums_in_lanes(c) ? build_lane_sums(space, c, name) : build_contract(space, c, name);
}

Fit sweep_applies(const GroupSpace& space, const Target&) { return fits_rows(space); }

Result<ScheduledKernel> build_sweep(const GroupSpace& space, const Choice& choice, const Target&,
                                    const std::string& name) {
  const auto& c = std::get<SweepChoice>(choice);
  const bool inside = c.vec_axis >= 0 && std::ranges::find(c.inner, c.vec_axis) != c.inner.end();
  const auto in_grid = [&](int axis) {
    return axis < 0 || std::ranges::find(c.grid, axis) != c.grid.end();
  };
  if (c.kept.size() != static_cast<size_t>(space.size()) ||
      !covers_axes(space.axes(), c.grid, c.inner) || !is_tile(c.rows, c.vectors, c.lanes) ||
      (c.chunked && space.frame()) ||
      (is_written_out(space, c) && !can_be_written_out(space, c.inner)) || c.row_vector != inside ||
      (!inside && !in_grid(c.vec_axis)) || !in_grid(c.row_axis))
    return not_of_space(name);
  return build_stitch(space, c, name);
}

/// Element by element before vectors where that is predicted to be quicker.
std::vector<Candidate> sweep_candidates(const GroupSpace& space, const Target& target) {
  SweepChoice swept = choose_sweep(space, target);
  std::optional<SweepChoice> written_out = choose_written_out(space, swept);
  std::vector<Candidate> out = {{std::move(swept), std::nullopt}};
  if (!written_out) return out;
  out.push_back({std::move(*written_out), std::nullopt});
  for (Candidate& c : out)
    c.predicted_us = time_of(build_sweep(space, c.choice, target, "k"), target);
  put_clearly_quicker_first(out);
  return out;
}

template <typename C>
std::vector<Choice> as_choices(std::vector<C> list) {
  return {std::make_move_iterator(list.begin()), std::make_move_iterator(list.end())};
}
std::vector<Choice> panel_others(const GroupSpace& space, const Target& target) {
  return as_choices(other_panels(space, target));
}
std::vector<Choice> sweep_others(const GroupSpace& space, const Target& target) {
  return as_choices(other_sweeps(space, target));
}

constexpr Template kTemplates[] = {
    {"panel",
     "a register tile of one reduction's results, or of products side by side, constants laid out "
     "in "
     "panels",
     panel_applies, panel_candidates, build_panel, nullptr, true, panel_others},
    {"sweep", "rows, columns and element-wise chains in a sweep for each level of reductions",
     sweep_applies, sweep_candidates, build_sweep, nullptr, true, sweep_others},
};

}  // namespace

std::span<const Template> cpu_templates() { return kTemplates; }

}  // namespace weft
