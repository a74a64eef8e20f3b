"""Report on the difference between two recordings."""

from .formulas import index_text, is_index
from .source_places import definitions

__all__ = ["diff_report"]

_WHEN = {
    "forward": "forward step",
    "backward": "backward step",
    "accumulate": "the addition to .grad, step",
}


def diff_report(difference):
    """Return the text of `Difference.report`."""
    if difference.same:
        return "\n".join(_same(difference))
    if difference.kind == "structure":
        return "\n".join(_structure(difference))
    return "\n".join(_values(difference))


def _same(difference):
    count, totals = difference.agreed, [len(recording.steps) for recording in difference.recordings]
    lines = [f"The recordings agree: all {count} steps are equal."]
    if totals != [count, count]:
        lines = [
            f"The recordings agree: {count} steps are equal, of {totals[0]} steps in mine and "
            f"{totals[1]} in the reference."
        ]
    for gap in difference.gaps:
        lines.append("  a different way to compute the same values:")
        lines += _rows("mine", gap.mine) + _rows("reference", gap.reference)
    return lines


def _agreed(count, before):
    if not before:
        return "It is the first step."
    if count < before:
        return f"{count} of the {before} steps before it agree."
    return "The step before it agrees." if before == 1 else f"The {before} steps before it agree."


def _structure(difference):
    gap = difference.gap
    lines = [
        f"The recordings run different operations after {difference.agreed} "
        f"{'step that agrees' if difference.agreed == 1 else 'steps that agree'}.",
        "",
        *_rows("mine", gap.mine),
        *_rows("reference", gap.reference),
    ]
    after = difference.pairs[gap.position] if gap.position < len(difference.pairs) else None
    if after is not None and after[2] is not None:
        lines += ["", f"The next step of both, {after[0].op}, differs: {after[2].text}."]
    return lines + _earlier(difference, gap)


def _earlier(difference, shown=None):
    """Describe earlier differences between the recordings, after which they agree again."""
    lines = []
    for gap in difference.gaps:
        if gap.position <= difference.position and gap is not shown:
            lines += ["", "The recordings also differ earlier, but agree again after these steps:"]
            lines += _rows("mine", gap.mine) + _rows("reference", gap.reference)
    return lines


def _rows(label, steps):
    """Format the first few steps that occur in only one recording."""
    if not steps:
        return [f"  {label:<10} nothing"]
    lines = []
    for step in steps[:6]:
        lines.append(f"  {label:<10} {_name(step)}{_line(step)}")
        label = ""
    if len(steps) > 6:
        lines.append(f"  {'':<10} and {len(steps) - 6} more")
    return lines


def _values(difference):
    mine, reference, unlike = difference.mine, difference.reference, difference.unlike
    lines = [
        f"The recordings differ from {_WHEN[mine.kind]} {mine.number} on: {mine.op}. "
        f"{_agreed(difference.agreed, mine.number - 1)}",
        "",
    ]
    if mine.formula:
        lines.append(f"  formula    {mine.formula}")
    if unlike.kind == "values":
        at = f" at {unlike.index}" if unlike.index else ""
        lines.append(
            f"  what       {unlike.name}: {unlike.count} of {unlike.size} values differ, "
            f"by up to {unlike.largest:.3g}{at}"
        )
        lines += [f"  mine       {unlike.mine:.9g}", f"  reference  {unlike.reference:.9g}"]
    else:
        lines.append(f"  what       {_what(unlike)}")
        lines += [f"  mine       {_short(unlike.mine)}", f"  reference  {_short(unlike.reference)}"]
    lines += _settings(mine, reference)
    lines += _lines(mine, reference)
    lines += ["", *_hint(mine, unlike)]
    return lines + _earlier(difference)


def _what(unlike):
    alone = unlike.kind in ("number", "missing")
    return unlike.name if alone else f"the {unlike.kind} of {unlike.name}"


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _settings(mine, reference):
    lines = []
    for name in dict.fromkeys([*mine.settings, *reference.settings]):
        values = [step.settings.get(name) for step in (mine, reference)]
        if repr(values[0]) != repr(values[1]):
            ours, theirs = (index_text(v) if is_index(v) else repr(v) for v in values)
            lines.append(f"  setting    {name}: mine {ours}, reference {theirs}")
    return lines


def _lines(mine, reference):
    """Format the source lines of both steps, or one line if they are the same."""
    lines = []
    if mine.source is not None:
        module = f"  ({mine.module})" if mine.module is not None else ""
        lines.append(f"  line       {mine.source}: {mine.source.source}{module}")
        if mine.called_at is not None and str(mine.called_at) != str(mine.source):
            lines.append(f"  called at  {mine.called_at}: {mine.called_at.source}")
    if reference.source is not None and str(reference.source) != str(mine.source):
        lines.append(f"  reference  {reference.source}: {reference.source.source}")
    if mine.function is not None:
        at = definitions(mine.function)[mine.kind == "backward"]
        lines += [] if at is None else [f"  defined    {at}"]
    return lines


def _hint(mine, unlike):
    """Return a hint about the cause of a difference, given that all earlier steps agree."""
    if unlike.name.startswith("input"):
        if unlike.entries is None or all(entry.role != "result" for entry in unlike.entries):
            return ["No recorded step computed this: the recordings start from different values."]
        ours, theirs = (_called(entry) for entry in unlike.entries)
        return [f"The steps use different tensors: mine uses {ours}, the reference uses {theirs}."]
    if unlike.kind == "missing" and mine.kind == "backward":
        who = "mine" if unlike.mine == "nothing" else "the reference"
        return [f"In {who}, this input is not in the graph: it was detached or made under no_grad."]
    if mine.kind == "forward":
        return ["The inputs agree, so the difference arises in this step."]
    if mine.kind == "accumulate":
        return ["The new gradient, or the earlier value of .grad, is different."]
    if unlike.of_input:
        return ["The incoming gradient is a different sum: a contribution is missing or extra."]
    return ["The incoming gradient agrees, so the difference arises in this backward step."]


def _called(entry):
    return (
        entry.name if entry.variable in (None, entry.name) else f"{entry.variable} ({entry.name})"
    )


def _name(step):
    return f"{_WHEN[step.kind]} {step.number}: {step.op}"


def _line(step):
    return "" if step.source is None else f"    {step.source}: {step.source.source}"
