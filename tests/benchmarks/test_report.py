"""Benchmark report: the table, the figure and the command line."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import chart, table
from minitorch_attn.viz.style import new_figure


@pytest.fixture
def results():
    def row(engine, ratio):
        return {
            "engine": engine, "step_ms": 12.5, "us_per_operation": 1.25, "ratio": ratio,
            "ratio_range": [ratio - 0.1, ratio + 0.1], "rounds": 3, "peak_mb": 97.0,
            "memory_ratio": 0.25, "page_faults_per_step": 3.0, "cores_used": 2.0,
            "first_step_s": 0.5,
        }  # fmt: skip

    workload = {
        "workload": "w1", "title": "a step", "rounds": 3, "discarded": 2, "reference": "torch",
        "largest_difference": 3e-7, "unavailable": {"jax": "ImportError: none"},
        "engines": [row("minitorch_attn", 0.75), row("torch", 1.0)],
    }  # fmt: skip
    machine = {
        "cpu": "a processor", "cores": 2, "python": "3.11", "versions": {"numpy": "2.4"},
        "numpy_blas": "openblas", "blas_kernels": "Haswell",
        "environment": {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": ""},
    }  # fmt: skip
    return {"machine": machine, "torch_threads": 2, "workloads": [workload]}


def test_plain_text_has_ratio_range_and_reasons(results):
    text = table.plain(results["workloads"][0])
    assert "0.75x (0.65 to 0.85)" in text
    assert "2 discarded" in text and "ratios to torch;" in text
    assert "left out: ImportError: none" in text


def test_a_section_states_its_conditions(results, tmp_path):
    path = tmp_path / "cpu-haswell.json"
    path.write_text(json.dumps(results))
    text = table._section(path)
    for part in ("a processor", "Haswell kernels", "OPENBLAS_CORETYPE=Haswell", "0.75x", "97 MB"):
        assert part in text
    assert "OMP_NUM_THREADS" not in text  # not set


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("before\n<a>\nold\n<b>\nafter\n")
    table.replace_between("<a>", "<b>", "new", path)
    assert path.read_text() == "before\n<a>\n\nnew\n\n<b>\nafter\n"


def test_the_picture_is_written(results, tmp_path):
    chart.draw(results, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_bar_beyond_the_top_has_its_value_beside_it():
    rows = [{"engine": "minitorch_attn", "ratio": 0.75, "ratio_range": (0.5, 1.0)}]
    rows.append({"engine": "jax", "ratio": 6.13, "ratio_range": (6.0, 7.0)})
    axes = new_figure(4, 3).subplots()
    chart._bars(axes, [{"workload": "w1", "engines": rows}], "ratio", "time")
    assert [text.get_text() for text in axes.texts] == ["6.1"]
    assert axes.get_ylim() == (0, chart.TOP)
    ours, other = [bar.get_x() for bar in axes.patches]
    assert ours == pytest.approx(-0.4) and other == pytest.approx(0)  # no place for others


def test_stored_results_are_kept_if_measured_under_the_same_conditions(results, tmp_path):
    path = tmp_path / "stored.json"
    path.write_text(json.dumps(results))
    new = {**results, "workloads": [{**results["workloads"][0], "workload": "w6"}]}
    both = command._with_stored(path, new)
    assert [found["workload"] for found in both] == ["w1", "w6"]
    assert command._with_stored(path, {**new, "torch_threads": 1}) == new["workloads"]


def test_quick_takes_one_turn_of_two_engines():
    args = command.arguments(["--quick"])
    assert args.workloads == command.WORKLOADS and args.rounds == 1
    assert "torch_compile" in args.leave_out and "torch" not in args.leave_out


def test_the_geometric_mean_of_the_plain_loop():
    def rows(**ratios):
        return [{"engine": engine, "ratio": ratio} for engine, ratio in ratios.items()]

    names = ("w1", "w2", "w2l", "w3", "w4f", "w4b", "w5", "w6", "w7")
    workloads = [{"workload": name, "engines": rows(minitorch_attn=0.5)} for name in names]
    assert table.geometric_mean(workloads) is None  # no plain loop was measured
    workloads[0]["engines"] = rows(minitorch_attn=9.0, minitorch_attn_plain=2.0)
    assert table.geometric_mean(workloads) == pytest.approx(2 ** (-6 / 8))
    assert table.geometric_mean(workloads[1:]) is None
    workloads[2]["engines"] = rows(minitorch_attn_plain=100.0)  # W2L does not count
    assert table.geometric_mean(workloads) == pytest.approx(2 ** (-6 / 8))
