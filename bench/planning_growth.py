"""How the time of planning grows with the size of a model, for each planner.

    bench/planning_growth.py [--weft PATH] [--planners P,…] [--target T] [--sizes N,…]
                             [--seconds S] [--out FILE]

Two kinds of graphs of N expressions: `layers`, all alike (a product, a bias, tanh, a softmax and a
residual), and `towers` of ten layers, each tower with extents of its own, so that little repeats.
A cell is the milliseconds of the pass `plan`; the last column how its growth from the first size to
the last that was planned compares with n log n: 1 is as n log n, above it worse.
"""

import argparse
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_LAYER = 9  # expressions: movement is folded into reads
OF_TOWER = 10  # layers


def layer(i, before, rows, columns):
    matrix, vector = f"f32[{rows},{columns}]", f"f32[{rows}]"
    p = f"v{i}_"
    return f"v{i}_y", [
        f"{p}p = dot_general {before}, w{columns}, lhs_contract={{1}}, rhs_contract={{0}} : {matrix}",
        f"{p}bb = broadcast b{columns}, dims={{1}} : {matrix}",
        f"{p}q = add {p}p, {p}bb : {matrix}",
        f"{p}t = tanh {p}q : {matrix}",
        f"{p}m = reduce {p}t, axes={{1}}, combiner=max : {vector}",
        f"{p}mb = broadcast {p}m, dims={{0}} : {matrix}",
        f"{p}d = sub {p}t, {p}mb : {matrix}",
        f"{p}e = exp {p}d : {matrix}",
        f"{p}s = reduce {p}e, axes={{1}}, combiner=sum : {vector}",
        f"{p}sb = broadcast {p}s, dims={{0}} : {matrix}",
        f"{p}n = div {p}e, {p}sb : {matrix}",
        f"{p}y = add {p}n, {before} : {matrix}",
    ]


def graph(kind, expressions):
    layers = max(1, round(expressions / OF_LAYER))
    inputs, lines, results = {}, [], []
    value = None
    for i in range(layers):
        if value is None or (kind == "towers" and i % OF_TOWER == 0):
            tower = i // OF_TOWER
            rows, columns = (128, 256) if kind == "layers" else (64 + tower, 96 + tower)
            value = f"x{tower}"
            inputs[value] = f"f32[{rows},{columns}]"
            inputs[f"w{columns}"] = f"f32[{columns},{columns}]"
            inputs[f"b{columns}"] = f"f32[{columns}]"
        value, made = layer(i, value, rows, columns)
        lines += made
        if i + 1 == layers or (kind == "towers" and (i + 1) % OF_TOWER == 0):
            results.append(value)
    head = ", ".join(f"{name}: {type_}" for name, type_ in inputs.items())
    body = "".join(f"  {line}\n" for line in lines)
    return f"({head}) {{\n{body}}} -> ({', '.join(results)})\n"


def planning_ms(weft, path, planner, target, seconds):
    command = [weft, "explain", path, "--target", target, "--plan", planner]
    command += ["--no-cache", "--timings"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"([0-9.]+) ms\s+plan$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-200:]}")
    return float(found[1])


def growth(sizes, times):
    known = [(n, t) for n, t in zip(sizes, times) if t is not None]
    if len(known) < 2:
        return "-"
    (n0, t0), (n1, t1) = known[0], known[-1]
    return f"{t1 / t0 / (n1 * math.log(n1) / (n0 * math.log(n0))):.2f}"


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--planners", default="none,xla,greedy,span,ilp,dp,auto")
    parser.add_argument("--target", default="a100-40gb")
    parser.add_argument("--sizes", default="1000,3000,10000,30000")
    parser.add_argument("--seconds", type=int, default=120, help="of a run at most")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sizes = [int(n) for n in options.sizes.split(",")]
    text = ["# Growth of planning", ""]
    text += [f"Milliseconds of the pass `plan` for {options.target}, one run each, by"]
    text += ["`bench/planning_growth.py`, which says what is planned.", ""]
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("layers", "towers"):
            text += [f"## {kind}", ""]
            text.append("| planner | " + " | ".join(f"{n}" for n in sizes) + " | of n log n |")
            text.append("|---" * (len(sizes) + 2) + "|")
            for planner in options.planners.split(","):
                times = []
                for n in sizes:
                    path = Path(folder) / f"{kind}-{n}.graph"
                    path.write_text(graph(kind, n))
                    late = times and times[-1] is None
                    run = options.weft, str(path), planner, options.target, options.seconds
                    times.append(None if late else planning_ms(*run))
                cells = [f"over {options.seconds} s" if t is None else f"{t:.0f}" for t in times]
                text.append(f"| {planner} | {' | '.join(cells)} | {growth(sizes, times)} |")
            text.append("")
    table = "\n".join(text)
    options.out.write_text(table) if options.out else print(table)


if __name__ == "__main__":
    main()
