"""Named errors: after an invalid call, name the called function and its arguments in the error.

Suppose that a user passes a string as a size to the constructor of a layer. The constructor fails
later, in a division or in the constructor of another layer, and Python's error does not say which
call and which argument were wrong. Only the function that the user called has this information. The
decorator `names_arguments` therefore adds the function's name and arguments to the error. It costs
one Python function call. Operations, which are called more often, do not have the decorator: they
check their arguments or explain errors themselves.
"""

import inspect
import re
import sys
from functools import wraps
from types import FunctionType

from .errors import (
    ArgumentError,
    DTypeError,
    IndexRangeError,
    MiniTorchError,
    MissingMethodError,
    MissingNameError,
)

__all__ = ["NamedErrors", "guards", "named_error", "names_arguments", "under", "under_name"]

_PACKAGE = __name__.split(".")[0]
_LIBRARIES = {_PACKAGE, "numpy", "cupy", *sys.stdlib_module_names} - {"__main__"}
_CLASSES = {  # Python's error -> the library's
    MemoryError: ArgumentError,
    RecursionError: ArgumentError,
    ArithmeticError: ArgumentError,
    IndexError: IndexRangeError,
    KeyError: MissingNameError,
    NotImplementedError: MissingMethodError,
    RuntimeError: ArgumentError,
    TypeError: DTypeError,
    AttributeError: DTypeError,
    ValueError: ArgumentError,
}
_SPECIAL = {"__init__", "__call__", "__getitem__", "__setitem__", "__delitem__", "__iter__"}
_SIGNATURE = re.compile(r"([\w.]+)\(\) (missing|takes|got an|got mult|got some)")


def names_arguments(function):
    """Decorate a public function so that argument errors name the function and the arguments.

    If an error of the library does not name this function, the function's name is added at the
    start of the headline. A Python error, such as TypeError, becomes an error of the library. Two
    kinds of errors do not change: errors of a call that does not match the signature, and errors
    that the user's own code (a hook, a data set) raised.

    Examples
    --------
    >>> @names_arguments
    ... def half(size):
    ...     return size / 2
    >>> half.__module__ = "minitorch_attn.half"
    >>> half(4)
    2.0
    """

    @wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            named = named_error(error, function, args, kwargs)
            if named is error:
                raise
            raise named from error

    @wraps(function)
    def iterate(*args, **kwargs):
        try:
            yield from function(*args, **kwargs)
        except Exception as error:
            named = named_error(error, function, args, kwargs)
            if named is error:
                raise
            raise named from error

    return iterate if inspect.isgeneratorfunction(function) else call


guards = {  # the code of functions that call `named_error`
    names_arguments(len).__code__,
    names_arguments(lambda: (yield)).__code__,
}


def under_name(name, function):
    """Return a copy of `function` with the given name. Its error messages show the new name.

    Examples
    --------
    >>> def f(x):
    ...     return x
    >>> under_name("g", f).__name__
    'g'
    """
    function = inspect.unwrap(function)
    copy = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__.removesuffix(function.__name__) + name
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    return names_arguments(copy)


class NamedErrors:
    """Base class that decorates the public methods of its subclasses with `names_arguments`.

    The methods of subclasses outside the library are not decorated.

    Attributes
    ----------
    called_often : tuple of str
        Methods that are not decorated, because they are called so often that the additional
        function call would slow programs down.
    named_methods : tuple of str, optional
        Methods that are decorated; by default, all public methods.
    """

    __slots__ = ()
    called_often = ("forward", "update")
    named_methods = None

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        if cls.__module__.split(".")[0] != _PACKAGE:
            return
        for name, value in list(vars(cls).items()):
            public = name in _SPECIAL or not name.startswith("_")
            wanted = public if cls.named_methods is None else name in cls.named_methods
            if wanted and name not in cls.called_often and type(value) is FunctionType:
                setattr(cls, name, names_arguments(value))


def named_error(error, function, args, kwargs=(), rename=True):
    """Return the error to raise after a failed call of `function`; it may be `error` itself.

    Parameters
    ----------
    error : Exception
    function : callable
        Public function that was called.
    args : tuple
        Positional arguments of the call.
    kwargs : dict, optional
        Keyword arguments of the call.
    rename : bool
        Whether to add the name of `function` to the headline of an error of the library.

    Returns
    -------
    Exception
    """
    if not _is_outermost(sys._getframe(2)):
        return error  # an outer function adds its own name and arguments
    name, parameters, arguments = _call_of(function, args, kwargs)
    values = ", ".join(f"{key}={_short(value)}" for key, value in arguments.items())
    if _is_users(error.__traceback__):
        return error
    if isinstance(error, MiniTorchError):
        said = " ".join([error.message, *getattr(error, "__notes__", ())])
        last = name.rsplit(".", 1)[-1]
        renamable = rename and values and type(error).__init__ is MiniTorchError.__init__
        renamable = renamable and "where" not in arguments  # `where` already names the caller
        if not renamable or re.search(rf"\b{last}\b", said):
            return error
        got = values if error.got is None else f"{error.got}, in a call with {values}"
        return under(name, error, got)
    cls = next((c for plain, c in _CLASSES.items() if isinstance(error, plain)), None)
    can_be_wrong = parameters or function.__name__ == "__iter__"
    if cls is None or not can_be_wrong or _fits_badly(error, name):
        return error
    reason = " ".join(str(error).split())
    names = ", ".join(arguments or parameters)
    return cls(
        f"{name}({names}): an argument has an unsupported type or value",
        got=values or "no arguments",
        hint=f"help({name}) describes the arguments; {type(error).__name__}: {reason:.200}",
    )


def under(name, error, got=None):
    """Return a copy of a library error, with a function's name in front of its headline.

    Examples
    --------
    >>> print(under("half", ArgumentError("the size is odd", got="3")))
    half: the size is odd
      got       3
    """
    got = error.got if got is None else got
    return type(error)(
        f"{name}: {error.message}", got=got, expected=error.expected, hint=error.hint
    )


def _is_outermost(frame):
    """Return True if no decorated function lies on the stack between user code and `frame`."""
    while frame is not None and _package_of(frame) == _PACKAGE:
        if frame.f_code in guards:
            return False
        frame = frame.f_back
    return True


def _package_of(frame):
    return str(frame.f_globals.get("__name__")).split(".")[0]


def _call_of(function, args, kwargs):
    """Return the name of a call, such as "StepLR.step", its parameter names and its arguments."""
    signature = inspect.signature(function)
    parameters = [name for name in signature.parameters if name != "self"]
    try:
        arguments = dict(signature.bind(*args, **dict(kwargs)).arguments)
    except TypeError:  # the arguments do not match
        arguments = {}
    name = function.__name__
    if "self" in arguments:
        owner = type(arguments.pop("self")).__name__
        special = name in ("__init__", "__call__", "forward")
        name = owner if special else f"{owner}.{name}"
    elif name == "__new__":
        name = arguments.pop("cls", function).__name__
    return name, parameters, arguments


def _fits_badly(error, name):
    """Return True if Python raised `error` because a call did not match the signature of `name`."""
    found = _SIGNATURE.match(str(error)) if type(error) is TypeError else None
    if found is None:
        return False
    words = found[1].split(".")
    return words[-1] == name.rsplit(".", 1)[-1] or words[-1] in ("__init__", "__call__", "forward")


def _is_users(trace):
    """Return True if code outside this library and outside NumPy raised the error."""
    while trace is not None:
        if _package_of(trace.tb_frame) not in _LIBRARIES:
            return True
        trace = trace.tb_next
    return False


def _short(value):
    """Describe a value in one line: the shape of a tensor, or at most 40 characters of text."""
    if hasattr(value, "shape"):
        return f"a {type(value).__name__} of shape {value.shape}"
    if isinstance(value, (list, tuple)) and any(hasattr(item, "shape") for item in value):
        start, end = "[]" if isinstance(value, list) else "()"
        items = [_short(item) for item in value[:3]] + ["..."] * (len(value) > 3)
        return f"{start}{', '.join(items)}{end}"
    if not isinstance(value, (type(None), bool, int, float, str, list, tuple, dict, type)):
        return f"a {type(value).__name__}"
    return " ".join(f"{_limited(value):.40}".split())


def _limited(value):
    try:
        return repr(value)
    except Exception:
        return f"a {type(value).__name__}"
