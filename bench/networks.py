"""Writes networks of torchvision and timm, with random weights and inputs, as ONNX files.

    python3 -m venv build/venv-networks
    build/venv-networks/bin/pip install torch torchvision timm onnx onnxscript
    build/venv-networks/bin/python bench/networks.py torchvision:regnet_y_1_6gf timm:ghostnet_100
    bench/peers build/networks/regnet_y_1_6gf.onnx:build/networks/regnet_y_1_6gf.npz

Video models take 8 frames of 112x112 pixels, others what they are made for, 224x224 at most.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parent.parent / "build/networks"


def network(library, name):
    """A network and the shape of its input."""
    if library == "timm":
        import timm
        import timm.layers

        timm.layers.set_fused_attn(False)  # in primitive operators
        model = timm.create_model(name, pretrained=False)
        channels, *size = model.default_cfg.get("input_size", (3, 224, 224))
        return model, (1, channels, *(min(s, 224) if max(size) > 256 else s for s in size))
    import torchvision.models

    model = torchvision.models.get_model(name, weights=None)
    if hasattr(torchvision.models.video, name):
        return model, (1, 3, 8, 112, 112)
    return model, (1, 3, 299, 299) if name == "inception_v3" else (1, 3, 224, 224)


def write(library, name):
    torch.manual_seed(0)
    model, shape = network(library, name)
    x = torch.randn(*shape)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(model.eval(), (x,), path, opset_version=17, dynamo=False, **names)
    np.savez(path.with_suffix(".npz"), x=x.numpy())
    print(path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="+", metavar="LIBRARY:NAME")
    for text in parser.parse_args().networks:
        write(*text.split(":"))


if __name__ == "__main__":
    main()
