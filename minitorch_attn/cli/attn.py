"""`mta attn`: show the attention weights of each head as a table, a figure and an HTML page."""

from itertools import takewhile
from pathlib import Path

import click
import numpy as np

from .attn_weights import look_at_image, look_at_text
from .console import console, table
from .source_line import Command

__all__ = ["attn", "head_figures"]

_LONGEST = 40  # maximum number of rows; longer tables show one row per layer
_DRAWN = 64  # maximum number of tokens on an axis, so that a figure's labels are readable


@click.command(
    cls=Command, calls="viz/attention.py",
    short_help="Show what each head of a trained model attends to.",
)  # fmt: skip
@click.argument("folder", metavar="RUN_OR_FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option("--text", help="Text for the model to read.")
@click.option(
    "--image",
    type=click.Path(exists=True, dir_okay=False),
    help="Image file for the model to read.",
)
@click.option("--layer", type=click.IntRange(min=0), help="Show only the layer with this number.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Folder for the page and the pictures.  [default: runs/attn/NAME]",
)
def attn(folder, text, image, layer, out):
    """Show what each head of a trained model attends to in a text or an image.

    RUN_OR_FOLDER is a run of `mta train` or `mta tour`, or a folder with published weights. The
    terminal shows a table. attention.html shows all heads with labeled tokens and opens without a
    server or a network. attention.png is a picture of the heads. If a vision model has a class
    token, class_token.png shows what that token attends to.

    Attention layers, heads and tokens are counted from 0, as in the names of a model's modules.
    """
    if (text is None) == (image is None):
        raise click.UsageError("give either --text TEXT or --image FILE")
    look = look_at_image(folder, image) if text is None else look_at_text(folder, text)
    if layer is not None:
        if layer >= len(look.parts):
            raise click.UsageError(f"--layer must be at most {len(look.parts) - 1} for this model")
        look.parts, look.first = look.parts[layer : layer + 1], layer
    screen = console()
    screen.print(look.title + ("" if look.note else "\n"), style="bold")
    if look.note:
        screen.print(look.note + "\n")
    _print_table(look, screen)
    out = Path(out) if out else Path("runs", "attn", Path(folder).resolve().name)
    out.mkdir(parents=True, exist_ok=True)
    screen.print()
    screen.print(table([(str(out / name), meaning) for name, meaning in _write(look, out)]))


def head_figures(weights):
    """Compute statistics of each head's attention weights.

    Parameters
    ----------
    weights : float array of shape (heads, query, key)
        Attention weights. Each row sums to 1.

    Returns
    -------
    list of dict
        "entropy" is the mean entropy of the rows, in nats. "keys" is exp(entropy), the number of
        equally weighted keys with that entropy. "first" is the mean weight of the first key. In
        self-attention, "self" and "before" are the mean weights of the query's own token and of the
        previous token.

    Examples
    --------
    >>> looks_back = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    >>> found = head_figures(looks_back)[0]
    >>> found["keys"], found["first"], found["self"], found["before"]
    (1.0, 1.0, 0.5, 1.0)
    """
    found = []
    for head in np.asarray(weights, dtype="float64"):
        logs = np.log(np.where(head > 0, head, 1.0))
        entropy = float(-(head * logs).sum(-1).mean())
        figures = {"entropy": entropy, "keys": float(np.exp(entropy))}
        if head.shape[0] == head.shape[1]:
            figures["self"] = float(np.diagonal(head).mean())
            figures["before"] = float(np.diagonal(head, -1).mean()) if len(head) > 1 else 0.0
        figures["first"] = float(head[:, 0].mean())
        found.append({name: abs(value) for name, value in figures.items()})
    return found


def _print_table(look, screen):
    """Print a row for each head, or for each layer if there are too many heads."""
    names = ("self", "before", "first")
    titles = {"self": "self", "before": "previous", "first": "[CLS]" if look.prefix else "first"}
    rows = [("layer", "head", "entropy", "keys", *(titles[name] for name in names), "attention")]
    by_head = sum(len(part.weights) for part in look.parts) <= _LONGEST
    for number, part in enumerate(look.parts, look.first):
        figures = head_figures(part.weights)
        shown = figures if by_head else [_mean(figures)]
        for head, values in enumerate(shown):
            rows.append((
                str(number) if head == 0 else "",
                str(head) if by_head else f"0-{len(figures) - 1}",
                f"{values['entropy']:.2f}",
                f"{values['keys']:.1f}",
                *(f"{values[name]:.2f}" if name in values else "" for name in names),
                part.name if head == 0 else "",
            ))  # fmt: skip
    screen.print(table(_aligned(rows)))
    screen.print(
        "\nThe entropy is in nats, and keys = exp(entropy). The other columns are mean weights"
    )
    screen.print("of the token itself, of the previous token and of the first token.")
    for part in look.parts:
        if part.note:
            screen.print(f"{part.name}: {part.note}")
    if not by_head:
        screen.print("Each row is the mean over its heads; --layer N shows the heads of layer N.")


def _mean(figures):
    return {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}


def _aligned(rows):
    """Join all columns except the last into one text column, in which each is right-aligned.

    Return one pair (text, name) for each row. The last column of `rows` contains the names.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        (" ".join(cell.rjust(width + 1) for cell, width in zip(row, widths, strict=False)), row[-1])
        for row in rows
    ]


def _write(look, out):
    """Write the page and the figures, and yield the name and a description of each file."""
    from ..files import atomic_file
    from ..viz.style import save_figure
    from .attn_page import attention_page

    page, left_out = attention_page(look)
    with atomic_file(out / "attention.html") as file:
        file.write(page.encode())
    yield (
        "attention.html",
        "the attention weights of all heads" + (f"; without {left_out}" if left_out else ""),
    )
    figure = _grid(look)
    if figure is not None:
        save_figure(figure, out / "attention.png", dpi=100)
        yield "attention.png", "a picture of the heads"
    if look.image is not None and look.prefix:
        save_figure(_class_token(look), out / "class_token.png", dpi=130)
        yield "class_token.png", "what the class token attends to in the last layer"


def _grid(look):
    """Plot the weights of the last layers. Return None if the labels would be too small."""
    from ..viz import attention_figure, cross_attention_figure

    crossed = [part for part in look.parts if part.kind == "cross"]
    if crossed:
        last = crossed[-1]
        title = f"{last.name}, mean over {len(last.weights)} heads"
        return cross_attention_figure([(last.weights.mean(0), last.keys, last.queries)], title)
    shape = look.parts[-1].weights.shape
    most = max(48 // shape[0], 1)
    parts = list(takewhile(lambda part: part.weights.shape == shape, look.parts[: -most - 1 : -1]))
    if max(shape[1:]) > _DRAWN:
        return None
    maps, first = [part.weights for part in parts[::-1]], look.first + len(look.parts) - len(parts)
    return attention_figure(maps, parts[0].keys, look.title, first)


def _class_token(look):
    from ..viz import class_attention_figure

    maps = [part.weights for part in look.parts if part.kind == "self"]
    maps = [weights for weights in maps if weights.shape[-1] == maps[-1].shape[-1]]
    return class_attention_figure(look.image, maps, look.grid, prefix=look.prefix)
