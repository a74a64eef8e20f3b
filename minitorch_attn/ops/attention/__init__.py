"""Attention: the definition, the fused kernels, and the rules that choose between them.

definition.py           step by step, with context and weights as results; runs where the weights
                        are needed (`attention_with_weights`: weight hooks, `need_weights=True`),
                        in `attention_composed`, in `mt.trace`, and for second derivatives.
scaled_dot_product.py   the public functions; `kernel_for` chooses the kernel:
  tiled.py              for at least 4,194,304 scores (batch * heads * query * key) and at
                        least 1024 queries and 1024 keys; works tile by tile, in linear memory.
  causal.py             otherwise, for is_causal=True without a mask and with equally long
                        query and key of more than 64 tokens; skips most of the blocked scores.
  fused.py              otherwise; all scores at once, forward and backward. Read this first.
arguments.py            checks the arguments and converts masks and heads to one form.
mask.py                 makes the causal triangle, and turns boolean masks into numbers to add.
"""

from .scaled_dot_product import attention_composed, scaled_dot_product_attention
from .scaled_dot_product import attention_with_weights as attention_with_weights

__all__ = ["attention_composed", "scaled_dot_product_attention"]
