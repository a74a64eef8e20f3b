"""The first step that differs, in words for the student."""

from collections import Counter

__all__ = ["beginnings", "step_entry", "step_place", "step_text", "step_words"]

_OPERATORS = {
    "__getitem__": "indexing", "__setitem__": "indexing", "__matmul__": "@", "__neg__": "-",
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__pow__": "**",
}  # fmt: skip
_CARRIERS = ("Tensor", "Layout", "Reductions", "Elementwise", "Change")  # of a tensor's methods
_ROWS = 8


def step_words(step):
    """What is known of the step, a sentence each.

    Parameters
    ----------
    step : dict
        `first_step` of an entry.

    Returns
    -------
    list of str
    """
    words = ["The forward pass agrees."] if step["forward"] else []
    words.append(_blame(step, _called(step)))
    if step["in"] and step["agree"] and not step["left"]:
        verb = "differs" if len(step["differ"]) == 1 else "differ"
        right = "agrees" if len(step["agree"]) == 1 else "agree"
        words.append(
            f"Of what {_plain(step['in'])} returns, {_listed(step['differ'])} {verb}, "
            f"{_listed(step['agree'])} {right}."
        )
    if step["before"] > step["forward"]:  # the forward pass alone was told
        one = step["before"] == 1
        steps = f"{step['before']} step{'s' * (not one)} before it agree{'s' * one}."
        words.append(f"The {steps}" if step["all_before"] else steps)
    return words


def _blame(step, name):
    """What is wrong with the step, and where the mistake has to be."""
    until, line = step["until"], step["line"]
    if step["given"] == "other":
        inside = f" of {_plain(step['in'])}" if step["in"] else ""
        lines = "in this line or before it" if inside == "" else f"in line {line}{inside} or before"
        if until and until < line:
            lines = f"in lines {until} to {line}{inside}"
        elif until == line:
            lines = f"in line {line}{inside}"
        return f"{name} is given other values than in the solution: what goes wrong is {lines}."
    if not step["own"]:
        return (
            f"{name} is given the right values, and returns another result than it does in the "
            "solution: look at its other arguments."
        )
    what = f"leaves {step['what']} with other values" if step["left"] else "returns a wrong result"
    text = f"{name} is given the right values, and {what}"
    if until:
        text += f"; all that its lines call agrees, up to line {until}: what goes wrong is there or"
        text += " after it"
    return f"{text}."


def _listed(names):
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _called(step):
    """The name of a step, and which layer of the model it is."""
    return _plain(step["name"]) + (f" ({step['path']})" if step["path"] else "")


def _plain(name):
    """A name as the student writes it.

    Examples
    --------
    >>> _plain("Layout.reshape"), _plain("Tensor.__getitem__"), _plain("table.<locals>.half")
    ('reshape', 'indexing', 'half')
    """
    name = name.rpartition("<locals>.")[2]
    owner, _, method = name.rpartition(".")
    if method in _OPERATORS:
        return _OPERATORS[method]
    return method if owner in _CARRIERS else name


def step_place(step):
    """File and line of a step.

    Returns
    -------
    str
    """
    return f"{step['file']}, line {step['line']}"


def step_entry(step):
    """What differs, as pairs of words.

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
            f"{step['count']:,} of {step['size']:,} entries{sample}, by {step['largest']} at most"
        )
        rows.append(("differ", count))
    if step["kind"] == "values":
        shape = ", ".join(map(str, step["shape"])) + "," * (len(step["shape"]) == 1)
        rows.append(("of", f"({shape}) {step['dtype']}"))
    return rows


def step_text(step):
    """All of it as plain text.

    Parameters
    ----------
    step : dict

    Returns
    -------
    str
    """
    lines = [f"The first step that differs: {step_place(step)}", f"    {step['text']}"]
    lines += step_words(step)
    lines += [f"    {name:<8}  {value}" for name, value in step_entry(step)]
    return "\n".join(lines)


def beginnings(results):
    """Rows of where wrong results begin, the most frequent first: for the instructor.

    Parameters
    ----------
    results : dict
        The content of `results.json`.

    Returns
    -------
    list of (str, str, str)
        How many submissions, the function, and what it gets wrong.
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
