"""Attention: the definition, the fused kernels, and the rules that choose between them.

definition.py           step by step; returns the context and the weights. It runs where the weights
                        are needed (`attention_with_weights`: weight hooks, `need_weights=True`),
                        in `attention_composed`, in `mt.trace`, and for second derivatives.
scaled_dot_product.py   the public functions; `kernel_for` chooses the kernel:
  tiled.py              for at least 4,194,304 scores (batch * heads * query * key) and at
                        least 1024 queries and 1024 keys; works tile by tile, in linear memory.
  causal.py             otherwise, for is_causal=True without a mask, if query and key have the
                        same number of tokens, more than 64; skips most masked-out scores.
  fused.py              otherwise; computes all scores at once. Read this kernel first.
sliding_window.py       on images: each position attends to the window around it.
additive.py             the older attention of recurrent networks, with scores from a hidden layer.
arguments.py            checks the arguments, groups the heads and converts masks to tensors.
mask.py                 makes causal masks; converts boolean masks to numbers to add to the scores.
"""

from .scaled_dot_product import attention_composed, scaled_dot_product_attention
from .scaled_dot_product import attention_with_weights as attention_with_weights
from .sliding_window import sliding_window_attention as sliding_window_attention

__all__ = ["attention_composed", "scaled_dot_product_attention"]
