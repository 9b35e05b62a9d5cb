"""Times the chains of MCFuser (SC'24, tables II and III) in float32 on this processor, beside peers.

    bench/chains --peers [CASE...] [--threads 2] [--rounds 7] [--weft PATH] [--out FILE]

G1 to G12 are two products, S1 to S9 attention; L2048 and L8192 are long attention of 12 and of 4
heads, C2048 and C8192 the same behind a causal mask. Each engine runs in a process of its own and
is stopped while another is measured; turns alternate. A cell is the least of an engine's turns,
each the least of its runs: others on the machine only add to what a run takes. `weft` plans as it
does by default, `chain` makes one kernel of a case, `greedy` one kernel for each product and for
what lies between.
"""

import argparse
import math
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import peers
from peers import ROOT, Failed, commit, geometric_mean, processor

sys.path.insert(0, str(ROOT / "models"))
from net import Net  # noqa: E402

PEERS = ("onnxruntime", "openvino")
PLANS = {"weft": "", "chain": "chain", "greedy": "greedy"}
# heads, positions, causal; of 64 elements
LONG = {"L2048": (12, 2048, False), "L8192": (4, 8192, False), "C2048": (12, 2048, True), "C8192": (4, 8192, True)}


def product(name, b, m, n, k, h):
    net = Net(name)
    a, w, u = net.input("a", b, m, k), net.input("b", b, k, n), net.input("d", b, n, h)
    net.output("y", net.MatMul(net.MatMul(a, w), u))
    return net


def attention(name, b, m, n, k, h, causal=False):
    net = Net(name)
    q, keys, v = net.input("q", 1, b, m, k), net.input("k", 1, b, n, k), net.input("v", 1, b, n, h)
    scores = net.Mul(net.MatMul(q, net.Transpose(keys, perm=[0, 1, 3, 2])), k**-0.5)
    if causal:
        place = net.Range(np.int64(0), np.int64(n), np.int64(1))
        kept = net.LessOrEqual(net.Unsqueeze(place, [0]), net.Unsqueeze(place, [1]))
        scores = net.Where(kept, scores, np.float32(-np.inf))
    net.output("y", net.MatMul(net.Softmax(scores, axis=-1), v))
    return net


def write(case, cases, folder):
    products, attentions = cases
    if case in products:
        net = product(case, *products[case])
    elif case in attentions:
        net = attention(case, *attentions[case])
    else:
        heads, length, causal = LONG[case]
        net = attention(case, heads, length, length, 64, 64, causal)
    model, inputs = Path(folder) / f"{case}.onnx", Path(folder) / f"{case}.npz"
    model.write_bytes(net.model().SerializeToString())
    np.savez(inputs, **net.samples)
    return f"{model}:{inputs}"


def engine_of(name, options, case, folder):
    if name in PEERS:
        return peers.start(name, SimpleNamespace(precision=None, processor_time=False), case, folder)
    own = SimpleNamespace(weft=options.weft, plan=PLANS[name], precision=None, processor_time=False)
    place = folder / name
    place.mkdir()
    return peers.Weft(own, case, place, None)


def measure(case, options):
    """By engine the least milliseconds, or why there are none."""
    found, running = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (*PEERS, *PLANS):
            try:
                running[name] = engine_of(name, options, case, Path(folder))
                if name == "onnxruntime":
                    case.expected = running[name].outputs()
                elif case.expected is not None:
                    peers.compare(running[name].outputs(), case.expected, case.model, case.inputs)
            except Failed as failure:
                found[name] = str(failure)
                if name in running:
                    running.pop(name).close()
        for turn in range(options.rounds):
            names = list(running)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                try:
                    ms = running[name].turn(0.3)["min_ms"]
                    found[name] = min(found.get(name, math.inf), ms)
                except Failed as failure:
                    found[name] = str(failure)
                    running.pop(name).close()
        for process in running.values():
            process.close()
    return found


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def line_of(case, found):
    times = {name: ms for name, ms in found.items() if isinstance(ms, float)}
    best = min((times[name] for name in PEERS if name in times), default=None)
    ratio = best / times["weft"] if best and "weft" in times else None
    text = " | ".join(shown(found.get(name, "")) for name in (*PEERS, *PLANS))
    return f"| {case} | {text} | {f'{ratio:.2f}x' if ratio else ''} |", ratio


def run(cases, arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--out", default="")
    options = parser.parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    lines = [
        "# MCFuser's chains on a CPU, float32",
        "",
        f"By `bench/chains --peers --threads {options.threads}`, commit {commit()}, on {processor()}; bench/chains_cpu.py says",
        "what the columns are. Milliseconds, the least of alternating runs; the ratio is the faster peer's time over weft's.",
        "",
        f"| case | {' | '.join((*PEERS, *PLANS))} | ratio |",
        "|---" * (len(PEERS) + len(PLANS) + 2) + "|",
    ]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases or [*cases[0], *cases[1], *LONG]:
            line, ratio = line_of(case, measure(peers.Case(write(case, cases, folder), cores), options))
            lines.append(line)
            ratios += [ratio] if ratio else []
            print(line, file=sys.stderr, flush=True)
    if ratios:
        lines += ["", f"Geometric mean {geometric_mean(ratios):.2f}x, least {min(ratios):.2f}x."]
    text = "\n".join([*lines, ""])
    if options.out:
        Path(options.out).write_text(text)
    else:
        print(text)
