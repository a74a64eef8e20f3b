"""Forward and backward formulas of an operation, read from its docstring.

Formulas use the names of the arguments of `forward` and `backward`, such as `x` and `grad_y`.
`sum_to(g, a)` sums g over broadcast axes to the shape of a. `mean` and `sum` without an axis reduce
the same axes as the operation.
"""

import inspect
from functools import lru_cache

__all__ = ["formula", "index_text", "is_index", "labels", "name_of", "with_index"]


def name_of(function):
    """Return the name of a Function as "file.Class"."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


@lru_cache(maxsize=1024)
def formula(function):
    """Read the forward and backward formulas from a Function's docstring.

    The fields "Forward:" and "Backward:" each start a new line and contain the formulas. Further
    lines of a field are indented more than its first line.

    Parameters
    ----------
    function : type
        Class of the operation. If its docstring lacks "Forward:" or "Backward:", the first
        paragraph is the forward formula, and the text after "Derivative:" is the backward formula.

    Returns
    -------
    (str, str)
        Forward and backward formulas, empty if unknown.
    """
    doc = inspect.cleandoc(function.__doc__ or "")
    fields = _field(doc, "Forward:"), _field(doc, "Backward:")
    if all(fields):
        return fields
    paragraphs = [" ".join(paragraph.split()) for paragraph in doc.split("\n\n")]
    for text in paragraphs:
        if text.startswith("Derivative:"):
            text = text.removeprefix("Derivative:").partition("Saved:")[0].strip()
            return paragraphs[0], text
    return paragraphs[0], ""


def _field(doc, name):
    """Return the text after `name` with its lines joined, or "" if no line begins with `name`."""
    lines = iter(doc.splitlines())
    for line in lines:
        text = line.lstrip()
        if text.startswith(name):
            indent, parts = len(line) - len(text), [text.removeprefix(name)]
            for more in lines:
                if len(more) - len(more.lstrip()) <= indent:
                    break
                parts.append(more)
            return " ".join(" ".join(parts).split())
    return ""


def with_index(text, settings):
    """Write the index of an indexing operation into its formula.

    Parameters
    ----------
    text : str
        Formula that contains "[index]" or "[indices]".
    settings : dict
        Settings of the operation, as in `ops/indexing.py`.

    Returns
    -------
    str

    Examples
    --------
    >>> with_index("y = x[index]", {"index": (slice(None), slice(1, None), ...)})
    'y = x[:, 1:]'
    >>> with_index("y = x[indices]", {"axes": (1,)})
    'y = x[:, index_0]'
    """
    axes = settings.get("axes")
    if "[index]" in text and ("index" in settings or "basic" in settings):
        basic = settings.get("index", settings.get("basic"))
        whole = bool(axes) and basic == (...,)  # only arrays, as in x[:, ids]
        written = ("" if whole else index_text(basic)) + (_of_arrays(axes) if axes else "")
        return text.replace("[index]", written)
    return text.replace("[indices]", _of_arrays(axes)) if axes else text


def _of_arrays(axes):
    """Return an index with integer arrays at `axes` as text, such as "[:, index_0]"."""
    parts = [":"] * (max(axes) + 1)
    for number, axis in enumerate(axes):
        parts[axis] = f"index_{number}"
    return f"[{', '.join(parts)}]"


def is_index(value):
    """Return True for a slice, for `...`, and for a tuple that contains a slice or `...`."""
    parts = value if isinstance(value, tuple) else (value,)
    return any(part is ... or isinstance(part, slice) for part in parts)


def index_text(index):
    """Return an index as it is written in code, without the final `...` that indexing adds.

    Examples
    --------
    >>> index_text((..., None, slice(None, 4))), index_text((0, slice(1, 5, 2), ...))
    ('[..., None, :4]', '[0, 1:5:2]')
    """
    parts = index if isinstance(index, tuple) else (index,)
    parts = parts[:-1] if len(parts) > 1 and parts[-1] is ... else parts
    return f"[{', '.join(map(_part, parts))}]"


def _part(part):
    if part is ...:
        return "..."
    if not isinstance(part, slice):
        return str(part)
    ends = [part.start, part.stop] + ([] if part.step is None else [part.step])
    return ":".join("" if end is None else str(end) for end in ends)


def labels(function, inputs, outputs):
    """Return the names that a Function's code gives to its inputs and outputs.

    Parameters
    ----------
    function : type
    inputs, outputs : int
        Number of inputs and outputs in one call.

    Returns
    -------
    (list of str, list of str)
        Names such as ["a", "b"] and ["c"]: the arguments of `forward`, and the arguments of
        `backward` without "grad_".
    """
    given = _names(function.forward, inputs)
    made = [name.removeprefix("grad_") for name in _names(function.backward, outputs)]
    return given, ["output" if name == "grad" else _worded(name) for name in made]


def _worded(name):
    """Turn a number such as "0" into "output_0"; return any other name unchanged.

    The numbers come from `*grads`, the arguments of a `backward` for several outputs.
    """
    return f"output_{name}" if name.isdigit() else name


def _names(method, count):
    """Return the names of the arguments after ctx. `*xs` becomes x_0, x_1 and so on."""
    code = method.__code__
    names = list(code.co_varnames[1 : code.co_argcount])
    if code.co_flags & 0x04:  # *xs
        several = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        stem = "index" if several == "indices" else several.removesuffix("s")
        names += [f"{stem}_{i}" for i in range(count - len(names))]
    names += [f"input_{i}" for i in range(len(names), count)]
    return names[:count]
