"""Entries of a recording: one Entry per array, and a new one after each in-place change."""

import weakref

from ..backend import is_array, shares_memory
from ..backend.arrays import as_array
from ..nn import Parameter
from ..tensor import Tensor
from .steps import Entry
from .values import Values

__all__ = ["Entries"]

_SMALL = 4096  # values to keep per array after the memory limit is reached


class Entries(list):
    """List of the Entry objects of a recording. `see` finds an array's Entry by its identity.

    Parameters
    ----------
    keep : int
        Maximum number of elements to store per array.
    max_bytes : int
        Total size in bytes after which only a small sample of each new array is stored.
    """

    def __init__(self, keep, max_bytes):
        super().__init__()
        self.keep, self.max_bytes = keep, max_bytes
        self.nbytes = 0
        self.known_names = {}  # id of a parameter's array -> its dotted name
        self._live = {}  # id of an array -> (Entry, weak reference)

    def see(self, value, role, name=None, variables=None):
        """Return the Entry for a tensor or array. Numbers and None are returned unchanged.

        Parameters
        ----------
        value : Tensor, array, number or None
        role : str
            Role to assign if the array is new.
        name : str, optional
        variables : dict of int to str, optional
            Names of variables, by the id of the tensor.

        Returns
        -------
        Entry, number or None
        """
        array = as_array(value.array if isinstance(value, Tensor) else value)
        if not is_array(array):
            return value
        variable = None if variables is None else variables.get(id(value))
        found = self._live.get(id(array))
        was = None
        if found is not None:
            if found[0].values.still(array):
                return self._called(found[0], variable)
            was = found[0].number  # the array was changed in place
        if isinstance(value, Parameter):
            role = "parameter"
        name = self.known_names.get(id(array)) or name or variable
        needs = isinstance(value, Tensor) and value.requires_grad
        return self._called(self._new(array, role, name, needs, was), variable)

    def _called(self, entry, variable):
        """Store the name of the variable that holds the tensor of `entry`, and return `entry`.

        An earlier name is kept, unless it is a single letter or `input`.
        """
        if variable is not None:
            poor = entry.variable is None or len(entry.variable) == 1 or entry.variable == "input"
            if poor:
                entry.variable = variable
            if not entry.name:
                entry.name = variable
        return entry

    def _new(self, array, role, name, requires_grad, was=None):
        keep = self.keep if self.nbytes < self.max_bytes else min(self.keep, _SMALL)
        values = Values(array, keep)
        self.nbytes += values.array.nbytes
        entry = Entry(len(self), role, name or "", values, requires_grad, was)
        self.append(entry)
        self.remember(array, entry)
        return entry

    def remember(self, array, entry):
        """Associate `entry` with this array for as long as the array exists."""
        if type(array).__weakrefoffset__:
            key = id(array)
            self._live[key] = (entry, weakref.ref(array, lambda _: self._live.pop(key, None)))

    def link(self, entry, array, others):
        """Record which arrays share memory with `entry`. `others` contains pairs (Entry, array).

        Returns
        -------
        list of int
            Positions in `others` of the arrays that share memory.
        """
        found = []
        for position, (other, other_array) in enumerate(others):
            if other is entry or other_array is array or shares_memory(array, other_array):
                found.append(position)
                if other is not entry and other.number not in entry.shares:
                    entry.shares += [other.number, *other.shares]
        return found
