"""Compiles every full-size model for a GPU that need not be there, and tabulates the code.

    scripts/gpu-table [CASE...] [--target h100-sxm] [--weft PATH]

Cold: the whole command with an empty cache, writing the artefact. Warm: the same again. Registers, shared memory and spills are the most
of any kernel, as the assembler reports them. Writes bench/results/gpu-TARGET.md when all cases ran;
exits 1 when one did not compile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from peers import ROOT, Failed, call, commit

sys.path.insert(0, str(ROOT / "models"))
import materialize  # noqa: E402

# Files in memory: the disk is no part of what is timed.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
HALF = ["bert-base-s128-f16"]


def place(case, folder):
    """(model, inputs) of a case; NAME-f16 is NAME with its arithmetic in float16."""
    if not case.endswith("-f16"):
        model, kinds = materialize.case(case)
        return model, kinds["random"]
    model, kinds = materialize.case(case.removesuffix("-f16"))
    half = Path(folder) / f"{case}.onnx"
    subprocess.run([sys.executable, ROOT / "models/half.py", model, half], check=True)
    with np.load(kinds["random"]) as inputs:
        values = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in inputs.items()}
    np.savez(Path(folder) / "inputs.npz", **values)
    return half, Path(folder) / "inputs.npz"


def compile_case(weft, target, case, cache):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        model, inputs = place(case, folder)
        words = [weft, "compile", model, "--inputs", inputs, "--target", target]
        words += ["--cache", cache, "--no-fallback"]
        artefact = f"{folder}/m.weft"
        cores = os.sched_getaffinity(0)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            call([*words, "-o", artefact], cores)
            seconds.append(time.perf_counter() - start)
        explanation = json.loads(call([weft, "explain", artefact, "--json"], cores))
    return seconds, explanation


def row(case, seconds, explanation):
    code = explanation["device_code"]
    kernels = explanation["memory_kernels"] + explanation["compute_kernels"]
    spills = f"{code['spilling_kernels']} ({code['spill_bytes']} B)" if code["spill_bytes"] else "0"
    return (
        f"| {case} | {explanation['ops']} | {kernels} | {code['distinct_kernels']} "
        f"| {seconds[0]:.1f} | {seconds[1]:.2f} | {code['registers']} | {spills} "
        f"| {code['shared_bytes'] / 1024:.1f} | {explanation['predicted_us']:.0f} |"
    )


def write_table(target, rows):
    lines = [
        f"# Models compiled for {target}",
        "",
        f"`scripts/gpu-table --target {target}`, commit {commit()}, "
        f"{len(os.sched_getaffinity(0))} cores. No GPU was used: predicted microseconds are the "
        "plan's.",
        "",
        "| model | nodes | kernels | distinct | cold s | warm s | registers | spilling kernels "
        "| shared KB | predicted us |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    path = ROOT / f"bench/results/gpu-{target}.md"
    path.write_text("\n".join(lines))
    print(f"wrote {path}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--target", default="h100-sxm")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    options = parser.parse_args()
    cases = options.cases or [*materialize.names(), *HALF]
    rows, failed = [], []
    for case in cases:
        with tempfile.TemporaryDirectory(dir=MEMORY) as cache:
            try:
                rows.append(row(case, *compile_case(options.weft, options.target, case, cache)))
                print(rows[-1], flush=True)
            except Failed as failure:
                failed.append(case)
                print(f"{case}: {failure}", flush=True)
    if not options.cases and not failed:
        write_table(options.target, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
