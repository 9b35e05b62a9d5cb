#pragma once

#include <memory>
#include <string>

#include "driver/models/prepare_model.h"
#include "support/result.h"

namespace weft {

struct PageOptions {
  bool measure = false;      ///< run it here, for the times of its kernels
  std::string compare_with;  ///< a plan's file that the plan is compared with; empty: none
};

/// The page of a model's plan, or of an artefact's first program, with what is asked for.
/// kMissingDevice where it is to be measured and its device is not here.
Result<std::string> page_of_model(const ModelRequest& request, const PageOptions& options);

/// The page of a compilation with all that is known of its kernels, which must have been made
/// without a cache: kernels from there have code but no instructions to show. To be measured, it
/// runs on `inputs`.
Result<std::string> page_of_compilation(const Compilation& c, const PageOptions& options = {},
                                        const GivenInputs& inputs = {});

/// Of a model that is to be measured: kMissingDevice where what it is compiled for is not here.
Status check_can_measure(const CompileOptions& options);

/// The page of a program that is loaded, by a run of `threads`.
Result<std::string> page_of_executable(std::shared_ptr<const Executable> executable, int threads,
                                       const PageOptions& options);

}  // namespace weft
