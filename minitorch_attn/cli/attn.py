"""`mta attn`: what each head looks at, as a table, a picture and a page."""

from pathlib import Path

import click
import numpy as np

from .console import console, table
from .looking import look_at_image, look_at_text

__all__ = ["attn", "head_figures"]

_LONGEST = 40  # rows of the table; more are summed up by layer
_DRAWN = 64  # tokens of the longest axis of a picture with readable labels


@click.command(short_help="Show what each head of a trained model looks at.")
@click.argument("folder", metavar="RUN_OR_FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option("--text", help="What the model is to read.")
@click.option("--image", type=click.Path(exists=True, dir_okay=False), help="What it is to see.")
@click.option("--layer", type=click.IntRange(min=1), help="Only this attention, as numbered.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Where the page and the pictures go.  [default: runs/attn/NAME]",
)
def attn(folder, text, image, layer, out):
    """Show what each head of a trained model looks at, in a text or in a picture.

    RUN_OR_FOLDER is a run of `mta train` or `mta tour`, or a folder with published weights. A
    table goes to the terminal. attention.html holds the grid of all heads with labelled tokens;
    it opens without a server and without a network. attention.png is the same as a picture, and
    for a picture with a class token class_token.png is what that looks at.
    """
    if (text is None) == (image is None):
        raise click.UsageError("give --text TEXT or --image FILE.")
    look = look_at_image(folder, image) if text is None else look_at_text(folder, text)
    if layer is not None:
        if layer > len(look.parts):
            raise click.UsageError(f"--layer: there are {len(look.parts)}.")
        look.parts, look.first = look.parts[layer - 1 : layer], layer
    screen = console()
    screen.print(look.title + "\n", style="bold")
    _print_table(look, screen)
    out = Path(out) if out else Path("runs", "attn", Path(folder).resolve().name)
    out.mkdir(parents=True, exist_ok=True)
    screen.print()
    screen.print(table([(str(out / name), meaning) for name, meaning in _write(look, out)]))


def head_figures(weights):
    """Numbers that describe each head.

    Parameters
    ----------
    weights : float array of shape (heads, query, key)
        Rows that sum to 1.

    Returns
    -------
    list of dict
        "entropy" (nats, mean over the queries), "keys" (exp of it: so many keys looked at alike
        would leave one as unsure), "first" (the mean weight of the first key); where queries are
        keys also "self" and "before", the mean weights of a token itself and of the one before.

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
    """A row for each head, or for each attention where there are many."""
    names = ("self", "before", "first")
    titles = {"self": "itself", "before": "before", "first": "[CLS]" if look.prefix else "first"}
    rows = [("", "head", "entropy", "keys", *(titles[name] for name in names), "attention")]
    by_head = sum(len(part.weights) for part in look.parts) <= _LONGEST
    for number, part in enumerate(look.parts, look.first):
        figures = head_figures(part.weights)
        shown = figures if by_head else [_mean(figures)]
        for head, values in enumerate(shown, 1):
            rows.append((
                str(number) if head == 1 else "",
                str(head) if by_head else f"1-{len(figures)}",
                f"{values['entropy']:.2f}",
                f"{values['keys']:.1f}",
                *(f"{values[name]:.2f}" if name in values else "" for name in names),
                part.name if head == 1 else "",
            ))  # fmt: skip
    screen.print(table(_aligned(rows)))
    screen.print(
        "\nentropy in nats; keys = exp(entropy); then the mean weight of a token on itself,"
    )
    screen.print("on the one before it, and on the first one.")
    for part in look.parts:
        if part.note:
            screen.print(f"{part.name}: {part.note}")
    if not by_head:
        screen.print("Each row is the mean over its heads; --layer N shows the heads of one.")


def _mean(figures):
    return {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}


def _aligned(rows):
    """Numbers to the right under their titles, names to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        (" ".join(cell.rjust(width + 1) for cell, width in zip(row, widths, strict=False)), row[-1])
        for row in rows
    ]


def _write(look, out):
    """(name, meaning) of every file that is written."""
    from ..files import atomic_file
    from ..viz.style import save_figure
    from .attn_page import attention_page

    page, left_out = attention_page(look)
    with atomic_file(out / "attention.html") as file:
        file.write(page.encode())
    yield (
        "attention.html",
        "all heads, cell by cell" + (f"; without {left_out}" if left_out else ""),
    )
    figure = _grid(look)
    if figure is not None:
        save_figure(figure, out / "attention.png", dpi=100)
        yield "attention.png", "the same as a picture"
    if look.image is not None and look.prefix:
        save_figure(_class_token(look), out / "class_token.png", dpi=130)
        yield "class_token.png", "what the class token of the last layer looks at"


def _grid(look):
    """The heads of the attentions of one form; None where labels could not be read."""
    from ..viz import attention_figure, cross_attention_figure

    crossed = [part for part in look.parts if part.kind == "cross"]
    if crossed:
        last = crossed[-1]
        title = f"{last.name}, mean over {len(last.weights)} heads"
        return cross_attention_figure([(last.weights.mean(0), last.keys, last.queries)], title)
    shape = look.parts[-1].weights.shape
    parts = [part for part in look.parts if part.weights.shape == shape]
    if max(shape[1:]) > _DRAWN:
        return None
    parts = parts[-max(48 // shape[0], 1) :]
    return attention_figure([part.weights for part in parts], parts[-1].keys, look.title)


def _class_token(look):
    from ..viz import class_attention_figure

    maps = [part.weights for part in look.parts if part.kind == "self"]
    maps = [weights for weights in maps if weights.shape[-1] == maps[-1].shape[-1]]
    return class_attention_figure(look.image, maps, look.grid, prefix=look.prefix)
