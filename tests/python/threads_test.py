"""Threads, signals, memory."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import weft
from conftest import model_of
from growth import growth
from onnx import TensorProto, helper, numpy_helper


def test_many_threads_run_one_executable(add_model):
    exe = weft.compile(add_model, max_bindings=3)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            n = int(rng.integers(1, 5))
            x, y = rng.standard_normal((2, n, 3), np.float32)
            z, _ = exe(x, y)
            if not np.array_equal(z, x + y):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert exe.bindings <= 3


def endless_model():
    """Counts x up for ever."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["v", "v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]),
        ],
    )
    return model_of(
        [helper.make_node("Loop", ["", "run", "x"], ["y"], body=body)],
        [("run", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [4])],
        [("y", TensorProto.FLOAT, [4])],
    )


def layered_model(layers):
    """Products and softmaxes, each of a size of its own, so that each is a kernel of its own."""
    nodes, initializers = [], []
    rng = np.random.default_rng(0)
    for i in range(layers):
        w = rng.standard_normal((32 + i, 33 + i), np.float32)
        initializers.append(numpy_helper.from_array(w, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"h{i}"]))
        nodes.append(helper.make_node("Softmax", [f"h{i}"], [f"x{i + 1}"], axis=-1))
    return model_of(
        nodes,
        [("x0", TensorProto.FLOAT, [32, 32])],
        [(f"x{layers}", TensorProto.FLOAT, [32, 32 + layers])],
        initializers,
    )


INTERRUPTED = """
import sys, time, numpy as np, weft
path, what = sys.argv[1:]
exe = weft.compile(path) if what == "run" else None
print("ready", flush=True)
try:
    if what == "run":
        exe(np.array(True), np.ones(4, np.float32))
    else:
        weft.compile(path)
    print("it ended by itself")
except KeyboardInterrupt:
    print("interrupted")
"""


def interrupted(path, what):
    """What a process says that is interrupted a while after it began."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(path), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=60)[0]
    finally:
        process.kill()


def test_an_interrupt_ends_a_run(path_of):
    assert interrupted(path_of(endless_model()), "run") == "interrupted\n"


def test_an_interrupt_ends_a_compilation(path_of):
    assert interrupted(path_of(layered_model(150)), "compile") == "interrupted\n"


def test_other_threads_go_on_while_one_runs(path_of):
    """The endless run holds no lock of the interpreter; its process dies with it."""
    script = """
import os, sys, threading, time, numpy as np, weft
exe = weft.compile(sys.argv[1])
args = np.array(True), np.ones(4, np.float32)
threading.Thread(target=exe, args=args, daemon=True).start()
time.sleep(0.2)
print(sum(range(1000)), flush=True)
os._exit(0)
"""
    out = subprocess.run(
        [sys.executable, "-c", script, path_of(endless_model())],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.stdout == "499500\n", out.stderr


def test_runs_leave_no_memory_behind(dense_model):
    exe = weft.compile(dense_model)
    x, out = np.ones((2, 4), np.float32), np.zeros((2, 5), np.float32)

    def run():
        exe(x)
        exe.run_into([out], x=x)

    def fail():
        try:
            exe(out)
        except weft.InvalidInput:
            pass

    assert growth(run, 1000, 10000) < 1 << 20
    assert growth(fail, 1000, 10000) < 1 << 20


def test_compilations_leave_no_memory_behind(dense_model):
    content = dense_model.SerializeToString()

    def compile():
        weft.compile(content)(np.ones((2, 4), np.float32))

    # The allocator keeps some of what compilations use; none of it is per compilation.
    assert growth(compile, 50, 200) < 8 << 20


def test_bindings_leave_no_memory_behind(add_model):
    exe = weft.compile(add_model, max_bindings=2)
    sizes = iter(range(1, 1000))

    def bind():
        x = np.ones((next(sizes), 3), np.float32)
        exe(x, x)

    assert growth(bind, 50, 100) < 8 << 20
