#!/usr/bin/env python3
"""Checks and times weft on the GPU of this machine: models of the kit against their expected outputs,
row kernels against the CPU and beside copies of the same size, PyTorch and JAX on the same rows where
they are, and a sample under compute-sanitizer.

    ./run [--output results.json] [--quick | --models-only] [--minutes 7]
    ./run --peers-on-cpu      the peers' code alone, on the CPU and small rows: needs no GPU

Needs Python 3.8 and NVIDIA's driver. What is missing (compute-sanitizer, PyTorch, JAX, code for this
architecture) is said in the results and left out. Results are written as they come; a case that fails
or takes too long says so and the rest goes on. Exits 1 when something is computed wrong, 4 without a
GPU.
"""

import argparse
import array
import importlib.util
import json
import os
import platform
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KIT = Path(__file__).resolve().parent
WEFT = str(KIT / "bin/weft")
SANITIZED = ["softmax-max-div", "layernorm-operator", "mlp", "attention-div", "conv-se", "gru"]
CASE_SECONDS = 60
KINDS = ("softmax", "layernorm", "rmsnorm")
CHECKED = (4096, 1024)  # rows whose every element is compared with the CPU's
NO_DEVICE = 4


class Results:
    """What was found so far, on disk after every change."""

    def __init__(self, path, minutes):
        self.path = Path(path)
        self.end = time.monotonic() + 60 * minutes
        self.found = {}

    def set(self, name, value):
        self.found[name] = value
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(self.found, indent=1) + "\n")
        beside.replace(self.path)

    def add(self, name, record):
        """One more record of a list; of a mapping, where the record is a (key, value)."""
        if isinstance(record, tuple):
            self.set(name, {**self.found.get(name, {}), record[0]: record[1]})
        else:
            self.set(name, self.found.get(name, []) + [record])
        print(name, json.dumps(record), flush=True)

    def seconds_left(self):
        return self.end - time.monotonic()

    def goes_on(self, name):
        """Whether there is time for another case; else that is said, once."""
        if self.seconds_left() > 0:
            return True
        self.set("not_reached", sorted({*self.found.get("not_reached", []), name}))
        return False


def run(words, timeout=CASE_SECONDS):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"over {timeout} s")
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def device():
    """The line of `weft targets` about the device."""
    for line in run([WEFT, "targets"]).stdout.splitlines():
        if line.startswith("cuda"):
            return line[len("cuda") :].strip()
    return "no line about cuda"


class Words:
    """Commands on a model: its artefact where artefacts have code for this device, else the model
    itself through NVRTC."""

    def __init__(self):
        self.artefacts_run = None

    def __call__(self, model, command):
        artefact = model.with_suffix(".weft")
        if artefact.exists():
            if self.artefacts_run is None:
                self.artefacts_run = run([WEFT, "run", str(artefact)]).returncode != NO_DEVICE
            if self.artefacts_run:
                return [WEFT, command, str(artefact)]
        return [WEFT, command, str(model), "--target", "cuda", "--no-cache"]


def check_model(results, words, model):
    """ "ok", what went wrong, or nothing where there was no time."""
    if not results.goes_on("models"):
        return None
    stem = model.with_suffix("")
    values = ["--inputs", f"{stem}.inputs.npz", "--expect", f"{stem}.expected.npz"]
    if stem.name.endswith("f16"):
        values += ["--rtol", "5e-3", "--atol", "5e-3"]
    done = run(words(model, "run") + values)
    if done.returncode == 0:
        return "ok"
    cpu = run([WEFT, "run", str(model), "--no-cache", *values])
    return last_line(done.stderr) + f" (the CPU: {'ok' if cpu.returncode == 0 else 'wrong too'})"


def check_models(results, words):
    """name -> "ok" or what went wrong, against the expected outputs and against the CPU."""
    models = sorted((KIT / "models").glob("*.onnx"))
    words(models[0], "run")  # asks once whether artefacts run here
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        verdicts = pool.map(lambda model: check_model(results, words, model), models)
        for model, verdict in zip(models, verdicts):
            if verdict is not None:
                results.add("models", (model.stem, verdict))


def sanitize(results, words):
    """name and tool -> verdict of compute-sanitizer."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        results.set("sanitizer", "compute-sanitizer is not here")
        return
    for check in ("memcheck", "racecheck", "synccheck"):
        for name in SANITIZED:
            if not results.goes_on("sanitizer"):
                return
            stem = KIT / "models" / name
            command = words(stem.with_suffix(".onnx"), "run") + ["--inputs", f"{stem}.inputs.npz"]
            done = run([tool, "--tool", check, "--error-exitcode", "77", *command])
            summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout + done.stderr)
            verdict = summary[-1] if summary else f"exit code {done.returncode}: {last_line(done.stderr)}"
            results.add("sanitizer", (f"{name} {check}", verdict))


def row_cases(quick):
    """(model, kind, rows, columns, type) of the kit, the smallest first."""
    cases = []
    for path in (KIT / "rows").glob("*.onnx"):
        kind, size, dtype = path.stem.split("-")
        rows, columns = (int(n) for n in size.split("x"))
        if not quick or rows * columns <= 4096 * 1024:
            cases.append((path, kind, rows, columns, dtype))
    return sorted(cases, key=lambda case: (case[2] * case[3], case[4], case[1]))


def write_npz(path, name, dtype, shape, content):
    """One dense tensor as numpy would write it."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr(f"{name}.npy", magic + header.encode() + content)


def row_values(rows, columns, dtype):
    """The same values each time, of a spread that a float16 exponential holds."""
    source = random.Random(1)
    few = [source.uniform(-4, 4) for _ in range(65521)]  # a prime: rows differ
    count = rows * columns
    values = (few * (count // len(few) + 1))[:count]
    if dtype == "f32":
        return array.array("f", values).tobytes()
    return struct.pack(f"<{count}e", *values)


def check_rows(results, words):
    """name -> "ok" or how the rows differ from the CPU's."""
    rows, columns = CHECKED
    with tempfile.TemporaryDirectory() as folder:
        for model, kind, _, _, dtype in [c for c in row_cases(False) if c[2:4] == CHECKED]:
            if not results.goes_on("row_values"):
                return
            inputs, expected = Path(folder) / f"{dtype}.npz", Path(folder) / "expected.npz"
            if not inputs.exists():
                content = row_values(rows, columns, dtype)
                write_npz(inputs, "x", "<f4" if dtype == "f32" else "<f2", (rows, columns), content)
            cpu = run([WEFT, "run", str(model), "--no-cache", "--inputs", str(inputs),
                       "--output-dir", folder])  # fmt: skip
            if cpu.returncode != 0:
                results.add("row_values", (f"{kind}-{dtype}", "on the CPU: " + last_line(cpu.stderr)))
                continue
            with zipfile.ZipFile(expected, "w") as archive:
                archive.write(Path(folder) / "y.npy", "y.npy")
            limits = [] if dtype == "f32" else ["--rtol", "4e-3", "--atol", "1e-3"]
            values = ["--inputs", str(inputs), "--expect", str(expected), *limits]
            done = run(words(model, "run") + values)
            verdict = "ok" if done.returncode == 0 else last_line(done.stderr)
            results.add("row_values", (f"{kind}-{dtype}", verdict))


def time_rows(results, words, quick):
    """One record a case: microseconds, copies, and the share of the copy bandwidth."""
    for model, kind, rows, columns, dtype in row_cases(quick):
        if not results.goes_on("rows"):
            return
        done = run([*words(model, "bench"), "--json", "--runs", "1", "--device-times"])
        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        if done.returncode != 0:
            record["error"] = last_line(done.stderr)
        else:
            j = json.loads(done.stdout)
            for name in ("device_warm_us", "device_flushed_us", "copy_warm_us", "copy_flushed_us"):
                record[name] = j[name]
            for state in ("warm", "flushed"):
                if j[f"device_{state}_us"] <= 0 or j[f"copy_{state}_us"] <= 0:
                    continue  # below what the events resolve
                record[f"of_copy_{state}"] = j[f"copy_{state}_us"] / j[f"device_{state}_us"]
        results.add("rows", record)


def peer_cases(on_cpu):
    """(kind, rows, columns, type) that peers are timed at."""
    if on_cpu:
        return [(kind, 96, 257, dtype) for dtype in ("f32", "f16") for kind in KINDS]
    return [case[1:] for case in row_cases(False)]


def torch_timer(torch, on_cpu):
    """Microseconds of a call, by CUDA events, with the second-level cache as it is or flushed."""
    flush = None if on_cpu else torch.empty(512 << 20, dtype=torch.uint8, device="cuda")

    def timed(function, flushed):
        repeats = 1 if flushed else 20
        for _ in range(3):
            function()
        samples = []
        for _ in range(15):
            if on_cpu:
                start = time.perf_counter()
                for _ in range(repeats):
                    function()
                samples.append((time.perf_counter() - start) * 1e6 / repeats)
                continue
            if flushed:
                flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(repeats):
                function()
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / repeats)
        return statistics.median(samples)

    return timed


def torch_records(on_cpu):
    """The rows in PyTorch, eager and compiled."""
    import torch

    if not on_cpu and not torch.cuda.is_available():
        yield "PyTorch sees no GPU"
        return
    yield {"version": torch.__version__}
    functional = torch.nn.functional
    timed = torch_timer(torch, on_cpu)
    where = "cpu" if on_cpu else "cuda"
    # Without a GPU nothing is compiled: generated code of a CPU takes minutes and says nothing here.
    backend = "eager" if on_cpu else "inductor"
    for kind, rows, columns, dtype in peer_cases(on_cpu):
        of = {"f32": torch.float32, "f16": torch.float16}[dtype]
        g = torch.ones(columns, device=where, dtype=of)
        b = torch.zeros(columns, device=where, dtype=of)
        eager = {
            "softmax": lambda x: torch.softmax(x, -1),
            "layernorm": lambda x, n=columns, g=g, b=b: functional.layer_norm(x, (n,), g, b),
            "rmsnorm": lambda x, n=columns, g=g: functional.rms_norm(x, (n,), g, 1e-5),
        }[kind]
        def compile_it(of=eager):
            return torch.compile(of, backend=backend)

        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        for name, make in (("eager", lambda: eager), ("compiled", compile_it)):
            try:
                function, x = make(), torch.randn(rows, columns, device=where, dtype=of)
                for state in ("warm", "flushed"):
                    record[f"{name}_{state}_us"] = timed(lambda: function(x), state == "flushed")
            except Exception as error:  # what a peer cannot do is no failure of ours
                record[f"{name}_error"] = last_line(str(error)) or repr(error)
        yield record


def jax_records(on_cpu):
    """The rows in JAX; calls in a row that are waited for together."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if on_cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    if not on_cpu and jax.default_backend() != "gpu":
        yield "JAX sees no GPU"
        return
    yield {"version": jax.__version__}

    def norm(x, g, b, centre):
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True) if centre else y
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
        return (y * g + b if centre else y * g).astype(x.dtype)

    functions = {
        "softmax": lambda x, g, b: jax.nn.softmax(x, -1),
        "layernorm": lambda x, g, b: norm(x, g, b, True),
        "rmsnorm": lambda x, g, b: norm(x, g, b, False),
    }
    for kind, rows, columns, dtype in peer_cases(on_cpu):
        record = {"kind": kind, "rows": rows, "columns": columns, "dtype": dtype}
        try:
            of = jnp.float32 if dtype == "f32" else jnp.float16
            x = jax.random.normal(jax.random.PRNGKey(0), (rows, columns), of)
            g, b = jnp.ones(columns, of), jnp.zeros(columns, of)
            compiled = jax.jit(functions[kind])
            compiled(x, g, b).block_until_ready()
            samples = []
            for _ in range(7):
                begin = time.perf_counter()
                for _ in range(20):
                    y = compiled(x, g, b)
                y.block_until_ready()
                samples.append((time.perf_counter() - begin) * 1e6 / 20)
            record["jit_warm_us"] = statistics.median(samples)
        except Exception as error:
            record["jit_error"] = last_line(str(error)) or repr(error)
        yield record


PEERS = {"torch": ("PyTorch", torch_records), "jax": ("JAX", jax_records)}


def time_peer(results, name, on_cpu):
    """The peer's records, from a process of its own: one a line, as they come."""
    if importlib.util.find_spec(name) is None:
        results.set(name, f"{PEERS[name][0]} is not here")
        return
    words = [sys.executable, str(Path(__file__).resolve()), "--peer", name]
    with tempfile.TemporaryFile(mode="w+") as errors:
        peer = subprocess.Popen(
            words + (["--peers-on-cpu"] if on_cpu else []),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        late = threading.Timer(max(1.0, results.seconds_left()), peer.kill)
        late.start()
        try:
            for line in peer.stdout:
                if not line.startswith("{") and not line.startswith('"'):
                    continue  # what libraries print
                record = json.loads(line)
                if isinstance(record, str):
                    results.set(name, record)
                    return
                results.add(name, record)
        finally:
            late.cancel()
            peer.stdout.close()
            code = peer.wait()
        if code != 0:
            errors.seek(0)
            said = last_line(errors.read())
            results.add(name, {"error": said if code > 0 else f"stopped: {results.path.name} was due"})


def print_peer(name, on_cpu):
    for record in PEERS[name][1](on_cpu):
        print(json.dumps(record), flush=True)
    return 0


def check_peers(results):
    """The peers' code on the CPU: 1 if what is here failed."""
    for name in PEERS:
        time_peer(results, name, True)
    records = [r for name in PEERS for r in results.found.get(name, []) if isinstance(r, dict)]
    return 1 if any(key.endswith("error") for record in records for key in record) else 0


def wrong_cases(results):
    """Models and rows that are not what they have to be."""
    found = []
    for part in ("models", "row_values"):
        verdicts = results.found.get(part, {})
        if isinstance(verdicts, dict):
            found += [name for name, verdict in verdicts.items() if verdict != "ok"]
    return found


def check_and_time(results, quick, models_only):
    results.set("weft", run([WEFT, "--version"]).stdout.strip())
    results.set("device", device())
    results.set("host", f"{platform.machine()}, {os.cpu_count()} cores")
    print(results.found["device"], flush=True)
    if "sm_" not in results.found["device"]:
        return NO_DEVICE
    words = Words()
    parts = [("models", lambda: check_models(results, words))]
    if not models_only:
        parts.append(("row_values", lambda: check_rows(results, words)))
        parts.append(("rows", lambda: time_rows(results, words, quick)))
    if not quick and not models_only:
        parts += [(name, lambda name=name: time_peer(results, name, False)) for name in PEERS]
    if not models_only:
        parts.append(("sanitizer", lambda: sanitize(results, words)))
    for name, part in parts:
        try:
            part()
        except Exception as error:  # one part must not take the others along
            results.set(f"{name}_failed", repr(error))
    wrong = wrong_cases(results)
    count = len(results.found.get("models", {}))
    print(f"{count} models, wrong: {', '.join(wrong) or 'none'}; wrote {results.path}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="results.json")
    parser.add_argument("--quick", action="store_true", help="the smallest rows alone, no peers")
    parser.add_argument("--models-only", action="store_true", help="nothing is timed")
    parser.add_argument("--minutes", type=float, default=7, help="no case begins after that")
    parser.add_argument("--peers-on-cpu", action="store_true",
                        help="run the peers' code alone, on the CPU: checks a kit without a GPU")  # fmt: skip
    parser.add_argument("--peer", choices=sorted(PEERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return print_peer(options.peer, options.peers_on_cpu)
    results = Results(options.output, options.minutes)
    if options.peers_on_cpu:
        return check_peers(results)
    return check_and_time(results, options.quick, options.models_only)


if __name__ == "__main__":
    sys.exit(main())
