"""Small modules of many kinds, with random weights, and inputs for them."""

import torch
import torch.nn.functional as f
from torch import nn


class Residual(nn.Module):
    """A basic block of ResNet."""

    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.skip = nn.Sequential()
        if stride != 1 or inner != outer:
            self.skip = nn.Sequential(nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer))

    def forward(self, x):
        return f.relu(self.body(x) + self.skip(x))


def resnet(widths=(8, 8, 16, 16)):
    """A block for each width behind the stem's; a new width halves the picture."""
    stem = [nn.Conv2d(3, widths[0], 7, 2, 3), nn.BatchNorm2d(widths[0])]
    stem += [nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    pairs = zip(widths, widths[1:], strict=False)
    blocks = [Residual(a, b, 1 if a == b else 2) for a, b in pairs]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*stem, *blocks, *head)


def vgg(widths=(8, 16)):
    layers, inner = [], 3
    for outer in widths:
        layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        inner = outer
    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(), nn.Linear(16 * inner, 10)]
    return nn.Sequential(*layers, *head)


class InvertedResidual(nn.Module):
    def __init__(self, width, expansion=4):
        super().__init__()
        wide = width * expansion
        self.body = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return x + self.body(x)


def mobilenet(width=8, depth=2):
    blocks = [InvertedResidual(width) for _ in range(depth)]
    return nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), *blocks, nn.AvgPool2d(2))


class SqueezeExcite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        scale = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(f.silu(self.down(scale))))


def efficientnet(width=8, depth=1):
    blocks = [(InvertedResidual(width), SqueezeExcite(width)) for _ in range(depth)]
    stem = [nn.Conv2d(3, width, 3, 2, 1), nn.SiLU()]
    return nn.Sequential(*stem, *(part for block in blocks for part in block), nn.Flatten(2))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(f.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(width=8, depth=2):
    blocks = [ConvNextBlock(width) for _ in range(depth)]
    return nn.Sequential(nn.Conv2d(3, width, 4, 4), *blocks)


class DenseBlock(nn.Module):
    def __init__(self, width, growth=4, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(width + i * growth),
                nn.ReLU(),
                nn.Conv2d(width + i * growth, growth, 3, padding=1),
            )
            for i in range(depth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet(width=8, growth=4, depth=3):
    stem = nn.Conv2d(3, width, 3, 2, 1)
    return nn.Sequential(stem, DenseBlock(width, growth, depth), nn.AvgPool2d(2))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Conv2d(3, width, 3, padding=1)
        self.deep = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.out = nn.Conv2d(2 * width, 2, 1)
        self.norm = nn.GroupNorm(2, width)

    def forward(self, x):
        skip = f.relu(self.norm(self.down(x)))
        deep = f.relu(self.deep(f.max_pool2d(skip, 2)))
        joined = torch.cat([skip, self.up(deep)], 1)
        return self.out(joined), f.interpolate(deep, scale_factor=2, mode="bilinear")


class TemporalConvolutions(nn.Module):
    """Dilated and causal, as of WaveNet."""

    def __init__(self, width=4, depth=3):
        super().__init__()
        layers = (nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(depth))
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            a, b = layer(f.pad(x, (2**i, 0))).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return x


class LSTM(nn.Module):
    """Of cells, because torch.compile leaves nn.LSTM to eager mode."""

    def __init__(self, features=6, width=8):
        super().__init__()
        self.cell = nn.LSTMCell(features, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], self.cell.hidden_size)
        steps = []
        for step in x.unbind(0):
            h, c = self.cell(step, (h, c))
            steps.append(h)
        return self.head(torch.stack(steps)), c


class GRU(nn.Module):
    def __init__(self, features=6, width=8):
        super().__init__()
        self.cell = nn.GRUCell(features, width)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        for step in x.unbind(0):
            h = self.cell(step, h)
        return h


class Recommender(nn.Module):
    """Embeddings, their products, two layers (DLRM)."""

    def __init__(self, rows=20, width=8, features=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(3))
        self.bottom, self.top = nn.Linear(features, width), nn.Linear(width + 6, 1)

    def forward(self, dense, ids):
        rows = [self.bottom(dense), *(t(ids[:, i]) for i, t in enumerate(self.tables))]
        stacked = torch.stack(rows, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([rows[0], products[:, i, j]], 1)))


class MixtureOfExperts(nn.Module):
    def __init__(self, width=8, inner=16):
        super().__init__()
        self.gate = nn.Linear(width, 4)
        shapes = ((width, inner), (inner, width))
        self.wide, self.narrow = (nn.Parameter(torch.randn(4, *s) / s[0] ** 0.5) for s in shapes)

    def forward(self, x):
        weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
        y = torch.einsum("bd,edh->beh", x, self.wide).relu()
        y = torch.einsum("beh,ehd->bed", y, self.narrow)
        picked = torch.gather(y, 1, chosen.unsqueeze(-1).expand(-1, -1, y.shape[-1]))
        return (picked * weights.unsqueeze(-1)).sum(1)


class Mixer(nn.Module):
    def __init__(self, tokens=16, channels=8, inner=32):
        super().__init__()

        def over(width):
            return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

        self.over_tokens, self.over_channels = over(tokens), over(channels)
        self.a, self.b = nn.LayerNorm(channels), nn.LayerNorm(channels)

    def forward(self, x):
        x = x + self.over_tokens(self.a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.b(x))


def transformer(width=16, inner=32, layers=2):
    layer = nn.TransformerEncoderLayer(width, 4, inner, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def hugging(name, **config):
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64} | config
    model_type, config_type = getattr(transformers, f"{name}Model"), f"{name}Config"
    return model_type(getattr(transformers, config_type)(**sizes))


class First(nn.Module):
    """The first result of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args):
        return self.model(*args)[0]


def bert():
    return First(hugging("Bert", vocab_size=50))


def distilbert():
    return First(
        hugging("DistilBert", vocab_size=50, dim=32, hidden_dim=64, n_heads=4, n_layers=2)
    )


def gpt2():
    import transformers

    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def vit():
    return First(hugging("ViT", image_size=32, patch_size=8))


def wav2vec2():
    convolutions = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
    position = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
    return First(hugging("Wav2Vec2", **convolutions, **position))


def llama():
    return First(hugging("Llama", vocab_size=50, num_key_value_heads=2, use_cache=False))


def t5_encoder():
    import transformers

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return First(transformers.T5EncoderModel(transformers.T5Config(vocab_size=50, **sizes)))


def image(batch, size=32):
    return (torch.randn(batch, 3, size, size),)


def ids(batch, length=12):
    return (torch.randint(0, 50, (batch, length)),)


#: Name: the module, and its inputs for a batch.
MODULES = {
    "resnet": (resnet, image),
    "vgg": (vgg, image),
    "mobilenet": (mobilenet, image),
    "efficientnet": (efficientnet, image),
    "convnext": (convnext, image),
    "densenet": (densenet, image),
    "unet": (UNet, image),
    "temporal": (TemporalConvolutions, lambda batch: (torch.randn(batch, 4, 20),)),
    "lstm": (LSTM, lambda batch: (torch.randn(5, batch, 6),)),
    "gru": (GRU, lambda batch: (torch.randn(5, batch, 6),)),
    "recommender": (
        Recommender,
        lambda batch: (torch.randn(batch, 4), torch.randint(0, 20, (batch, 3))),
    ),
    "experts": (MixtureOfExperts, lambda batch: (torch.randn(batch, 8),)),
    "mixer": (Mixer, lambda batch: (torch.randn(batch, 16, 8),)),
    "transformer": (transformer, lambda batch: (torch.randn(batch, 7, 16),)),
    "bert": (bert, ids),
    "distilbert": (distilbert, ids),
    "vit": (vit, image),
    "wav2vec2": (wav2vec2, lambda batch: (torch.randn(batch, 400),)),
    "llama": (llama, ids),
    "t5": (t5_encoder, ids),
}
