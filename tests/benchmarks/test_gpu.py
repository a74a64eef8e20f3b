"""`python -m benchmarks gpu`: what it does without a GPU, and how it stores its results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import attention, calls, command, graphs, kernels, parts, timing, workloads
from benchmarks.gpu.page import END, START, table
from benchmarks.workloads import Step, gpt_step

ROOT = Path(__file__).resolve().parents[2]
TIMES = {"ms": 2.0, "least_ms": 1.5, "most_ms": 3.25, "mb": 31.0}
ROW = {
    **TIMES, "title": "a step", "tflops": 1.5, "gb_per_s": 800.0, "torch": "",
    "torch_ms": 4.0, "torch_range_ms": [3.5, 4.5], "torch_mb": 62.0,
    "calls": {
        "launches": 200, "copies": 3, "memsets": 0, "all": 203, "by": "CUPTI", "busy_ms": 0.5
    },
}  # fmt: skip
ALONE = {
    **TIMES,
    "tflops": 1.5,
    "gb_per_s": 800.0,
    "torch": "PyTorch is not installed",
    "calls": {},
}
RESULTS = {
    "name": "GPU 1", "cupy": "14.2.0",
    "kernels": {"status": "passed", "summary": "300 passed", "failed": []},
    "workloads": {"w1": ROW, "w7": ALONE, "w2": {"failed": "OutOfMemoryError: 3 GB"}},
    "kernel-times": {
        "softmax": {
            "kernel_ms": 0.01, "composed_ms": 0.05, "ratio": 5.0, "ratio_range": [4.0, 6.0]
        }
    },
    "attention": {
        "256": {"torch": "", "forward": {**TIMES, "tflops": 4.0, "torch_ms": 1.25},
                "both": {**TIMES, "tflops": 2.0}}
    },
    "graphs": {
        "w1": {"eager_ms": 2.0, "graph_ms": 0.5, "reason": ""},
        "w7": {"eager_ms": 3.0, "reason": "the step waits for the device"},
    },
}  # fmt: skip


def test_without_a_gpu_it_says_so_and_succeeds(request):
    if request.config.getoption("--device") == "cupy":
        pytest.skip("there is a GPU")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "gpu"], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "There is no GPU: nothing was measured." in done.stdout


def test_all_parts_together_end_in_time():
    assert sum(command.LIMITS.values()) + command.TO_STORE * len(command.LIMITS) < 35 * 60
    assert command.MINUTES < 35
    assert set(command.PARTS) == {*parts.MEASURED, *command.TESTS}


def test_the_table_has_all_parts():
    text = table(RESULTS)
    assert "GPU 1, CuPy 14.2.0:" in text and "Tests of the kernels: 300 passed" in text
    w1 = "| W1 | 2.00 | 1.50 to 3.25 | 4.00 | 0.50x | 203 | 0.50 | 1.50 | 800 | 31 | 62 |"
    assert w1 in text
    assert "| W7 | 2.00 | 1.50 to 3.25 |  |  |  |  | 1.50 | 800 | 31 |  |" in text
    assert "* workloads, w2: OutOfMemoryError: 3 GB" in text
    assert "Device calls are counted by: CUPTI." in text and "PyTorch is not installed." in text
    assert "| softmax | 0.010 | 0.050 | 5.0x | 4.0 to 6.0 |" in text
    assert "| 256 | 2.00 | 1.25 | 4.0 | 31 | 2.00 |  | 2.0 | 31 |" in text
    assert "| W1 | 2.00 | 0.50 | 4.0x |  |" in text
    assert "| W7, one token | 3.00 |  |  | not available: the step waits for the device |" in text


def test_every_row_has_as_many_cells_as_its_head():
    tables, rows = [], []
    for line in [*table(RESULTS).splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line.count("|"))
        elif rows:
            tables, rows = [*tables, rows], []
    assert len(tables) == 4 and all(len(set(rows)) == 1 for rows in tables)


@pytest.mark.parametrize("part", command.PARTS)
def test_a_part_that_failed_leaves_the_others(part):
    failed = {"summary": "stopped"} if part in command.TESTS else {"end": {"failed": "stopped"}}
    text = table({**RESULTS, part: failed})
    assert "stopped" in text
    assert "| W1 | " in text


def test_the_items_of_a_part_are_kept_one_by_one():
    stored = []
    found = parts.run_part(
        {"a": lambda: {"ms": 1}, "b": lambda: 1 // 0, "c": lambda: {"ms": 3}},
        lambda results: stored.append(dict(results)), seconds=60,
    )  # fmt: skip
    assert [list(results) for results in stored] == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert found["b"]["failed"].startswith("ZeroDivisionError") and found["c"] == {"ms": 3}


def test_no_item_starts_after_the_time_is_over():
    found = parts.run_part({"a": lambda: {"ms": 1}}, lambda results: None, seconds=-1)
    assert found == {"a": {"failed": "no time left"}}


def test_a_process_that_ends_early_leaves_its_results_and_its_reason(monkeypatch):
    def crash(words, timeout, **settings):
        Path(words[4]).write_text('{"w1": {"ms": 1}}', encoding="utf-8")
        return subprocess.CompletedProcess(words, -11, stderr="...\nillegal address")

    monkeypatch.setattr(command.subprocess, "run", crash)
    found = command.run("workloads", 5)
    assert found == {"w1": {"ms": 1}, "end": {"failed": "illegal address"}}


@pytest.mark.parametrize(
    ("part", "expected"), [("tests", "stopped after 5 s, 42% done"), ("graphs", "after 20 s")]
)
def test_a_part_that_takes_too_long_is_stopped(monkeypatch, part, expected):
    def hang(words, timeout, **settings):
        raise subprocess.TimeoutExpired(words, timeout, output=b"....  [ 21%]\n....  [ 42%]\n..")

    monkeypatch.setattr(command.subprocess, "run", hang)
    assert expected in json.dumps(command.run(part, 5))


def test_events_of_the_device_are_sorted_into_kinds():
    names = ["gemm", "softmax_forward", "Memcpy DtoH (Device -> Pinned)", "Memset (Device)"]
    found = calls.of_events([(name, 250.0) for name in names])
    assert (found["launches"], found["copies"], found["memsets"], found["all"]) == (2, 1, 1, 4)
    assert found["busy_ms"] == 1.0


def test_a_round_runs_every_engine_once(monkeypatch):
    ran = []
    monkeypatch.setattr(timing, "synchronize", lambda: None)
    steps = {name: lambda name=name: ran.append(name) for name in "ab"}
    found = timing.turns(steps, rounds=3, seconds=0.0)
    assert ran == ["a", "b"] + 3 * ["a", "b"]
    assert [len(times) for times in found.values()] == [3, 3]


@pytest.mark.slow
def test_torch_without_cuda_is_not_measured():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch has a GPU")
    assert workloads.torch_or_reason(dict) == (None, "PyTorch is installed without CUDA")


@pytest.mark.gpu
def test_results_are_stored_after_each_part(tmp_path):
    page = tmp_path / "devices.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n", encoding="utf-8")
    pages = []

    def run(part, seconds, quick):
        pages.append(page.read_text("utf-8"))
        assert 0 < seconds <= command.LIMITS[part] and not quick
        return RESULTS[part]

    assert command.main(["workloads", "graphs"], page, tmp_path, run) == 0
    (stored,) = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("gpu-*.json")]
    assert set(stored) == {"name", "cupy", "workloads", "graphs"}
    assert command.main(["attention"], page, tmp_path, run) == 0
    (stored,) = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("gpu-*.json")]
    assert set(stored) == {"name", "cupy", "workloads", "graphs", "attention"}
    assert "old" in pages[0] and "| W1 | 2.00" in pages[1] and "4.0x" not in pages[1]
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "4.0x" in text


@pytest.mark.gpu
def test_parts_share_the_minutes(tmp_path):
    page = tmp_path / "devices.md"
    page.write_text(f"{START}\n{END}\n", encoding="utf-8")
    given = []
    command.main(
        ["graphs", "--minutes", "2"], page, tmp_path, lambda part, s, quick: given.append(s) or {}
    )
    command.main(["tests", "--minutes", "0.1"], page, tmp_path, lambda *_: 1 // 0)
    assert 100 < given[0] <= 105
    assert "no time left" in page.read_text("utf-8")


@pytest.mark.gpu
def test_a_quick_run_measures_in_a_process_and_stores_nothing(tmp_path, capsys):
    page = tmp_path / "devices.md"
    page.write_text(f"{START}\n{END}\n", encoding="utf-8")
    assert command.main(["attention", "--quick"], page, tmp_path) == 0
    assert "| 16 | " in capsys.readouterr().out
    assert page.read_text("utf-8") == f"{START}\n{END}\n" and not list(tmp_path.glob("*.json"))


def _tiny():
    """Return a module with one workload: a product, with its gradient."""
    import minitorch_attn as mt

    def ours():
        x = mt.ones(3, 5, device="cuda", requires_grad=True)

        def run():
            x.grad = None
            (x @ x.T).sum().backward()

        return Step(run, lambda: {"grad x": x.grad.numpy()})

    return type(
        "module", (), {"TITLE": "a product", "ENGINES": {"minitorch_attn": ours, "torch": ours}}
    )


@pytest.mark.gpu
def test_a_workload_is_measured():
    row = workloads.compare("w1", _tiny(), rounds=1, seconds=0.0)
    assert row["ms"] > 0 and row["mb"] > 0 and row["calls"]["launches"] >= 3
    # 2 * 3 * 5 * 3 operations forward, twice as many backward
    assert row["tflops"] * row["ms"] * 1e9 == pytest.approx(270)
    assert row["torch"] or row["difference"] < 1e-6


@pytest.mark.gpu
def test_adamws_bytes_are_counted():
    import minitorch_attn as mt

    x = mt.ones(7, device="cuda")
    step = Step(lambda: x + x, lambda: {"grad x": x.numpy(), "loss": x.numpy()})
    (_, without), (_, with_adamw) = (workloads.work_of(step, adamw) for adamw in (False, True))
    assert with_adamw - without == 7 * 4 * 7


@pytest.mark.gpu
@pytest.mark.parametrize("name", kernels.CASES)
def test_a_kernel_is_timed_beside_its_composed_version(name):
    row = kernels.compare(name, rows=3, width=7, rounds=1, seconds=0.0)
    assert row["kernel_ms"] > 0 and row["composed_ms"] > 0 and row["ratio"] > 0


@pytest.mark.gpu
def test_the_composed_version_runs_without_kernels():
    pytest.importorskip("cupysim")
    import minitorch_attn as mt

    x = mt.randn(3, 7, device="cuda")
    with kernels.without_kernels():
        composed = calls.calls_of(lambda: mt.softmax(x, -1))["all"]
    assert calls.calls_of(lambda: mt.softmax(x, -1))["all"] == 1 < composed


@pytest.mark.gpu
def test_attention_is_timed_by_length():
    found = attention.compare(16, rounds=1, seconds=0.0)
    assert found["forward"]["ms"] > 0 and found["both"]["tflops"] > 0


@pytest.mark.gpu
def test_a_graph_is_timed_or_the_reason_is_stated(monkeypatch):
    import minitorch_attn as mt

    ran = []
    monkeypatch.setattr(graphs, "_training", lambda name: lambda: ran.append(name))
    monkeypatch.delattr(mt.cuda, "GraphedStep", raising=False)
    assert graphs.compare("w1") == {"reason": "this version has no mt.cuda.GraphedStep"}

    class GraphedStep:
        reason = None

        def __init__(self, step):
            self.step = step

        def __call__(self):
            self.step()

    monkeypatch.setattr(mt.cuda, "GraphedStep", GraphedStep, raising=False)
    row = graphs.compare("w1", rounds=1, seconds=0.0)
    assert row["eager_ms"] > 0 and row["graph_ms"] > 0 and row["reason"] == ""
    assert len(ran) == graphs.WARM_UP + 1 + 2 + 2
    monkeypatch.setattr(GraphedStep, "reason", "it waits")
    row = graphs.compare("w1", rounds=1, seconds=0.0)
    assert row["reason"] == "it waits" and "graph_ms" not in row


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["w1", "w7"])
def test_a_captured_step_is_timed(name, monkeypatch):
    import minitorch_attn as mt
    from benchmarks.workloads import w1, w7

    if not hasattr(mt.cuda, "GraphedStep"):
        pytest.skip("no mt.cuda.GraphedStep")
    small = dict(layers=1, heads=2, width=8, context=16, vocabulary=11)
    monkeypatch.setattr(w7, "SIZES", small)
    monkeypatch.setattr(w1, "ENGINES", gpt_step.engines({**small, "batch": 2}))
    row = graphs.compare(name, rounds=1, seconds=0.0, tokens=5)
    assert row["reason"] == "" and row["eager_ms"] > 0 and row["graph_ms"] > 0
