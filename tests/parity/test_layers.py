"""Layers against PyTorch in random configurations: values, gradients, names, state dicts."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

DRAWS = range(6)


def build(name, config, device):
    """The same layer twice, in float64 and with the same random values."""
    peer = getattr(torch.nn, name)(**config).double()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for p in peer.parameters():
            p.uniform_(-0.6, 0.6, generator=generator)
    ours = getattr(nn, name)(**config).double().to(device)
    names = {k: tuple(v.shape) for k, v in peer.state_dict().items()}
    assert {k: v.shape for k, v in ours.state_dict().items()} == names
    assert list(ours.state_dict()) == list(names)
    ours.load_state_dict({k: v.numpy() for k, v in peer.state_dict().items()})
    peer.load_state_dict(
        {k: torch.from_numpy(v.numpy().copy()) for k, v in ours.state_dict().items()}
    )
    return ours, peer


def both(value, device):
    """A host array, or None, a bool, ... as an argument for ours and for PyTorch's layer."""
    if not isinstance(value, np.ndarray):
        return value, value
    needs_grad = value.dtype.kind == "f"
    return (
        mt.tensor(value, requires_grad=needs_grad, device=device),
        torch.tensor(value, requires_grad=needs_grad),
    )


def close(ours, theirs, what):
    if theirs is None:
        assert ours is None or not ours.numpy().any(), what
        return
    got = np.zeros(theirs.shape) if ours is None else ours.detach().numpy()
    expected = theirs.detach().numpy()
    scale = max(abs(expected).max(initial=0), 1e-3)
    np.testing.assert_allclose(got / scale, expected / scale, atol=1e-10, err_msg=what)


def compare(ours, peer, args, kwargs, device):
    """Forward, then the gradients of all inputs and parameters under a random cotangent."""
    pairs = [both(a, device) for a in args]
    named = {k: both(v, device) for k, v in kwargs.items()}
    got = ours(*[a for a, _ in pairs], **{k: a for k, (a, _) in named.items()})
    want = peer(*[b for _, b in pairs], **{k: b for k, (_, b) in named.items()})
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    rng = np.random.default_rng(1)
    total, reference = 0.0, 0.0
    for a, b in zip(got, want, strict=True):
        if b is None:
            assert a is None
            continue
        assert a.shape == tuple(b.shape)
        close(a, b, "output")
        cotangent = rng.normal(size=a.shape)
        total = total + (a * mt.tensor(cotangent, device=device)).sum()
        reference = reference + (b * torch.from_numpy(cotangent)).sum()
    total.backward()
    reference.backward()
    for i, (a, b) in enumerate([*pairs, *named.values()]):
        if isinstance(b, torch.Tensor) and b.requires_grad:
            close(a.grad, b.grad, f"gradient of argument {i}")
    theirs = dict(peer.named_parameters())
    assert [name for name, _ in ours.named_parameters()] == list(theirs)
    for name, p in ours.named_parameters():
        close(p.grad, theirs[name].grad, f"gradient of {name}")


@pytest.mark.parametrize("draw", DRAWS)
def test_simple_layers(draw, device):
    rng = np.random.default_rng(draw)
    flag = lambda: bool(rng.integers(2))  # noqa: E731
    size, out = (int(n) for n in rng.integers(1, 9, 2))
    x = rng.normal(size=(*rng.integers(1, 5, rng.integers(0, 3)), 3, size))
    shape = x.shape[-2:] if flag() else size
    cases = [
        ("Linear", {"in_features": size, "out_features": out, "bias": flag()}),
        ("LayerNorm", {"normalized_shape": shape, "elementwise_affine": flag(), "bias": flag()}),
        ("RMSNorm", {"normalized_shape": shape, "eps": 1e-4 if flag() else None}),
        ("GELU", {"approximate": "tanh" if flag() else "none"}),
        ("SiLU", {}),
        ("Softplus", {"beta": 1.5, "threshold": 2.0}),
        ("ELU", {"alpha": 0.7}),
        ("Softmax", {"dim": int(rng.integers(-2, 2))}),
        ("LogSoftmax", {"dim": -1}),
        ("GLU", {"dim": -1}) if size % 2 == 0 else ("Mish", {}),
    ]
    for name, config in cases:
        compare(*build(name, config, device), [x], {}, device)


@pytest.mark.parametrize("draw", DRAWS)
def test_embedding(draw, device):
    rng = np.random.default_rng(draw)
    config = {"num_embeddings": 7, "embedding_dim": 3, "scale_grad_by_freq": bool(draw % 2)}
    if draw % 3:
        config["padding_idx"] = int(rng.integers(-7, 7))
    ids = rng.integers(0, 7, tuple(rng.integers(1, 6, rng.integers(1, 4))))
    compare(*build("Embedding", config, device), [ids], {}, device)


def drawn_masks(rng, batch, heads, queries, keys, unbatched):
    """Masks of PyTorch's kinds that leave every query something to attend to."""
    kwargs = {}
    kind = rng.integers(4)
    shape = (queries, keys) if rng.integers(2) else (batch * heads, queries, keys)
    if kind == 1:
        blocked = rng.random(shape) < 0.4
        blocked[..., 0] = False
        kwargs["attn_mask"] = blocked
    elif kind == 2:
        kwargs["attn_mask"] = rng.normal(size=shape)
    if rng.integers(2):
        padding = rng.random((batch, keys)) < 0.3
        padding[:, 0] = False
        padding = padding[0] if unbatched else padding
        floats = kind == 2  # PyTorch wants masks of one kind
        kwargs["key_padding_mask"] = np.where(padding, -np.inf, 0.0) if floats else padding
    return kwargs


@pytest.mark.parametrize("draw", range(40))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_multihead_attention(draw, device):
    rng = np.random.default_rng(draw)
    flag = lambda: bool(rng.integers(2))  # noqa: E731
    heads, batch, queries, keys = (int(n) for n in rng.integers(1, 6, 4))
    embed = heads * int(rng.integers(1, 5))
    sizes = {"kdim": int(rng.integers(1, 9)), "vdim": int(rng.integers(1, 9))} if flag() else {}
    config = {
        "embed_dim": embed, "num_heads": heads, "bias": flag(), "add_bias_kv": flag(),
        "add_zero_attn": flag(), "batch_first": flag(), **sizes,
    }  # fmt: skip
    unbatched = rng.integers(5) == 0
    batch = 1 if unbatched else batch

    def draw_input(tokens, size):
        lead = (batch, tokens) if config["batch_first"] else (tokens, batch)
        return rng.normal(size=(tokens, size) if unbatched else (*lead, size))

    args = [draw_input(queries, embed)]
    args += [
        draw_input(keys, config.get("kdim", embed)),
        draw_input(keys, config.get("vdim", embed)),
    ]
    kwargs = drawn_masks(rng, batch, heads, queries, keys, unbatched)
    kwargs |= {"need_weights": flag(), "average_attn_weights": flag()}
    compare(*build("MultiheadAttention", config, device), args, kwargs, device)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_attend_to_nothing(device, need_weights):
    ours, peer = build("MultiheadAttention", {"embed_dim": 6, "num_heads": 2}, device)
    x = np.random.default_rng(0).normal(size=(5, 2, 6))
    blocked = np.zeros((5, 5), bool)
    blocked[3] = True
    got = ours(*[mt.tensor(x, device=device)] * 3, attn_mask=mt.tensor(blocked, device=device),
               need_weights=need_weights)[0]  # fmt: skip
    want = peer(*[torch.tensor(x)] * 3, attn_mask=torch.tensor(blocked), need_weights=need_weights)[
        0
    ]
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), atol=1e-10)
    assert np.isnan(got.detach().numpy()[3]).all() == need_weights


def drawn_config(rng):
    heads = int(rng.integers(1, 4))
    return {
        "d_model": heads * int(rng.integers(1, 4)),
        "nhead": heads,
        "dim_feedforward": int(rng.integers(1, 9)),
        "dropout": 0.0,
        "activation": ["relu", "gelu"][rng.integers(2)],
        "batch_first": bool(rng.integers(2)),
        "norm_first": bool(rng.integers(2)),
        "bias": bool(rng.integers(2)),
        "layer_norm_eps": 1e-3,
    }


def drawn_sequence(rng, config, batch, tokens):
    lead = (batch, tokens) if config["batch_first"] else (tokens, batch)
    return rng.normal(size=(*lead, config["d_model"]))


def causal(n):
    return np.triu(np.ones((n, n), bool), 1)


def padding(rng, batch, tokens):
    blocked = rng.random((batch, tokens)) < 0.4
    blocked[:, 0] = False
    return blocked


@pytest.mark.parametrize("draw", range(12))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_transformer_layers(draw, device):
    rng = np.random.default_rng(draw)
    config = drawn_config(rng)
    batch, source, target = (int(n) for n in rng.integers(1, 6, 3))
    src = drawn_sequence(rng, config, batch, source)
    tgt = drawn_sequence(rng, config, batch, target)
    masks = {"src_mask": causal(source)} if rng.integers(2) else {}
    masks["src_key_padding_mask"] = padding(rng, batch, source)
    compare(*build("TransformerEncoderLayer", config, device), [src], masks, device)
    masks = {"tgt_mask": causal(target), "memory_key_padding_mask": padding(rng, batch, source)}
    compare(*build("TransformerDecoderLayer", config, device), [tgt, src], masks, device)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_transformer(draw, device):
    rng = np.random.default_rng(draw)
    config = drawn_config(rng) | {"num_encoder_layers": 2, "num_decoder_layers": 1}
    batch, source, target = 2, int(rng.integers(1, 6)), int(rng.integers(1, 6))
    args = [drawn_sequence(rng, config, batch, n) for n in (source, target)]
    blocked = padding(rng, batch, source)
    masks = {"src_key_padding_mask": blocked, "memory_key_padding_mask": blocked}
    masks["tgt_mask"] = causal(target)
    compare(*build("Transformer", config, device), args, masks, device)


@pytest.mark.parametrize("draw", DRAWS)
def test_cross_entropy_loss(draw, device):
    rng = np.random.default_rng(draw)
    reduction = ["mean", "sum", "none"][draw % 3]
    smoothing = float(rng.uniform(0, 0.5)) if rng.integers(2) else 0.0
    options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 3}
    weight = rng.uniform(0.5, 2, 7) if rng.integers(2) else None
    spatial = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    logits, target = rng.normal(size=(5, 7, *spatial)), rng.integers(0, 7, (5, *spatial))
    ours = nn.CrossEntropyLoss(None if weight is None else mt.tensor(weight), **options).to(device)
    peer = torch.nn.CrossEntropyLoss(None if weight is None else torch.tensor(weight), **options)
    compare(ours, peer, [logits, target], {}, device)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MSELoss", {}),
        ("L1Loss", {"reduction": "sum"}),
        ("SmoothL1Loss", {"beta": 0.3}),
        ("HuberLoss", {"delta": 0.4, "reduction": "none"}),
        ("BCEWithLogitsLoss", {"reduction": "sum"}),
        ("KLDivLoss", {"reduction": "batchmean"}),
        ("CosineSimilarity", {"dim": -1}),
    ],
)
def test_regression_losses(name, options, device):
    rng = np.random.default_rng(0)
    args = [rng.normal(size=(5, 3)), rng.uniform(0.1, 0.9, size=(5, 3))]
    compare(getattr(nn, name)(**options), getattr(torch.nn, name)(**options), args, {}, device)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, float("inf")])
def test_clipping(norm_type, device):
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=shape) for shape in ((3, 5), (7,), ())]
    ours, theirs = [], []
    for array in arrays:
        ours.append(mt.tensor(array, requires_grad=True, device=device))
        theirs.append(torch.tensor(array, requires_grad=True))
        ours[-1].grad, theirs[-1].grad = mt.tensor(array, device=device), torch.tensor(array)
    norm = nn.utils.clip_grad_norm_(ours, 0.7, norm_type)
    close(norm, torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type), "norm")
    for a, b in zip(ours, theirs, strict=True):
        close(a.grad, b.grad, "clipped gradient")
