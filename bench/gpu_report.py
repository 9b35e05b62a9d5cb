#!/usr/bin/env python3
"""Writes what bench/gpu_run.py, gpu_models.py and gpu_torch.py found on a GPU as tables.

    gpu_report.py --kit kit.json --models models.json --torch torch.json --calibrated T.target [--tiles models.json] -o FILE.md

Correlations are Spearman's, of what is predicted for a kernel and what it took in its place; equal
kernels of a model count once.
"""

import argparse
import json
import math
import re
from collections import defaultdict
from pathlib import Path

FIGURES = ("launch_us", "barrier_us", "cluster_barrier_us", "bandwidth")
PEERS = {"lstm-op": "lstm", "lstm-souffle": "lstm"}
# Of Souffle (ASPLOS'24), tables 4 and 5, on an A100 in 16 bits: ms, kernels, MB.
SOUFFLE = {
    "bert-base-s384": (1.22, 24, 226.8), "resnext101-64x4d": (4.43, 105, 470.2), "lstm-souffle": (0.8, 1, 10.6),
    "lstm-op": (0.8, 1, 10.6), "efficientnet-b0": (0.63, 66, 86.6), "swin-b": (1.55, 53, 282.9), "mmoe": (0.014, 1, 0.058),
}  # fmt: skip


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    for rank, i in enumerate(order):
        out[i] = rank
    return out


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    return top / math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def device_us(record):
    bench = record.get("bench", {})
    return bench.get("device_warm_us", bench.get("device_median_us"))


def points(models):
    """(case, template, predicted us, measured us) of each kernel; loops' kernels are left out."""
    out = []
    for case, record in models.items():
        measured = {k[0]: k[3] / 1e3 for k in record.get("kernels", [])}
        seen = set()
        for step in record.get("steps", []):
            entry = step.get("entry")
            if entry in measured and entry not in seen and step["depth"] == 0 and "predicted_ms" in step:
                seen.add(entry)
                out.append((case, step["template"], step["predicted_ms"] * 1e3, measured[entry]))
    return out


def kind_of(template):
    for kind in ("chain", "one after another", "side by side", "stages", "contract on cores", "contract on matrix units",
                 "contract", "rows", "elementwise"):  # fmt: skip
        if template.startswith(kind):
            return kind
    return "other"


def correlation_lines(models, tiles):
    own = points({case: record for case, record in models.items() if "@" not in case})
    lines = ["## Predicted and measured", ""]
    lines += [f"{len(own)} kernels of the models above: Spearman's correlation {spearman([p[2] for p in own], [p[3] for p in own]):.3f}.", ""]
    lines += ["| kernels | number | measured over predicted | spread |", "|---|---:|---:|---:|"]
    by_kind = defaultdict(list)
    for _, template, predicted, measured in own:
        by_kind[kind_of(template)].append(measured / predicted)
    for kind, ratios in sorted(by_kind.items()):
        logs = [math.log(r) for r in ratios]
        mean = sum(logs) / len(logs)
        spread = math.exp(math.sqrt(sum((x - mean) ** 2 for x in logs) / len(logs)))
        lines.append(f"| {kind} | {len(ratios)} | {math.exp(mean):.2f} | x{spread:.2f} |")
    if tiles:
        groups = defaultdict(list)
        for case, _, predicted, measured in points(tiles):
            groups[Path(case).stem].append((predicted, measured))
        lines += ["", "One product on several tiles, the first of which is chosen:", ""]
        lines += ["| product | tiles | Spearman | chosen over quickest |", "|---|---:|---:|---:|"]
        each = []
        for name, pairs in sorted(groups.items()):
            each.append(spearman([p[0] for p in pairs], [p[1] for p in pairs]))
            lines.append(f"| {name} | {len(pairs)} | {each[-1]:.2f} | {pairs[0][1] / min(p[1] for p in pairs):.2f} |")
        each.sort()
        lines.append(f"\nMedian of the groups: {each[len(each) // 2]:.2f}.")
    return [*lines, ""]


def model_lines(models, peers):
    lines = ["## Models", "", "| model | kernels | MB | predicted us | us | torch.compile | eager | over the better |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    ratios = []
    for case, record in models.items():
        if case.startswith("/") or device_us(record) is None:
            continue
        if "@" in case and not any(f"| {case.partition('@')[0]} " in line for line in lines):
            continue
        bench, us = record["bench"], device_us(record)
        predicted = sum(s.get("predicted_ms", 0) for s in record.get("steps", []) if s["depth"] == 0) * 1e3
        peer = peers.get(PEERS.get(case, case), {})
        better = min((v for v in (peer.get("compiled"), peer.get("eager")) if v), default=None)
        if better:
            ratios.append(better / us)
        cells = [f"{peer[w]:.1f}" if w in peer else "" for w in ("compiled", "eager")]
        moved = (bench["bytes_read"] + bench["bytes_written"]) / 1e6
        verdict = "" if record.get("verdict") == "ok" else " (" + record.get("verdict", "?")[:60] + ")"
        lines.append(f"| {case}{verdict} | {bench['kernels'] + bench['library_calls']} | {moved:.1f} | {predicted:.1f} | {us:.1f} | {cells[0]} | {cells[1]} | {f'{better / us:.2f}x' if better else ''} |")
    lines += ["", f"Geometric mean over the better of PyTorch's two on {len(ratios)} models: {geometric_mean(ratios):.2f}x.", ""]
    lines += ["Souffle's table (ASPLOS'24, tables 4 and 5: an A100, 16 bits) beside these, in float32 and, where there is one, in float16:", ""]
    lines += ["| model | paper ms, kernels, MB | ms | kernels | MB |", "|---|---|---:|---:|---:|"]
    for case, (ms, kernels, megabytes) in SOUFFLE.items():
        for name in (case, f"{case}-f16"):
            if device_us(models.get(name, {})) is None:
                continue
            bench = models[name]["bench"]
            moved = (bench["bytes_read"] + bench["bytes_written"]) / 1e6
            lines.append(f"| {name} | {ms}, {kernels}, {megabytes} | {device_us(models[name]) / 1e3:.3f} | {bench['kernels'] + bench['library_calls']} | {moved:.2f} |")
    return [*lines, ""]


def chain_lines(models, peers):
    lines = ["## MCFuser's chains, float16", "", "| case | auto | kernels | predicted | --plan chain | --plan greedy | torch.compile | fused attention | over the better |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    found = defaultdict(dict)
    for case, record in models.items():
        match = re.search(r"chains/(\w+)\.graph(?:@(\w+))?$", case)
        if match and device_us(record) is not None:
            found[match[1]][match[2] or "auto"] = record
    ratios = []
    for name, plans in sorted(found.items(), key=lambda item: (item[0][0], int(item[0][1:]))):
        peer = peers.get(name, {})
        best = min((v for v in peer.values() if v), default=None)
        cell = lambda plan: f"{device_us(plans[plan]):.1f}" if plan in plans else ""  # noqa: E731
        if "auto" not in plans:
            continue
        us = device_us(plans["auto"])
        if best:
            ratios.append(best / us)
        predicted = sum(s.get("predicted_ms", 0) for s in plans["auto"].get("steps", [])) * 1e3
        lines.append(f"| {name} | {us:.1f} | {plans['auto']['bench']['kernels']} | {predicted:.1f} | {cell('chain')} | {cell('greedy')} | {peer.get('compiled', 0):.1f} | {'%.1f' % peer['fused'] if 'fused' in peer else ''} | {f'{best / us:.2f}x' if best else ''} |")
    return [*lines, "", f"Geometric mean over the better of PyTorch's: {geometric_mean(ratios):.2f}x.", ""]


def row_lines(kit):
    lines = ["## Rows", "", "Microseconds, second-level cache flushed before each run; beside them a copy of as many bytes.", ""]
    lines += ["| rows | us | copy | of the copy's rate | torch.compile | eager | JAX (warm) |", "|---|---:|---:|---:|---:|---:|---:|"]
    key = lambda r: (r["kind"], r["rows"], r["columns"], r["dtype"])  # noqa: E731
    peers = {name: {key(r): r for r in kit.get(name, []) if isinstance(r, dict) and "kind" in r} for name in ("torch", "jax")}
    for r in kit.get("rows", []):
        if "error" in r:
            continue
        torch, jax = peers["torch"].get(key(r), {}), peers["jax"].get(key(r), {})
        number = lambda record, name: f"{record[name]:.1f}" if name in record else ""  # noqa: E731
        lines.append(f"| {r['kind']} {r['rows']}x{r['columns']} {r['dtype']} | {r['device_flushed_us']:.1f} | {r['copy_flushed_us']:.1f} | {r.get('of_copy_flushed', 0):.2f} | {number(torch, 'compiled_flushed_us')} | {number(torch, 'eager_flushed_us')} | {number(jax, 'jit_warm_us')} |")
    return [*lines, ""]


def check_lines(kit, calibrated):
    verdicts = kit.get("models", {})
    wrong = [name for name, verdict in verdicts.items() if verdict != "ok"]
    lines = [f"{len(verdicts)} reduced models against their expected outputs: {'all right' if not wrong else 'wrong: ' + ', '.join(wrong)}."]
    sanitizer = kit.get("sanitizer", {})
    if isinstance(sanitizer, dict) and sanitizer:
        bad = [name for name, verdict in sanitizer.items() if not verdict.startswith("0 ")]
        lines.append(f"compute-sanitizer's memcheck, racecheck and synccheck on {len(sanitizer)} runs: {'nothing' if not bad else ', '.join(bad)}.")
    figures = [line for line in calibrated.splitlines() if line.startswith(FIGURES)]
    return [*lines, "", "`weft calibrate --target cuda`:", "", *(f"    {line}" for line in figures), ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("kit", "models", "torch", "calibrated"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--tiles", type=Path)
    parser.add_argument("--note", default="", help="what to say first: commits, dates")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    kit, models, torch = (json.loads(p.read_text()) for p in (options.kit, options.models, options.torch))
    tiles = json.loads(options.tiles.read_text()) if options.tiles else {}
    tiles = {case: record for case, record in tiles.items() if "/tiles" in case}
    peers = defaultdict(dict)
    for record in torch["records"]:
        if "us" in record:
            peers[record["case"]][record["way"]] = record["us"]
    whole = {case: record for case, record in models.items() if "/tiles" not in case}
    lines = [f"# On a GPU: {kit.get('device', '?')}", "", options.note, ""]
    lines += ["Times are of the device, inputs and outputs on it, runs as CUDA graphs after each other; PyTorch " + torch["torch"] + " the same", "(bench/gpu_torch.py).", ""]
    lines += check_lines(kit, options.calibrated.read_text()) + model_lines(whole, peers) + chain_lines(whole, peers)
    lines += row_lines(kit) + correlation_lines(whole, tiles)
    options.output.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
