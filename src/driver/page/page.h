#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// What a kernel is at the levels below the plan. Empty: not known, or left out for the page's
/// size.
struct KernelTexts {
  std::string tile;                  ///< tile program with its scopes
  std::string kernel;                ///< vector instructions
  std::string code;                  ///< assembly, or CUDA
  std::vector<std::string> buffers;  ///< names in the tile program of what `kernel` numbers
};

/// Median times of a run on this machine.
struct MeasuredTimes {
  double run_us = 0;  ///< of the whole, as it runs
  struct Step {
    std::string name;
    int32_t depth = 0;
    double us = 0;
  };
  std::vector<Step> steps;  ///< each set apart by barriers
};

struct PageContent {
  const Program& program;          ///< with its explanation
  std::vector<KernelTexts> texts;  ///< by kernel of the explanation, or empty
  std::optional<MeasuredTimes> measured;
  std::string comparison_json;  ///< of comparison_json(); empty: none
};

/// One HTML file that shows the plan and needs nothing else: no network, no other file. Names of
/// the model are data in it, whatever they hold. kInvalidInput for a program without an
/// explanation.
Result<std::string> explanation_page(const PageContent& content);

/// The page as a file, complete or not at all.
Status write_page(const std::string& path, const std::string& page);

}  // namespace weft
