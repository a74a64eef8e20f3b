"""Scaling benchmark: costs, their exponents, the curves, and the numbers of the lectures."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from benchmarks.scaling import cost
from benchmarks.scaling.__main__ import fits, measured
from benchmarks.scaling.cost import cost_of, fitted_exponent
from benchmarks.scaling.curves import CURVES, Curve, attention_in, gpt_step
from benchmarks.scaling.pictures import draw
from benchmarks.scaling.report import amount, sums_table, table
from benchmarks.scaling.sums import patches, pixels, sums, windows
from minitorch_attn.ops.attention import causal as attention_causal
from minitorch_attn.ops.attention import tiled as attention_tiled


@pytest.mark.slow
def test_memory_of_a_step_is_what_it_holds_at_once():
    def step():
        first = np.ones(1 << 17)  # 1 MiB
        second = first + 1
        del first
        return second * 2

    found = cost_of(step, seconds=0)
    assert 2 << 20 <= found["bytes"] < (2 << 20) + (1 << 18)
    assert found["seconds"] > 0


def test_the_time_is_that_of_the_step_nobody_disturbed():
    clock, lasts = [0.0], iter([5, 5, 3, 1, 2])  # seconds: two steps untimed, then three

    def step():
        clock[0] += next(lasts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost.time, "perf_counter", lambda: clock[0])
        assert cost_of(step, seconds=0)["seconds"] == 1
    assert next(lasts, None) is None


@pytest.mark.parametrize("power", [0.5, 1, 2, 4])
def test_an_exponent_is_found_behind_a_constant_cost(power):
    sizes = [2**k for k in range(12)]
    costs = [3.0 * size**power for size in sizes]
    assert fitted_exponent(sizes, costs) == pytest.approx(power)
    costs[:6] = [costs[6]] * 6
    assert fitted_exponent(sizes, costs) == pytest.approx(power)


def test_attention_is_chosen_and_put_back():
    before = attention_tiled.FROM_SCORES, attention_tiled.FROM_TOKENS
    rows = attention_causal.ROWS
    with attention_in("tiled"):
        assert attention_tiled.tiles_pay((1, 1, 3, 5))
    with attention_in("full"):
        assert not attention_tiled.tiles_pay((1, 1, 10**6, 10**6))
        x = mt.zeros(1, 1000, 2)
        assert not attention_causal.rows_pay(x, x, None, True)
    assert attention_causal.ROWS == rows and attention_causal.rows_pay(x, x, None, True)
    assert (attention_tiled.FROM_SCORES, attention_tiled.FROM_TOKENS) == before


@pytest.mark.slow
def test_memory_of_full_attention_grows_with_the_square_and_of_tiles_does_not():
    def exponent(kind):
        curve = Curve("", "", (), lambda n: gpt_step(context=n, batch=1, width=8, layers=1), kind)
        return fits(list(measured(curve, (1024, 2048), seconds=0, least=1)))["bytes_exponent"]

    assert exponent("full") > 1.8
    assert exponent("tiled") < 1.2


def test_each_curve_can_take_a_step():
    for curve in CURVES:
        if curve.what != "pixels of an image":
            curve.step(curve.sizes[0])()
        assert list(curve.sizes) == sorted(curve.sizes)


def test_the_sums_of_the_lectures():
    assert pixels(128) * 48 * 16 * 4 == 768 * 2**30
    assert round(patches(224, 16) * 48 * 16 * 4 / 2**20) == 113  # from 112.5: the lecture says 112
    assert patches(224, 14) * 48 * 16 * 4 == 192 * 2**20
    assert windows(56, 56, 7) == 49 * 3136


@pytest.mark.slow
def test_models_hold_as_many_weights_as_the_formulas_say():
    rows = sums()
    counted = [row for row in rows if row["counted"] is not None]
    assert len(counted) == 4
    assert all(row["counted"] == row["formula"] for row in counted)
    assert "768 GiB" in sums_table(rows)


def test_report_and_picture(tmp_path):
    points = [{"size": n, "seconds": 1e-3 * n, "bytes": 1024 * n * n} for n in (8, 16, 32, 64)]
    curve = {"what": "length", "label": "full", "points": points, **fits(points)}
    assert math.isclose(curve["bytes_exponent"], 2)
    assert "| 8 | 64 | 8.0 to 64 ms | 1.00 | 64 KiB to 4 MiB | 2.00 |" in table([curve])
    draw({"curves": [curve]}, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert amount(100) == "0.09766 KiB"
