"""Whether the plans that `ilp` calls optimal are: its integer programs, solved again by HiGHS.

    bench/optimal_check.py [CASE...] [--targets T,…] [--seconds S] [--out FILE]

Needs highspy (pip install highspy; nothing else of weft does). Cases are models of build/models;
without any, the CASES below. The program of each has a column for each candidate pattern, and rows
that let an expression be in one pattern and cut cycles (integer_programs.cpp). Exits 1 where the two
optima are more than a millionth apart, or one solver proves none.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import highspy
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CASES = """attention-s1 bert-base-s128 bert-base-s384 birnn crnn-b1 dien-infer-b64 efficientnet-b0 gemm-chain-g4
gpt2-decode-p128 gpt2-prefill-s64 layernorm-512x768 minilm-s128 mmoe multi-interests resnet50
softmax-4096x1024 swin-b var-encoder-infer vit-b16 word2vec-eval asr-encoder transformer-decoder-step""".split()
HEADING = """# Optima of the integer programs

What patterns gain by their own count in the selection of planner `ilp` (CBC), and in an optimum of the same program
by HiGHS {version}, by `bench/optimal_check.py`.

| model | target | patterns | rows | cycles cut | CBC, us | bound, us | HiGHS, us | |
|---|---|---|---|---|---|---|---|---|
"""


def program_of(case, target, seconds):
    binary = ROOT / "build/release/integer_programs"
    path = ROOT / f"build/models/{case}.onnx"
    done = subprocess.run([binary, path, target], capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        sys.exit(f"{case}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def optimum(program, seconds):
    """The largest sum of gains; None where it is not proved."""
    if not program["gains"]:
        return 0.0
    lp = highspy.HighsLp()
    rows = program["rows"]
    lp.num_col_, lp.num_row_ = len(program["gains"]), len(rows)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.array(program["gains"])
    lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.ones(lp.num_col_)
    lp.row_lower_ = np.full(lp.num_row_, -highspy.kHighsInf)
    lp.row_upper_ = np.array([row["most"] for row in rows], dtype=float)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(row["columns"]) for row in rows)])
    lp.a_matrix_.index_ = np.array([c for row in rows for c in row["columns"]], dtype=int)
    lp.a_matrix_.value_ = np.ones(len(lp.a_matrix_.index_))
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(seconds))
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return solver.getInfo().objective_function_value


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--targets", default="a100-40gb,x86-64-v4")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines, wrong = [], []
    for case in options.cases or CASES:
        for target in options.targets.split(","):
            program = program_of(case, target, options.seconds)
            best = optimum(program, options.seconds)
            close = best is not None and abs(best - program["gain"]) <= 1e-6 * max(1, best)
            proved = program["bound"] - program["gain"] <= 1e-6 * max(1, program["gain"])
            same = close and proved
            cells = [case, target, program["columns"], len(program["rows"]), program["cuts"]]
            cells += [f"{program['gain']:.3f}", f"{program['bound']:.3f}"]
            cells += ["not proved" if best is None else f"{best:.3f}", "same" if same else "not"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
            print(lines[-1], file=sys.stderr)
            if not same:
                wrong.append(f"{case} on {target}")
    version = highspy.Highs().version()
    verdict = f"{len(lines)} programs; not the same: {', '.join(wrong) or 'none'}."
    text = HEADING.format(version=version) + "\n".join(lines) + f"\n\n{verdict}\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
