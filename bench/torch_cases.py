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


def picture(size=128):
    return (torch.randn(1, 3, size, size),)


def words():
    return (torch.randint(0, WORDS, (1, TOKENS)),)


#: Name: the module, and its inputs.
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
    "temporal": (lambda: modules.TemporalConvolutions(32, 6), lambda: (torch.randn(1, 32, 1024),)),
    "lstm": (lambda: modules.LSTM(128, 256), lambda: (torch.randn(16, 4, 128),)),
    "gru": (lambda: modules.GRU(128, 256), lambda: (torch.randn(16, 4, 128),)),
    "recommender": (
        lambda: modules.Recommender(10000, 64, 13),
        lambda: (torch.randn(256, 13), torch.randint(0, 10000, (256, 3))),
    ),
    "experts": (lambda: modules.MixtureOfExperts(256, 1024), lambda: (torch.randn(32, 256),)),
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
