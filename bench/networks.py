"""Writes networks of torchvision, timm, transformers and others, with random weights and inputs, as ONNX files.

    python3 -m venv build/venv-networks
    build/venv-networks/bin/pip install torch torchvision timm transformers onnx onnxscript
    build/venv-networks/bin/python bench/networks.py torchvision:regnet_y_1_6gf timm:ghostnet_100 transformers:llama
    bench/peers build/networks/regnet_y_1_6gf.onnx:build/networks/regnet_y_1_6gf.npz

Video models take 8 frames of 112x112 pixels, others what they are made for, 224x224 at most. Of
transformers' there are the configurations of transformers_configs.py, of other libraries
(ultralytics:yolo11n, smp:Unet, torchaudio:Conformer, diffusers:DiT, segmentation:fcn_resnet50) the
networks of library_networks.py.
"""

import argparse
from pathlib import Path

import library_networks
import numpy as np
import onnx
import torch

FOLDER = Path(__file__).resolve().parent.parent / "build/networks"


class Tensors(torch.nn.Module):
    """A model of transformers whose outputs are tensors alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return tuple(x for x in self.model(*inputs).to_tuple() if torch.is_tensor(x))


def network(library, name, fused_attention=True):
    """A network and the shapes of its inputs."""
    if library in library_networks.LIBRARIES:
        return library_networks.LIBRARIES[library](name)
    if library == "transformers":
        import transformers
        import transformers_configs

        model, config, shapes, arguments = transformers_configs.CONFIGS[name]
        made = getattr(transformers, model)(getattr(transformers, config)(**arguments))
        made.config.use_cache = False
        return Tensors(made), shapes
    if library == "timm":
        import timm
        import timm.layers

        timm.layers.set_fused_attn(fused_attention)
        model = timm.create_model(name, pretrained=False)
        channels, *size = model.default_cfg.get("input_size", (3, 224, 224))
        return model, [(1, channels, *(min(s, 224) if max(size) > 256 else s for s in size))]
    import torchvision.models

    model = torchvision.models.get_model(name, weights=None)
    if hasattr(torchvision.models.video, name):
        return model, [(1, 3, 8, 112, 112)]
    return model, [(1, 3, 299, 299) if name == "inception_v3" else (1, 3, 224, 224)]


def random_input(shape):
    if shape[0] == "ids":
        return torch.randint(1, 1000 if len(shape) > 2 else 100, shape[1:])
    return torch.randn(*shape)


def write(library, name):
    torch.manual_seed(0)
    model, shapes = network(library, name, fused_attention=False)  # in primitive operators
    inputs = tuple(random_input(shape) for shape in shapes)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.onnx"
    if library in ("transformers", "diffusers"):  # which the older exporter cannot follow
        with torch.no_grad():
            torch.onnx.export(model.eval(), inputs, path, dynamo=True, external_data=False)
    else:
        torch.onnx.export(model.eval(), inputs, path, opset_version=17, dynamo=False)
    names = [i.name for i in onnx.load(path, load_external_data=False).graph.input]
    np.savez(path.with_suffix(".npz"), **dict(zip(names, (x.numpy() for x in inputs))))
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
