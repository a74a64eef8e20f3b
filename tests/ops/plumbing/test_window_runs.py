"""Windows as runs of memory: every place of every window, for all sizes, kernels and strides."""

import itertools

import numpy as np
import pytest

from minitorch_attn.ops.plumbing.window_runs import WindowRuns

CASES = [
    (size, kernel, stride)
    for size in ((1, 1), (5, 3), (2, 7), (6, 6))
    for kernel in (1, 3, 5)
    for stride in (1, 2, 3, 4)
]


def window_places(x, kernel, stride):
    """(item, channel, *size) -> (item, channel, kernel * kernel, *places), zeros outside."""
    half = kernel // 2
    wide = np.pad(x, ((0, 0), (0, 0), (half, half), (half, half)))
    view = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))
    view = view[:, :, ::stride, ::stride]  # (item, channel, *places, kernel, kernel)
    return view.reshape(*view.shape[:4], -1).transpose(0, 1, 4, 2, 3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_runs_and_views_are_the_windows(rng, case):
    size, kernel, stride = case
    runs, x = WindowRuns(*case), rng.normal(size=(2, 3, *size))
    expected = window_places(x, kernel, stride)
    assert runs.places == expected.shape[3:]
    spread = runs.spread(x)
    for entry, (phase, start) in enumerate(runs.entries):
        run = spread[:, :, phase, start : start + runs.length]
        assert run.shape[-1] == runs.length
        np.testing.assert_array_equal(runs.places_of(run), expected[:, :, entry])
    seen = np.full((2, 3, kernel, kernel, runs.length), np.nan)
    for view, (rows, columns) in runs.views(spread):
        assert np.shares_memory(view, spread)
        seen[:, :, rows, columns] = view
    found = [
        runs.places_of(seen[:, :, i, j]) for i, j in itertools.product(range(kernel), repeat=2)
    ]
    np.testing.assert_array_equal(np.stack(found, 2), expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_collect_is_the_adjoint_of_spread(rng, case):
    runs, x = WindowRuns(*case), rng.normal(size=(2, 3, *case[0]))
    spread = runs.spread(x)
    y = rng.normal(size=spread.shape)
    assert np.isclose((spread * y).sum(), (x * runs.collect(y)).sum())
    np.testing.assert_array_equal(runs.collect(spread), x)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_runs_of_places_and_back(rng, case):
    runs = WindowRuns(*case)
    x = rng.normal(size=(2, 3, *runs.places))
    arranged = runs.runs_of(x)
    assert arranged.shape == (2, 3, runs.length)
    np.testing.assert_array_equal(runs.places_of(arranged), x)
    assert np.isclose(np.abs(arranged).sum(), np.abs(x).sum())  # zeros between the rows
