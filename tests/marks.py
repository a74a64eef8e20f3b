"""Marks for parametrized tests."""

import pytest


def slow_except(fast, values):
    """Return parameters for a test: those that are not in `fast` are marked as slow.

    Parameters
    ----------
    fast : collection
        Values with which the test runs by default.
    values : iterable
        All values.

    Returns
    -------
    list
    """
    return [v if v in fast else pytest.param(v, marks=pytest.mark.slow) for v in values]
