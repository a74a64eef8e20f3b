"""Centering in DINO.

The center is a running mean of the teacher's outputs. DINO subtracts it from the teacher's output,
so that no entry of the output can be large for every image:

    loss = mean of -sum_k p_k log q_k,
    p = softmax((teacher - center) / 0.04),   q = softmax(student / 0.1)

The gradient check passes. In training, the loss falls to zero, and all images get the same output.
Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def dino_loss(student, teacher, center):
    """Compute the mean loss, of shape ()."""
    # student: (batch, K)   teacher: (batch, K) of float32   center: (K,) of float32
    logits = student - center
    target = (teacher.detach().to(student.dtype) / 0.04).softmax(-1)
    log_q = (logits / 0.1).log_softmax(-1)
    return -(target * log_q).sum(-1).mean()


if __name__ == "__main__":
    student = mt.randn(3, 5, dtype=mt.float64) * 0.1
    teacher, center = mt.randn(3, 5) * 0.1, mt.zeros(5)
    print(gradcheck_report(dino_loss, (student.requires_grad_(), teacher, center)).facts())
    print("\nThe first output of the teacher grows for every image, and so does the center:")
    for mean in (0.0, 1.0, 10.0):
        shift = mean * (mt.arange(5) == 0).to(mt.float32)
        loss = dino_loss(student, teacher + shift, center + shift)
        print(f"mean {mean:4}: loss {loss.item():.4f}, which should not change")
