#!/usr/bin/env python3
"""Whole models on the GPU of this machine: values beside the CPU's, time of a run, time of each kernel.

    gpu_models.py --weft PATH [CASE...] [--output FILE] [--work FOLDER] [--jobs N] [--minutes M] [--trace LIB]

A case is a model of models/ (materialised into --work), with "-f16" behind it in float16, or a file
that ends in .onnx or .graph, with an .npz of its inputs beside it or random ones, or in .hlo or .hlo.gz, or an
artefact with the .graph of it beside it. "@", a planner (or a file of a plan) and ":" with compositions may follow.
Models are compiled and compared several at a time; then they are timed one after another. Kernels are timed in their place by CUPTI, through a library that NVIDIA's driver
loads into weft (bench/gpu_trace.cpp); without --trace that is left out. Results are written as they
come: of each case the verdict, what `weft bench` says, and [entry, launches, least and median
nanoseconds, blocks, threads, registers, shared bytes] of each kernel beside the steps with what was
predicted. Needs numpy, onnx and NVIDIA's driver; NVRTC to compile.
"""

import argparse
import fcntl
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models"))

CASES = [
    "softmax-4096x1024", "softmax-64x30000", "layernorm-512x768", "rowreduce-75000x32", "elementwise-chain",
    "se-m0", "se-m5", "mmoe", "multi-interests", "perceptron", "var-encoder-infer", "word2vec-eval",
    "attention-s1", "attention-s9", "gemm-chain-g4", "gemm-chain-g12", "attention-s1-f16", "attention-s9-f16",
    "gemm-chain-g4-f16", "gemm-chain-g12-f16", "efficientnet-b0", "minilm-s128", "bert-base-s384",
    "bert-base-s384-f16", "transformer-decoder-step", "crnn-b1", "birnn", "lstm-op", "lstm-souffle",
    "gpt2-decode-p128", "resnet50", "resnet50-f16", "vit-b16", "vit-b16-f16", "swin-b", "swin-b-f16",
    "resnext101-64x4d", "resnext101-64x4d-f16", "asr-encoder", "dien-infer-b64",
]  # fmt: skip
#: Beside the CPU's values, relative to each and to the largest: sums run in other orders.
TOLERANCES = {"f32": (1e-3, 1e-4), "f16": (1e-2, 5e-3)}
FACTOR = 1.5


def run(words, timeout=90, **more):
    try:
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=timeout, **more)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"over {timeout} s")


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][-300:] if lines else ""


def draw_parameters(module, path):
    """Values of an HLO module's parameters with which recurrences neither saturate nor blow up."""
    import numpy as np

    text = (gzip.open(module, "rt") if module.suffix == ".gz" else open(module)).read()
    entry = text[text.index("\nENTRY ") :]
    source = np.random.default_rng(1)
    values = {}
    for dtype, sizes, number in re.findall(r"= (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", entry):
        shape = [int(n) for n in sizes.split(",") if n]
        if dtype in ("s32", "s64", "pred"):
            kinds = {"s32": np.int32, "s64": np.int64, "pred": np.bool_}
            values[f"arg{number}"] = source.integers(0, 2, shape).astype(kinds[dtype])
        else:
            scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 0.1
            values[f"arg{number}"] = np.asarray(source.normal(0, scale, shape), np.float32)
    np.savez(path, **values)
    return path


def materialise(name, folder):
    """(model, inputs) of a case."""
    if name.endswith((".hlo", ".hlo.gz")):
        return Path(name), draw_parameters(Path(name), folder / (Path(name).name + ".npz"))
    if name.endswith((".onnx", ".graph", ".weft")):
        model = Path(name).with_suffix(".graph" if name.endswith(".weft") else Path(name).suffix)
        inputs = model.with_suffix(".npz")
        return model, inputs if inputs.exists() else None
    import half
    import materialize
    import numpy as np
    import onnx

    materialize.OUTPUT = folder
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{name}.npz"
    lock = open(folder / f"{name}.lock", "w")  # several plans of one model are prepared at a time
    fcntl.flock(lock, fcntl.LOCK_EX)
    if done.exists():
        return folder / f"{name}.onnx", done
    base = name.removesuffix("-f16")
    if base == name:
        materialize.make_exported(name)
        return folder / f"{name}.onnx", folder / f"{name}.npz"
    part = folder / f"of-{name}"
    part.mkdir(exist_ok=True)
    materialize.OUTPUT = part
    materialize.make_exported(base)
    model = onnx.load(part / f"{base}.onnx")
    half.half_graph(model.graph)
    onnx.save(model, folder / f"{name}.onnx")
    limit = float(np.finfo(np.float16).max)
    arrays = dict(np.load(part / f"{base}.npz"))
    halves = {k: np.clip(a, -limit, limit).astype(np.float16) if a.dtype == np.float32 else a for k, a in arrays.items()}
    np.savez(folder / f"{name}.npz", **halves)
    return folder / f"{name}.onnx", folder / f"{name}.npz"


def outputs_of(words, folder):
    """The arrays that a run writes, by name; nothing where it fails."""
    import numpy as np

    folder.mkdir(exist_ok=True)
    done = run([*words, "--output-dir", folder])
    return {p.stem: np.load(p).astype(np.float64) for p in folder.glob("*.npy")} if done.returncode == 0 else {}


def as_near_as_the_cpu(case, artefact, given, expected, options):
    """Of a model in float16 whose roundings grow: whether the device is no farther from float32 than FACTOR times
    what the CPU is in float16."""
    import numpy as np

    base = Path(options.work) / f"of-{case}" / case.removesuffix("-f16")
    exact = outputs_of(
        [options.weft, "run", base.with_suffix(".onnx"), "--no-cache", "--inputs", base.with_suffix(".npz")],
        base.parent / "exact")  # fmt: skip
    own = outputs_of([options.weft, "run", artefact, *given], base.parent / "own")
    if not own or own.keys() != exact.keys():
        return False
    far = lambda values: sum(float(np.square(values[k] - exact[k]).sum()) for k in exact)  # noqa: E731
    cpu = {k: a.astype(np.float64) for k, a in expected.items()}
    return far(own) <= FACTOR**2 * far(cpu)


def prepare(name, options):
    """Of a case: its artefact, and whether it computes what the CPU does."""
    import numpy as np

    folder = Path(options.work)
    started = time.monotonic()
    case, _, planner = name.partition("@")
    model, inputs = materialise(case, folder)
    given = ["--inputs", inputs] if inputs else []
    record = {"case": name, "made_s": round(time.monotonic() - started, 1)}
    if case.endswith(".weft"):
        artefact = Path(case)
    else:
        artefact = folder / f"{model.name}@{planner}.weft".replace("/", "_")
        started = time.monotonic()
        words = [options.weft, "compile", model, "--target", options.target, "--no-cache", "-o", artefact, *given]
        plan, _, compositions = planner.partition(":")
        words += ["--plan", plan or "auto"] + (["--compositions", compositions] if compositions else [])
        done = run(words)
        record["compiled_s"] = round(time.monotonic() - started, 1)
        if done.returncode:
            return record | {"error": "compile: " + last_line(done.stderr)}
        record["notes"] = done.stderr.strip()[-500:]
    outputs = folder / f"{name.replace('/', '_')}.outputs"
    outputs.mkdir(exist_ok=True)
    done = run([options.weft, "run", model, "--no-cache", "--threads", "4", *given, "--output-dir", outputs])
    if done.returncode:
        return record | {"error": "cpu: " + last_line(done.stderr)}
    expected = folder / f"{name.replace('/', '_')}.expected.npz"
    arrays = {p.stem: np.load(p) for p in outputs.glob("*.npy")}
    np.savez(expected, **arrays)
    record["largest"] = max((float(np.abs(a.astype(np.float64)).max()) for a in arrays.values() if a.size), default=0)
    halves = case.endswith("-f16") or (model.suffix == ".graph" and "f16[" in model.read_text())
    rtol, of_largest = TOLERANCES["f16" if halves else "f32"]
    values = [*given, "--expect", expected, "--rtol", rtol, "--atol", of_largest * max(record["largest"], 1e-3)]
    done = run([options.weft, "run", artefact, *values], timeout=60)
    record["verdict"] = "ok" if done.returncode == 0 else last_line(done.stderr)
    if done.returncode == 0:  # again, several times: what is wrong now and then is a race
        done = run([options.weft, "run", artefact, "--runs", "5", *values], timeout=60)
        record["verdict"] = "ok" if done.returncode == 0 else "then and now: " + last_line(done.stderr)
    elif case.endswith("-f16") and as_near_as_the_cpu(case, artefact, given, arrays, options):
        record["verdict"] = "ok"
        record["rounding"] = "grows: compared with float32"
    return record | {"artefact": str(artefact), "inputs": str(inputs) if inputs else None}


def kernels_of(trace):
    """[entry, launches, least and median ns, blocks, threads, registers, shared bytes] of weft's kernels."""
    found = defaultdict(list)
    shapes = {}
    for line in Path(trace).read_text().splitlines():
        name, begin, end, *shape = line.split()
        if name.startswith("weft_"):
            found[name].append(int(end) - int(begin))
            shapes[name] = [int(n) for n in shape]
    return [[name, len(ns), min(ns), sorted(ns)[len(ns) // 2], *shapes[name]] for name, ns in found.items()]


def time_case(record, options):
    given = ["--inputs", record["inputs"]] if record["inputs"] else []
    done = run([options.weft, "bench", record["artefact"], *given, "--json", "--seconds", "0.2", "--device-times"])
    if done.returncode:  # programs of several graphs
        done = run([options.weft, "bench", record["artefact"], *given, "--json", "--seconds", "0.2"])
    if done.returncode:
        return {"bench_error": last_line(done.stderr)}
    out = {"bench": json.loads(done.stdout)}
    environment = dict(os.environ)
    trace = Path(options.work) / "trace.txt"
    if options.trace:
        environment |= {"CUDA_INJECTION64_PATH": options.trace, "WEFT_TRACE": str(trace)}
    done = run([options.weft, "bench", record["artefact"], *given, "--per-kernel", "--json"], env=environment)
    if done.returncode:
        return out | {"steps_error": last_line(done.stderr)}
    out["steps"] = json.loads(done.stdout)
    if options.trace and trace.exists():
        out["kernels"] = kernels_of(trace)
        trace.unlink()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[])
    parser.add_argument("--weft", required=True)
    parser.add_argument("--work", default="/tmp/weft-models")
    parser.add_argument("--output", default="gpu-models.json")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=5, help="nothing begins after that")
    parser.add_argument("--trace", help="the library that bench/gpu_trace.cpp makes")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--no-timing", action="store_true")
    parser.add_argument("--wait", type=Path, help="a file: timing begins when it is there")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    Path(options.work).mkdir(parents=True, exist_ok=True)
    results = {}

    def keep(record):
        results[record["case"]] = record
        Path(options.output).write_text(json.dumps(results) + "\n")
        shown = {k: record[k] for k in ("case", "made_s", "compiled_s", "verdict", "error") if k in record}
        print(json.dumps(shown), flush=True)

    # Materialising holds Python's lock, the rest waits for commands.
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(prepare, name, options) for name in options.cases or CASES]:
            try:
                keep(future.result(timeout=max(1.0, end - time.monotonic())))
            except Exception as error:
                print("preparing:", repr(error)[:300], flush=True)
                if time.monotonic() > end:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
    while options.wait and not options.wait.exists() and time.monotonic() < end:
        time.sleep(0.1)
    for record in list(results.values()):
        if options.no_timing or "artefact" not in record or time.monotonic() > end:
            continue
        keep(record | time_case(record, options))
        b = results[record["case"]].get("bench", {})
        print(record["case"], "us", b.get("device_warm_us", b.get("device_median_us")), "kernels", b.get("kernels"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
