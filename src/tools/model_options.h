#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "driver/models/prepare_model.h"

namespace weft {

/// Options that all commands on a model share.
struct ModelOptions {
  std::string model;
  std::vector<std::string> inputs;  ///< NAME=FILE
  std::string inputs_npz;
  std::vector<std::string> binds;  ///< DIM=N
  uint64_t seed = 0;
  std::string target = "cpu";
  std::string planner = "auto";
  std::string compositions;
  std::string parameters;
  int threads = 0;
  std::string cache;
  bool no_cache = false;
  bool fast_math = false;
  std::string precision = "model";
  bool timings = false;
  std::string dump_dir;
  bool verify_cache = false;
  bool unroll = false;
  int vector_bytes = 0;
  std::string library;  ///< of measurements; empty: none
};

void add_model_options(CLI::App& app, ModelOptions& options);

/// What --plan takes.
std::string planner_help();

/// What the options ask for, with the tensors that they name.
Result<ModelRequest> model_request(const ModelOptions& options);

/// The model, ready to run; prints notes on how it runs and, with --timings, those of its passes.
Result<ReadyModel> ready_model(const ModelOptions& options);

void print_timings(const std::vector<PassTiming>& timings, int64_t kernels_from_cache,
                   int64_t unique_kernels);

}  // namespace weft
