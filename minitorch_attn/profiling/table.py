"""Text table of a profile: the cost of each operation and of each module."""

from ..formatting import short_bytes, short_count

__all__ = ["profile_table"]

HEAD = ("calls", "forward", "backward", "share", "FLOPs", "moved", "GFLOP/s", "GB/s", "of roof")


def profile_table(profile, rows, depth):
    """Return the text of `Profile.table`."""
    groups, modules, roofs = profile.by_op(), profile.by_module(), profile.ceilings
    busy = sum(group.seconds for group in groups)
    forward = sum(group.forward for group in groups)
    head = (
        f"{_time(profile.seconds)} in total: {_time(forward)} in operations forward, "
        f"{_time(busy - forward)} backward, {_time(profile.seconds - busy)} between them\n"
        f"the roofs of this machine: {roofs}"
    )
    lines = [("operation", *HEAD)]
    lines += [(group.name, *_cells(group, busy, roofs)) for group in groups[:rows]]
    text = [head, "", *_aligned(lines)]
    if len(groups) > rows:
        rest = sum(group.seconds for group in groups[rows:])
        text.append(f"and {_time(rest)} in {len(groups) - rows} other operations")
    shown = [group for group in modules if depth is None or len(group.around) <= depth]
    if shown:
        lines = [("module", *HEAD)]
        for group in shown:
            label = "  " * len(group.around) + group.label
            lines.append((label, *_cells(group, busy, roofs)))
        text += ["", *_aligned(lines)]
    return "\n".join(text)


def _cells(group, busy, roofs):
    seconds = group.seconds or float("inf")
    least = roofs.least_seconds(group.flops, group.nbytes)
    return (
        f"{group.calls}",
        _time(group.forward) if group.forward else "-",
        _time(group.backward) if group.backward else "-",
        f"{group.seconds / busy:.1%}" if busy else "-",
        short_count(group.flops) if group.flops else "-",
        short_bytes(group.nbytes) if group.nbytes else "-",
        f"{group.flops / seconds / 1e9:.3g}" if group.flops else "-",
        f"{group.nbytes / seconds / 1e9:.3g}" if group.nbytes else "-",
        f"{least / seconds:.0%}" if least else "-",
    )


def _time(seconds):
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{max(seconds, 0) * 1e6:.3g} us"


def _aligned(lines):
    """Format a table: left-align names, right-align numbers, and underline the header."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return [text[0], "-" * len(text[0]), *text[1:]]
