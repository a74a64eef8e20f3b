"""The names and layouts of the peers' tensors, and how ours become theirs and back.

A family writes down one table. Each entry says which of the peer's names stands for which of
ours; `{}` in both stands for the same number. A name without an entry is the same on both sides.
"""

import re
from fnmatch import fnmatchcase

from ...backend import array_module
from ...errors import ArgumentError

__all__ = ["Ignored", "NameTable", "Same", "Stacked", "Transposed"]


class Same:
    """One tensor under another name.

    Parameters
    ----------
    peer, ours : str
        Names, or the beginnings of names up to a dot: what follows is the same on both sides.
    """

    def __init__(self, peer, ours):
        self.peer, self.ours = peer, [ours]

    def join(self, arrays):
        """The peer's array from ours."""
        return arrays[0]

    def split(self, array, shapes):
        """Our arrays from the peer's."""
        return [array]

    def peer_shape(self, shapes):
        """The shape of the peer's array."""
        return shapes[0]

    def numbers(self, name):
        """(numbers, rest) if `name` is the first of ours under this entry, else None."""
        pattern = re.escape(self.ours[0]).replace(r"\{\}", r"(\d+)")
        found = re.fullmatch(pattern + r"((?:\..+)?)", name)
        return None if found is None else (found.groups()[:-1], found.groups()[-1])


class Transposed(Same):
    """A matrix that the peer keeps transposed; what has one axis is left as it is."""

    def join(self, arrays):
        return arrays[0].T

    def split(self, array, shapes):
        return [array.T]

    def peer_shape(self, shapes):
        return shapes[0][::-1]


class Stacked(Same):
    """One of the peer's tensors that holds several of ours, one after the other.

    Parameters
    ----------
    peer : str
    ours : list of str
    dim : int, default 0
        The axis of our layout along which they follow each other.
    transposed : bool
        The peer keeps the result transposed.
    """

    def __init__(self, peer, ours, dim=0, transposed=False):
        self.peer, self.ours, self.dim, self.transposed = peer, list(ours), dim, transposed

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

    def peer_shape(self, shapes):
        whole = list(shapes[0])
        whole[self.dim] = sum(shape[self.dim] for shape in shapes)
        return tuple(whole[::-1] if self.transposed else whole)


class Ignored:
    """Names that real files have and no model needs, with `*` for any text."""

    def __init__(self, *patterns):
        self.patterns = patterns

    def __contains__(self, name):
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


class NameTable:
    """All entries of a family, tried in order.

    Parameters
    ----------
    *entries : Same, Transposed, Stacked or Ignored

    Examples
    --------
    >>> import numpy as np
    >>> table = NameTable(Transposed("h.{}.fc", "blocks.{}.linear"))
    >>> ours = {"blocks.2.linear.weight": np.zeros((5, 3)), "norm.weight": np.ones(3)}
    >>> {name: array.shape for name, array in table.to_peer(ours).items()}
    {'h.2.fc.weight': (3, 5), 'norm.weight': (3,)}
    """

    def __init__(self, *entries):
        self.entries = [entry for entry in entries if not isinstance(entry, Ignored)]
        self.ignored = [entry for entry in entries if isinstance(entry, Ignored)]

    def bind(self, names):
        """Which of the peer's names holds which of ours.

        Parameters
        ----------
        names : iterable of str
            Ours.

        Returns
        -------
        dict from the peer's name to (entry, list of our names)
        """
        names, bound, taken = list(names), {}, set()
        for name in names:
            if name not in taken:
                peer, entry, ours = self._find(name)
                missing = [own for own in ours if own not in names]
                if missing or peer in bound:
                    raise ArgumentError(
                        f"the table of names is wrong at {name}.",
                        got=f"{peer} = {', '.join(ours)}",
                        expected="each of our names once" if peer in bound else f"{missing} too",
                    )
                bound[peer] = (entry, ours)
                taken.update(ours)
        return bound

    def _find(self, name):
        for entry in self.entries:
            found = entry.numbers(name)
            if found is not None:
                numbers, rest = found
                return (
                    entry.peer.format(*numbers) + rest,
                    entry,
                    [own.format(*numbers) + rest for own in entry.ours],
                )
        return name, Same(name, name), [name]

    def is_ignored(self, peer):
        """Whether a file may have this name without anyone using it."""
        return any(peer in ignored for ignored in self.ignored)

    def to_peer(self, arrays):
        """The peer's arrays from ours, by name."""
        bound = self.bind(arrays)
        return {
            peer: _joined(entry, [arrays[name] for name in ours])
            for peer, (entry, ours) in bound.items()
        }

    def peer_shapes(self, shapes):
        """The shapes of the peer's arrays from those of ours, by name."""
        return {
            peer: tuple(entry.peer_shape([tuple(shapes[name]) for name in ours]))
            for peer, (entry, ours) in self.bind(shapes).items()
        }

    def from_peer(self, arrays, shapes):
        """Our arrays from the peer's, where the peer has them.

        Parameters
        ----------
        arrays : dict of array
            The peer's, of the shapes that `peer_shapes` gives.
        shapes : dict of tuple
            Ours.
        """
        result = {}
        for peer, (entry, ours) in self.bind(shapes).items():
            if peer in arrays:
                parts = entry.split(arrays[peer], [tuple(shapes[name]) for name in ours])
                result.update(zip(ours, parts, strict=True))
        return result


def _joined(entry, arrays):
    return arrays[0] if len(arrays) == 1 and type(entry) is Same else entry.join(arrays)
