"""W1, a character-GPT training step: forward, backward and AdamW at the size of the tour."""

from . import gpt_step

TITLE = "character GPT step, 4 layers, width 128, context 64, batch 12"
COMPARE = ("minitorch_attn", "torch")
SIZES = dict(layers=4, heads=4, width=128, context=64, batch=12, vocabulary=65)


def minitorch_attn():
    return gpt_step.ours(**SIZES)


def minitorch_attn_unsplit():
    return gpt_step.ours(**SIZES, threads=1)


def torch():
    return gpt_step.torch_eager(**SIZES, fused=False)


def torch_fused():
    return gpt_step.torch_eager(**SIZES, fused=True)


ENGINES = {
    "minitorch_attn": minitorch_attn,
    "minitorch_attn_unsplit": minitorch_attn_unsplit,
    "torch_fused": torch_fused,
    "torch": torch,
}
