#pragma once

#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "target/target.h"

namespace weft {

/// Where a panel of that choice outgrows the second cache and rows read it again: by parts of the
/// sum whose panels do not, with all rows that its sums leave room for, and with halves and
/// quarters of them, which more threads share. Empty where nothing is gained so.
std::vector<PanelChoice> panels_in_parts(const GroupSpace& space, const PanelChoice& whole,
                                         const Target& target);

/// Where each panel has more rows go by than the caches hold: by chunks of rows whose operand stays
/// in the second cache beside a panel, or in a core's part of the third, while all panels go by
/// (the loop around the second operand's panels of Goto and van de Geijn, Anatomy of
/// High-Performance Matrix Multiplication, 2008). Empty where what all rows read is little.
std::vector<PanelChoice> panels_in_chunks(const GroupSpace& space, const PanelChoice& whole,
                                          const Target& target);

/// Whether what the rows of a choice read is more than a core's part of the third cache keeps.
bool outgrows_third_cache(const GroupSpace& space, const PanelChoice& choice, const Target& target);

/// Axes of the grid that no operand along the vectors depends on, outermost first: a panel stays in
/// the cache while they run. Requires: a stride for each read.
std::vector<int> axes_inside_panel(const GroupSpace& space, const PanelChoice& choice);

/// Axes of the grid along which all that moves slides over long sums, as the places of a window do
/// where its gradient is made: a tile of rows reads nearly the same at each, and has it in a cache
/// where they run inside of it.
std::vector<int> axes_inside_rows(const GroupSpace& space, const PanelChoice& choice);

}  // namespace weft
