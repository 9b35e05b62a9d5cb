"""Tables of what each planner makes of the models: kernels, library calls, bytes, predicted time.

    bench/plan_table.py [CASE...] [--weft PATH] [--targets T,…] [--planners P,…] [--out FILE]

Cases are models of build/models (models/materialize.py) or of models/hlo; without any, all that are
there. Kernels are those of the plan: what stands in a loop counts once, its bytes and times as often
as it runs. `best` may not be predicted to be slower than another planner: exit 1 where it is.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPARED = {"none", "xla", "greedy", "dp"}  # by best


def models():
    onnx = sorted((ROOT / "build/models").glob("*.onnx"))
    hlo = sorted([*(ROOT / "models/hlo").glob("*.hlo"), *(ROOT / "models/hlo").glob("*.hlo.gz")])
    return {p.name.removesuffix(".gz").removesuffix(".onnx"): p for p in [*onnx, *hlo]}


def explain(weft, path, target, planner, seconds):
    command = [weft, "explain", str(path), "--target", target, "--plan", planner, "--json", "--no-cache"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"more than {seconds} s"
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1][:60] if done.stderr.strip() else "failed"
    return json.loads(done.stdout)


def cell(row):
    if isinstance(row, str):
        return row
    kernels = row["memory_kernels"] + row["compute_kernels"]
    megabytes = (row["bytes_read"] + row["bytes_written"]) / 1e6
    return f"{row['memory_kernels']} / {row['library_calls']} / {kernels + row['library_calls']}, {megabytes:.1f} MB, {row['predicted_us']:.0f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--targets", default="a100-40gb,x86-64-v4")
    parser.add_argument("--planners", default="none,xla,greedy,dp,ilp,best")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    known = models()
    missing = [c for c in options.cases if c not in known]
    if missing:
        sys.exit(f"no such models: {', '.join(missing)}")
    cases = options.cases or list(known)
    planners = options.planners.split(",")
    text, slower = [], []
    for target in options.targets.split(","):
        text += [f"## {target}", "", "| model | " + " | ".join(planners) + " |", "|---" * (len(planners) + 1) + "|"]
        jobs = [(c, p) for c in cases for p in planners]
        with ThreadPoolExecutor(2) as pool:
            rows = dict(zip(jobs, pool.map(lambda j: explain(options.weft, known[j[0]], target, j[1], options.seconds), jobs)))
        for c in cases:
            text.append(f"| {c} | " + " | ".join(cell(rows[c, p]) for p in planners) + " |")
            for p in planners:
                plans = rows[c, p], rows.get((c, "best"))
                if p in COMPARED and all(isinstance(r, dict) for r in plans):
                    if plans[1]["predicted_us"] > plans[0]["predicted_us"] * (1 + 1e-6):
                        slower.append(f"{c} for {target}: {p}")
        text.append("")
    table = "\n".join(text)
    if options.out:
        heading = "# Plans of the models\n\nMemory kernels / library calls / all kernels, bytes, predicted time (`bench/plan_table.py`).\n\n"
        options.out.write_text(heading + table)
    else:
        print(table)
    for line in slower:
        print(f"best is predicted to be slower than another planner: {line}", file=sys.stderr)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
