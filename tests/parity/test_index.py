"""Random mixed indices: shapes, values and gradients equal PyTorch's."""

import random

import numpy as np
import pytest

import minitorch_attn as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

SHAPE = (3, 4, 2, 5)


def random_index(choice):
    """A tuple of entries, NumPy arrays standing for index tensors and masks."""
    entries, axis, lengths = [], 0, choice.choice([(2,), (1,), (2, 1), (3, 2)])
    while axis < len(SHAPE) and choice.random() < 0.85:
        size = SHAPE[axis]
        kind = choice.choice(["int", "slice", "slice", "None", "array", "array", "mask", "0-d"])
        if kind == "int":
            entries.append(choice.randrange(-size, size))
        elif kind == "slice":
            entries.append(slice(choice.choice([None, 0, 1, -2]), choice.choice([None, size, -1]),
                                 choice.choice([None, 1, 2])))  # fmt: skip
        elif kind == "None":
            entries.append(None)
            axis -= 1
        elif kind == "array":
            values = [choice.randrange(-size, size) for _ in range(int(np.prod(lengths)))]
            entries.append(np.array(values).reshape(lengths))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[choice.sample(range(size), min(size, lengths[-1]))] = True
            entries.append(mask)
        else:
            entries.append(np.array(choice.randrange(size)))
        axis += 1
    if choice.random() < 0.3:
        entries.append(Ellipsis)
    return tuple(entries)


def run(library, index, values):
    made = tuple([library.tensor(e) if isinstance(e, np.ndarray) else e for e in index])
    x = library.tensor(values, requires_grad=True)
    y = x[made]
    weights = np.asarray(np.random.default_rng(1).standard_normal(tuple(y.shape)))
    (y * library.tensor(weights)).sum().backward()
    target = library.tensor(values)
    target[made] = 9.0
    return y.detach().numpy(), x.grad.numpy(), target.numpy()


@pytest.mark.parametrize("batch", range(4))
def test_random_indices(batch):
    values = np.random.default_rng(0).standard_normal(SHAPE)
    compared = 0
    for seed in range(200 * batch, 200 * (batch + 1)):
        index = random_index(random.Random(seed))
        try:
            wanted = run(torch, index, values)
        except (IndexError, RuntimeError):
            with pytest.raises((IndexError, ValueError)):
                run(mt, index, values)
            continue
        for have, want in zip(run(mt, index, values), wanted, strict=True):
            assert have.shape == want.shape, (seed, index)
            np.testing.assert_allclose(have, want, err_msg=f"{seed} {index}")
        compared += 1
    assert compared > 100
