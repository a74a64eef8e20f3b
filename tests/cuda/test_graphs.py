"""A replayed step equals the step itself, bit for bit; what cannot be captured says why."""

import warnings

import numpy as np
import pytest
import simulated_graphs

import minitorch_attn as mt
from minitorch_attn.cuda import GraphedStep
from minitorch_attn.nn import functional as F

gpu = pytest.mark.gpu
BATCH, TOKENS, VOCABULARY, WIDTH = 3, 7, 11, 8


def gpt(dropout=0.3):
    """Return a small GPT with dropout everywhere; its weights are the same at every call."""
    mt.manual_seed(5)
    return mt.models.GPT(
        VOCABULARY, TOKENS, WIDTH, num_heads=2, num_layers=2, dropout=dropout
    ).to("cuda")  # fmt: skip


def batches(count, batch=BATCH):
    """Return token ids and targets for some steps."""
    rng = np.random.default_rng(3)
    ids = rng.integers(0, VOCABULARY, (count, 2, batch, TOKENS))
    return [tuple(mt.tensor(x, device="cuda") for x in pair) for pair in ids]


class Trainer:
    """A training step with everything that changes from step to step."""

    def __init__(self, optimizer=mt.optim.AdamW, dropout=0.3, clip=1.0, **options):
        self.model = gpt(dropout)
        self.optimizer = optimizer(self.model.parameters(), **{"lr": 0.01, **options})
        self.schedule = mt.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9)
        self.clip, self.ran = clip, 0

    def step(self, ids, targets):
        self.ran += 1
        self.optimizer.zero_grad()
        logits = self.model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        norm = mt.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss, {"norm": norm, "last": logits[:, -1]}

    def values(self):
        """Return parameters and optimizer state as NumPy arrays."""
        state = self.optimizer.state_dict()["state"]
        entries = [x for entry in state.values() for x in entry.values()]
        return [x.detach().numpy() for x in (*self.model.parameters(), *entries)]


def run(trainer, step, data):
    """Run steps; return the outputs of each as NumPy arrays."""
    outputs = []
    for ids, targets in data:
        loss, more = step(ids, targets)
        trainer.schedule.step()
        outputs.append([x.detach().numpy() for x in (loss, more["norm"], more["last"])])
    return outputs


def assert_same(first, second):
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


@gpu
def test_replays_equal_the_step_bit_for_bit():
    eager, other = Trainer(), Trainer()
    data = batches(9)
    mt.manual_seed(7)
    expected = run(eager, eager.step, data)
    after = mt.backend.next_offset(16)
    mt.manual_seed(7)
    graphed = GraphedStep(other.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(other, graphed, data)
    assert graphed.reason is None and graphed.replays == 6
    assert other.ran == 4  # three warm-ups and the capture
    for x, y in zip(found, expected, strict=True):
        assert_same(x, y)
    assert_same(other.values(), eager.values())
    assert mt.backend.next_offset(16) == after  # dropout goes on where the step would have
    masks = {x[2].tobytes() for x in found}
    assert len(masks) == len(found)


@gpu
def test_eager_steps_and_replays_alternate():
    eager, other = Trainer(), Trainer()
    data = batches(10)
    expected = run(eager, eager.step, data)
    graphed = GraphedStep(other.step, num_warmup_iters=1)
    mt.manual_seed(5)
    gpt()  # as before the steps of `eager`: the same position in the random numbers
    mt.manual_seed(20170612)
    start = None
    del start
    found = []
    for i, (ids, targets) in enumerate(data):
        found += run(other, other.step if i in (4, 7) else graphed, [(ids, targets)])
    assert graphed.replays == 7
    assert len(found) == len(expected)
