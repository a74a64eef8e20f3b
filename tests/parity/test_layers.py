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


@pytest.mark.parametrize("draw", range(18))
def test_embedding_bag(draw, device):
    rng = np.random.default_rng(draw)
    mode = ["sum", "mean", "max"][draw % 3]
    config = {"num_embeddings": 7, "embedding_dim": 3, "mode": mode}
    # Not compared: scale_grad_by_freq, where PyTorch 2.13 divides by the counts of other ids.
    if rng.integers(2):
        config["padding_idx"] = int(rng.integers(-7, 7))
    ids, kwargs = rng.integers(0, 7, (5, 4)), {}
    if rng.integers(3):
        ids = ids.reshape(-1)
        config["include_last_offset"] = bool(rng.integers(2))
        last = [20] if config["include_last_offset"] else []
        kwargs["offsets"] = np.array([0, *sorted(rng.integers(0, 21, 4)), *last])
    if mode == "sum" and rng.integers(2):
        kwargs["per_sample_weights"] = rng.normal(size=ids.shape)
    ours, peer = build("EmbeddingBag", config, device)
    compare(ours, peer, [ids], kwargs, device)
    assert repr(ours) == repr(peer)


@pytest.mark.parametrize("draw", DRAWS)
def test_bilinear(draw, device):
    rng = np.random.default_rng(draw)
    first, second, out, batch = (int(n) for n in rng.integers(1, 8, 4))
    names = ("in1_features", "in2_features", "out_features", "bias")
    config = dict(zip(names, (first, second, out, bool(draw % 2)), strict=True))
    args = [rng.normal(size=(batch, 2, n)) for n in (first, second)]
    ours, peer = build("Bilinear", config, device)
    compare(ours, peer, args, {}, device)
    assert repr(ours) == repr(peer)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("dim", [0, 1, 2, -1, None])
def test_weight_norm(dim, device):
    ours, peer = build("Conv1d", {"in_channels": 3, "out_channels": 5, "kernel_size": 2}, device)
    ours, peer = nn.utils.weight_norm(ours, dim=dim), torch.nn.utils.weight_norm(peer, dim=dim)
    shapes = {name: tuple(p.shape) for name, p in peer.state_dict().items()}
    assert {name: p.shape for name, p in ours.state_dict().items()} == shapes
    assert list(ours.state_dict()) == list(shapes)
    for _ in range(2):
        x = np.random.default_rng(0).normal(size=(2, 3, 7))
        ours.zero_grad(), peer.zero_grad()
        compare(ours, peer, [x], {}, device)
        with mt.no_grad(), torch.no_grad():
            ours.weight_g.mul_(1.5), peer.weight_g.mul_(1.5)
    nn.utils.remove_weight_norm(ours), torch.nn.utils.remove_weight_norm(peer)
    assert list(ours.state_dict()) == list(peer.state_dict())
    close(ours.weight, peer.weight, "weight")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lazy_linear():
    ours, peer = nn.LazyLinear(5, bias=False), torch.nn.LazyLinear(5, bias=False)
    ours(mt.ones(2, 3)), peer(torch.ones(2, 3))
    assert repr(ours) == repr(peer)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 5)])
def test_orthogonal_weights_are_the_same_up_to_the_draw(shape, monkeypatch):
    columns = int(np.prod(shape[1:]))
    size = max(shape[0], columns), min(shape[0], columns)
    draw = np.random.default_rng(0).normal(size=size)

    class Drawn:
        normal = staticmethod(lambda mean, std, size: draw)

    ours = nn.init.orthogonal_(mt.empty(shape, dtype="float64"), 2.0, Drawn)
    rows = draw if shape[0] >= columns else draw.T
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "normal_", lambda self, *a, **k: self.copy_(torch.tensor(rows)))
        theirs = torch.nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64), 2.0)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-12)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layers_with_channels(axes, draw, device):
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(2, 3, *rng.integers(4, 6, axes)))
    x[rng.random(x.shape) < 0.1] = 0.0
    compare(*build("PReLU", {"num_parameters": 1 + draw % 2 * 2}, device), [x], {}, device)
    padding = (
        int(rng.integers(3)) if draw % 2 else tuple(int(n) for n in rng.integers(3, size=2 * axes))
    )
    for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular"):
        config = {"padding": padding} | ({"value": 3.5} if kind == "Constant" else {})
        ours, peer = build(f"{kind}Pad{axes}d", config, device)
        compare(ours, peer, [x], {}, device)
        assert repr(ours) == repr(peer)


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


@pytest.mark.parametrize("draw", range(16))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_multi_head_attention_forward(draw, device):
    """The function with the parameters of a layer of PyTorch's, in every combination of options."""
    rng = np.random.default_rng(draw)
    flags = [bool(n) for n in rng.integers(2, size=6)]
    sizes = {"kdim": 5, "vdim": 7} if flags[0] else {}
    options = {"bias": flags[1], "add_bias_kv": flags[2], "add_zero_attn": flags[3]}
    layer = torch.nn.MultiheadAttention(6, 2, dtype=torch.float64, **options, **sizes)
    tokens = [rng.normal(size=s) for s in
              ((3, 2, 6), (4, 2, sizes.get("kdim", 6)), (4, 2, sizes.get("vdim", 6)))]  # fmt: skip
    blocked = rng.random((3, 4)) < 0.3
    blocked[:, 0] = False
    static = [None if flags[2] or rng.random() < 0.4 else rng.normal(size=(4, 4, 3)) for _ in "kv"]

    def outcome(lib):
        def moved(array):
            if array is None or lib is torch:
                return array if array is None else torch.tensor(array)
            return mt.tensor(array, device=device)

        def own(parameter):
            return None if parameter is None else moved(parameter.detach().numpy()).requires_grad_()

        packed = own(layer.in_proj_weight)
        separate = {f"{x}_proj_weight": own(getattr(layer, f"{x}_proj_weight")) for x in "qkv"}
        inputs = [moved(x).requires_grad_() for x in tokens]
        given = [None if x is None else moved(x).requires_grad_() for x in static]
        output, weights = lib.nn.functional.multi_head_attention_forward(
            *inputs, 6, 2, packed, own(layer.in_proj_bias), own(layer.bias_k), own(layer.bias_v),
            flags[3], 0.3, own(layer.out_proj.weight), own(layer.out_proj.bias), training=False,
            need_weights=flags[4], attn_mask=moved(blocked) if flags[5] else None,
            use_separate_proj_weight=packed is None, **separate,
            static_k=given[0], static_v=given[1],
        )  # fmt: skip
        (output * output).sum().backward()
        leaves = [x for x in (*inputs, packed, *separate.values(), *given) if x is not None]
        return [
            output.detach(),
            *([weights.detach()] if flags[4] else []),
            *(x.grad for x in leaves if x.grad is not None),
        ]

    for got, want in zip(outcome(mt), outcome(torch), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-12)


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
