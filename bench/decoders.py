"""Times a decoder's step with weights of 32, 8 and 4 bits beside reads of as many bytes.

    bench/decoders [gpt2 generated] [--bits 32,8,4] [--threads 2] [--turns 7] [--megabytes 400]

- gpt2: build/models/gpt2-decode-p128.onnx, and what `weft quantize` makes of it.
- generated: layers of 2048 channels (root mean square norm, attention of 16 heads, four to a head of
  keys, over 129 positions, a gated product of 5632) and 32000 logits, as many layers as fill `--megabytes` at each width; weights are random
  MatMulNBits in blocks of 32 with float32 scales, or float32.

A turn times each width by a process of `weft bench` after the other, and `roofline`'s reads of 400 MB before and
behind each. "bytes" are those of the constants that a step reads, whole but for embeddings, of which it takes a row,
and the past keys and values. "of reads" is the median over turns of their rate over that of the reads beside it:
memory of a machine that others use, too, changes its speed from second to second.
"""

import argparse
import json
import math
import statistics
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / "build/release/weft"
ROOFLINE = ROOT / "build/release/roofline"
MODELS = ROOT / "build/models"
READ_BYTES = 400_000_000

CHANNELS, HEADS, KEY_HEADS, INNER, LOGITS, PAST, BLOCK = 2048, 16, 4, 5632, 32000, 128, 32
HEAD = CHANNELS // HEADS
KEYS = KEY_HEADS * HEAD


def bytes_per_weight(bits):
    return 4 if bits == 32 else bits / 8 + 4 / BLOCK


class Decoder:
    """Writes one as an ONNX model whose weights lie beside it."""

    def __init__(self, bits, seed=0):
        self.bits = bits
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.weight_bytes = 0

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def numbers(self, *values):
        return self.constant(np.array(values, np.int64))

    def product(self, x, depth, columns):
        self.weight_bytes += int(depth * columns * bytes_per_weight(self.bits))
        if self.bits == 32:
            w = self.random.standard_normal((depth, columns), np.float32) / math.sqrt(depth)
            return self.add("MatMul", [x, self.constant(w)])
        blocks, size = depth // BLOCK, BLOCK * self.bits // 8
        q = self.random.integers(0, 256, (columns, blocks, size), np.uint8)
        spread = math.sqrt(depth) * (1 << self.bits) / 4
        scales = (self.random.random(columns * blocks, np.float32) + 0.5) / spread
        return self.add(
            "MatMulNBits",
            [x, self.constant(q), self.constant(scales.astype(np.float32))],
            domain="com.microsoft",
            K=depth,
            N=columns,
            bits=self.bits,
            block_size=BLOCK,
        )

    def norm(self, x):
        squares = self.add("Mul", [x, x])
        mean = self.add("ReduceMean", [squares, self.numbers(-1)])
        root = self.add("Sqrt", [self.add("Add", [mean, self.constant(np.float32(1e-5).reshape(1))])])
        gain = self.constant(np.ones(CHANNELS, np.float32))
        return self.add("Mul", [self.add("Div", [x, root]), gain])

    def cached(self, x, layer, what):
        """The past keys or values and the new one behind them."""
        name = f"past_{what}_{layer}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, KEY_HEADS, PAST, HEAD]))
        new = self.add("Reshape", [x, self.numbers(1, KEY_HEADS, 1, HEAD)])
        return self.add("Concat", [name, new], axis=2)

    def attention(self, x, layer):
        q = self.product(x, CHANNELS, CHANNELS)
        k, v = (self.cached(self.product(x, CHANNELS, KEYS), layer, what) for what in "kv")
        q = self.add("Reshape", [q, self.numbers(1, KEY_HEADS, HEADS // KEY_HEADS, HEAD)])
        scores = self.add("MatMul", [q, self.add("Transpose", [k], perm=[0, 1, 3, 2])])
        scaled = self.add("Mul", [scores, self.constant(np.float32(HEAD**-0.5).reshape(1))])
        mixed = self.add("MatMul", [self.add("Softmax", [scaled], axis=-1), v])
        return self.product(self.add("Reshape", [mixed, self.numbers(1, 1, CHANNELS)]), CHANNELS, CHANNELS)

    def layer(self, x, number):
        x = self.add("Add", [x, self.attention(self.norm(x), number)])
        y = self.norm(x)
        gate, up = (self.product(y, CHANNELS, INNER) for _ in range(2))
        gated = self.add("Mul", [self.add("Mul", [gate, self.add("Sigmoid", [gate])]), up])
        return self.add("Add", [x, self.product(gated, INNER, CHANNELS)])

    def write(self, path, megabytes):
        per_layer = (2 * CHANNELS + 2 * KEYS + 3 * INNER) * CHANNELS * bytes_per_weight(self.bits)
        head = CHANNELS * LOGITS * bytes_per_weight(self.bits)
        layers = max(1, round((megabytes * 1e6 - head) / per_layer))
        x = "x"
        self.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, CHANNELS]))
        for number in range(layers):
            x = self.layer(x, number)
        logits = self.product(self.norm(x), CHANNELS, LOGITS)
        out = helper.make_tensor_value_info(logits, TensorProto.FLOAT, [1, 1, LOGITS])
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, [out], self.weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.save(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=4096)
        past = 2 * layers * KEYS * PAST * 4
        return self.weight_bytes + past


def gpt2(bits):
    """The model's file, and what a step reads of it."""
    source = MODELS / "gpt2-decode-p128.onnx"
    channels, layers, logits, past = 768, 12, 50257, 128
    weights = layers * 12 * channels**2 + channels * logits
    read = int(weights * bytes_per_weight(bits)) + 2 * layers * channels * past * 4
    if bits == 32:
        return source, read
    path = MODELS / f"gpt2-decode-p128.{bits}bits.onnx"
    if not path.exists():
        subprocess.run([WEFT, "quantize", source, "-o", path, "--bits", str(bits)], check=True, stdout=subprocess.DEVNULL)
    if bits == 8:  # per channel
        read = weights + 2 * layers * channels * past * 4
    return path, read


def generated(bits, megabytes):
    path = MODELS / f"decoder.{bits}bits.{megabytes}.onnx"
    note = path.with_suffix(".json")
    if not note.exists():
        read = Decoder(bits).write(path, megabytes)
        note.write_text(json.dumps({"read": read}))
    return path, json.loads(note.read_text())["read"]


def read_gbps(threads):
    command = [ROOFLINE, "--threads", str(threads), "--seconds", "0.2", str(READ_BYTES)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found["copies"][0]["read_gbps"]


def step_ms(model, threads):
    command = [WEFT, "bench", model, "--threads", str(threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["gpt2", "generated"])
    parser.add_argument("--bits", default="32,8,4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=400)
    arguments = parser.parse_args()
    widths = [int(bits) for bits in arguments.bits.split(",")]
    print("| model | bits | MB read | ms | GB/s | of reads | speed |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.models:
        files = {b: gpt2(b) if name == "gpt2" else generated(b, arguments.megabytes) for b in widths}
        for path, _ in files.values():
            step_ms(path, arguments.threads)  # compiles
        times, shares = {b: [] for b in widths}, {b: [] for b in widths}
        for _ in range(arguments.turns):
            before = read_gbps(arguments.threads)
            for bits, (path, read) in files.items():
                ms = step_ms(path, arguments.threads)
                behind = read_gbps(arguments.threads)
                times[bits].append(ms)
                shares[bits].append(read / ms / 1e6 / ((before + behind) / 2))
                before = behind
        for bits, (_, read) in files.items():
            ms, share = statistics.median(times[bits]), statistics.median(shares[bits])
            speed = f"{statistics.median(times[32]) / ms:.2f}" if name == "gpt2" and 32 in times else ""
            print(f"| {name} | {bits} | {read / 1e6:.0f} | {ms:.3g} | {read / ms / 1e6:.1f} | {share:.0%} | {speed} |")


if __name__ == "__main__":
    main()
