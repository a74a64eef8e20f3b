"""HTML page of `mta attn`: a single file with the attention weights of all heads."""

import base64
import html
import json
from pathlib import Path

import numpy as np

from .. import __version__

__all__ = ["attention_page", "opening"]

_MOST = 6_000_000  # maximum number of weights on a page, one byte each


def attention_page(look):
    """Create a self-contained HTML page that shows the attention weights of all heads.

    Parameters
    ----------
    look : Look
        Attention weights of one forward pass.

    Returns
    -------
    page : str
    left_out : str
        Text that names the attention layers that do not fit on the page, such as "attention layers
        0 to 3". Empty if all fit.
    """
    from .attn import head_figures

    parts, size = [], 0
    for number, part in reversed(list(enumerate(look.parts, look.first))):
        size += part.weights.size
        if size > _MOST and parts:
            break
        parts.insert(0, _fields(number, part, head_figures(part.weights)))
    last = parts[0]["number"] - 1
    left_out = f"attention layers {look.first} to {last}" if last >= look.first else ""
    data = {
        "title": look.title, "parts": parts, "grid": look.grid, "prefix": look.prefix,
        "picture": _picture(look.image), "start": opening(look.parts[-len(parts) :]),
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    here = Path(__file__).with_name("attn.html").read_text(encoding="utf-8")
    page = here.replace("{title}", html.escape(look.title)).replace("{made_by}", __version__)
    return page.replace("{data}", text), left_out


def opening(parts):
    """Choose the row of weights that the page shows first: neither uniform nor one-hot.

    For a query that attends to n keys, a uniform row (1/n each) shows as little as a one-hot row,
    which has all weight on one key. Each row has a distance to the uniform row and a distance
    to the nearest one-hot row. The function chooses the row for which the smaller of the two is
    largest. The distance between two rows is half the sum of the absolute differences of their
    weights. The distance to the nearest one-hot row is therefore 1 - max(row).

    Parameters
    ----------
    parts : list of Part

    Returns
    -------
    dict
        "part", "head", "row" and "column", counted from 0. The column is that of the row's largest
        weight.

    Examples
    --------
    >>> from .attn_weights import Part
    >>> rows = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.4, 0.1], [0.25, 0.25, 0.25, 0.25]]
    >>> opening([Part("attention", np.array([rows]), list("abcd"), list("abcd"))])
    {'part': 0, 'head': 0, 'row': 2, 'column': 1}
    """
    best, start = -1.0, None
    for number, part in enumerate(parts):
        weights = np.asarray(part.weights, dtype="float64")
        attended = weights > 0
        uniform = attended / np.maximum(attended.sum(-1, keepdims=True), 1)
        from_uniform = np.abs(weights - uniform).sum(-1) / 2  # (head, query)
        distance = np.minimum(from_uniform, 1 - weights.max(-1))
        head, row = np.unravel_index(np.argmax(distance), distance.shape)
        if distance[head, row] > best + 1e-9:  # the first one, if several are equally far
            best = distance[head, row]
            place = {"part": number, "head": int(head), "row": int(row)}
            start = {**place, "column": int(np.argmax(weights[head, row]))}
    return start


def _fields(number, part, figures):
    """Encode one attention layer: each weight is a byte, relative to the head's largest weight."""
    tops = part.weights.max(axis=(1, 2))
    scaled = part.weights / np.where(tops > 0, tops, 1)[:, None, None]
    return {
        "number": number,
        "name": part.name,
        "kind": part.kind,
        "note": part.note,
        "queries": part.queries,
        "keys": part.keys,
        "tops": [round(float(top), 5) for top in tops],
        "heads": [
            base64.b64encode(np.round(255 * head).astype("uint8").tobytes()).decode()
            for head in scaled
        ],
        "figures": [{name: round(value, 4) for name, value in f.items()} for f in figures],
    }


def _picture(image):
    """Encode an image as a PNG data URL."""
    if image is None:
        return None
    import io

    from PIL import Image

    pixels = np.asarray(image, dtype="float64")
    low, high = pixels.min(), pixels.max()
    pixels = np.round(255 * (pixels - low) / (high - low if high > low else 1)).astype("uint8")
    pixels = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
