"""benchmarks/distributed: rows of the ranks, figures that agree with one rank, the table."""

import numpy as np
import pytest
from distributed.ranks import needs_mpi

from benchmarks.distributed import command, rank
from benchmarks.distributed.picture import draw
from benchmarks.workloads import gpt_step, w1

FOUND = {
    "machine": {"cpu": "a processor", "cores": 2}, "workload": "w1", "message_s": 2e-6,
    "byte_s": 1e-9,
    "rows": [
        {"ranks": 1, "step_s": 0.2, "torch_s": 0.25, "ratio": 0.8, "ratio_range": [0.7, 0.9],
         "messages": 0, "bytes": 0},
        {"ranks": 3, "step_s": 0.1, "torch_s": 0.1, "ratio": 1.0, "ratio_range": [0.9, 1.2],
         "messages": 4, "bytes": 4321},
    ],
}  # fmt: skip


def test_the_rows_of_the_ranks_are_the_batch():
    whole = gpt_step.tokens(w1.SIZES["batch"], w1.SIZES["context"], w1.SIZES["vocabulary"])
    parts = [rank._part(w1.SIZES, number, 3) for number in range(3)]
    for place in (0, 1):
        assert np.array_equal(np.concatenate([part[place] for part in parts]), whole[place])


def test_the_model_predicts_the_step_of_one_rank_exactly():
    found = command.predicted(FOUND)
    assert found[1] == pytest.approx(0.2)
    assert 0.2 / 3 < found[3] < 0.2 / 3 + 0.02


def test_the_table_and_the_picture(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter\n")
    monkeypatch.setattr(command, "PAGE", page)
    found = {**FOUND, "predicted": command.predicted(FOUND)}
    command.write_page(command.table(found), command.BEGIN, command.END)
    text = page.read_text()
    assert "| 1 | 200 ms" in text  # of two cores
    assert "| 3 on 2 cores | 100 ms | 100 ms | 1.00x (0.90 to 1.20) |" in text and "4,321" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    draw(found, command.work_of("w1"), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"


def test_the_parameters_of_the_model_are_nearly_counted():
    counted = sum(p.numel() for p in gpt_step.our_model(*rank._model(w1.SIZES)).parameters())
    assert command.work_of("w1").parameters == pytest.approx(counted, rel=0.01)


@needs_mpi
def test_two_ranks_have_the_gradient_of_one():
    one, two = (command.run("minitorch_attn", "w1", ranks, 1) for ranks in (1, 2))
    assert two["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-4)
    assert one["messages"] == 0 and two["messages"] > 0
    parameters = sum(p.numel() for p in gpt_step.our_model(*rank._model(w1.SIZES)).parameters())
    assert two["bytes"] == 4 * parameters  # 2 (N - 1) / N of the gradients, for N = 2
