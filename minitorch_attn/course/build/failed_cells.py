"""Failed cells: find functions of a notebook that are outdated because their cell failed."""

import re
import sys

__all__ = ["FailedCells"]

_DEFINED = re.compile(r"^(?:@[\w.]*add_to\((\w+)\)[^\n]*\n)?[ \t]*def[ \t]+(\w+)", re.M)
_LONGEST = 80  # characters of an error's message to show


class FailedCells:
    """Stores which functions are outdated because an error stopped the latest run of their cell.

    If a cell has a syntax error, the notebook still has the earlier version of its function.
    IPython calls an object of this class after each cell.

    Parameters
    ----------
    namespace : dict
        Global namespace of the notebook.
    codes : callable
        `codes()` returns a dict from the name of each function that a cell has defined to its code
        object.
    """

    def __init__(self, namespace, codes):
        self.namespace, self.codes = namespace, codes
        self._errors, self._before = {}, codes()

    def watch(self):
        """Ask IPython to call this object after each cell. Without IPython, do nothing."""
        module = sys.modules.get("IPython")
        shell = module.get_ipython() if module else None
        if shell is None or shell.user_ns is not self.namespace:
            return
        for callback in list(shell.events.callbacks["post_run_cell"]):
            if isinstance(getattr(callback, "__self__", None), FailedCells):
                shell.events.unregister("post_run_cell", callback)
        shell.events.register("post_run_cell", self._after_cell)

    def error_of(self, name):
        """Return the error that kept the last run of a function's cell from defining the function.

        Parameters
        ----------
        name : str
            Name of the function.

        Returns
        -------
        str
            Text of the error, or "" if the last run defined the function.
        """
        return self._errors.get(name, "")

    def _after_cell(self, result):
        error, now = result.error_before_exec or result.error_in_exec, self.codes()
        for prefix, last in _DEFINED.findall(result.info.raw_cell):
            name = f"{prefix}.{last}" if prefix else last
            if error is None or now.get(name) is not self._before.get(name):
                self._errors.pop(name, None)
            else:
                self._errors[name] = _in_short(error)
        self._before = now


def _in_short(error):
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind} in line {error.lineno}: {error.msg}"
    (first, *_) = str(error).splitlines() or [""]
    return f"{kind}: {first[:_LONGEST]}" if first else kind
