"""W2, a character-GPT training step of the size that learns Shakespeare's style."""

from . import gpt_step

TITLE = "character GPT step, 6 layers, width 384, context 256, batch 8"
SIZES = dict(layers=6, heads=6, width=384, context=256, batch=8, vocabulary=65)
ENGINES = gpt_step.engines(SIZES)
