"""Functions of a lesson run on several ranks, with arguments, results and messages."""

import re

import numpy as np
import pytest
from distributed.ranks import needs_mpi

import minitorch_attn as mt
from minitorch_attn.course import ranks as course_ranks
from minitorch_attn.course.lesson_list import Lesson
from minitorch_attn.course.ranks import run_ranks
from minitorch_attn.course.run_cells import LessonRun
from minitorch_attn.errors import ArgumentError, CommunicationError

dist = mt.distributed  # the functions below use it on their ranks


def plus_rank(x):
    return x + dist.get_rank()


def summed(x, scale, more):
    y = scale * plus_rank(x)
    print("from rank", dist.get_rank()) if dist.get_rank() == 1 else None
    dist.ring_all_reduce(y)
    return {
        "sum": y,
        "rank": dist.get_rank(),
        3: [more, (None, np.float64(2.5))],
        "array": np.ones(2),
    }


def calls_a_function_that_is_not_there():
    return plus_rank(1)


def waits_for_ever():
    if dist.get_rank() == 0:
        dist.recv(mt.ones(1), 1)


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_results_and_messages(ranks, capfd):
    x = mt.arange(7).float()
    run = run_ranks(ranks, summed, x, 2, {"a": [True, "s"]}, uses=[plus_rank])
    total = sum(2 * (x + rank) for rank in range(ranks))
    for rank, result in enumerate(run):
        assert isinstance(result["sum"], mt.Tensor) and (result["sum"] == total).all()
        assert result["rank"] == rank and result[3] == [{"a": [True, "s"]}, [None, 2.5]]
        assert isinstance(result["array"], np.ndarray)
    assert len(run.messages) == 2 * (ranks - 1) * ranks
    assert {message.round for message in run.messages} == set(range(1, 2 * ranks - 1))
    sent = sum(message.values.nbytes for message in run.messages)
    assert sent == 2 * (ranks - 1) * 7 * 4  # over all ranks, each part goes around twice
    assert ("from rank 1" in capfd.readouterr().out) == (ranks > 1)


@needs_mpi
@pytest.mark.slow
def test_errors_name_the_rank_and_what_to_do():
    with pytest.raises(CommunicationError, match="plus_rank.*is not defined") as caught:
        run_ranks(2, calls_a_function_that_is_not_there)
    assert re.search("rank [01] of 2", str(caught.value)) and "uses=" in str(caught.value)
    with pytest.raises(CommunicationError, match=r"waits_for_ever did not end within 3 s"):
        run_ranks(2, waits_for_ever, limit=3)
    with pytest.raises(ArgumentError, match="positive"):
        run_ranks(0, plus_rank, 1)


def test_without_mpi(monkeypatch):
    monkeypatch.setattr(course_ranks, "mpiexec", lambda: None)
    with pytest.raises(CommunicationError, match=r"mpiexec was not found"):
        run_ranks(2, plus_rank, 1)


LESSON = """# %% [markdown]
# # Plus

# %%
from minitorch_attn import distributed as dist
from minitorch_attn.course.ranks import run_ranks


class Plus:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return x + self.n


def plus_rank(x):
    return Plus(dist.get_rank())(x)


# %%
found = run_ranks(2, plus_rank, 3, uses=[Plus])
"""


@needs_mpi
def test_functions_and_classes_of_a_cell(tmp_path):
    path = tmp_path / "01_plus.py"
    path.write_text(LESSON, encoding="utf-8")
    run = LessonRun(Lesson(path))
    for _ in run.lesson.cells:
        run.run_next()
    assert run.namespace["found"] == [3, 4]


@needs_mpi
@pytest.mark.kernel
def test_functions_and_classes_of_a_notebook(tmp_path):
    for package in ("ipykernel", "nbclient", "nbformat"):
        pytest.importorskip(package)
    from minitorch_attn.course import notebooks

    path = tmp_path / "01_plus.py"
    path.write_text(LESSON + "assert found == [3, 4]\n", encoding="utf-8")
    assert notebooks.execute(notebooks.notebook(Lesson(path)), tmp_path, fast=True) is None
