"""How well blocks share their memory, beside FusionStitching's tables.

    bench/shared_memory.py [CASE...] [--weft PATH] [--targets T,…] [--seconds S] [--jobs N] [--out FILE]

Cases are the graphs of bench/shared_memory, then models of build/models and models/hlo; without
any, all that are there. Of each plan: kernels, those with shared memory (of a CPU: scratch), bytes
of a block on average and at most, what is allocated over what the values request, each with bytes
of its own, and over the most that lives at once, which no sharing can be below.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from plan_table import ROOT, Model, models

HEADING = """# Memory of blocks

By `bench/shared_memory.py`: shared memory of a GPU's block, scratch of a CPU's core, as `weft explain` prints it. A
kernel's *ratio* is what is allocated over what its values request, were each given bytes of its own; a model's is that
of the sums. *Least* is the most that lives at once over what is allocated: at 1.00 no sharing takes less. What warps
leave each other of a reduction is not counted, and a kernel in a loop counts once.

The papers' figures: FusionStitching 2018, table 3, bytes of a kernel on average, at most, and the share that several
operations use: LR 64, 128, 0; W2V 96, 288, 0; RNN 1344, 3072, 0; BiRNN 1376, 5120, 0; Speech 9504, 16416, 0.01; NMT
256, 10432, 0.17 (which is a ratio of 0.83). FusionStitching 2019, table 4, average, most, and allocated over requested:
nmt 3.6 KB, 18.6 KB, 0.81; multi-interests 7.5 KB, 36 KB, 0.88 (72 KB without sharing); rokid 5.5 KB, 16.4 KB, 0.98;
aiwriter 1.4 KB, 4.1 KB, 0.87.

"""
CASES = "## Single kernels\n\nThe papers' patterns, as `auto` and `subprogram` plan them.\n\n"
MODELS = "## Models\n\nBy `auto`.\n\n"
COLUMNS = ["kernels", "with memory", "average", "most", "ratio", "least"]


def graphs():
    found = {p.stem: Model(p) for p in sorted((ROOT / "bench/shared_memory").glob("*.graph"))}
    found["multi-interests-256"] = Model(ROOT / "models/hlo/multi-interests-256.hlo")
    return found


def explain(options, model, target, planner):
    command = [options.weft, "explain", *model.arguments(), "--target", target, "--plan", planner, "--json"]
    try:
        done = subprocess.run([*command, "--no-cache"], capture_output=True, text=True, timeout=options.seconds)
    except subprocess.TimeoutExpired:
        return f"more than {options.seconds} s"
    if done.returncode != 0:
        message = done.stderr.strip().replace(str(model.path), model.path.name)
        return (message.splitlines() or ["failed"])[-1][:60]
    return json.loads(done.stdout)


def kilobytes(count):
    return f"{count} B" if count < 10_000 else f"{count / 1000:.1f} KB"


def figures(row):
    """The columns of one plan."""
    if isinstance(row, str):
        return [row] + [""] * (len(COLUMNS) - 1)
    with_memory = [k for k in row["kernels"] if k["shared_bytes_requested"]]
    count = f"{len(row['kernels'])}"
    if not with_memory:
        return [count, "0", "", "", "", ""]
    allocated = sum(k["shared_bytes"] for k in with_memory)
    requested = sum(k["shared_bytes_requested"] for k in with_memory)
    least = sum(k["shared_bytes_least"] for k in with_memory)
    return [
        count,
        f"{len(with_memory)}",
        kilobytes(allocated // len(with_memory)),
        kilobytes(max(k["shared_bytes"] for k in with_memory)),
        f"{allocated / requested:.2f}",
        f"{least / allocated:.2f}",
    ]


def table(options, cases, target, planners):
    jobs = [(c, p) for c in cases for p in planners]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = dict(zip(jobs, pool.map(lambda job: explain(options, cases[job[0]], target, job[1]), jobs)))
    columns = [*(["planner"] if len(planners) > 1 else []), *COLUMNS]
    lines = [f"### {target}", "", "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for case, planner in jobs:
        if "these dimensions" in str(rows[case, planner])[:100]:
            continue  # open, and no case binds them
        named = [planner] if len(planners) > 1 else []
        lines.append("| " + " | ".join([case, *named, *figures(rows[case, planner])]) + " |")
    every = [k for row in rows.values() if isinstance(row, dict) for k in row["kernels"]]
    if len(planners) == 1:
        lines.append("| " + " | ".join(["all", *figures({"kernels": every})]) + " |")
    return "\n".join(lines) + "\n\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--targets", default="a100-40gb,x86-64-v4")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    kernels, known = graphs(), models()
    unknown = [c for c in options.cases if c not in kernels and c not in known]
    if unknown:
        sys.exit(f"no such cases: {', '.join(unknown)}")
    if options.cases:
        kernels = {c: p for c, p in kernels.items() if c in options.cases}
        known = {c: p for c, p in known.items() if c in options.cases}
    text = HEADING
    for title, cases, planners in (CASES, kernels, ["auto", "subprogram"]), (MODELS, known, ["auto"]):
        if cases:
            text += title + "".join(table(options, cases, t, planners) for t in options.targets.split(","))
    if options.out:
        options.out.write_text(text.rstrip() + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
