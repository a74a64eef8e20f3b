"""DeiT: the paper's numbers, two tokens, two heads, and the distillation losses."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.models import (
    DistilledVisionTransformer,
    VisionTransformer,
    hard_distillation_loss,
    soft_distillation_loss,
)
from minitorch_attn.nn.init import skip_init

BATCH, CLASSES = 3, 5
SIZES = (6, 2, CLASSES, 8, 2, 2, 11)


def small(device="cpu", cls=DistilledVisionTransformer):
    model = cls(*SIZES, in_channels=1).double()
    rng = np.random.default_rng(7)
    for p in model.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return model.to(device)


@pytest.mark.parametrize(
    "name, count",
    [("deit_ti_16", 5_910_800), ("deit_s_16", 22_436_432), ("deit_b_16", 87_338_192)],
)
def test_parameter_counts(name, count):
    with skip_init():
        model = getattr(mt.models, name)()
    assert sum(p.array.size for p in model.parameters()) == count


def test_two_tokens_and_two_heads(rng, device):
    """The blocks are ViT's; only the second token and its head are new."""
    model, plain = small(device), small(device, VisionTransformer)
    images = mt.tensor(rng.normal(size=(BATCH, 1, 6, 6)), device=device)
    state = model.state_dict()
    plain.load_state_dict({k: v.numpy() for k, v in state.items() if "distil" not in k and (
        k != "positions.weight")}, strict=False)  # fmt: skip
    patches = plain.patch_embedding(images).numpy()
    prefix = [state[k].numpy()[0, 0] for k in ("class_token", "distillation_token")]
    tokens = np.concatenate([np.tile(prefix, (BATCH, 1, 1)), patches], 1)
    tokens += state["positions.weight"].numpy()
    encoded = plain.encode(mt.tensor(tokens, device=device)).numpy()
    logits, distilled = (x.numpy() for x in model.both_logits(images))
    np.testing.assert_allclose(logits, plain.head(mt.tensor(encoded[:, 0], device=device)).numpy())
    weight, bias = (state[f"distillation_head.{n}"].numpy() for n in ("weight", "bias"))
    np.testing.assert_allclose(distilled, encoded[:, 1] @ weight.T + bias, rtol=1e-12)
    np.testing.assert_allclose(model(images).numpy(), (logits + distilled) / 2, rtol=1e-12)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.fixture
def logits(rng):
    return [rng.normal(size=(BATCH, CLASSES)) * 2 for _ in range(3)]


def test_hard_distillation_loss(logits, rng, device):
    labels = np.array([4, 0, 2])
    student, distilled, teacher = logits
    rows = np.arange(BATCH)
    expected = -log_softmax(student)[rows, labels].mean() / 2
    expected -= log_softmax(distilled)[rows, teacher.argmax(-1)].mean() / 2
    tensors = [mt.tensor(x, device=device, requires_grad=True) for x in logits]
    loss = hard_distillation_loss(*tensors[:2], mt.tensor(labels, device=device), tensors[2])
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    assert tensors[2].grad is None  # the teacher does not learn


def test_soft_distillation_loss(logits, device):
    labels, tau = np.array([4, 0, 2]), 3.0
    student, distilled, teacher = logits
    p, q = log_softmax(teacher / tau), log_softmax(distilled / tau)
    divergence = (np.exp(p) * (p - q)).sum(-1).mean()
    expected = -0.9 * log_softmax(student)[np.arange(BATCH), labels].mean()
    expected += 0.1 * tau**2 * divergence
    tensors = [mt.tensor(x, device=device, requires_grad=True) for x in logits]
    loss = soft_distillation_loss(*tensors[:2], mt.tensor(labels, device=device), tensors[2])
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_the_second_head_learns_from_the_teacher(device):
    """One step against a teacher that contradicts the labels parts the two heads."""
    model = small(device)
    rng = np.random.default_rng(2)
    images = mt.tensor(rng.normal(size=(BATCH, 1, 6, 6)), device=device)
    labels = mt.tensor(np.array([0, 0, 0]), device=device)
    teacher = mt.tensor(np.eye(CLASSES)[[1, 1, 1]] * 9.0, device=device)
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(15):
        optimizer.zero_grad()
        hard_distillation_loss(*model.both_logits(images), labels, teacher).backward()
        optimizer.step()
    first, second = model.both_logits(images)
    assert (first.numpy().argmax(-1) == 0).all() and (second.numpy().argmax(-1) == 1).all()
