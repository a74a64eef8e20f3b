"""What all pictures share: how a figure is made, its colours, how it is saved."""

import io
import warnings

from ..files import atomic_file

__all__ = ["COLOURS", "new_figure", "save_figure"]

# Okabe and Ito 2008: told apart by colour-blind readers, and in grey by their lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def new_figure(width, height):
    """A matplotlib Figure of this size in inches, outside pyplot: no window, no global state.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure, path, dpi=150):
    """Write a PNG, whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or path
    dpi : int, default 150
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Labels come from any text; a box for a character that the font lacks says enough.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(buffer, format="png", dpi=dpi)
    with atomic_file(path) as file:
        file.write(buffer.getvalue())
