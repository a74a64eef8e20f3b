"""`python -m benchmarks gpu`: what it does without a GPU, and how it stores its results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu

ROOT = Path(__file__).resolve().parents[2]
ROW = {"ms": 2.0, "least_ms": 1.5, "most_ms": 3.25, "mb": 31.0}
RESULTS = {
    "name": "GPU 1", "cupy": "14.2.0", "kernels": {"summary": "300 passed"},
    "workloads": {"w1": ROW, "w7": ROW},
    "attention": {"256": {"forward": {**ROW, "tflops": 4.0}, "both": {**ROW, "tflops": 2.0}}},
}  # fmt: skip


def test_without_a_gpu_it_says_so_and_succeeds(request):
    if request.config.getoption("--device") == "cupy":
        pytest.skip("there is a GPU")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "gpu"], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "There is no GPU: nothing was measured." in done.stdout


def test_the_table_has_all_parts():
    text = gpu.table(RESULTS)
    assert "GPU 1, CuPy 14.2.0:" in text and "* kernels: 300 passed" in text
    assert "| W1 | 2.00 | 1.50 to 3.25 | 31 |" in text
    assert "| 256 | 2.00 | 4.0 | 2.00 | 2.0 | 31 |" in text


def test_a_part_that_failed_leaves_the_others():
    failed = {**RESULTS, "workloads": {"status": "failed", "summary": "OutOfMemoryError: 3 GB"}}
    text = gpu.table(failed)
    assert "* workloads: OutOfMemoryError: 3 GB" in text and "| 256 |" in text


@pytest.mark.gpu
def test_results_are_stored_after_each_part(tmp_path, monkeypatch):
    page = tmp_path / "devices.md"
    page.write_text(f"before\n{gpu.START}\nold\n{gpu.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(gpu, "BATCHES", dict.fromkeys(gpu.BATCHES, {}))
    monkeypatch.setattr(gpu, "_attention", lambda repeats: 1 // 0)
    assert gpu.main(["workloads", "attention", "--repeats", "1"], page, tmp_path) == 0
    (stored,) = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("gpu-*.json")]
    assert set(stored["workloads"]) == {"w1", "w4b", "w5", "w7"}
    assert stored["attention"]["summary"].startswith("ZeroDivisionError")
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| W1 | " in text and "* attention: ZeroDivisionError" in text


@pytest.mark.gpu
def test_attention_is_timed_by_length():
    found = gpu._attention(1, lengths=(16, 32))
    assert set(found) == {"16", "32"}
    for rows in found.values():
        assert rows["forward"]["ms"] > 0 and rows["both"]["tflops"] > 0
