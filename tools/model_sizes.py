"""Write the table of sizes in docs/models.md: `python -m tools.model_sizes`.

Every published size is built without drawing its weights and walked by a dry run, so the largest
ones take seconds as well.
"""

import re
from pathlib import Path

import minitorch_attn as mt
from minitorch_attn.cli.summary import builders
from minitorch_attn.nn.init import skip_init
from minitorch_attn.nn.summary import Summary
from minitorch_attn.ops import zeros

PAGE = Path(__file__).resolve().parent.parent / "docs" / "models.md"
BEGIN, END = "<!-- sizes: tools/model_sizes.py -->", "<!-- end of sizes -->"
HEAD = ("builder", "parameters", "input", "GFLOPs")

TOKENS = 128
PAIRS = ("bart", "marian", "t5", "transformer")  # builders whose names begin so read two texts
IMAGES = {"deit": 224, "mae": 224, "swin_": 224, "swinv2": 256, "vit": 224}


def rows():
    """(builder, parameters, input, GFLOPs) of every published size."""
    return [row(name) for name in builders()]


def row(name):
    """One line of the table."""
    with skip_init():
        model = getattr(mt.models, name)()
    size = next((size for start, size in IMAGES.items() if name.startswith(start)), None)
    if size is not None:
        inputs, shown = [(1, 3, size, size)], f"{size} x {size}"
    else:
        count = 2 if name.startswith(PAIRS) else 1
        inputs = [zeros(1, TOKENS, dtype="int64")] * count
        shown = " + ".join([str(TOKENS)] * count) + " tokens"
    counted = Summary(model, *inputs)
    return name, f"{counted.parameters:,}", shown, f"{counted.flops / 1e9:,.1f}"


def table():
    """The table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | ---: | --- | ---: |"]
    lines += [f"| `{name}` | " + " | ".join(rest) + " |" for name, *rest in rows()]
    return "\n".join(lines)


def stored(text):
    """The lines of the table in a page: builder -> its line."""
    found = re.search(f"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", text, re.S)[1]
    return {line.split("`")[1]: line for line in found.splitlines() if "`" in line}


def main():
    """Write the table between its two marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
