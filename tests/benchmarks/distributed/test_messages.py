"""benchmarks/distributed/messages.py: counted steps are those of the formulas, and the table."""

import json

import pytest
from distributed.ranks import needs_mpi

from benchmarks.distributed import command, messages
from benchmarks.distributed.count import step_of
from benchmarks.distributed.formulas import SCHEMES, obstacle, sent

STORED = command.RESULTS / "distributed-messages.json"


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.slow
def test_a_step_sends_what_the_formulas_say(ranks):
    found = messages.count("w1", (ranks,))["ranks"][str(ranks)]  # compares them
    assert list(found) == list(SCHEMES)
    losses = {scheme: found[scheme]["loss"] for scheme in SCHEMES}
    of_rows = losses.pop("data"), losses.pop("zero1")  # the loss of rank 0's sequences
    assert of_rows[0] == of_rows[1]
    assert max(losses.values()) - min(losses.values()) < 1e-5


@needs_mpi
def test_a_difference_is_an_error(monkeypatch):
    monkeypatch.setattr(messages, "sent", lambda scheme, *sizes: (1, 2))
    with pytest.raises(SystemExit, match="data, 1 ranks"):
        messages.count("w1", (1,))


def test_stored_counts_are_those_of_the_formulas():
    found = json.loads(STORED.read_text(encoding="utf-8"))
    step = step_of(found["workload"])
    assert [int(size) for size in found["ranks"]] == list(messages.RANKS)
    for size, schemes in found["ranks"].items():
        ranks = int(size)
        assert list(schemes) == [s for s in SCHEMES if not obstacle(s, step, ranks)]
        for scheme, counts in schemes.items():
            assert counts["sent"] == [list(sent(scheme, step, ranks, r)) for r in range(ranks)]


def test_the_page_has_the_stored_table():
    lines = messages.table(json.loads(STORED.read_text(encoding="utf-8")))
    assert len(lines) == 2 + len(SCHEMES)
    assert lines[4].endswith("| not possible: 6 heads |")
    page = command.PAGE.read_text(encoding="utf-8")
    assert "\n".join([messages.BEGIN, "", *lines, "", messages.END]) in page
