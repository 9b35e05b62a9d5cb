"""What a call from Python costs above one from C++: two small tensors in, one out, one thread.

    bench/call_overhead [--json FILE]

Each figure is the least mean of some rounds; the ways of calling take turns, so that they see the
same machine. Needs the wheel (weft) and numpy; torch is measured where it is.
"""

import argparse
import json
import subprocess
import tempfile
import timeit
from pathlib import Path

import numpy as np
import onnx
import weft
from onnx import TensorProto, helper

ROUNDS, CALLS = 20, 20000
CALL_TIME = Path(__file__).parent.parent / "build/release/call_time"


def model():
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xyz"]
    add = helper.make_node("Add", ["x", "y"], ["z"])
    graph = helper.make_graph([add], "g", tensors[:2], tensors[2:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    made.ir_version = 10
    return made


def ways(exe):
    """Calls without arguments, by name."""
    x, y, z = (np.zeros((2, 3), np.float32) for _ in range(3))
    calls = {
        "numpy, run_into": lambda: exe.run_into(z, x, y),
        "numpy, run_into by name": lambda: exe.run_into({"z": z}, x=x, y=y),
        "numpy, new result": lambda: exe(x, y),
    }
    try:
        import torch
    except ImportError:
        return calls
    tx, ty, tz = (torch.zeros(2, 3) for _ in range(3))
    calls["torch, run_into"] = lambda: exe.run_into(tz, tx, ty)
    calls["torch, new result"] = lambda: exe(tx, ty)
    return calls


def main():
    as_written = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--json", help="the figures as JSON, too")
    options = parser.parse_args()
    exe = weft.compile(model(), threads=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "add.weft"
        exe.save(path)
        direct = float(subprocess.run([CALL_TIME, path], capture_output=True, check=True).stdout)
    empty = min(timeit.repeat(lambda: None, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9
    calls = ways(exe)
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            least[name] = min(least[name], timeit.timeit(call, number=CALLS) / CALLS * 1e9)
    print("| call | ns | above C++ |\n|---|---|---|")
    print(f"| C++, Context::run | {direct:.0f} | |")
    for name, ns in least.items():
        print(f"| {name} | {ns:.0f} | {ns - direct:.0f} |")
    print(f"\nAn empty function takes {empty:.0f} ns of each call from Python.")
    if options.json:
        figures = {"C++": direct, "empty function": empty, **least}
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
