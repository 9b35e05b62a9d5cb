"""Makes models of 8 bits with onnxruntime's quantiser, and times weft and its peers on them.

    bench/quantised [CASE... | all] [--forms qdq,dynamic] [--threads 2,1] [--make] [--json FILE]

Cases are those of models/materialize.py. A quantised model is build/models/CASE.FORM.onnx:

- qdq: QuantizeLinear and DequantizeLinear around every operator that the quantiser knows, weights
  per channel in int8, activations per tensor in uint8. Calibrated with the case's inputs and two
  shuffles of them.
- dynamic: DynamicQuantizeLinear and MatMulInteger, weights per channel in int8.

Engines run as in bench/peers: a process each, on the same cores, stopped while another is measured.
Figures are minima over alternating turns, so that a busy machine says little else than they are.
"speed" is the time of the better peer over weft's: above 1, weft is faster than both.

"apart" is the root of the mean square distance from onnxruntime without optimisations, relative to
the outputs' own, of the worst output: weft's, and behind it optimised onnxruntime's. Quantised
models round differently where float32 sums associate differently, so that these are no zeros.
"""

import argparse
import json
import os
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import peers
from peers import ROOT, Case, Failed, Peer, Weft, geometric_mean, materialize

CASES = [
    "resnet50",
    "efficientnet-b0",
    "minilm-s128",
    "bert-base-s128",
    "vit-b16",
    "swin-b",
    "ocr-det-320x320",
    "ocr-rec-48x320",
    "ocr-cls-48x192",
]
FORMS = ("qdq", "dynamic")
ENGINES = ("weft", "onnxruntime", "openvino")
REFERENCE = "onnxruntime-plain"
PER_CHANNEL_OPSET = 13


class Calibration:
    """The case's inputs, then shuffles of each, in the quantiser's protocol."""

    def __init__(self, name, inputs, shuffles=2):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.left = [inputs]
        for _ in range(shuffles):
            mixed = {key: rng.permuted(value.ravel()) for key, value in inputs.items()}
            self.left.append({key: mixed[key].reshape(inputs[key].shape) for key in inputs})

    def get_next(self):
        return self.left.pop(0) if self.left else None


def fix_shapes(model, inputs, path):
    """Symbolic dimensions get the extents of the case, as the quantiser infers shapes, and old
    models the first opset whose DequantizeLinear has an axis."""
    import onnx
    from onnx import version_converter

    proto = onnx.load(model)
    if max(o.version for o in proto.opset_import if o.domain == "") < PER_CHANNEL_OPSET:
        proto = version_converter.convert_version(proto, PER_CHANNEL_OPSET)
    for value in proto.graph.input:
        if value.name not in inputs:
            continue
        for dim, extent in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape):
            dim.dim_value = extent
    onnx.save(proto, path)


def make(name, form):
    """The quantised model of a case; made where it is missing. Returns (model, inputs)."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model, inputs = materialize.case(name)
    out = materialize.OUTPUT / f"{name}.{form}.onnx"
    if out.exists():
        return out, inputs["random"]
    values = dict(np.load(inputs["random"]))
    with tempfile.TemporaryDirectory(dir=materialize.OUTPUT) as directory:
        fixed, inferred, part = (Path(directory) / f"{n}.onnx" for n in ("fixed", "inferred", "q"))
        fix_shapes(model, values, fixed)
        quant_pre_process(str(fixed), str(inferred), skip_symbolic_shape=True)
        if form == "dynamic":
            quantization.quantize_dynamic(
                str(inferred), str(part), per_channel=True, weight_type=quantization.QuantType.QInt8
            )
        else:
            quantization.quantize_static(
                str(inferred),
                str(part),
                Calibration(name, values),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
            )
        part.replace(out)
    return out, inputs["random"]


def apart(values, reference):
    """The worst output's distance, relative."""
    worst = 0.0
    for value, expected in zip(values, reference, strict=True):
        value, expected = value.astype(np.float64), expected.astype(np.float64)
        if value.shape != expected.shape or not np.isfinite(value).all():
            raise Failed("wrong: shape, or not finite")
        size = np.sqrt(np.mean(expected**2))
        worst = max(worst, float(np.sqrt(np.mean((value - expected) ** 2)) / (size or 1)))
    return worst


def reference_outputs(case, directory):
    file = Path(directory) / "reference.npz"
    peers.call(peers.worker(REFERENCE, case.model, case.inputs, len(case.cores), file), case.cores)
    return list(np.load(file).values())


def start(engine, options, case, directory):
    if engine == "weft":
        return Weft(options, case, directory, None)
    return Peer(engine, options, case, directory)


def measure(name, form, cores, options):
    """{"model", "form", "threads", engine: {"status", "min_ms", "apart"}, "speed"}."""
    model, inputs = make(name, form)
    case = Case(f"{model}:{inputs}", cores)
    row = {"model": name, "form": form, "threads": len(cores)}
    running = {}
    with tempfile.TemporaryDirectory() as directory:
        reference = reference_outputs(case, directory)
        for engine in options.engines:
            row[engine] = {"status": "ok"}
            try:
                running[engine] = start(engine, options, case, Path(directory))
                row[engine]["apart"] = apart(running[engine].outputs(), reference)
            except Failed as failure:
                row[engine]["status"] = str(failure)
                if engine in running:
                    running.pop(engine).close()
        for turn in range(options.rounds):
            engines = list(running)
            for engine in engines[turn % len(engines) :] + engines[: turn % len(engines)]:
                took = running[engine].turn(options.seconds)["min_ms"]
                row[engine]["min_ms"] = min(took, row[engine].get("min_ms", took))
        for process in running.values():
            process.close()
    others = [row[e]["min_ms"] for e in options.engines if e != "weft" and "min_ms" in row[e]]
    if others and "min_ms" in row.get("weft", {}):
        row["speed"] = min(others) / row["weft"]["min_ms"]
    return row


def cell(result):
    return f"{result['min_ms']:.4g}" if "min_ms" in result else result["status"]


def print_table(rows, engines):
    lines = [["model", "form", "threads", *(f"{e} ms" for e in engines), "speed", "apart"]]
    for row in rows:
        speed = f"{row['speed']:.2f}" if "speed" in row else ""
        distances = [row.get(e, {}).get("apart") for e in ("weft", "onnxruntime")]
        said = " / ".join("-" if d is None else f"{d:.2g}" for d in distances)
        cells = [cell(row[e]) for e in engines]
        lines.append([row["model"], row["form"], str(row["threads"]), *cells, speed, said])
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |")
    speeds = [row["speed"] for row in rows if "speed" in row]
    if speeds:
        print(f"\nspeed: geometric mean {geometric_mean(speeds):.2f}, least {min(speeds):.2f}")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="CASE", help="cases of materialize.py; default nine of them")
    add("--forms", default=",".join(FORMS), help="which of qdq, dynamic")
    add("--make", action="store_true", help="only make the models")
    add("--threads", default=None, help="list, such as 2,1; default all cores")
    add("--rounds", type=int, default=7, help="turns of each engine (7)")
    add("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    add("--engines", default=",".join(ENGINES), help="which, in table order")
    add("--plan", help="weft's --plan")
    add("--processor-time", action="store_true", help="of each run, on one thread")
    add("--json", metavar="FILE", help="write all figures")
    add("--weft", default=ROOT / "build/release/weft", help="the command")
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    options.forms = options.forms.split(",")
    if options.models in ([], ["all"]):
        options.models = CASES
    if unknown := set(options.forms) - set(FORMS):
        parser.error(f"no form is called {', '.join(sorted(unknown))}")
    return options


def main():
    options = parse_options()
    cores = sorted(os.sched_getaffinity(0))
    counts = [int(n) for n in options.threads.split(",")] if options.threads else [len(cores)]
    rows = []
    for name in options.models:
        for form in options.forms:
            if options.make:
                print(make(name, form)[0])
                continue
            for count in counts:
                rows.append(measure(name, form, set(cores[:count]), options))
                said = {engine: cell(rows[-1][engine]) for engine in options.engines}
                print(f"{name} {form}, {count} threads: {said}", file=sys.stderr, flush=True)
    if options.make:
        return
    print_table(rows, options.engines)
    if options.json:
        header = {"commit": peers.commit(), "processor": peers.processor()}
        Path(options.json).write_text(json.dumps(header | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
