"""VisualBERT and ViLT as in their papers; `tests/parity` compares them with transformers."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models import ViLT, VisualBERT

IDS = [[1, 4, 2, 5, 3]]


def drawn(model):
    for parameter in model.parameters():
        mt.nn.init.normal_(parameter, std=0.3)
    return model.double()


def visual_bert():
    mt.manual_seed(5)
    return drawn(VisualBERT(11, 7, 4, 2, 1, ff_dim=13, max_positions=17, dropout=0.0))


def vilt():
    mt.manual_seed(5)
    return drawn(ViLT(11, (6, 9), 3, 4, 2, 1, 13, in_channels=1, max_positions=7))


class Fixed(mt.nn.Module):
    """A model with fixed words, so that the other inputs can be checked."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        hidden = self.model(mt.tensor(IDS), x)
        return hidden, self.model.pool(hidden)


@pytest.mark.parametrize("model, shape", [(visual_bert, (1, 3, 7)), (vilt, (1, 1, 6, 6))])
def test_gradients(model, shape):
    x = mt.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)
    assert gradcheck_module(Fixed(model()), x)


def test_visual_bert_reads_words_like_bert():
    """Without regions it is a BERT with the same parameters."""
    model = visual_bert()
    plain = mt.models.BERT(11, 4, 2, 1, ff_dim=13, max_positions=17, dropout=0.0).double()
    state = {k: v for k, v in model.state_dict().items() if "region" not in k}
    plain.load_state_dict(state)
    ids = mt.tensor(IDS)
    np.testing.assert_array_equal(model(ids).numpy(), plain(ids).numpy())


def test_visual_bert_masks_regions():
    model, rng = visual_bert(), np.random.default_rng(1)
    features = mt.tensor(rng.normal(size=(1, 3, 7)))
    mask = mt.tensor([[[[True] * 6 + [False] * 2]]])
    found = model(mt.tensor(IDS), features, mask=mask).numpy()[:, :6]
    alone = model(mt.tensor(IDS), features[:, :1]).numpy()
    np.testing.assert_allclose(found, alone, rtol=1e-9, atol=1e-12)


def test_vilt_padding_does_not_matter():
    """A small image in a large batch, with masked words, is the small image alone."""
    model, rng = vilt(), np.random.default_rng(2)
    images = mt.tensor(rng.normal(size=(2, 1, 9, 12)))
    pixel_mask = np.ones((2, 9, 12), "int64")
    pixel_mask[1, 6:] = pixel_mask[1, :, 9:] = 0
    words = mt.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    ids = mt.tensor(IDS * 2)
    found = model(ids, images, words, mt.tensor(pixel_mask)).numpy()
    assert found.shape == (2, 5 + 1 + 12, 4)
    alone = model(ids[1:, :3], images[1:, :, :6, :9]).numpy()
    np.testing.assert_allclose(found[1, [0, 1, 2, *range(5, 12)]], alone[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch, words", [(0, 2), (1, 0), (1, 1), (2, 2)])
def test_small_sizes(batch, words):
    ids, images = mt.ones(batch, words, dtype="int64"), mt.ones(batch, 1, 6, 9, dtype="float64")
    assert vilt()(ids, images).shape == (batch, words + 1 + 6, 4)
    features = mt.ones(batch, 2, 7, dtype="float64")
    assert visual_bert()(ids, features).shape == (batch, words + 2, 4)


def test_vilt_b_32_has_its_published_size():
    with mt.nn.init.skip_init():
        model = mt.models.vilt_b_32()
    assert sum(p.numel() for p in model.parameters()) == 111_595_008
