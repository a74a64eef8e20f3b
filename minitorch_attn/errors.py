"""Errors that the library raises. Each says what went wrong, what was expected and what to try."""

__all__ = [
    "MiniTorchError", "ArgumentError", "CheckpointError", "CommunicationError", "DataError",
    "DeviceError", "DTypeError", "GraphError", "IndexRangeError", "MissingMethodError",
    "MissingNameError", "NotYetWritten", "NumericError", "ShapeError",
]  # fmt: skip


class MiniTorchError(Exception):
    """Base class of all errors that this library raises on purpose.

    Parameters
    ----------
    message : str
        One line, without a full stop, that names the function and says what went wrong.
    got, expected, hint : str, optional
        The value that was given, the expected value, and a suggestion. Each is printed on a line of
        its own.

    Examples
    --------
    >>> print(ShapeError("add(a, b): the shapes do not broadcast",
    ...                  got="a (2, 3) and b (4,)", expected="equal sizes, or 1"))
    add(a, b): the shapes do not broadcast
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
    """Shapes that do not match."""


class DTypeError(MiniTorchError, TypeError):
    """An unsupported dtype, or an argument of the wrong type."""


class DeviceError(MiniTorchError, RuntimeError):
    """Arrays on different devices, or an unavailable device."""


class GraphError(MiniTorchError, RuntimeError):
    """A backward pass that cannot run: the graph is missing or freed, or a saved tensor changed."""


class IndexRangeError(MiniTorchError, IndexError):
    """An index, label or token id out of range."""


class ArgumentError(MiniTorchError, ValueError):
    """An invalid argument that no other error class covers."""


class CheckpointError(MiniTorchError, RuntimeError):
    """A checkpoint that could not be read or written."""


class CommunicationError(MiniTorchError, RuntimeError):
    """A failed message between processes, or an unavailable communication backend."""


class DataError(MiniTorchError, ValueError):
    """A malformed text or data file."""


class MissingMethodError(MiniTorchError, NotImplementedError):
    """A call to a method that a subclass must define but does not."""


class MissingNameError(MiniTorchError, KeyError, AttributeError):
    """A name or key that does not exist, such as the name of a submodule."""

    __str__ = Exception.__str__  # KeyError prints the repr of its message


class NumericError(MiniTorchError, ArithmeticError):
    """NaN or infinity where a number must be finite."""


class NotYetWritten(MiniTorchError, NotImplementedError):
    """A call to an assignment function whose body you have not written yet.

    Parameters
    ----------
    name : str
        Name of the function, such as "Attention.backward".

    Examples
    --------
    >>> print(NotYetWritten("Attention.backward"))
    Attention.backward: you have not written the body of this function yet.
    """

    def __init__(self, name):
        super().__init__(f"{name}: you have not written the body of this function yet.")
