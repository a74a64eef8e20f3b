"""Mel filters.

A mel band sums the power of a spectrum under a triangle. Triangle m rises from 0 at the point p_m
to 1 at p_(m+1), and falls to 0 at p_(m+2). Each point is the peak of one triangle and an end of its
two neighbors. Triangle m gives frequency f the weight

    w_m(f) = max(0, min((f - p_m) / (p_(m+1) - p_m), (p_(m+2) - f) / (p_(m+2) - p_(m+1))))

The gradient check passes, and a model learns from these bands. But a low tone also appears in bands
that begin above its frequency. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def log_mel(power, points):
    """Return the logarithms of the bands, of shape (batch, frame, mel)."""
    # power: (batch, frame, frequency)   points: (mel + 2,), in units of the frequency step
    points = points.to(power.dtype)
    frequency = mt.arange(power.shape[-1], dtype=power.dtype).unsqueeze(1)
    middle, right = points[1:-1], points[2:]  # (mel,)
    slope = (frequency - middle) / (right - middle)  # (frequency, mel)
    triangles = mt.minimum(1 + slope, 1 - slope).clamp(min=0)
    return (power @ triangles).log()


if __name__ == "__main__":
    power = mt.rand(2, 3, 17, dtype=mt.float64) + 0.5
    points = mt.tensor([0.0, 1.0, 2.0, 4.0, 8.0, 16.0])
    print(gradcheck_report(lambda power: log_mel(power, points), (power.requires_grad_(),)).facts())
    print("\nmel bands of a spectrum of ones, which are the areas of the triangles:")
    print(log_mel(mt.ones(1, 1, 17), points).exp().flatten())
    print("bands of a spectrum of ones with a tone in bin 3:")
    tone = 1 + 10.0 * (mt.arange(17) == 3).to(mt.float32)
    print(log_mel(tone.reshape(1, 1, 17), points).exp().flatten())
