"""Plans and compiles the chains of MCFuser (SC'24, tables II and III) for GPUs that need not be there.

    bench/chains [CASE...] [--targets T,…] [--type f16|f32] [--weft PATH] [--out FILE] [--graphs FOLDER]

G1 to G12 are two products, S1 to S9 two with a softmax between; beside the paper's, L1 to L3 are one
product whose rows' exponentials are summed, B1 to B3 one whose rows' best is found (heads of a
vocabulary). For each target: kernels of the planner `chain`, its tiles, predicted time beside those of `greedy` and `auto`, unique bytes beside
the compulsory ones (inputs and outputs once), what parts of a split axis leave in the workspace,
seconds of the whole planning command, and what the assembler says of registers, shared memory and
spills. Exits 1 where a case is more than one kernel, moves more than the compulsory bytes (and
twice the workspace), spills, or takes a second to plan (float16 alone).

With --peers first the chains are timed on this processor instead (bench/chains_cpu.py).
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chain_sizes import ATTENTION, PRODUCTS
from peers import ROOT, commit

LOG_SUMS = {"L1": (1, 64, 50257, 768, 1), "L2": (1, 512, 50257, 768, 1), "L3": (1, 2048, 32000, 1024, 1)}
BESTS = {"B1": (1, 16, 50257, 768, 1), "B2": (1, 64, 50257, 768, 1), "B3": (1, 512, 32000, 1024, 1)}
SIZES = PRODUCTS | ATTENTION | LOG_SUMS | BESTS
BATCHED = "lhs_batch={0}, rhs_batch={0}"


def product_text(b, m, n, k, h, t):
    return f"""(x: {t}[{b},{m},{k}], w: {t}[{b},{k},{n}], u: {t}[{b},{n},{h}]) {{
  c = dot_general x, w, lhs_contract={{2}}, rhs_contract={{1}}, {BATCHED} : {t}[{b},{m},{n}]
  y = dot_general c, u, lhs_contract={{2}}, rhs_contract={{1}}, {BATCHED} : {t}[{b},{m},{h}]
}} -> (y)
"""


def attention_text(b, m, n, k, h, t):
    whole, rows = f"f32[{b},{m},{n}]", f"f32[{b},{m}]"
    return f"""(q: {t}[{b},{m},{k}], k: {t}[{b},{n},{k}], v: {t}[{b},{n},{h}]) {{
  a = dot_general q, k, lhs_contract={{2}}, rhs_contract={{2}}, {BATCHED} : {t}[{b},{m},{n}]
  w = convert a : {whole}
  c = constant {k**-0.5} : f32[]
  cb = broadcast c, dims={{}} : {whole}
  t = mul w, cb : {whole}
  m = reduce t, axes={{2}}, combiner=max : {rows}
  mb = broadcast m, dims={{0,1}} : {whole}
  d = sub t, mb : {whole}
  e = exp d : {whole}
  s = reduce e, axes={{2}}, combiner=sum : {rows}
  sb = broadcast s, dims={{0,1}} : {whole}
  r = div e, sb : {whole}
  p = convert r : {t}[{b},{m},{n}]
  y = dot_general p, v, lhs_contract={{2}}, rhs_contract={{1}}, {BATCHED} : {t}[{b},{m},{h}]
}} -> (y)
"""


def log_sum_text(b, m, n, k, h, t):
    whole = f"f32[{m},{n}]"
    return f"""(x: {t}[{m},{k}], w: {t}[{n},{k}]) {{
  a = dot_general x, w, lhs_contract={{1}}, rhs_contract={{1}} : {t}[{m},{n}]
  t = convert a : {whole}
  m = reduce t, axes={{1}}, combiner=max : f32[{m}]
  mb = broadcast m, dims={{0}} : {whole}
  d = sub t, mb : {whole}
  e = exp d : {whole}
  s = reduce e, axes={{1}}, combiner=sum : f32[{m}]
  l = log s : f32[{m}]
  y = add l, m : f32[{m}]
}} -> (y)
"""


def best_text(b, m, n, k, h, t):
    return f"""(x: {t}[{m},{k}], w: {t}[{n},{k}]) {{
  a = dot_general x, w, lhs_contract={{1}}, rhs_contract={{1}} : {t}[{m},{n}]
  t = convert a : f32[{m},{n}]
  i = arg_reduce t, axis=1, combiner=arg_max : i64[{m}]
}} -> (i)
"""


def text_of(case, element_type):
    made = {"G": product_text, "S": attention_text, "L": log_sum_text, "B": best_text}
    return made[case[0]](*SIZES[case], element_type)


def compulsory_bytes(case, element_type):
    b, m, n, k, h = SIZES[case]
    size = 2 if element_type == "f16" else 4
    if case[0] in "LB":
        return (m * k + n * k) * size + m * (4 if case[0] == "L" else 8)
    return b * (m * k + n * k + n * h + m * h) * size


def left_by_parts(case, template):
    """Bytes of the workspace: what is carried, float32, of each part. Clusters have none."""
    b, m, _, _, h = SIZES[case]
    parts = re.search(r"(\d+) parts of the steps(?! in a cluster)", template)
    each = {"G": 4 * h, "S": 4 * (h + 2), "L": 8, "B": 12}[case[0]]
    return int(parts[1]) * b * m * each if parts else 0


def explain(weft, model, *words):
    start = time.perf_counter()
    done = subprocess.run([weft, "explain", model, "--json", *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - start


def kernels(row):
    return row["memory_kernels"] + row["compute_kernels"]


def measure(weft, model, target):
    planned = {p: explain(weft, model, "--target", target, "--plan", p, "--no-cache") for p in ("chain", "greedy", "auto")}
    artefact = model.with_suffix(".weft")
    command = [weft, "compile", model, "--target", target, "--plan", "chain", "--no-cache", "--no-fallback", "-o", artefact]
    subprocess.run(command, check=True)
    return planned, explain(weft, artefact)[0]["device_code"]


def check(case, chain, moved, seconds, code, compulsory):
    wrong = []
    if kernels(chain) != 1:
        wrong.append(f"{kernels(chain)} kernels")
    if moved != compulsory:
        wrong.append(f"moves {moved} bytes, not {compulsory}")
    if code["spill_bytes"]:
        wrong.append(f"spills {code['spill_bytes']} bytes")
    if seconds >= 1:
        wrong.append(f"planned in {seconds:.1f} s")
    return [f"{case}: {w}" for w in wrong]


def table(options, cases, target, folder):
    lines = [
        f"## {target}",
        "",
        "| case | kernels | composition | us: chain | greedy | auto | bytes | of compulsory | workspace | planned s | registers | shared KB | spills |",
        "|---" * 13 + "|",
    ]
    wrong = []
    for case in cases:
        model = Path(folder) / f"{case}.graph"
        model.write_text(text_of(case, options.type))
        planned, code = measure(options.weft, model, target)
        chain, seconds = planned["chain"]
        made = chain["kernels"][0]["template"] if kernels(chain) == 1 else ""
        workspace, compulsory = left_by_parts(case, made), compulsory_bytes(case, options.type)
        moved = chain["bytes_read"] + chain["bytes_written"] - 2 * workspace
        wrong += check(f"{target} {case}", chain, moved, seconds, code, compulsory)
        us = " | ".join(f"{planned[p][0]['predicted_us']:.2f}" for p in ("chain", "greedy", "auto"))
        lines.append(
            f"| {case} | {kernels(chain)} | {made} | {us} | {moved} | {moved / compulsory:.2f} | {workspace} | {seconds:.2f} "
            f"| {code['registers']} | {code['shared_bytes'] / 1024:.1f} | {code['spilling_kernels']} |"
        )
        print(lines[-1], file=sys.stderr)
    return [*lines, ""], wrong


def main():
    if sys.argv[1:2] == ["--peers"]:
        import chains_cpu

        return chains_cpu.run((PRODUCTS, ATTENTION), sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--targets", default="a100-40gb,rtx3080,h100-sxm")
    parser.add_argument("--type", choices=("f16", "f32"), default="f16")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--out", default="")
    parser.add_argument("--graphs", default="", help="only writes the chains as CASE.graph into this folder")
    options = parser.parse_args()
    cases = options.cases or [*SIZES]
    if options.graphs:
        for case in cases:
            (Path(options.graphs) / f"{case}.graph").write_text(text_of(case, options.type))
        return
    lines = [
        f"# MCFuser's chains on GPUs, {options.type}",
        "",
        f"By `bench/chains --type {options.type}`, commit {commit()}, which says what the columns are. No GPU was used: times are",
        "predictions, the code is NVRTC's.",
        "",
    ]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for target in options.targets.split(","):
            text, bad = table(options, cases, target, folder)
            lines += text
            wrong += bad
    out = "\n".join(lines)
    if options.out:
        Path(options.out).write_text(out)
    else:
        print(out)
    if options.type == "f16" and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
