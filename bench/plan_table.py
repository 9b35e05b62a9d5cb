"""Tables of what each planner makes of the models: kernels, library calls, bytes, predicted time.

    bench/plan_table.py [CASE...] [--weft PATH] [--targets T,…] [--planners P,…] [--settings calls,own]
                        [--seconds S] [--jobs N] [--out FILE]

Cases are models of build/models (models/materialize.py) or of models/hlo; without any, all that are
there. Models with open dimensions are those of models/materialize.py, bound by the inputs of a case.
Two settings: `calls` has every product and convolution a library call of its own, as in the
papers (--compute-as-calls), `own` is how weft runs. A cell has

    memory kernels / library calls / all kernels; launches, MB, predicted us

All kernels count what stands in a loop once, and steps that no kernel holds; launches, bytes and
times count loops by their trips. The column `least` stands beside `auto` where products are calls:
no plan of these expressions has fewer memory kernels, since so many follow each other with calls
between (expr/analysis/memory_levels.h). Below each table stand means over the models where `xla`
has more than one memory kernel. `best` may not be predicted to be slower than what it compares: exit 1.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMPARED = {"none", "xla", "greedy", "dp"}  # by best
PLANNERS = "none,xla,greedy,span,ilp,dp,auto"
SETTINGS = {"calls": ["--compute-as-calls"], "own": []}
BOUND = {  # models with open dimensions: the case of models/materialize.py that binds them
    "magika": "magika-b1",
    "ocr-cls": "ocr-cls-48x192",
    "ocr-det": "ocr-det-320x320",
    "ocr-rec": "ocr-rec-48x320",
    "silero-vad": "silero-vad",
    "silero-vad-16k-op15": "silero-vad-16k-op15",
    "silero-vad-half": "silero-vad-half",
}
HEADING = """# Plans of the models

Memory kernels / library calls / all kernels; launches, bytes, predicted time, by
`bench/plan_table.py`, which says how they are counted.

"""
TITLES = {"calls": "every product and convolution a library call", "own": "as weft runs"}


class Model(NamedTuple):
    path: Path
    binding: Path | None = None  # a file of inputs, whose shapes its dimensions take

    def arguments(self):
        return [str(self.path), *(["--inputs", str(self.binding)] if self.binding else [])]


def models():
    made = ROOT / "build/models"
    onnx = sorted(made.glob("*.onnx"))
    hlo = sorted([*(ROOT / "models/hlo").glob("*.hlo"), *(ROOT / "models/hlo").glob("*.hlo.gz")])
    found = {p.name.removesuffix(".gz").removesuffix(".onnx"): Model(p) for p in [*onnx, *hlo]}
    for name, case in BOUND.items():
        if name in found:
            found[name] = Model(found[name].path, made / f"{case}.npz")
    return found


def explain(weft, model, target, planner, setting, seconds):
    command = [weft, "explain", *model.arguments(), "--target", target, "--plan", planner, "--json"]
    command += ["--no-cache", *SETTINGS[setting]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"more than {seconds} s"
    if done.returncode != 0:
        message = done.stderr.strip().replace(str(model.path), model.path.name)
        return message.splitlines()[-1][:60] if message else "failed"
    row = json.loads(done.stdout)
    return {key: value for key, value in row.items() if not isinstance(value, list)}


def kernels(row):
    counts = "memory_kernels", "compute_kernels", "library_calls", "opaque_steps"
    return sum(row[count] for count in counts)


def cell(row):
    if isinstance(row, str):
        return row
    megabytes = (row["bytes_read"] + row["bytes_written"]) / 1e6
    counts = f"{row['memory_kernels']} / {row['library_calls']} / {kernels(row)}"
    return f"{counts}; {row['launches']}, {megabytes:.1f} MB, {row['predicted_us']:.0f} us"


def least(row):
    """The plan that has no more memory kernels than any must have."""
    return {**row, "memory_kernels": row["least_memory_kernels"]}


def means(cases, columns, rows):
    """What share of xla's kernels each plan has: the mean of the models' and of the sums."""
    xla = {c: rows[c, "xla"] for c in cases if isinstance(rows[c, "xla"], dict)}
    counted = [c for c, row in xla.items() if row["memory_kernels"] > 1]
    lines = ["", "| of xla's | models | memory kernels: mean | of sums | all kernels: mean | of sums |"]
    lines.append("|---" * 6 + "|")
    for p in columns:
        both = [(rows[c, p], rows[c, "xla"]) for c in counted if isinstance(rows[c, p], dict)]
        if p == "xla" or not both:
            continue
        cells = [f"{p}", f"{len(both)}"]
        for count in (lambda row: row["memory_kernels"], kernels):
            made = [(count(own), count(by_xla)) for own, by_xla in both]
            cells.append(f"{sum(own / by_xla for own, by_xla in made) / len(made):.1%}")
            cells.append(f"{sum(own for own, _ in made) / sum(by_xla for _, by_xla in made):.1%}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def beaten(cases, planners, rows):
    """Where a planner needs fewer kernels and less time than auto."""
    out = []
    for c in cases:
        auto = rows.get((c, "auto"))
        for p in planners:
            own = rows[c, p]
            if not isinstance(auto, dict) or not isinstance(own, dict):
                continue
            quicker = own["predicted_us"] < auto["predicted_us"] * (1 - 1e-6)
            if quicker and kernels(own) < kernels(auto):
                out.append(f"{c}: {p}")
    return out


def cells(rows, case, columns):
    for column in columns:
        row = rows[case, column]
        yield f"{row['memory_kernels']}" if column == "least" and isinstance(row, dict) else cell(row)


def table(options, known, cases, planners, target, setting):
    bounded = setting == "calls" and "auto" in planners
    columns = [*planners, *(["least"] if bounded else [])]
    text = [f"## {target}, {TITLES[setting]}", "", "| model | " + " | ".join(columns) + " |"]
    text.append("|---" * (len(columns) + 1) + "|")
    jobs = [(c, p) for c in cases for p in planners]

    def explained(job):
        case, planner = job
        return explain(options.weft, known[case], target, planner, setting, options.seconds)

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = dict(zip(jobs, pool.map(explained, jobs)))
    if bounded:
        for c in cases:
            auto = rows[c, "auto"]
            rows[c, "least"] = least(auto) if isinstance(auto, dict) else ""
    text += [f"| {c} | " + " | ".join(cells(rows, c, columns)) + " |" for c in cases]
    if "xla" in planners:
        text += means(cases, columns, rows)
    if fewer := beaten(cases, planners, rows):
        text += ["", "Fewer kernels and less time than by auto: " + "; ".join(fewer) + "."]
    slower = []
    for c in cases:
        best = rows.get((c, "best"))
        for p in planners:
            own = rows[c, p]
            if p not in COMPARED or not isinstance(best, dict) or not isinstance(own, dict):
                continue
            if best["predicted_us"] > own["predicted_us"] * (1 + 1e-6):
                slower.append(f"{c} for {target}: {p}")
    return [*text, ""], slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--targets", default="a100-40gb,x86-64-v4")
    parser.add_argument("--planners", default=PLANNERS)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    known = models()
    unknown = [c for c in options.cases if c not in known]
    unknown += [s for s in options.settings.split(",") if s not in SETTINGS]
    if unknown:
        sys.exit(f"no such models or settings: {', '.join(unknown)}")
    cases = options.cases or list(known)
    planners = options.planners.split(",")
    text, slower = [], []
    for target in options.targets.split(","):
        for setting in options.settings.split(","):
            lines, late = table(options, known, cases, planners, target, setting)
            text += lines
            slower += late
            if options.out:
                options.out.write_text(HEADING + "\n".join(text))
    if not options.out:
        print("\n".join(text))
    for line in slower:
        print(f"best is predicted to be slower than another planner: {line}", file=sys.stderr)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
