#include "schedule/leaf/rank_candidates.h"

#include <algorithm>

#include "fmt/format.h"
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
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      if (best_ && !candidate.meets_banks) break;
      WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                            template_.build(space_, candidate.choice, target_, name_));
      WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
      kernel.composition.choice = candidate.choice;
      tried_.push_back({template_.name, candidate.choice, candidate.predicted_us, false, {}});
      if (weigh(std::move(kernel), candidate.meets_banks, i + 1 == candidates.size())) break;
    }
    if (considered != nullptr) report(candidates, considered);
    return std::move(best_);
  }

 private:
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

}  // namespace

Result<ScheduledKernel> rank_candidates(const GroupSpace& space, const Target& target,
                                        const std::string& name,
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
  if (chosen) return std::move(*chosen);
  const Decision legal = can_be_leaf(space, target);
  return Error{ErrorCode::kUnsupported,
               "no template holds " + name + ": " +
                   (legal ? "none has a candidate that fits the target" : legal.reason())};
}

}  // namespace weft
