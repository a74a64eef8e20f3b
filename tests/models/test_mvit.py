"""MViT and MViTv2: parameter counts, a reference in loops, class token, gradients, errors."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models import MViT, MViTv2
from minitorch_attn.models.mvit import MultiscaleBlock, PoolingAttention
from minitorch_attn.models.mvitv2 import RelativePoolingAttention, relative_distances
from minitorch_attn.models.pooling_attention import pool_tokens

VIDEO = dict(
    input_size=(4, 7, 10), num_classes=5, embed_dim=4, depths=(1, 2), num_heads=1, in_channels=2,
    mlp_ratio=1.5, patch_kernel=(3, 3, 3), patch_stride=(2, 1, 2), patch_padding=(1, 1, 1),
    stride_kv=(1, 2, 2),
)  # fmt: skip
IMAGE = dict(
    input_size=(8, 12), num_classes=5, embed_dim=4, depths=(2, 1), in_channels=2, mlp_ratio=1.5,
    patch_kernel=(3, 3), patch_stride=(2, 2), patch_padding=(1, 1), stride_kv=(2, 2),
)  # fmt: skip


def drawn(module, device="cpu", seed=3):
    """The module in float64 with every parameter at random."""
    rng = np.random.default_rng(seed)
    for p in module.double().eval().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return module.to(device)


def weights_of(module):
    return {name: value.numpy() for name, value in module.state_dict().items()}


def normed(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    return x * w[name + ".weight"] + w[name + ".bias"]


def window(place, stride, kernel, size):
    """Places of the map in the window of an output place, each with its kernel position."""
    for k in np.ndindex(*kernel):
        there = tuple(
            o * s + i - n // 2 for o, s, i, n in zip(place, stride, k, kernel, strict=True)
        )
        if all(0 <= t < n for t, n in zip(there, size, strict=True)):
            yield there, k


def pooled_size(size, stride, kernel):
    return tuple(
        (n + 2 * (k // 2) - k) // s + 1 for n, s, k in zip(size, stride, kernel, strict=True)
    )


def plain_pool(tokens, size, kernel, stride, w, name, prefix):
    """Convolve the map of one head, then normalize; the class token is only normalized."""
    if max((*kernel, *stride)) == 1:
        return tokens, size
    maps, out = tokens[prefix:].reshape(*size, -1), pooled_size(size, stride, kernel)
    pooled = np.zeros((*out, tokens.shape[-1]))
    for place in np.ndindex(*out):
        for there, k in window(place, stride, kernel, size):
            pooled[place] += maps[there] * w[f"pool_{name}.weight"][(slice(None), 0, *k)]
    pooled = np.concatenate([tokens[:prefix], pooled.reshape(-1, tokens.shape[-1])])
    return normed(pooled, w, f"norm_{name}"), out


def plain_attention(x, size, w, heads, kernels, strides, prefix, relative="", residual=False):
    """Attend from one pooled query at a time; returns the output and the size of its map."""
    width = w["proj.weight"].shape[0]
    dim, parts = width // heads, x @ w["qkv.weight"].T + w.get("qkv.bias", 0)
    result = None
    for h in range(heads):
        maps = {}
        for i, name in enumerate("qkv"):
            tokens = parts[:, i * width + h * dim : i * width + (h + 1) * dim]
            which = 0 if name == "q" else 1
            pooled = plain_pool(tokens, size, kernels[which], strides[which], w, name, prefix)
            maps[name] = pooled
        (q, q_size), (k, k_size), (v, _) = maps["q"], maps["k"], maps["v"]
        result = np.zeros((len(q), width)) if result is None else result
        q_places, k_places = list(np.ndindex(*q_size)), list(np.ndindex(*k_size))
        for i in range(len(q)):
            scores = k @ q[i] / math.sqrt(dim)
            for j in range(prefix, len(k) if relative and i >= prefix else 0):
                for axis, n in enumerate(relative):
                    a, b = q_places[i - prefix][axis], k_places[j - prefix][axis]
                    scores[j] += (
                        q[i] @ w[f"rel_pos_{n}"][distance(a, b, q_size[axis], k_size[axis])]
                    )
            p = np.exp(scores - scores.max())
            row = p / p.sum() @ v + (q[i] if residual else 0)
            result[i, h * dim : (h + 1) * dim] = row
    return result @ w["proj.weight"].T + w["proj.bias"], q_size


def distance(a, b, queries, keys):
    """The finer map counts places, the coarser one moves by several; the last key is at 0."""
    step_q, step_k = max(keys / queries, 1), max(queries / keys, 1)
    return int(a * step_q - b * step_k + (keys - 1) * step_k)


def test_parameter_counts():
    """Of torchvision's mvit_v1_b and mvit_v2_s, and of timm's mvitv2."""
    counts = {
        "mvit_b_16x4": 36_610_672, "mvitv2_s_16x4": 34_537_744, "mvitv2_t": 24_173_320,
        "mvitv2_s": 34_870_216, "mvitv2_b": 51_472_744, "mvitv2_l": 217_992_952,
    }  # fmt: skip
    with nn.init.skip_init():
        for name, count in counts.items():
            model = getattr(mt.models, name)()
            assert sum(p.array.size for p in model.parameters()) == count, name


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize(
    ("size", "kernels", "strides"),
    [
        ((2, 4, 3), ((3, 3, 3), (3, 3, 3)), ((1, 2, 2), (2, 1, 3))),
        ((2, 3, 4), ((1, 1, 1), (3, 1, 3)), ((1, 1, 1), (1, 2, 2))),
        ((5, 3), ((3, 2), (1, 1)), ((1, 2), (1, 1))),
        ((1, 1), ((3, 3), (3, 3)), ((2, 2), (1, 1))),
    ],
)
def test_pooling_attention(size, kernels, strides, class_token, rng, device):
    attention = PoolingAttention(
        6, 2, *kernels, *strides, qkv_bias=size != (5, 3), class_token=class_token, output_dim=10
    )
    attention = drawn(attention, device)
    x = rng.normal(size=(2, class_token + math.prod(size), 6))
    got, new = attention(mt.tensor(x, device=device), size)
    for n in range(2):
        expected, new_size = plain_attention(
            x[n], size, weights_of(attention), 2, kernels, strides, int(class_token)
        )
        np.testing.assert_allclose(got.numpy()[n], expected, atol=1e-12)
        assert tuple(new) == new_size


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(
    ("size", "kernels", "strides"),
    [
        ((4, 6), ((3, 3), (3, 3)), ((2, 2), (1, 1))),
        ((4, 6), ((3, 3), (3, 3)), ((1, 1), (4, 2))),
        ((3, 4, 5), ((3, 3, 3), (3, 3, 3)), ((1, 2, 1), (1, 1, 2))),
    ],
)
def test_relative_positions_and_residual_pooling(
    size, kernels, strides, residual, class_token, rng, device
):
    attention = RelativePoolingAttention(
        6, 2, size, kernel_q=kernels[0], kernel_kv=kernels[1], stride_q=strides[0],
        stride_kv=strides[1], class_token=class_token, residual_pooling=residual,
    )  # fmt: skip
    for axis in attention.axes:  # odd sizes, rounded up by the padding
        rows = 2 * max(size) + 1
        setattr(attention, f"rel_pos_{axis}", nn.Parameter(mt.zeros(rows, 3)))
    attention = drawn(attention, device)
    x = rng.normal(size=(1, class_token + math.prod(size), 6))
    got, _ = attention(mt.tensor(x, device=device), size)
    expected, _ = plain_attention(
        x[0], size, weights_of(attention), 2, kernels, strides, int(class_token),
        relative="thw"[-len(size) :], residual=residual,
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy()[0], expected, atol=1e-12)


def test_the_weights_can_be_collected(rng, device):
    """The weights of the collected attention give the context, positions included."""
    attention = drawn(RelativePoolingAttention(4, 2, (3, 2), class_token=True), device)
    attention.residual_pooling = False
    x = mt.tensor(rng.normal(size=(2, 7, 4)), device=device)
    with nn.collect_attention(attention) as found:
        with_hooks, _ = attention(x, (3, 2))
    assert found[0][1].shape == (2, 2, 7, 7)
    np.testing.assert_allclose(found[0][1].sum(-1).numpy(), 1.0, atol=1e-12)
    np.testing.assert_allclose(with_hooks.numpy(), attention(x, (3, 2))[0].numpy(), atol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (7, 2), (2, 7), (1, 3), (5, 3)])
def test_relative_distances(queries, keys, device):
    rows = relative_distances(queries, keys, mt.device(device)).numpy()
    expected = [[distance(a, b, queries, keys) for b in range(keys)] for a in range(queries)]
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("widen_in_attention", [True, False])
@pytest.mark.parametrize("stride", [(1, 2, 2), (1, 1, 1)])
def test_block(widen_in_attention, stride, rng, device):
    """The skip connection: max-pooled, and widened from the normalized tokens."""
    size, kernel = (2, 5, 4), (3, 3, 3)
    block = MultiscaleBlock(
        6, 8, 2, 1.5, widen_in_attention=widen_in_attention, kernel_q=kernel, stride_q=stride,
        kernel_kv=kernel, stride_kv=(2, 2, 2),
    )  # fmt: skip
    block, x = drawn(block, device), rng.normal(size=(1, 41, 6))
    got, new = block(mt.tensor(x, device=device), size)
    w = weights_of(block)
    inside = {k.removeprefix("attention."): v for k, v in w.items() if k.startswith("attention.")}
    n = normed(x[0], w, "norm1")
    attended, out = plain_attention(n, size, inside, 2, (kernel, kernel), (stride, (2, 2, 2)), 1)
    assert tuple(new) == out
    kept = n @ w["skip.weight"].T + w["skip.bias"] if widen_in_attention else x[0]
    maps = kept[1:].reshape(*size, -1)
    skip_kernel = tuple(s + 1 if s > 1 else 1 for s in stride)
    largest = [
        np.max([maps[there] for there, _ in window(place, stride, skip_kernel, size)], 0)
        for place in np.ndindex(*out)
    ]
    y = np.concatenate([kept[:1], largest]) + attended
    n = normed(y, w, "norm2")
    hidden = n @ w["linear1.weight"].T + w["linear1.bias"]
    hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    kept = y if widen_in_attention else n @ w["skip.weight"].T + w["skip.bias"]
    expected = kept + hidden @ w["linear2.weight"].T + w["linear2.bias"]
    np.testing.assert_allclose(got.numpy()[0], expected, atol=1e-12)


def test_shapes_of_the_stages():
    """Keys keep their number, channels and heads double, and widths change where they should."""
    model = MViT((8, 64, 64), depths=(1, 2, 2), embed_dim=8)
    rows = [
        (b.attention.qkv.in_features, b.linear2.out_features, b.attention.num_heads)
        for stage in model.stages for b in stage.blocks
    ]  # fmt: skip
    assert rows == [(8, 16, 1), (16, 16, 2), (16, 32, 2), (32, 32, 4), (32, 32, 4)]
    strides = [s.blocks[0].attention.pool_k.stride for s in model.stages]
    assert strides == [(1, 8, 8), (1, 4, 4), (1, 2, 2)]
    pooled = [
        not isinstance(b.attention.pool_q, nn.Identity) for s in model.stages for b in s.blocks
    ]
    assert pooled == [False, True, False, True, False]
    rates = MViTv2((32, 32), depths=(1, 2, 2), embed_dim=8, drop_path=0.4)
    blocks = [b for stage in rates.stages for b in stage.blocks]
    np.testing.assert_allclose([b.drop_path.drop_prob for b in blocks], [0, 0.1, 0.2, 0.3, 0.4])
    assert [b.attention.proj.out_features for b in blocks] == [8, 16, 16, 32, 32]


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("positions", ["separate", "joint", None])
def test_positions_and_class_token(class_token, positions, rng, device):
    model = MViT(**VIDEO, class_token=class_token, positions=positions)
    model = drawn(model, device)
    video = mt.tensor(rng.normal(size=(2, 2, 4, 7, 10)), device=device)
    tokens, size = model.embed(video)
    patches = model.patch_embedding(video).numpy()  # (batch, embed, 2, 7, 5)
    assert tuple(size) == (2, 7, 5) == patches.shape[2:]
    table = model.positions
    for t, y, x in np.ndindex(2, 7, 5):
        place = class_token + (t * 7 + y) * 5 + x
        expected = patches[:, :, t, y, x]
        if positions == "separate":
            expected = expected + table.time.numpy()[0, t] + table.space.numpy()[0, y * 5 + x]
        elif positions == "joint":
            expected = expected + table.table.numpy()[0, place]
        np.testing.assert_allclose(tokens.numpy()[:, place], expected, atol=1e-12)
    if class_token:
        first = model.class_token.numpy()[0, 0]
        first = (
            first
            + {
                "separate": lambda: table.prefix.numpy()[0, 0],
                "joint": lambda: table.table.numpy()[0, 0],
                None: lambda: 0,
            }[positions]()
        )
        np.testing.assert_allclose(tokens.numpy()[:, 0], [first] * 2, atol=1e-12)
    features = model.features(video).numpy()
    pooled = features[:, 0] if class_token else features.mean(1)
    expected = pooled @ model.head.weight.numpy().T + model.head.bias.numpy()
    np.testing.assert_allclose(model(video).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("class_token", [True, False])
def test_gradients(class_token, make, device):
    """Of attention with relative positions, and of a block that pools and widens."""
    attention = RelativePoolingAttention(
        3, 1, (3, 2), kernel_q=(3, 1), stride_q=(2, 1), kernel_kv=(1, 2), stride_kv=(1, 2),
        class_token=class_token,
    )  # fmt: skip
    attention.rel_pos_h = nn.Parameter(mt.zeros(7, 3))
    assert gradcheck_module(drawn(attention, device), make(1, 6 + class_token, 3), (3, 2))
    block = MultiscaleBlock(
        3, 4, 1, 1.0, kernel_q=(1, 1, 3), stride_q=(1, 1, 2), class_token=class_token
    )
    assert gradcheck_module(drawn(block, device), make(1, 4 + class_token, 3), (2, 1, 2))


def test_pool_tokens_keeps_the_prefix(rng, device):
    tokens = mt.tensor(rng.normal(size=(2, 1 + 12, 3)), device=device)
    pooled, size = pool_tokens(tokens, (3, 4), nn.MaxPool2d(2), 1)
    assert tuple(size) == (1, 2)
    array = tokens.numpy()
    np.testing.assert_array_equal(pooled.numpy()[:, 0], array[:, 0])
    maps = array[:, 1:].reshape(2, 3, 4, 3)
    np.testing.assert_array_equal(pooled.numpy()[:, 2], maps[:, :2, 2:].max((1, 2)))
    with pytest.raises(ShapeError, match="does not match the size of the map"):
        pool_tokens(tokens, (3, 4), nn.MaxPool2d(2))


def test_training_draws_nothing_by_default(rng):
    attention, x = (
        PoolingAttention(6, 2, *[(3, 3), (3, 3), (1, 1), (1, 1)]),
        mt.tensor(rng.normal(size=(2, 13, 6))),
    )
    found = [
        attention.double().train(mode)(x, (3, 4))[0].detach().numpy() for mode in (True, False)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", ["separate", "joint"])
def test_initial_positions_are_small(kind):
    tables = MViT((8, 8, 8), 0, 64, (1,), positions=kind, patch_kernel=(1, 1, 1),
                  patch_stride=(1, 1, 1), patch_padding=(0, 0, 0)).positions  # fmt: skip
    for table in tables.parameters():
        if table.numel() > 100:
            assert 0.015 < table.std().item() < 0.025


def test_errors():
    with pytest.raises(ArgumentError, match="not divisible by num_heads"):
        PoolingAttention(6, 4)
    with pytest.raises(ArgumentError, match="the type of pooling is invalid"):
        MViT(**VIDEO, pooling="median")
    with pytest.raises(ArgumentError, match="positions is invalid"):
        MViT(**VIDEO, positions="2d")
    with pytest.raises(ArgumentError, match="two or three numbers"):
        MViT((8,), patch_stride=(4,))
    with pytest.raises(ArgumentError, match="the length of num_heads does not match"):
        MViT(**{**VIDEO, "num_heads": (1, 2, 4)})
    with pytest.raises(ShapeError, match="the shape of the input does not match"):
        MViT(**VIDEO)(mt.zeros(2, 4, 7, 10))
    with pytest.raises(ShapeError, match="the shape of the input does not match"):
        MViT(**VIDEO)(mt.zeros(2, 3, 4, 7, 10))
    with pytest.raises(ShapeError, match="number of tokens does not match the number of positions"):
        MViT(**VIDEO)(mt.zeros(1, 2, 6, 7, 10))
    with pytest.raises(ShapeError, match="larger than its table"):
        MViTv2(**IMAGE)(mt.zeros(1, 2, 16, 12))
