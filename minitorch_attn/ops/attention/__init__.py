"""Attention: the definition, the fused kernels, and the rules that choose between them.

definition.py           computes attention step by step; returns context and weights. It runs if
                        the weights are needed (`attention_with_weights`, for weight hooks and
                        `need_weights=True`), in `attention_composed` and `mt.trace`, and for second
                        derivatives.
scaled_dot_product.py   has the public functions; `kernel_for` takes the first kernel that applies:
  tiled.py              for at least 4,194,304 scores (batch * heads * query * key), with at least
                        1024 queries and 1024 keys; works tile by tile, in linear memory.
  causal.py             for is_causal=True without another mask, if query and key have the same
                        number of tokens, more than 64; skips most of the masked-out scores.
  fused.py              for everything else; computes all scores at once. Read this kernel first.
sliding_window.py       computes attention in images: each position attends to the window around it.
additive.py             scores the keys with a hidden layer, as older recurrent networks do.
arguments.py            checks the arguments, groups the heads and converts masks to tensors.
mask.py                 makes causal masks; converts boolean masks to numbers to add to the scores.
"""

from .scaled_dot_product import attention_composed, scaled_dot_product_attention
from .scaled_dot_product import attention_with_weights as attention_with_weights
from .sliding_window import sliding_window_attention as sliding_window_attention

__all__ = ["attention_composed", "scaled_dot_product_attention"]
