"""Describe to the student the first step that differs from the solution."""

from collections import Counter

__all__ = ["beginnings", "step_entry", "step_place", "step_text", "step_words"]

_OPERATORS = {
    "__getitem__": "indexing", "__setitem__": "indexing", "__matmul__": "@", "__neg__": "-",
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__pow__": "**",
}  # fmt: skip
_ROWS = 8


def step_words(step):
    """Describe the step and the mistake in one or more sentences for the student.

    Parameters
    ----------
    step : dict
        The `first_step` field of a check: the first step that differs from the solution.

    Returns
    -------
    list of str
    """
    words = ["The forward pass is correct."] if step["forward"] else []
    words.append(_blame(step, _called(step)))
    if step["in"] and step["agree"] and not step["left"]:
        wrong = "is" if len(step["differ"]) == 1 else "are"
        correct = "is" if len(step["agree"]) == 1 else "are"
        words.append(
            f"In the results of {_plain(step['in'])}, {_listed(step['differ'])} {wrong} wrong, and "
            f"{_listed(step['agree'])} {correct} correct."
        )
    if step["before"] > step["forward"]:  # more than the forward pass, which is already mentioned
        one = step["before"] == 1
        steps = (
            f"{step['before']} step{'s' * (not one)} before it {'is' if one else 'are'} correct."
        )
        words.append(f"The {steps}" if step["all_before"] else steps)
    return words


def _blame(step, name):
    """Say what is wrong in a step of the student's code, and in which lines the mistake must be."""
    until, line = step["until"], step["line"]
    if step["given"] == "other":
        inside = f" of {_plain(step['in'])}" if step["in"] else ""
        lines = "in this line or before it" if inside == "" else f"in or before line {line}{inside}"
        if until and until < line:
            lines = f"in lines {until} to {line}{inside}"
        elif until == line:
            lines = f"in line {line}{inside}"
        return f"{name} gets different values than in the solution: the mistake is {lines}."
    if not step["own"]:
        return (
            f"{name} gets the correct values, but its result differs from the solution: look at "
            "its other arguments."
        )
    what = f"leaves wrong values in {step['what']}" if step["left"] else "returns a wrong result"
    text = f"{name} gets the correct values, but {what}"
    if until:
        text += f". All calls up to line {until} are correct: the mistake is in that line or later"
    return f"{text}."


def _listed(names):
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _called(step):
    """Return the name of a step, followed by the path of its layer in parentheses."""
    return _plain(step["name"]) + (f" ({step['path']})" if step["path"] else "")


def _plain(name):
    """Shorten the qualified name of a call to the name that the student knows.

    Examples
    --------
    >>> _plain("Tensor.reshape"), _plain("Tensor.__getitem__"), _plain("table.<locals>.half")
    ('reshape', 'indexing', 'half')
    """
    name = name.rpartition("<locals>.")[2]
    owner, _, method = name.rpartition(".")
    if method in _OPERATORS:
        return _OPERATORS[method]
    return method if owner == "Tensor" else name


def step_place(step):
    """Return the file and the line of a step.

    Returns
    -------
    str
    """
    return f"{step['file']}, line {step['line']}"


def step_entry(step):
    """Describe how the step's result differs from the library's, as pairs (label, value).

    Returns
    -------
    list of (str, str)
    """
    rows = []
    what = step["what"].removeprefix("the ")
    if step["kind"] == "values":
        index = ", ".join(map(str, step["index"]))
        rows.append(("entry", f"{what}[{index}]" if index else what))
    else:
        rows.append(("result" if step["kind"] == "missing" else f"{step['kind']} of", what))
    rows += [("yours", step["got"]), ("expected", step["expected"])]
    if step["kind"] == "values" and step["size"] > 1:
        sample = " of a sample" if step["sampled"] else ""
        count = (
            f"{step['count']:,} of {step['size']:,} entries{sample}, by at most {step['largest']}"
        )
        rows.append(("differ", count))
    if step["kind"] == "values":
        shape = ", ".join(map(str, step["shape"])) + "," * (len(step["shape"]) == 1)
        rows.append(("shape", f"({shape}) {step['dtype']}"))
    return rows


def step_text(step):
    """Describe the step as plain text.

    Parameters
    ----------
    step : dict
        The `first_step` field of a check: the first step that differs from the solution.

    Returns
    -------
    str
    """
    lines = [f"First step that differs: {step_place(step)}", f"    {step['text']}"]
    lines += step_words(step)
    lines += [f"    {name:<8}  {value}" for name, value in step_entry(step)]
    return "\n".join(lines)


def beginnings(results):
    """Return the steps at which submissions first go wrong, most frequent first, with counts.

    Parameters
    ----------
    results : dict
        Content of `results.json`.

    Returns
    -------
    list of (str, str, str)
        Number of submissions, function, and the wrong result or the wrong step in this function.
    """
    counts = Counter()
    for document in results["submissions"]:
        steps = [line.get("first_step") for line in document["checks"]]
        counts.update({_beginning(step) for step in steps if step})
    return [(str(count), *names) for names, count in counts.most_common(_ROWS)]


def _beginning(step):
    inside = _plain(step["in"] or step["name"])
    name = _plain(step["name"])
    return (inside, step["what"] if inside == name else f"at {name}")
