"""Non-local block: a plain loop for each form, in one to three dimensions; inside a ResNet."""

import itertools

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import NonLocalBlock, ResNet, add_non_local, non_local_resnet50, resnet50
from minitorch_attn.models.resnet import BasicBlock, Bottleneck

MODES = ["gaussian", "embedded_gaussian", "dot_product", "concatenation"]
SIZES = {1: (7,), 2: (5, 4), 3: (2, 5, 3)}


def drawn(device="cpu", channels=5, **settings):
    """A block whose parameters are all drawn, W_z too."""
    rng = np.random.default_rng(2)
    block = NonLocalBlock(channels, **settings).double()
    for p in block.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return block.to(device)


def pooled(x, dims):
    """Maxima of 2 x 2 ... positions; the rest is dropped, and time is not pooled."""
    steps = {1: (2,), 2: (2, 2), 3: (1, 2, 2)}[dims]
    sizes = [n // step for n, step in zip(x.shape[1:], steps, strict=True)]
    out = np.zeros((len(x), *sizes))
    for place in itertools.product(*map(range, sizes)):
        cut = [slice(i * s, i * s + s) for i, s in zip(place, steps, strict=True)]
        out[(slice(None), *place)] = x[(slice(None), *cut)].reshape(len(x), -1).max(1)
    return out


def loop(x, block):
    """z and f / C for one x (channel, *space): one pair of positions at a time."""
    state = {name: value.numpy() for name, value in block.state_dict().items()}

    def conv(name, value):
        matrix = state[f"{name}.weight"].reshape(state[f"{name}.weight"].shape[:2])
        bias = state[f"{name}.bias"].reshape(-1, *[1] * block.dims)
        return np.tensordot(matrix, value, 1) + bias

    shrink = (lambda value: pooled(value, block.dims)) if block.subsample else (lambda value: value)
    gaussian = block.mode == "gaussian"
    theta = x if gaussian else conv("theta", x)
    phi = shrink(x if gaussian else conv("phi", x))
    g = shrink(conv("g", x))
    theta, phi, g = (value.reshape(len(value), -1).T for value in (theta, phi, g))
    f = np.zeros((len(theta), len(phi)))
    for i, j in np.ndindex(*f.shape):
        if block.mode == "concatenation":
            pair = np.concatenate([theta[i], phi[j]])
            f[i, j] = max(state["w_f.weight"][0] @ pair, 0)
        else:
            f[i, j] = theta[i] @ phi[j]
    if "gaussian" in block.mode:
        f = np.exp(f)
        f /= f.sum(1, keepdims=True)
    else:
        f /= len(phi)
    y = (f @ g).T.reshape(-1, *x.shape[1:])
    return conv("W_z", y) + x, f


@pytest.mark.parametrize("subsample", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_equals_a_plain_loop(mode, dims, subsample, rng, device):
    block = drawn(device, mode=mode, dims=dims, subsample=subsample)
    x = rng.normal(size=(2, 5, *SIZES[dims]))
    z, weights = block(mt.tensor(x, device=device)), block.attention(mt.tensor(x, device=device))
    for i in range(2):
        expected = loop(x[i], block)
        np.testing.assert_allclose(z[i].numpy(), expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(weights[i].numpy(), expected[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode, make, device):
    block = drawn(device, channels=2, mode=mode, dims=1)
    assert gradcheck_module(block, make(2, 2, 3))


def test_a_new_block_is_the_identity(make, device):
    x = make(2, 5, 3, 4)
    np.testing.assert_array_equal(NonLocalBlock(5).double().to(device)(x).numpy(), x.numpy())


def test_sizes_of_the_projections():
    def shapes(*args, **settings):
        state = NonLocalBlock(*args, **settings).state_dict()
        return {name: value.shape for name, value in state.items() if name.endswith("weight")}

    assert shapes(7) == {
        "g.weight": (3, 7, 1, 1), "W_z.weight": (7, 3, 1, 1), "theta.weight": (3, 7, 1, 1),
        "phi.weight": (3, 7, 1, 1),
    }  # fmt: skip
    assert shapes(1, mode="gaussian", dims=3) == {
        "g.weight": (1, 1, 1, 1, 1), "W_z.weight": (1, 1, 1, 1, 1),
    }  # fmt: skip
    assert shapes(6, 5, mode="concatenation", dims=1)["w_f.weight"] == (1, 10)


def test_what_is_refused(make):
    for wrong in ({"mode": "cosine"}, {"dims": 4}):
        with pytest.raises(ArgumentError, match="mode or dims"):
            NonLocalBlock(4, **wrong)
    with pytest.raises(ShapeError, match="x must have 4 axes for dims=2"):
        NonLocalBlock(4).double()(make(2, 4, 3))


def small(block, device):
    mt.manual_seed(1)
    model = ResNet(block, (1, 3), 5, channels=(4, 6), stem_channels=4, small_stem=True)
    return model.double().to(device)


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_blocks_inside_a_resnet(block, make, device):
    plain, model = small(block, device), small(block, device)
    assert add_non_local(model, {"layer2": (0, 2)}, mode="dot_product", subsample=True) is model
    names = [name for name, _ in model.layer2.named_children()]
    assert names == ["0", "non_local0", "1", "2", "non_local2"]
    inserted = model.layer2.non_local0
    assert (inserted.mode, inserted.subsample) == ("dot_product", True)
    assert inserted.g.weight.shape[1] == 6 * block.expansion
    assert inserted.g.weight.dtype == mt.float64
    missing, unexpected = model.load_state_dict(plain.state_dict(), strict=False)
    assert unexpected == [] and all("non_local" in name for name in missing)
    images = make(2, 3, 8, 6)
    model, plain = model.eval(), plain.eval()
    np.testing.assert_array_equal(model(images).numpy(), plain(images).numpy())
    model.layer2.non_local0.W_z.weight.data = mt.ones(
        *inserted.W_z.weight.shape, dtype=mt.float64, device=device
    )
    assert abs((model(images) - plain(images)).numpy()).max() > 1e-3


@pytest.mark.parametrize("places", [{"layer3": [0]}, {"layer2": [3]}, {"fc": [0]}])
def test_places_that_do_not_exist(places):
    with pytest.raises(ArgumentError, match="does not have all blocks in places"):
        add_non_local(small(BasicBlock, "cpu"), places)


def test_published_size():
    """With 5 blocks, about 70 % of the parameters of ResNet-101 (section 5.1)."""
    with nn.init.skip_init():
        model, plain = non_local_resnet50(), resnet50()
    count = sum(p.numel() for p in model.parameters())
    extra = sum(4 * c * c // 2 + 3 * c // 2 + c for c in (512, 512, 1024, 1024, 1024))
    assert count == 32_907_304 == sum(p.numel() for p in plain.parameters()) + extra
    assert 0.7 < count / 44_549_160 < 0.75


@pytest.mark.parametrize("places", [[1, 2], "layer1"])
def test_places_must_be_a_dict(places):
    with pytest.raises(mt.errors.DTypeError, match="places must be a dict"):
        add_non_local(small(BasicBlock, "cpu"), places)
    with pytest.raises(mt.errors.DTypeError, match="must be a ResNet"):
        add_non_local(mt.nn.Linear(3, 3), {"layer1": [0]})
