#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simt/launch.h"

namespace weft::simt {

/// What a launch of a hand-written kernel gave.
struct KernelOutcome {
  Report report;
  double error = 0;  ///< the largest difference from a plain reference, NaN counted as infinite
};

/// One kernel of tests/simt/kernels/, launched on data of odd sizes, with its reference.
struct KernelCase {
  std::string kernel;
  std::string file;  ///< name of the text below tests/simt/kernels/
  double tolerance = 0;
  std::function<KernelOutcome(const Module&, Emulator&, const LaunchOptions&)> run;
};
std::vector<KernelCase> kernel_cases();

std::string read_kernel(const std::string& file);

}  // namespace weft::simt
