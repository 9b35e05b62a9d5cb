"""Times two builds of weft beside each other: runs, compiling and planning.

    bench/versus --before PATH [CASE... | all] [--threads 2] [--rounds 15] [--json FILE]

Cases are those of models/materialize.py, by default ten of all families. Each build compiles a case
into an artefact of its own, which is then run in alternating turns, each a process; the build that
goes first changes from round to round. A figure is the median of the turns' medians, speed the
ratio of the two (above 1: faster than before). Compiling is without a cache; planning is the pass
of that name, for this CPU and for a GPU that need not be there. Exits 1 where a model's speed is
below --least.
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

CASES = [
    "bert-base-s128",
    "gpt2-decode-p128",
    "resnet50",
    "efficientnet-b0",
    "swin-b",
    "asr-encoder",
    "lstm-op",
    "dien-infer-b64",
    "ocr-rec-48x320",
    "softmax-4096x1024",
]
BUILDS = ("before", "after")


def timings(command, cores):
    """{pass: ms} of a command with --timings; "all" of them together."""
    said = call([*command, "--timings"], cores, stream="stderr")
    found = re.findall(r"(?m)^ *([\d.]+) ms  (in all|[\w-]+)", said)
    times = {name.removeprefix("in "): float(ms) for ms, name in found}
    if not {"all", "plan"} <= times.keys():
        raise Failed(f"failed: no timings from {command[1]}")
    return times


def compile_round(wefts, order, case, folder, options, row):
    """Compiles for the CPU and plans for the GPU, once with each build."""
    given = ["--inputs", case.inputs, "--no-cache"]
    threads = ["--threads", str(options.threads)]
    for build in order:
        compile = [wefts[build], "compile", case.model, *given, *threads]
        times = timings([*compile, "-o", folder / f"{build}.weft"], case.cores)
        row[build]["compile_ms"].append(times["all"])
        row[build]["plan_ms"].append(times["plan"])
        dump = [wefts[build], "dump", case.model, *given, "--target", options.target]
        times = timings([*dump, "--stage", "plan"], case.cores)
        row[build]["gpu_plan_ms"].append(times["plan"])


def run_round(wefts, order, case, folder, options, row):
    """Runs the artefacts that the builds wrote."""
    for build in order:
        command = [wefts[build], "bench", folder / f"{build}.weft", "--inputs", case.inputs]
        command += ["--threads", str(options.threads), "--seconds", str(options.seconds), "--json"]
        row[build]["run_ms"].append(json.loads(call(command, case.cores))["median_ms"])


def measure(name, options):
    """{"model", build: {figure: [a value of each round]}}, with "failed" where something did."""
    wefts = {"before": options.before, "after": options.after}
    case = Case(name, set(sorted(os.sched_getaffinity(0))[: options.threads]))
    figures = ("run_ms", "compile_ms", "plan_ms", "gpu_plan_ms")
    row = {"model": case.name, **{build: {key: [] for key in figures} for build in BUILDS}}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        try:
            for turn in range(max(options.compiles, options.rounds)):
                order = BUILDS if turn % 2 == 0 else BUILDS[::-1]
                if turn < options.compiles:
                    compile_round(wefts, order, case, Path(folder), options, row)
                if turn < options.rounds:
                    run_round(wefts, order, case, Path(folder), options, row)
        except Failed as failure:
            row["failed"] = str(failure)
    return row


def both(row, key):
    """The medians of a figure, before and after."""
    return [statistics.median(row[build][key]) for build in BUILDS]


def speed(row):
    before, after = both(row, "run_ms")
    return before / after


def header(options):
    kinds = ["ms", "compile ms", "plan ms", f"plan {options.target} ms"]
    cells = ["model"] + [f"{kind}, {build}" for kind in kinds for build in BUILDS]
    cells.insert(3, "speed")
    return f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|"


def line(row):
    if "failed" in row:
        return f"| {row['model']} | {row['failed']} |" + " |" * 8
    cells = [f"{value:.4g}" for value in both(row, "run_ms")] + [f"{speed(row):.3f}x"]
    for key in ("compile_ms", "plan_ms", "gpu_plan_ms"):
        cells += [f"{value:.4g}" for value in both(row, key)]
    return f"| {' | '.join([row['model'], *cells])} |"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="MODEL", help="case, FILE.onnx:INPUTS.npz, or 'all'")
    add("--before", required=True, help="the command that is compared with")
    add("--after", default=ROOT / "build/release/weft", help="the command (build/release/weft)")
    add("--threads", type=int, default=2, help="of runs, and cores of everything (2)")
    add("--rounds", type=int, default=15, help="turns of each artefact (15)")
    add("--seconds", type=float, default=0.5, help="length of a turn (0.5)")
    add("--compiles", type=int, default=5, help="compilations of each build (5)")
    add("--target", default="a100-40gb", help="the GPU that is planned for (a100-40gb)")
    add("--least", type=float, default=0.97, help="speed below which the exit code is 1 (0.97)")
    add("--json", metavar="FILE", help="write all figures")
    options = parser.parse_args()
    if options.rounds < 1 or options.compiles < 1:
        parser.error("--rounds and --compiles start at 1")
    options.models = materialize.names() if options.models == ["all"] else options.models or CASES
    return options


def main():
    options = parse_options()
    print(header(options), flush=True)
    rows = []
    for name in options.models:
        rows.append(measure(name, options))
        print(line(rows[-1]), flush=True)
    speeds = [speed(row) for row in rows if "failed" not in row]
    if speeds:
        mean, least = geometric_mean(speeds), min(speeds)
        print(f"\nspeed: geometric mean {mean:.3f}x over {len(speeds)} cases, least {least:.3f}x")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if len(speeds) < len(rows) or min(speeds) < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
