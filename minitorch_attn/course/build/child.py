"""Child process of `mta build`: run the learner's file.

The arguments are the file and a folder. `order.json` in the folder lists what to do: run checks and
write their results, or show what the model can do. The parent process judges the results.
"""

import functools
import json
import sys
from pathlib import Path

import numpy as np

from ..exercises.child import Note, load, read, write
from .checks import CHECKS
from .trees import nested

__all__ = ["main"]

_NOTHING_RETURNED = ("__init__", "backward", "step", "train")  # or, for train, a generator


def main(file, folder):
    """Run what `order.json` in a folder requests: checks, a demonstration, or both.

    Parameters
    ----------
    file, folder : str
    """
    folder = Path(folder)
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    note = Note(folder / "note.json")
    with note.stage("import"):
        module = load(file, "my_gpt")
    for number in order["checks"]:
        with note.stage(str(number)):
            arrays = read(folder, f"{number}")
            found = _run(CHECKS[number], module, arrays)
            write(folder, f"{number}", found)
    if order.get("show"):
        from .show import SHOWN

        with note.stage("show"):
            SHOWN[order["show"]](module)
    note.write("end")


def _run(check, module, arrays):
    """Return the results of one check: output, gradients, dtypes, and inputs that were changed."""
    cotangent = arrays.pop("cotangent", None)
    _refuse_none(module, check.function)
    if check.kind == "plain":
        return {"y": np.asarray(check.mine(module, **arrays))}
    found = _differentiate(check, module, arrays, cotangent)
    if check.kind != "value":
        half = {name: _float32(array) for name, array in arrays.items()}
        coarse = _differentiate(check, module, half, _float32(cotangent))
        found["dtypes"] = np.array(
            [f"{name} {array.dtype}" for name, array in coarse.items() if name[:2] in ("y", "d ")]
        )
    return found


def _refuse_none(module, name):
    """Make a function of the learner's file raise an error if it returns None."""
    prefix, _, last = name.rpartition(".")
    place = getattr(module, prefix) if prefix else module
    function = vars(place)[last]
    if last in _NOTHING_RETURNED or getattr(function, "is_watched", False):
        return

    @functools.wraps(function)
    def watched(*arguments, **options):
        found = function(*arguments, **options)
        if found is None:
            raise TypeError(f"{name} returned None; is `return` missing?")
        return found

    watched.is_watched = True
    setattr(place, last, watched)


def _float32(array):
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _differentiate(check, module, arrays, cotangent):
    """Run the learner's code on Values or Tensors, then `backward`; return output and gradients."""
    given = {name: array.copy() for name, array in arrays.items()}
    wrap = module.Value if check.kind == "value" else module.Tensor
    number = float if check.kind == "value" else np.asarray
    inputs = {name: wrap(number(x)) if x.dtype.kind == "f" else x for name, x in given.items()}
    leaves = {name: x for name, x in inputs.items() if isinstance(x, module.Value)}
    if check.kind == "module":
        first = "x" if "x" in inputs else "ids"
        state = {name: x for name, x in inputs.items() if name != first}
        inputs = {first: inputs[first], "p": nested(state, lambda x: x)}
    out = check.mine(module, **inputs)
    if not isinstance(out, module.Value):
        raise TypeError(f"it returned {_kind(out)}, not a {wrap.__name__}")
    found = {"y": np.asarray(out.data)}
    if check.kind != "value" and found["y"].shape != cotangent.shape:
        return found  # with a wrong shape, the gradients would fail, too
    _watch_pulls(out, module.Value)
    out.backward(cotangent if check.kind != "value" else float(cotangent))
    for name, leaf in leaves.items():
        if not (isinstance(leaf.grad, float) and leaf.grad == 0.0):
            found[f"d {name}"] = np.asarray(leaf.grad)
    changed = [name for name, array in given.items() if not np.array_equal(array, arrays[name])]
    if changed:
        found["changed"] = np.array(changed)
    return found


def _kind(value):
    name = "array" if isinstance(value, np.ndarray) else type(value).__name__
    return "None" if value is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _watch_pulls(end, kind):
    """Make each node's `pull` check that it returns a tuple with one gradient per parent."""
    seen, waiting = set(), [end]
    while waiting:
        node = waiting.pop()
        if node not in seen and isinstance(node, kind):
            seen.add(node)
            if not isinstance(node.parents, (tuple, list)):
                name = getattr(node.pull, "__qualname__", "").partition(".<locals>")[0]
                where = f"in {name}, " if name else ""
                raise TypeError(f"{where}parents is {_kind(node.parents)}, not a tuple: a tuple of "
                                "one element needs a comma, as in (self,)")  # fmt: skip
            waiting.extend(node.parents)
            if node.pull is not None:
                node.pull = _watched(node.pull, len(node.parents))


def _watched(pull, count):
    where = f"the pull of {pull.__qualname__.partition('.<locals>')[0]}"

    def watched(g):
        found = pull(g)
        if not isinstance(found, (tuple, list)):
            raise TypeError(f"{where} returned {_kind(found)} instead of a tuple, such as (g,)")
        if len(found) != count:
            raise TypeError(f"{where} returned {len(found)} gradients for {count} parents")
        return found

    return watched


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
