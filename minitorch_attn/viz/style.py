"""Style shared by all figures: create figures, choose colors, save figures."""

import io
import warnings

from ..files import atomic_file

__all__ = ["COLOURS", "new_figure", "save_figure"]

# Okabe and Ito 2008. Color-blind readers can distinguish the colors; in gray, lightness differs.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def new_figure(width, height):
    """Create a matplotlib Figure (size in inches) without pyplot's windows and global state.

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
    """Write a figure to a PNG file atomically.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or path
    dpi : int, default 150
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Labels may contain any text. A box for a character missing from the font is acceptable.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure.savefig(buffer, format="png", dpi=dpi)
    with atomic_file(path) as file:
        file.write(buffer.getvalue())
