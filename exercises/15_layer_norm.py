"""Layer norm.

    u = (x - mean(x)) / sqrt(var(x) + eps),   y = gamma u + beta

Mean and variance are taken over the channels of one token. In a newly initialized model all
gradients are correct. After some training the gradient of x is wrong. Read the gradcheck report,
then find and fix the one mistake.
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
        inverse = ((centered**2).mean(axis=-1, keepdims=True) + EPS) ** -0.5
        return gamma * centered * inverse + beta

    @staticmethod
    def backward(ctx, grad_y):
        x, gamma = ctx.saved
        centered = x - x.mean(axis=-1, keepdims=True)
        inverse = ((centered**2).mean(axis=-1, keepdims=True) + EPS) ** -0.5
        unit = centered * inverse
        grad_gamma = (grad_y * unit).sum(axis=(0, 1))
        grad_beta = grad_y.sum(axis=(0, 1))
        grad_unit = grad_y
        mean = grad_unit.mean(axis=-1, keepdims=True)
        slope = (grad_unit * unit).mean(axis=-1, keepdims=True)
        grad_x = inverse * (grad_unit - mean - unit * slope)
        return grad_x, grad_gamma, grad_beta


def layer_norm(x, gamma, beta):
    """Compute the layer norm of x along its last axis."""
    return LayerNorm.apply(x, gamma, beta)


if __name__ == "__main__":
    x = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
    gamma, beta = (mt.randn(4, dtype=mt.float64, requires_grad=True) for _ in range(2))
    print(gradcheck_report(layer_norm, (x, gamma, beta)).facts())
