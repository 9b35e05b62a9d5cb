"""Bytes that plans are predicted to move beside what the emulator counts, over the reduced models.

    bench/traffic_table.py [CASE...] [--planners P,…] [--target T] [--seconds S] [--out FILE]

Cases are models of tests/models; without any, all that are there. Unique: distinct bytes of each
tensor that a kernel reads or writes; requested: what its warps ask for (counted_traffic.cpp). Exits
1 where a prediction is more than 5% off.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 0.05
BOUNDS = {"recommender", "conv-grouped"}  # predictions from above
HEADING = """# Predicted and counted bytes

Of the reduced models of tests/models, planned for {target}, by `bench/traffic_table.py`. Bytes that the kernels of a
plan read and write: unique ones, each once a kernel, and those that warps request. Counted by the emulator on random
inputs.

Two kinds of predictions are bounds: of rows that data choose, each is taken for another one (`recommender`), and of
windows a warp asks once for what its lanes have in common (`conv-grouped`; docs/tile_program.md, Traffic).

| model | planner | kernels | unique, predicted | counted | | requested, predicted | counted | |
|---|---|---|---|---|---|---|---|---|
"""


def measure(binary, case, target, planner, seconds):
    command = [binary, ROOT / f"tests/models/{case}.onnx", target, planner]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"more than {seconds} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:90]
    return json.loads(done.stdout)


def off(row, kind):
    counted = row["counted"][kind]
    return row["predicted"][kind] / counted - 1 if counted else 0


def line(case, planner, row):
    cells = [case, planner]
    if isinstance(row, str):
        return f"| {case} | {planner} | {row} | | | | | | |"
    cells.append(row["kernels"])
    for kind in "unique", "requested":
        cells += [f"{row[side][kind]:,}" for side in ("predicted", "counted")]
        cells.append(f"{100 * off(row, kind):+.1f}%")
    return f"| {' | '.join(map(str, cells))} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--planners", default="xla,auto")
    parser.add_argument("--target", default="h100-sxm")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    binary = ROOT / "build/release/counted_traffic"
    cases = options.cases or sorted(p.stem for p in (ROOT / "tests/models").glob("*.onnx"))
    lines, far, compared = [], [], 0
    for case in cases:
        for planner in options.planners.split(","):
            row = measure(binary, case, options.target, planner, options.seconds)
            lines.append(line(case, planner, row))
            print(lines[-1], file=sys.stderr)
            if isinstance(row, str):
                continue
            compared += 1
            offs = [off(row, kind) for kind in ("unique", "requested")]
            if any(o < -MOST or (o > MOST and case not in BOUNDS) for o in offs):
                far.append(f"{case} by {planner}")
    verdict = f"{compared} plans; beyond {MOST:.0%}, bounds apart: {', '.join(far) or 'none'}."
    text = HEADING.format(target=options.target) + "\n".join(lines) + f"\n\n{verdict}\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
