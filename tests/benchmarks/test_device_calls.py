"""Upper bounds of the device calls of a step; the counts are exact, so they may be asserted."""

import json

import pytest

from benchmarks import device_calls, device_chart, device_estimate

# The bounds leave room for a handful of calls, not for an operation that lost its kernel.
BOUNDS = {"w1": 161, "w4b": 440, "w5": 102, "w7": 71}


@pytest.mark.gpu
@pytest.mark.parametrize("name", BOUNDS)
def test_a_step_stays_within_its_calls(name):
    pytest.importorskip("cupysim")
    calls = device_calls.count(name)
    assert 0 < calls.total <= BOUNDS[name], calls
    if name == "w7":  # the id of the next token is read, and with it the range checks
        assert calls.synchronisations == 1 and calls.host_copies == 2
    else:
        assert calls.synchronisations == calls.host_copies == 0


@pytest.mark.gpu
def test_the_counts_do_not_depend_on_the_batch():
    pytest.importorskip("cupysim")
    assert device_calls.count("w1", batch=1) == device_calls.count("w1", batch=3)


def test_the_page_has_a_row_for_each_workload():
    text = device_calls.PAGE.read_text(encoding="utf-8")
    rows = text[text.index(device_calls.START) : text.index(device_calls.END)]
    assert all(title in rows for title in device_calls.TITLES.values())


NOW = device_calls.Calls(128, 75, 2, 1, 0, 3)
COMPOSED = device_calls.Calls(562, 117, 68, 5, 0, 4)
ROWS = {
    "w1": {
        "before": 948, "must": 340, "aim": 220,
        "composed": {"launches": 562, "products": 117, "copies": 68, "memsets": 5,
                     "synchronisations": 0, "host_copies": 4, "all": 752},
        "now": {"launches": 128, "products": 75, "copies": 2, "memsets": 1, "synchronisations": 0,
                "host_copies": 3, "all": 206},
    }
}  # fmt: skip


def test_counts_become_rows_and_a_table():
    assert device_calls.rows_of({"w1": COMPOSED}, {"w1": NOW}) == ROWS
    row = "| W1, training step | 948 | 752 | 340 | 220 | **206** | 128 | 75 | 2 | 1 | 0 | 3 |"
    assert device_calls.table(ROWS).splitlines()[2] == row


def test_the_stored_counts_are_on_the_page_and_within_the_goals():
    stored = json.loads(device_calls.STORED.read_text(encoding="utf-8"))["workloads"]
    text = device_calls.PAGE.read_text(encoding="utf-8")
    assert device_calls.table(stored) in text
    assert device_calls.PICTURE.exists() and f"images/{device_calls.PICTURE.name}" in text
    assert set(stored) == set(device_calls.WORKLOADS) == set(BOUNDS)
    for name, row in stored.items():
        assert row["now"]["all"] < row["composed"]["all"]
        assert row["now"]["all"] <= min(row["must"], BOUNDS[name]) and row["aim"] < row["must"]


def test_the_lesson_states_the_stored_counts():
    stored = json.loads(device_calls.STORED.read_text(encoding="utf-8"))["workloads"]["w1"]
    (lesson,) = (device_calls.DOCS.parent / "lessons").glob("*_what_a_launch_costs.py")
    assert f"for calls in ({stored['before']}, {stored['now']['all']}):" in lesson.read_text(
        "utf-8"
    )


def test_an_estimate_divides_the_work_by_the_figures_of_the_gpu():
    gpu = device_estimate.Gpu("a GPU", flops=2e12, bandwidth=1e12, source="a data sheet")
    found = device_estimate.Estimate(flops=4e9, nbytes=3e9, calls=100, gpu=gpu)
    assert (found.arithmetic, found.memory, found.launching) == (2e-3, 3e-3, (5e-4, 1e-3))
    assert found.bound == "memory"
    text = device_estimate.table({"w1": "W1, training step"}, {"w1": found})
    assert "| W1, training step | 4 | 3000 | 2,000 | 3,000 | 500 to 1,000 | memory |" in text


def test_the_work_of_w1_is_that_of_its_products():
    found = device_estimate.estimate("w1", calls=203)
    tokens, width, layers, vocabulary = 12 * 64, 128, 4, 65
    # each product of the forward pass has two in the backward pass: 6 operations per weight
    weights = layers * 12 * width * width + width * vocabulary
    assert 6 * tokens * weights < found.flops < 1.2 * 6 * tokens * weights
    assert found.nbytes > 7 * 4 * weights and found.bound == "launches"


def test_the_picture_is_drawn(tmp_path):
    estimates = {"w1": device_estimate.Estimate(4e9, 1e8, 203)}
    device_chart.draw({"w1": "W1, training step"}, ROWS, estimates, tmp_path / "calls.png")
    assert (tmp_path / "calls.png").read_bytes().startswith(b"\x89PNG")
