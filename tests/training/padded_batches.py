"""Batches of token ids with padding among the targets, and their loss, for tests of workers."""

import numpy as np

import minitorch_attn as mt

VOCABULARY = 11


class PaddedBatches:
    """Stream of batches; a few targets are padding, all in the last two rows.

    Parameters
    ----------
    draw : callable
        Function of a generator that returns ids of shape (row, token + 1).
    """

    def __init__(self, draw):
        self.draw, self.position = draw, 0

    def __next__(self):
        ids = self.draw(np.random.default_rng(self.position))
        self.position += 1
        targets = ids[:, 1:].copy()
        targets[-2:, 2:] = -100
        return mt.tensor(ids[:, :-1]), mt.tensor(targets)

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


def loss_function(model, batch):
    ids, targets = batch
    logits = model(ids).reshape(-1, VOCABULARY)
    return mt.nn.functional.cross_entropy(logits, targets.reshape(-1), ignore_index=-100)


def count(batch):
    """Return the number of targets that are not padding."""
    return int((batch[1] != -100).sum().item())
