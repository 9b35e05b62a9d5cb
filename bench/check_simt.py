"""Compares the CUDA text of weft, run by the emulator, with the interpreter: the long check.

    scripts/check-simt [CASE...] [--weft PATH] [--seconds N]

Cases are the reduced models of tests/models, the packaged models at small shapes (SMALL) and those
cases of models/ that finish within N seconds (120). Every check of the emulator is on: a race, an
access outside a buffer or a read of what nobody wrote fails the case as a wrong value does.

Writes bench/results/check-simt.md when all cases ran. A figure is the worst difference from the
interpreter in tolerances (rtol 1e-3, atol 1e-4; float16 outputs 5e-3). Exits 1 when one failed.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from peers import ATOL, ROOT, RTOL, Failed, call, commit

sys.path.insert(0, str(ROOT / "models"))
import materialize  # noqa: E402

RESULTS = ROOT / "bench/results/check-simt.md"
REDUCED = ROOT / "tests/models"
HALF = 5e-3
# Cases of models/ that one core emulates within the limit.
WHOLE = [
    "elementwise-chain",
    "mmoe",
    "multi-interests",
    "perceptron",
    "se-m0",
    "se-m5",
    "silero-vad",
    "silero-vad-16k-op15",
    "silero-vad-half",
    "var-encoder-infer",
    "word2vec-eval",
]


def picture(n, height, width):
    return lambda rng: {"x": rng.uniform(-1, 1, (n, 3, height, width)).astype(np.float32)}


# case -> (packaged model, inputs from a generator)
SMALL = {
    "ocr-rec-48x32": ("ocr-rec", picture(1, 48, 32)),
    "ocr-rec-2x48x56": ("ocr-rec", picture(2, 48, 56)),
    "ocr-cls-48x32": ("ocr-cls", picture(1, 48, 32)),
    "ocr-det-64x64": ("ocr-det", picture(1, 64, 64)),
    "ocr-det-32x96": ("ocr-det", picture(1, 32, 96)),
    "magika-b1": ("magika", lambda rng: {"bytes": rng.integers(0, 257, (1, 2048), np.int32)}),
}


def cases():
    """case -> (model, inputs), as functions, since models are put into place when their turn comes."""

    def reduced(name):
        return lambda _: (REDUCED / f"{name}.onnx", REDUCED / f"{name}.inputs.npz")

    def small(name):
        def place(folder):
            packaged, inputs = SMALL[name]
            np.savez(folder / "inputs.npz", **inputs(np.random.default_rng(1)))
            return materialize.link_packaged(packaged), folder / "inputs.npz"

        return place

    def whole(name):
        def place(_):
            model, kinds = materialize.case(name)
            return model, kinds["random"]

        return place

    names = sorted(path.stem for path in REDUCED.glob("*.onnx"))
    found = {f"reduced/{name}": reduced(name) for name in names}
    found |= {name: small(name) for name in SMALL}
    return found | {name: whole(name) for name in WHOLE}


def worst_difference(values, expected):
    worst = 0.0
    for name in expected:
        v, e = values[name], expected[name]
        if v.shape != e.shape:
            raise Failed(f"wrong: {name} has shape {v.shape}, not {e.shape}")
        half = e.dtype == np.float16
        v, e = v.astype(np.float64), e.astype(np.float64)
        if (np.isnan(v) != np.isnan(e)).any():
            raise Failed(f"wrong: NaN in other places of {name}")
        with np.errstate(invalid="ignore"):
            error = np.where((v == e) | np.isnan(e), 0, abs(v - e))
        size = np.where(np.isfinite(e), abs(e), 0)
        rtol, atol = (HALF, HALF) if half else (RTOL, ATOL)
        worst = max(worst, float((error / (atol + rtol * size)).max(initial=0)))
    if not worst <= 1:
        raise Failed(f"wrong: {worst:.3g}")
    return worst


def check(options, place):
    """(worst difference, seconds on the emulator)."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        model, inputs = place(folder)
        outputs, seconds = {}, 0.0
        for target in ("interp", "simt"):
            start = time.perf_counter()
            command = [options.weft, "run", model, "--inputs", inputs, "--target", target]
            command += ["--no-cache", "--output-dir", folder / target]
            call(command, os.sched_getaffinity(0), options.seconds)
            seconds = time.perf_counter() - start
            outputs[target] = {p.name: np.load(p) for p in sorted((folder / target).glob("*.npy"))}
        if outputs["simt"].keys() != outputs["interp"].keys():
            raise Failed("wrong: other outputs")
        return worst_difference(outputs["simt"], outputs["interp"]), seconds


def write_table(rows, checked):
    failures = sum(not text[0].isdigit() for _, text, _ in rows)
    lines = [
        "# weft's CUDA text on the emulator beside the interpreter",
        "",
        f"Written by `scripts/check-simt` from commit {checked}: `--target simt`, planned for the "
        f"device that it names, all checks on. The worst difference of any output element in "
        f"tolerances (rtol {RTOL}, atol {ATOL}; float16 {HALF}), and the seconds of compiling "
        f"the text with g++ and running it. {len(rows)} rows, {failures} failures.",
        "",
        "| model | difference | seconds |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {text} | {seconds} |" for name, text, seconds in rows]
    RESULTS.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="names as in the table; all of them by default")
    parser.add_argument("--weft", default=ROOT / "build/release/weft", help="the command")
    parser.add_argument("--seconds", type=float, default=120, help="limit of one run (120)")
    options = parser.parse_args()
    checked = commit()  # as it is now: the run takes long
    places = cases()
    rows = []
    for name in options.cases or places:
        try:
            worst, seconds = check(options, places[name])
            row = (name, f"{worst:.2g}", f"{seconds:.1f}")
        except Failed as failure:
            row = (name, str(failure), "")
        rows.append(row)
        print(*row, flush=True)
    if not options.cases:
        write_table(rows, checked)
    failed = sum(not text[0].isdigit() for _, text, _ in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
