// cpp_consumer FILE.weft [MODEL.onnx]: what a user's program does with the installed package.

#include <weft/weft.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto model = weft::load(argv[1]);
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().message.c_str());
    return static_cast<int>(model.error().code);
  }
  auto context = model->new_context();
  if (!context) return 1;
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> y(3);
  const std::vector<int64_t> shape = {3};
  if (!context->run({{weft::input(x, shape)}}, {{weft::output(y, shape)}})) return 1;
  std::printf("y = %g %g %g\n", y[0], y[1], y[2]);
  if (argc > 2) {
    const auto compiled = weft::compile(argv[2]);
    if (!compiled) std::fprintf(stderr, "%s\n", compiled.error().message.c_str());
    return compiled ? 0 : 1;
  }
  const auto missing = weft::compile("there is no such model.onnx");
  return !missing && missing.error().code == weft::ErrorCode::kInvalidInput ? 0 : 1;
}
