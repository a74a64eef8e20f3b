"""Attention maps show the weights that the model uses, on one scale."""

import subprocess
import sys

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError
from minitorch_attn.models import GPT
from minitorch_attn.viz import attention_figure, attention_maps
from minitorch_attn.viz.style import save_figure


@pytest.fixture
def model(device):
    mt.manual_seed(0)
    model = GPT(vocab_size=9, context_length=8, embed_dim=12, num_heads=3, num_layers=2).to(device)
    for parameter in model.parameters():
        parameter.data = parameter.detach() * 20  # far from uniform attention
    return model


def test_maps_are_causal_distributions_of_every_head(model, device):
    ids = mt.tensor([[1, 2, 3, 4, 5]], device=device)
    before = model(ids).numpy()
    maps = attention_maps(model, ids)
    assert [m.shape for m in maps] == [(3, 5, 5)] * 2
    for m in maps:
        np.testing.assert_allclose(m.sum(-1), 1, rtol=1e-5)
        assert not np.triu(m, 1).any()
        assert m.std() > 0.05
    assert (model(ids).numpy() == before).all()
    assert len(maps) == 2 and model.training  # no hook is left, no mode changed


def test_maps_reproduce_the_output_of_a_layer(model, device):
    """weights @ value, projected, is what the layer returned."""
    seen = []
    attention = model.blocks[0].attention
    handle = attention.register_forward_hook(lambda module, args, out: seen.append((args, out)))
    ids = mt.tensor([[3, 1, 4, 1]], device=device)
    weights = attention_maps(model, ids)[0]
    handle.remove()
    ((query,), output) = seen[0]
    value = attention.v_proj(query).numpy()[0]
    heads = [weights[h] @ value[:, 4 * h : 4 * h + 4] for h in range(3)]
    projected = np.concatenate(heads, 1) @ attention.out_proj.weight.numpy().T
    expected = projected + attention.out_proj.bias.numpy()
    np.testing.assert_allclose(output.numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_the_grid_has_every_head_on_one_scale(tmp_path):
    rng = np.random.default_rng(0)
    maps = [rng.uniform(0, 0.3, (3, 4, 4)), rng.uniform(0, 0.9, (3, 4, 4))]
    figure = attention_figure(maps, ["a", " ", "\n", "b"])
    images = [image for axes in figure.axes for image in axes.get_images()]
    assert len(images) == 6
    assert {image.get_clim() for image in images} == {(0, maps[1].max())}
    labels = [text.get_text() for text in figure.axes[3].get_xticklabels()]
    assert labels == ["a", "\u2423", "\u21b5", "b"]
    save_figure(figure, tmp_path / "maps.png", dpi=40)
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")


def test_maps_and_labels_that_do_not_fit():
    for maps, labels in (
        ([np.zeros((1, 3, 3))], "ab"),
        ([np.zeros((1, 3, 3)), np.zeros((2, 3, 3))], "abc"),
        ([np.zeros((1, 2, 3))], "abc"),
    ):
        with pytest.raises(ShapeError, match="maps have different shapes"):
            attention_figure(maps, list(labels))


def test_matplotlib_waits_for_the_first_picture_and_pyplot_is_never_loaded():
    code = (
        "import sys, numpy as np, minitorch_attn.viz as viz\n"
        "assert 'matplotlib' not in sys.modules\n"
        "viz.attention_figure([np.eye(2)[None]], ['a', 'b'])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
