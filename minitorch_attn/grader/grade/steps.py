"""Record the steps of a computation in the files that a student writes.

The grader records the steps of a submission and, for comparison, those of the library, where the
same files contain the solution.

A step is a call of a function in the student's files, or a call from one of their lines to the
package: `self.norm1(x)`, `a + b`, `matmul(a, b)`. Calls inside the package are not steps. A step
stores its line, the arrays it gets and the arrays it returns. A generator makes one step for each
value that it yields.

This file is also copied next to the submission, whose copy of the package does not contain the
tracer. So this file imports only NumPy and the standard library. A submission can manipulate the
recorded steps, so `step_list` checks the messages that it reads.
"""

import math
import os
import sys
import weakref
from itertools import count
from opcode import opname

import numpy as np

__all__ = ["MOST_BYTES", "Steps"]

MOST_STEPS = 300
MOST_ARRAYS = 8  # maximum number of inputs or outputs of one step
MOST_NUMBERS = 250_000  # maximum number of stored entries of all steps together
KEPT = 2048  # maximum number of stored entries of an output array
GIVEN = 256  # maximum number of stored entries of an input array
MOST_BYTES = 16 * MOST_NUMBERS

_NO_STEPS = ("__init__", "__setattr__", "__getattr__")  # the object may be incomplete
_STARS = (4, 8)  # flags of code objects with *args and with **kwargs
_GENERATOR = 32  # flag of code objects that yield
_OF_ARRAYS = ("array", "attend")  # attribute of a Tensor, attribute of a Mask


class Steps:
    """Records the steps of this thread inside a `with` block.

    Parameters
    ----------
    root : path
        Parent folder of the package.
    files : list of str
        Paths of the student's files: `minitorch_attn/...`.

    Attributes
    ----------
    steps : list of dict
        Steps in the order in which they start. The keys of a step are:

        * "name": name of the called function
        * "path": path of the layer in the model
        * "takes": argument names
        * "defined", "called": each a file and a line, or None outside the student's files
        * "by": name of the calling function, or ""
        * "parent": number of the enclosing step, or None
        * "given", "made": arrays that the step gets and returns
        * "left": True if a student's function returned None; "made" then contains its arguments
          after the call

        Each array in "given" and "made" is a dict with the keys:

        * "at", "count": start and length of its part of the concatenated `numbers`
        * "place": its position among the arguments or results
        * "shape", "dtype"
        * "every": stride of the stored sample
        * "key": number that identifies the array; a step gives a new number to each array that it
          returns
    numbers : list of ndarray
        Values of the arrays. Each sample is followed by the minimum, maximum, mean and standard
        deviation of the array.
    """

    def __init__(self, root, files):
        self.root, self.files = os.path.join(os.path.abspath(root), ""), frozenset(files)
        self.steps, self.numbers = [], []
        self._at = 0
        self._open = []  # (frame, number)
        self._paths = {}  # id of a module -> its dotted name
        self._known = {}  # file name of a code object -> path as in `files`, or None
        self._keys, self._next = {}, count().__next__
        self._kept = []  # modules, kept alive so that ids stay unique
        self._making = None  # frame of an __init__; calls inside it are not steps
        self._outer = None

    def __enter__(self):
        self._forget()
        self._outer = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exc_info):
        sys.setprofile(self._outer)
        self._open.clear()

    def _forget(self):
        """Clear the caches of the student's functions: a cached call records no steps."""
        for name in self.files:
            module = sys.modules.get(name.removesuffix(".py").replace("/", "."))
            for value in list(vars(module).values()) if module else ():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

    def message(self):
        """Return the steps as JSON-compatible dicts, and all their numbers as one array.

        Returns
        -------
        (list of dict, ndarray)
        """
        numbers = np.concatenate([np.zeros(0), *self.numbers])
        return self.steps, numbers

    def _event(self, frame, event, value):
        try:
            if event == "call":
                self._enter(frame)
            elif event == "return":
                if frame is self._making:
                    self._making = None
                elif self._open and self._open[-1][0] is frame:
                    self._leave(frame, value)
        except Exception:  # an unusual object invalidates only one step
            pass

    def _place(self, frame, line):
        """Return the file and line of a frame in the student's files, or None."""
        name = frame.f_code.co_filename
        if name not in self._known:
            inside = name.startswith(self.root)
            self._known[name] = name[len(self.root) :].replace(os.sep, "/") if inside else None
        file = self._known[name]
        return (file, line) if file in self.files else None

    def _enter(self, frame):
        code, caller = frame.f_code, frame.f_back
        defined = self._place(frame, code.co_firstlineno)
        if self._known[code.co_filename] is None or self._making is not None:
            return
        called = None if caller is None else self._place(caller, caller.f_lineno)
        if code.co_name == "__init__":
            self._making = frame
        odd = code.co_name.startswith("<") or code.co_name in _NO_STEPS
        # It does not matter which arrays a student saves for the backward pass, or in which order.
        odd = odd or code.co_qualname.startswith("Context.")
        if odd or len(self.steps) >= MOST_STEPS or (defined is None and called is None):
            return
        arguments = _arguments(frame)
        path = self._module(arguments)
        # Record numbers only if they are passed to the student's function. Others are settings.
        given = self._arrays(_placed(list(arguments.values()), defined is not None), GIVEN)
        parent = self._open[-1][1] if self._open else None
        self._open.append((frame, len(self.steps)))
        self.steps.append({
            "name": _name(code, arguments, path), "path": path or "", "parent": parent,
            "takes": code.co_varnames[: code.co_argcount], "defined": defined, "called": called,
            "by": _function(caller) if called else "", "given": given, "made": [], "left": False,
        })  # fmt: skip

    def _leave(self, frame, value):
        """Store the value that a call returned or yielded. For None, store the call's arguments."""
        _, number = self._open.pop()
        step = self.steps[number]
        code = frame.f_code
        if not opname[code.co_code[frame.f_lasti]].startswith(("RETURN", "YIELD")):
            return  # the call raised an error
        own = step["defined"] is not None
        step["left"] = own and value is None and not code.co_flags & _GENERATOR
        if step["left"]:
            value = [_inside(argument) for argument in _arguments(frame).values()]
        # Record numbers only if the student's function returns them. Others are shapes or flags.
        numbers = own and not step["left"]
        step["made"] = self._arrays(_placed(value, numbers), KEPT, made=True)

    def _module(self, arguments):
        """Return the model path of the called method's `self`, or None if it is not a module."""
        module = arguments.get("self")
        if not hasattr(type(module), "named_modules"):
            return None
        if id(module) not in self._paths:
            self._kept.append(module)
            for path, inner in module.named_modules():
                self._paths.setdefault(id(inner), path)
        return self._paths.get(id(module), "")

    # Arrays

    def _arrays(self, arrays, most, made=False):
        found = []
        for place, array in arrays:
            if self._at >= MOST_NUMBERS or len(found) == MOST_ARRAYS:
                break
            key = self._key(array, made)
            found.append({"place": place, "key": key, **self._array(array, most)})
        return found

    def _array(self, array, most):
        size = array.size
        every = 1 if size <= most else _spacing(array.shape, most)
        flat = array.reshape(-1)[::every]
        with np.errstate(all="ignore"):
            numbers = flat.real.astype(np.float64)
            if every > 1:
                more = [array.min(), array.max(), array.mean(), array.std()]
                numbers = np.concatenate([numbers, np.array(more, dtype=np.float64)])
        at, self._at = self._at, self._at + numbers.size
        self.numbers.append(numbers)
        return {
            "at": at, "count": numbers.size, "shape": list(array.shape), "dtype": str(array.dtype),
            "every": every,
        }  # fmt: skip

    def _key(self, array, new):
        """Return the number that identifies an array. With `new`, always assign a new number."""
        place = id(array)
        if new or place not in self._keys:
            gone = weakref.ref(array, lambda _: self._keys.pop(place, None))
            self._keys[place] = (self._next(), gone)
        return self._keys[place][0]


def _name(code, arguments, path):
    """Return the name of a call: the class of a layer, or the name of an operation."""
    cls = arguments.get("cls")
    if code.co_name == "__call__" and path is not None:
        return type(arguments["self"]).__name__
    return f"{cls.__name__}.{code.co_name}" if isinstance(cls, type) else code.co_qualname


def _function(frame):
    """Return the function that a frame belongs to, even if the frame is a lambda inside it."""
    name = frame.f_code.co_qualname
    while name.endswith(">"):
        name = name.rpartition(".<locals>.")[0]
    return name


def _arguments(frame):
    """Return a dict that maps the argument names of a call to their current values."""
    code = frame.f_code
    extra = sum(bool(code.co_flags & flag) for flag in _STARS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + extra]
    values = frame.f_locals
    return {name: values[name] for name in names if name in values}


def _inside(value):
    """Return what a call can change in `value`: attributes, or a tensor and its gradient."""
    if isinstance(value, np.ndarray):
        return value
    if any(hasattr(value, name) for name in _OF_ARRAYS):
        return [value, getattr(value, "grad", None)]
    return dict(getattr(value, "__dict__", ())) or value


def _placed(value, numbers=False):
    """Yield (i, array) for each array in a value, where i is the array's position.

    In a tuple or list, i is the index of the entry that contains the array. Otherwise, i is 0.
    With `numbers`, each number is also yielded, as a 0-d array.
    """
    parts = value if isinstance(value, (tuple, list)) else [value]
    for place, part in enumerate(parts):
        for array in _flat(part, numbers):
            yield place, array


def _flat(value, numbers=False, depth=4):
    """Yield the arrays in a value, including the arrays of tensors, and numbers if requested."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biufc":
            yield np.asarray(value)
    elif isinstance(value, (bool, int, float, np.generic)):
        array = np.asarray(value)
        if numbers and array.dtype.kind in "biufc":
            yield array
    elif isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        for item in [item for item, _ in zip(items, range(32), strict=False)] if depth else ():
            yield from _flat(item, numbers, depth - 1)
    elif depth and not isinstance(value, (type, str, bytes)):
        for name in _OF_ARRAYS:
            held = getattr(value, name, None)
            if held is not None:
                yield from _flat(held, numbers, depth - 1)
                break


def _spacing(shape, most):
    """Return a sampling stride coprime to every axis length, so that all columns are sampled."""
    every = -(-math.prod(shape) // most)
    while any(math.gcd(every, size) > 1 for size in shape if size > 1):
        every += 1
    return every
