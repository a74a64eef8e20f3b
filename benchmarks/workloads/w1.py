"""W1, a character-GPT training step: forward, backward and AdamW at the size of the tour."""

from . import gpt_step

TITLE = "character GPT step, 4 layers, width 128, context 64, batch 12"
SIZES = dict(layers=4, heads=4, width=128, context=64, batch=12, vocabulary=65)
ENGINES = gpt_step.engines(SIZES)
