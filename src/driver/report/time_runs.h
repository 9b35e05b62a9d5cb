#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/models/prepare_model.h"
#include "support/result.h"

namespace weft {

/// How long runs take once they are warm.
struct RunTimes {
  std::vector<double> ms;  ///< of each counted run, ascending
  double device_us = 0;    ///< median that a GPU takes between the copies of inputs and outputs
  double median() const { return ms[ms.size() / 2]; }
  double p95() const;
};
/// Counts `runs` runs; where that is 0, as many as fit in `seconds`, at least 5.
Result<RunTimes> time_runs(ReadyModel& model, int runs, double seconds);

/// A step of the program, with the median of what it takes and, of a kernel that its explanation
/// tells of, what it moves.
struct StepTime {
  std::string name;
  int depth = 0;  ///< of the loops and branches around it
  double ms = 0;
  std::string entry;  ///< of a launch on a GPU: the name of its code, which profilers show
  struct Kernel {
    double bytes = 0;        ///< read and written in a run of the model
    double roofline_ms = 0;  ///< what they and its arithmetic take at least
    double predicted_ms = 0;
    std::string schedule_template;
  };
  std::optional<Kernel> kernel;
};
/// Of a model with a session.
Result<std::vector<StepTime>> time_steps(ReadyModel& model);

}  // namespace weft
