"""The steps of a computation as the files of a student see them: recorded here, in any process.

A step is a call of a function of these files, or a call that one of their lines makes of a function
of the package: `self.norm1(x)`, `a + b`, `matmul(a, b)`. What the package does inside of those is
no step. Each step has the line it is made at, the arrays it is given and those it returns.

This file is also copied beside the submission, where it takes the place of the tracer, which is not
in the package there; so it imports NumPy and the standard library only. A submission may do to it
what it likes: see `step_list`, which reads its messages.
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
MOST_ARRAYS = 8  # of one step, given or returned
MOST_NUMBERS = 250_000  # of all steps
KEPT = 2048  # numbers of one array
GIVEN = 256  # of one that a step is given
MOST_BYTES = 16 * MOST_NUMBERS

_NO_STEPS = ("__init__", "__setattr__", "__getattr__")  # an object is not whole yet
_STARS = (4, 8)  # flags of code with *args, with **kwargs
_OF_ARRAYS = ("array", "attend")  # a Tensor has the first, a Mask the second


class Steps:
    """Records the steps of this thread inside a `with` block.

    Parameters
    ----------
    root : path
        The folder that holds the package.
    files : list of str
        Those of the student: `minitorch_attn/...`.

    Attributes
    ----------
    steps : list of dict
        In the order in which they start: name, path (of the module that is called, in the outermost
        one), takes (the names of the arguments), defined and called (file and line, each None
        outside of these files), by (the function that calls it, or ""), parent (the number of the
        step during which it ran, or None), left (whether it returned nothing, so that what it made
        are its arguments afterwards), given and made: lists of arrays, each as `at` and `count` in
        `numbers`, place (among several results, or arguments), shape, dtype, every (how many
        entries apart a sample is) and key (a number for the array, another one after it was
        returned again).
    numbers : list of ndarray
        The values, and of a sample four more: the least, the largest, their mean and deviation.
    """

    def __init__(self, root, files):
        self.root, self.files = os.path.join(os.path.abspath(root), ""), frozenset(files)
        self.steps, self.numbers = [], []
        self._at = 0
        self._open = []  # (frame, number)
        self._paths = {}  # id of a module -> its dotted name
        self._known = {}  # name of a code's file -> as of `files`, or None
        self._keys, self._next = {}, count().__next__
        self._kept = []  # modules, so that no id is used twice
        self._making = None  # the frame of an __init__: what runs in it is no step
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
        """What functions of the student keep for the next call would hide how they find it."""
        for name in self.files:
            module = sys.modules.get(name.removesuffix(".py").replace("/", "."))
            for value in list(vars(module).values()) if module else ():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

    def message(self):
        """The steps as JSON can hold them, and the numbers.

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
        except Exception:  # of an odd object: a step less, and nothing else
            pass

    def _place(self, frame, line):
        """(file, line) of a frame in the student's files, or None."""
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
        # What a student keeps for the backward pass, and in which order, is nobody's business.
        odd = odd or code.co_qualname.startswith("Context.")
        if odd or len(self.steps) >= MOST_STEPS or (defined is None and called is None):
            return
        arguments = _arguments(frame)
        path = self._module(arguments)
        # A number that a function of the student is given is a value; elsewhere it is a setting.
        given = self._arrays(_placed(list(arguments.values()), defined is not None), GIVEN)
        parent = self._open[-1][1] if self._open else None
        self._open.append((frame, len(self.steps)))
        self.steps.append({
            "name": _name(code, arguments, path), "path": path or "", "parent": parent,
            "takes": code.co_varnames[: code.co_argcount], "defined": defined, "called": called,
            "by": _function(caller) if called else "", "given": given, "made": [], "left": False,
        })  # fmt: skip

    def _leave(self, frame, value):
        """Keep what a call returned; of a function that returns nothing, what it left behind."""
        _, number = self._open.pop()
        step = self.steps[number]
        if not opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
            return  # it raised an error
        own = step["defined"] is not None
        step["left"] = own and value is None
        if step["left"]:
            value = [_inside(argument) for argument in _arguments(frame).values()]
        # What a function of the student returns may be a number; elsewhere it is a shape or a flag.
        numbers = own and not step["left"]
        step["made"] = self._arrays(_placed(value, numbers), KEPT, made=True)

    def _module(self, arguments):
        """The dotted name of the module whose method is called, in the outermost one."""
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
        """A number for an array; a new one where a step returns it, perhaps changed."""
        place = id(array)
        if new or place not in self._keys:
            gone = weakref.ref(array, lambda _: self._keys.pop(place, None))
            self._keys[place] = (self._next(), gone)
        return self._keys[place][0]


def _name(code, arguments, path):
    """What a call is called: of a layer its class, of an operation its name."""
    cls = arguments.get("cls")
    if code.co_name == "__call__" and path is not None:
        return type(arguments["self"]).__name__
    return f"{cls.__name__}.{code.co_name}" if isinstance(cls, type) else code.co_qualname


def _function(frame):
    """The function that a frame belongs to, also where it is that of a lambda inside it."""
    name = frame.f_code.co_qualname
    while name.endswith(">"):
        name = name.rpartition(".<locals>.")[0]
    return name


def _arguments(frame):
    """The arguments of a call by their names, as they are now."""
    code = frame.f_code
    extra = sum(bool(code.co_flags & flag) for flag in _STARS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + extra]
    values = frame.f_locals
    return {name: values[name] for name in names if name in values}


def _inside(value):
    """What an object holds: of a tensor its gradient, too."""
    if isinstance(value, np.ndarray):
        return value
    if any(hasattr(value, name) for name in _OF_ARRAYS):
        return [value, getattr(value, "grad", None)]
    return dict(getattr(value, "__dict__", ())) or value


def _placed(value, numbers=False):
    """(place, array) of all arrays; the place counts the parts of a tuple, absent ones too."""
    parts = value if isinstance(value, (tuple, list)) else [value]
    for place, part in enumerate(parts):
        for array in _flat(part, numbers):
            yield place, array


def _flat(value, numbers=False, depth=4):
    """The arrays in a value, those of tensors too; with `numbers` these as well."""
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
    """How far apart the kept entries are: no multiple of an axis, or one column would be all."""
    every = -(-math.prod(shape) // most)
    while any(math.gcd(every, size) > 1 for size in shape if size > 1):
        every += 1
    return every
