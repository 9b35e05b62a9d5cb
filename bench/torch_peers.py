"""torch_peers [NAME...]: eager torch, inductor and weft side by side on torch modules.

A NAME with a colon, as timm:ghostnet_100, is a network of bench/networks.py, whose libraries must
be installed, too. A case that an engine cannot run is told and left out.

Each engine runs in a process of its own on the same weights and inputs, in alternating turns; its
outputs are compared with eager's first. A time is the least over the turns of the median of a
turn's calls: by the clock, or with --threads 1 by the processor's time of the process, which
other programs of the machine lengthen less. "first" is the first call by the clock, in which torch
traces and the backend compiles, without caches on disk.

    --threads N     of each engine (2)
    --turns N       alternating turns of half a second (5)
    --train         calls are steps of training: forward, the mean of squares (torch's), gradients
    --markdown FILE the table goes there, too
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ENGINES = ("eager", "inductor", "weft")
TURN_SECONDS = 0.5
NO_CACHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def case_names():
    from torch_cases import CASES

    return list(CASES)


def module_and_inputs(name):
    """A case of torch_cases, or a network of bench/networks.py, with weights of a fixed seed."""
    import torch
    from torch_cases import CASES

    torch.manual_seed(0)
    if ":" not in name:
        make, inputs = CASES[name]
        return make().eval(), inputs()
    import networks

    model, shapes = networks.network(*name.split(":"))
    return model.eval(), [networks.random_input(shape) for shape in shapes]


def step_of(model, call, x):
    """Runs forward, a loss and backward; returns the gradients."""

    def step():
        model.zero_grad()
        made = call(*x)
        outputs = made if isinstance(made, tuple) else (made,)
        sum(output.square().mean() for output in outputs).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    return step


def work(engine, name, threads, expected, train):
    """One engine on one case: compares, then answers each line with the median of a turn."""
    import torch

    torch.set_num_threads(threads)
    model, x = module_and_inputs(name)
    clock = time.process_time if threads == 1 else time.perf_counter
    call = model if engine == "eager" else torch.compile(model, backend=engine)
    run = step_of(model, call, x) if train else lambda: call(*x)
    with torch.set_grad_enabled(train):
        start = time.perf_counter()
        made = run()
        first = time.perf_counter() - start
        if engine == "eager":
            torch.save(made, expected)
        else:
            torch.testing.assert_close(made, torch.load(expected), rtol=1e-3, atol=1e-4)
        print(json.dumps(first), flush=True)
        for _ in sys.stdin:
            times, end = [], time.perf_counter() + TURN_SECONDS
            while time.perf_counter() < end or len(times) < 5:
                start = clock()
                run()
                times.append(clock() - start)
            print(json.dumps(sorted(times)[len(times) // 2]), flush=True)


def compare(name, options):
    """First calls and calls of each engine, in seconds; None where an engine failed."""
    with tempfile.TemporaryDirectory() as folder:
        workers, first = {}, {}
        for engine in ENGINES:
            command = [sys.executable, __file__, "--worker", engine, f"{folder}/expected", name]
            command += ["--threads", str(options.threads)] + ["--train"] * options.train
            pipe = subprocess.PIPE
            workers[engine] = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, env=os.environ | NO_CACHES
            )
            line = workers[engine].stdout.readline()
            if not line:
                print(f"torch_peers: {engine} failed on {name}", file=sys.stderr, flush=True)
                for worker in workers.values():
                    worker.kill()
                return None
            first[engine] = json.loads(line)
        turns = {engine: [] for engine in ENGINES}
        for _ in range(options.turns):
            for engine, worker in workers.items():
                worker.stdin.write("go\n")
                worker.stdin.flush()
                turns[engine].append(json.loads(worker.stdout.readline()))
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    return first, {engine: min(times) for engine, times in turns.items()}


def row(name, first, times):
    cells = [f"{times[e] * 1e3:.4g} ({times['inductor'] / times[e]:.2f}x)" for e in ENGINES]
    starts = [f"{first[e]:.2f}" for e in ENGINES[1:]]
    return f"| {name} | " + " | ".join([*cells, *starts]) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--markdown")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], options.names[0], options.threads, options.worker[1], options.train)
        return
    lines = [
        "| module | eager ms | inductor ms | weft ms | inductor first s | weft first s |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    ratios, starts = [], []
    for name in options.names or case_names():
        made = compare(name, options)
        if made is None:
            continue
        first, times = made
        lines.append(row(name, first, times))
        print(lines[-1], flush=True)
        ratios.append(times["inductor"] / times["weft"])
        starts.append(first["weft"] / first["inductor"])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    start = math.exp(sum(map(math.log, starts)) / len(starts))
    lines.append(
        f"\nweft's speed over inductor's: geometric mean {mean:.2f}x, least {min(ratios):.2f}x. "
        f"First calls take {start:.2f} of inductor's time (geometric mean)."
    )
    print(lines[-1])
    if options.markdown:
        pathlib.Path(options.markdown).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
