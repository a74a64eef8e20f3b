"""Style shared by all figures: create figures, choose colors, save figures."""

import io
import warnings
from functools import lru_cache

import numpy as np

from ..backend import is_array, to_host
from ..errors import ShapeError
from ..files import atomic_file
from ..tensor import Tensor

__all__ = ["COLOURS", "check_axes", "host", "new_figure", "save_figure"]

# Okabe and Ito 2008. Color-blind readers can tell the colors apart. They also differ in lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def new_figure(width, height):
    """Create a matplotlib Figure, without the windows and global state of pyplot.

    The size is in inches. A notebook cell that ends with the figure displays it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _picture()(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@lru_cache(maxsize=1)
def _picture():
    """Return the Figure subclass to use. The first call defines it and imports matplotlib."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """Figure that a notebook can show without `%matplotlib inline` or pyplot."""

        def _repr_png_(self):
            return _png(self, dpi=110)

    return Picture


def host(values):
    """Convert a Tensor, an array or a list to a NumPy array.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> host(mt.ones(2, requires_grad=True))
    array([1., 1.], dtype=float32)
    """
    if isinstance(values, Tensor):
        values = values.detach().array
    return to_host(values) if is_array(values) else np.asarray(values)


def check_axes(values, count, where, name, shape):
    """Raise ShapeError if `values` is not an array of numbers with `count` axes.

    Parameters
    ----------
    values : Tensor, array or list
    count : int
        Required number of axes.
    where, name, shape : str
        For the error message: the function's name, the argument's name and the expected shape.
    """
    found = host(values)
    if found.ndim != count or found.dtype.kind not in "biuf":
        raise ShapeError(
            f"{where}: {name} must contain arrays of numbers of shape {shape}",
            got=f"{found.dtype} of shape {found.shape}",
        )


def save_figure(figure, path, dpi=150):
    """Write a figure to a PNG file atomically.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or path
    dpi : int, default 150
    """
    with atomic_file(path) as file:
        file.write(_png(figure, dpi))


def _png(figure, dpi):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Labels may contain any character. If the font does not have it, matplotlib draws a box.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
