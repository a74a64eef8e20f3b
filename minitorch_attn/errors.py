"""The errors a user can cause: each says what was seen, what was expected, what to try."""

__all__ = [
    "MiniTorchError",
    "ArgumentError",
    "CheckpointError",
    "DataError",
    "DeviceError",
    "DTypeError",
    "GraphError",
    "IndexRangeError",
    "NotYetWritten",
    "NumericError",
    "ShapeError",
]


class MiniTorchError(Exception):
    """Base of every error this library raises on purpose.

    Parameters
    ----------
    message : str
        One line: where it happened and what is wrong.
    got, expected, hint : str, optional
        What was seen, what was expected, what to try. Each becomes a line of its own.

    Examples
    --------
    >>> print(ShapeError("add(a, b): the shapes do not broadcast.",
    ...                  got="a (2, 3) and b (4,)", expected="equal sizes, or 1"))
    add(a, b): the shapes do not broadcast.
      got       a (2, 3) and b (4,)
      expected  equal sizes, or 1
    """

    def __init__(self, message, *, got=None, expected=None, hint=None):
        self.message, self.got, self.expected, self.hint = message, got, expected, hint
        lines = [message]
        for label, text in (("got", got), ("expected", expected), ("try", hint)):
            if text is not None:
                lines.append(f"  {label:<9} {text}")
        super().__init__("\n".join(lines))


class ShapeError(MiniTorchError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(MiniTorchError, TypeError):
    """A dtype, or the type of an argument, that the operation cannot take."""


class DeviceError(MiniTorchError, RuntimeError):
    """Arrays on different devices, or a device that is not there."""


class GraphError(MiniTorchError, RuntimeError):
    """A backward pass that is impossible: no graph, a freed graph, a changed saved tensor."""


class IndexRangeError(MiniTorchError, IndexError):
    """An index, label or token id outside its range."""


class ArgumentError(MiniTorchError, ValueError):
    """Any other argument that makes no sense."""


class CheckpointError(MiniTorchError, RuntimeError):
    """A checkpoint that cannot be read or written."""


class DataError(MiniTorchError, ValueError):
    """A text or data file that cannot be used."""


class NumericError(MiniTorchError, ArithmeticError):
    """NaN or infinity where a finite number is needed."""


class NotYetWritten(MiniTorchError, NotImplementedError):
    """A function of an assignment whose body is still to be written.

    Parameters
    ----------
    name : str
        "Attention.backward"

    Examples
    --------
    >>> print(NotYetWritten("Attention.backward"))
    Attention.backward: its body is yours to write.
    """

    def __init__(self, name):
        super().__init__(f"{name}: its body is yours to write.")
