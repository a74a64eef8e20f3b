"""Every workload has a title, its engines, and the sizes in its name."""

import importlib

import numpy as np
import pytest

from benchmarks.__main__ import BY_NAME_ONLY, WORKLOADS
from benchmarks.workloads import vit_step, w3, w5, w7, w8, w9
from minitorch_attn.models.mvit_stages import plan_blocks
from minitorch_attn.models.swin import Block
from minitorch_attn.ops.windows import relative_position_index, shifted_window_mask


@pytest.mark.parametrize("name", [*WORKLOADS, *BY_NAME_ONLY])
def test_a_workload_says_what_it_is_and_ends_with_the_reference(name):
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    assert module.TITLE
    assert next(iter(module.ENGINES)) == "minitorch_attn"
    assert list(module.ENGINES)[-1] == "torch"


def test_pytorchs_tables_of_swin_are_the_ones_of_this_library():
    window, shift = (w5.WINDOW,) * 2, (w5.SHIFT,) * 2
    assert np.array_equal(w5.relative_index(), relative_position_index(window).numpy())
    mask = shifted_window_mask(w5.SIDE, w5.SIDE, window, shift).numpy()
    assert np.array_equal(w5.shift_mask() == 0, mask)
    assert Block(w5.WIDTH, w5.HEADS, window, shift, 4 * w5.WIDTH).norm1.weight.shape == (96,)


def test_pytorchs_positions_are_the_ones_of_this_library():
    import minitorch_attn as mt

    ours = mt.nn.positional.sinusoidal_positions(w3.LENGTH, w3.WIDTH).numpy()
    np.testing.assert_allclose(w3.positions(), ours, atol=1e-6)


def test_pytorchs_places_of_detr_are_the_ones_of_this_library():
    import minitorch_attn as mt
    from minitorch_attn.models.image_positions import SinePositions

    ours = SinePositions(w8.WIDTH)(mt.zeros(1, 1, 5, 5)).numpy()[0]
    np.testing.assert_allclose(w8.positions(5), ours, atol=1e-6)


def test_pytorchs_set_loss_is_the_one_of_this_library():
    torch = pytest.importorskip("torch")
    import minitorch_attn as mt
    from benchmarks.workloads.in_torch import set_loss
    from minitorch_attn.models.detr import auxiliary_losses, total_loss

    rng = np.random.default_rng(0)
    logits, boxes = rng.standard_normal((2, 3, 7, 6)), rng.uniform(0.2, 0.6, (2, 3, 7, 4))
    labels, targets = rng.integers(0, 5, (3, 2)), rng.uniform(0.2, 0.6, (3, 2, 4))
    given = (torch.from_numpy(a) for a in (logits, boxes, labels, targets))
    found = set_loss(*given, w8.COSTS, w8.NO_OBJECT)
    targets = [
        {"class_labels": mt.tensor(c), "boxes": mt.tensor(b)}
        for c, b in zip(labels, targets, strict=True)
    ]
    losses = auxiliary_losses(
        mt.tensor(logits), mt.tensor(boxes), targets, 5, w8.NO_OBJECT, *w8.COSTS
    )
    assert found.item() == pytest.approx(total_loss(losses, *w8.COSTS[1:]).item())


def test_pytorchs_blocks_of_mvit_are_the_ones_of_this_library():
    size = tuple(n // s for n, s in zip(w9.CLIP, w9.PATCH["stride"], strict=True))
    planned = plan_blocks(
        w9.DEPTHS, w9.WIDTH, 1, size, kernel=w9.KERNEL, stride_q=w9.STRIDE_Q,
        stride_kv=w9.STRIDE_KV, widens_early=False, pools_every_query=False,
    )  # fmt: skip
    names = ("embed_dim", "output_dim", "num_heads", "stride_q", "stride_kv")
    assert w9.plan() == [
        (i, *(block[name] for name in names)) for i, stage in enumerate(planned) for block in stage
    ]


def test_sizes():
    assert w7.TOKENS < w7.SIZES["context"]
    assert vit_step.arrays()[0].shape == (4, 3, 224, 224)
