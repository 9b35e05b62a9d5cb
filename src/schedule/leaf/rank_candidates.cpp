#include "schedule/leaf/rank_candidates.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cost/estimate.h"
#include "fmt/format.h"
#include "schedule/leaf/leaf_time.h"
#include "schedule/leaf/template_table.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

namespace {

/// Goes through the candidates of one template.
class Ranking {
 public:
  Ranking(const Template& t, const GroupSpace& space, const Target& target, const std::string& name)
      : template_(t), space_(space), target_(target), name_(name) {}

  /// Nothing where the template has no candidate.
  Result<std::optional<ScheduledKernel>> run(std::vector<Considered>* considered) {
    const std::vector<Candidate> candidates = template_.candidates(space_, target_);
    if (are_weighed(candidates)) {
      WEFT_RETURN_IF_ERROR(weigh_programs(candidates));
      if (considered != nullptr) report(candidates, considered);
      return std::move(best_);
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      if (best_ && !candidate.meets_banks) break;
      WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                            template_.build(space_, candidate.choice, target_, name_));
      // A stage of a CPU's block is asked for nothing that follows from scopes: the block has its
      // own.
      if (target_.is_gpu() || !space_.frame()) {
        WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
      }
      kernel.composition.choice = candidate.choice;
      tried_.push_back({template_.name, candidate.choice, candidate.predicted_us, false, {}});
      if (weigh(std::move(kernel), candidate.meets_banks, i + 1 == candidates.size())) break;
    }
    if (considered != nullptr) report(candidates, considered);
    return std::move(best_);
  }

 private:
  /// Whether a GPU's evaluator of programs decides. Of stages it sees a part alone.
  bool are_weighed(const std::vector<Candidate>& candidates) const {
    return template_.is_weighed && !space_.frame() &&
           std::ranges::none_of(candidates, &Candidate::meets_banks);
  }

  /// Of the first that fit the one that takes least by its program (FusionStitching 2021 §4.2); the
  /// template's own model brought them into order.
  Status weigh_programs(const std::vector<Candidate>& candidates) {
    constexpr size_t kMostBuilt = 6;
    constexpr double kFar = 1.5, kClearly = 0.97;
    const Estimate estimate = CostModel(space_.declared(), target_)
                                  .estimate(space_.group().exprs, space_.group().outputs);
    const int64_t bytes = estimate.bytes_read + estimate.bytes_written;
    size_t built = 0;
    std::vector<double> us;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto& [choice, layout_us, meets_banks] = candidates[i];
      const bool is_far = layout_us && candidates[0].predicted_us &&
                          *layout_us > kFar * *candidates[0].predicted_us;
      if (best_ && (built == kMostBuilt || is_far)) break;
      WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                            template_.build(space_, choice, target_, name_));
      WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
      kernel.composition.choice = choice;
      const Decision fits = template_.fits == nullptr || i + 1 == candidates.size()
                                ? Decision::allow()
                                : template_.fits(kernel, target_);
      us.push_back(leaf_us(kernel, bytes, target_));
      tried_.push_back({template_.name, choice, us.back(), false, {}});
      if (!fits) {
        tried_.back().why_not = "does not fit: " + fits.reason();
        continue;
      }
      ++built;
      if (best_ && us.back() >= kClearly * us[chosen_]) continue;
      best_ = std::move(kernel);
      chosen_ = i;
    }
    for (size_t i = 0; i < tried_.size(); ++i) {
      if (i != chosen_ && tried_[i].why_not.empty())
        tried_[i].why_not =
            fmt::format("its program is predicted to take {:.2f} us, {:.2f} us more", us[i],
                        us[i] - us[chosen_]);
    }
    return {};
  }

  /// Whether it is the one to take.
  bool weigh(ScheduledKernel kernel, bool meets_banks, bool last) {
    const Decision fits =
        template_.fits == nullptr || last ? Decision::allow() : template_.fits(kernel, target_);
    if (!fits) {
      tried_.back().why_not = "does not fit: " + fits.reason();
      return false;
    }
    const int64_t conflicts = kernel.scopes.bank_conflicts;
    if (best_ && !last && conflicts >= best_->scopes.bank_conflicts) {
      tried_.back().why_not = fmt::format("{} conflicts of banks", conflicts);
      return false;
    }
    if (best_)
      tried_[chosen_].why_not = fmt::format("{} conflicts of banks", best_->scopes.bank_conflicts);
    best_ = std::move(kernel);
    chosen_ = tried_.size() - 1;
    return last || !meets_banks || conflicts == 0;
  }

  /// Each choice once: what is predicted for it is the same wherever it stands.
  void report(const std::vector<Candidate>& candidates, std::vector<Considered>* considered) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto before = candidates.begin() + static_cast<std::ptrdiff_t>(i);
      const bool again = std::any_of(candidates.begin(), before, [&](const Candidate& c) {
        return c.choice == candidates[i].choice;
      });
      if (again && !(best_ && i == chosen_)) continue;
      Considered c =
          i < tried_.size()
              ? tried_[i]
              : Considered{
                    template_.name, candidates[i].choice, candidates[i].predicted_us, false, {}};
      c.chosen = best_ && i == chosen_;
      if (!c.chosen && c.why_not.empty()) c.why_not = why_behind(candidates, i);
      considered->push_back(std::move(c));
    }
  }

  std::string why_behind(const std::vector<Candidate>& candidates, size_t i) const {
    const std::optional<double>&mine = candidates[i].predicted_us,
          &chosen = candidates[chosen_].predicted_us;
    if (!mine || !chosen) return "behind one that fits, in the template's order";
    return fmt::format("predicted {:.2f} us, {:.2f} us more", *mine, *mine - *chosen);
  }

  const Template& template_;
  const GroupSpace& space_;
  const Target& target_;
  const std::string& name_;
  std::optional<ScheduledKernel> best_;
  size_t chosen_ = 0;
  std::vector<Considered> tried_;
};

/// The kernel of a leaf that was measured; nothing where the target does not build it for the
/// group.
std::optional<ScheduledKernel> build_measured(const GroupSpace& space, const Target& target,
                                              const std::string& name, const Choice& choice) {
  for (const Template& t : templates_of(target)) {
    if (t.name != choice_name(choice) || t.applies(space, target).kind != Fit::Kind::kBuilds)
      continue;
    auto kernel = t.build(space, choice, target, name);
    if (!kernel.ok()) return std::nullopt;
    auto scopes = derive_scopes(kernel->program);
    if (!scopes.ok()) return std::nullopt;
    kernel->scopes = std::move(*scopes);
    kernel->composition.choice = choice;
    if (t.fits != nullptr && !t.fits(*kernel, target)) return std::nullopt;
    return std::move(*kernel);
  }
  return std::nullopt;
}

/// What is written about the candidates where measuring decided.
void report_measured(const std::vector<const MeasuredComposition*>& measured, const Choice& chosen,
                     double chosen_us, std::vector<Considered>& considered) {
  for (const MeasuredComposition* m : measured) {
    const Choice& choice = m->composition.choice;
    auto at = std::ranges::find_if(considered, [&](const Considered& c) {
      return c.choice.has_value() && *c.choice == choice;
    });
    if (at == considered.end())
      at = considered.insert(at, {std::string(choice_name(choice)), choice, {}, false, {}});
    at->measured_us = m->microseconds;
  }
  for (Considered& c : considered) {
    if (!c.choice) continue;
    c.chosen = *c.choice == chosen;
    if (c.chosen) {
      c.why_not.clear();
    } else if (c.measured_us) {
      c.why_not = fmt::format("measured {:.2f} us, {:.2f} us more", *c.measured_us,
                              *c.measured_us - chosen_us);
    } else if (c.why_not.empty()) {
      c.why_not = "behind one that was measured";
    }
  }
}

/// Puts the leaf that was measured to take least in the place of the kernel that the templates
/// chose, where it is clearly quicker.
void take_quickest(const GroupSpace& space, const Target& target, const std::string& name,
                   std::span<const MeasuredComposition> measured, ScheduledKernel* kernel,
                   std::vector<Considered>* considered) {
  std::vector<const MeasuredComposition*> leaves;
  std::optional<double> us = kernel->predicted_us;
  for (const MeasuredComposition& m : measured) {
    if (m.composition.kind != Composition::Kind::kLeaf) continue;
    leaves.push_back(&m);
    if (m.composition.choice == kernel->composition.choice) us = m.microseconds;
  }
  if (!us) return;
  std::ranges::sort(leaves, {}, [](const MeasuredComposition* m) {
    return std::pair(m->microseconds, std::string_view(m->row));
  });
  for (const MeasuredComposition* m : leaves) {
    const bool is_there = m->composition.choice == kernel->composition.choice;
    if (!is_there && !is_clearly_quicker(m->microseconds, *us)) continue;
    if (!is_there) {
      auto quicker = build_measured(space, target, name, m->composition.choice);
      if (!quicker) continue;
      *kernel = std::move(*quicker);
    }
    kernel->measured = name_of_row(*m);
    if (considered != nullptr)
      report_measured(leaves, kernel->composition.choice, m->microseconds, *considered);
    return;
  }
}

}  // namespace

Result<ScheduledKernel> rank_candidates(const GroupSpace& space, const Target& target,
                                        const std::string& name,
                                        std::span<const MeasuredComposition> measured,
                                        std::vector<Considered>* considered) {
  std::optional<ScheduledKernel> chosen;
  for (const Template& t : templates_of(target)) {
    if (chosen && considered == nullptr) break;
    if (!takes_groups_like(t, space)) continue;
    const Fit fit = t.applies(space, target);
    if (fit.kind != Fit::Kind::kBuilds || chosen) {
      const std::string why =
          fit.kind == Fit::Kind::kBuilds ? "a template before it has the group" : fit.reason;
      if (considered != nullptr) considered->push_back({t.name, {}, {}, false, why});
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(chosen, Ranking(t, space, target, name).run(considered));
    if (!chosen && considered != nullptr)
      considered->push_back({t.name, {}, {}, false, "it has no candidate for the group"});
  }
  if (chosen) {
    take_quickest(space, target, name, measured, &*chosen, considered);
    return std::move(*chosen);
  }
  const Decision legal = can_be_leaf(space, target);
  return Error{ErrorCode::kUnsupported,
               "no template holds " + name + ": " +
                   (legal ? "none has a candidate that fits the target" : legal.reason())};
}

}  // namespace weft
