"""Set loss: its terms by hand, order, gradients, auxiliary losses and empty targets."""

import numpy as np
import pytest
from models.test_matching import draw

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models.boxes import center_to_corners_format, generalized_box_iou
from minitorch_attn.models.set_loss import auxiliary_losses, hungarian_loss, total_loss

pytest.importorskip("scipy", reason="needs the extra detection")
WEIGHTS = dict(class_cost=1, bbox_cost=5, giou_cost=2)
TERMS = ("loss_ce", "loss_bbox", "loss_giou")


def by_hand(logits, boxes, targets, eos):
    """The losses, one prediction after the other."""
    pairs = mt.models.detr.hungarian_match(logits, boxes, targets, **WEIGHTS)
    log_p = mt.log_softmax(logits, -1).numpy()
    none = log_p.shape[-1] - 1
    total = weight = distance = overlap = cardinality = 0
    for i, (prediction, target) in enumerate(pairs):
        label = dict(zip(prediction.tolist(), target.tolist(), strict=True))
        truth = {key: x.numpy() for key, x in targets[i].items()}
        for j in range(log_p.shape[1]):
            c = truth["class_labels"][label[j]] if j in label else none
            w = eos if c == none else 1
            total, weight = total - w * log_p[i, j, c], weight + w
            if j in label:
                box, other = boxes[i, j].numpy(), truth["boxes"][label[j]]
                distance += abs(box - other).sum()
                corners = [center_to_corners_format(mt.tensor(b[None])) for b in (box, other)]
                overlap += 1 - generalized_box_iou(*corners).item()
        cardinality += abs((log_p[i].argmax(-1) != none).sum() - len(truth["boxes"]))
    count = max(sum(len(t["boxes"]) for t in targets), 1)
    return total / weight, distance / count, overlap / count, cardinality / len(targets)


@pytest.mark.parametrize("counts", [(3, 0, 2), (0, 0), (7, 1), (1,)])
def test_terms(counts, rng, device):
    logits, boxes, targets = draw(rng, counts=counts, device=device)
    found = hungarian_loss(logits, boxes, targets, 7, 0.3, **WEIGHTS)
    got = [found[name].item() for name in (*TERMS, "cardinality_error")]
    np.testing.assert_allclose(got, by_hand(logits, boxes, targets, 0.3), rtol=1e-10, atol=1e-12)


def test_the_loss_is_a_function_of_sets(rng):
    logits, boxes, targets = draw(rng, 7, (5, 3))
    expected = total_loss(hungarian_loss(logits, boxes, targets, 7, **WEIGHTS)).item()
    queries = mt.tensor(rng.permutation(7))
    moved = [{key: x.flip(0) for key, x in target.items()} for target in targets]
    got = hungarian_loss(logits[:, queries], boxes[:, queries], moved, 7, **WEIGHTS)
    np.testing.assert_allclose(total_loss(got).item(), expected, rtol=1e-12)


def test_gradients(rng):
    logits, boxes, targets = draw(rng)

    def loss(logits, boxes):
        found = hungarian_loss(logits, boxes, targets, 7, **WEIGHTS)
        return tuple(found[name] for name in TERMS)

    inputs = logits.requires_grad_(), boxes.requires_grad_()
    assert gradcheck(loss, inputs)
    assert not hungarian_loss(*inputs, targets, 7)["cardinality_error"].requires_grad


def test_each_layer_is_matched_for_itself(rng):
    layers = [draw(np.random.default_rng(seed)) for seed in (1, 2, 3)]
    targets = layers[0][2]
    logits, boxes = (mt.stack([layer[i] for layer in layers]) for i in (0, 1))
    found = auxiliary_losses(logits, boxes, targets, 7, 0.2, **WEIGHTS)
    assert len(found) == 12 and list(found)[:4] == [n for n in found if n[-1] not in "01"]
    for n, end in ((2, ""), (0, "_0"), (1, "_1")):
        alone = hungarian_loss(logits[n], boxes[n], targets, 7, 0.2, **WEIGHTS)
        for name, value in alone.items():
            assert found[name + end].item() == pytest.approx(value.item(), rel=1e-12)


@pytest.mark.parametrize("counts", [(3, 0, 2), (0, 0), (7, 1), (1,)])
@pytest.mark.parametrize("layers", [1, 3])
def test_sums_over_the_layers(layers, counts, rng, device):
    drawn = [draw(rng, counts=counts, device=device) for _ in range(layers)]
    logits, boxes = (mt.stack([layer[i] for layer in drawn]).requires_grad_() for i in (0, 1))
    given = logits, boxes, drawn[0][2], 7, 0.2, *WEIGHTS.values()
    each, sums = auxiliary_losses(*given), auxiliary_losses(*given, sum_layers=True)
    assert list(sums) == list(each)[:4]
    for name, total in sums.items():
        expected = sum(loss.item() for key, loss in each.items() if key.startswith(name))
        assert total.item() == pytest.approx(expected, rel=1e-12)
    grads = []
    for losses in (each, sums):
        grads.append(mt.autograd.grad(total_loss(losses), [logits, boxes]))
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-13)


def test_total():
    losses = {"loss_ce": 1.0, "loss_bbox": 10.0, "loss_giou": 100.0, "cardinality_error": 1e9}
    losses |= {name + "_12": loss * 1000 for name, loss in losses.items()}
    assert total_loss(losses) == 251 * 1001
    assert total_loss(losses, 3.0, 1.0) == 131 * 1001


def test_float32(rng):
    logits, boxes, targets = draw(rng)
    found = hungarian_loss(logits.float(), boxes.float(), targets, 7)
    assert {loss.dtype for loss in found.values()} == {mt.float32}


def test_number_of_classes_is_checked(rng):
    logits, boxes, targets = draw(rng)
    with pytest.raises(ShapeError, match="num_classes"):
        hungarian_loss(logits, boxes, targets, 8)
