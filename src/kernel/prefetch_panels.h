#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Asks for the panel behind the present one while tiles of rows go over it: of the two innermost
/// loops the outer one counts tiles, and the inner one walks whole vectors of an input one after
/// another, which do not depend on the tile.
///     for panel { for tile { for step { load panel[panel, step]; prefetch panel[panel + 1, …] } }
///     }
/// Each tile asks for the next lines of it, until there are none left. Without that the first tile
/// waits for memory, and memory for the others. Panels lie in the order in which loops walk them
/// (schedule/cpu/choose_panel.h); what is asked for and not there costs nothing.
///
/// An innermost loop that copies a panel to scratch, transposed or from rows far apart, asks for
/// what it will load in the next iteration of the loop around it:
///     for panel { for step { load x[panel, step]; prefetch x[panel + 1, step]; store scratch … } …
///     }
///
/// Only inputs larger than an eighth of the second cache, which hold more than one panel, and
/// panels larger than the first where they are not copied. Requires: a verified kernel of a CPU.
/// Returns whether it changed.
bool prefetch_panels(KernelFunction& kernel, const Target& target);

}  // namespace weft
