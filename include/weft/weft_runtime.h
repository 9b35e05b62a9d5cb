/* weft_runtime.h: load a compiled model (a .weft artefact) and run it, from C.
 *
 * The library behind it, libweft_runtime, needs neither LLVM nor ONNX nor protobuf.
 *
 *     weft_model* model = weft_model_new();
 *     if (weft_model_load(model, "m.weft", NULL) != WEFT_OK) puts(weft_model_message(model));
 *     weft_context* context = weft_context_new(model);
 *     if (weft_context_run(context, inputs, 1, outputs, 1) != WEFT_OK) ...
 *     weft_context_free(context);
 *     weft_model_free(model);
 *
 * Threads: a loaded model may be used by any number of threads; a context by one at a time, except
 * for weft_context_cancel. Every function accepts NULL handles and says WEFT_INVALID_INPUT or
 * returns nothing.
 */
#ifndef WEFT_WEFT_RUNTIME_H_
#define WEFT_WEFT_RUNTIME_H_

/* NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming): C */
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_RUNTIME_API __attribute__((visibility("default")))
#else
#define WEFT_RUNTIME_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field is added; programs of an earlier version keep working. */
#define WEFT_RUNTIME_VERSION 1
/* The version of the library that is loaded. */
WEFT_RUNTIME_API int weft_runtime_version(void);

/* Error codes; the same numbers as the weft command's exit codes. */
enum {
  WEFT_OK = 0,
  WEFT_INVALID_INPUT = 2,  /* a file, a tensor or an argument is wrong */
  WEFT_UNSUPPORTED = 3,    /* not supported by this version */
  WEFT_MISSING_DEVICE = 4, /* the processor lacks what the code needs */
  WEFT_INTERNAL = 70,      /* a defect of weft */
  WEFT_INTERRUPTED = 130   /* cancelled */
};

/* Element types. */
enum {
  WEFT_BOOL = 0, /* one byte, 0 or 1 */
  WEFT_I8,
  WEFT_I16,
  WEFT_I32,
  WEFT_I64,
  WEFT_U8,
  WEFT_U16,
  WEFT_U32,
  WEFT_U64,
  WEFT_F16,
  WEFT_BF16,
  WEFT_F32,
  WEFT_F64
};

typedef struct weft_model weft_model;
typedef struct weft_context weft_context;

/* A tensor of the caller. The library keeps no pointer after a call. */
typedef struct weft_tensor {
  int32_t dtype; /* WEFT_F32, ... */
  size_t rank;
  const int64_t* shape;   /* rank extents */
  const int64_t* strides; /* rank strides in elements, or NULL for dense row-major */
  void* data;             /* element 0; inputs are only read */
} weft_tensor;

/* What a model expects; valid as long as the model. */
typedef struct weft_tensor_info {
  const char* name;
  int32_t dtype;
  size_t rank;
  const int64_t* shape;
} weft_tensor_info;

typedef struct weft_load_options {
  size_t struct_size;          /* sizeof(weft_load_options) */
  int threads;                 /* of a run; 0: the cores that the process may use */
  int skip_constants_checksum; /* nonzero: large weights are not read before they are used */
} weft_load_options;

/* NULL when memory is exhausted. */
WEFT_RUNTIME_API weft_model* weft_model_new(void);
/* Loads a file into a fresh handle; options may be NULL. After an error the handle may be reused.
 */
WEFT_RUNTIME_API int weft_model_load(weft_model* model, const char* path,
                                     const weft_load_options* options);
/* Why the last call on this handle failed; "" after a success. Valid until the next call. */
WEFT_RUNTIME_API const char* weft_model_message(const weft_model* model);
WEFT_RUNTIME_API size_t weft_model_input_count(const weft_model* model);
WEFT_RUNTIME_API size_t weft_model_output_count(const weft_model* model);
WEFT_RUNTIME_API int weft_model_input(const weft_model* model, size_t index,
                                      weft_tensor_info* info);
WEFT_RUNTIME_API int weft_model_output(const weft_model* model, size_t index,
                                       weft_tensor_info* info);
/* Contexts made from it may live on. */
WEFT_RUNTIME_API void weft_model_free(weft_model* model);

/* The memory of one run at a time. NULL when the model is not loaded or memory is exhausted; the
 * model's message says which. */
WEFT_RUNTIME_API weft_context* weft_context_new(weft_model* model);
/* Runs on the tensors in the model's order. Outputs may overlap inputs (a state that is passed
 * back), not each other. No copies and no allocation for dense, aligned tensors. */
WEFT_RUNTIME_API int weft_context_run(weft_context* context, const weft_tensor* inputs,
                                      size_t input_count, const weft_tensor* outputs,
                                      size_t output_count);
/* Models that draw random numbers draw others in each run, from a sequence of the process that
 * begins at random: here it begins anew, the same one for the same value. From any thread. */
WEFT_RUNTIME_API void weft_set_seed(uint64_t seed);
/* From any thread or a signal handler: the run in progress, or else the next one, returns
 * WEFT_INTERRUPTED. */
WEFT_RUNTIME_API void weft_context_cancel(weft_context* context);
WEFT_RUNTIME_API const char* weft_context_message(const weft_context* context);
WEFT_RUNTIME_API void weft_context_free(weft_context* context);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-deprecated-headers,modernize-use-using,readability-identifier-naming) */
#endif /* WEFT_WEFT_RUNTIME_H_ */
