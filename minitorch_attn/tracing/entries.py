"""Which tensor is which: one Entry for each array at each moment that a recording saw it."""

import weakref

from ..backend import is_array, shares_memory
from ..backend.arrays import as_array
from ..nn import Parameter
from ..tensor import Tensor
from .steps import Entry
from .values import Values

__all__ = ["Entries"]

_SMALL = 4096  # numbers that are kept of an array when the memory for whole ones is used up


class Entries(list):
    """All entries of a recording, found again by the identity of their arrays.

    Parameters
    ----------
    keep : int
        The most numbers to keep of one array.
    max_bytes : int
        When so much is kept, only small samples are kept of what comes.
    """

    def __init__(self, keep, max_bytes):
        super().__init__()
        self.keep, self.max_bytes = keep, max_bytes
        self.nbytes = 0
        self.known_names = {}  # id of a parameter's array -> its dotted name
        self._live = {}  # id of an array -> (Entry, weak reference)

    def see(self, value, role, name=None, variables=None):
        """The Entry of a tensor or array; the value itself for numbers and None.

        Parameters
        ----------
        value : Tensor, array, number or None
        role : str
            For an array that is new.
        name : str, optional
        variables : dict of int to str, optional
            id of a tensor -> what the code calls it.

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
            was = found[0].number  # somebody has written into it
        if isinstance(value, Parameter):
            role = "parameter"
        name = self.known_names.get(id(array)) or name or variable
        needs = isinstance(value, Tensor) and value.requires_grad
        return self._called(self._new(array, role, name, needs, was), variable)

    def _called(self, entry, variable):
        """Note what the code calls it; one-letter names and `input` say less than others."""
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
        """Find `entry` again by this array, as long as the array lives."""
        if type(array).__weakrefoffset__:
            key = id(array)
            self._live[key] = (entry, weakref.ref(array, lambda _: self._live.pop(key, None)))

    def link(self, entry, array, others):
        """Note that `entry` lies in the memory of those of `others`, (Entry, array), that it does.

        Returns
        -------
        list of int
            The positions of these in `others`.
        """
        found = []
        for position, (other, theirs) in enumerate(others):
            if other is entry or theirs is array or shares_memory(array, theirs):
                found.append(position)
                if other is not entry and other.number not in entry.shares:
                    entry.shares += [other.number, *other.shares]
        return found
