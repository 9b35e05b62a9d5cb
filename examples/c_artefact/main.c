/* Runs a compiled model from C: c_artefact MODEL.weft
 * Inputs are ones (make the file with `weft compile model.onnx -o MODEL.weft`). */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft_runtime.h>

enum { kMostTensors = 64 };
static const size_t kBytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8}; /* by element type */

static weft_tensor make_tensor(const weft_tensor_info* info) {
  size_t count = 1;
  for (size_t i = 0; i < info->rank; ++i) count *= (size_t)info->shape[i];
  weft_tensor tensor = {info->dtype, info->rank, info->shape, NULL,
                        calloc(count + 1, kBytes[info->dtype])};
  for (size_t i = 0; info->dtype == WEFT_F32 && i < count; ++i) ((float*)tensor.data)[i] = 1;
  return tensor;
}

int main(int argc, char** argv) {
  weft_model* model = weft_model_new();
  weft_tensor inputs[kMostTensors], outputs[kMostTensors];
  weft_tensor_info info;
  int code = weft_model_load(model, argc == 2 ? argv[1] : NULL, NULL);
  weft_context* context = code == WEFT_OK ? weft_context_new(model) : NULL;
  if (context == NULL) {
    fprintf(stderr, "c_artefact: %s\n", weft_model_message(model));
    return code;
  }
  size_t in = 0, out = 0;
  while (in < kMostTensors && weft_model_input(model, in, &info) == WEFT_OK)
    inputs[in++] = make_tensor(&info);
  while (out < kMostTensors && weft_model_output(model, out, &info) == WEFT_OK) {
    outputs[out++] = make_tensor(&info);
    printf("output %s, %zu dimensions", info.name, info.rank);
  }
  code = weft_context_run(context, inputs, in, outputs, out);
  if (code != WEFT_OK) fprintf(stderr, "c_artefact: %s\n", weft_context_message(context));
  if (code == WEFT_OK && out > 0 && outputs[0].dtype == WEFT_F32)
    printf(", first element %g\n", (double)*(float*)outputs[0].data);
  while (in > 0) free(inputs[--in].data);
  while (out > 0) free(outputs[--out].data);
  weft_context_free(context);
  weft_model_free(model);
  return code;
}
