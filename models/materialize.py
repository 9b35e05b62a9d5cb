"""Puts models into build/models, ready to run: NAME.onnx, and inputs of a case as CASE.npz.

    build/venv/bin/python models/materialize.py --list
    build/venv/bin/python models/materialize.py CASE...      (or all)

A case is a model at certain shapes. Two kinds of model:

- models/onnx/NAME.onnx.gz: graphs as PyTorch's exporter wrote them, without their large weights. A
  removed tensor keeps "random {mean, std, min, max}" as its doc_string and is filled with such
  numbers, drawn from its name alone: the same on every machine. One case each, of the same name.
- PACKAGED: trained models that packages in build/venv ship, linked to. Their dimensions are
  symbolic, so that one model has several cases.

CASE.npz is random. CASE.natural.npz, where one is made, is what the model was trained for: pictures
of text, source files, a voice, padded sentences.
"""

import argparse
import gzip
import json
import sys
import zlib
from pathlib import Path

import natural
import numpy as np
import onnx

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "models"

PACKAGED = {
    "magika": "magika/models/standard_v3_3/model.onnx",
    "ocr-det": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "ocr-rec": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "ocr-cls": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "silero-vad": "silero_vad/data/silero_vad.onnx",
    "silero-vad-16k-op15": "silero_vad/data/silero_vad_16k_op15.onnx",
    "silero-vad-half": "silero_vad/data/silero_vad_half.onnx",
}


def image_case(model, make, *shape):
    """A picture `x` [n, 3, height, width], in [-1, 1]; make(n, height, width) draws words."""
    n, _, height, width = shape
    return (
        model,
        lambda rng: {"x": rng.uniform(-1, 1, shape).astype(np.float32)},
        lambda: {"x": make(n, height, width)},
    )


def bytes_case(batch):
    return (
        "magika",
        lambda rng: {"bytes": rng.integers(0, 257, (batch, 2048), np.int32)},
        lambda: {"bytes": natural.source_files(HERE.parent, batch)},
    )


def voice_case(model, *, rate=True):
    """One chunk of 512 samples behind the 64 before it, and the state of a start."""

    def inputs(sound):
        state = {"input": sound.astype(np.float32), "state": np.zeros((2, 1, 128), np.float32)}
        return state | ({"sr": np.array(16000, np.int64)} if rate else {})

    return (
        model,
        lambda rng: inputs(rng.uniform(-0.3, 0.3, (1, 576))),
        lambda: inputs(natural.voice(16000)[None, 8000:8576]),
    )


# case -> (model, random inputs from a generator, natural inputs)
CASES = {
    "magika-b1": bytes_case(1),
    "magika-b16": bytes_case(16),
    "ocr-cls-48x192": image_case("ocr-cls", natural.lines, 1, 3, 48, 192),
    "ocr-cls-6x48x192": image_case("ocr-cls", natural.lines, 6, 3, 48, 192),
    "ocr-det-320x320": image_case("ocr-det", natural.pages, 1, 3, 320, 320),
    "ocr-det-736x544": image_case("ocr-det", natural.pages, 1, 3, 736, 544),
    "ocr-rec-48x320": image_case("ocr-rec", natural.lines, 1, 3, 48, 320),
    "ocr-rec-6x48x200": image_case("ocr-rec", natural.lines, 6, 3, 48, 200),
    "silero-vad": voice_case("silero-vad"),
    "silero-vad-16k-op15": voice_case("silero-vad-16k-op15"),
    "silero-vad-half": voice_case("silero-vad-half", rate=False),
}


def names():
    exported = sorted(p.name.removesuffix(".onnx.gz") for p in (HERE / "onnx").glob("*.onnx.gz"))
    return exported + list(CASES)


def draw(key, shape, stats, dtype):
    """Numbers with the mean, spread and range of `stats`, from the name `key` alone."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if np.issubdtype(dtype, np.integer):
        return rng.integers(int(stats["min"]), int(stats["max"]) + 1, shape).astype(dtype)
    values = rng.standard_normal(shape, dtype=np.float32) * stats["std"] + stats["mean"]
    return np.clip(values, stats["min"], stats["max"]).astype(dtype)


def fill_weights(name, model):
    attributes = [a for node in model.graph.node for a in node.attribute]
    constants = [a.t for a in attributes if a.type == onnx.AttributeProto.TENSOR]
    for i, tensor in enumerate([*model.graph.initializer, *constants]):
        if tensor.doc_string.startswith("random "):
            stats = json.loads(tensor.doc_string.removeprefix("random "))
            values = draw(f"{name}/{tensor.name or i}", tuple(tensor.dims), stats, np.float32)
            tensor.raw_data = values.tobytes()
            tensor.doc_string = ""


def save(path, write):
    """Calls write(file name) for a file that is `path` only once it is whole."""
    part = path.with_name("part-" + path.name)
    write(part)
    part.replace(path)


def make_exported(name):
    packed = (HERE / "onnx" / f"{name}.onnx.gz").read_bytes()
    model = onnx.load_from_string(gzip.decompress(packed))
    fill_weights(name, model)
    stats = {
        p.key.removeprefix("input "): json.loads(p.value)
        for p in model.metadata_props
        if p.key.startswith("input ")
    }
    del model.metadata_props[:]
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        inputs[value.name] = draw(f"{name}:{value.name}", shape, stats[value.name], dtype)
    save(OUTPUT / f"{name}.npz", lambda f: np.savez(f, **inputs))
    if "attention_mask" in inputs:
        padded = natural.padded_sentences(inputs)
        save(OUTPUT / f"{name}.natural.npz", lambda f: np.savez(f, **padded))
    save(OUTPUT / f"{name}.onnx", lambda f: onnx.save(model, f))


def link_packaged(model):
    link = OUTPUT / f"{model}.onnx"
    site = next((Path(sys.prefix) / "lib").glob("python3*/site-packages"))
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(site / PACKAGED[model])
    return link


def case(name):
    """(path of the model, {"random": inputs, "natural": inputs}); made where it is missing."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    model = OUTPUT / f"{name}.onnx"
    if name in CASES:
        packaged, random_inputs, natural_inputs = CASES[name]
        model = link_packaged(packaged)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        save(OUTPUT / f"{name}.npz", lambda f: np.savez(f, **random_inputs(rng)))
        save(OUTPUT / f"{name}.natural.npz", lambda f: np.savez(f, **natural_inputs()))
    elif not (HERE / "onnx" / f"{name}.onnx.gz").exists():
        raise SystemExit(f"no case is called {name}; see models/materialize.py --list")
    elif not model.exists():
        make_exported(name)
    inputs = {"random": OUTPUT / f"{name}.npz", "natural": OUTPUT / f"{name}.natural.npz"}
    return model, {kind: path for kind, path in inputs.items() if path.exists()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="cases, or 'all'")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--link", action="store_true", help="only link the packaged models (quick)")
    args = parser.parse_args()
    if args.list:
        print("\n".join(names()))
    if args.link:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        for packaged in PACKAGED:
            link_packaged(packaged)
    for name in names() if args.names == ["all"] else args.names:
        model, inputs = case(name)
        print(
            model.relative_to(HERE.parent), *(p.relative_to(HERE.parent) for p in inputs.values())
        )


if __name__ == "__main__":
    main()
