"""Judge a fuzzed call: run it, and classify its outcome."""

import itertools
import re
import signal
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import minitorch_attn as mt
from minitorch_attn.backend import is_number_dtype
from minitorch_attn.errors import GraphError, MiniTorchError, MissingMethodError

__all__ = ["Outcome", "judge", "namespace"]

FILE = "<fuzzed call>"
_PACKAGE = str(Path(mt.__file__).parent)
# Functions of the package that pass the user's arguments to another function.
_WRAPPERS = {"__call__", "call", "call_watched", "call_with_hooks", "change", "change_shape",
             "iterate"}  # fmt: skip
# Arguments that are callable: {name in Python's error message: expression}.
_CALLBACKS = {"Linear.__init__": "nn.Linear", "Linear.forward": "step(nn.Linear(3, 3))",
              "_Switch.__call__": "mt.no_grad()", "relu": "F.relu", "ones": "mt.ones"}  # fmt: skip
# Callables that call a model of the user with the user's arguments.
_RUN_MODELS = {"Summary", "summary", "attention_maps", "gradcheck_module",
               "gradcheck_module_report"}  # fmt: skip
_SECONDS = 5  # seconds of processor time


class Outcome(NamedTuple):
    """Outcome of a program.

    `kind` is "result", "own" (the package's own error), "signature" (TypeError for arguments that
    do not fit the parameters), "caller" (an error that a callback of the program raised), "slow" or
    "foreign" (any other error, which is a finding). For the package's own errors, `named` says
    whether the message names the callable, and `parameter` says whether it names a parameter.
    """

    kind: str
    message: str = ""
    place: str = ""
    named: bool = True
    parameter: bool = True


class _Slow(BaseException):
    """Raised in a program that takes too long."""


def namespace():
    """Return the namespace in which programs run."""
    return {
        "mt": mt, "nn": mt.nn, "F": mt.nn.functional, "np": np, "nan": float("nan"),
        "inf": float("inf"), "__name__": "fuzzed",
    }  # fmt: skip


def judge(program, seed=0):
    """Run a Program, and return its Outcome.

    Parameters
    ----------
    program : Program
    seed : int
        Seed of the library's random numbers.
    """
    mt.set_grad_enabled(True)
    mt.set_default_dtype("float32")
    mt.set_printoptions(profile="default")
    mt.manual_seed(seed)
    before = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _run(program)
        return Outcome("result")
    except _Slow:
        return Outcome("slow", f"more than {_SECONDS} s", program.name)
    except Exception as error:
        return _judged(program, error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _too_slow(signum, frame):
    raise _Slow


def _run(program):
    space = namespace()
    exec(compile(program.text, FILE, "exec"), space)
    result = space.get("r")
    if hasattr(result, "__next__"):
        result = list(itertools.islice(result, 5))
    if hasattr(result, "__enter__"):
        with result:
            pass
    repr(result)
    for output in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(output, mt.Tensor) and not is_number_dtype(output.dtype):
            raise AssertionError(f"the result is a tensor of dtype {output.dtype}")
    for output in (result, space.get("y")):
        if isinstance(output, mt.Tensor) and output.requires_grad and output.numel() < 10**6:
            output.sum().backward()


def _judged(program, error):
    message = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename.startswith(_PACKAGE)]
    if isinstance(error, MiniTorchError):
        notes = getattr(error, "__notes__", [])
        said = "\n".join([str(error), *notes])
        missing = isinstance(error, (MissingMethodError, GraphError))  # no argument is wrong
        return Outcome("own", message, _place(inside), *_names(program, said, missing))
    if frames and frames[-1].filename == FILE and inside:
        return Outcome("caller", message)
    if _is_callback(program, error):
        return Outcome("caller", message)
    attribute = ["__getattr__"], ["__delattr__"]  # raised for hasattr(x, "no")
    if type(error) is AttributeError and [frame.name for frame in inside] in attribute:
        return Outcome("signature", message)
    if program.name == "protocol" and not inside:  # an error of Python itself, such as format(x, 3)
        return Outcome("signature", message)
    if type(error) is TypeError and _is_signature(program, error, inside):
        return Outcome("signature", message)
    return Outcome("foreign", message, f"{program.name} at {_place(inside)}")


def _place(frames):
    if not frames:
        return "the call"
    frame = frames[-1]
    return f"{frame.filename[len(_PACKAGE) + 1 :]}:{frame.lineno} in {frame.name}"


def _is_callback(program, error):
    """Return True for a TypeError from calling one of the arguments, such as `nn.Linear`."""
    found = re.match(r"([\w.]+)\(\) (missing|takes)", str(error))
    given = [text for name, text in _CALLBACKS.items() if found is not None and name == found[1]]
    return type(error) is TypeError and any(text in program.text for text in given)


def _is_signature(program, error, inside):
    """Return True for an error such as "softmax() missing 1 required positional argument".

    Python raises such an error at the call, before the called function starts. The error is not a
    finding if this call is in the program itself, or in a wrapper of the package that only passes
    the user's arguments on, such as the wrapper that the decorator `names_arguments` creates.
    """
    if re.match(r"[\w.<>]+\(\) (missing|takes|got an|got mult|got some)", str(error)) is None:
        return False
    keyword = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if keyword is not None and f"{keyword[1]}=" in program.text:  # passed on in **kwargs
        return True
    if program.name.rpartition(".")[2] in _RUN_MODELS and ".forward()" in str(error):
        return True
    return {frame.name for frame in inside} <= {*_WRAPPERS, program.name.rpartition(".")[2]}


def _names(program, said, missing):
    """Return whether a message names the callable, and whether it names one of its parameters."""
    words = set(re.findall(r"\w+", said))
    last = program.name.rsplit(".", 1)[-1]
    named = program.name in said or bool({last, last.strip("_")} & words)
    if program.name in ("Tensor", "protocol"):  # operators such as `+`
        named = True
    if program.name == "x[index]":
        named = "x[" in said
    if not program.parameters or missing:
        return named, True
    own = {"input", "tensor"} if program.name.startswith("Tensor.") else set()  # x in x.sqrt_()
    return named, bool(words & {*program.parameters, *own})
