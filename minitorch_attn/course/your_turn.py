"""Your turn: `check` tests the function that a learner writes in a lesson."""

import copy
import sys
import textwrap
import traceback
import warnings

import numpy as np

from .. import autograd
from ..backend import get_rng_state, set_rng_state
from ..errors import DTypeError, MiniTorchError
from ..gradcheck.clues import Evidence
from ..gradcheck.diagnose import explain
from ..gradcheck.numeric import argument_names
from ..tensor import Tensor, tensor
from .compare_results import as_array, difference, leaves

__all__ = ["CheckFailed", "check", "passed_line"]

_WIDTH = 84
_FIELDS = 3  # maximum number of attributes to show of an object
_ENTRIES = 1024  # maximum size of a Jacobian to compute for a hint: arguments times results


class CheckFailed(MiniTorchError, AssertionError):
    """A learner's function does not pass its check.

    Parameters
    ----------
    message : str
        What is wrong, in one line.
    *rows : tuple of str
        Label and text of each further line. Rows without text are left out.

    Attributes
    ----------
    is_written : bool
        False if the function only raises NotImplementedError.
    """

    def __init__(self, message, *rows, is_written=True):
        lines = [message]
        for label, text in rows:
            if text:
                wide = textwrap.wrap(text, _WIDTH) if "\n" not in text else text.splitlines()
                lines += textwrap.indent("\n".join(wide), " " * 12).splitlines()
                lines[-len(wide)] = f"  {label:<9} {wide[0]}"
        super().__init__("\n".join(lines))
        self.message, self.is_written = message, is_written

    def _render_traceback_(self):
        """Return the message without a traceback, for notebooks."""
        where = [] if self.is_written else ["  write it in the cell above, then run both cells"]
        return [*str(self).splitlines(), *where]


def check(function, cases, expected, properties):
    """Test a function that a learner wrote, and print what was tested.

    The results of `function` are compared with the results of `expected`. For every tensor in which
    `expected` is differentiable, the gradients are compared too: the same random gradient of the
    result is backpropagated through both functions. Floating-point inputs are converted to float64
    first. Both functions get copies of the arguments, and the same random numbers.

    Parameters
    ----------
    function : callable
        The learner's function.
    cases : list
        Arguments of each call: a tuple, or a single argument that is not a tuple.
    expected : callable
        Correct function with the same parameters.
    properties : dict
        Maps a statement, such as "each row sums to 1", to a function that takes the result and the
        arguments of a call and returns whether the statement is true.

    Raises
    ------
    CheckFailed
        If the function is not written yet, raises an error, or returns something wrong. For a wrong
        result, the message names the case, the value that differs most and the properties that do
        not hold. It also names the cause, if the difference reveals it.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> def double(x):
    ...     return x + x
    >>> check(
    ...     double,
    ...     cases=[mt.ones(3), mt.randn(2, 3)],
    ...     expected=lambda x: 2 * x,
    ...     properties={"the sign stays": lambda y, x: (y.sign() == x.sign()).all()},
    ... )
    double: values ✓  gradients ✓  the sign stays ✓

    >>> def double(x):
    ...     return x * x
    >>> check(double, cases=[3 * mt.ones(5)], expected=lambda x: 2 * x, properties={})
    Traceback (most recent call last):
        ...
    minitorch_attn.course.your_turn.CheckFailed: double: 5 of 5 values of the result are wrong
      case      1 of 1: x = tensor of shape (5,)
      got       9 at [0]
      expected  6
      hint      the result is 3/2 times the correct one, at every entry
    """
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    state, calls = get_rng_state(), []
    for number, case in enumerate(cases, 1):
        trial = _Trial(function, case, f"{number} of {len(cases)}", state)
        correct = trial.reference(expected)
        found = trial.run()
        trial.compare(found, correct, properties)
        calls.append((trial, found, correct))
    has_gradients = [trial.compare_gradients(found, correct) for trial, found, correct in calls]
    passed = ["values", *(["gradients"] if any(has_gradients) else []), *properties]
    print(passed_line(function.__name__, passed))


def passed_line(name, aspects):
    """Return the line, or lines, that `check` prints for a function that passed.

    Parameters
    ----------
    name : str
    aspects : iterable of str
        What was tested, such as "values".

    Returns
    -------
    str
    """
    lines, mark = [f"{name}:"], _mark()
    for aspect in aspects:
        gap = " " if lines[-1].endswith(":") else "  "
        if len(f"{lines[-1]}{gap}{aspect} {mark}") > _WIDTH:
            lines, gap = [*lines, ""], " " * 4
        lines[-1] += f"{gap}{aspect} {mark}"
    return "\n".join(lines)


def _mark():
    try:
        "✓".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return "ok"
    return "✓"


class _Call:
    """A function call: its arguments, its result and NumPy's warnings."""

    def __init__(self, function, case, state):
        self.arguments = _copied(case, requires_grad=True)
        set_rng_state(state)
        with warnings.catch_warnings(record=True) as caught, autograd.enable_grad():
            warnings.simplefilter("always")
            self.result = function(*self.arguments)
        self.warning = str(caught[0].message) if caught else ""
        set_rng_state(state)

    def differentiable(self):
        """Return the tensors of the result that require a gradient, by name."""
        found = {name: y for name, y in leaves(self.result) if isinstance(y, Tensor)}
        return {name: y for name, y in found.items() if y.requires_grad}

    def gradients(self, cotangents):
        """Return each argument's gradient by name, or None if the argument gets no gradient."""
        inputs = {n: x for n, x in leaves(self.arguments) if isinstance(x, Tensor) and x.is_leaf}
        inputs = {name: x for name, x in inputs.items() if x.requires_grad}
        outputs = self.differentiable()
        outputs = {name: outputs[name] for name in cotangents if name in outputs}
        if not outputs or not inputs:
            return dict.fromkeys(inputs)
        given = [tensor(cotangents[name]) for name in outputs]
        found = autograd.grad(
            list(outputs.values()), list(inputs.values()), given, allow_unused=True,
            retain_graph=True,
        )  # fmt: skip
        return {n: None if g is None else g.numpy() for n, g in zip(inputs, found, strict=True)}


class _Trial:
    """One case of a check.

    Error messages name the case. Only the message that the function is not written yet does not.
    """

    def __init__(self, function, case, number, state):
        self.function, self.case, self.state = function, case, state
        self.names = argument_names(function, len(case))
        self.places = {f"[{i}]": name for i, name in enumerate(self.names)}
        known = getattr(function, "__globals__", {})
        pairs = zip(self.names, case, strict=True)
        shown = ", ".join(_shown(name, value, known) for name, value in pairs)
        self.rows = [("case", f"{number}: {shown}")]

    def reference(self, expected):
        """Call the correct function."""
        return _Call(expected, self.case, self.state)

    def run(self):
        """Call the learner's function."""
        return self._guarded(lambda: _Call(self.function, self.case, self.state))

    def compare(self, found, correct, properties):
        """Compare the results, find arguments that were changed, and test the properties."""
        unlike = difference(found.result, correct.result, self._inputs())
        result = _in_type_of(correct.result, found.result)
        broken = [self._broken(*item, result, unlike) for item in properties.items()]
        rows = [("not true", text) for text in broken if text]
        if unlike:
            if "NaN" in unlike.hint and found.warning:
                rows.append(("NumPy", found.warning))
            self._fail(unlike, *rows)
        for name, mine, theirs in zip(self.names, found.arguments, correct.arguments, strict=True):
            if difference(_comparable(mine), _comparable(theirs)):
                hint = "work on a copy: `x = x + 1` makes a new array, `x += 1` changes x"
                self._raise(f"the function changes its argument {name}", ("hint", hint))
        if rows:
            self._raise("a property does not hold", *rows)

    def compare_gradients(self, found, correct):
        """Compare the gradients of the arguments. Return False if there are no gradients."""
        outputs = correct.differentiable()
        if not outputs:
            return False
        rng = np.random.default_rng(0)
        cotangents = {name: rng.normal(size=y.shape) for name, y in outputs.items()}
        wanted = {n: g for n, g in correct.gradients(cotangents).items() if g is not None}
        given = self._guarded(lambda: found.gradients(cotangents))
        clues = [self._clue(n, given[n], g, cotangents, outputs) for n, g in wanted.items()]
        for clue in clues:
            name = self.places.get(clue.name, clue.name)
            noun = f"gradient of {name}"
            hints = "the values of the result are correct"
            if not clue.arrived:
                hint = "compute the result from the argument with tensor operations only, without "
                hint += "detach(), numpy(), item() or a new tensor(...)"
                self._raise(f"no gradient arrives at {name}", ("also", hints), ("hint", hint))
            unlike = difference(clue.derived, clue.numeric, noun=noun)
            if unlike:
                clue.jacobian = _jacobian(correct, clue.name, outputs)
                found = [hint.text.rstrip(".") for hint in explain(clue, clues, deep=True)]
                self._fail(unlike, ("also", hints), *(("hint", text) for text in found), hint=False)
        return bool(wanted)

    def _broken(self, text, holds, result, unlike):
        """Return "" if a property holds for the result, otherwise its statement, `text`.

        If the test of the property raises an error, the error is added to `text`. If the result is
        wrong anyway (`unlike`), such a property is left out: return "".
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a property may call the learner's function again
                return "" if holds(_copied(result), *_copied(self.case)) else text
        except Exception as error:
            return "" if unlike else f"{text} ({type(error).__name__}: {error})"

    def _clue(self, name, derived, numeric, cotangents, outputs):
        inputs = self._inputs()
        return Evidence(
            name=name, value=dict(leaves(_copied(self.case)))[name].numpy(),
            derived=np.zeros(numeric.shape) if derived is None else derived,
            arrived=derived is not None, numeric=numeric, jacobian=None,
            cotangent=np.concatenate([g.ravel() for g in cotangents.values()]),
            outputs=[as_array(y) for y in outputs.values()], inputs=inputs,
        )  # fmt: skip

    def _inputs(self):
        """Return the floating-point arguments by name."""
        arrays = {
            self.places.get(name, name): as_array(x)
            for name, x in leaves(_copied(self.case))
            if isinstance(x, (Tensor, np.ndarray))
        }
        return {name: x for name, x in arrays.items() if x.dtype.kind == "f"}

    def _guarded(self, call):
        """Run the learner's code. Turn its errors into CheckFailed, which names the line."""
        try:
            return call()
        except NotImplementedError as error:  # also NotYetWritten
            frame = self._frame(error)
            name = frame.name if frame else self.function.__name__
            raise CheckFailed(f"{name} is not written yet", is_written=False) from None
        except Exception as error:
            frame, rows = self._frame(error), []
            if frame is not None:
                rows.append((f"line {frame.lineno}", frame.line))
            rows.append(("error", str(error)))
            if isinstance(error, DTypeError):
                hint = "the check converts all arguments to float64; give new tensors the dtype of "
                rows.append(("hint", hint + "an argument, as in mt.eye(3, dtype=x.dtype)"))
            self._raise(f"the function raises {type(error).__name__}", *rows)

    def _frame(self, error):
        """Return the last line of the learner's file or cell that ran before the error."""
        file = getattr(getattr(self.function, "__code__", None), "co_filename", None)
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        return own[-1] if own else None

    def _fail(self, unlike, *rows, hint=True):
        given = [("got", unlike.got), ("expected", unlike.expected), *rows]
        self._raise(unlike.what, *given, ("hint", unlike.hint if hint else ""))

    def _raise(self, text, *rows):
        raise CheckFailed(f"{self.function.__name__}: {text}", *self.rows, *rows) from None


def _copied(value, requires_grad=False):
    """Copy nested values. Floating-point tensors and arrays become float64."""
    if isinstance(value, (tuple, list)):
        copies = [_copied(item, requires_grad) for item in value]
        return type(value)(*copies) if hasattr(value, "_fields") else type(value)(copies)
    if isinstance(value, dict):
        return {key: _copied(item, requires_grad) for key, item in value.items()}
    if isinstance(value, Tensor):
        value = value.detach().clone()
        if value.dtype.kind == "f":
            value = value.double()
            value.requires_grad = requires_grad
    elif isinstance(value, np.ndarray):
        value = value.astype(np.float64) if value.dtype.kind == "f" else value.copy()
    elif isinstance(value, np.random.Generator):
        value = copy.deepcopy(value)
    return value


def _in_type_of(correct, found):
    """Convert `found` to a tensor or an array, like `correct`, so that properties can be tested."""
    if isinstance(correct, Tensor) and isinstance(found, (np.ndarray, np.generic, int, float)):
        return tensor(np.asarray(found))
    if isinstance(correct, np.ndarray) and isinstance(found, Tensor):
        return as_array(found)
    return found


def _comparable(value):
    """Keep the arrays, numbers and text in an argument, and replace all else with None."""
    if isinstance(value, (tuple, list)):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    return value if isinstance(value, (Tensor, np.ndarray, int, float, str)) else None


def _jacobian(correct, name, outputs):
    """Return the Jacobian of the correct result with respect to the argument `name`.

    Return None if the Jacobian is too large.
    """
    size = sum(y.numel() for y in outputs.values())
    if size * dict(leaves(correct.arguments))[name].numel() > _ENTRIES:
        return None
    columns = []
    for one in np.eye(size):
        ends = np.cumsum([y.numel() for y in outputs.values()])[:-1]
        parts = np.split(one, ends)
        cotangents = {
            n: g.reshape(y.shape) for (n, y), g in zip(outputs.items(), parts, strict=True)
        }
        columns.append(correct.gradients(cotangents)[name].ravel())
    return np.stack(columns, axis=1)  # (entries, outputs)


def _shown(name, value, known):
    """Describe an argument in one line.

    Tensors and arrays are shown by their shape. Other short values are shown in full, and longer
    strings and containers are cut off. Any other object is shown by its class, after the name of
    the variable in `known` that refers to it.
    """
    if isinstance(value, (Tensor, np.ndarray)):
        kind = "tensor" if isinstance(value, Tensor) else "array"
        return f"{name} = {kind} of shape {tuple(value.shape)}"
    text = " ".join(repr(value).split())
    if len(text) <= 30:
        return f"{name} = {text}"
    if isinstance(value, (str, list, tuple, dict, set)):
        return f"{name} = {text[:26]} ..."
    names = [key for key, x in known.items() if x is value and key[0] != "_"]
    return " = ".join([name, *names[:1], _with_numbers(value)])


def _with_numbers(value):
    """Describe an object by its class and its public numeric attributes, such as `data`."""
    fields = {key: x for key, x in getattr(value, "__dict__", {}).items() if not key[0] == "_"}
    shown = [f"{key}={x:.4g}" for key, x in fields.items() if type(x) in (int, float)]
    kind = type(value).__name__
    return f"{kind}({', '.join(shown[:_FIELDS])})" if shown else kind
