#pragma once

#include <optional>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "schedule/cpu/sum_apart.h"
#include "target/target.h"

namespace weft {

/// The register tile on two output axes of the reductions, and the order of the loops around it,
/// for a group that fits_panel (schedule/cpu/panel_fit.h). `parts`: of the sum, one after another.
PanelChoice choose_panel(const GroupSpace& space, const Target& target, int64_t parts = 1);

/// Whether a factor of the first reduction is made of constants and is the same for all rows and
/// all places of the grid: what it reads, and what its conditions ask of places.
bool stays_for_panel(const GroupSpace& space, const PanelChoice& choice, const ScalarRef& factor);

/// Others for the same group that measuring may prefer: the order of the loops turned, and register
/// tiles in the order of the model.
std::vector<PanelChoice> other_panels(const GroupSpace& space, const Target& target);

/// The layout in which a constant's panels lie as the loops read them, [other axes][vector
/// blocks][reduction in loop order][vector]; nothing where it is not read along whole axes. `root`
/// is the reduction that reads it.
std::optional<Layout> panel_layout(const GroupSpace& space, const PanelChoice& choice, int root,
                                   const Scalar& read);

/// What the choice's sums apart leave behind them, over the variables of the group's reduction;
/// nothing where that is no such product.
std::optional<SumApart> sum_apart(const GroupSpace& space, const PanelChoice& choice);

}  // namespace weft
