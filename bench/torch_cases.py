"""The modules of the torch tests, and some more, at sizes of use: what bench/torch_peers times."""

import pathlib
import sys

import torch
import transformers
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "torch"))
import modules  # noqa: E402

WIDTH, LAYERS, HEADS, WORDS, TOKENS = 384, 4, 6, 1000, 128
ENCODER = {
    "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
}  # fmt: skip


def encoder(name, **config):
    return modules.First(modules.hugging(name, **(ENCODER | config)))


def distilbert():
    sizes = {"dim": WIDTH, "hidden_dim": 4 * WIDTH, "n_heads": HEADS, "n_layers": LAYERS}
    return encoder("DistilBert", vocab_size=WORDS, **sizes)


def gpt2():
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "use_cache": False}
    config = transformers.GPT2Config(vocab_size=WORDS, **sizes)
    return modules.First(transformers.GPT2LMHeadModel(config))


def t5():
    sizes = {"d_model": WIDTH, "d_kv": 64, "d_ff": 4 * WIDTH, "num_layers": LAYERS}
    config = transformers.T5Config(vocab_size=WORDS, num_heads=HEADS, **sizes)
    return modules.First(transformers.T5EncoderModel(config))


def mlp():
    layers = [nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512)]
    return nn.Sequential(*layers, nn.Softmax(-1))


def rows():
    return nn.Sequential(nn.LayerNorm(1024), nn.GELU(), nn.Softmax(-1))


class Neighbours(nn.Module):
    """Two layers of a graph network: the mean of what an edge's other end has."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def mean(self, x, edges):
        ones = torch.ones(edges.shape[1])
        count = torch.zeros(x.shape[0]).scatter_add(0, edges[1], ones).clamp(min=1)
        to = edges[1][:, None].expand(-1, x.shape[1])
        return torch.zeros_like(x).scatter_add(0, to, x[edges[0]]) / count[:, None]

    def forward(self, x, edges):
        x = torch.relu(self.mean(self.first(x), edges))
        return self.mean(self.second(x), edges)


class Points(nn.Module):
    """Each eighth point's sixteen nearest, as a set (PointNet++)."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, points):
        some = points[:, ::8]
        apart = ((some[:, :, None] - points[:, None]) ** 2).sum(-1)
        near = apart.topk(16, largest=False)[1][..., None].expand(-1, -1, -1, 3)
        there = torch.gather(points[:, None].expand(-1, some.shape[1], -1, -1), 2, near)
        return self.inner(torch.cat([there - some[:, :, None], there], -1)).amax(2)


class Routed(nn.Module):
    """Eight experts, two of them for each row."""

    def __init__(self, width=128):
        super().__init__()
        self.gate = nn.Linear(width, 8)
        self.wide = nn.Parameter(torch.randn(8, width, 2 * width) / 10)
        self.narrow = nn.Parameter(torch.randn(8, 2 * width, width) / 10)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        inner = nn.functional.gelu(torch.einsum("nd,edh->enh", x, self.wide))
        made = torch.einsum("enh,ehd->end", inner, self.narrow)
        weights = weights / weights.sum(-1, keepdim=True)
        shares = torch.zeros(x.shape[0], 8).scatter(1, chosen, weights)
        return torch.einsum("ne,end->nd", shares, made)


def picture(size=128):
    return (torch.randn(1, 3, size, size),)


def words():
    return (torch.randint(0, WORDS, (1, TOKENS)),)


#: Name: the module, and its inputs.
def generator():
    """Of a DCGAN, for pictures of 64x64."""
    layers = [nn.ConvTranspose2d(100, 256, 4, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
    for channels in (256, 128, 64):
        layers += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(channels // 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    layers = [nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2)]
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * channels), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(256, 1, 4))


def autoencoder():
    layers = []
    for channels in (3, 32, 64):
        made = 32 if channels == 3 else 2 * channels
        layers += [nn.Conv2d(channels, made, 3, 2, 1), nn.BatchNorm2d(made), nn.LeakyReLU()]
    for channels in (128, 64):
        layers += [nn.ConvTranspose2d(channels, channels // 2, 3, 2, 1, 1)]
        layers += [nn.BatchNorm2d(channels // 2), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 3, 2, 1, 1))


def codec():
    """Of sounds: by steps of 2, 4, 5 and 8 and back."""
    layers, channels = [nn.Conv1d(1, 16, 7, padding=3)], 16
    for step in (2, 4, 5, 8):
        layers += [nn.ELU(), nn.Conv1d(channels, channels, 3, padding=1), nn.ELU()]
        layers += [nn.Conv1d(channels, 2 * channels, 2 * step, step, (step + 1) // 2)]
        channels *= 2
    for step in (8, 5, 4, 2):
        padding, extra = (step + 1) // 2, step % 2
        layers += [nn.ELU()]
        layers += [nn.ConvTranspose1d(channels, channels // 2, 2 * step, step, padding, extra)]
        channels //= 2
        layers += [nn.ELU(), nn.Conv1d(channels, channels, 3, padding=1)]
    return nn.Sequential(*layers, nn.ELU(), nn.Conv1d(channels, 1, 7, padding=3))


CASES = {
    "mlp": (mlp, lambda: (torch.randn(64, 512),)),
    "rows": (rows, lambda: (torch.randn(2048, 1024),)),
    "resnet": (lambda: modules.resnet((32, 32, 64, 64, 128, 128, 256)), picture),
    "vgg": (lambda: modules.vgg((32, 64, 128, 256)), picture),
    "mobilenet": (lambda: modules.mobilenet(32, 4), picture),
    "efficientnet": (lambda: modules.efficientnet(32, 3), picture),
    "convnext": (lambda: modules.convnext(64, 4), picture),
    "densenet": (lambda: modules.densenet(64, 32, 6), picture),
    "unet": (lambda: modules.UNet(32), picture),
    "generator": (generator, lambda: (torch.randn(16, 100, 1, 1),)),
    "discriminator": (discriminator, lambda: (torch.randn(16, 3, 64, 64),)),
    "autoencoder": (autoencoder, lambda: (torch.randn(8, 3, 64, 64),)),
    "codec": (codec, lambda: (torch.randn(2, 1, 9600),)),
    "temporal": (lambda: modules.TemporalConvolutions(32, 6), lambda: (torch.randn(1, 32, 1024),)),
    "lstm": (lambda: modules.LSTM(128, 256), lambda: (torch.randn(16, 4, 128),)),
    "gru": (lambda: modules.GRU(128, 256), lambda: (torch.randn(16, 4, 128),)),
    "recommender": (
        lambda: modules.Recommender(10000, 64, 13),
        lambda: (torch.randn(256, 13), torch.randint(0, 10000, (256, 3))),
    ),
    "experts": (lambda: modules.MixtureOfExperts(256, 1024), lambda: (torch.randn(32, 256),)),
    "routed": (Routed, lambda: (torch.randn(512, 128),)),
    "neighbours": (
        Neighbours,
        lambda: (torch.randn(2000, 64), torch.randint(0, 2000, (2, 10000))),
    ),
    "points": (Points, lambda: (torch.randn(2, 1024, 3),)),
    "mixer": (lambda: modules.Mixer(196, 256, 1024), lambda: (torch.randn(1, 196, 256),)),
    "transformer": (
        lambda: modules.transformer(256, 1024, LAYERS),
        lambda: (torch.randn(1, TOKENS, 256),),
    ),
    "bert": (lambda: encoder("Bert", vocab_size=WORDS), words),
    "distilbert": (distilbert, words),
    "gpt2": (gpt2, words),
    "vit": (lambda: encoder("ViT", image_size=128, patch_size=16), picture),
    "wav2vec2": (
        lambda: encoder("Wav2Vec2", conv_dim=(64,) * 7, num_conv_pos_embeddings=32),
        lambda: (torch.randn(1, 16000),),
    ),
    "llama": (
        lambda: encoder("Llama", vocab_size=WORDS, num_key_value_heads=2, use_cache=False),
        words,
    ),
    "t5": (t5, words),
}
