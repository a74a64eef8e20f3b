"""DINO: loss, center, teacher, schedules, head, views of several sizes, attention maps."""

import copy

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck, gradcheck_module
from minitorch_attn.models.dino import (
    DINO,
    DINOHead,
    cosine_schedule,
    dino_loss,
    teacher_temperature,
    update_center,
    update_teacher,
)
from minitorch_attn.models.dino_transformer import DINOTransformer
from minitorch_attn.models.vit import VisionTransformer


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain_loss(student, teacher, center, ts, tt):
    terms = []
    for g in range(len(teacher)):
        for v in range(len(student)):
            if v != g:
                p, q = softmax((teacher[g] - center) / tt), softmax(student[v] / ts)
                terms.append(-(p * np.log(q)).sum(-1))
    return np.mean(terms)


@pytest.mark.parametrize("views, global_views", [(2, 1), (2, 2), (5, 2), (3, 3), (7, 1)])
def test_loss_over_pairs(views, global_views, rng):
    student, teacher = rng.normal(size=(views, 3, 5)), rng.normal(size=(global_views, 3, 5))
    center = rng.normal(size=5)
    got = dino_loss(*map(mt.tensor, (student, teacher, center)), 0.3, 0.2)
    np.testing.assert_allclose(
        got.item(), plain_loss(student, teacher, center, 0.3, 0.2), rtol=1e-12
    )


def test_gradient_of_the_loss(rng):
    student, teacher = rng.normal(size=(4, 3, 5)), rng.normal(size=(2, 3, 5))
    x, t, c = (mt.tensor(a, requires_grad=True)
               for a in (student, teacher, rng.normal(size=5)))  # fmt: skip
    dino_loss(x, t, c, 0.7, 0.4).backward()
    assert t.grad is None and c.grad is None  # a constant for the gradient
    inputs = mt.tensor(student, requires_grad=True)
    assert gradcheck(
        lambda s: dino_loss(s, mt.tensor(teacher), mt.tensor(c.detach().numpy()), 0.7, 0.4),
        (inputs,),
    )


def test_default_temperatures(rng):
    student, teacher, center = rng.normal(size=(3, 2, 5)), rng.normal(size=(2, 2, 5)), np.zeros(5)
    got = dino_loss(*map(mt.tensor, (student, teacher, center))).item()
    np.testing.assert_allclose(got, plain_loss(student, teacher, center, 0.1, 0.04), rtol=1e-12)


@pytest.mark.parametrize(
    "student, teacher, center",
    [
        ((1, 3, 5), (1, 3, 5), (5,)), ((2, 3, 5), (3, 3, 5), (5,)), ((2, 3, 5), (2, 2, 5), (5,)),
        ((2, 3, 5), (2, 3, 5), (4,)), ((3, 5), (3, 5), (5,)), ((2, 3, 5), (0, 3, 5), (5,)),
        ((3, 2, 5), (2, 1, 5), (5,)), ((2, 3, 5), (3, 5), (5,)),
    ],
)  # fmt: skip
def test_refused_shapes(student, teacher, center):
    with pytest.raises(ShapeError, match="dino_loss"):
        dino_loss(mt.zeros(*student), mt.zeros(*teacher), mt.zeros(*center))


def test_center(rng):
    center, teacher = rng.normal(size=5), rng.normal(size=(2, 3, 5))
    t = mt.tensor(teacher, requires_grad=True)
    got = update_center(mt.tensor(center), t, 0.7)
    np.testing.assert_allclose(got.numpy(), 0.7 * center + 0.3 * teacher.mean((0, 1)), rtol=1e-12)
    assert not got.requires_grad
    default = update_center(mt.tensor(center), t).numpy()
    np.testing.assert_allclose(default, 0.9 * center + 0.1 * teacher.mean((0, 1)), rtol=1e-12)


def test_teacher():
    teacher, student = mt.nn.Linear(3, 5).double(), mt.nn.Linear(3, 5).double()
    before = {k: v.numpy().copy() for k, v in teacher.state_dict().items()}
    kept = teacher.weight
    update_teacher(teacher, student, 0.9)
    assert teacher.weight is kept and not teacher.weight.grad_fn
    for name, p in student.named_parameters():
        expected = 0.9 * before[name] + 0.1 * p.detach().numpy()
        np.testing.assert_allclose(getattr(teacher, name).detach().numpy(), expected, rtol=1e-12)
    update_teacher(teacher, student, 0.0)
    np.testing.assert_array_equal(teacher.weight.detach().numpy(), student.weight.detach().numpy())


@pytest.mark.parametrize("other", [(3, 4), (2, 5)])
def test_teacher_of_another_shape(other):
    with pytest.raises(ArgumentError, match="different parameters"):
        update_teacher(mt.nn.Linear(3, 5), mt.nn.Linear(*other), 0.9)
    with pytest.raises(ArgumentError, match="bias"):
        update_teacher(mt.nn.Linear(3, 5), mt.nn.Linear(3, 5, bias=False), 0.9)


def authors_cosine(start, end, total, warmup, warmup_start):
    """The authors' `utils.cosine_scheduler`, with one iteration per epoch."""
    first = np.linspace(warmup_start, start, warmup) if warmup else np.array([])
    i = np.arange(total - warmup)
    rest = end + 0.5 * (start - end) * (1 + np.cos(np.pi * i / len(i)))
    return np.concatenate([first, rest])


@pytest.mark.parametrize("total, warmup", [(10, 0), (10, 3), (7, 1), (5, 4)])
def test_cosine_schedule(total, warmup):
    expected = authors_cosine(0.5, 2.0, total, warmup, 0.1)
    got = [cosine_schedule(t, total, 0.5, 2.0, warmup, 0.1) for t in range(total)]
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert cosine_schedule(total, total, 0.5, 2.0, warmup) == 2.0
    assert cosine_schedule(3 * total, total, 0.5, 2.0) == 2.0
    assert cosine_schedule(0, total, 0.5, 2.0, 2) == 0.0


@pytest.mark.parametrize("warmup", [0, 1, 2, 5])
def test_teacher_temperature(warmup):
    expected = [*np.linspace(0.04, 0.07, warmup), 0.07, 0.07]
    got = [teacher_temperature(t, 0.04, 0.07, warmup) for t in range(warmup + 2)]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_head_layers():
    names = [name for name, _ in DINOHead(4, 7, 6, 5, num_layers=4).named_parameters()]
    assert names == [*(f"mlp.{i}.{kind}" for i in (0, 2, 4, 6) for kind in ("weight", "bias")),
                     "last_layer.weight_g", "last_layer.weight_v"]  # fmt: skip
    one = DINOHead(4, 7, 6, 5, num_layers=1)
    assert [p.shape for p in one.mlp.parameters()] == [(5, 4), (5,)]
    normed = DINOHead(4, 7, 6, 5, batch_norm=True)
    assert [type(m).__name__ for m in normed.mlp] == [
        "Linear", "BatchNorm1d", "GELU", "Linear", "BatchNorm1d", "GELU", "Linear",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match="num_layers"):
        DINOHead(4, 7, num_layers=0)


def test_head_sizes_of_the_paper():
    with mt.nn.init.skip_init():
        head = DINOHead(384, 65536)
    rows = [(384 + 1) * 2048, (2048 + 1) * 2048, (2048 + 1) * 256, 65536 * 257]
    assert sum(p.numel() for p in head.parameters()) == sum(rows)


def test_head_normalizes_twice(rng):
    mt.manual_seed(3)
    head = DINOHead(4, 7, 6, 5).double()
    x = mt.tensor(rng.normal(size=(3, 4)))
    y = head(x)
    assert (y.abs() <= 1 + 1e-12).all()  # cosines
    with mt.no_grad():
        head.last_layer.weight_v.mul_(3.0)
        head.mlp[4].weight.mul_(3.0)
    np.testing.assert_allclose(head(x).detach().numpy(), y.detach().numpy(), rtol=1e-10)
    assert not head.last_layer.weight_g.requires_grad
    free = DINOHead(4, 7, 6, 5, norm_last_layer=False).double()
    for p in free.parameters():
        mt.nn.init.normal_(p)
    assert free.last_layer.weight_g.requires_grad
    assert gradcheck_module(free, mt.tensor(rng.normal(size=(3, 4)), requires_grad=True))


def backbone(**options):
    mt.manual_seed(5)
    return DINOTransformer(12, 3, 6, 2, 3, 7, in_channels=2, **options).double().eval()


def test_backbone_at_its_own_size_is_a_vit(rng):
    model = backbone()
    plain = VisionTransformer(12, 3, 0, 6, 2, 3, 7, in_channels=2).double().eval()
    plain.load_state_dict(model.state_dict())
    images = mt.tensor(rng.normal(size=(2, 2, 12, 12)))
    np.testing.assert_array_equal(model(images).detach().numpy(), plain(images).detach().numpy())


@pytest.mark.parametrize("height, width", [(6, 6), (9, 15), (3, 3), (14, 7)])
def test_backbone_at_other_sizes(height, width, rng):
    model = backbone()
    plain = VisionTransformer(12, 3, 0, 6, 2, 3, 7, in_channels=2).double().eval()
    plain.load_state_dict(model.state_dict())
    images = mt.tensor(rng.normal(size=(2, 2, height, width)))
    expected = plain.resize((height, width))(images)
    np.testing.assert_allclose(
        model(images).detach().numpy(), expected.detach().numpy(), rtol=1e-12
    )


@pytest.mark.slow
def test_small_images_train_the_positions(rng):
    model = backbone()
    images = mt.tensor(rng.normal(size=(2, 2, 6, 9)), requires_grad=True)
    assert gradcheck_module(model, images)
    model(images).sum().backward()
    assert (model.positions.weight.grad.abs().sum(1) > 0).all()


def test_reference_maps(rng):
    """Against the weights of the last block, recomputed from its input."""
    model = backbone()
    images = mt.tensor(rng.normal(size=(2, 2, 12, 9)))
    tokens = model.blocks[0](model.embed(images))
    block = model.blocks[1]
    x = block.norm1(tokens).detach().numpy()
    q, k = (
        x @ getattr(block.attention, name).weight.detach().numpy().T
        + getattr(block.attention, name).bias.detach().numpy()
        for name in ("q_proj", "k_proj")
    )
    q, k = (y.reshape(2, 13, 3, 2).transpose(0, 2, 1, 3) for y in (q, k))
    weights = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(2))
    got = model.last_attention(images)
    np.testing.assert_allclose(got.numpy(), weights, rtol=1e-10)
    assert not got.requires_grad
    points = [(0, 0), (5, 7), (11, 2)]
    maps = model.reference_maps(images, points).numpy()
    assert maps.shape == (2, 3, 3, 4, 3)
    for i, (y, x) in enumerate(points):
        expected = weights[:, :, 1 + (y // 3) * 3 + x // 3, 1:].reshape(2, 3, 4, 3)
        np.testing.assert_allclose(maps[:, i], expected, rtol=1e-10)


def dino(**options):
    def network():
        return mt.nn.Sequential(backbone(), DINOHead(6, 5, 7, 4).double())

    return DINO(network, 5, **options).double()


def test_training_object(rng):
    model = dino(student_temperature=0.2, center_momentum=0.6)
    large = [mt.tensor(rng.normal(size=(3, 2, 12, 12))) for _ in range(2)]
    small = [mt.tensor(rng.normal(size=(3, 2, 6, 6))) for _ in range(3)]
    assert not any(p.requires_grad for p in model.teacher.parameters())
    with mt.no_grad():
        for p in model.student.parameters():
            p.add_(mt.tensor(rng.normal(size=p.shape)) * 0.1)
    teacher = np.stack([model.teacher(x).detach().numpy() for x in large])
    student = np.stack([model.student(x).detach().numpy() for x in [*large, *small]])
    loss = model(large, small, temperature=0.3)
    np.testing.assert_allclose(
        loss.item(), plain_loss(student, teacher, np.zeros(5), 0.2, 0.3), rtol=1e-10
    )
    loss.backward()
    assert all(p.grad is None for p in model.teacher.parameters())
    assert all(p.grad is not None for p in model.student.parameters() if p.requires_grad)
    before = model.teacher[1].mlp[0].weight.numpy().copy()
    model.update(0.75)
    after = 0.75 * before + 0.25 * model.student[1].mlp[0].weight.detach().numpy()
    np.testing.assert_allclose(model.teacher[1].mlp[0].weight.numpy(), after, rtol=1e-12)
    np.testing.assert_allclose(model.center.numpy(), 0.4 * teacher.mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(
        model(large, small).item(), plain_loss(
            np.stack([model.student(x).detach().numpy() for x in [*large, *small]]),
            np.stack([model.teacher(x).detach().numpy() for x in large]),
            model.center.numpy(), 0.2, 0.04,
        ), rtol=1e-10,
    )  # fmt: skip


def test_views_in_any_order_and_copies(rng):
    """Views of one size are one batch; the outputs keep the order of the views."""
    model = dino()
    sizes = [12, 6, 12, 9, 6]
    views = [mt.tensor(rng.normal(size=(2, 2, n, n))) for n in sizes]
    student = np.stack([model.student(x).detach().numpy() for x in views])
    expected = plain_loss(student, student[:2], np.zeros(5), 0.1, 0.04)
    np.testing.assert_allclose(model(views[:2], views[2:]).item(), expected, rtol=1e-9)
    again = copy.deepcopy(model)
    np.testing.assert_allclose(again(views[:2], views[2:]).item(), expected, rtol=1e-9)
    assert "center" in model.state_dict()
