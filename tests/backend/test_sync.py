"""Synchronization: counting and forbidding operations for which the host waits."""

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend.sync import StrictError


@pytest.fixture
def x():
    return backend.from_host(np.array([[3.0, 0.0], [1.0, 2.0]]), "strict")


SYNCHRONISING = {
    "float": lambda x, xp: float(x.sum()),
    "int": lambda x, xp: int(x.sum()),
    "complex": lambda x, xp: complex(x.sum()),
    "bool": lambda x, xp: bool(x.any()),
    "if": lambda x, xp: 1 if x.sum() > 0 else 0,
    "item": lambda x, xp: x.sum().item(),
    "get": lambda x, xp: x.get(),
    "tolist": lambda x, xp: x.tolist(),
    "str": lambda x, xp: str(x),
    "format": lambda x, xp: f"{x.sum():.1f}",
    "percent": lambda x, xp: "%.1f" % x.sum(),  # noqa: UP031
    "iteration": lambda x, xp: list(x),
    "in": lambda x, xp: 3.0 in x[0],
    "to_host": lambda x, xp: backend.to_host(x),
    "to another device": lambda x, xp: backend.to_device(x, "strict:1"),
    "mask": lambda x, xp: x[x > 1],
    "mask in a tuple": lambda x, xp: x[x[:, 0] > 1, 0],
    "assignment through a mask": lambda x, xp: x.__setitem__(x > 1, x[0, :1]),
    "nonzero": lambda x, xp: x.nonzero(),
    "xp.nonzero": lambda x, xp: xp.nonzero(x),
    "xp.where(condition)": lambda x, xp: xp.where(x > 1),
    "xp.unique": lambda x, xp: xp.unique(x),
    "xp.argwhere": lambda x, xp: xp.argwhere(x),
}


@pytest.mark.parametrize("name", SYNCHRONISING)
def test_each_is_counted_and_can_be_forbidden(x, name):
    xp = backend.array_module(x)
    before = backend.sync_count()
    SYNCHRONISING[name](x, xp)
    assert backend.sync_count() > before
    with backend.forbid_sync(), pytest.raises(StrictError, match="makes the host wait"):
        SYNCHRONISING[name](x, xp)
    SYNCHRONISING[name](x, xp)


def test_work_on_the_device_is_free(x):
    xp = backend.array_module(x)
    before = backend.sync_count()
    with backend.forbid_sync():
        y = xp.exp(x - x.max(axis=-1, keepdims=True))
        y /= y.sum(axis=-1, keepdims=True)
        y = xp.where(x > 1, y @ x, 0.0).reshape(-1)[1:]
        y[0] = 7.0
        x[x > 2] = 0.0
        x.shape, x.dtype, len(x), repr(x), x.flags.c_contiguous
        xp.allclose(x, x)
        y[xp.arange(2)] += 1
    assert backend.sync_count() == before


def test_forbidding_nests_and_ends(x):
    with backend.forbid_sync():
        with backend.forbid_sync():
            pass
        with pytest.raises(StrictError):
            float(x[0, 0])
    with pytest.raises(ValueError), backend.forbid_sync():
        raise ValueError
    assert float(x[0, 0]) == 3


def test_transfers_are_counted():
    before = backend.transfer_count()
    x = backend.from_host(np.ones(2), "strict")
    xp = backend.array_module(x)
    xp.array([1, 2])
    x[[0, 1]]
    assert backend.transfer_count() == before + 3
    xp.zeros(3), xp.arange(4), xp.asarray(x)
    assert backend.transfer_count() == before + 3
