"""Table of the messages and bytes that a training step sends, compared with the formulas."""

from .count import step_of
from .formulas import SCHEMES, obstacle, sent
from .start import on_ranks

__all__ = ["BEGIN", "END", "RANKS", "count", "table"]

RANKS = (1, 2, 3, 4)
BEGIN = "<!-- messages: made by python -m benchmarks distributed --counts -->"
END = "<!-- end of messages -->"
_NAMES = {
    "data": "data: `DistributedDataParallel`", "zero1": "data with `ZeroRedundancyOptimizer`",
    "tensor": "tensor: `tensor_parallel`", "sequence": "sequence: `SequenceParallel`",
    "pipeline": "pipeline: `GPipe`, 4 micro-batches",
}  # fmt: skip


def count(workload, ranks=RANKS):
    """Count the messages of each scheme for several numbers of ranks, and check the formulas.

    Parameters
    ----------
    workload : str
        Name of a workload that is a GPT step, such as "w2".
    ranks : sequence of int

    Returns
    -------
    dict
        "workload", and "ranks": {number of ranks: {scheme: {"loss", "sent"}}}, as `count.py` writes
        them.
    """
    step, found = step_of(workload), {}
    for size in ranks:
        found[str(size)] = on_ranks(size, "count", workload)
        for scheme, counts in found[str(size)].items():
            expected = [list(sent(scheme, step, size, rank)) for rank in range(size)]
            if counts["sent"] != expected:
                raise SystemExit(
                    f"{scheme}, {size} ranks: counted {counts['sent']}, but the formula gives"
                    f" {expected}"
                )
    return {"workload": workload, "ranks": found}


def table(found):
    """Return the table's lines.

    A cell has the number of messages and bytes per step of the rank that sends the most bytes.
    """
    step, sizes = step_of(found["workload"]), list(found["ranks"])
    heads = [f"{size} rank{'' if size == '1' else 's'}" for size in sizes]
    lines = [f"| split | {' | '.join(heads)} |", "|---" * (1 + len(sizes)) + "|"]
    for scheme in SCHEMES:
        cells = [_cell(scheme, step, size, found["ranks"][size]) for size in sizes]
        lines.append(f"| {_NAMES[scheme]} | {' | '.join(cells)} |")
    return lines


def _cell(scheme, step, size, counts):
    if scheme not in counts:
        return f"not possible: {obstacle(scheme, step, int(size))}"
    messages, sent_bytes = max(counts[scheme]["sent"], key=lambda pair: pair[1])
    return f"{messages} messages, {sent_bytes:,} bytes"
