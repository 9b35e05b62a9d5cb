"""What `weft run --async` takes beside a run that waits for its plan.

    bench/async_runs [CASE...] [--threads 2] [--runs 60] [--rounds 5]

Each case of models/materialize.py is compiled and run so often by one command, in alternating
turns: waiting, with --async and nothing in the cache, and with --async and the unfused model in it,
as a second start has it. Seconds of the whole command, the median of the turns, and ratios to
waiting (below 1: sooner); whether the last run's outputs are those of waiting. Exits 1 where they
are not.
"""

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from peers import ROOT, Case, Failed, call

CASES = ["minilm-s128", "efficientnet-b0", "ocr-det-320x320", "crnn-b1", "vit-b16", "swin-b"]
MODES = ("waits", "async", "async, unfused in the cache")


def command(case, options, mode, cache):
    out = [options.weft, "run", case.model, "--inputs", case.inputs, "--runs", str(options.runs)]
    out += ["--threads", str(options.threads)]
    out += ["--cache", cache] if mode == MODES[2] else ["--no-cache"]
    return out if mode == MODES[0] else [*out, "--async"]


def numbers(said):
    """Per output: the numbers that `weft run` prints."""
    return [
        [float(n) for n in re.findall(r"(?:min|mean|max) (\S+)", line)]
        for line in said.splitlines()
        if " mean " in line
    ]


def alike(a, b):
    scale = [max(1e-6, *(abs(n) for n in line)) for line in a]
    return len(a) == len(b) and all(
        abs(m - n) <= 1e-3 * s for x, y, s in zip(a, b, scale) for m, n in zip(x, y)
    )


def run_turn(case, options, mode, folder, row):
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    if mode == MODES[2]:
        shutil.copytree(folder / "unfused", cache)
    start = time.monotonic()
    said = call(command(case, options, mode, cache), case.cores)
    row[mode].append(time.monotonic() - start)
    row["said"].setdefault(mode, numbers(said))


def measure(name, options):
    case = Case(name, set(sorted(os.sched_getaffinity(0))[: options.threads]))
    row = {"model": case.name, "said": {}, **{mode: [] for mode in MODES}}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as made:
        folder = Path(made)
        fill = [options.weft, "run", case.model, "--inputs", case.inputs, "--plan", "none"]
        fill += ["--threads", str(options.threads), "--cache", folder / "unfused"]
        try:
            call(fill, case.cores)
            for turn in range(options.rounds):
                for mode in MODES if turn % 2 == 0 else MODES[::-1]:
                    run_turn(case, options, mode, folder, row)
        except Failed as failure:
            row["failed"] = str(failure)
    return row


def ratio(row, mode):
    return statistics.median(row[mode]) / statistics.median(row[MODES[0]])


def is_right(row):
    return all(alike(row["said"][MODES[0]], row["said"][mode]) for mode in MODES[1:])


def line(row):
    if "failed" in row:
        return f"| {row['model']} | {row['failed']} |" + " |" * 4
    times = [f"{statistics.median(row[mode]):.3f}" for mode in MODES]
    cells = [row["model"], times[0]]
    for mode, seconds in zip(MODES[1:], times[1:]):
        cells.append(f"{seconds} ({ratio(row, mode):.2f})")
    return f"| {' | '.join([*cells, 'as they are' if is_right(row) else 'OTHERS'])} |"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="MODEL", help="case, or FILE.onnx:INPUTS.npz")
    add("--weft", default=ROOT / "build/release/weft", help="the command (build/release/weft)")
    add("--threads", type=int, default=2, help="of runs, and cores of everything (2)")
    add("--runs", type=int, default=60, help="of a command (60)")
    add("--rounds", type=int, default=5, help="turns of each (5)")
    options = parser.parse_args()
    options.models = options.models or CASES
    return options


def main():
    options = parse_options()
    print(f"| model | {' s | '.join(MODES)} s | outputs |\n{'|---' * 5}|", flush=True)
    wrong = False
    for name in options.models:
        row = measure(name, options)
        print(line(row), flush=True)
        wrong |= "failed" in row or not is_right(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
