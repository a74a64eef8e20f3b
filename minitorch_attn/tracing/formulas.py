"""Forward and backward formulas of an operation, read from its docstring.

Formulas use the argument names in the code: those of `forward`, and those of `backward`, such as
`grad_y`. `sum_to(g, a)` sums over broadcast axes, so that g gets the shape of a. `mean` and `sum`
without an axis reduce the axes that the operation reduces.
"""

import inspect

__all__ = ["formula", "labels", "name_of"]


def name_of(function):
    """Return the name of a Function as "file.Class"."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def formula(function):
    """Read the forward and backward formulas from a Function's docstring.

    The fields "Forward:" and "Backward:" each start a new line and contain the formulas. Further
    lines of a field are indented more than its first line.

    Parameters
    ----------
    function : type
        Class of the operation. If its docstring lacks these fields, the first paragraph is the
        forward formula, and the text after "Derivative:" is the backward formula.

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
    """Rename the numbered entries of `*grads` to output_0, output_1 and so on."""
    return f"output_{name}" if name.isdigit() else name


def _names(method, count):
    """Return the positional arguments after ctx. `*xs` becomes x_0, x_1 and so on."""
    code = method.__code__
    names = list(code.co_varnames[1 : code.co_argcount])
    if code.co_flags & 0x04:  # *xs
        several = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        stem = several.removesuffix("s")
        names += [f"{stem}_{i}" for i in range(count - len(names))]
    names += [f"input_{i}" for i in range(len(names), count)]
    return names[:count]
