"""Captioner: what a position sees, gradients, and captions of images."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ShapeError
from minitorch_attn.generation import translate
from minitorch_attn.models import Captioner, ConvEncoder, ShowAttendTell


def host(x):
    return x.detach().numpy()


def build(device, size=7):
    encoder = ConvEncoder(size, 2, (3, 5))
    return Captioner(encoder, ShowAttendTell(7, 5, 2, 3, 4)).double().to(device).eval()


@pytest.mark.parametrize(("size", "channels", "grid"), [
    (32, (2, 3, 5), 8), (13, (2, 3, 5), 4), (5, (3, 5), 2), (2, (5,), 1), (1, (2, 5), 1),
])  # fmt: skip
def test_grid(size, channels, grid, make, device):
    encoder = ConvEncoder(size, 2, channels).double().to(device).eval()
    assert encoder.grid == grid and encoder.positions.shape == (grid**2, 5)
    for batch in (0, 1, 2):
        assert encoder(make(batch, 2, size, size)).shape == (batch, grid**2, 5)


def test_defaults():
    encoder = ConvEncoder(32)
    assert encoder(mt.zeros(1, 1, 32, 32)).shape == (1, 64, 64)
    assert [layer.out_channels for layer in encoder.layers[::3]] == [32, 64, 64]
    assert 0.08 < encoder.positions.std().item() < 0.12


def test_a_position_sees_its_part_of_the_image(device, rng):
    """Row-major positions, and a field of 15 pixels after strides 2, 2 and 1."""
    encoder = ConvEncoder(32, 1, (2, 3, 5)).double().to(device).eval()
    blank = np.zeros((1, 1, 32, 32))
    before = host(encoder(mt.tensor(blank, device=device)))
    for row, column in ((0, 31), (17, 4), (30, 12)):
        blank[:] = 0
        blank[0, 0, row, column] = 1
        changed = np.abs(host(encoder(mt.tensor(blank, device=device))) - before).sum(-1) > 0
        rows, columns = np.divmod(np.flatnonzero(changed[0]), 8)
        assert len(rows) and np.abs(4 * rows - row).max() <= 7
        assert np.abs(4 * columns - column).max() <= 7


def test_positions_are_added(make, device):
    encoder, images = build(device).encoder, make(2, 2, 7, 7)
    before = host(encoder(images))
    with mt.no_grad():
        encoder.positions[3] += 2.0
    moved = host(encoder(images)) - before
    np.testing.assert_allclose(moved[:, 3], 2.0)
    assert not np.delete(moved, 3, 1).any()


def test_gradients(make, device):
    words = mt.tensor([[1, 4], [1, 2]], device=device)
    assert gradcheck_module(build(device), make(2, 2, 7, 7), words, fast=True)


def test_captions_of_images(make, device):
    model, images = build(device), make(3, 2, 7, 7)
    greedy = translate(model, images, 1, 2, max_new_tokens=5).numpy()
    memory = model.encode(images)
    for row, image in zip(greedy, images, strict=True):
        words = [1]
        for expected in row:
            logits = model(image.unsqueeze(0), mt.tensor([words], device=device))[0]
            words.append(int(host(logits)[0, -1].argmax()))
            assert words[-1] == expected
            if expected == 2:
                break
    assert memory["last_hidden_state"].shape == (3, 4, 5) and model.padding_mask(images) is None
    beams = translate(model, images, 1, 2, max_new_tokens=5, num_beams=3)
    assert beams.shape[0] == 3


def test_other_sizes_are_refused(make, device):
    encoder = ConvEncoder(7, 2, (3, 5)).double().to(device)
    for images in (make(2, 2, 7, 8), make(2, 1, 7, 7), make(2, 7, 7)):
        with pytest.raises(ShapeError, match="images have the wrong shape"):
            encoder(images)
