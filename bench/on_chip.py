"""What blocks of one launch keep on chip from kernel to kernel (Souffle §6.5), predicted.

    bench/on_chip.py [--weft PATH] [--target T] [--out FILE]

EfficientNet's squeeze-and-excite modules M0 to M9 of the paper (§8.3), and the paper's models, by the
planner `subprogram` without and with reuse. Nothing is timed on a device.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Channels, height and width, reduced channels.
MODULES = [(32, 112, 8), (96, 56, 4), (144, 56, 6), (144, 28, 6), (240, 28, 10)]
MODULES += [(240, 14, 10), (480, 14, 20), (672, 14, 28), (672, 7, 28), (1152, 7, 48)]
MODELS = ["bert-base-s384", "efficientnet-b0", "resnext101-64x4d", "swin-b", "mmoe", "se-m0", "se-m5"]
WAYS = [["--parameters", "reuse=0"], []]

HEADING = """# What blocks keep on chip: `subprogram`, {target}

By `bench/on_chip.py`: predicted, without and with reuse (`--parameters reuse=0`). Launches; KB of distinct elements
that kernels read and write; KB that their warps ask for, reads and writes; time. Hits are reads of a later kernel that
find what their block had, saved the KB that they do not ask for. Nothing here was timed on a device.

"""


def module(channels, size, reduced):
    """In weft's text: a mean without its factor, two products, and the map times what they make."""
    c, s, r = channels, size, reduced
    return f"""(x: f32[{c},{s},{s}], w: f32[{c},{r}], v: f32[{r},{c}]) {{
  p = reduce x, axes={{1,2}}, combiner=sum : f32[{c}]
  m = reshape p : f32[1,{c}]
  a = dot_general m, w, lhs_contract={{1}}, rhs_contract={{0}} : f32[1,{r}]
  b = sigmoid a : f32[1,{r}]
  d = mul a, b : f32[1,{r}]
  e = dot_general d, v, lhs_contract={{1}}, rhs_contract={{0}} : f32[1,{c}]
  f = sigmoid e : f32[1,{c}]
  g = reshape f : f32[{c}]
  h = broadcast g, dims={{0}} : f32[{c},{s},{s}]
  y = mul x, h : f32[{c},{s},{s}]
}} -> (y)
"""


def explained(options, model, more):
    command = [options.weft, "explain", model, "--target", options.target, "--plan", "subprogram", "--json", "--no-cache"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)["kernels"]


def row(options, name, model, more=()):
    cells, kept = [name], []
    for way in WAYS:
        kernels = explained(options, model, [*way, *more])
        kept = [k["kept_on_chip"] for k in kernels if "kept_on_chip" in k]
        total = {key: sum(k[key] * k["times"] for k in kernels) for key in ("bytes_read", "bytes_written", "bytes_requested")}
        us = sum(k["predicted_us"] * k["times"] for k in kernels)
        moved = (total["bytes_read"] + total["bytes_written"]) / 1e3
        cells.append(f"{len(kernels)}; {moved:.0f}, {total['bytes_requested'] / 1e3:.0f}, {us:.1f} us")
    hits, given_up = (sum(k[key] for k in kept) for key in ("hits", "evictions"))
    saved = sum(k["bytes_saved"] for k in kept) / 1e3
    return "| " + " | ".join([*cells, f"{hits}, {given_up}, {saved:.0f} KB"]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--target", default="a100-40gb")
    parser.add_argument("--out", help="file for the tables; default: stdout")
    options = parser.parse_args()
    head = ["| | without: launches; KB, KB asked for, us | with | hits, given up, saved |", "|---|---|---|---|"]
    lines = ["## Squeeze and excite, kernels as leaves (`--compositions leaf,grid`)", "", *head]
    with tempfile.TemporaryDirectory() as folder:
        for number, sizes in enumerate(MODULES):
            path = Path(folder) / f"m{number}.graph"
            path.write_text(module(*sizes))
            name = f"M{number}, {sizes[0]} x {sizes[1]} x {sizes[1]}, {sizes[2]}"
            lines.append(row(options, name, path, ["--compositions", "leaf,grid"]))
    lines += ["", "## Models", "", *head]
    for name in MODELS:
        path = ROOT / "build/models" / f"{name}.onnx"
        if not path.exists():
            parser.error(f"not in build/models (models/materialize.py makes it): {name}")
        lines.append(row(options, name, path))
    text = HEADING.format(target=options.target) + "\n".join(lines) + "\n"
    if options.out:
        Path(options.out).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
