"""Terminal report: show the grades of a class in 80 columns."""

import math

from .grades import number, safe

__all__ = ["ROWS", "distribution", "failures", "hardest", "heading"]

_BINS, _WIDTH = 10, 40
ROWS = 20  # maximum number of submissions to look at


def heading(results, found):
    """Summarize the class in one or two lines."""
    made, count = results["assignment"], len(found["scores"])
    levels = sorted({d["grader"]["sandbox"] for d in results["submissions"]})
    lines = [f"{made['title']}, {number(made['points'])} points"]
    if "shard" in results:
        lines[0] += f"; only shard {safe(results['shard'])} of the class"
    if count:
        line = f"{count} graded: mean {found['mean']:.1f}, median {found['median']:.1f}"
        lines.append(f"{line}; sandbox level {', '.join(map(str, levels))} of 3")
    return "\n".join(lines)


def distribution(scores, points):
    """Draw the distribution of the scores as a bar chart in text.

    Examples
    --------
    >>> print(distribution([1, 9, 10, 10], 10).splitlines()[0])
        10  ████████████████████████████████████████  2
    """
    step = max(1, math.ceil(points / _BINS))
    counts = [0] * (int(points // step) + 1)
    for score in scores:
        counts[min(int(score // step), len(counts) - 1)] += 1
    lines = []
    for place, count in enumerate(counts):
        low, high = place * step, min((place + 1) * step - 1, int(points))
        label = f"{low} - {high}" if high > low else f"{low}"
        bar = "█" * max(round(_WIDTH * count / max(counts)), bool(count))
        lines.append(f"  {label:>8}  {bar}  {count}" if count else f"  {label:>8}")
    return "\n".join(reversed(lines))


def hardest(found):
    """Return a table row for each check, lowest pass rate first."""
    ranked = sorted(found["entries"], key=lambda entry: (entry["reached"] or 0, entry["name"]))
    return [
        (
            f"{100 * entry['reached']:.0f} %" if entry["reached"] is not None else "-",
            f"{entry['passed']} of {entry['of']}", entry["name"],
            "hidden" if entry["hidden"] else "",
        )
        for entry in ranked
    ]  # fmt: skip


def failures(results, limit=ROWS):
    """Return table rows for submissions to look at, such as unreadable or missing ones.

    Parameters
    ----------
    results : dict
        Content of `results.json`.
    limit : int or None, default 20
        Maximum number of rows.

    Returns
    -------
    list of (str, str)
        Name, and the reason to look at the submission.
    """
    rows = []
    for document in results["submissions"]:
        odd = {c["status"] for c in document["checks"]} & {"timeout", "crashed", "misbehaved"}
        if document.get("outdated"):
            said = "graded with other checks or another grader"
        elif document["status"] != "graded":
            why = document.get("detail", "").strip().splitlines()[-1:]
            said = (document["submission"]["problems"] or why or [document["status"]])[0]
        elif notes := [*document["submission"]["problems"], *sorted(odd),
                       *document["submission"].get("remarks", ())]:  # fmt: skip
            said = "; ".join(notes)
        else:
            continue
        rows.append((_short(document["submission"]["name"], 24), _short(said, 50)))
    for missing in results["not_graded"]:
        said = missing.get("message", "not graded yet")
        rows.append((_short(missing["name"], 24), _short(said, 50)))
    rows += [(_short(name, 24), "not handed in") for name in results.get("not_handed_in", ())]
    rows += [(_short(name, 24), "not on the roster") for name in results.get("not_on_roster", ())]
    rows += [
        (_short(entry["name"], 24), _short(f"not graded: {entry['why']}", 50))
        for entry in results.get("passed_over", ())
    ]
    if limit is None or len(rows) <= limit:
        return rows
    return [*rows[:limit], (f"and {len(rows) - limit} more", "--all shows them")]


def _short(text, width):
    text = safe(text)
    return text if len(text) <= width else text[: width - 1] + "…"
