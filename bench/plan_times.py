"""Times the plans of several planners beside each other on this CPU.

    bench/plan_times [CASE... | all] [--plans auto,xla,none,greedy] [--threads 2] [--rounds 15]
                     [--least-runs] [--paired] [--json FILE]

A plan is a planner's name, or NAME:KINDS with `--compositions KINDS`, kinds apart by +, as
auto:leaf+block. Each becomes an artefact; those with the same kernels are one. The artefacts run in
alternating turns, each a process; the one that goes first changes from round to round. A figure is
the median of the turns' medians, or with --least-runs the least run of all, which other work on the
machine changes less.

Beside the times stand the kernels of the first plan, its speed over the quickest of the others and
over `xla` (above 1: faster), the part of `xla`'s time that its memory kernels take, and below the
table the geometric means and the least. Exits 1 where
the first plan's speed over the quickest other is below --least.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from peers import ROOT, Case, Failed, call, geometric_mean, materialize

BASELINE = "xla"
MEMORY_HEAVY = 0.2  # of the baseline's time


def planning(plan):
    name, _, kinds = plan.partition(":")
    return ["--plan", name, *(["--compositions", kinds.replace("+", ",")] if kinds else [])]


def without_names(plan_text):
    """The kernels of a plan, whatever made it and whatever it says of edges."""
    lines = plan_text.splitlines()[1:]
    return "\n".join(text for text in lines if not text.lstrip().startswith("edge "))


def compile_all(case, folder, options):
    """{plan: artefact}; plans of the same kernels have the same."""
    given = [case.model, "--inputs", case.inputs, "--no-cache", "--threads", str(options.threads)]
    artefacts, known = {}, {}
    for number, plan in enumerate(options.plans):
        how = [*given, *planning(plan)]
        text = without_names(call([options.weft, "dump", *how, "--stage", "plan"], case.cores))
        if text not in known:
            known[text] = folder / f"{number}.weft"
            call([options.weft, "compile", *how, "-o", known[text]], case.cores)
        artefacts[plan] = known[text]
    return artefacts


def inputs_of(artefact, case, folder, options):
    """The case's inputs that the artefact has: a given value that decides a branch is none of them."""
    arrays = dict(np.load(case.inputs))
    file = folder / f"{artefact.stem}.npz"
    while True:
        np.savez(file, **arrays)
        try:
            call([options.weft, "run", artefact, "--inputs", file], case.cores)
            return file
        except Failed as failure:
            folded = re.search("has no input '([^']+)'", str(failure))
            if folded is None or arrays.pop(folded[1], None) is None:
                raise


def run(artefact, case, inputs, options):
    command = [options.weft, "bench", artefact, "--inputs", inputs, "--json"]
    command += ["--threads", str(options.run_threads or options.threads), "--seconds", str(options.seconds)]
    return json.loads(call(command, case.cores))


def memory_share(artefact, case, inputs, options):
    """The part of the kernels' time that is that of memory kernels."""
    kernels = json.loads(call([options.weft, "explain", artefact, "--json"], case.cores))["kernels"]
    kinds = {kernel["name"]: kernel["kind"] for kernel in kernels}
    command = [options.weft, "bench", artefact, "--inputs", inputs, "--per-kernel", "--runs", "5"]
    text = call([*command, "--threads", str(options.run_threads or options.threads)], case.cores)
    times = dict.fromkeys([*kinds.values(), "memory"], 0.0)
    for ms, name in re.findall(r"^ *([\d.]+) +\d+ +[\d%-]+ +(\S+)", text, re.M):
        if name in kinds:
            times[kinds[name]] += float(ms)
    return times["memory"] / max(sum(times.values()), 1e-9)


def measure(name, options):
    """{"model", "kernels": {plan: count}, "ms": {plan: figure}}, or "failed" in their place."""
    case = Case(name, set(sorted(os.sched_getaffinity(0))[: options.threads]))
    row = {"model": case.name}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        try:
            artefacts = compile_all(case, Path(folder), options)
            distinct = list(dict.fromkeys(artefacts.values()))
            inputs = {a: inputs_of(a, case, Path(folder), options) for a in distinct}
            turns = {artefact: [] for artefact in distinct}
            for turn in range(options.rounds):
                for artefact in distinct if turn % 2 == 0 else distinct[::-1]:
                    turns[artefact].append(run(artefact, case, inputs[artefact], options))
            if BASELINE in artefacts:
                base = artefacts[BASELINE]
                row["memory"] = memory_share(base, case, inputs[base], options)
        except Failed as failure:
            return row | {"failed": str(failure)}
    figures = {artefact: figure(runs, options) for artefact, runs in turns.items()}
    kernels = {artefact: runs[0]["kernels"] for artefact, runs in turns.items()}
    row["ms"] = {plan: figures[artefact] for plan, artefact in artefacts.items()}
    row["kernels"] = {plan: kernels[artefact] for plan, artefact in artefacts.items()}
    if options.paired:
        of_turns = {a: [figure([run], options) for run in runs] for a, runs in turns.items()}
        own = of_turns[artefacts[options.plans[0]]]
        row["speed"] = {
            plan: statistics.median(other / mine for mine, other in zip(own, of_turns[artefact]))
            for plan, artefact in artefacts.items()
        }
    return row


def figure(runs, options):
    if options.least_runs:
        return min(run["min_ms"] for run in runs)
    return statistics.median(run["median_ms"] for run in runs)


def speeds(row, options):
    """Of the first plan, over the quickest of the others and over the baseline (may be None)."""
    if "speed" in row:
        return min(row["speed"][plan] for plan in options.plans[1:]), row["speed"].get(BASELINE)
    own, *others = (row["ms"][plan] for plan in options.plans)
    baseline = row["ms"].get(BASELINE)
    return min(others) / own, baseline and baseline / own


def line(row, options):
    if "failed" in row:
        return f"| {row['model']} | {row['failed']} |" + " |" * (len(options.plans) + 1)
    cells = [row["model"], str(row["kernels"][options.plans[0]])]
    cells += [f"{row['ms'][plan]:.4g}" for plan in options.plans]
    cells += [f"{speed:.3f}x" if speed else "" for speed in speeds(row, options)]
    cells += [f"{row['memory']:.0%}"] if "memory" in row else []
    return f"| {' | '.join(cells)} |"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="*", metavar="MODEL", help="case, FILE.onnx:INPUTS.npz, or 'all' (all)")
    add("--weft", default=ROOT / "build/release/weft", help="the command (build/release/weft)")
    add("--plans", default="auto,xla,none,greedy", help="at least two (auto,xla,none,greedy)")
    add("--threads", type=int, default=2, help="of runs, and cores of everything (2)")
    add("--run-threads", type=int, help="of runs alone (as --threads)")
    add("--rounds", type=int, default=15, help="turns of each artefact (15)")
    add("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    add("--least-runs", action="store_true", help="figures are the least runs")
    add("--paired", action="store_true", help="speeds are medians of the rounds")
    add("--least", type=float, default=0.97, help="speed below which the exit code is 1 (0.97)")
    add("--json", metavar="FILE", help="write all figures")
    options = parser.parse_args()
    options.plans = options.plans.split(",")
    if len(options.plans) < 2 or options.rounds < 1:
        parser.error("there are at least two plans and one round")
    options.models = options.models if options.models not in ([], ["all"]) else materialize.names()
    return options


def main():
    options = parse_options()
    cells = ["model", "kernels", *(f"{plan} ms" for plan in options.plans), "of quickest other"]
    cells += [f"of {BASELINE}", "memory"] if BASELINE in options.plans else [""]
    print(f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|", flush=True)
    rows = []
    for name in options.models:
        rows.append(measure(name, options))
        print(line(rows[-1], options), flush=True)
    measured = [speeds(row, options) for row in rows if "failed" not in row]
    least = min((over_others for over_others, _ in measured), default=0)
    for column, title in enumerate(("of the quickest other", f"of {BASELINE}")):
        found = [pair[column] for pair in measured if pair[column]]
        if found:
            mean = geometric_mean(found)
            print(f"\nspeed {title}: geometric mean {mean:.3f}x, least {min(found):.3f}x")
    heavy = [speeds(row, options)[1] for row in rows if row.get("memory", 0) >= MEMORY_HEAVY]
    if heavy:
        mean = geometric_mean(heavy)
        part = f"{len(heavy)} where memory kernels take {MEMORY_HEAVY:.0%} of {BASELINE}'s time"
        print(f"\nspeed of {BASELINE}, the {part}: geometric mean {mean:.3f}x")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if len(measured) < len(rows) or least < options.least else 0


if __name__ == "__main__":
    sys.exit(main())
