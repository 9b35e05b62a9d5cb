"""new_lengths FILE.onnx NAME=FIRST:LAST [NAME=EXTENT...]: what sizes cost that a model has not had.

The model's open dimension NAME takes each extent from FIRST to LAST, one after the other, in one
process without a cache folder: milliseconds until a first call returns, and of the least of five
calls behind it, beside onnxruntime's, and how the process grows. Inputs of whole numbers are ones.

    bench/new_lengths encoder.onnx seq=20:79 batch=1
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import weft

sys.path.append(str(next(Path(__file__).parents[1].glob("build/venv/lib/python*/site-packages"))))
import onnxruntime  # noqa: E402

REST = 0.1  # seconds in which the other engine's threads go to sleep


def parse(text):
    name, extents = text.split("=")
    first, _, last = extents.partition(":")
    return name, range(int(first), int(last or first) + 1)


def inputs_of(session, extents, generator):
    """Random inputs by name, with the open dimensions bound."""
    made = {}
    for tensor in session.get_inputs():
        shape = [d if isinstance(d, int) else extents[d] for d in tensor.shape]
        if "float" in tensor.type:
            made[tensor.name] = generator.standard_normal(shape).astype(np.float32)
        else:
            made[tensor.name] = np.ones(shape, np.int64)
    return made


def milliseconds(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def resident():
    """Megabytes of the process that are no file's."""
    line = next(l for l in open("/proc/self/status") if l.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("extents", nargs="+", metavar="NAME=FIRST:LAST")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    ranges = dict(map(parse, options.extents))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(options.file, settings)
    executable = weft.compile(options.file, threads=options.threads)
    generator = np.random.default_rng(0)
    swept = max(ranges, key=lambda name: len(ranges[name]))
    firsts, ratios = [], []
    for count, extent in enumerate(ranges[swept], 1):
        extents = {name: values[0] for name, values in ranges.items()} | {swept: extent}
        inputs = inputs_of(session, extents, generator)
        time.sleep(REST)
        firsts.append(milliseconds(lambda: executable(**inputs)))
        later = min(milliseconds(lambda: executable(**inputs)) for _ in range(5))
        time.sleep(REST)
        peer_first = milliseconds(lambda: session.run(None, inputs))
        peer = min(milliseconds(lambda: session.run(None, inputs)) for _ in range(5))
        ratios.append(peer / later)
        if count in (1, 2) or count % 10 == 0:
            print(
                f"{swept} {extent}: first {firsts[-1]:.0f} ms (onnxruntime {peer_first:.0f}), "
                f"then {later:.2f} ({peer:.2f}), {resident():.0f} MB",
                flush=True,
            )
    print(
        f"first calls but one: median {statistics.median(firsts[1:]):.0f} ms, most {max(firsts[1:]):.0f}; "
        f"later calls {statistics.geometric_mean(ratios):.2f}x of onnxruntime"
    )


if __name__ == "__main__":
    main()
