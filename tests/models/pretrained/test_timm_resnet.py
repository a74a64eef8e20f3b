"""The timm interface of ResNet: arguments, names, folders."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models.pretrained.timm_resnet import ResNet, class_for
from minitorch_attn.serialization import read_safetensors, write_safetensors

NAMES = ["resnet18", "resnet50"]
SIZES = {"layers": [1, 2], "channels": [4, 6], "in_chans": 2}


def make_model(name, device="cpu", classes=5, **changes):
    mt.manual_seed(4)
    fields = {"architecture": name, "num_classes": classes, "model_args": {**SIZES, **changes}}
    model = class_for(name)(fields).double()
    model(mt.randn(3, 2, 33, 33, dtype=mt.float64))  # statistics other than 0 and 1
    return model.eval().to(device)


@pytest.fixture
def images(rng, device):
    return mt.tensor(rng.normal(size=(2, 2, 45, 33)), device=device)


@pytest.mark.parametrize("name", NAMES)
def test_features_and_head(name, images, device):
    model = make_model(name, device)
    features = model.forward_features(images)
    assert features.shape == (2, 6 if name == "resnet18" else 24, 6, 5)
    np.testing.assert_array_equal(model(images).numpy(), model.forward_head(features).numpy())
    pooled = model.forward_head(features, pre_logits=True)
    np.testing.assert_allclose(pooled.numpy(), features.numpy().mean((2, 3)), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_folders_in_and_out(name, images, device, tmp_path):
    model = make_model(name, device)
    model.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written == {"architecture": name, "num_classes": 5, "model_args": SIZES}
    again = mt.models.from_pretrained(tmp_path, device=device)
    np.testing.assert_array_equal(again(images).numpy(), model(images).numpy())
    state = read_safetensors(tmp_path / "model.safetensors")[1]
    assert {"conv1.weight", "layer2.1.bn1.running_mean", "layer1.0.conv2.weight", "fc.bias"} < {
        *state
    }
    assert state["layer2.0.bn2.num_batches_tracked"] == 1
    for key in [key for key in state if key.endswith("num_batches_tracked")]:
        del state[key]
    write_safetensors(tmp_path / "model.safetensors", state)  # of an old version
    again = mt.models.from_pretrained(tmp_path, device=device)
    np.testing.assert_array_equal(again(images).numpy(), model(images).numpy())
    del state["bn1.running_mean"]
    write_safetensors(tmp_path / "model.safetensors", state)
    with pytest.raises(CheckpointError, match="bn1.running_mean"):
        mt.models.from_pretrained(tmp_path)


def test_frozen_norms_read_the_same_weights(images, device, tmp_path):
    model = make_model("resnet50", device)
    model.save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    fields["model_args"]["norm_layer"] = "frozenbatchnorm2d"
    (tmp_path / "config.json").write_text(json.dumps(fields))
    again = mt.models.from_pretrained(tmp_path, device=device).train()
    assert isinstance(again.model.bn1, nn.FrozenBatchNorm2d)
    np.testing.assert_allclose(again(images).numpy(), model(images).numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("stride", "size"), [(32, (2, 2)), (16, (3, 3)), (8, (6, 5))]
)  # fmt: skip
def test_output_stride(stride, size, images):
    sizes = {"layers": [1, 1, 1, 1], "channels": [2, 2, 3, 2], "output_stride": stride}
    assert make_model("resnet50", **sizes).forward_features(images.to("cpu")).shape[2:] == size


@pytest.mark.parametrize("pool", ["avg", "fast", "max", "avgmax", "catavgmax", ""])
def test_pools(pool, images, device):
    model = make_model("resnet18", device, classes=0, global_pool=pool)
    x = model.forward_features(images).numpy()
    mean, largest = x.mean((2, 3)), x.max((2, 3))
    expected = {
        "avg": mean, "fast": mean, "max": largest, "avgmax": (mean + largest) / 2,
        "catavgmax": np.concatenate([mean, largest], 1), "": x,
    }  # fmt: skip
    np.testing.assert_allclose(model(images).numpy(), expected[pool], atol=1e-12)


def test_names_of_architectures():
    assert class_for("resnet50.a1_in1k") is ResNet
    with pytest.raises(ArgumentError, match="resnet50d"):
        class_for("resnet50d.ra2_in1k")


@pytest.mark.parametrize(
    "wrong",
    [
        {"norm_layer": "groupnorm"}, {"output_stride": 64}, {"global_pool": ""},
        {"stem_type": "deep"}, {"norm_layer": ["batchnorm2d", 0.1]},
    ],
)  # fmt: skip
def test_what_is_refused(wrong):
    with pytest.raises(ArgumentError, match="support|without pooling"):
        make_model("resnet18", **wrong)
