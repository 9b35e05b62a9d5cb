"""Compares weft with onnxruntime, by output values, on all models: the long check.

    scripts/check-models [CASE...] [--weft PATH]

Every case of models/ with its random and its natural inputs, at rtol 1e-3 and atol 1e-4, with
--plan none, with the default plan and with --target interp (given a minute). The speech models also
run 50 chunks of sound in a row, each fed with the state that weft itself returned.

Writes bench/results/check-models.md when all cases ran. A figure is the worst difference from
onnxruntime in tolerances. Where it exceeds 1, both are compared with the model's values in float64
(bench/float64.py): weft must not be farther from them than FACTOR times what onnxruntime is, and
the table says both distances. Exits 1 when one failed.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from float64 import float64_outputs
from peers import ATOL, ROOT, RTOL, Failed, call, commit, differences, written_outputs

sys.path.insert(0, str(ROOT / "models"))
import materialize  # noqa: E402
import natural  # noqa: E402

RESULTS = ROOT / "bench/results/check-models.md"
WAYS = {
    "--plan none": (["--plan", "none"], 900),
    "default plan": ([], 900),
    "interpreter": (["--target", "interp"], 60),
}
CHUNKS = 50
FACTOR = 1.5


def judge(outputs, expected, model, inputs):
    """What the table says of weft's outputs beside onnxruntime's `expected`."""
    worst = differences(outputs, expected)
    if worst <= 1:
        return f"{worst:.2g}"
    exact = float64_outputs(str(model), str(inputs))
    weft, peer = differences(outputs, exact), differences(expected, exact)
    text = f"{worst:.3g}; from float64: weft {weft:.3g}, onnxruntime {peer:.3g}"
    if not weft <= FACTOR * peer:
        raise Failed(f"wrong: {text}")
    return text


def run_weft(options, case, way, inputs, names):
    """weft's outputs for the arrays in the file `inputs`, in the order of `names`."""
    extra, seconds = WAYS[way]
    with tempfile.TemporaryDirectory() as directory:
        command = [options.weft, "run", case, "--inputs", inputs, *extra]
        call(command + ["--output-dir", directory], os.sched_getaffinity(0), seconds)
        return written_outputs(Path(directory), names)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def check_once(options, model, inputs):
    """{way: worst difference or what went wrong} on one file of inputs."""
    peer = session(model)
    expected = peer.run(None, dict(np.load(inputs)))
    names = [output.name for output in peer.get_outputs()]
    del peer
    row = {}
    for way in WAYS:
        try:
            outputs = run_weft(options, model, way, inputs, names)
            row[way] = judge(outputs, expected, model, inputs)
        except Failed as failure:
            row[way] = str(failure)
    return row


def sound_chunks():
    """Inputs of 576 samples each: 512 new ones behind the last 64 of the chunk before."""
    sound = np.concatenate([np.zeros(64, np.float32), natural.voice(CHUNKS * 512)])
    return [sound[None, i * 512 : i * 512 + 576] for i in range(CHUNKS)]


def check_stream(options, model, inputs):
    """The same over CHUNKS chunks, the state going round; `inputs` gives the rest."""
    peer = session(model)
    names = [output.name for output in peer.get_outputs()]
    first = dict(np.load(inputs))
    expected, state = [], first["state"]
    for chunk in sound_chunks():
        expected.append(peer.run(names, first | {"input": chunk, "state": state}))
        state = expected[-1][names.index("stateN")]
    row = {}
    for way in WAYS:
        state, worst, start = first["state"], 0, time.perf_counter()
        try:
            for chunk, values in zip(sound_chunks(), expected):
                with tempfile.NamedTemporaryFile(suffix=".npz") as file:
                    np.savez(file.name, **(first | {"input": chunk, "state": state}))
                    outputs = run_weft(options, model, way, file.name, names)
                    worst = max(worst, differences(outputs, values))
                state = outputs[names.index("stateN")]
                if way == "interpreter" and time.perf_counter() - start > 60:
                    raise Failed("over 60 s")
            if not worst <= 1:
                raise Failed(f"wrong: {worst:.3g}")
            row[way] = f"{worst:.2g}"
        except Failed as failure:
            row[way] = str(failure)
    return row


def acceptable(way, text):
    """A figure (only what passed starts with one), or the interpreter out of time."""
    return text[0].isdigit() or (way == "interpreter" and text.startswith("over"))


def write_table(rows, checked):
    failures = sum(not acceptable(way, text) for _, _, row in rows for way, text in row.items())
    lines = [
        "# weft beside onnxruntime, by output values",
        "",
        f"Written by `scripts/check-models` from commit {checked}. The worst difference of any "
        f"output element from onnxruntime, in tolerances (rtol {RTOL}, atol {ATOL}). Where it "
        "exceeds 1 the model itself is ill-conditioned in float32, and both are judged by its "
        f"values in float64: weft may be at most {FACTOR} times as far from them as onnxruntime. "
        f"{len(rows)} rows, {failures} failures.",
        "",
        f"| model | inputs | {' | '.join(WAYS)} |",
        "|---" * (2 + len(WAYS)) + "|",
    ]
    for name, kind, row in rows:
        lines.append(f"| {name} | {kind} | {' | '.join(row[way] for way in WAYS)} |")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="cases of models/; all of them by default")
    parser.add_argument("--weft", default=ROOT / "build/release/weft", help="the command")
    options = parser.parse_args()
    checked = commit()  # as it is now: the run takes long
    rows = []

    def add(name, kind, row):
        rows.append((name, kind, row))
        print(name, kind, row, flush=True)

    for name in options.cases or materialize.names():
        model, kinds = materialize.case(name)
        for kind, inputs in kinds.items():
            add(name, kind, check_once(options, model, inputs))
        if name.startswith("silero"):
            add(name, f"{CHUNKS} chunks", check_stream(options, model, kinds["natural"]))
    if not options.cases:
        write_table(rows, checked)
    failed = [row for row in rows if not all(acceptable(*item) for item in row[2].items())]
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
