"""Writes HLO modules that TensorFlow and PyTorch/XLA make of networks, to time beside XLA.

    bench/xla_frontends.py tensorflow|torch [NAME...] [--folder build/tensorflow|build/torch-xla]
    bench/xla_peers.py build/tensorflow/*.hlo build/torch-xla/*.hlo

Needs tensorflow-cpu, or torch, torch_xla (of the same version), torchvision and transformers below
5, in the Python that runs it. A name that ends in "-grad" is a loss and the gradients of all weights
by it. Weights are arguments of the module. Modules whose text leaves large constants out are not
written.
"""

import argparse
import os
from pathlib import Path

RECURRENT = {"shape": (4, 20, 16), "units": 64, "classes": 5}


def tensorflow_networks():
    """By name: what gives a function and its arguments."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    rng = np.random.default_rng(0)

    def floats(*shape):
        return tf.constant(rng.standard_normal(shape).astype(np.float32))

    def integers(most, *shape):
        return tf.constant(rng.integers(0, most, shape).astype(np.int32))

    def inference(network, *inputs):
        network(*inputs)
        return lambda *inputs: network(*inputs, training=False), inputs

    def gradients(network, *inputs):
        network(*inputs)

        def step(*inputs):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(network(*inputs, training=True) ** 2)
            return [loss, *tape.gradient(loss, network.trainable_variables)]

        return step, inputs

    def application(name, size):
        network = getattr(keras.applications, name)
        return network(weights=None, input_shape=(size, size, 3), classes=10)

    def recurrent(layer, both_ways=False):
        first = layer(RECURRENT["units"], return_sequences=True)
        last = layer(RECURRENT["units"] // 2)
        around = layers.Bidirectional if both_ways else lambda inner: inner
        return keras.Sequential([around(first), around(last), layers.Dense(RECURRENT["classes"])])

    class Block(keras.Model):
        def __init__(self, width=64, heads=4):
            super().__init__()
            self.attention = layers.MultiHeadAttention(heads, width // heads)
            self.norms = layers.LayerNormalization(), layers.LayerNormalization()
            self.wide = layers.Dense(4 * width, activation="gelu")
            self.narrow = layers.Dense(width)

        def call(self, x, training=False):
            y = self.norms[0](x)
            x = x + self.attention(y, y)
            return x + self.narrow(self.wide(self.norms[1](x)))

    def segments(x, rows):
        return (
            tf.math.unsorted_segment_mean(x, rows, 7),
            tf.math.unsorted_segment_max(x, rows, 7),
            tf.math.top_k(x, 5)[0],
        )

    images = {
        "mobilenet": ("MobileNetV2", 96),
        "efficientnet": ("EfficientNetB0", 96),
        "resnet": ("ResNet50", 64),
        "densenet": ("DenseNet121", 64),
        "convnext": ("ConvNeXtTiny", 64),
        "nasnet": ("NASNetMobile", 96),
    }
    found = {}
    for name, (network, size) in images.items():
        found[name] = lambda n=network, s=size: inference(application(n, s), floats(2, s, s, 3))
    for name, layer in {"lstm": layers.LSTM, "gru": layers.GRU}.items():
        for both_ways in (False, True):
            whole = name + ("-both-ways" if both_ways else "")
            network = lambda n=layer, b=both_ways: recurrent(n, b)  # noqa: E731
            found[whole] = lambda n=network: inference(n(), floats(*RECURRENT["shape"]))
            found[whole + "-grad"] = lambda n=network: gradients(n(), floats(*RECURRENT["shape"]))
    found["block"] = lambda: inference(Block(), floats(2, 32, 64))
    found["block-grad"] = lambda: gradients(Block(), floats(2, 32, 64))
    found["segments"] = lambda: (segments, (floats(300, 50), integers(7, 300)))

    def text(made):
        function, inputs = made
        compiled = tf.function(function, jit_compile=True, autograph=False)
        return compiled.experimental_get_compiler_ir(*inputs)(stage="hlo")

    return found, text


def torch_networks():
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    import torch
    import torch_xla
    import torchvision
    import transformers

    device = torch_xla.device()
    torch.manual_seed(0)

    def arrays(result):
        if torch.is_tensor(result):
            return [result]
        if hasattr(result, "to_tuple"):
            result = result.to_tuple()
        return [v for v in result if torch.is_tensor(v)]

    def inference(network, *inputs):
        network = network.eval().to(device)
        with torch.no_grad():
            return arrays(network(*[x.to(device) for x in inputs]))

    def gradients(network, *inputs):
        network = network.train().to(device)
        for module in network.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        loss = (arrays(network(*[x.to(device) for x in inputs]))[0] ** 2).mean()
        loss.backward()
        return [loss, *(p.grad for p in network.parameters() if p.grad is not None)]

    small = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 200,
        "max_position_embeddings": 64,
    }

    def bert():
        return transformers.BertModel(transformers.BertConfig(**small))

    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.LSTM(16, RECURRENT["units"], 2, batch_first=True)
            self.out = torch.nn.Linear(RECURRENT["units"], RECURRENT["classes"])

        def forward(self, x):
            return self.out(self.layers(x)[0])

    def encoder():
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 2)

    networks = {
        "encoder": (encoder, lambda: torch.randn(2, 20, 64)),
        "bert": (bert, lambda: torch.randint(0, 200, (2, 16))),
        "lstm": (Recurrent, lambda: torch.randn(*RECURRENT["shape"])),
    }
    for name, size in {
        "resnet18": 64,
        "mobilenet_v3_small": 64,
        "shufflenet_v2_x0_5": 64,
        "efficientnet_b0": 64,
        "convnext_tiny": 64,
        "swin_t": 64,
        "densenet121": 64,
        "vit_b_16": 224,
    }.items():
        network = getattr(torchvision.models, name)
        networks[name] = (
            lambda n=network: n(weights=None),
            lambda s=size: torch.randn(1, 3, s, s),
        )
    found = {}
    for name, (network, inputs) in networks.items():
        found[name] = lambda n=network, i=inputs: inference(n(), i())
    for name in ("encoder", "bert", "lstm", "resnet18", "shufflenet_v2_x0_5"):
        network, inputs = networks[name]
        found[name + "-grad"] = lambda n=network, i=inputs: gradients(n(), i())

    def text(results):
        return torch_xla._XLAC._get_xla_tensors_hlo([v.detach() for v in results])

    return found, text


FRONTENDS = {"tensorflow": tensorflow_networks, "torch": torch_networks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frontend", choices=FRONTENDS)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path("build", {"torch": "torch-xla"}.get(options.frontend, options.frontend))
    folder.mkdir(parents=True, exist_ok=True)
    networks, text = FRONTENDS[options.frontend]()
    for name in options.names or networks:
        module = text(networks[name]())
        if "{...}" in module:
            print(f"{name}: its text leaves constants out")
            continue
        (folder / f"{options.frontend}-{name}.hlo").write_text(module)
        print(name)


if __name__ == "__main__":
    main()
