/* c_artefact MODEL.weft: runs a compiled model from C, with ones as its input.
 * Make the file with `weft compile model.onnx -o MODEL.weft`. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft_runtime.h>

enum { kMostTensors = 64, kLargestElement = 8 };

static weft_tensor make_tensor(const weft_tensor_info* info) {
  size_t count = 1;
  for (size_t i = 0; i < info->rank; ++i) count *= (size_t)info->shape[i];
  void* data = calloc(count + 1, kLargestElement);
  for (size_t i = 0; info->dtype == WEFT_F32 && i < count; ++i) ((float*)data)[i] = 1;
  return (weft_tensor){info->dtype, info->rank, info->shape, NULL, data};
}

int main(int argc, char** argv) {
  weft_tensor inputs[kMostTensors], outputs[kMostTensors];
  weft_tensor_info info;
  weft_model* model = weft_model_new();
  int code = weft_model_load(model, argc == 2 ? argv[1] : NULL, NULL);
  weft_context* context = code == WEFT_OK ? weft_context_new(model) : NULL;
  if (context == NULL) {
    fprintf(stderr, "c_artefact: %s\n", weft_model_message(model));
    return code == WEFT_OK ? 1 : code;
  }
  size_t in = 0, out = 0;
  while (in < kMostTensors && !weft_model_input(model, in, &info))
    inputs[in++] = make_tensor(&info);
  while (out < kMostTensors && !weft_model_output(model, out, &info))
    outputs[out++] = make_tensor(&info);
  code = weft_context_run(context, inputs, in, outputs, out);
  if (code != WEFT_OK) fprintf(stderr, "c_artefact: %s\n", weft_context_message(context));
  for (size_t o = 0; o < out && code == WEFT_OK; ++o)
    if (outputs[o].dtype == WEFT_F32 && weft_model_output(model, o, &info) == WEFT_OK)
      printf("%s: first element %g\n", info.name, (double)*(float*)outputs[o].data);
  weft_context_free(context); /* the process's end frees the tensors */
  weft_model_free(model);
  return code;
}
