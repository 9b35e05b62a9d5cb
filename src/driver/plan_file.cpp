#include "driver/plan_file.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "plan/fusion_plan.h"

namespace weft {

bool is_plan_file(const std::string& plan) { return plan.ends_with(".plan"); }

Status read_plan_file(const std::string& path, CompileOptions* options) {
  std::ifstream file(path, std::ios::binary);
  options->plan_source = path;
  options->plan_text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) return invalid_input("cannot read the plan '" + path + "'");
  auto header = parse_plan_header(options->plan_text);
  if (!header.ok()) return of_plan_file(*options, header.take_error());
  options->planner = header->planner;
  return {};
}

Error of_plan_file(const CompileOptions& options, Error error) {
  error.message = options.plan_source + ":" + error.message;
  return error;
}

}  // namespace weft
