"""Write the backward of window partition.

Swin splits an image into windows, here of 2 rows and 3 columns:

    (batch, height, width, channel) -> (batch * windows, 2, 3, channel)

The windows of an image are ordered row by row. The derivation: every entry of y is one entry of x,
so each gradient entry moves back to the position of that entry. Undo the three steps of `forward`
in reverse order. Height and width can differ.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report

ROWS, COLUMNS = 2, 3


class Windows(Function):
    """Split images into windows."""

    @staticmethod
    def forward(ctx, x):
        batch, height, width, channels = x.shape
        y = x.reshape(batch, height // ROWS, ROWS, width // COLUMNS, COLUMNS, channels)
        y = y.swapaxes(2, 3)  # (batch, window row, window column, 2, 3, channel)
        return y.reshape(-1, ROWS, COLUMNS, channels)

    @staticmethod
    def backward(ctx, grad_y):
        batch, height, width, channels = ctx.shapes[0]
        raise NotImplementedError("dL/dx, of the shape (batch, height, width, channels)")


def windows(x):
    """Split a batch of images into windows."""
    return Windows.apply(x)


if __name__ == "__main__":
    x = mt.randn(2, 4, 9, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(windows, (x,)).facts())
