"""Reductions that depend on each other, with and without one loop that carries them.

    build/venv/bin/python bench/online.py [--threads 1] [--rounds 7] [--weft PATH] [--out FILE]

On this processor: log-sum-exps of rows, and attention of 4 heads of 64 elements over 2048 positions
behind a causal mask that is chosen by, or added as a finite number. `auto` plans as weft does by
default, `greedy` one kernel for each product and for rows; turns alternate, and a cell is the least
of them in milliseconds. On GPUs, predicted for attention of 32 heads in float16, with and without
such masks, in microseconds.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ROWS = """(x: f32[$R,$N]) {
  m = reduce x, axes={1}, combiner=max : f32[$R]
  mb = broadcast m, dims={0} : f32[$R,$N]
  d = sub x, mb : f32[$R,$N]
  e = exp d : f32[$R,$N]
  s = reduce e, axes={1}, combiner=sum : f32[$R]
  l = log s : f32[$R]
  y = add l, m : f32[$R]
} -> (y)"""

ATTENTION = """(q: $T[$B,$N,64], k: $T[$B,$N,64], v: $T[$B,$N,64]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : $T[$B,$N,$N]
  w = convert a : f32[$B,$N,$N]
  i = iota axis=1 : i64[$B,$N,$N]
  j = iota axis=2 : i64[$B,$N,$N]
  c = le j, i : bool[$B,$N,$N]
  low = constant $LOW : f32[]
  lows = broadcast low, dims={} : f32[$B,$N,$N]
  zero = constant 0 : f32[]
  zeros = broadcast zero, dims={} : f32[$B,$N,$N]
  z = select c, zeros, lows : f32[$B,$N,$N]
  t = $CHOICE : f32[$B,$N,$N]
  m = reduce t, axes={2}, combiner=max : f32[$B,$N]
  mb = broadcast m, dims={0,1} : f32[$B,$N,$N]
  d = sub t, mb : f32[$B,$N,$N]
  e = exp d : f32[$B,$N,$N]
  s = reduce e, axes={2}, combiner=sum : f32[$B,$N]
  sb = broadcast s, dims={0,1} : f32[$B,$N,$N]
  r = div e, sb : f32[$B,$N,$N]
  p = convert r : $T[$B,$N,$N]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : $T[$B,$N,64]
} -> (y)"""

MASKS = {
    "no mask": ("-inf", "add w, w"),
    "causal, -inf": ("-inf", "select c, w, lows"),
    "causal, -3.4e38 added": ("-3.4e38", "add w, z"),
}


def filled(text, **values):
    for name, value in values.items():
        text = text.replace("$" + name, str(value))
    return text


def attention(mask, heads, positions, dtype):
    low, choice = MASKS[mask]
    return filled(ATTENTION, B=heads, N=positions, T=dtype, LOW=low, CHOICE=choice)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--out")
    options = parser.parse_args()
    graph = Path(tempfile.mkdtemp()) / "case.graph"

    def weft(text, command, *arguments):
        graph.write_text(text)
        run = subprocess.run([options.weft, command, str(graph), *arguments], capture_output=True, text=True, check=True)
        return run.stdout

    def least(text):
        times = {"greedy": [], "auto": []}
        for _ in range(options.rounds):
            for plan, cells in times.items():
                out = weft(text, "bench", "--plan", plan, "--threads", str(options.threads))
                cells.append(float(re.search(r"min ([0-9.]+)", out).group(1)))
        return min(times["greedy"]), min(times["auto"])

    lines = [f"| {options.threads} threads, ms | greedy | auto | ratio |", "|---|---|---|---|"]
    cases = {
        f"log-sum-exp [{r}, {n}]": filled(ROWS, R=r, N=n) for r, n in ((64, 50257), (64, 300000), (8, 4000000))
    }
    cases |= {f"attention 4x2048, {mask}": attention(mask, 4, 2048, "f32") for mask in MASKS}
    for name, text in cases.items():
        apart, carried = least(text)
        lines.append(f"| {name} | {apart:.4g} | {carried:.4g} | {apart / carried:.2f}x |")
    lines += ["", "| attention 32x2048, float16, predicted us | a100-40gb | h100-sxm |", "|---|---|---|"]
    for mask in MASKS:
        cells = []
        for target in ("a100-40gb", "h100-sxm"):
            out = weft(attention(mask, 32, 2048, "f16"), "explain", "--target", target)
            cells.append(re.search(r"predicted on \S+: (\d+) us", out).group(1))
        lines.append(f"| {mask} | {cells[0]} | {cells[1]} |")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        Path(options.out).write_text(text)


if __name__ == "__main__":
    main()
