"""Lesson functions: `pick`, `show`, `where` and `fails`, which the lesson scripts call."""

import functools
import inspect
import os
import re
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

from ..errors import ArgumentError

__all__ = ["fails", "is_fast", "pick", "show", "where"]

_PACKAGE = Path(__file__).resolve().parent.parent
_KINDS = {"class": "class", "def": "function"}
_WIDTH = 88  # width of captions in a notebook, which would break longer lines within words
_shown = {}  # lesson name -> captions of the figures it has shown


def is_fast():
    """Return True if the environment variable MTA_FAST is 1: lessons then use small sizes."""
    return os.environ.get("MTA_FAST", "").lower() not in ("", "0", "false", "no")


def pick(full, fast):
    """Return the first argument, or the second argument in fast mode.

    Parameters
    ----------
    full : object
        Value for a normal run.
    fast : object
        Smaller value for a quick check of all lessons. The assertions must pass with both values.

    Returns
    -------
    object
    """
    return fast if is_fast() else full


def show(figure, caption):
    """Show a figure in a notebook, a script or a Sphinx-Gallery page.

    In a notebook, the function displays the figure. In a script, it writes the figure to the file
    `runs/lessons/NN/figure-K.png` in the working directory and prints the path. On a page of
    Sphinx-Gallery, it leaves the figure open, and Sphinx-Gallery shows all open figures.

    Figures are numbered per lesson: "Figure 9.2" is the second figure of lesson 9. If a notebook
    cell runs again, its figures keep their numbers.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    caption : str
        One or two sentences that say what to look for in the figure.
    """
    caller, in_gallery = sys._getframe(1), "sphinx_gallery.gen_rst" in sys.modules
    file = caller.f_globals.get("__file__")  # Sphinx-Gallery does not set it
    lesson = _name_of(caller.f_code.co_filename if in_gallery and file is None else file)
    captions = _shown.setdefault(lesson, [])
    if caption not in captions or not _in_notebook():
        captions.append(caption)
    number = captions.index(caption) + 1 if _in_notebook() else len(captions)
    label = f"Figure {int(lesson)}.{number}" if lesson.isdecimal() else f"Figure {number}"
    if in_gallery:
        _open_in_pyplot(figure)
        print(f"{label}: {caption}")
    elif _in_notebook():
        _display(figure, caption)
        print(textwrap.fill(f"{label}: {caption}", _WIDTH))
    else:
        path = Path("runs", "lessons", lesson, f"figure-{number}.png")
        _save(figure, path)
        print(f"[{label}: {caption}] {path}")


def where(*objects):
    """Print the file and line where objects of this package are defined.

    Parameters
    ----------
    *objects : function, method, property, class or module

    Raises
    ------
    ArgumentError
        If one of the objects is not defined in this package.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> where(mt.softmax, mt.nn.Linear.forward)
    minitorch_attn/ops/softmax.py:...  function softmax
    minitorch_attn/nn/linear.py:...    method Linear.forward
    """
    places = [_place(thing) for thing in objects]
    width = max((len(place) for place, _ in places), default=0)
    for place, name in places:
        print(f"{place:<{width}}  {name}")


@contextmanager
def fails(exception):
    """Context manager that requires its block to raise `exception`, and prints the message.

    Parameters
    ----------
    exception : type or tuple of type
        Expected exception class or tuple of classes.

    Raises
    ------
    AssertionError
        If the block raises no exception. Any other exception propagates.

    Examples
    --------
    >>> with fails(ZeroDivisionError):
    ...     1 / 0
    ZeroDivisionError: division by zero
    """
    try:
        yield
    except exception as error:
        print(f"{type(error).__name__}: {error}")
        return
    kinds = exception if isinstance(exception, tuple) else (exception,)
    names = " or ".join(kind.__name__ for kind in kinds)
    raise AssertionError(f"the block must raise {names}, but it ran without an error")


# Showing figures


def _name_of(file):
    """Return "09" for `lessons/09_why_sqrt_d.py`, and the stem of any other file."""
    stem = Path(file).stem if file else "unnamed"
    number = re.match(r"\d+(?=_)", stem)
    return number[0] if number else stem


def _in_notebook():
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


def _display(figure, caption):
    import io

    from IPython.display import Image, display

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    display(Image(buffer.getvalue(), alt=caption))
    _close(figure)


def _save(figure, path):
    from ..viz.style import save_figure

    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    _close(figure)


def _close(figure):
    """Close the figure in pyplot, if pyplot is loaded."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)


def _open_in_pyplot(figure):
    """Add a figure that was created without pyplot to pyplot's open figures."""
    from matplotlib import _pylab_helpers, pyplot

    managers = _pylab_helpers.Gcf.get_all_fig_managers()
    if all(manager.canvas.figure is not figure for manager in managers):
        number = max(pyplot.get_fignums(), default=0) + 1
        manager = figure.canvas.new_manager(figure, number)
        _pylab_helpers.Gcf._set_new_active_manager(manager)


# Looking up definitions


def _place(thing):
    """Return file, line and kind, such as ("minitorch_attn/ops/softmax.py:41", "class Softmax")."""
    thing = _source(thing)
    try:
        file = Path(inspect.getsourcefile(thing)).resolve()
        relative = file.relative_to(_PACKAGE.parent)
        file.relative_to(_PACKAGE)
        line, kind = _line_of(thing)
    except (TypeError, ValueError, OSError):
        raise ArgumentError(
            "where: an object is not defined in minitorch_attn",
            got=repr(thing),
            expected="functions, methods, properties, classes or modules of the package",
            hint="pass the object itself, not a string or an instance",
        ) from None
    name = getattr(thing, "__qualname__", None) or thing.__name__
    return f"{relative.as_posix()}:{line}", f"{kind} {name}"


def _source(thing):
    """Unwrap a property, partial or wrapper to get the function that `inspect` can find."""
    while True:
        if isinstance(thing, property):
            thing = thing.fget
        elif isinstance(thing, functools.cached_property):
            thing = thing.func
        elif isinstance(thing, functools.partial):
            thing = thing.func
        elif isinstance(thing, (staticmethod, classmethod)):
            thing = thing.__func__
        elif hasattr(thing, "__wrapped__"):
            thing = thing.__wrapped__
        else:
            return thing


def _line_of(thing):
    """Return the line number of `def` or `class` (not of a decorator) and the kind of object."""
    if inspect.ismodule(thing):
        return 1, "module"
    lines, first = inspect.getsourcelines(thing)
    names = {thing.__name__, getattr(getattr(thing, "__code__", None), "co_name", None)}
    for number, line in enumerate(lines, first):
        found = re.match(r"\s*(?:async\s+)?(def|class)\s+(\w+)", line)
        if found and found[2] in names:
            kind = _KINDS[found[1]]
            is_method = kind == "function" and "." in thing.__qualname__
            return number, "method" if is_method else kind
    raise ValueError(thing)
