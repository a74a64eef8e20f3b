"""ResNet against timm: random stages, widths, groups and strides; both modes; published sizes."""

import numpy as np
import pytest
import torch
from parity.models.peers import check, check_same_tensors, compare, opened, timm_outputs

import minitorch_attn as mt
from minitorch_attn.models.pretrained.timm_resnet import class_for
from minitorch_attn.nn.init import skip_init

POOLS = ["avg", "max", "avgmax", "catavgmax", "fast"]
NAMES = ["resnet18", "resnet50", "resnext50_32x4d"]


def draw_args(name, rng):
    args = dict(
        layers=[int(n) for n in rng.integers(1, 3, 4)],
        channels=[int(n) for n in rng.integers(2, 6, 4)],
        in_chans=int(rng.integers(1, 4)), num_classes=int(rng.choice([0, 5])),
        global_pool=str(rng.choice(POOLS)), output_stride=int(rng.choice([8, 16, 32])),
    )  # fmt: skip
    if not args["num_classes"] and rng.random() < 0.5:
        args["global_pool"] = ""
    if name != "resnet18":
        args["cardinality"] = int(rng.integers(1, 4))
        args["base_width"] = int(rng.choice([32, 64, 128]))
    return args


@pytest.fixture
def pair(timm, tmp_path):
    """pair(name, args): timm's model with random weights and statistics, and ours."""
    from timm.models import resnet

    def make(name, args, seed=0):
        block = resnet.BasicBlock if name == "resnet18" else resnet.Bottleneck
        peer = resnet.ResNet(block, **args).double()
        generator = torch.Generator().manual_seed(seed)
        for key, value in peer.state_dict().items():
            if value.ndim:
                noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
                scale = (2.0 / max(value[0].numel(), 1)) ** 0.5 if value.ndim > 1 else 0.3
                positive = value.ndim == 1 and key.endswith(("weight", "running_var"))
                value.copy_(0.5 + noise.abs() if positive else noise * scale)
        config = {"architecture": name, "num_classes": args["num_classes"], "model_args": args}
        return peer.eval(), opened(peer, tmp_path, **config)

    return make


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_drawn_models(name, training, seed, pair):
    rng = np.random.default_rng(seed)
    args = draw_args(name, rng)
    peer, ours = pair(name, args, seed)
    peer.train(training), ours.train(training)
    x = rng.normal(size=(3, args["in_chans"], *(int(n) for n in rng.integers(40, 60, 2))))
    compare(peer, ours, {"x": x}, call=timm_outputs if not training else lambda model, x: model(x))
    state = ours.peer_state()
    for key, value in peer.named_buffers():  # statistics that training has moved
        check(key, state[key], value.numpy(), 1e-9)


def test_a_folder_is_written_back_bit_by_bit(pair, tmp_path):
    args = draw_args("resnet50", np.random.default_rng(2))
    _, ours = pair("resnet50", args)
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path, tmp_path / "again")


def test_every_architecture_has_timms_arguments(timm, monkeypatch):
    """The table of sizes against the functions of timm's module, which are called with a spy."""
    from timm.models import resnet

    monkeypatch.setattr(resnet, "_create_resnet", lambda variant, pretrained, **given: given)
    for name, ours in class_for("resnet18").entry_points.items():
        given = getattr(resnet, name)()
        assert {**given, "block": given["block"].__name__} == ours, name


def test_published_sizes_have_timms_tensors(timm):
    """All names and shapes, of our interface and of models.ResNet (torchvision's names)."""
    from timm.models import resnet

    builders = {
        "resnet18": mt.models.resnet18, "resnet34": mt.models.resnet34,
        "resnet50": mt.models.resnet50, "resnet101": mt.models.resnet101,
        "resnet152": mt.models.resnet152,
    }  # fmt: skip
    for name in (*builders, "wide_resnet50_2", "resnext50_32x4d"):
        with torch.device("meta"):
            theirs = getattr(resnet, name)().state_dict()
        expected = {key: tuple(tensor.shape) for key, tensor in theirs.items()}
        with skip_init():
            ours = class_for(name)({"architecture": name})
        shapes = {key: tensor.shape for key, tensor in ours._own_tensors().items()}
        assert ours.names().stored_shapes(shapes) == expected, name
        if name in builders:
            with skip_init():
                state = builders[name]().state_dict()
            assert {key: tensor.shape for key, tensor in state.items()} == expected, name


def test_dropout_and_drop_path(pair):
    """Dropout with a probability of one leaves nothing to chance; of paths, the probabilities."""
    rng = np.random.default_rng(3)
    args = {**draw_args("resnet18", rng), "num_classes": 5, "global_pool": "avg"}
    peer, ours = pair("resnet18", {**args, "drop_rate": 1.0})
    peer.train(), ours.train()
    x = rng.normal(size=(2, args["in_chans"], 41, 37))
    compare(peer, ours, {"x": x}, call=lambda model, x: model(x))
    peer, ours = pair("resnet18", {**args, "drop_path_rate": 0.5})
    expected = [m.drop_prob for m in peer.modules() if type(m).__name__ == "DropPath"]
    found = [m.drop_prob for m in ours.modules() if isinstance(m, mt.nn.DropPath)]
    np.testing.assert_allclose(found, [0.0, *expected])
