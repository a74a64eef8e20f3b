"""Parameter names and layouts: convert between stored files and the models in `models/`.

"Stored" names and layouts are the ones in the files of Hugging Face or timm. "Our" names and
layouts are the ones in `models/`. Each model family defines one `NameTable`. Each of its entries
maps a stored name to our name. In an entry, `{}` stands for a number, such as the index of a
layer, that is the same in both names. A tensor without an entry has the same name in both.
"""

import re
from fnmatch import fnmatchcase

from ...backend import array_module
from ...errors import ArgumentError

__all__ = ["Ignored", "NameTable", "Same", "Stacked", "Transposed"]


class Same:
    """Entry for a tensor that is stored unchanged under a different name.

    Parameters
    ----------
    stored, ours : str
        Complete names, or prefixes that end before a dot. After the prefix, both names are equal.
    """

    def __init__(self, stored, ours):
        self.stored, self.ours = stored, [ours]

    def join(self, arrays):
        """Convert a list of our arrays to the stored array."""
        return arrays[0]

    def split(self, array, shapes):
        """Convert a stored array to a list of our arrays."""
        return [array]

    def stored_shape(self, shapes):
        """Return the shape of the stored array, given the shapes of our arrays."""
        return shapes[0]

    def numbers(self, name):
        """Match one of our names with the pattern `ours[0]`, in which `{}` stands for a number.

        Return (the numbers in place of `{}`, the part of the name after the pattern), or None if
        the name does not start with the pattern.
        """
        pattern = re.escape(self.ours[0]).replace(r"\{\}", r"(\d+)")
        found = re.fullmatch(pattern + r"((?:\..+)?)", name)
        return None if found is None else (found.groups()[:-1], found.groups()[-1])


class Transposed(Same):
    """Entry for a matrix that is stored transposed. Vectors are stored unchanged."""

    def join(self, arrays):
        return arrays[0].T

    def split(self, array, shapes):
        return [array.T]

    def stored_shape(self, shapes):
        return shapes[0][::-1]


class Stacked(Same):
    """Entry for several of our tensors that are stored as one concatenated tensor.

    Parameters
    ----------
    stored : str
        Name of the stored tensor, or a prefix as in `Same`.
    ours : list of str
        Our names of the tensors, in the order in which they are concatenated.
    dim : int, default 0
        Axis of our tensors along which they are concatenated.
    transposed : bool, default False
        Whether the concatenated tensor is stored transposed.
    """

    def __init__(self, stored, ours, dim=0, transposed=False):
        self.stored, self.ours, self.dim, self.transposed = stored, list(ours), dim, transposed

    def join(self, arrays):
        whole = array_module(arrays[0]).concatenate(arrays, self.dim)
        return whole.T if self.transposed else whole

    def split(self, array, shapes):
        array = array.T if self.transposed else array
        parts, start = [], 0
        for shape in shapes:
            index = (slice(None),) * self.dim + (slice(start, start + shape[self.dim]),)
            parts.append(array[index])
            start += shape[self.dim]
        return parts

    def stored_shape(self, shapes):
        whole = list(shapes[0])
        whole[self.dim] = sum(shape[self.dim] for shape in shapes)
        return tuple(whole[::-1] if self.transposed else whole)


class Ignored:
    """Name patterns of tensors that files may contain but models ignore. `*` matches any text."""

    def __init__(self, *patterns):
        self.patterns = patterns

    def __contains__(self, name):
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


class NameTable:
    """Table of the parameter names of a model family. The first matching entry is used.

    Parameters
    ----------
    *entries : Same, Transposed, Stacked or Ignored
        Entries of the table. A tensor without an entry is stored unchanged, under the same name.

    Examples
    --------
    >>> import numpy as np
    >>> table = NameTable(Transposed("h.{}.fc", "blocks.{}.linear"))
    >>> ours = {"blocks.2.linear.weight": np.zeros((5, 3)), "norm.weight": np.ones(3)}
    >>> {name: array.shape for name, array in table.to_stored(ours).items()}
    {'h.2.fc.weight': (3, 5), 'norm.weight': (3,)}
    """

    def __init__(self, *entries):
        self.entries = [entry for entry in entries if not isinstance(entry, Ignored)]
        self.ignored = [entry for entry in entries if isinstance(entry, Ignored)]

    def bind(self, names):
        """Map each stored name to its entry and to our names of the tensors that it contains.

        Parameters
        ----------
        names : iterable of str
            Our names.

        Returns
        -------
        dict of str to (entry, list of str)
            For each stored name, its entry and our names of the tensors that it contains.
        """
        names, bound, taken = list(names), {}, set()
        for name in names:
            if name not in taken:
                stored, entry, ours = self._find(name)
                missing = [own for own in ours if own not in names]
                if missing or stored in bound:
                    raise ArgumentError(
                        f"NameTable: the entry for {name} does not match the model's names",
                        got=f"{stored} = {', '.join(ours)}",
                        expected="a stored name that no other entry yields"
                        if stored in bound
                        else f"a model that also has {', '.join(missing)}",
                    )
                bound[stored] = (entry, ours)
                taken.update(ours)
        return bound

    def _find(self, name):
        for entry in self.entries:
            found = entry.numbers(name)
            if found is not None:
                numbers, rest = found
                return (
                    entry.stored.format(*numbers) + rest,
                    entry,
                    [own.format(*numbers) + rest for own in entry.ours],
                )
        return name, Same(name, name), [name]

    def is_ignored(self, stored):
        """Return True if a file may contain this name although the model does not use it."""
        return any(stored in ignored for ignored in self.ignored)

    def to_stored(self, arrays):
        """Convert {our name: our array} to {stored name: stored array}."""
        bound = self.bind(arrays)
        return {
            stored: _joined(entry, [arrays[name] for name in ours])
            for stored, (entry, ours) in bound.items()
        }

    def stored_shapes(self, shapes):
        """Convert {our name: our shape} to {stored name: stored shape}."""
        return {
            stored: tuple(entry.stored_shape([tuple(shapes[name]) for name in ours]))
            for stored, (entry, ours) in self.bind(shapes).items()
        }

    def from_stored(self, arrays, shapes):
        """Convert {stored name: stored array} to {our name: our array}. Missing arrays are omitted.

        Parameters
        ----------
        arrays : dict of array
            Stored arrays with the shapes that `stored_shapes` returns.
        shapes : dict of tuple
            Our shapes, with our names as keys.
        """
        result = {}
        for stored, (entry, ours) in self.bind(shapes).items():
            if stored in arrays:
                parts = entry.split(arrays[stored], [tuple(shapes[name]) for name in ours])
                result.update(zip(ours, parts, strict=True))
        return result


def _joined(entry, arrays):
    return arrays[0] if len(arrays) == 1 and type(entry) is Same else entry.join(arrays)
