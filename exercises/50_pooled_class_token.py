"""Pooling beside a class token.

MViT pools the tokens of a clip with a window of 3 tokens and a stride of 2. The first token, the
class token, does not belong to any frame. It stays unchanged, and only the tokens of the frames are
pooled:

    y_0 = x_0,   y_i = max(x_j of the frames j = 2 i - 2, ..., 2 i),   i = 1, ..., n / 2

Here x_1, ..., x_n are the frames. A window at an end of the clip covers only frames that exist. The
shape and the gradient are correct. But the class token changes with the frames next to it. Read
which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report
from minitorch_attn.nn import functional as F


def pool_over_time(tokens):
    """Return the maxima over windows of three tokens, with a stride of two."""
    rows = tokens.transpose(1, 2)  # (batch, width, token)
    return F.max_pool1d(rows, 3, stride=2, padding=1).transpose(1, 2)


def pool_clip(x):
    """Pool a clip of 2 m frames, of shape (batch, 1 + 2 m, width), to (batch, 1 + m, width)."""
    pooled = pool_over_time(x)
    first, frames = pooled[:, :1], pooled[:, 1:]
    return mt.cat([first, frames], 1)


if __name__ == "__main__":
    x = mt.randn(2, 1 + 6, 3, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(pool_clip, (x,)).facts())
    clip = mt.tensor([[[5.0], [1.0], [2.0], [9.0], [4.0]]])
    for frame in (1.0, 7.0):
        clip[0, 1] = frame
        found = pool_clip(clip)[0, 0].item()
        print(f"class token 5, first frame {frame}: the class token becomes {found}")
