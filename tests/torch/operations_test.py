"""Groups of ATen operations, each group one graph that weft takes whole."""

import pytest
import torch
import torch.nn.functional as f
from conftest import close

X = torch.linspace(-2.5, 2.5, 24).reshape(2, 3, 4)
POSITIVE = X.abs() + 0.3
INTS = torch.arange(-12, 12).reshape(2, 3, 4)
FLAGS = INTS % 3 == 0
IMAGE = torch.sin(torch.arange(2 * 4 * 9 * 9.0)).reshape(2, 4, 9, 9)


def rounding(x, p, i, flags):
    return (
        x.floor(),
        x.ceil(),
        x.round(),
        x.trunc(),
        x.sign(),
        x.frac(),
        i.abs(),
        -i,
        (x * 1.5).int(),
    )


def functions(x, p, i, flags):
    inside = x / 3
    return (
        *(inside.asin(), inside.acos(), inside.atanh(), p.log2(), p.log10(), x.exp2(), p.sqrt()),
        *(p.rsqrt(), p.reciprocal(), x.erf(), x.expm1(), p.log1p(), torch.atan2(x, p)),
        *(x.sinh(), x.cosh(), x.tan(), x.sigmoid(), x.logit(0.01)),
    )


def activations(x, p, i, flags):
    return (
        *(f.relu(x), f.gelu(x), f.gelu(x, approximate="tanh"), f.silu(x), f.mish(x), f.elu(x)),
        *(f.selu(x), f.celu(x), f.leaky_relu(x, 0.2), f.hardtanh(x), f.relu6(x), f.hardswish(x)),
        *(
            f.hardsigmoid(x),
            f.softplus(x),
            f.logsigmoid(x),
            f.glu(x),
            f.softsign(x),
            f.tanhshrink(x),
        ),
        *(
            f.hardshrink(x),
            f.softshrink(x),
            f.threshold(x, 0.1, 5),
            f.prelu(x, torch.tensor([0.3])),
        ),
    )


def arithmetic(x, p, i, flags):
    return (
        *(x + 1, 1 - x, torch.add(x, p, alpha=2), torch.rsub(x, p, alpha=3), x * i, i / 2, i // 5),
        *(
            i % 5,
            x % 0.7,
            torch.fmod(x, 0.7),
            i // -5,
            i % -5,
            torch.div(x, p, rounding_mode="floor"),
        ),
        *(torch.div(i, 5, rounding_mode="trunc"), x**2, x**3, p**0.5, p**-0.5, p**-1, p**1.7, 2**x),
        *(p**x, torch.maximum(x, p), torch.minimum(x, p), x.clamp(-1, 1), x.clamp(min=0)),
        *(i & 3, i | 8, i ^ 5, i << 1, i >> 1, ~i, x + flags, torch.lerp(x, p, 0.3)),
        *(torch.addcmul(x, x, p, value=2), torch.addcdiv(x, x, p), flags + flags, flags * flags),
    )


def comparisons(x, p, i, flags):
    return (
        *(x < 0, x <= p, x > i, i >= 3, i == 2, x != 0, flags & (x > 0), flags | (i > 3), ~flags),
        *(
            flags ^ (x > 0),
            torch.logical_not(i),
            torch.where(flags, x, p),
            torch.where(flags, x, 0.0),
        ),
        *(
            x.masked_fill(flags, -1),
            torch.isnan(x / 0 * 0),
            torch.isinf(p / 0),
            torch.isfinite(p / 0),
        ),
        *(
            torch.nan_to_num(x / 0),
            x.to(torch.float64),
            i.to(torch.float32),
            flags.long(),
            x.bool(),
        ),
    )


def movement(x, p, i, flags):
    return (
        *(x.transpose(0, 2), x.permute(1, 2, 0), x.reshape(6, 4), x.flatten(), x[:, 1:, ::2], x[1]),
        *(
            x[..., -1],
            x[:, -2:],
            x.flip(0, 2),
            x.repeat(2, 1, 3),
            x.expand(5, 2, 3, 4),
            x.roll(1, 2),
        ),
        *(x.unsqueeze(1), x[:1].squeeze(0), torch.cat([x, p], 1), torch.stack([x, p], -1)),
        *(*x.split(2, 1), *x.chunk(2, 2), *x.unbind(1), f.pad(x, (1, 2, -1, 1), value=3.0)),
        *(x.tril(), x.triu(1), torch.tile(x, (2,)), x.movedim(0, -1), x.narrow(2, 1, 2)),
        *(torch.meshgrid(x[0, 0], x[0, 1], indexing="ij")[0], x.repeat_interleave(2, 1)),
        *(
            x.new_zeros(3),
            torch.ones_like(x),
            torch.full((2,), 7),
            torch.arange(5),
            torch.arange(1, 9, 3),
        ),
        *(
            torch.linspace(0, 1, 5),
            torch.eye(3),
        ),
        *(x.unfold(2, 3, 1), x.unfold(0, 2, 1), x.as_strided((2, 3, 2, 3), (12, 4, 1, 1))),
        *(x.as_strided((2, 2, 3), (12, 0, 4), 3), x[1, 2].as_strided((), ())),
    )


def reductions(x, p, i, flags):
    return (
        *(
            x.sum(),
            x.sum((0, 2)),
            x.mean(1, keepdim=True),
            i.sum(1),
            flags.sum(),
            x.var(1),
            x.std(),
        ),
        *(
            x.amax(1),
            x.amin((0, 1)),
            *x.max(2),
            *x.min(0),
            x.argmax(1),
            x.argmin(),
            x.max(),
            i.min(),
        ),
        *(flags.any(), flags.all(1), x.any(2), p.prod(1), i.prod(), x.cumsum(1), p.cumprod(2)),
        *(x.softmax(1), x.log_softmax(2), x.logsumexp(1), x.norm(dim=1), torch.var_mean(x, 1)[1]),
        *(*torch.topk(x, 2), *torch.sort(x, 1, descending=True), torch.linalg.vector_norm(x, 1)),
        *(
            f.normalize(x, dim=1),
            f.cosine_similarity(x, p, 2),
            f.layer_norm(x, (3, 4)),
            x.diff(dim=1),
        ),
    )


def indexing(x, p, i, flags):
    rows = torch.tensor([1, 0, -1])
    where = (i.abs() % 3)[:, :, :2]
    return (
        *(x[:, rows], x[rows[:2], rows[1:]], x[:, rows, rows], x[rows[:2], :, rows[:2]]),
        *(x.index_select(1, rows[:2]), x.gather(1, where), f.embedding(i.abs() % 2, x[:, 0])),
        *(
            x.scatter(1, where[:, :1], p),
            x.scatter_add(1, where, p),
            x.scatter(1, where[:, :1], 3.0),
        ),
        *(
            x.index_put((torch.tensor([1, 0]), torch.tensor([2, 2])), p[0, :2]),
            torch.take_along_dim(x, i.abs() % 3, 1),
        ),
        *(
            x.index_put((torch.tensor([1, 1]),), p[0], accumulate=True),
            x.index_add(1, rows[:2], p[:, :2]),
        ),
        *(x.scatter_reduce(1, where, p, "amax"), x.index_copy(1, rows[:2], p[:, :2])),
        *(
            x.scatter_reduce(1, where[:, :2], p, how, include_self=False)
            for how in ("sum", "prod", "mean", "amax", "amin")
        ),
        *(x.scatter_reduce(1, where, p, "mean"), i.scatter_reduce(1, where, i, "amin")),
        i.scatter_reduce(1, where[:, :2], i, "amax", include_self=False),
        torch.where(flags, x, p).index_fill(2, rows[:1], 9.0),
    )


def products(x, p, i, flags):
    a, b = x[0], p[1].t()
    return (
        *(a @ b, x @ p.transpose(1, 2), torch.addmm(a[:, :3], a, b, beta=2, alpha=0.5), a @ a[0]),
        *(torch.einsum("bij,bkj->bik", x, p), f.linear(x, a, a[:, 0]), torch.outer(a[0], b[:, 1])),
        *(
            torch.baddbmm(x[:, :, :3], x, p.transpose(1, 2)),
            (i @ i.transpose(1, 2)),
            torch.dot(a[0], a[1]),
        ),
        f.scaled_dot_product_attention(x[None], p[None], p[None], is_causal=True),
        f.scaled_dot_product_attention(x[None], p[None], p[None], attn_mask=flags[None, :, :, :3]),
    )


@pytest.mark.parametrize(
    "group",
    [
        rounding,
        functions,
        activations,
        arithmetic,
        comparisons,
        movement,
        reductions,
        indexing,
        products,
    ],
)
def test_a_group(group, counter):
    close(
        torch.compile(group, backend=counter)(X, POSITIVE, INTS, FLAGS),
        group(X, POSITIVE, INTS, FLAGS),
    )
    assert not counter.left and len(counter.explanations) == 1
    assert len(counter.explanations[0].parts) == 1


def windows(x, w, d):
    return (
        *(f.conv2d(x, w), f.conv2d(x, w, stride=2, padding=1), f.conv2d(x, w, dilation=2)),
        *(f.conv2d(x, d, groups=4, padding="same"), f.conv_transpose2d(x, w, stride=2, padding=1)),
        *(f.conv_transpose2d(x, d, groups=4, output_padding=1, stride=3, dilation=2),),
        *(f.conv1d(x[:, :, 0], w[:, :, 0], padding=2), f.conv3d(x[:, :, None], w[:, :, None])),
        *(f.max_pool2d(x, 3, 2, 1), f.max_pool2d(x, 2, ceil_mode=True), f.max_pool1d(x[:, 0], 3)),
        *(
            *f.max_pool2d(x, 3, 2, 1, return_indices=True),
            f.avg_pool2d(x, 2),
            f.avg_pool1d(x[0], 3),
        ),
        *(f.avg_pool2d(x, 3, 2, 1, count_include_pad=False), f.avg_pool2d(x, 3, 2, 1)),
        *(f.adaptive_avg_pool2d(x, 3), f.adaptive_avg_pool2d(x, 1), f.adaptive_max_pool2d(x, 3)),
        *(f.interpolate(x, scale_factor=2), f.interpolate(x, (5, 13), mode="bilinear")),
        *(f.pixel_shuffle(x, 2), f.unfold(x, 3), f.instance_norm(x), f.group_norm(x, 2)),
        *(f.pad(x, (1, 2, 3, 0), mode="reflect"), f.pad(x, (1, 1, 1, 1), mode="replicate")),
        *(f.local_response_norm(x, 3), f.pixel_unshuffle(x[:, :, :8, :8], 2)),
    )


W, D = (torch.cos(torch.arange(n * 9.0)).reshape(4, -1, 3, 3) for n in (16, 4))


def test_windows(counter):
    close(
        torch.compile(windows, backend=counter)(IMAGE, W, D),
        windows(IMAGE, W, D),
        rtol=1e-3,
        atol=1e-4,
    )
    assert {each.target for each in counter.left} <= {"aten.adaptive_max_pool2d.default"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, d: f.max_pool2d(f.conv2d(x, w, stride=2, padding=1), 3, 2, 1),
        lambda x, w, d: (
            f.conv2d(x, d, groups=4, dilation=2) + f.conv2d(x, w[:, :1], groups=4).mean()
        ),
        lambda x, w, d: f.gelu(f.group_norm(f.conv2d(x, w, stride=3), 2)),
        lambda x, w, d: f.interpolate(x, scale_factor=2) * 3 + (w.mean() + d.mean()),
        lambda x, w, d: (
            f.conv_transpose2d(f.conv_transpose2d(x, w, stride=2, padding=1), w).tanh() + d.sum()
        ),
        lambda x, w, d: (
            f.conv_transpose2d(x, d, groups=4, output_padding=(1, 2), stride=3, dilation=2)
            + f.conv_transpose1d(x[:, :, 0], w[:, :, 0], stride=2).mean()
        ),
        lambda x, w, d: (
            f.conv2d(x, torch._weight_norm(w, d[:, :, :1, :1] + 2, 0))
            + torch._weight_norm(x[0], x[1, :1, :1] + 2, 2).mean()
        ),
        lambda x, w, d: (
            f.scaled_dot_product_attention(x, x * 2, x, is_causal=True) + w.sum() + d.sum()
        ),
        lambda x, w, d: f.cross_entropy(x, (x[:, 0] > 0).long()) + w.prod() + d.amax(),
    ],
)
def test_gradients(function, counter):
    leaves = [t.clone().requires_grad_() for t in (IMAGE, W, D)]
    twins = [t.clone().requires_grad_() for t in (IMAGE, W, D)]
    made, expected = torch.compile(function, backend=counter)(*leaves), function(*twins)
    close(made, expected, rtol=1e-3, atol=1e-4)
    weights = torch.cos(torch.arange(made.numel())).reshape(made.shape)
    (made * weights).sum().backward()
    (expected * weights).sum().backward()
    for mine, theirs in zip(leaves, twins):
        close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)
    assert not counter.left
