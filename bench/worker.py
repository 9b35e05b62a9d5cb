"""One peer engine in a process of its own: loads a model, says what it computes, then times runs.

    worker.py ENGINE MODEL INPUTS.npz THREADS OUTPUTS.npz

writes the outputs of one run (arrays in the order of the model's outputs), prints {"load_s"} and,
for each line on stdin with a number of seconds, {"median_ms", "min_ms", "p95_ms", "cpu_ms", "runs",
"peak_mb"} of runs for about that long; "cpu_ms" is the process's time on processors for each run.
"""

import functools
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np


def load_onnxruntime(model, inputs, threads, optimised=True):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimised:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()  # no copies and no name look-up in the timed call
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def load_openvino(model, inputs, threads, precision="f32"):
    import openvino

    core = openvino.Core()
    read = core.read_model(model)
    read.reshape({name: value.shape for name, value in inputs.items()})
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": precision,  # else bfloat16 where the processor has it
    }
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    bare = openvino._pyopenvino.InferRequest.infer  # the public one also builds a dictionary
    return (
        lambda: bare(request, {}, share_outputs=True, decode_strings=False),
        lambda: [tensor.data.copy() for tensor in request.output_tensors],
    )


def load_xla(module, inputs, threads):
    """XLA's CPU compiler, by JAX; it takes as many threads as the process may use processors."""
    import hlo_modules
    import jax

    executable, device = hlo_modules.compiled(hlo_modules.read(Path(module)))
    arguments = [jax.device_put(inputs[f"arg{i}"], device) for i in range(len(inputs))]
    results = []

    def run():
        results[:] = executable.execute(arguments)
        for result in results:
            result.block_until_ready()

    return run, lambda: [np.asarray(result) for result in results]


ENGINES = {
    "onnxruntime": load_onnxruntime,
    "onnxruntime-plain": functools.partial(load_onnxruntime, optimised=False),
    "openvino": load_openvino,
    "openvino-bf16": functools.partial(load_openvino, precision="bf16"),
    "xla": load_xla,
}


def measure(run, seconds):
    run()
    times = []
    spent = time.process_time()
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e6)
    spent = time.process_time() - spent
    return {
        "cpu_ms": spent / len(times) * 1e3,
        "median_ms": float(np.median(times)),
        "min_ms": min(times),
        "p95_ms": float(np.percentile(times, 95)),
        "runs": len(times),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main():
    engine, model, inputs_file, threads, outputs_file = sys.argv[1:]
    inputs = dict(np.load(inputs_file))
    start = time.perf_counter()
    run, outputs = ENGINES[engine](model, inputs, int(threads))
    run()
    elapsed = time.perf_counter() - start
    np.savez(outputs_file, *outputs())
    print(json.dumps({"load_s": elapsed}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(run, float(line))), flush=True)


if __name__ == "__main__":
    main()
