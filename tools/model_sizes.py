"""Write the table of model sizes in docs/models.md: `python -m tools.model_sizes`.

Each model is built with uninitialized weights and run without computing its matrix products, so
even the largest models take only seconds.
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
PAIRS = ("bart", "marian", "t5", "transformer")  # prefixes of models that read two sequences
IMAGES = {
    "deit": 224,
    "detr": 800,
    "dinov2": 518,
    "lr_net": 224,
    "mae": 224,
    "non_local": 224,
    "resnet": 224,
    "swin_": 224,
    "swinv2": 256,
    "vit": 224,
}


def rows():
    """Return (builder, number of parameters, input, GFLOPs) for each published model size."""
    return [row(name) for name in builders()]


def row(name):
    """Return the table row of one model builder."""
    with skip_init():
        model = getattr(mt.models, name)()
    shape = getattr(model, "input_shape", None)
    size = next((size for start, size in IMAGES.items() if name.startswith(start)), None)
    if shape is not None:
        inputs, shown = [(1, *shape)], " x ".join(map(str, shape[1:]))
    elif name.startswith("clip"):  # an image and a text
        length = model.text.position_embedding.num_embeddings
        inputs = [(1, 3, *model.vision.image_size), zeros(1, length, dtype="int64")]
        shown = " x ".join(map(str, model.vision.image_size)) + f" + {length} tokens"
    elif size is not None:
        inputs, shown = [(1, 3, size, size)], f"{size} x {size}"
    elif name.startswith("uniter"):
        inputs = [zeros(1, TOKENS, dtype="int64"), (1, 36, 2048), (1, 36, 7)]
        shown = f"{TOKENS} tokens + 36 regions"
    elif name.startswith("conformer"):
        inputs, shown = [(1, 1000, 80)], "1,000 frames of 80"
    elif name.startswith("vilt"):
        inputs = [zeros(1, 40, dtype="int64"), (1, 3, 384, 384)]
        shown = "40 tokens + 384 x 384"
    else:
        count = 2 if name.startswith(PAIRS) else 1
        inputs = [zeros(1, TOKENS, dtype="int64")] * count
        shown = " + ".join([str(TOKENS)] * count) + " tokens"
    counted = Summary(model, *inputs)
    return name, f"{counted.parameters:,}", shown, f"{counted.flops / 1e9:,.1f}"


def table():
    """Return the table of model sizes in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | ---: | --- | ---: |"]
    lines += [f"| `{name}` | " + " | ".join(rest) + " |" for name, *rest in rows()]
    return "\n".join(lines)


def stored(text):
    """Read the table of sizes from a page. Return {builder: Markdown line}."""
    found = re.search(f"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", text, re.S)[1]
    return {line.split("`")[1]: line for line in found.splitlines() if "`" in line}


def main():
    """Write the table of model sizes between its markers in docs/models.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
