#!/usr/bin/env python3
"""PyTorch on the GPU of this machine beside weft's cases: the chains of MCFuser and the six models of Souffle.

    gpu_torch.py [CASE...] [--output FILE] [--minutes M] [--export FOLDER]
    gpu_torch.py --list

A case with *N behind it is a batch of N. With --export each model is written into a folder as CASE.onnx with CASE.npz
of its inputs, for gpu_models.py.

Each case is compiled in a process of its own, several at a time; then they are timed one after
another: torch.compile, replayed as a CUDA graph, and, where it says `fused`, the attention that
PyTorch brings. Microseconds by CUDA events, the second-level cache warm, the median of 15 samples of
20 runs. float32 products are float32 (allow_tf32 off), as weft's are.
"""

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from chain_sizes import ATTENTION, PRODUCTS

MODELS = ["bert-base-s384", "resnext101-64x4d", "efficientnet-b0", "swin-b", "mmoe", "lstm", "resnet50", "vit-b16"]
CASES = ["chains", *MODELS, *(f"{m}-f16" for m in MODELS if m not in ("mmoe", "lstm"))]


def timed(torch, function, arguments):
    """Microseconds of a replay."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            function(*arguments)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        function(*arguments)
    samples = []
    for _ in range(16):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            begin.record()
            for _ in range(20):
                graph.replay()
            end.record()
        stream.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / 20)
    return statistics.median(samples[1:])


def chains(torch):
    """(name, {way: function}, arguments)"""
    half = {"device": "cuda", "dtype": torch.float16}
    for name, (b, m, n, k, h) in PRODUCTS.items():
        arguments = [torch.randn(*s, **half) for s in ((b, m, k), (b, k, n), (b, n, h))]
        yield name, {"compiled": torch.compile(lambda x, w, u: x @ w @ u)}, arguments
    attend = torch.nn.functional.scaled_dot_product_attention
    for name, (b, m, n, k, h) in ATTENTION.items():
        arguments = [torch.randn(1, *s, **half) for s in ((b, m, k), (b, n, k), (b, n, h))]
        plain = lambda q, x, v, c=k**-0.5: torch.softmax((q @ x.transpose(-1, -2)).float() * c, -1).half() @ v  # noqa: E731
        yield name, {"compiled": torch.compile(plain, dynamic=False), "fused": attend}, arguments


def mmoe(torch):
    """models/onnx/mmoe: 8 experts of 16 units, two gates over them."""
    nn = torch.nn

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts, self.bias = nn.Parameter(torch.randn(100, 128) / 10), nn.Parameter(torch.randn(8))
            self.gates = nn.ModuleList(nn.Linear(100, 8) for _ in range(2))

        def forward(self, x):
            units = torch.relu((x @ self.experts).reshape(-1, 16, 8) + self.bias)
            return [(units * torch.softmax(gate(x), -1).unsqueeze(1)).sum(-1) for gate in self.gates]

    return Experts()


def model_of(torch, name):
    """(module, arguments) of a case."""
    import torchvision
    import transformers

    name, _, batch = name.partition("*")
    base, batch = name.removesuffix("-f16"), int(batch or 1)
    picture = (torch.randn(batch, 3, 224, 224),)
    if base == "bert-base-s384":
        module = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))
        arguments = (torch.randint(0, 30000, (batch, 384)), torch.ones(batch, 384, dtype=torch.int64))
    elif base == "lstm":
        module, arguments = torch.nn.LSTM(256, 256, num_layers=10), (torch.randn(100, 1, 256),)
    elif base == "mmoe":
        module, arguments = mmoe(torch), (torch.randn(1, 100),)
    else:
        make = {"resnext101-64x4d": "resnext101_64x4d", "efficientnet-b0": "efficientnet_b0", "swin-b": "swin_b",
                "resnet50": "resnet50", "vit-b16": "vit_b_16"}[base]  # fmt: skip
        module, arguments = getattr(torchvision.models, make)(weights=None), picture
    module = module.eval().cuda()
    arguments = tuple(a.cuda() for a in arguments)
    if base != name:
        module = module.half()
        arguments = tuple(a.half() if a.is_floating_point() else a for a in arguments)
    return module, arguments


def export(torch, module, arguments, path):
    """As ONNX, with its inputs beside it."""
    import numpy as np

    names = [f"input{i}" for i in range(len(arguments))]
    torch.onnx.export(module, arguments, path, dynamo=True, input_names=names, external_data=True, verbose=False)
    np.savez(path.with_suffix(".npz"), **{n: a.cpu().numpy() for n, a in zip(names, arguments)})


def run_case(name, lock, go, folder):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if name == "chains":
        ready = []
        for case, ways, arguments in chains(torch):
            for way, function in ways.items():
                with torch.no_grad():
                    function(*arguments)
                ready.append((case, way, function, arguments))
    else:
        module, arguments = model_of(torch, name)
        if folder:
            export(torch, module, arguments, folder / f"{name.replace('*', '-x')}.onnx")
        compiled = torch.compile(module, dynamic=False)
        with torch.no_grad():
            module(*arguments)
            compiled(*arguments)
        ready = [(name, "eager", module, arguments), (name, "compiled", compiled, arguments)]
    print(json.dumps({"ready": name}), flush=True)
    while not Path(go).exists():
        time.sleep(0.05)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for case, way, function, arguments in ready:
            try:
                print(json.dumps({"case": case, "way": way, "us": timed(torch, function, arguments)}), flush=True)
            except Exception as error:
                print(json.dumps({"case": case, "way": way, "error": repr(error)[:300]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--output", default="gpu-torch.json")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--lock", default="/tmp/weft-torch.lock")
    parser.add_argument("--go", help="a file: timing begins when it is there")
    parser.add_argument("--ready", type=Path, help="a file to make when all cases are compiled")
    parser.add_argument("--export", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    go = options.go or "/"
    if options.one:
        return run_case(options.cases[0], options.lock, go, options.export)
    end = time.monotonic() + 60 * options.minutes
    words = [sys.executable, str(Path(__file__).resolve()), "--one", "--lock", options.lock, "--go", go]
    if options.export:
        options.export.mkdir(parents=True, exist_ok=True)
        words += ["--export", str(options.export)]
    files = {}
    for case in options.cases or CASES:
        out = Path(f"{options.output}.{case}")
        files[case] = (out, subprocess.Popen([*words, case], stdout=out.open("w"), stderr=Path(f"{out}.err").open("w")))
    def compiled(out, process):
        return process.poll() is not None or '"ready"' in out.read_text()

    while not all(compiled(*file) for file in files.values()) and time.monotonic() < end:
        time.sleep(0.1)
    if options.ready:
        options.ready.touch()
    for out, process in files.values():
        try:
            process.wait(timeout=max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    found = []
    for case, (out, process) in files.items():
        records = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{")]
        found += [r for r in records if "case" in r]
        if process.returncode:
            said = Path(f"{out}.err").read_text().strip().splitlines()
            found.append({"case": case, "error": said[-1][-300:] if said else f"exit code {process.returncode}"})
    import importlib.metadata

    Path(options.output).write_text(json.dumps({"torch": importlib.metadata.version("torch"), "records": found}) + "\n")
    for record in found:
        print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
