"""JSON document of a recording, for the HTML pages and other tools.

This is version 2. Tensors, modules and steps are lists. Other fields refer to their elements by id.
The ids of steps start at 1, so the last of N steps is step N. The HTML pages, `Recording.table()`
and the names of tensors show these ids. (In version 1, the ids of steps started at 0. The places in
the code, which are described below, did not have a `span`, and their `text` always had three lines.
The pages read both versions.)

=============  ===================================================================================
title          Title of the recording.
made_by        "minitorch_attn" and its version.
message        Why the recording is incomplete (an error, a limit that was reached), or "".
skipped        Number of steps that ran beyond the limit.
modules        id, path (dotted; "" for an outermost module), class, parent (id or null).
functions      Dict from "file.Class" to the formulas `forward` and `backward`, the docstring `doc`,
               and the lines `forward_at` and `backward_at` of the definition.
tensors        See below.
steps          See below, in the order in which they ran.
fused          Fused operations, each recorded as the individual steps that compute it: id, op,
               function, module, settings, inputs, outputs, and the ids of its `first` and `last`
               forward step.
attention      step (weights times values), softmax (step), module, weights, scores, mask (tensor
               or null; 1 = may attend), heads, query_labels, key_labels and windows. For Swin,
               `windows` has the fields grid (number of windows along each axis), size, shift and
               regions (tensor with each token's region number). Otherwise, it is null.
=============  ===================================================================================

A tensor has these fields:

* id, name, shape, dtype and requires_grad.
* variable: name of the tensor in the code, or null.
* role: "parameter", "input", "result", "gradient" or "mask".
* min, max, mean and std: statistics of the finite values, or null if no value is finite.
* nan and inf: number of NaN values and of infinite values.
* values: flat list in C order, rounded to five significant digits. NaN and infinite values are
  written as the strings "nan", "inf" and "-inf".
* sampled: whether the values are a sample. If they are, `sample` has the `shape` of the sample and
  `steps`, the distance between sampled indices along each axis. Otherwise, `sample` is null.
* shares_memory_with: ids of earlier tensors.
* was: id of the tensor's state before an in-place change, or null.

A step of any kind has id, kind, op, function (key in `functions`), formula, module, source,
called_at and notes (anything unusual). In a `LineRecording`, a step is a line of code, not an
operation. Its kind is always "forward" and its function is null. An additional field, `side`, is
"forward" or "backward": the pass to which the line belongs. A forward or backward step also has
definition, settings, input_names and output_names (names in the formula), part_of (id of a fused
operation) and inside (id of the backward step during which this step ran). The last two can be
null. Each kind has further fields:

* "forward": inputs and outputs, variables (names of the inputs in the code) and aliases (pairs
  [output, input] of positions that share memory). An input is a tensor, {"number": 2.0} or null.
* "backward": of (the forward step), grads (the gradients of the outputs), results (the gradients of
  the inputs, null if not required) and added. For each gradient to which the step adds, `added` has
  an entry with five fields. `tensor` is the tensor to which the gradient belongs (null if it was
  created before the recording), and `from_step` is the forward step that created this tensor.
  `before` is the gradient before the addition (null for the first contribution), `contribution` is
  the term that is added, and `after` is the sum.
* "accumulate": added, with one entry. When a backward pass ends, the step adds to a leaf's `.grad`.

A place in the code is {"file", "line", "function", "text", "first", "span"}. `text` contains the
lines of the expression that was running, the line before and the line after. `first` is the number
of the first line in `text`. `span` is the position of the expression: first line, first column,
last line, end column. Columns are counted in characters from 0. `span` is null if the position is
unknown.
"""

import inspect
import sys

import numpy as np

from .attention import find_attention
from .formulas import formula, index_text, is_index, name_of
from .source_places import definitions
from .steps import Entry
from .values import Values, plain

__all__ = ["document"]

_BUDGET = 180_000  # total number of values, about 1.5 MB
_MAPS = 120_000  # total number of attention weights, which get a larger budget
_LEAST = 64


def document(recording, values=4096):
    """Return a recording as a dict with the fields that this module's docstring describes.

    Parameters
    ----------
    recording : Recording
    values : int
        Maximum number of values per tensor. If the total is too large for a page, larger tensors
        keep fewer values. Attention weights may keep four times as many values as other tensors.

    Returns
    -------
    dict
    """
    return _Writer(recording, values).document()


class _Writer:
    def __init__(self, recording, values):
        self.recording = recording
        self.found = find_attention(recording.steps)
        self.kept_whole = {entry.number for f in self.found for entry in (f.weights, f.scores)}
        self.weights = {f.weights.number for f in self.found}
        self.values, self.most = values, self._most(values)
        self.maps = max(values, min(4 * values, _MAPS // max(len(self.found), 1)))
        self.tensors = [self._tensor(entry) for entry in recording.tensors]
        self.functions = {}

    def _most(self, values):
        """Return a limit on the number of values that the document keeps per tensor.

        The limit is `values`, halved until all tensors together keep at most `_BUDGET` values, or
        until it is at most `_LEAST`.
        """
        sizes = [entry.values.size for entry in self.recording.tensors]
        while values > _LEAST and sum(min(size, values) for size in sizes) > _BUDGET:
            values //= 2
        return values

    def document(self):
        """Create the document."""
        recording, package = self.recording, __name__.split(".")[0]
        attention = [self._attention(found) for found in self.found]
        return {
            "version": 2,
            "title": recording.title or "A recording",
            "made_by": f"{package} {sys.modules[package].__version__}",
            "message": recording.message,
            "skipped": recording.skipped,
            "modules": [_module(module) for module in recording.modules],
            "steps": [self._step(step) for step in recording.steps],
            "fused": [self._fused(fused) for fused in recording.fused],
            "attention": attention,
            "functions": self.functions,
            "tensors": self.tensors,
        }

    # Tensors

    def _tensor(self, entry):
        is_map = entry.number in self.kept_whole
        most = self.maps if entry.number in self.weights else self.values if is_map else self.most
        # Keep a few complete maps, because the rows of a partial map do not sum to 1.
        kept, steps = entry.values.grid(most, whole=2 if is_map else 0)
        return {
            "id": entry.number,
            "name": entry.name or f"{entry.role} {entry.number}",
            "variable": entry.variable,
            "role": entry.role,
            "requires_grad": entry.requires_grad,
            **_shape_and_statistics(entry.values),
            **_kept(kept, steps),
            "shares_memory_with": sorted(set(entry.shares)),
            "was": entry.was,
        }

    def _more(self, array, name):
        """Add a tensor that no step computed (a mask, or Swin's regions), and return its id."""
        values = Values(array, array.size)
        kept, steps = values.grid(self.maps, whole=2)
        number = len(self.tensors)
        self.tensors.append({
            "id": number,
            "name": name,
            "variable": None,
            "role": "mask",
            "requires_grad": False,
            **_shape_and_statistics(values),
            **_kept(kept, steps),
            "shares_memory_with": [],
            "was": None,
        })  # fmt: skip
        return number

    # Steps

    def _step(self, step):
        common = {
            "id": step.number,
            "kind": step.kind,
            "op": step.op,
            "function": self._function(step.function),
            "formula": step.formula,
            "module": None if step.module is None else step.module.number,
            "source": _place(step.source),
            "called_at": _place(step.called_at),
            "notes": step.notes,
            **({} if step.side is None else {"side": step.side}),
        }
        if step.kind == "accumulate":
            return {**common, "added": [_addition(a) for a in step.added]}
        forward_at, backward_at = definitions(step.function)
        common |= {
            "definition": _short_place(forward_at if step.kind == "forward" else backward_at),
            "settings": {name: _setting(value) for name, value in step.settings.items()},
            "input_names": step.input_names,
            "output_names": step.output_names,
            "part_of": None if step.part_of is None else step.part_of.number,
            "inside": step.inside,
        }
        if step.kind == "forward":
            return {
                **common,
                "inputs": [_reference(value) for value in step.inputs],
                "outputs": [_reference(value) for value in step.outputs],
                "variables": step.variables,
                "aliases": [list(pair) for pair in step.aliases],
            }
        return {
            **common,
            "of": step.of,
            "grads": [_reference(value) for value in step.inputs],
            "results": [_reference(value) for value in step.outputs],
            "added": [_addition(a) for a in step.added],
        }

    def _function(self, function):
        if function is None:
            return None
        key = name_of(function)
        if key not in self.functions:
            forward, backward = formula(function)
            forward_at, backward_at = definitions(function)
            self.functions[key] = {
                "forward": forward, "backward": backward, "doc": _dedented(function.__doc__),
                "forward_at": _short_place(forward_at), "backward_at": _short_place(backward_at),
            }  # fmt: skip
        return key

    def _fused(self, fused):
        numbers = [
            step.number
            for step in self.recording.steps
            if step.part_of is fused and step.kind == "forward"
        ]
        return {
            "id": fused.number,
            "op": fused.op,
            "function": self._function(fused.function),
            "module": None if fused.module is None else fused.module.number,
            "settings": {name: _setting(value) for name, value in fused.settings.items()},
            "inputs": [_reference(value) for value in fused.inputs],
            "outputs": [_reference(value) for value in fused.outputs],
            "first": min(numbers, default=None),
            "last": max(numbers, default=None),
        }

    def _attention(self, found):
        shape = found.weights.values.shape
        windows = found.windows
        if windows is not None:
            regions = self._more(windows["regions"], "regions of the shifted map")
            windows = {**windows, "regions": regions}
        mask = None if found.mask is None else self._more(found.mask, "mask: 1 = may attend")
        return {
            "step": found.step.number,
            "softmax": found.softmax.number,
            "module": None if found.step.module is None else found.step.module.number,
            "weights": found.weights.number,
            "scores": found.scores.number,
            "mask": mask,
            "heads": found.heads,
            "query_labels": self._labels(shape[-2]),
            "key_labels": self._labels(shape[-1]),
            "windows": windows,
        }

    def _labels(self, count):
        labels = self.recording.labels
        return list(labels) if labels is not None and len(labels) == count else None


def _shape_and_statistics(values):
    return {
        "shape": list(values.shape),
        "dtype": str(values.dtype),
        **{name: _rounded(getattr(values, name)) for name in ("min", "max", "mean", "std")},
        "nan": values.nan,
        "inf": values.inf,
    }


def _kept(array, steps):
    sampled = any(step > 1 for step in steps)
    return {
        "values": plain(array),
        "sampled": sampled,
        "sample": {"shape": list(array.shape), "steps": list(steps)} if sampled else None,
    }


def _rounded(value):
    return None if value is None else plain(np.array([value]), 6)[0]


def _module(module):
    return {
        "id": module.number,
        "path": module.path,
        "class": module.name,
        "parent": None if module.parent is None else module.parent.number,
    }


def _reference(value):
    if value is None:
        return None
    return value.number if isinstance(value, Entry) else {"number": _setting(value)}


def _addition(addition):
    return {
        "tensor": _reference(addition.tensor),
        "before": _reference(addition.before),
        "contribution": _reference(addition.contribution),
        "after": _reference(addition.after),
        "from_step": addition.from_step,
    }


def _setting(value):
    """Convert an operation's setting to a value that JSON supports, such as a short string."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if is_index(value):
        return index_text(value)
    if isinstance(value, float):
        return plain(np.array([value]), 6)[0]
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        return [_setting(item) for item in value]
    text = getattr(value, "__name__", None) or " ".join(str(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _place(place):
    if place is None:
        return None
    return {**_short_place(place), "function": place.function, "text": place.text,
            "first": place.first, "span": place.span and list(place.span)}  # fmt: skip


def _short_place(place):
    return None if place is None else {"file": place.file, "line": place.line}


def _dedented(doc):
    return "" if doc is None else inspect.cleandoc(doc)
