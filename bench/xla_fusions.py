"""Memory kernels of the planner `xla` beside the fusions in XLA's own optimised text.

    bench/xla_fusions.py [MODULE...] [--weft PATH] [--seconds S] [--out FILE]

Needs JAX (pip install "jax[cpu]"; nothing else of weft does). Modules are those of models/hlo; each is
compiled by JAX's XLA for this CPU, since XLA's passes for GPUs ask for one. Counted are, outside of
fusions, those and single operations that move memory: in the entry, in bodies of loops and branches
once. weft counts the kernels of `xla` in the same way, with every product and convolution a call
(--compute-as-calls), planned for x86-64-v4.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import hlo_modules

ROOT = Path(__file__).resolve().parent.parent
CALLS = {"dot", "convolution", "custom-call", "sort", "scatter", "rng-bit-generator", "topk"}
# No kernel, or none of its own: names of what is there, and what holds computations.
NOTHING = """parameter constant tuple get-tuple-element bitcast while conditional call after-all
opt-barrier partition-id replica-id""".split()
HEADING = """# Kernels of planner xla and fusions of XLA

By `bench/xla_fusions.py`: memory kernels of weft's `xla`, a model of XLA's rules for GPUs, beside those of XLA's
own compiler for CPUs (JAX {version}), which is the one that runs without a GPU. Products and convolutions are calls.
So this is no test of the model on the device that it is made for. What was found behind differences of more than 15%,
without taking each module apart:

- XLA makes next to no fusion of several results on CPUs (column). Its rules for GPUs do, and `xla` with them: moments
  and weights of an optimiser, what a backward pass keeps. Training steps, inference with residuals: 0.4 to 0.85.
- weft finds equal pieces and rolls them into loops, whose bodies count once: `rnn`, `bi-rnn`, `dyn-rnn`, `lstm-…`.
  With `--unroll` `rnn` has 151 kernels instead of 60, `bi-rnn` 158 instead of 68.
- XLA copies what loops carry, and concatenates by single operations; weft's movement lies in the reads.
- On CPUs XLA puts what stands around a product into a fusion with it (last column), which counts as a call here:
  `bert-base-infer`, `attention-s1`, `word2vec-eval`, above 1.

| module | weft | XLA | ratio | fusions | of several results | single operations | fusions with products |
|---|---|---|---|---|---|---|---|
"""


def optimised(text):
    executable, _ = hlo_modules.compiled(text)
    return executable.hlo_modules()[0].to_string()


def computations(text):
    """By name, the instructions of each as (opcode, line); the entry's name."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line)
        if head:
            name = head[2]
            found[name] = []
            entry = name if head[1] else entry
        elif name and (op := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(", line)):
            found[name].append((op[1], line))
    return found, entry


def kernels(text):
    """Fusions and single operations, as counters."""
    found, entry = computations(text)
    fusions, single = Counter(), Counter()
    left, seen = [entry], set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for opcode, line in found.get(name, []):
            if opcode == "fusion":
                inside = re.search(r"calls=%?([\w.\-]+)", line)[1]
                held = {op for op, _ in found.get(inside, [])}
                fusions["call" if held & CALLS else "memory"] += 1
                fusions["several"] += not held & CALLS and re.search(r" = \(", line) is not None
            elif opcode in NOTHING:
                for group in re.findall(r"(?:body|condition|to_apply|calls)=%?([\w.\-]+)", line):
                    left.append(group)
                for group in re.findall(r"branch_computations=\{([^}]*)\}", line):
                    left += [n.strip().lstrip("%") for n in group.split(",")]
            elif opcode not in CALLS:
                single[opcode] += 1
    return fusions, single


def weft_kernels(weft, path, seconds):
    command = [weft, "explain", str(path), "--target", "x86-64-v4", "--plan", "xla", "--json"]
    command += ["--no-cache", "--compute-as-calls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        return None
    return json.loads(done.stdout)["memory_kernels"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    for path in hlo_modules.paths():
        name = hlo_modules.name_of(path)
        if options.modules and name not in options.modules:
            continue
        text = hlo_modules.read(path)
        ours = weft_kernels(options.weft, path, options.seconds)
        try:
            fusions, single = kernels(optimised(text))
        except Exception as error:  # XLA's refusals have many types
            lines.append(f"| {name} | {ours} | {str(error).splitlines()[0][:60]} | | | | | |")
            continue
        theirs = fusions["memory"] + sum(single.values())
        ratio = f"{ours / theirs:.2f}" if ours is not None and theirs else ""
        most = ", ".join(f"{n} {op}" for op, n in single.most_common(3)) or 0
        cells = [name, ours, theirs, ratio, fusions["memory"], fusions["several"], most]
        cells.append(fusions["call"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
        print(lines[-1], file=sys.stderr)
    import jax

    text = HEADING.format(version=jax.__version__) + "\n".join(lines) + "\n"
    hlo_modules.put(text, options.out)


if __name__ == "__main__":
    main()
