#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "driver/models/prepare_model.h"
#include "support/result.h"

namespace weft {

struct TuneOptions {
  std::string library;      ///< the file that takes the rows
  double time_limit_s = 0;  ///< no candidate is begun after it; 0: none
  int most_candidates = 8;  ///< that are measured beside the present one, for each distinct kernel
  int rounds = 15;          ///< of runs with the present plan and a candidate in turns
};

/// A distinct kernel of the plan, by microseconds of a launch among the others of the model.
struct TunedKernel {
  std::string kernel;               ///< the name of one
  int64_t measured = 0, known = 0;  ///< candidates: measured now, and that the library had
  double present_us = 0;            ///< 0: nothing was measured
  double best_us = 0;
  std::string best;  ///< the composition; empty: the present one
};

struct TuneReport {
  std::vector<TunedKernel> kernels;  ///< those predicted to take longest first
  bool out_of_time = false;
};

/// Measures other leaves of each distinct kernel of the model's plan in the place of the one that
/// the templates chose, the rest of the plan as it is, and adds what each takes to the library as
/// soon as it is known: what was measured before is not measured again. A candidate that is far
/// behind after a few rounds is left; what looks best is measured once more. kUnsupported: the
/// target runs nothing here.
Result<TuneReport> tune_model(const ModelRequest& request, const TuneOptions& options);

}  // namespace weft
