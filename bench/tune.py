"""What `weft tune` finds beyond the choice of the model, measured afresh.

    bench/tune [CASE... | all] [--threads 2] [--time-limit 60] [--rounds 15] [--json FILE]

Tunes each case of models/materialize.py into a library of its own, or goes on with one that is in
--libraries. Then two artefacts, one planned without and one with the library, are run in
alternating turns, each a process; the one that goes first changes from round to round. A figure is
the median of the turns' medians, speed the ratio of the two (above 1: tuning found something). The
geometric mean says how far the choices of the model are from the best that was tried: above --most,
the model is wrong, and the exit code 1.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from peers import ROOT, Case, Failed, call, geometric_mean, materialize

CASES = ["softmax-4096x1024", "layernorm-512x768", "lstm-op", "minilm-s128", "resnet50"]
PLANS = ("model_ms", "tuned_ms")


def tune(case, library, options):
    """{"candidates", "quicker"} of a run of `weft tune`, or what an earlier one left."""
    command = [options.weft, "tune", case.model, "--inputs", case.inputs, "--library", library]
    command += ["--threads", str(options.threads), "--time-limit", str(options.time_limit)]
    said = call([*command, "--most", str(options.most_candidates)], case.cores)
    found = re.search(r"(\d+) candidates of (\d+) .* measured, (\d+) .*; (\d+) kernels", said)
    measured, kernels, known, quicker = (int(number) for number in found.groups())
    return {
        "kernels": kernels,
        "candidates": measured + known,
        "quicker": quicker,
        "whole": "the time was over" not in said,
    }


def compile_both(case, library, folder, options):
    for plan in PLANS:
        command = [options.weft, "compile", case.model, "--inputs", case.inputs, "--no-cache"]
        command += ["--threads", str(options.threads), "-o", folder / f"{plan}.weft"]
        call([*command, *(["--library", library] if plan == "tuned_ms" else [])], case.cores)


def run_round(order, case, folder, options, row):
    for plan in order:
        command = [options.weft, "bench", folder / f"{plan}.weft", "--inputs", case.inputs]
        command += ["--threads", str(options.threads), "--seconds", str(options.seconds), "--json"]
        row[plan].append(json.loads(call(command, case.cores))["median_ms"])


def measure(name, options):
    """{"model", what tuning says, plan: [ms of each round]}, with "failed" where something did."""
    case = Case(name, set(sorted(os.sched_getaffinity(0))[: options.threads]))
    row = {"model": case.name, **{plan: [] for plan in PLANS}}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        kept = Path(options.libraries or folder)
        kept.mkdir(parents=True, exist_ok=True)
        library = kept / f"{case.name}.db"
        try:
            row.update(tune(case, library, options))
            compile_both(case, library, Path(folder), options)
            for turn in range(options.rounds):
                run_round(PLANS if turn % 2 == 0 else PLANS[::-1], case, Path(folder), options, row)
        except Failed as failure:
            row["failed"] = str(failure)
    return row


def speed(row):
    return statistics.median(row["model_ms"]) / statistics.median(row["tuned_ms"])


def header():
    cells = ["model", "ms", "tuned ms", "speed", "kernels", "candidates", "kernels with a quicker"]
    return f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|"


def line(row):
    if "failed" in row:
        return f"| {row['model']} | {row['failed']} |" + " |" * 5
    times = [f"{statistics.median(row[key]):.4g}" for key in ("model_ms", "tuned_ms")]
    candidates = f"{row['candidates']}{'' if row['whole'] else ' (time was over)'}"
    cells = [row["model"], *times, f"{speed(row):.3f}x", str(row["kernels"]), candidates]
    return f"| {' | '.join([*cells, str(row['quicker'])])} |"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="MODEL", help="case, FILE.onnx:INPUTS.npz, or 'all'")
    add("--weft", default=ROOT / "build/release/weft", help="the command (build/release/weft)")
    add("--threads", type=int, default=2, help="of runs, and cores of everything (2)")
    add("--time-limit", type=float, default=60, help="seconds of tuning a case (60)")
    add("--most-candidates", type=int, default=8, help="of each distinct kernel (8)")
    add("--rounds", type=int, default=15, help="turns of each artefact (15)")
    add("--seconds", type=float, default=0.4, help="length of a turn (0.4)")
    add("--libraries", metavar="FOLDER", help="keep the libraries, and go on with those there")
    add("--most", type=float, default=1.05, help="mean above which the exit code is 1 (1.05)")
    add("--json", metavar="FILE", help="write all figures")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds starts at 1")
    options.models = materialize.names() if options.models == ["all"] else options.models or CASES
    return options


def main():
    options = parse_options()
    print(header(), flush=True)
    rows = []
    for name in options.models:
        rows.append(measure(name, options))
        print(line(rows[-1]), flush=True)
    speeds = [speed(row) for row in rows if "failed" not in row]
    mean = geometric_mean(speeds)
    if speeds:
        print(f"\nspeed: geometric mean {mean:.3f}x over {len(speeds)} cases, most {max(speeds):.3f}x")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if len(speeds) < len(rows) or mean > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
