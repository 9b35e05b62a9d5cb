#!/usr/bin/env python3
"""demo_times.py WEFT MODEL: the text recogniser with fusion, without, and in onnxruntime, on the same cores in turn."""
import json, subprocess, sys, tempfile, time
import numpy as np
import onnxruntime as ort

SHAPE = (1, 3, 48, 320)


def weft(command, model, inputs, plan):
    out = subprocess.run([command, "bench", model, "--inputs", inputs, "--plan", plan, "--json"], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def main():
    command, model = sys.argv[1:]
    x = np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32)
    with tempfile.NamedTemporaryFile(suffix=".npz") as f:
        np.savez(f.name, x=x)
        fused, apart = weft(command, model, f.name, "auto"), weft(command, model, f.name, "none")
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    times = []
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < 1:
        start = time.perf_counter()
        session.run(None, {session.get_inputs()[0].name: x})
        times.append(1e3 * (time.perf_counter() - start))
    print(f"  {fused['ops']} ONNX nodes, {fused['kernels']} kernels   weft {fused['median_ms']:.2f}   "
          f"weft --plan none ({apart['kernels']} kernels) {apart['median_ms']:.2f}   onnxruntime {np.median(times):.2f}")


if __name__ == "__main__":
    main()
