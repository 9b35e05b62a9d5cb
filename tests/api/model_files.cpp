#include "tests/api/model_files.h"

#include <fstream>

#include "runtime/artefact.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

bool save(const std::string& path, const std::vector<Program>& programs) {
  std::vector<const Program*> list;
  for (const Program& program : programs) list.push_back(&program);
  return save_artefact(path, list).ok();
}

Program sorting(int64_t n) {
  ProgramFixture f;
  f.program.model = "sorting";
  const int32_t x = f.input("x", {n}), state = f.input("state", {n});
  const int32_t y = f.output("y", {n}), order = f.output("order", {n}, DType::kI64);
  const int32_t next = f.output("next", {n});
  HostStep sort, add;
  sort.op = HostStep::Op::kSort;
  sort.operands = {x};
  sort.results = {y, order};
  add.op = HostStep::Op::kScatterElements;
  add.combines = true;
  add.operands = {state, order, y};
  add.results = {next};
  f.step(ProgramFixture::host(sort));
  f.step(ProgramFixture::host(add));
  return f.program;
}

}  // namespace

bool write_sorting_artefact(const std::string& path, const std::vector<int64_t>& sizes) {
  std::vector<Program> programs;
  for (int64_t n : sizes) programs.push_back(sorting(n));
  return save(path, programs);
}

bool write_endless_artefact(const std::string& path) {
  ProgramFixture f;
  const int32_t value = f.constant<float>(DType::kF32, {1}, {2.5});
  const int32_t y = f.output("y", {1}), loop = f.new_loop();
  f.step(ProgramFixture::scan(loop, int64_t{1} << 60, {}, {ProgramFixture::copy(value, y)}));
  return save(path, {f.program});
}

bool write_recurrent_model(const std::string& path) {
  using onnx::TestModel;
  const std::string body = TestModel()
                               .input("h", DType::kF32, {"N"})
                               .input("x", DType::kF32, {"N"})
                               .node({"Add", {"h", "x"}, {"n"}})
                               .node({"Mul", {"n", "n"}, {"square"}})
                               .output("n")
                               .output("square")
                               .graph();
  const std::string model =
      TestModel()
          .input("state", DType::kF32, {"N"})
          .input("xs", DType::kF32, {5, "N"})
          .node({"Scan",
                 {"state", "xs"},
                 {"last", "squares"},
                 {onnx::graph_attr("body", body), onnx::int_attr("num_scan_inputs", 1)}})
          .node({"Add", {"squares", "squares"}, {"z"}})
          .output("last")
          .output("z")
          .model();
  std::ofstream file(path, std::ios::binary);
  file << model;
  return file.good();
}

}  // namespace weft::testing
