"""Souffle's ablation V0 to V4 on the paper's six models, beside the paper's table 4 and 5.

    bench/souffle.py [MODEL...] [--weft PATH] [--target T] [--jobs N] [--out FILE]
    bench/souffle.py --half [MODEL...] [--weft PATH] [--target T] [--jobs N]
    bench/souffle.py --measure [--runs N] [--threads N] [MODEL...]        on this machine's CPU

Without --measure the steps are planned for a GPU: kernels (those of loop bodies once), launches, MB
read and written, and the time that is predicted. With it they run on the CPU, the steps of a model
in turns, and the least time of each is told. The paper's times are of an A100 in 16 bits, ours of
float32: compare the steps of a row with each other. With --half the models are in float16, as the
paper's, and MB are those that launches read from memory where each finds the second-level cache
empty: what the paper counts, with a profiler that flushes it. Behind them stands what kernels read
in all, most of it from that cache.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = ["V0", "V1", "V2", "V3", "V4"]
# Model: its files here; ms of V0 to V4 (table 4), kernels and MB of V4 (table 5).
PAPER = {
    "BERT": (["bert-base-s384"], [3.1, 2.12, 1.53, 1.41, 1.22], 24, 226.8),
    "ResNeXt": (["resnext101-64x4d"], [29.0, 5.90, 4.43, 4.43, 4.43], 105, 470.2),
    "LSTM": (["lstm-souffle", "lstm-op"], [6.78, 1.60, 1.21, 0.8, 0.8], 1, 10.6),
    "EfficientNet": (["efficientnet-b0"], [4.2, 0.91, 0.72, 0.63, 0.63], 66, 86.6),
    "Swin": (["swin-b"], [5.81, 4.88, 2.09, 1.78, 1.55], 53, 282.9),
    "MMoE": (["mmoe"], [0.05, 0.019, 0.016, 0.014, 0.014], 1, 0.058),
}


HEADING = """# Souffle's ablation

By `bench/souffle.py`: kernels (those of loop bodies once); launches, MB, predicted time of each step of `--souffle`,
which docs/plans.md tells. The paper's times are measured on an A100 in 16 bits, its kernels and MB stand with V4.
Nothing was timed on a GPU. Compare the steps of a row with each other.

"""


def model_of(name):
    return ROOT / "build/models" / f"{name}.onnx"


def half_of(name):
    """The model in float16."""
    path = ROOT / "build/half" / f"{name}.onnx"
    path.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, ROOT / "models/half.py", model_of(name), path], check=True)
    return path


def run(options, command):
    done = subprocess.run([options.weft, *command], capture_output=True, text=True, timeout=options.seconds)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def planned(options, name, step):
    model = options.files[name]
    return run(options, ["explain", model, "--target", options.target, "--souffle", step, "--json", "--no-cache"])


def megabytes(count):
    return f"{count / 1e6:.{1 if count >= 1e6 else 3}f}"


def cell(row, half):
    kernels = sum(row[k] for k in ("memory_kernels", "compute_kernels", "library_calls", "opaque_steps"))
    moved = megabytes(row["bytes_read"] + row["bytes_written"])
    if half:
        moved = f"{megabytes(row['bytes_from_memory_each_alone'])} of {megabytes(row['bytes_read'])}"
    return f"{kernels}; {row['launches']}, {moved} MB, {row['predicted_us'] / 1e3:.3f} ms"


def measured(options, name):
    """The least milliseconds of each step, runs of the steps in turns."""
    inputs = ROOT / "build/models" / f"{name}.npz"
    least = {}
    for _ in range(options.runs):
        for step in STEPS:
            command = ["bench", model_of(name), "--souffle", step, "--json", "--threads", str(options.threads)]
            row = run(options, [*command, "--inputs", inputs] if inputs.exists() else command)
            least[step] = min(least.get(step, row["min_ms"]), row["min_ms"])
    return [f"{least[step]:.4g} ms" for step in STEPS]


def paper_row(paper):
    _, times, kernels, read = paper
    cells = [f"{ms} ms" for ms in times]
    cells[-1] = f"{kernels}, {read} MB, {cells[-1]}"
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="of the paper: " + ", ".join(PAPER))
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--target", default="a100-40gb")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", help="file for the table; default: stdout")
    options = parser.parse_args()
    unknown = [m for m in options.models if m not in PAPER]
    if unknown:
        parser.error(f"no model of the paper: {', '.join(unknown)}")
    wanted = {m: PAPER[m] for m in options.models or PAPER}
    names = [n for own, *_ in wanted.values() for n in own]
    missing = [n for n in names if not model_of(n).exists()]
    if missing:
        parser.error(f"not in build/models (models/materialize.py makes them): {', '.join(missing)}")
    jobs = [(n, s) for n in names for s in STEPS]
    options.files = {n: half_of(n) if options.half else model_of(n) for n in names}
    if not options.measure:
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = dict(zip(jobs, pool.map(lambda job: cell(planned(options, *job), options.half), jobs)))
    where = f"a CPU, {options.threads} threads, measured" if options.measure else f"{options.target}, predicted"
    where += ", in float16, MB read" if options.half else ""
    lines = [f"## {where}", "", "| model | " + " | ".join(STEPS) + " |", "|---" * (len(STEPS) + 1) + "|"]
    for name, paper in wanted.items():
        lines.append("| " + " | ".join([f"{name}, the paper", *paper_row(paper)]) + " |")
        for own in paper[0]:
            cells = measured(options, own) if options.measure else [rows[own, s] for s in STEPS]
            lines.append("| " + " | ".join([own, *cells]) + " |")
    text = "\n".join(lines) + "\n"
    if options.out:
        Path(options.out).write_text(HEADING + text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
