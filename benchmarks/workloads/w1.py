"""W1: training step of a character GPT of the same size as in `mta tour`."""

from . import gpt_step

TITLE = "character GPT step, 4 layers, width 128, context 64, batch 12"
SIZES = dict(layers=4, heads=4, width=128, context=64, batch=12, vocabulary=65)
ENGINES = gpt_step.engines(SIZES)
