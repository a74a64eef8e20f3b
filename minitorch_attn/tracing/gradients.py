"""Gradients in a recording: each contribution to a tensor's gradient, and the sum so far."""

import numpy as np

from ..backend import to_host
from ..backend.arrays import as_array
from ..tensor import Tensor
from .steps import Addition
from .values import same

__all__ = ["Arrivals"]


class Arrivals:
    """Sums of the gradients that have arrived at each output of a node.

    This class repeats the additions of the autograd engine in the same order. It compares its sums
    with the gradients that the engine passes to the node.

    Parameters
    ----------
    entries : Entries
    """

    def __init__(self, entries):
        self.entries = entries
        self.tensors = {}  # (number of a node, output index) -> Entry of that tensor
        self.made_by = {}  # number of a node -> forward step
        self._sums = {}  # (number of a node, output index) -> (Entry, array)
        self._grad_before = {}  # number of a Leaf -> (Entry, array) for its .grad before the pass

    def clear(self):
        """Reset the sums at the start of a backward pass."""
        self._sums.clear()
        self._grad_before.clear()

    def add(self, edge, value, contribution):
        """Add `value` to the sum of the gradients that have arrived at an edge.

        Parameters
        ----------
        edge : (node, int)
            Node of the graph, and index of its output.
        value : array or Tensor
        contribution : Entry
            Recorded entry of `value`.

        Returns
        -------
        Addition
        """
        key = (edge[0].number, edge[1])
        array = as_array(value.array if isinstance(value, Tensor) else value)
        before = self._sums.get(key)
        after = contribution
        if before is None:
            self._note_grad(edge)
        else:
            array = as_array(before[1] + array)
            after = self.entries.see(array, "gradient", f"gradient of {self.name(key)}")
        self._sums[key] = (after, array)
        before = None if before is None else before[0]
        tensor = self.tensors.get(key)
        return Addition(tensor, before, contribution, after, self.made_by.get(key[0]))

    def arrive(self, key, value):
        """Record the gradient that the engine passes to a node for one of the node's outputs.

        Parameters
        ----------
        key : (int, int)
            Number of the node, and index of its output.
        value : array or Tensor
            Gradient with respect to this output.

        Returns
        -------
        (Entry, str or None)
            Recorded entry of `value`, and a note if the gradient is unexpected.
        """
        array = as_array(value.array if isinstance(value, Tensor) else value)
        entry, _ = self._sums.pop(key, (None, None))
        name = f"gradient of {self.name(key)}"
        if entry is None:
            return self.entries.see(array, "gradient", name), None
        if entry.values.still(array):  # compare values, because the same array may have changed
            self.entries.remember(array, entry)
            return entry, None
        seen = self.entries.see(array, "gradient", name)
        return seen, (
            f"the {name} that arrived is not the sum of its contributions: a hook replaced it, "
            "or its memory was changed in place"
        )

    def settle(self, tensor):
        """Record that backward created a tensor's `.grad`, or added a gradient to it.

        Returns
        -------
        (Addition, str or None)
            The record, and a note if `.grad` is not its old value plus the new gradient.
        """
        node, index = tensor._edge
        key = (node.number, index)
        before, old = self._grad_before.pop(key[0], (None, None))
        contribution, total = self._sums.pop(key, (None, None))
        after = self.entries.see(tensor.grad, "gradient", f"{self.name(key)}.grad")
        expected = total if old is None or total is None else old + total
        odd = None
        if expected is not None and not _equal(expected, tensor.grad.array):
            odd = f"{self.name(key)}.grad is not its earlier value plus the new gradient"
        contribution = after if contribution is None else contribution
        made_by = self.made_by.get(key[0])
        return Addition(self.tensors.get(key), before, contribution, after, made_by), odd

    def name(self, key):
        """Return the name of the tensor at an edge (number of a node, output index)."""
        entry = self.tensors.get(key)
        return "a tensor from before the recording" if entry is None else entry.name or "a tensor"

    def _note_grad(self, edge):
        """Store the value that a leaf's `.grad` has before this backward pass adds to it."""
        leaf = getattr(edge[0], "tensor", None)
        tensor = leaf() if leaf is not None else None
        if tensor is not None and tensor.grad is not None:
            entry = self.entries.see(tensor.grad, "gradient", "gradient of an earlier pass")
            self._grad_before[edge[0].number] = (entry, tensor.grad.array.copy())


def _equal(a, b):
    a, b = np.asarray(to_host(as_array(a))), np.asarray(to_host(as_array(b)))
    return a.dtype == b.dtype and same(a, b)
