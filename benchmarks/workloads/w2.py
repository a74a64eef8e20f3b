"""W2: training step of a larger character GPT, large enough to imitate Shakespeare's style."""

from . import gpt_step

TITLE = "character GPT step, 6 layers, width 384, context 256, batch 8"
SIZES = dict(layers=6, heads=6, width=384, context=256, batch=8, vocabulary=65)
ENGINES = gpt_step.engines(SIZES)
