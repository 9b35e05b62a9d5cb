"""What chains of contractions in one kernel gain in BERTs of three sizes (MCFuser, tables III and IV).

    bench/bert_sizes [small base large] [--tokens 512] [--threads 2] [--rounds 5] [--target a100-40gb]

The encoders are generated with random weights. On this CPU `auto` and the same without chains run
in alternating turns (least runs); for the GPU, in float16, both are predicted. Planning is what
`weft dump --timings` says of the pass. The paper's seconds are those that MCFuser takes with Relay
and with Ansor to tune.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from peers import ROOT, call

sys.path.insert(0, str(ROOT / "models"))
import half  # noqa: E402
import reduced  # noqa: E402
from net import Net  # noqa: E402

# layers, width, heads; seconds of MCFuser with Relay and with Ansor (table IV).
SIZES = {
    "small": (4, 512, 8, "81 s, 2.78 h"),
    "base": (12, 768, 12, "202 s, 2.74 h"),
    "large": (24, 1024, 16, "243 s, 2.98 h"),
}
WITHOUT_CHAINS = ["--compositions", "leaf,block,grid,recur,cluster"]
CHAIN = re.compile(r" by chain\(")


def encoder(size, tokens):
    layers, width, heads, _ = SIZES[size]
    net = Net(f"bert-{size}")
    reduced.encoder(
        net, width=width, count=heads, vocabulary=3000, layers=layers, lengths=(tokens,), inner=4
    )
    return net


def planned(weft, model, inputs, how, cores):
    """{"kernels", "chains", "us", "plan_ms"} of a plan."""
    given = [model, "--inputs", inputs, "--no-cache", *how]
    explained = json.loads(call([weft, "explain", *given, "--json"], cores))
    text = call([weft, "dump", *given, "--stage", "plan"], cores)
    timings = call([weft, "dump", *given, "--stage", "plan", "--timings"], cores, stream="stderr")
    return {
        "kernels": len(explained["kernels"]),
        "chains": len(CHAIN.findall(text)),
        "us": explained["predicted_us"],
        "plan_ms": float(re.search(r"([\d.]+) ms  plan$", timings, re.M)[1]),
    }


def timed(weft, model, inputs, how, options, cores, folder):
    artefact = folder / f"{len(how)}.weft"
    if not artefact.exists():
        call([weft, "compile", model, "--inputs", inputs, "--no-cache", *how, "-o", artefact], cores)
    command = [weft, "bench", artefact, "--inputs", inputs, "--json", "--runs", "3"]
    return json.loads(call([*command, "--threads", str(options.threads)], cores))["min_ms"]


def row(size, options, folder):
    cores = set(sorted(os.sched_getaffinity(0))[: options.threads])
    net = encoder(size, options.tokens)
    model, inputs = folder / f"{size}.onnx", folder / f"{size}.npz"
    np.savez(inputs, **net.samples)
    whole = net.model()
    halves = folder / f"{size}-half.onnx"
    onnx.save(whole, model)
    half.half_graph(whole.graph)
    onnx.save(whole, halves)
    gpu = ["--target", options.target]
    here = planned(options.weft, model, inputs, [], cores)
    there = planned(options.weft, halves, inputs, gpu, cores)
    flat = planned(options.weft, halves, inputs, [*gpu, *WITHOUT_CHAINS], cores)
    least = {}
    for _ in range(options.rounds):
        for name, how in (("with", []), ("without", WITHOUT_CHAINS)):
            ms = timed(options.weft, model, inputs, how, options, cores, folder)
            least[name] = min(least.get(name, ms), ms)
    layers, width, *_, paper = SIZES[size]
    return [
        f"{size} ({layers} layers of {width})",
        f"{here['kernels']}, {here['chains']}",
        f"{least['with']:.4g}",
        f"{least['without'] / least['with']:.3f}x",
        f"{here['plan_ms'] / 1e3:.3f} s",
        f"{there['kernels']}, {there['chains']}",
        f"{there['us']:.0f}",
        f"{flat['us'] / there['us']:.3f}x",
        f"{there['plan_ms'] / 1e3:.3f} s",
        paper,
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)} (all)")
    add("--weft", default=ROOT / "build/release/weft", help="the command (build/release/weft)")
    add("--target", default="a100-40gb", help="GPU to predict for (a100-40gb)")
    add("--tokens", type=int, default=512)
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=5, help="turns of each plan, of three runs (5)")
    options = parser.parse_args()
    heads = ["BERT", "CPU: kernels, chains", "ms", "over no chains", "planning"]
    heads += [f"{options.target}: kernels, chains", "predicted us", "over no chains", "planning"]
    heads += ["MCFuser's tuning"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    for size in options.sizes or SIZES:
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
            print(f"| {' | '.join(row(size, options, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
