"""Times detectors, whose outputs have as many rows as they find, beside onnxruntime and OpenVINO.

    python3 -m venv build/venv-networks && build/venv-networks/bin/pip install torchvision onnx onnxscript
    build/venv-networks/bin/python bench/detectors.py --make [NAME...]
    tests/python/install_wheel build/release build/venv-wheel
    build/venv-wheel/bin/python bench/detectors.py [NAME...] [--threads 2] [--rounds 9]

`--make` writes networks of torchvision with random weights, and images: noise over a pattern. Each
engine is a process of its own, and turns alternate. "again" is a run on an image that came before,
"new" one on an image that comes for the first time, with other numbers of boxes inside: medians, in
milliseconds, of as many runs as there are rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "build/detectors"
WARM = 8  # images
ENGINES = ("weft", "onnxruntime", "openvino")
# name: function of torchvision.models.detection, its settings, extent of the image
NETWORKS = {
    "ssdlite": (
        "ssdlite320_mobilenet_v3_large",
        {"score_thresh": 0.001, "detections_per_img": 50},
        320,
    ),
    "ssd300": ("ssd300_vgg16", {"score_thresh": 0.02}, 300),
    "retinanet": ("retinanet_resnet50_fpn", {"score_thresh": 0.01}, 256),
    "fcos": ("fcos_resnet50_fpn", {"score_thresh": 0.1}, 256),
    "fasterrcnn-mobilenet": (
        "fasterrcnn_mobilenet_v3_large_320_fpn",
        {"box_score_thresh": 0.001},
        320,
    ),
    "fasterrcnn": ("fasterrcnn_resnet50_fpn", {"box_score_thresh": 0.001}, 256),
    "maskrcnn": (
        "maskrcnn_resnet50_fpn",
        {"box_score_thresh": 0.001, "box_detections_per_img": 20},
        256,
    ),
    "keypointrcnn": (
        "keypointrcnn_resnet50_fpn",
        {"box_score_thresh": 0.4, "box_detections_per_img": 20},
        256,
    ),
}


def make(name):
    import torch
    from torchvision.models import detection

    function, settings, extent = NETWORKS[name]
    if extent == 256:
        settings = {"min_size": 256, "max_size": 320, **settings}
    torch.manual_seed(0)
    network = getattr(detection, function)(weights=None, weights_backbone=None, **settings).eval()
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        network,
        ([torch.rand(3, extent, extent)],),
        str(FOLDER / f"{name}.onnx"),
        opset_version=16,
        dynamo=False,
        input_names=["image"],
    )


def image(extent, number):
    random = np.random.default_rng(number)
    y, x = np.mgrid[0:extent, 0:extent] / extent
    waves = [np.sin(2 * np.pi * (a * x + b * y)) for a, b in random.uniform(1, 6, (3, 2))]
    noise = random.standard_normal((3, extent, extent))
    return np.clip(0.5 + 0.3 * np.stack(waves) + 0.1 * noise, 0, 1).astype(np.float32)


def engine_of(kind, name, threads):
    """A function from an image to the list of outputs."""
    path = str(FOLDER / f"{name}.onnx")
    if kind == "openvino":
        import openvino

        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(path, "CPU", settings)
        return lambda x: list(compiled([x]).values())
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if kind == "weft":
        import weft

        session = weft.InferenceSession(path, sess_options=options)
    else:
        session = onnxruntime.InferenceSession(path, options)
    return lambda x: session.run(None, {"image": x})


def work(kind, name, threads):
    """Runs the images whose numbers come on stdin; writes the milliseconds, and what it found."""
    extent = NETWORKS[name][2]
    run = engine_of(kind, name, threads)
    for line in sys.stdin:
        x = image(extent, int(line))
        begin = time.perf_counter()
        outputs = run(x)
        ms = 1e3 * (time.perf_counter() - begin)
        # Boxes with the same score come in any order: scores say whether the same were found.
        scores = next(o for o in outputs if o.ndim == 1 and o.dtype == np.float32)
        print(json.dumps({"ms": ms, "scores": sorted(scores.tolist())}), flush=True)


class Worker:
    def __init__(self, kind, name, threads):
        command = [sys.executable, __file__, "--work", kind, name, "--threads", str(threads)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def run(self, number):
        """None where the engine does not take the network."""
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None


def compare(name, threads, rounds):
    """Milliseconds by engine and kind of run; the share of the scores that all engines found."""
    workers = {kind: Worker(kind, name, threads) for kind in ENGINES}
    times = {kind: {"again": [], "new": []} for kind in ENGINES}
    same = []
    number = 0
    for kind in list(workers):
        # Not timed: which sizes change is known then, and most kernels are there.
        if not all(workers[kind].run(10_000 + i) for i in range(WARM)):
            del workers[kind], times[kind]
    for _ in range(rounds):
        number += 1
        for way in ("new", "again"):
            found = {}
            for kind, worker in workers.items():
                # Compiled for these shapes, where an engine does so, before it counts as seen.
                if way == "again":
                    worker.run(number)
                result = worker.run(number)
                times[kind][way].append(result["ms"])
                found[kind] = result["scores"]
            reference = found["onnxruntime"]
            ours = found["weft"]
            if len(ours) == len(reference):
                apart = np.abs(np.subtract(ours, reference)) > 1e-3
                same.append(1 - apart.mean() if len(ours) else 1)
            else:
                same.append(0)
    for worker in workers.values():
        worker.process.stdin.close()
        worker.process.wait()
    return times, statistics.mean(same)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--work", metavar="ENGINE", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    names = options.names or list(NETWORKS)
    if options.work:
        work(options.work, names[0], options.threads)
        return
    if options.make:
        for name in names:
            make(name)
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print("| network | run | weft ms | onnxruntime ms | OpenVINO ms | weft over the better | same |")
    print("|---|---|---|---|---|---|---|")
    ratios = {"again": [], "new": []}
    for name in names:
        times, same = compare(name, options.threads, options.rounds)
        for way, all_ratios in ratios.items():
            medians = {kind: statistics.median(t[way]) for kind, t in times.items()}
            best = min(ms for kind, ms in medians.items() if kind != "weft")
            all_ratios.append(best / medians["weft"])
            cells = [f"{medians[k]:.4g}" if k in medians else "-" for k in ENGINES]
            print(f"| {name} | {way} | {' | '.join(cells)} | {all_ratios[-1]:.2f}x | {same:.0%} |")
        sys.stdout.flush()
    for way, all_ratios in ratios.items():
        mean = statistics.geometric_mean(all_ratios)
        print(f"\n{way}: geometric mean {mean:.2f}x, least {min(all_ratios):.2f}x", end="")
    print()


if __name__ == "__main__":
    main()
