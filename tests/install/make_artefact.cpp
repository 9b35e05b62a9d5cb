// make_artefact FILE: writes an artefact that computes y = 1 + x + x over three elements, with no
// code of a generator in it.

#include <cstdio>

#include "runtime/artefact.h"
#include "tests/runtime/program_fixture.h"

int main(int argc, char** argv) {
  using weft::HostStep;
  using weft::testing::ProgramFixture;
  if (argc != 2) return 2;
  ProgramFixture f;
  f.program.model = "double";
  f.program.target = "any processor";
  const int32_t x = f.input("x", {3}), y = f.output("y", {3});
  const int32_t ones = f.constant<float>(weft::DType::kF32, {3}, {1, 1, 1});
  const int32_t places = f.constant<int64_t>(weft::DType::kI64, {3}, {0, 1, 2});
  const int32_t sum = f.arena({3});
  for (const auto& [from, to] : {std::pair{ones, sum}, std::pair{sum, y}}) {
    HostStep add;
    add.op = HostStep::Op::kScatterElements;
    add.combines = true;
    add.operands = {from, places, x};
    add.results = {to};
    f.step(ProgramFixture::host(add));
  }
  const weft::Program* programs[] = {&f.program};
  const weft::Status status = weft::save_artefact(argv[1], programs);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
