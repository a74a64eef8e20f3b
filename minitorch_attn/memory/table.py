"""Text table of a memory trace: the peak, and the blocks held at the peak."""

import os

from ..formatting import short_bytes

__all__ = ["peak_table"]

HEAD = ("memory", "share", "what", "operation", "shape", "dtype", "kept by", "line")


def peak_table(memory, rows):
    """Return the text of `MemoryTracker.table`."""
    found = _grouped(memory)
    shown, rest = found[:rows], found[rows:]
    lines = [HEAD]
    for (kind, op, shape, dtype, line, kept), blocks in shown:
        total = sum(block.nbytes for block in blocks)
        times = f" x{len(blocks)}" if len(blocks) > 1 else ""
        lines.append((
            short_bytes(total), f"{total / memory.peak:.0%}", kind, op, f"{shape}{times}",
            str(dtype), kept or "-", line,
        ))  # fmt: skip
    text = _aligned(lines)
    if rest:
        blocks = [block for _, group in rest for block in group]
        total = short_bytes(sum(block.nbytes for block in blocks))
        text.append(f"and {total} in {len(blocks)} smaller blocks")
    rule = "-" * max(map(len, text))
    head = f"peak {short_bytes(memory.peak)}, reached in {memory.peak_op}"
    return "\n".join([head, "", text[0], rule, *text[1:], rule, _totals(memory)])


def _grouped(memory):
    """Group the blocks held at the peak. Return a list of (key, blocks), largest group first.

    The key (kind, op, shape, dtype, line, kept by) is the same for all blocks of a group.
    """
    groups = {}
    for block in memory.at_peak():
        kept = _names(block.kept_at(memory.peak_moment))
        line = "-" if block.line is None else f"{_short(block.line.place)}: {block.line.source}"
        kind = block.kind_at(memory.peak_moment)
        key = (kind, block.op, block.shape, block.dtype, _cut(line, 56), kept)
        groups.setdefault(key, []).append(block)
    return sorted(groups.items(), key=lambda item: -sum(block.nbytes for block in item[1]))


def _names(ops):
    """Join operation names. A repeated name appears once, with its count: "Exp, Tanh x2"."""
    counts = {op: ops.count(op) for op in ops}
    return ", ".join(f"{op} x{n}" if n > 1 else op for op, n in counts.items())


def _short(place):
    """Remove the package folder from the start of `place`, a path and a line number."""
    return place.removeprefix(__name__.split(".")[0] + os.sep)


def _cut(text, length):
    return text if len(text) <= length else text[: length - 3] + "..."


def _totals(memory):
    kinds = {kind: sizes[memory.peak_moment] for kind, sizes in memory.by_kind().items()}
    parts = [f"{kind} {short_bytes(size)}" for kind, size in kinds.items() if size]
    return "; ".join(parts)


def _aligned(lines):
    """Align the columns of a table: numbers to the right, words to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return [
        "  ".join(
            cell.rjust(width) if i < 2 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
