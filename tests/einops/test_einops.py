"""einops: its functions and layers compute with our tensors as with NumPy's and PyTorch's."""

import copy
import subprocess
import sys

import einops
import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.einops import layers
from minitorch_attn.gradcheck import gradcheck

REARRANGE = [
    ("a b c -> c a b", {}),
    ("a b c -> (a c) b", {}),
    ("a (b d) c -> d a b c", {"d": 3}),
    ("a b ... -> ... b a", {}),
    ("a b c -> a 1 b c", {}),
    ("(a a1) b c -> a1 (b a) c", {"a1": 2}),
]
REDUCE = ["sum", "mean", "max", "min", "prod"]
REPEAT = [("a b c -> a r b c", {"r": 2}), ("a b c -> (a r) b (c s)", {"r": 2, "s": 3})]


@pytest.mark.parametrize(("pattern", "sizes"), REARRANGE)
def test_rearrange(pattern, sizes, make):
    x = make(4, 3, 5)
    want = einops.rearrange(x.detach().numpy(), pattern, **sizes)
    np.testing.assert_array_equal(einops.rearrange(x, pattern, **sizes).detach().numpy(), want)
    assert gradcheck(lambda x: einops.rearrange(x, pattern, **sizes), [x])


@pytest.mark.parametrize("how", REDUCE)
@pytest.mark.parametrize("pattern", ["a b c -> b", "a b c -> ()", "a (b 3) c -> a b", "a ... -> a"])
def test_reduce(pattern, how, make):
    x = make(4, 3, 5, low=0.5)
    want = einops.reduce(x.detach().numpy(), pattern, how)
    np.testing.assert_allclose(einops.reduce(x, pattern, how).detach().numpy(), want, rtol=1e-12)
    assert gradcheck(lambda x: einops.reduce(x, pattern, how), [x])


@pytest.mark.parametrize("how", ["any", "all"])
def test_reduce_truth(how, device):
    x = np.array([[[True, False], [True, True]], [[False, False], [True, True]]])
    want = einops.reduce(x, "a b c -> b", how)
    got = einops.reduce(mt.tensor(x, device=device), "a b c -> b", how)
    np.testing.assert_array_equal(got.numpy(), want)


def test_a_mean_of_integers_is_refused(device):
    with pytest.raises(NotImplementedError, match="reduce_mean"):
        einops.reduce(mt.ones(2, 3, dtype=mt.int64, device=device), "a b -> a", "mean")


@pytest.mark.parametrize(("pattern", "sizes"), REPEAT)
def test_repeat(pattern, sizes, make):
    x = make(2, 3, 5)
    want = einops.repeat(x.detach().numpy(), pattern, **sizes)
    np.testing.assert_array_equal(einops.repeat(x, pattern, **sizes).detach().numpy(), want)
    assert gradcheck(lambda x: einops.repeat(x, pattern, **sizes), [x])


def test_einsum_lists_pack_and_unpack(make):
    x, y = make(2, 3, 5), make(7, 5)
    want = np.einsum("abd,cd->abc", x.detach().numpy(), y.detach().numpy())
    got = einops.einsum(x, y, "a b d, c d -> a b c")
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)
    assert gradcheck(lambda x, y: einops.einsum(x, y, "a b d, c d -> a b c"), [x, y])
    assert einops.rearrange([x, x], "n a b c -> a (n b) c").shape == (2, 6, 5)
    packed, shapes = einops.pack([x, y], "* d")
    assert packed.shape == (13, 5) and shapes == [(2, 3), (7,)]
    first, second = einops.unpack(packed, shapes, "* d")
    assert bool((first == x).all()) and bool((second == y).all())
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 5}
    assert einops.asnumpy(x).shape == (2, 3, 5)


def _printed(code):
    """What a Python process of its own prints."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.parametrize("order", ["minitorch_attn, einops", "einops, minitorch_attn"])
def test_either_import_may_come_first(order):
    call = "print(einops.rearrange(minitorch_attn.ones(2, 3), 'a b -> b a').shape)"
    assert _printed(f"import {order}; {call}") == "(3, 2)"


def test_einops_is_not_imported_unless_it_is_used():
    assert _printed("import minitorch_attn, sys; print('einops' in sys.modules)") == "False"


def test_layers(make):
    x = make(2, 3, 4, 6, dtype="float32")
    model = mt.nn.Sequential(
        layers.Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
        mt.nn.Linear(12, 5),
        layers.Reduce("b n d -> b d", "mean"),
    ).to(x.device)
    assert model(x).shape == (2, 5) and "Rearrange('b c" in repr(model)
    copied = copy.deepcopy(model)
    assert bool((copied(x) == model(x)).all())
    model(x).sum().backward()
    assert x.grad.shape == x.shape


MIXES = [
    ("t b c -> t b d", {"weight_shape": "c d", "bias_shape": "d", "c": 5, "d": 7}, 5),
    ("t b (h c) -> t b (h d)", {"weight_shape": "h c d", "h": 5, "c": 1, "d": 2}, 1),
    ("t b c -> b t c", {"weight_shape": "c", "c": 5}, 1),
]


@pytest.mark.parametrize(("pattern", "sizes", "fan_in"), MIXES)
def test_einmix_equals_pytorchs(pattern, sizes, fan_in, make):
    torch = pytest.importorskip("torch")
    from einops.layers.torch import EinMix

    x = make(2, 3, 5, dtype="float32")
    ours, theirs = layers.EinMix(pattern, **sizes), EinMix(pattern, **sizes)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})
    given = torch.tensor(x.detach().numpy(), requires_grad=True)
    got, want = ours.to(x.device)(x), theirs(given)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    got.sum().backward()
    want.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), given.grad.numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    largest = float(ours.weight.detach().abs().max())
    assert 0.5 * (3 / fan_in) ** 0.5 < largest <= (3 / fan_in) ** 0.5
