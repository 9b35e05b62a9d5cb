"""Writes HLO modules of networks that JAX users write or take out of libraries, to time beside XLA.

    bench/jax_networks.py [NAME...] [--folder build/jax]
    bench/xla_peers.py build/jax/*.hlo

Needs flax, optax and, for names that begin with "flax-", transformers below 4.50 in the Python that
runs it: pip install "jax[cpu]" flax optax onnx "transformers<4.50". A name that ends in "-train" is a
step of training, loss, gradients and the optimiser's update; one in "-grad" loss and gradients alone.
Parameters are arguments of the module. Without names all are written.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.nn import gelu, relu, silu, swish

KEY = jax.random.PRNGKey(0)
f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731
i32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)  # noqa: E731
SEED = jax.ShapeDtypeStruct((2,), jnp.uint32)


def inference(network, *inputs):
    """A function and its arguments, the parameters first."""
    return network.apply, (jax.eval_shape(network.init, KEY, *inputs), *inputs)


def training(loss, parameters, *inputs, optimiser=None):
    optimiser = optimiser or optax.adamw(1e-3)
    state = jax.eval_shape(optimiser.init, parameters)

    def step(parameters, state, *inputs):
        # Random arguments stand for the state, of which second moments are positive.
        state = jax.tree_util.tree_map(jnp.abs, state)
        value, gradients = jax.value_and_grad(loss)(parameters, *inputs)
        updates, state = optimiser.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    return step, (parameters, state, *inputs)


def classifying(network, images, **options):
    """A step that trains a classifier of images."""
    labels = optax.softmax_cross_entropy_with_integer_labels
    parameters = jax.eval_shape(network.init, KEY, images)
    return training(
        lambda p, x, y: labels(network.apply(p, x), y).mean(),
        parameters,
        images,
        i32(images.shape[0]),
        **options,
    )


class Digits(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (32, 64):
            x = nn.avg_pool(relu(nn.Conv(features, (3, 3))(x)), (2, 2), (2, 2))
        return nn.Dense(10)(relu(nn.Dense(256)(x.reshape(x.shape[0], -1))))


class Mixer(nn.Module):
    @nn.compact
    def __call__(self, x):
        def perceptron(x, width):
            return nn.Dense(x.shape[-1])(gelu(nn.Dense(width)(x)))

        x = nn.Conv(256, (16, 16), (16, 16))(x)
        x = x.reshape(x.shape[0], -1, 256)
        for _ in range(4):
            y = jnp.swapaxes(nn.LayerNorm()(x), 1, 2)
            x = x + jnp.swapaxes(perceptron(y, 128), 1, 2)
            x = x + perceptron(nn.LayerNorm()(x), 1024)
        return nn.Dense(1000)(nn.LayerNorm()(x).mean(1))


class ConvNext(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.Conv(64, (4, 4), (4, 4))(x))
        for stage in range(3):
            width = 64 * 2**stage
            if stage:
                x = nn.Conv(width, (2, 2), (2, 2))(nn.LayerNorm()(x))
            for _ in range(2):
                y = nn.LayerNorm()(nn.Conv(width, (7, 7), feature_group_count=width)(x))
                x = x + nn.Dense(width)(gelu(nn.Dense(4 * width)(y), approximate=False))
        return nn.Dense(1000)(nn.LayerNorm()(x.mean((1, 2))))


class Language(nn.Module):
    """A causal Transformer."""

    type: object = jnp.float32
    words: int = 1000

    @nn.compact
    def __call__(self, tokens):
        of_type = {"dtype": self.type}
        x = nn.Embed(self.words, 256, **of_type)(tokens)
        x = x + nn.Embed(512, 256, **of_type)(jnp.arange(tokens.shape[1]))
        mask = nn.make_causal_mask(tokens)
        for _ in range(4):
            x = x + nn.SelfAttention(4, **of_type)(nn.LayerNorm(**of_type)(x), mask=mask)
            y = nn.Dense(1024, **of_type)(nn.LayerNorm(**of_type)(x))
            x = x + nn.Dense(256, **of_type)(gelu(y))
        return nn.Dense(self.words, **of_type)(nn.LayerNorm(**of_type)(x))


class ScannedLanguage(nn.Module):
    """Equal layers as a scan, each made again in the backward pass."""

    @nn.compact
    def __call__(self, tokens):
        mask = nn.make_causal_mask(tokens)

        class Layer(nn.Module):
            @nn.compact
            def __call__(self, x, _):
                x = x + nn.SelfAttention(4)(nn.RMSNorm()(x), mask=mask)
                gate, up = jnp.split(nn.Dense(1024, use_bias=False)(nn.RMSNorm()(x)), 2, -1)
                return x + nn.Dense(256, use_bias=False)(silu(gate) * up), None

        scanned = nn.scan(
            nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=6
        )
        x, _ = scanned()(nn.Embed(1000, 256)(tokens), None)
        return nn.Dense(1000)(nn.RMSNorm()(x))


def next_words(network, tokens):
    def loss(parameters, tokens):
        scores = network.apply(parameters, tokens)[:, :-1].astype(jnp.float32)
        labels = optax.softmax_cross_entropy_with_integer_labels
        return labels(scores, tokens[:, 1:]).mean()

    parameters = jax.eval_shape(network.init, KEY, tokens)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return training(loss, parameters, tokens, optimiser=clipped)


class Translator(nn.Module):
    @nn.compact
    def __call__(self, x, y):
        carry, _ = nn.RNN(nn.OptimizedLSTMCell(256), return_carry=True)(x)
        return nn.Dense(16)(nn.RNN(nn.OptimizedLSTMCell(256))(y, initial_carry=carry))


class BothWays(nn.Module):
    @nn.compact
    def __call__(self, x, lengths):
        x = nn.Bidirectional(nn.RNN(nn.GRUCell(128)), nn.RNN(nn.GRUCell(128)))(
            x, seq_lengths=lengths
        )
        return nn.Dense(2)(x.max(1))


class Diffusion(nn.Module):
    @nn.compact
    def __call__(self, x, time):
        rates = jnp.exp(-jnp.log(10000.0) * jnp.arange(32) / 32)
        at = jnp.concatenate([jnp.sin(time[:, None] * rates), jnp.cos(time[:, None] * rates)], -1)
        at = swish(nn.Dense(128)(swish(nn.Dense(128)(at))))

        def block(x, features):
            h = nn.Conv(features, (3, 3))(swish(nn.GroupNorm(8)(x)))
            h = h + nn.Dense(features)(at)[:, None, None]
            h = nn.Conv(features, (3, 3))(swish(nn.GroupNorm(8)(h)))
            return h + (x if x.shape[-1] == features else nn.Conv(features, (1, 1))(x))

        h, skipped = nn.Conv(32, (3, 3))(x), []
        for features in (32, 64, 128):
            h = block(h, features)
            skipped.append(h)
            h = nn.Conv(features, (3, 3), (2, 2))(h)
        rows = nn.GroupNorm(8)(h).reshape(h.shape[0], -1, h.shape[-1])
        h = h + nn.SelfAttention(4)(rows).reshape(h.shape)
        for features in (128, 64, 32):
            size = (h.shape[0], 2 * h.shape[1], 2 * h.shape[2], h.shape[3])
            h = nn.Conv(features, (3, 3))(jax.image.resize(h, size, "nearest"))
            h = block(jnp.concatenate([h, skipped.pop()], -1), features)
        return nn.Conv(3, (3, 3))(swish(nn.GroupNorm(8)(h)))


def noise_training():
    network = Diffusion()

    def loss(parameters, x, seed):
        keys = jax.random.split(seed)
        time = jax.random.uniform(keys[0], (x.shape[0],))
        noise = jax.random.normal(keys[1], x.shape)
        angle = (time * jnp.pi / 2)[:, None, None, None]
        mixed = jnp.cos(angle) * x + jnp.sin(angle) * noise
        return ((network.apply(parameters, mixed, time) - noise) ** 2).mean()

    parameters = jax.eval_shape(network.init, KEY, f32(2, 32, 32, 3), f32(2))
    return training(loss, parameters, f32(2, 32, 32, 3), SEED, optimiser=optax.lion(1e-4))


class Experts(nn.Module):
    @nn.compact
    def __call__(self, x):
        weight, chosen = jax.lax.top_k(nn.softmax(nn.Dense(8)(x)), 2)
        of = (jax.nn.one_hot(chosen, 8) * weight[..., None]).sum(-2)
        first = self.param("first", nn.initializers.lecun_normal(), (8, 128, 256))
        second = self.param("second", nn.initializers.lecun_normal(), (8, 256, 128))
        hidden = gelu(jnp.einsum("nd,edf->enf", x, first))
        return jnp.einsum("end,ne->nd", jnp.einsum("enf,efd->end", hidden, second), of)


class GraphConvolution(nn.Module):
    @nn.compact
    def __call__(self, x, senders, receivers):
        nodes = x.shape[0]
        for features in (64, 64, 16):
            h = nn.Dense(features)(x)
            degree = jax.ops.segment_sum(jnp.ones(senders.shape), receivers, nodes) + 1
            sent = h[senders] * jax.lax.rsqrt(degree[senders])[:, None]
            met = jax.ops.segment_sum(sent, receivers, nodes) * jax.lax.rsqrt(degree)[:, None]
            x = relu(met + h / degree[:, None])
        return x


class Decoder(nn.Module):
    """One token of a Llama: rotary positions, grouped queries, caches of keys and values."""

    layers: int = 3
    words: int = 2000

    @nn.compact
    def __call__(self, token, keys, values, position):
        x = nn.Embed(self.words, 256)(token)
        angle = position / 10000 ** (jnp.arange(0, 32, 2) / 32)

        def turned(x):
            a, b = jnp.split(x, 2, -1)
            cosine, sine = jnp.cos(angle), jnp.sin(angle)
            return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)

        def heads(count, x):
            return nn.DenseGeneral((count, 32), use_bias=False)(x)

        for layer in range(self.layers):
            y = nn.RMSNorm()(x)
            q, k, v = turned(heads(8, y)), turned(heads(2, y)), heads(2, y)
            place = (layer, 0, position, 0, 0)
            keys = jax.lax.dynamic_update_slice(keys, k[None, :, None], place)
            values = jax.lax.dynamic_update_slice(values, v[None, :, None], place)
            q = q.reshape(1, 2, 4, 32)
            scores = jnp.einsum("bgqd,btgd->bgqt", q, keys[layer]) / 32**0.5
            scores = jnp.where(jnp.arange(keys.shape[2]) <= position, scores, -1e30)
            read = jnp.einsum("bgqt,btgd->bgqd", nn.softmax(scores), values[layer])
            x = x + nn.Dense(256, use_bias=False)(read.reshape(1, -1))
            y = nn.RMSNorm()(x)
            gate = silu(nn.Dense(704, use_bias=False)(y))
            x = x + nn.Dense(256, use_bias=False)(gate * nn.Dense(704, use_bias=False)(y))
        scores = nn.Dense(self.words, use_bias=False)(nn.RMSNorm()(x))
        return jnp.argmax(scores, -1), keys, values


def generation():
    network, cache = Decoder(layers=1), f32(1, 1, 32, 2, 32)

    def generate(parameters, token, keys, values):
        def step(carry, position):
            carry = network.apply(parameters, *carry, position)
            return carry, carry[0]

        return jax.lax.scan(step, (token, keys, values), jnp.arange(16))[1]

    parameters = jax.eval_shape(network.init, KEY, i32(1), cache, cache, i32())
    return generate, (parameters, i32(1), cache, cache)


def linear_recurrence(decay, angle, b_real, b_imaginary, c_real, c_imaginary, x):
    """A state space layer, its complex states by an associative scan over time."""
    rate = jnp.exp(-jnp.exp(decay) + 1j * jnp.exp(angle))
    driven = x.astype(jnp.complex64) @ (b_real + 1j * b_imaginary)
    _, state = jax.lax.associative_scan(
        lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]),
        (jnp.broadcast_to(rate, driven.shape), driven),
        axis=1,
    )
    return (state @ (c_real + 1j * c_imaginary)).real


def fourier_operator(x, real, imaginary, weights):
    modes = real.shape[0]
    spectrum = jnp.fft.rfft2(x, axes=(1, 2))
    low = jnp.einsum("bxyi,xyio->bxyo", spectrum[:, :modes, :modes], real + 1j * imaginary)
    mixed = jnp.zeros_like(spectrum).at[:, :modes, :modes].set(low)
    return gelu(jnp.fft.irfft2(mixed, s=x.shape[1:3], axes=(1, 2)) + x @ weights)


def long_convolution(x, filters):
    length = x.shape[-1]
    return jnp.fft.irfft(
        jnp.fft.rfft(x, 2 * length) * jnp.fft.rfft(filters, 2 * length), 2 * length
    )[..., :length]


def alignment(scores, masked, labels, padding):
    return jax.value_and_grad(lambda s: optax.ctc_loss(s, masked, labels, padding).mean())(scores)


def transport(costs):
    """Sinkhorn's iterations."""

    def step(duals, _):
        rows = -jax.nn.logsumexp(-costs / 0.1 + duals[1][None], 1)
        return (rows, -jax.nn.logsumexp(-costs / 0.1 + rows[:, None], 0)), None

    start = (jnp.zeros(costs.shape[0]), jnp.zeros(costs.shape[1]))
    rows, columns = jax.lax.scan(step, start, None, length=50)[0]
    return jnp.exp(-costs / 0.1 + rows[:, None] + columns[None])


def covariance(x, y, scales):
    return jnp.exp(-(((x[:, None] - y[None]) / scales) ** 2).sum(-1) / 2)


def gaussian_process(x, values, scales):
    """The likelihood of values that a Gaussian process drew at x."""
    factor = jnp.linalg.cholesky(covariance(x, x, scales) + 0.1 * jnp.eye(len(x)))
    weights = jax.scipy.linalg.cho_solve((factor, True), values)
    return values @ weights / 2 + jnp.log(jnp.diag(factor)).sum()


def posterior(x, values, scales, at):
    """Mean and variance of that process elsewhere."""
    factor = jnp.linalg.cholesky(covariance(x, x, scales) + 0.1 * jnp.eye(len(x)))
    between = covariance(x, at, scales)
    spread = jax.scipy.linalg.solve_triangular(factor, between, lower=True)
    mean = between.T @ jax.scipy.linalg.cho_solve((factor, True), values)
    return mean, 1 - (spread**2).sum(0)


def kalman(seen, moves, sees):
    """Filters what is seen of states of four numbers."""
    moves, noise = 0.3 * moves, 0.1 * jnp.eye(4)

    def step(state, seen):
        mean, spread = moves @ state[0], moves @ state[1] @ moves.T + noise
        expected = sees @ spread @ sees.T + 0.2 * jnp.eye(2)
        gain = jnp.linalg.solve(expected, sees @ spread).T
        error = seen - sees @ mean
        surprise = error @ jnp.linalg.solve(expected, error) + jnp.linalg.slogdet(expected)[1]
        mean, spread = mean + gain @ error, spread - gain @ expected @ gain.T
        return (mean, spread), (mean, surprise)

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1]


def preconditioned(gradient, inputs, outputs):
    """A gradient between the inverses of two covariances, as second-order optimisers have it."""
    left = inputs.T @ inputs + 0.1 * jnp.eye(inputs.shape[1])
    right = outputs.T @ outputs + 0.1 * jnp.eye(outputs.shape[1])
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(left), gradient) @ jnp.linalg.inv(
        right
    )


def summed(function):
    """The gradients of the sum of squares."""
    return lambda *inputs: jax.grad(
        lambda *inputs: (function(*inputs) ** 2).sum(), tuple(range(len(inputs)))
    )(*inputs)


STATES = (f32(64), f32(64), *[f32(32, 64)] * 2, *[f32(64, 32)] * 2, f32(2, 128, 32))
OPERATOR = (f32(2, 64, 64, 32), *[f32(12, 12, 32, 32)] * 2, f32(32, 32))
KALMAN = (f32(50, 2), f32(4, 4), f32(2, 4))
CACHE = f32(3, 1, 256, 2, 32)
NETWORKS = {
    "digits": lambda: inference(Digits(), f32(32, 28, 28, 1)),
    "digits-train": lambda: classifying(
        Digits(), f32(32, 28, 28, 1), optimiser=optax.sgd(0.1, 0.9)
    ),
    "mixer": lambda: inference(Mixer(), f32(1, 224, 224, 3)),
    "convnext": lambda: inference(ConvNext(), f32(1, 128, 128, 3)),
    "convnext-train": lambda: classifying(ConvNext(), f32(2, 64, 64, 3)),
    "language": lambda: inference(Language(), i32(2, 128)),
    "language-train": lambda: next_words(Language(), i32(4, 64)),
    "language-bf16-train": lambda: next_words(Language(jnp.bfloat16), i32(4, 64)),
    "scanned-language": lambda: inference(ScannedLanguage(), i32(2, 64)),
    "scanned-language-train": lambda: next_words(ScannedLanguage(), i32(2, 64)),
    "translator": lambda: inference(Translator(), f32(8, 20, 16), f32(8, 12, 16)),
    "both-ways": lambda: inference(BothWays(), f32(4, 40, 64), i32(4)),
    "diffusion": lambda: inference(Diffusion(), f32(1, 64, 64, 3), f32(1)),
    "diffusion-train": noise_training,
    "experts": lambda: inference(Experts(), f32(64, 128)),
    "graph-convolution": lambda: inference(
        GraphConvolution(), f32(500, 32), i32(2000), i32(2000)
    ),
    "decoder": lambda: inference(Decoder(), i32(1), CACHE, CACHE, i32()),
    "generation": generation,
    "linear-recurrence": lambda: (linear_recurrence, STATES),
    "linear-recurrence-grad": lambda: (summed(linear_recurrence), STATES),
    "fourier-operator": lambda: (fourier_operator, OPERATOR),
    "fourier-operator-grad": lambda: (summed(fourier_operator), OPERATOR),
    "fourier-mixing": lambda: (lambda x: jnp.fft.fft2(x, axes=(1, 2)).real, (f32(2, 128, 256),)),
    "long-convolution": lambda: (long_convolution, (f32(8, 2048), f32(8, 2048))),
    "alignment": lambda: (alignment, (f32(4, 50, 30), f32(4, 50), i32(4, 10), f32(4, 10))),
    "gaussian-process-grad": lambda: (
        jax.value_and_grad(gaussian_process, argnums=2),
        (f32(120, 3), f32(120), f32(3)),
    ),
    "posterior": lambda: (posterior, (f32(200, 3), f32(200), f32(3), f32(50, 3))),
    "kalman": lambda: (kalman, KALMAN),
    "kalman-grad": lambda: (jax.grad(lambda *x: kalman(*x)[1].sum(), argnums=1), KALMAN),
    "preconditioned": lambda: (preconditioned, (f32(64, 32), f32(256, 64), f32(256, 32))),
    "transport": lambda: (transport, (f32(64, 96),)),
}

SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {**SMALL, "intermediate_size": 256, "vocab_size": 500}
IMAGE = {**SMALL, "intermediate_size": 256, "image_size": 64}
PAIR = {
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "vocab_size": 500,
}
GPT = {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 500}
# The class behind "Flax", that of the configuration, and what is not its default.
LIBRARY = {
    "flax-bert": ("BertModel", "BertConfig", TEXT),
    "flax-albert": ("AlbertModel", "AlbertConfig", {"embedding_size": 64, **TEXT}),
    "flax-electra": ("ElectraModel", "ElectraConfig", {"embedding_size": 64, **TEXT}),
    "flax-gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT),
    "flax-gptj": ("GPTJForCausalLM", "GPTJConfig", {"rotary_dim": 16, **GPT}),
    "flax-llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2, **TEXT}),
    "flax-gemma": (
        "GemmaForCausalLM",
        "GemmaConfig",
        {"num_key_value_heads": 1, "head_dim": 32, **TEXT},
    ),
    "flax-bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        {"hidden_size": 128, "n_layer": 2, "n_head": 4, "vocab_size": 500},
    ),
    "flax-bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "flax-pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", PAIR),
    "flax-vit": ("ViTForImageClassification", "ViTConfig", IMAGE),
    "flax-beit": (
        "BeitForImageClassification",
        "BeitConfig",
        {"use_relative_position_bias": True, **IMAGE},
    ),
    "flax-dinov2": ("Dinov2Model", "Dinov2Config", {**SMALL, "image_size": 70}),
    "flax-resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 32, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]},
    ),
}


def library(name):
    """A network of transformers, or its gradients."""
    import transformers

    network, config, settings = LIBRARY[name.removesuffix("-grad")]
    size = settings.get("image_size", 128)
    of_images = "Image" in network or "Dino" in network
    shape = {"input_shape": (1, size, size, 3)} if of_images else {}
    config = getattr(transformers, config)(**settings)
    model = getattr(transformers, "Flax" + network)(config, seed=0, **shape)
    if of_images:
        inputs = {"pixel_values": f32(1, 3, size, size)}
    else:
        inputs = {"input_ids": i32(2, 64), "attention_mask": i32(2, 64)}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = i32(2, 20)

    def run(parameters, inputs):
        outputs = model(params=parameters, return_dict=True, **inputs).values()
        return [output for output in outputs if hasattr(output, "shape")]

    def loss(parameters, inputs):
        return jnp.mean(jnp.square(run(parameters, inputs)[0]))

    parameters = jax.tree_util.tree_map(lambda a: f32(*a.shape), model.params)
    function = jax.value_and_grad(loss) if name.endswith("-grad") else run
    return function, (parameters, inputs)


def module_text(name):
    function, arguments = library(name) if name.startswith("flax-") else NETWORKS[name]()
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    flat = lambda *leaves: function(*jax.tree_util.tree_unflatten(tree, leaves))  # noqa: E731
    return jax.jit(flat, keep_unused=True).lower(*leaves).as_text("hlo")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("build/jax"))
    options = parser.parse_args()
    all_names = [*NETWORKS, *LIBRARY, *(f"{name}-grad" for name in LIBRARY)]
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or all_names:
        if name.removesuffix("-grad") not in LIBRARY and name not in NETWORKS:
            parser.error(f"there is no network '{name}': {' '.join(all_names)}")
        (options.folder / f"{name}.hlo").write_text(module_text(name))
        print(name, flush=True)


if __name__ == "__main__":
    main()
