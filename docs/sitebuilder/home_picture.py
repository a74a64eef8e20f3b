"""Picture on the home page: a trained model's attention, and softmax with its backward pass.

    python -m minitorch_attn train dates --out runs/dates
    cd docs && python -m sitebuilder.home_picture ../runs/dates

These commands draw `docs/images/attention.svg`. The repository contains the picture, so building
the site does not require training. A test draws the picture again from the attention weights in the
SVG file, and compares the two pictures.
"""

import inspect
import re
import sys
from html import escape

import minitorch_attn as mt
from minitorch_attn.ops.softmax import Softmax
from minitorch_attn.training import RunFolder
from minitorch_attn.training.recipes import load_recipe

from .names import ROOT

PICTURE = ROOT / "docs" / "images" / "attention.svg"
SOURCE = "12 June 2017, a Monday"  # version 1 of "Attention Is All You Need", arXiv:1706.03762
LAYER = "weights = softmax(query @ key.T / sqrt(d))"

CELL, LEFT, TOP = 19, 52, 44
STYLE = """
.attention { --ink: #1f2328; --quiet: #59636e; --blue: #0969da; --faint: #eef2f6;
  font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) {
  .attention { --ink: #e6edf3; --quiet: #9aa4af; --blue: #58a6ff; --faint: #21262d; } }
html[data-theme="light"] .attention { --ink: #1f2328; --quiet: #59636e; --blue: #0969da;
  --faint: #eef2f6; }
html[data-theme="dark"] .attention { --ink: #e6edf3; --quiet: #9aa4af; --blue: #58a6ff;
  --faint: #21262d; }
.attention text { fill: var(--ink); white-space: pre; }
.attention .quiet { fill: var(--quiet); }
.attention .cell { fill: var(--blue); }
.attention .faint { fill: var(--faint); }
"""


def formulas():
    """Return the formulas of softmax's forward and backward pass, from its docstring."""
    text = inspect.getdoc(Softmax)
    return [re.search(rf"^{name}: +(.+)$", text, re.M)[1] for name in ("Forward", "Backward")]


def verdict():
    """Run the gradient check of softmax; return "ok" or "WRONG"."""
    mt.manual_seed(0)
    x = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
    return "ok" if mt.gradcheck.gradcheck_report(lambda x: mt.softmax(x, -1), (x,)).ok else "WRONG"


def svg(source, answer, weights):
    """Return the picture as SVG; `weights[i]` is the attention of `answer[i]`, in percent."""
    width = LEFT + CELL * len(source) + 12
    bottom = TOP + CELL * len(answer)
    height = bottom + 114
    label = f"Attention weights of a Transformer that reads {source} and writes {answer}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="attention" role="img" '
        f'viewBox="0 0 {width} {height}" aria-label="{escape(label)}">',
        f"<style>{STYLE}</style>",
        _text(LEFT, 13, "reads", "quiet"),
        f'<g transform="translate(14 {TOP}) rotate(-90)">'
        f'<text class="quiet" text-anchor="end">writes</text></g>',
        f'<rect class="faint" x="{LEFT}" y="{TOP}" width="{CELL * len(source)}" '
        f'height="{CELL * len(answer)}"/>',
    ]
    for column, character in enumerate(source):
        parts.append(_text(LEFT + CELL * (column + 0.5), TOP - 7, character, middle=True))
    for row, character in enumerate(answer):
        parts.append(_text(LEFT - 12, TOP + CELL * (row + 0.75), character, middle=True))
        for column, percent in enumerate(weights[row]):
            if percent:
                parts.append(
                    f'<rect class="cell" x="{LEFT + CELL * column}" y="{TOP + CELL * row}" '
                    f'width="{CELL}" height="{CELL}" fill-opacity="{percent / 100:.2f}"/>'
                )
    parts.append(_text(6, bottom + 28, LAYER))
    forward, backward = formulas()
    lines = {"forward": forward, "backward": backward, "gradcheck": verdict()}
    for line, (name, text) in enumerate(lines.items()):
        parts.append(_text(6, bottom + 58 + 22 * line, name, "quiet"))
        parts.append(_text(92, bottom + 58 + 22 * line, text))
    return "\n".join([*parts, "</svg>\n"])


def _text(x, y, text, kind="", middle=False):
    kind = f' class="{kind}"' if kind else ""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}{anchor}>{escape(text)}</text>'


def attention(run, source):
    """Return a trained `dates` model's answer to `source`, and its cross-attention in percent.

    The attention is averaged over the heads. It has one row for each character of the answer.
    """
    folder = RunFolder.open(run)
    recipe = load_recipe("dates")(folder.config["options"])
    _, state = folder.checkpoints.load()
    recipe.model.load_state_dict(state["model"])
    (answer,) = recipe.answers([source])
    heads = recipe.cross_attention(source, answer)  # (heads, target, source)
    return answer, [[round(100 * float(w)) for w in row] for row in heads.mean(0)]


def main(run):
    """Draw the home page's picture from a run folder of `mta train dates`."""
    answer, weights = attention(run, SOURCE)
    PICTURE.write_text(svg(SOURCE, answer, weights), encoding="utf-8")
    print(f"{PICTURE}: {SOURCE} -> {answer}")


if __name__ == "__main__":
    main(*sys.argv[1:])
