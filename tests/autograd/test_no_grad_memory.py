"""Memory under no_grad: an intermediate result is freed once the next operation has used it."""

import weakref

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import models
from minitorch_attn.autograd.listener import Listener
from minitorch_attn.memory.block import RESULT, SAVED


class Outputs(Listener):
    """After each operation: which earlier results are still there."""

    def __init__(self):
        self.arrays, self.alive = [], []

    def record_forward(self, ctx, inputs, outputs):
        self.alive.append([i for i, ref in enumerate(self.arrays) if ref() is not None])
        self.arrays.append(weakref.ref(outputs.array))


def test_only_the_input_of_the_running_operation_is_there(make):
    x = make(3, 3)
    with mt.no_grad(), Outputs() as outputs:
        (x.exp().tanh() @ x).softmax(-1).sum()
    assert outputs.alive == [[], [0], [1], [2], [3]]
    with Outputs() as outputs:
        y = (x.exp().tanh() @ x).softmax(-1).sum()
    assert outputs.alive[-1] == [0, 1, 3] and y.requires_grad  # MatMul's output nobody saves


def ids(device):
    return mt.tensor(np.arange(10).reshape(2, 5), device=device)


def image(size, device):
    return mt.tensor(np.ones((2, 3, size, size), "float32"), device=device)


WIDTHS = {"embed_dim": 12, "num_heads": 3}
MODELS = {
    "gpt": (
        lambda n: models.GPT(11, 8, num_layers=n, **WIDTHS),
        lambda device: (ids(device),),
    ),
    "vit": (
        lambda n: models.VisionTransformer(
            image_size=8, patch_size=4, num_classes=5, num_layers=n, **WIDTHS
        ),
        lambda device: (image(8, device),),
    ),
    "swin": (
        lambda n: models.Swin(
            16, 2, num_classes=5, embed_dim=6, depths=(n, n), num_heads=(1, 2), window_size=4
        ),
        lambda device: (image(16, device),),
    ),
    "llama": (
        lambda n: models.Llama(11, 12, 3, n, ff_dim=20),
        lambda device: (ids(device),),
    ),
    "bert": (
        lambda n: models.BERT(11, 12, 3, n),
        lambda device: (ids(device),),
    ),
    "t5": (
        lambda n: models.T5(11, 12, 3, n, head_dim=4),
        lambda device: (ids(device), ids(device)),
    ),
    "transformer": (
        lambda n: models.Transformer(
            11, 11, embed_dim=12, num_heads=3, num_encoder_layers=n, num_decoder_layers=n,
            ff_dim=24,
        ),
        lambda device: (ids(device), ids(device)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_deeper_model_holds_no_more(name, device):
    build, inputs = MODELS[name]

    def most(depth, recording=False):
        model = build(depth).to(device).eval()
        with mt.set_grad_enabled(recording), mt.memory.track() as memory:
            model(*inputs(device))
        kinds = memory.by_kind()
        return max(a + b for a, b in zip(kinds[RESULT], kinds[SAVED], strict=True))

    assert most(2) == most(6) > 0
    assert most(2, recording=True) < most(6, recording=True) / 2


def test_decoding_into_a_static_cache_holds_the_same_after_every_token(device):
    model = models.GPT(11, 64, num_layers=2, **WIDTHS).to(device).eval()
    cache, held = mt.nn.StaticKVCache(40), []
    with mt.no_grad(), mt.memory.track() as memory:
        for step in range(30):
            model(ids(device)[:, step % 5 : step % 5 + 1], cache=cache)
            held.append(memory.held)
    assert held[1:] == [held[1]] * 29
