"""Upper bounds of the device calls of a step; the counts are exact, so they may be asserted."""

import pytest

from benchmarks import device_calls

pytestmark = pytest.mark.gpu

# The bounds leave room for a handful of calls, not for an operation that lost its kernel.
BOUNDS = {"w1": 206, "w4b": 576, "w5": 150, "w7": 126}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_step_stays_within_its_calls(name):
    pytest.importorskip("cupysim")
    calls = device_calls.count(name)
    assert 0 < calls.total <= BOUNDS[name], calls
    if name == "w7":  # the id of the next token is read, and with it the range checks
        assert calls.synchronisations == 1 and calls.host_copies == 2
    else:
        assert calls.synchronisations == calls.host_copies == 0


def test_the_counts_do_not_depend_on_the_batch():
    pytest.importorskip("cupysim")
    assert device_calls.count("w1", batch=1) == device_calls.count("w1", batch=3)


def test_the_page_has_a_row_for_each_workload():
    text = device_calls.PAGE.read_text(encoding="utf-8")
    rows = text[text.index(device_calls.START) : text.index(device_calls.END)]
    assert all(title in rows for title in device_calls.TITLES.values())
