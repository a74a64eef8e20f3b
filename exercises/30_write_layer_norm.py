"""Write the backward of layer norm.

    u = (x - mean(x)) r,   r = (var(x) + eps)^(-1/2),   y = gamma u + beta

The derivation, with g = dL/dy, h = gamma g, and means over the channels of one token:

    dL/dbeta  = sum of g       over all tokens
    dL/dgamma = sum of g u     over all tokens
    dL/dx     = r (h - mean(h) - u mean(h u))

The two means appear because mean(x) and var(x) depend on x, too. Write `backward`.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report

EPS = 1e-5


class LayerNorm(Function):
    """Normalizes each token to mean 0 and variance 1, then applies a gain and an offset."""

    @staticmethod
    def forward(ctx, x, gamma, beta):
        # x: (batch, token, channel)   gamma and beta: (channel,)
        ctx.save(x, gamma)
        centered = x - x.mean(axis=-1, keepdims=True)
        r = ((centered**2).mean(axis=-1, keepdims=True) + EPS) ** -0.5
        return gamma * centered * r + beta

    @staticmethod
    def backward(ctx, grad_y):
        x, gamma = ctx.saved
        raise NotImplementedError("return grad_x, grad_gamma, grad_beta")


def layer_norm(x, gamma, beta):
    """Compute the layer norm of x along its last axis."""
    return LayerNorm.apply(x, gamma, beta)


if __name__ == "__main__":
    x = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
    gamma, beta = (mt.randn(4, dtype=mt.float64, requires_grad=True) for _ in range(2))
    print(gradcheck_report(layer_norm, (x, gamma, beta)).facts())
