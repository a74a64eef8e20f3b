"""Every layer at sizes 1 to 8: float32 agrees with float64, and strided input with contiguous.

A wrong loop of the array library shows only for some strides, which small sizes reach, and the
strides of the two precisions differ. `test_small_sizes.py` compares the recurrent layers with a
definition as well.
"""

import inspect

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd.nested import tensors_in

B, T = 2, 3  # batch, tokens


def image(n, *more):
    return (B, n, *more)


LAYERS = {  # name -> (layer of size n, shapes of its inputs)
    "Linear": lambda n: (nn.Linear(n, 5), [(B, T, n)]),
    "Linear out": lambda n: (nn.Linear(5, n), [(B, T, 5)]),
    "LazyLinear": lambda n: (_called(nn.LazyLinear(5), (B, n)), [(B, T, n)]),
    "Bilinear": lambda n: (nn.Bilinear(n, 3, n), [(B, n), (B, 3)]),
    "Identity": lambda n: (nn.Identity(), [(B, n)]),
    "Flatten": lambda n: (nn.Flatten(), [(B, n, 3)]),
    "Unflatten": lambda n: (nn.Unflatten(1, (n, 3)), [(B, 3 * n)]),
    "LayerNorm": lambda n: (nn.LayerNorm(n), [(B, T, n)]),
    "RMSNorm": lambda n: (nn.RMSNorm(n), [(B, T, n)]),
    "GroupNorm": lambda n: (nn.GroupNorm(2, 2 * n), [(B, 2 * n, 3)]),
    "BatchNorm1d": lambda n: (nn.BatchNorm1d(n), [(5, n)]),
    "BatchNorm1d (batch)": lambda n: (nn.BatchNorm1d(3), [(n + 1, 3)]),
    "BatchNorm2d": lambda n: (nn.BatchNorm2d(3), [(B, 3, n, 2)]),
    "FrozenBatchNorm2d": lambda n: (nn.FrozenBatchNorm2d(n), [image(n, 3, 2)]),
    "BatchNorm3d": lambda n: (nn.BatchNorm3d(3), [(B, 3, n, 2, 2)]),
    "InstanceNorm1d": lambda n: (nn.InstanceNorm1d(3, affine=True), [(B, 3, n + 1)]),
    "InstanceNorm2d": lambda n: (nn.InstanceNorm2d(3), [(B, 3, n, 2)]),
    "InstanceNorm3d": lambda n: (nn.InstanceNorm3d(3), [(B, 3, n, 2, 2)]),
    "Conv1d": lambda n: (nn.Conv1d(n, 3, 2, padding=1), [image(n, 5)]),
    "Conv1d (length)": lambda n: (nn.Conv1d(2, 3, n, stride=2), [image(2, 8)]),
    "Conv2d": lambda n: (nn.Conv2d(n, n, (2, 1), padding=1, groups=n), [image(n, 3, 2)]),
    "Conv3d": lambda n: (nn.Conv3d(2, n, 1), [image(2, 2, n, 3)]),
    "ConvTranspose1d": lambda n: (nn.ConvTranspose1d(n, 3, 2, stride=2), [image(n, 5)]),
    "ConvTranspose2d": lambda n: (nn.ConvTranspose2d(2, n, 2), [image(2, n, 2)]),
    "ConvTranspose3d": lambda n: (nn.ConvTranspose3d(n, 2, 1), [image(n, 2, 2, 2)]),
    "RNN": lambda n: (nn.RNN(3, n, batch_first=True), [(B, T, 3)]),
    "LSTM": lambda n: (nn.LSTM(n, n, bidirectional=True), [(T, B, n)]),
    "GRU": lambda n: (nn.GRU(n, n, num_layers=2), [(T, B, n)]),
    "RNNCell": lambda n: (nn.RNNCell(3, n), [(B, 3), (B, n)]),
    "LSTMCell": lambda n: (nn.LSTMCell(3, n), [(B, 3)]),
    "GRUCell": lambda n: (nn.GRUCell(3, n), [(B, 3), (B, n)]),
    "Attention": lambda n: (nn.Attention(2 * n, 2, num_kv_heads=1), [(B, T, 2 * n)]),
    "Attention (tokens)": lambda n: (nn.Attention(4, 2), [(B, n, 4)]),
    "MultiheadAttention": lambda n: (nn.MultiheadAttention(2 * n, n), [(T, B, 2 * n)] * 3),
    "AdditiveAttention": lambda n: (
        nn.AdditiveAttention(n, n, 3), [(B, 2, n), (B, T, n), (B, T, n)]),
    "LuongAttention": lambda n: (nn.LuongAttention(n, n), [(B, 2, n), (B, T, n)]),
    "LuongAttention (concat)": lambda n: (
        nn.LuongAttention(n, 2, score="concat", local="predictive"), [(B, 2, n), (B, T, 2)]),
    "LuongAttention (location)": lambda n: (
        nn.LuongAttention(2, n, score="location", max_length=n), [(B, 2, 2), (B, T, n)]),
    "InputFeedingDecoder": lambda n: (nn.InputFeedingDecoder(n, n, n), [(B, 2, n), (B, T, n)]),
    "FeedForward": lambda n: (nn.FeedForward(n, 3), [(B, T, n)]),
    "FeedForward (hidden)": lambda n: (nn.FeedForward(3, n), [(B, T, 3)]),
    "GatedFeedForward": lambda n: (nn.GatedFeedForward(n, n), [(B, T, n)]),
    "TransformerEncoderLayer": lambda n: (
        nn.TransformerEncoderLayer(2 * n, 2, 3, dropout=0.0), [(T, B, 2 * n)]),
    "TransformerDecoderLayer": lambda n: (
        nn.TransformerDecoderLayer(n, 1, n, dropout=0.0), [(T, B, n), (n, B, n)]),
    "TransformerEncoder": lambda n: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(n, 1, n, dropout=0.0), 2), [(T, B, n)]),
    "TransformerDecoder": lambda n: (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(n, 1, 3, dropout=0.0), 2),
        [(T, B, n), (2, B, n)]),
    "Transformer": lambda n: (
        nn.Transformer(n, 1, 1, 1, 3, dropout=0.0), [(T, B, n), (2, B, n)]),
    "RotaryEmbedding": lambda n: (nn.RotaryEmbedding(2 * n, 8), [(B, 2, T, 2 * n)]),
    "SinusoidalPositionalEncoding": lambda n: (
        nn.SinusoidalPositionalEncoding(2 * n, 8), [(B, n, 2 * n)]),
    "AttentionSeq2Seq": lambda n: (nn.AttentionSeq2Seq(3, n, n), [(B, n, 3), (B, 2, n)]),
    "LearnedPositionalEmbedding2d": lambda n: (
        nn.LearnedPositionalEmbedding2d(n, 2, 2 * n), [(B, 2 * n, 2 * n)]),
    "LearnedPositionalEmbedding": lambda n: (nn.LearnedPositionalEmbedding(8, n), [(B, n, n)]),
    "PReLU": lambda n: (nn.PReLU(n), [image(n, 3)]),
    "GLU": lambda n: (nn.GLU(), [(B, 2 * n)]),
    "Softmax": lambda n: (nn.Softmax(1), [(B, n, 3)]),
    "Softmin": lambda n: (nn.Softmin(-1), [(B, n)]),
    "LogSoftmax": lambda n: (nn.LogSoftmax(0), [(n, 2)]),
    "CosineSimilarity": lambda n: (nn.CosineSimilarity(), [(B, n), (B, n)]),
    "Upsample": lambda n: (nn.Upsample(scale_factor=2, mode="bilinear"), [image(2, n, 3)]),
    "UpsamplingNearest2d": lambda n: (nn.UpsamplingNearest2d(scale_factor=2), [image(2, n, 3)]),
    "UpsamplingBilinear2d": lambda n: (nn.UpsamplingBilinear2d(scale_factor=2), [image(2, n, 2)]),
    "PixelShuffle": lambda n: (nn.PixelShuffle(2), [image(4, n, 2)]),
    "PixelUnshuffle": lambda n: (nn.PixelUnshuffle(2), [image(n, 4, 2)]),
    "Unfold": lambda n: (nn.Unfold(2, padding=1), [image(n, 3, n)]),
    "Fold": lambda n: (nn.Fold((3, n + 1), 2), [image(4, 2 * n)]),
    "Sequential": lambda n: (nn.Sequential(nn.Linear(n, n), nn.Tanh()), [(B, n)]),
}  # fmt: skip
for name in ("ELU", "CELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish"):
    LAYERS[name] = lambda n, name=name: (getattr(nn, name)(), [(B, n)])
for name in ("LogSigmoid", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Tanh"):
    LAYERS[name] = lambda n, name=name: (getattr(nn, name)(), [(n, 3)])
for name in ("L1Loss", "MSELoss", "HuberLoss", "SmoothL1Loss"):
    LAYERS[name] = lambda n, name=name: (getattr(nn, name)(), [(B, n), (B, n)])
for axes in (1, 2, 3):
    for name in ("Zero", "Constant", "Circular", "Reflection", "Replication"):
        more = (0.5,) if name == "Constant" else ()
        LAYERS[f"{name}Pad{axes}d"] = lambda n, name=name, axes=axes, more=more: (
            getattr(nn, f"{name}Pad{axes}d")(1, *more), [image(2, *([n + 1] * axes))])  # fmt: skip
    for name in ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool"):
        if hasattr(nn, f"{name}{axes}d"):
            LAYERS[f"{name}{axes}d"] = lambda n, name=name, axes=axes: (
                getattr(nn, f"{name}{axes}d")(2), [image(2, *([n + 1] * axes))])  # fmt: skip
ELSEWHERE = {
    "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
    "RNNCellBase",  # without a forward pass of their own
    "DataParallel",  # test_data_parallel.py
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "DropPath",  # random
    "Embedding", "EmbeddingBag", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss",
    "CTCLoss", "KLDivLoss",  # DISCRETE, below
}  # fmt: skip


def _called(layer, shape):
    layer(mt.ones(*shape))
    return layer


def _ids(n):
    return (mt.tensor(np.arange(B * n).reshape(B, n) % n),)


def _labels(n):
    return (mt.tensor(np.arange(5) % n),)


DISCRETE = {  # name -> (layer of size n, shapes of its first inputs, its other inputs)
    "Embedding": lambda n: (nn.Embedding(n, n), [], _ids(n)),
    "EmbeddingBag": lambda n: (nn.EmbeddingBag(n, n), [], _ids(n)),
    "CrossEntropyLoss": lambda n: (nn.CrossEntropyLoss(), [(5, n)], _labels(n)),
    "CTCLoss": lambda n: (
        _After(nn.LogSoftmax(1), nn.CTCLoss()), [(5, n)],
        (mt.tensor([n - 1, n // 2]), mt.tensor(5), mt.tensor(2))),
    "NLLLoss": lambda n: (_After(nn.LogSoftmax(1), nn.NLLLoss()), [(5, n)], _labels(n)),
    "BCELoss": lambda n: (_After(nn.Sigmoid(), nn.BCELoss()), [(1, n)], (mt.ones(1, n),)),
    "BCEWithLogitsLoss": lambda n: (nn.BCEWithLogitsLoss(), [(2, n)], (mt.zeros(2, n),)),
    "KLDivLoss": lambda n: (
        _After(nn.LogSoftmax(1), nn.KLDivLoss(reduction="sum")), [(2, n)], (mt.ones(2, n) / n,)),
}  # fmt: skip


class _After(nn.Module):
    """A loss whose input passes through another layer first."""

    def __init__(self, first, loss):
        super().__init__()
        self.first, self.loss = first, loss

    def forward(self, x, *target):
        return self.loss(self.first(x), *target)


def test_every_layer_is_here():
    found = {
        name for name, value in vars(nn).items()
        if inspect.isclass(value) and issubclass(value, nn.Module)
    }  # fmt: skip
    assert found == {name.split(" ")[0] for name in LAYERS} | ELSEWHERE


def _floating(value):
    return [t for t in tensors_in(value) if t.is_floating_point()]


def run(layer, arrays, others, dtype, device, strided):
    """Outputs and gradients as NumPy arrays in float64."""
    layer = layer.to(dtype=dtype, device=device)
    mt.manual_seed(0)
    leaves = []
    for array in arrays:
        array = array.astype(dtype)
        if strided:  # the same values, with a gap after each
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        leaves.append(mt.from_numpy(array).to(device).detach().requires_grad_())
    others = [t.to(device, dtype) if t.is_floating_point() else t.to(device) for t in others]
    outputs = _floating(layer(*leaves, *others))
    rng = np.random.default_rng(5)
    cotangents = [mt.tensor(rng.normal(size=o.shape), dtype=dtype, device=device) for o in outputs]
    loss = sum((o * c).sum() for o, c in zip(outputs, cotangents, strict=True))
    wanted = [*leaves, *layer.parameters()]
    grads = mt.autograd.grad(loss, wanted, allow_unused=True)
    kept = [*outputs, *(g for g in grads if g is not None)]
    return [t.detach().numpy().astype("float64") for t in kept]


@pytest.mark.parametrize("name", [*LAYERS, *DISCRETE])
def test_precisions_and_strides_agree(name, device):
    for n in range(1, 9):
        mt.manual_seed(n)
        layer, shapes, *others = (LAYERS.get(name) or DISCRETE[name])(n)
        others = others[0] if others else ()
        rng = np.random.default_rng(n)
        arrays = [rng.normal(size=shape).astype("float32") for shape in shapes]
        layer.to("float32")  # values that both precisions represent exactly
        expected = run(layer, arrays, others, "float64", device, strided=False)
        for dtype, strided, tolerance in (
            ("float64", True, 1e-12), ("float32", False, 3e-4), ("float32", True, 3e-4),
        ):  # fmt: skip
            found = run(layer, arrays, others, dtype, device, strided)
            assert len(found) == len(expected)
            for got, want in zip(found, expected, strict=True):
                scale = max(1.0, np.abs(want).max(initial=0))
                error = f"{name}, n={n}, {dtype}, strided={strided}"
                np.testing.assert_allclose(got, want, atol=tolerance * scale, err_msg=error)
