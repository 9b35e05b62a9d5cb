#!/usr/bin/env python3
"""Checks and times weft on the GPU of this machine: correctness of the models of the kit, memory checks
of a sample, row kernels beside copies of the same size, and PyTorch and JAX where they are.

    ./run [--output results.json] [--quick]

Needs Python 3.8 and NVIDIA's driver. What is missing (compute-sanitizer, PyTorch, JAX, code for this
architecture) is said in the results and left out. Exits 1 when a model computes something wrong, 4
without a GPU.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

KIT = Path(__file__).resolve().parent
WEFT = str(KIT / "bin/weft")
SANITIZED = ["softmax-max-div", "layernorm-operator", "mlp", "attention-div", "conv-se", "gru"]
TIMEOUT = 600


def run(words, timeout=TIMEOUT):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"over {timeout} s")


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def device():
    """The line of `weft targets` about the device."""
    for line in run([WEFT, "targets"]).stdout.splitlines():
        if line.startswith("cuda"):
            return line[len("cuda") :].strip()
    return "no line about cuda"


def model_words(artefact, command):
    """Artefacts where there is code in them for this machine, else the model itself through NVRTC."""
    if artefact.exists() and run([WEFT, "run", str(artefact)]).returncode != 4:
        return [WEFT, command, str(artefact)]
    model = str(artefact.with_suffix(".onnx"))
    return [WEFT, command, model, "--target", "cuda", "--no-cache"]


def check_models():
    """name -> "ok" or what went wrong, against the expected outputs and against the CPU."""
    found = {}
    for model in sorted((KIT / "models").glob("*.onnx")):
        stem = model.with_suffix("")
        values = ["--inputs", f"{stem}.inputs.npz", "--expect", f"{stem}.expected.npz"]
        if stem.name.endswith("f16"):
            values += ["--rtol", "5e-3", "--atol", "5e-3"]
        done = run(model_words(model.with_suffix(".weft"), "run") + values)
        found[model.stem] = "ok" if done.returncode == 0 else last_line(done.stderr)
        if done.returncode != 0:
            cpu = run([WEFT, "run", str(model), "--no-cache", *values])
            found[model.stem] += " (the CPU: " + ("ok" if cpu.returncode == 0 else "wrong too") + ")"
            print(f"{model.stem}: {found[model.stem]}", flush=True)
    return found


def sanitize():
    """name -> verdict of compute-sanitizer's memcheck and racecheck."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        return "compute-sanitizer is not here"
    found = {}
    for name in SANITIZED:
        stem = KIT / "models" / name
        words = model_words(stem.with_suffix(".weft"), "run")
        words += ["--inputs", f"{stem}.inputs.npz"]
        for check in ("memcheck", "racecheck", "synccheck"):
            done = run([tool, "--tool", check, "--error-exitcode", "77", *words])
            summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout + done.stderr)
            found[f"{name} {check}"] = summary[-1] if summary else f"exit code {done.returncode}"
    return found


def row_cases(quick):
    for path in sorted((KIT / "rows").glob("*.onnx")):
        kind, size, dtype = path.stem.split("-")
        rows, columns = (int(n) for n in size.split("x"))
        if not quick or rows * columns <= 4096 * 1024:
            yield path, kind, rows, columns, dtype


def time_rows(quick):
    """One record a case: microseconds, copies, and the share of the copy bandwidth."""
    records = []
    for path, kind, rows, columns, dtype in row_cases(quick):
        words = model_words(path.with_suffix(".weft"), "bench")
        done = run([*words, "--json", "--runs", "1", "--device-times"])
        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        if done.returncode != 0:
            record["error"] = last_line(done.stderr)
        else:
            j = json.loads(done.stdout)
            for name in ("device_warm_us", "device_flushed_us", "copy_warm_us", "copy_flushed_us"):
                record[name] = j[name]
            for state in ("warm", "flushed"):
                if j[f"device_{state}_us"] <= 0 or j[f"copy_{state}_us"] <= 0:
                    continue  # below what the events resolve
                record[f"of_copy_{state}"] = j[f"copy_{state}_us"] / j[f"device_{state}_us"]
        records.append(record)
        print(json.dumps(record), flush=True)
    return records


def time_torch(quick):
    """The same rows in PyTorch, eager and compiled; microseconds by CUDA events."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not here"
    import torch

    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"
    functional = torch.nn.functional

    def build(kind, columns, dtype):
        g = torch.ones(columns, device="cuda", dtype=dtype)
        b = torch.zeros(columns, device="cuda", dtype=dtype)
        return {
            "softmax": lambda x: torch.softmax(x, -1),
            "layernorm": lambda x: functional.layer_norm(x, (columns,), g, b),
            "rmsnorm": lambda x: functional.rms_norm(x, (columns,), g, 1e-5),
        }[kind]

    flush = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")

    def timed(function, flushed):
        for _ in range(3):
            function()
        samples = []
        for _ in range(15):
            if flushed:
                flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            repeats = 1 if flushed else 20
            begin.record()
            for _ in range(repeats):
                function()
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / repeats)
        return statistics.median(samples)

    records = []
    for _, kind, rows, columns, dtype in row_cases(quick):
        kind_of = {"f32": torch.float32, "f16": torch.float16}[dtype]
        x = torch.randn(rows, columns, device="cuda", dtype=kind_of)
        eager = build(kind, columns, kind_of)
        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        for name, function in (("eager", eager), ("compiled", torch.compile(eager))):
            try:
                for state in ("warm", "flushed"):
                    record[f"{name}_{state}_us"] = timed(lambda: function(x), state == "flushed")
            except Exception as error:  # what a peer cannot do is no failure of ours
                record[f"{name}_error"] = last_line(str(error))
        records.append(record)
    return records


def time_jax(quick):
    """The same rows in JAX; microseconds of blocking calls in a row."""
    if importlib.util.find_spec("jax") is None:
        return "JAX is not here"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import time

    import jax
    import jax.numpy as jnp

    if jax.default_backend() != "gpu":
        return "JAX sees no GPU"

    def norm(x, centre):
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True) if centre else y
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)

    functions = {
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "layernorm": lambda x: norm(x, True),
        "rmsnorm": lambda x: norm(x, False),
    }
    records = []
    for _, kind, rows, columns, dtype in row_cases(quick):
        x = jax.random.normal(jax.random.key(0), (rows, columns), {"f32": "float32"}.get(dtype, "float16"))
        compiled = jax.jit(functions[kind])
        compiled(x).block_until_ready()
        samples = []
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(20):
                y = compiled(x)
            y.block_until_ready()
            samples.append((time.perf_counter() - begin) * 1e6 / 20)
        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        records.append({**record, "jit_warm_us": statistics.median(samples)})
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="results.json")
    parser.add_argument("--quick", action="store_true", help="the smallest rows alone, no peers")
    options = parser.parse_args()
    results = {"weft": run([WEFT, "--version"]).stdout.strip(), "device": device()}
    results["host"] = f"{platform.machine()}, {os.cpu_count()} cores"
    print(results["device"], flush=True)
    present = "sm_" in results["device"]
    parts = [("models", check_models), ("sanitizer", sanitize)]
    parts.append(("rows", lambda: time_rows(options.quick)))
    if not options.quick:
        parts += [("torch", lambda: time_torch(False)), ("jax", lambda: time_jax(False))]
    for name, part in parts:
        try:
            results[name] = part() if present else "no device"
        except Exception as error:  # one part must not take the others along
            results[name] = f"failed: {error!r}"
        Path(options.output).write_text(json.dumps(results, indent=1) + "\n")
    if not present:
        return 4
    models = results["models"]
    wrong = [] if isinstance(models, str) else [n for n, verdict in models.items() if verdict != "ok"]
    count = 0 if isinstance(models, str) else len(models)
    print(f"{count - len(wrong)} of {count} models right; wrote {options.output}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
