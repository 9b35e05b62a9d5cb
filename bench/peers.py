"""Times weft, onnxruntime and OpenVINO on the same models, inputs and cores.

    bench/peers [CASE... | MODEL.onnx:INPUTS.npz... | all] [--threads 2,1] [--json FILE]

Cases are those of models/materialize.py. Each engine runs in a process of its own on the same cores
and is stopped while another is measured; turns alternate, the figure is the median of its turns'
medians. Outputs are compared with onnxruntime's first (rtol 1e-3, atol 1e-4, of float16 ones 5e-3
of the element and of the root of the mean square; * marks those beyond it on models where the peers
are that far from one another). `roofline` is no engine: in each turn it copies an array of the size
of the case's larger side (inputs or outputs) and measures the peak of fused multiply-adds, and the
columns say which part of them weft reaches.

With --precision bf16, weft and OpenVINO multiply in bfloat16; weft-f32 is weft without it. Nothing
is within the tolerances then: the columns behind the times are the distances of the outputs from
onnxruntime's, sqrt(sum (y - e)^2 / sum e^2), the worst output's.

--processor-time, with one thread, compares what a run takes of a processor, which other processes
on the machine hardly change: that of OpenVINO's and onnxruntime's process while it runs, and of two
benches of weft, the difference of which is that of more runs.

An engine that is missing or fails is a line of the table, never the end of the run. Beside the
table the ratio is time of onnxruntime / time of the engine: above 1 is faster than onnxruntime.
"""

import argparse
import functools
import json
import math
import os
import platform
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models"))
import materialize  # noqa: E402

RTOL, ATOL = 1e-3, 1e-4
HALF = 5e-3  # of a float16 output: of its element, and of the root of its mean square


class Failed(Exception):
    """What the table says instead of a figure."""


def difference(value, expected):
    """The worst |value - expected| / (atol + rtol |expected|): at most 1 within the tolerance."""
    if value.shape != expected.shape:
        raise Failed(f"wrong: shape {value.shape}, not {expected.shape}")
    is_half = expected.dtype == np.float16
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    if (np.isnan(value) != np.isnan(expected)).any():
        raise Failed("wrong: NaN in other places")
    with np.errstate(invalid="ignore"):
        error = np.where((value == expected) | np.isnan(expected), 0, abs(value - expected))
    size = np.where(np.isfinite(expected), abs(expected), 0)
    if is_half:  # on the way roundings are of numbers as large as most outputs are
        return float((error / (HALF * (size + math.sqrt(np.square(size).mean() or 1)))).max(initial=0))
    return float((error / (ATOL + RTOL * size)).max(initial=0))


def differences(values, expected):
    if len(values) != len(expected):
        raise Failed(f"wrong: {len(values)} outputs, not {len(expected)}")
    return max(map(difference, values, expected), default=0)


def distance(value, expected):
    if value.shape != expected.shape:
        raise Failed(f"wrong: shape {value.shape}, not {expected.shape}")
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    size = float(np.square(expected).sum())
    return math.sqrt(float(np.square(value - expected).sum()) / size) if size else 0.0


@functools.cache
def peers_apart(model, inputs):
    """How far OpenVINO and unoptimised onnxruntime are from onnxruntime, in tolerances; <= 100."""
    cores = os.sched_getaffinity(0)
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for engine in ("onnxruntime", "onnxruntime-plain", "openvino"):
            file = Path(directory) / f"{engine}.npz"
            try:
                call(worker(engine, model, inputs, len(cores), file), cores)
                found[engine] = list(np.load(file).values())
            except Failed:
                continue  # OpenVINO does not read every model
    expected = found.pop("onnxruntime")
    return min(100, max((differences(v, expected) for v in found.values()), default=0))


def compare(values, expected, model, inputs):
    """The worst difference in tolerances: at most 1, or where the peers themselves are farther than
    that from one another (sums of large numbers that cancel: the products of gemm-chain-*, the
    random weights of efficientnet-b0), at most twice as far as they are."""
    worst = differences(values, expected)
    if not worst <= 1:
        apart = peers_apart(model, inputs)
        if not worst <= 2 * apart:
            raise Failed(f"wrong: {worst:.3g} tolerances (peers are {apart:.2g} apart)")
    return worst


def worker(engine, model, inputs, threads, outputs):
    script = ROOT / "bench/worker.py"
    return [sys.executable, script, engine, model, inputs, str(threads), outputs]


def call(command, cores, timeout=900, stream="stdout"):
    """What a command on these cores writes to stdout, or to stderr."""
    pin = lambda: os.sched_setaffinity(0, cores)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            preexec_fn=pin,
            timeout=timeout,
        )
    except FileNotFoundError:
        raise Failed("missing") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"over {timeout} s") from None
    if done.returncode:
        raise Failed(f"failed ({done.returncode}): {last_line(done.stderr)}")
    return getattr(done, stream)


def written_outputs(directory, names):
    """What weft run --output-dir wrote, in the order of `names`."""
    files = [directory / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy") for name in names]
    for file in files:
        if not file.exists():
            raise Failed(f"failed: wrote no {file.name}")
    return [np.load(file) for file in files]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no message"


class Peer:
    """onnxruntime or OpenVINO, behind bench/worker.py."""

    def __init__(self, engine, options, case, directory):
        self.outputs_file = directory / f"{engine}.npz"
        self.errors = open(directory / f"{engine}.err", "w+")
        self.process = subprocess.Popen(
            worker(engine, case.model, case.inputs, len(case.cores), self.outputs_file),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, case.cores),
        )
        self.processor_time = options.processor_time
        self.row = self.answer()
        self.pause()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise Failed(f"failed: {last_line(self.errors.read())}")
        return json.loads(line)

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)  # its threads may spin

    def outputs(self):
        return list(np.load(self.outputs_file).values())

    def turn(self, seconds):
        os.kill(self.process.pid, signal.SIGCONT)
        print(seconds, file=self.process.stdin, flush=True)
        result = self.answer()
        self.pause()
        if self.processor_time:
            result["median_ms"] = result["cpu_ms"]
        return result

    def close(self):
        self.process.kill()
        self.process.wait()


class Weft:
    def __init__(self, options, case, directory, precision):
        self.case, self.directory = case, directory
        self.command = [options.weft]
        self.processor_time = options.processor_time
        self.options = ["--threads", str(len(case.cores)), "--inputs", case.inputs]
        self.options += ["--plan", options.plan] if options.plan else []
        self.options += ["--precision", precision] if precision else []
        start = time.perf_counter()
        command = [options.weft, "run", case.model, *self.options, "--output-dir", directory]
        call(command, case.cores)
        self.row = {"load_s": time.perf_counter() - start}

    def outputs(self):
        return written_outputs(self.directory, self.case.output_names())

    def turn(self, seconds):
        command = [*self.command, "bench", self.case.model, *self.options, "--json"]
        text = call(command, self.case.cores)
        try:
            result = json.loads(text)
        except json.JSONDecodeError:
            raise Failed(f"failed: no JSON from weft bench: {last_line(text)}") from None
        if self.processor_time:
            runs = max(3, round(seconds * 1e3 / result["min_ms"]))
            few, many = (self.seconds_of(count) for count in (runs, 3 * runs))
            result["median_ms"] = (many - few) / (2 * runs) * 1e3
        return result

    def seconds_of(self, runs):
        """What a bench of so many runs takes of the processors."""
        command = [*self.command, "bench", self.case.model, *self.options, "--runs", str(runs)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call(command, self.case.cores)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def close(self):
        pass


class Roofline:
    row = {}

    def __init__(self, options, case, directory):
        self.case = case
        self.command = [options.roofline, "--threads", str(len(case.cores)), str(case.bytes())]

    def outputs(self):
        return None

    def turn(self, seconds):
        measured = json.loads(call([*self.command, "--seconds", str(seconds / 4)], self.case.cores))
        best = min(measured["copies"][0]["copy_ms"], measured["copies"][0]["stream_ms"])
        return {"median_ms": best, "fma_gflops": measured["fma_gflops"], **measured["copies"][0]}

    def close(self):
        pass


class Case:
    def __init__(self, name, cores):
        if ":" in name:
            model, inputs = name.split(":", 1)
            self.name, self.model, self.inputs = Path(model).stem, Path(model), Path(inputs)
        else:
            model, inputs = materialize.case(name)
            self.name, self.model, self.inputs = name, model, inputs["random"]
        self.cores = cores
        self.expected = None  # onnxruntime's outputs

    def bytes(self):
        sides = [np.load(self.inputs).values(), self.expected or []]
        return max(256, *(sum(array.nbytes for array in side) for side in sides))

    def output_names(self):
        import onnx

        model = onnx.load(self.model, load_external_data=False)
        return [output.name for output in model.graph.output]


def start(engine, options, case, directory):
    if engine.startswith("weft"):
        directory = directory / engine
        directory.mkdir()
        return Weft(options, case, directory, options.precision if engine == "weft" else None)
    if engine == "roofline":
        return Roofline(options, case, directory)
    is_reduced = engine == "openvino" and options.precision
    name = f"openvino-{options.precision}" if is_reduced else engine
    return Peer(name, options, case, directory)


def measure(name, cores, options):
    """One row: {"model", "threads", engine: {"status", "ratio", "median_ms", …}}."""
    case = Case(name, cores)
    row = {"model": case.name, "threads": len(cores)}
    running = {}
    # onnxruntime first: the others are compared with it.
    order = sorted(options.engines, key=lambda engine: engine != "onnxruntime")
    with tempfile.TemporaryDirectory() as directory:
        for engine in order:
            row[engine] = {"status": "ok", "turns": []}
            try:
                running[engine] = start(engine, options, case, Path(directory))
                row[engine] |= running[engine].row
                outputs = running[engine].outputs()
                if engine == "onnxruntime":
                    case.expected = outputs
                elif outputs is not None and case.expected is not None and options.precision:
                    row[engine]["distance"] = max(map(distance, outputs, case.expected))
                elif outputs is not None and case.expected is not None:
                    row[engine]["worst"] = compare(outputs, case.expected, case.model, case.inputs)
            except Failed as failure:
                row[engine]["status"] = str(failure)
                if engine in running and not str(failure).startswith("wrong"):
                    running.pop(engine).close()
        for turn in range(options.rounds):
            engines = list(running)
            for engine in engines[turn % len(engines) :] + engines[: turn % len(engines)]:
                try:
                    row[engine]["turns"].append(running[engine].turn(options.seconds))
                except Failed as failure:
                    row[engine]["status"] = str(failure)
                    running.pop(engine).close()
        for process in running.values():
            process.close()
    for engine in order:
        turns = row[engine]["turns"]
        if turns:
            numbers = [key for key, value in turns[-1].items() if type(value) in (int, float)]
            row[engine] |= {
                key: statistics.median(turn.get(key, math.nan) for turn in turns) for key in numbers
            }
            row[engine]["turns"] = [turn["median_ms"] for turn in turns]
    base = row.get("onnxruntime", {}).get("median_ms")
    for engine in order:
        if engine == "roofline":
            continue
        if base and row[engine]["status"] == "ok" and "median_ms" in row[engine]:
            row[engine]["ratio"] = base / row[engine]["median_ms"]
    weft, roofline = row.get("weft", {}), row.get("roofline", {})
    if "median_ms" in weft and "fma_gflops" in roofline:
        weft["of_copy"] = roofline["median_ms"] / weft["median_ms"]
        weft["of_fma"] = weft.get("flops", 0) / weft["median_ms"] / 1e6 / roofline["fma_gflops"]
    return row


def print_against_openvino(rows, threads):
    ratios = [
        row["openvino"]["median_ms"] / row["weft"]["median_ms"]
        for row in rows
        if row["threads"] == threads
        and all(row.get(engine, {}).get("status") == "ok" for engine in ("weft", "openvino"))
    ]
    if ratios:
        print(
            f"weft, {threads} threads: geometric mean {geometric_mean(ratios):.3f}x of OpenVINO's "
            f"speed over {len(ratios)} cases, least {min(ratios):.3f}x"
        )


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def cell(result):
    if result["status"] != "ok":
        return result["status"]
    text = f"{result['median_ms']:.4g}" + ("*" if result.get("worst", 0) > 1 else "")
    return text + (f" ({result['ratio']:.2f}x)" if "ratio" in result else "")


def print_table(rows, engines):
    timed = [engine for engine in engines if engine != "roofline"]
    far = [e for e in timed if any("distance" in row[e] for row in rows)]
    header = ["model", "threads", *(f"{engine} ms" for engine in timed)]
    header += [f"{engine} from f32" for engine in far]
    lines = [header if far else [*header, "of copy", "of FMA peak"]]
    for row in rows:
        parts = [row.get("weft", {}).get(key) for key in ("of_copy", "of_fma")]
        shares = [f"{part:.0%}" if part else "" for part in parts]
        if far:
            shares = [f"{row[e]['distance']:.2e}" if "distance" in row[e] else "" for e in far]
        line = [row["model"], str(row["threads"]), *(cell(row[engine]) for engine in timed)]
        lines.append(line + shares)
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |")
    print()
    for threads in sorted({row["threads"] for row in rows}, reverse=True):
        print_against_openvino(rows, threads)
        for engine in timed:
            ratios = [
                row[engine]["ratio"]
                for row in rows
                if row["threads"] == threads and "ratio" in row[engine]
            ]
            if ratios and engine != "onnxruntime":
                print(
                    f"{engine}, {threads} threads: geometric mean {geometric_mean(ratios):.3f}x "
                    f"of onnxruntime's speed over {len(ratios)} cases, least {min(ratios):.3f}x"
                )


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def commit():
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="case, FILE.onnx:INPUTS.npz, or 'all'")
    add("--threads", default=None, help="list, such as 2,1; default all cores")
    add("--rounds", type=int, default=7, help="turns of each engine (7)")
    add("--seconds", type=float, default=0.3, help="length of a turn (0.3)")
    add("--engines", help="which, in table order (weft,onnxruntime,openvino,roofline)")
    add("--plan", help="weft's --plan")
    add("--precision", choices=["bf16"], help="of weft and OpenVINO; onnxruntime's is float32")
    add("--processor-time", action="store_true", help="of each run, on one thread")
    add("--json", metavar="FILE", help="write all figures")
    add("--weft", default=ROOT / "build/release/weft", help="the command")
    add("--roofline", default=ROOT / "build/release/roofline", help="the roofline program")
    options = parser.parse_args()
    reduced = "weft,openvino,weft-f32,onnxruntime"
    usual = reduced if options.precision else "weft,onnxruntime,openvino,roofline"
    options.engines = (options.engines or usual).split(",")
    return options


def main():
    options = parse_options()
    cores = sorted(os.sched_getaffinity(0))
    counts = [int(n) for n in options.threads.split(",")] if options.threads else [len(cores)]
    names = materialize.names() if options.models == ["all"] else options.models
    rows = []
    for name in names:
        for count in counts:
            rows.append(measure(name, set(cores[:count]), options))
            done = {engine: cell(rows[-1][engine]) for engine in options.engines}
            print(f"{name}, {count} threads: {done}", file=sys.stderr, flush=True)
    print_table(rows, options.engines)
    if options.json:
        header = {"commit": commit(), "processor": processor(), "python": platform.python_version()}
        Path(options.json).write_text(json.dumps(header | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
