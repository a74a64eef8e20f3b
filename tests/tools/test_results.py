"""The results page is made from stored runs, and reports missed targets."""

import json

import pytest

from tools import results

MACHINE = {
    "cpu": "a processor", "cores": 2, "system": "a system", "python": "3.13.1",
    "versions": {"numpy": "2.4.0"}, "numpy_blas": "some-blas 0.3", "blas_kernels": "some",
    "environment": {"OMP_NUM_THREADS": "1"},
}  # fmt: skip


def entry(recipe, metric, value, seconds, megabytes, machine=MACHINE):
    return {
        "result": {"recipe": recipe, "value": value, "measured": {metric: value, "other": 0.5}},
        "seconds": seconds,
        "cpu_seconds": 2 * seconds,
        "memory": megabytes * 2**20,
        "machine": machine,
    }


@pytest.fixture
def runs(tmp_path):
    for seed, value, seconds in ((1, 0.98, 30), (2, 0.97, 70), (3, 0.99, 40)):
        stored = entry("vit", "accuracy", value, seconds, 100 + seed)
        (tmp_path / f"vit-{seed}.json").write_text(json.dumps(stored))
    (tmp_path / "dates-1.json").write_text(json.dumps(entry("dates", "exact", 1.0, 90, 120)))
    return tmp_path


def test_the_page(runs):
    text = results.page(runs)
    assert "python -m tools.results" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| `mta train vit`")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:4] == ["test accuracy: at least 97.5 %", "98.0 %, 97.0 %, 99.0 %", "2 of 3"]
    assert cells[4:] == ["40 s", "1 min 20 s", "103 MiB"]
    assert "| `mta train dates` |" in text and "1 of 1" in text
    assert "a processor, 2 cores" in text and "NumPy 2.4.0" in text and "other settings" not in text
    assert "| accuracy | 0.9800 | 0.9700 | 0.9900 |" in text


def test_runs_of_other_machines_are_mentioned(runs):
    other = entry("dates", "exact", 1.0, 80, 120, {**MACHINE, "cores": 8})
    (runs / "dates-2.json").write_text(json.dumps(other))
    assert "other settings or on another machine" in results.page(runs)


def test_without_results_there_is_no_page(tmp_path):
    with pytest.raises(SystemExit, match="no results"):
        results.page(tmp_path)


def test_recipes_without_runs_keep_their_rows_and_tables(runs):
    old = results.page(runs)
    for path in runs.glob("*.json"):
        path.unlink()
    (runs / "mae-1.json").write_text(json.dumps(entry("mae", "error", 0.9, 50, 100)))
    text = results.page(runs, old)
    (row,) = [line for line in old.splitlines() if line.startswith("| `mta train vit`")]
    order = ["`mta train dates`", "`mta train vit`", "`mta train mae`"]
    assert row in text.splitlines() and sorted(order, key=text.index) == order
    assert text.count("| accuracy | 0.9800 | 0.9700 | 0.9900 |") == 1
    assert text.index("### dates: ") < text.index("### vit: ") < text.index("### mae: ")
    assert "| error | 0.9000 |" in text and "other settings" not in text
    other = json.dumps(entry("mae", "error", 0.9, 50, 100, {**MACHINE, "cores": 8}))
    (runs / "mae-1.json").write_text(other)
    assert "other settings or on another machine" in results.page(runs, old)


def test_runs_beside_other_programs_show_no_time_and_no_memory(runs):
    assert "while other programs were running" not in results.page(runs)
    stored = {**entry("dates", "exact", 1.0, 90, 120), "beside": True}
    (runs / "dates-1.json").write_text(json.dumps(stored))
    text = results.page(runs)
    (row,) = [line for line in text.splitlines() if line.startswith("| `mta train dates`")]
    assert row.endswith("| 1 of 1 | – | 3 min 0 s | – |")
    assert "while other programs were running" in text
