"""What a call can be drawn from: shapes, memory layouts, dtypes, axes, flags.

Hypothesis draws the structure, which it shrinks when a case fails; one drawn seed gives the values.
"""

import numpy as np
from hypothesis import strategies as st

__all__ = ["DType", "Draw", "Operand"]

SIDES = (2, 3, 1, 4, 2, 3, 5, 1, 3, 0)
LAYOUTS = ("plain", "transposed", "sliced", "reversed", "expanded", "plain")
DTYPES = {"f": ("float64",) * 4 + ("float32",), "b": ("bool",),
          "i": ("int64", "int64", "int32", "uint8", "int8", "int16")}  # fmt: skip
TIES = np.array([-3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3])
WILD = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-310, 1e300, -1e300, 0.5, -1.5, 88.0, 710.0])


class DType(str):
    """The name of a dtype: each library gets its own object."""


class Operand:
    """A tensor argument: the host array, with the strides that both libraries get."""

    def __init__(self, host, layout, needs_grad):
        self.host, self.layout = host, layout
        self.needs_grad = needs_grad and host.dtype.kind == "f"

    shape = property(lambda self: self.host.shape)
    ndim = property(lambda self: self.host.ndim)
    dtype = property(lambda self: self.host.dtype)

    def __repr__(self):
        grad = ", grad" if self.needs_grad else ""
        values = f" {self.host.tolist()}" if self.host.size <= 12 else ""
        return f"<{self.dtype} {self.shape} {self.layout}{grad}{values}>"


def laid_out(values, layout):
    """`values` in other memory, with strides as `layout` names them, and what became of them."""
    if layout == "transposed" and values.ndim > 1:
        return np.ascontiguousarray(values.T).T, layout
    if layout == "sliced" and values.ndim:
        room = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 1), values.dtype)
        room[..., 1::2] = values
        return room[..., 1::2], layout
    if layout == "reversed" and values.ndim:
        return np.ascontiguousarray(values[::-1])[::-1], layout
    if layout == "expanded" and values.ndim and values.size:
        axis = int(np.argmax(values.shape))
        first = np.ascontiguousarray(np.take(values, [0], axis))
        strides = [0 if a == axis else s for a, s in enumerate(first.strides)]
        return np.lib.stride_tricks.as_strided(first, values.shape, strides), layout
    return np.array(values, order="C"), "plain"


class Draw:
    """The draws of one call.

    Parameters
    ----------
    draw : callable
        Hypothesis's, of a composite strategy.
    """

    def __init__(self, draw):
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**20)))
        self.wild = False

    # Plain values

    def choice(self, *options):
        return self.draw(st.sampled_from(options))

    def integer(self, low, high):
        return self.draw(st.integers(low, high))

    def flag(self):
        return self.draw(st.booleans())

    def rarely(self):
        """True about once in twelve: for calls that may be wrong."""
        return self.draw(st.integers(0, 11)) == 11

    def number(self, low=-2.0, high=2.0):
        """A Python float, or an int."""
        value = float(self.rng.uniform(low, high))
        return self.choice(round(value, 3), max(int(value), int(np.ceil(low))))

    def some(self, **options):
        """Any of these keyword arguments, as a dict."""
        return {name: value for name, value in options.items() if self.flag()}

    def dtype(self, kinds="f"):
        return DType(self.choice(*[name for kind in kinds for name in DTYPES[kind]]))

    # Shapes and axes

    def shape(self, least=0, most=4, sides=SIDES):
        return tuple([self.choice(*sides) for _ in range(self.integer(least, most))])

    def filled(self, least=0, most=4):
        """A shape without a size of zero."""
        return self.shape(least, most, SIDES[:-1])

    def broadcastable(self, count, most=4, spoil=True):
        """Shapes that broadcast, and now and then some that do not."""
        whole, shapes = self.shape(0, most), []
        for _ in range(count):
            part = whole[self.choice(0, 0, 0, self.integer(0, len(whole))) :]
            shapes.append(tuple([1 if self.integer(0, 3) == 3 else n for n in part]))
        if spoil and self.rarely():
            shapes[-1] = tuple([n + 1 for n in shapes[-1]])
        return shapes

    def axis(self, x, new=0):
        """An axis of x, counted from either end; now and then one that x has not."""
        count = max((x if isinstance(x, int) else x.ndim) + new, 1)
        if self.rarely():
            return self.choice(count, -count - 1)
        return self.integer(-count, count - 1)

    def axes(self, x, none=True, empty=True):
        """One axis, several, all (None), or none at all."""
        kind = self.choice("one", "some", *(["none"] if none else []))
        if kind == "none":
            return None
        if kind == "one":
            return self.axis(x)
        count = max(x.ndim, 1)
        names = self.draw(
            st.lists(st.integers(0, count - 1), unique=not self.rarely(), max_size=3,
                     min_size=0 if empty else 1)
        )  # fmt: skip
        return tuple([a - count if self.flag() else a for a in names])

    # Tensors

    def tensor(self, shape=None, kinds="f", low=-2.0, high=2.0, *, ties=True, grad=None,
               dtype=None, layout=None, strided=True):  # fmt: skip
        """An operand: smooth values, repeated ones and kinks, or (in a wild call) inf and NaN."""
        shape = self.shape() if shape is None else tuple(shape)
        dtype = np.dtype(str(dtype or self.dtype(kinds)))
        if layout is None:
            layout = self.choice(*LAYOUTS) if strided else "plain"
        if not ties and layout == "expanded":
            layout = "plain"
        values = self.values(shape, dtype, low, high, ties and self.integer(0, 3) == 3)
        grad = self.integer(0, 7) != 7 if grad is None else grad
        return Operand(*laid_out(values, layout), grad)

    def values(self, shape, dtype, low, high, ties):
        rng = self.rng
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            least = int(np.ceil(max(low, 0) if dtype.kind == "u" else low))
            return np.asarray(rng.integers(least, int(high) + 1, shape)).astype(dtype)
        if self.wild:
            with np.errstate(over="ignore"):
                return np.asarray(rng.choice(WILD, shape)).astype(dtype)
        if ties:
            inside = TIES[(TIES >= low) & (TIES <= high)]
            inside = inside if inside.size else [low, high]
            return np.asarray(rng.choice(inside, shape)).astype(dtype)
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)

    def pair(self, kinds="f", count=2, most=4, same=False, **options):
        """Operands whose shapes broadcast; each has a dtype of its own unless `same`."""
        shapes = self.broadcastable(count, most)
        if "dtype" not in options:
            options["dtype"] = self.dtype(kinds) if same or self.flag() else None
        return [self.tensor(shape, kinds, **options) for shape in shapes]

    def mask(self, shape):
        return self.tensor(shape, "b")

    def indices(self, shape, size, negative=False, wrong=True):
        """An integer tensor whose elements point into an axis of `size`; rarely, one does not."""
        low, high = (-size if negative else 0), max(size, 1)
        values = np.asarray(self.rng.integers(low, high, shape))
        if wrong and values.size and self.rarely():
            values[(0,) * values.ndim] = self.choice(size, -size - 1)
        return Operand(*laid_out(values, self.choice(*LAYOUTS[:3])), False)
