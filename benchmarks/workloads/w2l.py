"""W2L: training step of W2's model on one text of 4,096 characters.

The memory of full attention is quadratic in the length of the text.
"""

from . import gpt_step

TITLE = "character GPT step, 6 layers, width 384, context 4096, batch 1"
SIZES = dict(layers=6, heads=6, width=384, context=4096, batch=1, vocabulary=65)
_engines = gpt_step.engines(SIZES)
for name in ("plain", "unsplit"):  # one text cannot be split over threads
    del _engines[f"minitorch_attn_{name}"]
ENGINES = {
    "minitorch_attn": _engines.pop("minitorch_attn"),
    "minitorch_attn_checkpointed": lambda: gpt_step.ours(**SIZES, checkpointed=True),
    **_engines,
}
